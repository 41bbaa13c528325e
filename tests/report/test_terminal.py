"""Tables in the terminal."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console
from rich.text import Text

from naq.experiments.views import Missing, Number, TableView
from naq.report.terminal import entry_text, terminal_table


def plain(markup: str) -> str:
    return Text.from_markup(markup).plain


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("TENT", "TENT"),
        (Number(61.816), "61.82"),
        (Number(61.816, 0.712), "61.82 ± 0.71"),
        (Number(61.816, 0.712, mark="▲", paper=76.4), "61.82 ± 0.71 ▲ (paper 76.40)"),
        (Number(1234.5, digits=0), "1,234"),
        (Number(0.25, digits=3, paper=0.1 + 0.2), "0.250 (paper 0.300)"),
        (Number(math.nan, 0.1), "–"),
        (Missing(), "not run"),
        (Missing("failed: out of memory", paper="OOM"), "failed (paper OOM)"),
        (Missing("not run", paper=83.7), "not run (paper 83.70)"),
    ],
)
def test_every_kind_of_entry_in_words(entry, shown):
    assert plain(entry_text(entry)) == shown


def test_the_best_is_bold_and_the_second_underlined():
    assert entry_text(Number(61.0, 0.5, rank=1)).startswith("[bold]61.00[/bold] ±")
    assert entry_text(Number(60.0, rank=2)) == "[underline]60.00[/underline]"
    assert "[" not in entry_text(Number(59.0, rank=0))


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/]", "[red]", "a[0]", "[link=x]y[/link]"])
def test_no_name_becomes_markup(name):
    for entry in (name, Missing(name), Number(1.0, paper=name), Missing("not run", paper=name)):
        assert name in plain(entry_text(entry))
    table = TableView("t", name, [name, "accuracy"], [[name, Number(1.0)]], note=name)
    assert printed(table).count(name) == 4  # title, heading, label, note


def printed(view: TableView) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(terminal_table(view))
    return console.file.getvalue()


def test_a_table_explains_the_signs_it_uses_and_no_others():
    shown = printed(TableView("t", "T", ["m", "a"], [["x", Number(2.0, 0.1, mark="▲")], ["y", Number(1.0, mark="▼")]]))
    assert "± 95 % interval over tasks" in shown and "▲ really better" in shown and "▼ really below" in shown
    assert "≈" not in shown
    assert "±" not in printed(TableView("t", "T", ["m", "a"], [["x", Number(2.0)]]))
