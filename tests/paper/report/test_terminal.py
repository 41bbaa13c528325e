"""Tables in the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from naq_paper.cli.terminal import TERMINAL, terminal_table
from naq_paper.experiments.views import Entry, Missing, Number, TableView
from naq_paper.report.format import entry_text


def shown(entry: Entry) -> str:
    return entry_text(entry, TERMINAL)


def plain(entry: Entry) -> str:
    return Text.from_markup(shown(entry)).plain


def test_the_best_is_bold_and_the_second_underlined():
    assert shown(Number(61.0, 0.5, rank=1)) == "[bold]61.00 ± 0.50[/bold]"
    assert shown(Number(60.0, rank=2)) == "[underline]60.00[/underline]"
    assert "[" not in shown(Number(59.0, rank=0))


def test_what_is_missing_and_the_papers_number():
    assert plain(Missing("not run", paper=83.7)) == "not run [paper 83.70]"
    assert plain(Number(61.816, 0.712, 0.3, mark="▲", paper="OOM")) == "61.82 ± 0.71 (0.30) ▲ [paper OOM]"


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/]", "[red]", "a[0]", "[link=x]y[/link]"])
def test_no_name_becomes_markup(name):
    for entry in (name, Missing(name), Number(1.0, paper=name), Missing("not run", paper=name)):
        assert name in plain(entry)
    table = TableView("t", name, [name, "accuracy"], [[name, Number(1.0)]], note=name)
    assert printed(table).count(name) == 4  # title, heading, label, note


def printed(view: TableView) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(terminal_table(view))
    return console.file.getvalue()


def test_a_table_explains_the_signs_it_uses_once_and_no_others():
    text = printed(TableView("t", "T", ["m", "a"], [["x", Number(2.0, 0.1, mark="▲")], ["y", Number(1.0, mark="▼")]]))
    assert text.count("±: 95 % interval over tasks") == 1
    assert text.count("▲: significantly better than every other (p < 0.05, Holm)") == 1
    assert "▼: significantly" in text and "≈" not in text
    assert "±" not in printed(TableView("t", "T", ["m", "a"], [["x", Number(2.0)]]))
