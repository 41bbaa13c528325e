"""Tables as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naq.errors import OptionError
from naq.files import unescape_cell
from naq_paper.experiments.views import Label, Missing, Number, TableView
from naq_paper.report.export import csv_text, latex_text, to_csv, to_latex, to_markdown, write_tables

FIRST = Number(61.8234, ci=0.712, spread=0.31, seeds=3, paper=83.77, paper_ci=0.96, rank=1, mark="▲")
TABLE = TableView(
    name="full",
    title="Accuracy, % (5 & 10 ways)",
    columns=("method", "episodes", "1-shot", "5-shot", "1-shot"),
    rows=(
        (Label("naq_feat", "cut at 3 epochs"), "NaQ", FIRST, Number(70.0, rank=2, paper="OOM"), Missing(paper=83.5)),
        ("50% #1 {a|b}", "-", Number(-1.5, ci=0.2, mark="▼"), Missing(), "n/a"),
    ),
    labels=2,
    groups=(("", 2), ("debian", 2), ("cora_full", 1)),
    note="Probe_1 only.",
)
PLAIN = TableView("plain", "Times", ("step", "seconds"), (("similarity", Number(1.23456, digits=4)),))


def spanned(line: str) -> int:
    cells = re.split(r"(?<!\\)&", line.removesuffix(r" \\"))
    spans = [re.search(r"\\multicolumn\{(\d+)\}", cell) for cell in cells]
    return sum(int(span[1]) if span else 1 for span in spans)


def balanced(text: str) -> bool:
    depth = 0
    for sign in re.sub(r"\\[\\{}]", "", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth < 0:
            return False
    return depth == 0 and len(re.findall(r"(?<!\\)\$", text)) % 2 == 0


def test_csv_has_a_column_for_everything_that_occurs() -> None:
    first, second = csv.DictReader(io.StringIO(to_csv(TABLE)))
    parts = {
        "method": ("", " remark"), "episodes": ("",), "cora_full 1-shot": ("", " paper", " missing"),
        "debian 1-shot": ("", " ci95", " sd seeds", " seeds", " mark", " paper", " paper ci95"),
        "debian 5-shot": ("", " paper", " missing"),
    }  # fmt: skip
    assert set(first) == {name + part for name, some in parts.items() for part in some}
    assert first["debian 1-shot"] == "61.8234" and first["debian 1-shot seeds"] == "3"
    assert (first["debian 5-shot paper"], first["cora_full 1-shot paper"]) == ("OOM", "83.5")
    assert first["method remark"] == "cut at 3 epochs" and second["debian 5-shot missing"] == "not run"
    assert second["cora_full 1-shot"] == "n/a" and to_csv(PLAIN) == "step,seconds\nsimilarity,1.23456\n"
    assert csv_text([["=1+1", "-0.5", -1, "+x", "＝A1", None]]) == "'=1+1,-0.5,-1,'+x,'＝A1,\n"
    noisy = TableView("t", "t", ("a", "b"), (("x", Number(100 * 0.6182)),))
    assert to_csv(noisy).endswith("x,61.82\n"), "without the noise of binary fractions"


def test_markdown_marks_best_second_and_paper() -> None:
    text = to_markdown(TABLE)
    best = "**61.82 ± 0.71** (0.31) ▲ [paper 83.77 ± 0.96]"
    assert f"| {best} | <u>70.00</u> [paper OOM] | *not run* [paper 83.50] |" in text
    assert r"| naq\_feat (cut at 3 epochs) |" in text and r"| 50% #1 {a\|b} | - | -1.50 ± 0.20 ▼ |" in text
    assert text.startswith("### Accuracy, % (5 &amp; 10 ways)\n\n") and "Probe\\_1 only." in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {6}
    assert text.count("significantly better than every other") == 1


def test_latex_is_balanced_and_has_as_many_entries_as_columns() -> None:
    text = to_latex(TABLE)
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert balanced(text) and len(body) == 4 and {spanned(line) for line in body} == {5} and text.isascii()
    assert r"\multicolumn{2}{c}{debian}" in text and r"\cmidrule(lr){3-4} \cmidrule(lr){5-5}" in text
    assert r"\textbf{61.82 $\pm$ 0.71} (0.31) $\bigtriangleup$ {\scriptsize [paper 83.77 $\pm$ 0.96]}" in text
    assert r"naq\_feat" in text and r"50\% \#1 \{a\textbar{}b\}" in text and "$-$1.50" in text
    assert sorted(re.findall(r"\\begin\{(\w+)\}", text)) == sorted(re.findall(r"\\end\{(\w+)\}", text))
    table = TableView("t", "t", ("a", "b"), (("x", Number(1)), ("[1]", Number(2)), ("*", Number(3))))
    assert "\n{}[1] & 2.00" in to_latex(table) and "\n{}* & 3.00" in to_latex(table), "not read as an argument"
    assert latex_text("é ﬁ 日 α≈") == r"é fi ? $\alpha$$\approx$"


@given(st.text(max_size=40))
def test_any_text_is_safe_in_every_format(text: str) -> None:
    table = TableView("t", text, (text, "n"), ((text, Number(1.0, paper=text)), (text, Missing(text))), note=text)
    latex = to_latex(table)
    assert balanced(latex) and not re.search(r"(?<!\\)[%#~^]", latex)
    assert {spanned(line) for line in latex.splitlines() if line.endswith(r"\\")} == {2}
    markdown = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in markdown} == {3}
    lines = list(csv.reader(io.StringIO(to_csv(table), newline="")))
    assert {len(line) for line in lines} == {len(lines[0])}
    assert unescape_cell(lines[1][0]) == " ".join(text.split()) and not lines[1][0].startswith(("=", "@"))


def test_files_are_written_whole(tmp_path: Path) -> None:
    written = write_tables([TABLE, PLAIN], tmp_path)
    names = [f"tables/{name}.{ending}" for name in ("full", "plain") for ending in ("csv", "md", "tex")]
    assert [path.relative_to(tmp_path).as_posix() for path in written] == names
    assert sorted(tmp_path.rglob("*.*")) == sorted(written)
    assert written[0].read_text(encoding="utf-8") == to_csv(TABLE)


@pytest.mark.parametrize("names", [("../x",), ("a/b",), ("",), ("same", "same")])
def test_names_that_are_not_file_names_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match="named"):
        write_tables([TableView(name, "t", ("a",), ()) for name in names], tmp_path)
    assert not list(tmp_path.iterdir())


def test_rows_and_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OptionError, match="row"):
        to_csv(TableView("t", "t", ("a", "b"), (("x",),)))
    with pytest.raises(OptionError, match="groups"):
        to_latex(TableView("t", "t", ("a", "b"), (), groups=(("x", 3),)))
