"""Tables as files: CSV for programs, Markdown for a page on the web, LaTeX for a paper."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from naq.errors import OptionError
from naq.experiments.views import Entry, Missing, Number, TableView
from naq.files import write_atomically

_PARTS: dict[str, Callable[[Entry], str]] = {
    "": lambda entry: (
        _exact(entry.value, entry) if isinstance(entry, Number) else entry if isinstance(entry, str) else ""
    ),
    " ci95": lambda entry: _exact(entry.ci, entry) if isinstance(entry, Number) else "",
    " sd seeds": lambda entry: _exact(entry.spread, entry) if isinstance(entry, Number) else "",
    " seeds": lambda entry: str(entry.seeds) if isinstance(entry, Number) and entry.seeds > 1 else "",
    " mark": lambda entry: entry.mark if isinstance(entry, Number) else "",
    " paper": lambda entry: "" if isinstance(entry, str) else _paper(entry, entry.paper),
    " paper ci95": lambda entry: "" if isinstance(entry, str) else _paper(entry, entry.paper_ci),
    " missing": lambda entry: entry.reason if isinstance(entry, Missing) else "",
}
"""Columns of the CSV that one column of a table becomes; those that are empty throughout are left out, the first never."""


def to_csv(table: TableView) -> str:
    """One line per row. A number column ``X`` becomes ``X`` and those of ``X ci95``, ``X sd seeds``, ``X seeds``, ``X mark``,
    ``X paper``, ``X paper ci95`` and ``X missing`` (why there is no number) that occur. Headings of groups go before ``X``."""
    headings = _flat_headings(table)
    columns: list[list[str]] = []
    for index, heading in enumerate(headings):
        entries = [row[index] for row in table.rows]
        for suffix, part in _PARTS.items():
            texts = [_one_line(part(entry)) for entry in entries]
            if suffix == "" or any(texts):
                columns.append([_one_line(heading + suffix), *texts])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(zip(*columns))
    return file.getvalue()


def to_markdown(table: TableView) -> str:
    """Title, table, note and legend. The best is bold, the second underlined, the paper's value in brackets."""
    headings = [_markdown_text(heading) for heading in _flat_headings(table)]
    rule = [":---" if i < table.labels else "---:" for i in range(len(headings))]
    lines = [headings, rule, *([_markdown_entry(entry) for entry in row] for row in table.rows)]
    parts = [f"### {_markdown_text(table.title)}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    parts += [_markdown_text(text) for text in (table.note, legend(table)) if text]
    return "\n\n".join(parts) + "\n"


def to_latex(table: TableView) -> str:
    """A ``table`` environment for a document that loads booktabs; nothing else is needed."""
    _check_rows(table)
    lines = []
    if table.groups:
        lines += _latex_groups(table)
    lines += [_latex_row([latex_text(column) for column in table.columns]), r"\midrule"]
    lines += [_latex_row([_latex_entry(entry) for entry in row]) for row in table.rows]
    caption = ". ".join(latex_text(text).rstrip(".") for text in (table.title, table.note, legend(table)) if text)
    sides = "l" * table.labels + "r" * (len(table.columns) - table.labels)
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{caption}.}}",
            rf"\label{{tab:{re.sub(r'[^A-Za-z0-9:-]+', '-', table.name)}}}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def write_tables(tables: Iterable[TableView], folder: str | Path) -> list[Path]:
    """Write each table as ``tables/NAME.csv``, ``.md`` and ``.tex`` under ``folder``, each file whole or not at all."""
    tables = list(tables)
    names = [table.name for table in tables]
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or names.count(name) > 1:
            raise OptionError(
                f"a table is named {name!r}; expected a name of its own of letters, digits, '.', '_' and '-', as it names files."
            )
    written = []
    for table in tables:
        for ending, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
            path = Path(folder) / "tables" / f"{table.name}.{ending}"
            written.append(write_atomically(path, _writer(text)))
    return written


def _writer(text: str) -> Callable[[Path], None]:
    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8", newline="\n")

    return write


def legend(table: TableView) -> str:
    """What the signs in the table's numbers mean, for those that occur."""
    numbers = [entry for row in table.rows for entry in row if isinstance(entry, Number)]
    marks = {number.mark for number in numbers}
    said = [
        ("± 95 % interval over tasks", any(number.ci is not None for number in numbers)),
        ("in parentheses the standard deviation over seeds", any(number.spread is not None for number in numbers)),
        ("▲ really better than every other", "▲" in marks),
        ("≈ not told apart from the best", "≈" in marks),
        ("▼ really below the best", "▼" in marks),
        ("in brackets the paper's value", any(_has_paper(entry) for row in table.rows for entry in row)),
    ]
    found = "; ".join(text for text, occurs in said if occurs)
    return f"{found[0].upper()}{found[1:]}." if found else ""


def _has_paper(entry: Entry) -> bool:
    return not isinstance(entry, str) and entry.paper is not None


def _check_rows(table: TableView) -> None:
    for row in table.rows:
        if len(row) != len(table.columns):
            raise OptionError(
                f"a row of table {table.name!r} has {len(row)} entries; expected one for each of {len(table.columns)} columns."
            )
    if table.groups and sum(size for _, size in table.groups) != len(table.columns):
        raise OptionError(f"the groups of table {table.name!r} do not span its {len(table.columns)} columns.")


def _flat_headings(table: TableView) -> list[str]:
    """One heading per column, the group's before the column's: files without spans need them apart."""
    _check_rows(table)
    over = [heading for heading, size in table.groups for _ in range(size)] or [""] * len(table.columns)
    return [f"{group} {column}".strip() for group, column in zip(over, table.columns)]


def _one_line(text: str) -> str:
    """A lone carriage return would end a line of CSV unquoted, and any break a row of the other formats."""
    return " ".join(text.split())


def _exact(value: float | None, number: Number) -> str:
    """More digits than are shown, none of them noise of binary fractions."""
    return "" if value is None else repr(round(float(value), number.digits + 4))


def _shown(number: Number) -> tuple[str, str]:
    """``61.82 ± 0.71`` and `` (0.3)``."""
    digits = number.digits
    value = f"{number.value:.{digits}f}" + ("" if number.ci is None else f" ± {number.ci:.{digits}f}")
    return value, "" if number.spread is None else f" ({number.spread:.{max(0, digits - 1)}f})"


def _paper(entry: Number | Missing, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(entry, Number):
        return f"{value:.{entry.digits}f}"
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _paper_beside(entry: Number | Missing) -> str:
    """``83.77 ± 0.96``, or "" where the paper has nothing."""
    interval = _paper(entry, entry.paper_ci)
    return _paper(entry, entry.paper) + (f" ± {interval}" if interval else "")


def _markdown_entry(entry: Entry) -> str:
    if isinstance(entry, str):
        return _markdown_text(entry)
    if isinstance(entry, Missing):
        text = f"*{_markdown_text(entry.reason)}*"
    else:
        value, spread = _shown(entry)
        text = {1: f"**{value}**", 2: f"<u>{value}</u>"}.get(entry.rank, value) + spread
        text += f" {entry.mark}" if entry.mark else ""
    paper = _paper_beside(entry)
    return text + (f" [paper {_markdown_text(paper)}]" if paper else "")


def _markdown_text(text: str) -> str:
    escaped = re.sub(r"([\\|*_`\[\]])", r"\\\1", _one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    '"': "''",
    "<": "$<$",
    ">": "$>$",
    "≈": r"$\approx$",
    "▲": r"$\bigtriangleup$",
    "▼": r"$\bigtriangledown$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "·": r"$\cdot$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$",
    "\N{MICRO SIGN}": r"$\mu$",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}
"""Signs that plain LaTeX has under another name; no package but booktabs is asked for."""


def latex_text(text: str) -> str:
    """Text that LaTeX sets as it reads: every special sign escaped, what its fonts lack reduced to plain letters or ``?``."""
    return "".join(_latex_sign(sign) for sign in _one_line(text))


def _latex_sign(sign: str) -> str:
    if sign in _LATEX:
        return _LATEX[sign]
    if ord(sign) < 0x180:  # the letters of Latin languages, which LaTeX reads as UTF-8
        return sign if sign.isprintable() else ""
    plain = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return "".join(_LATEX.get(letter, letter) for letter in plain) or "?"


def _latex_entry(entry: Entry) -> str:
    if isinstance(entry, str):
        return latex_text(entry)
    if isinstance(entry, Missing):
        text = rf"\textit{{{latex_text(entry.reason)}}}"
    else:
        value, spread = (latex_text(part.replace("-", "−")) for part in _shown(entry))
        text = {1: rf"\textbf{{{value}}}", 2: rf"\underline{{{value}}}"}.get(entry.rank, value)
        text += f" {spread}" if spread else ""
        text += f" {latex_text(entry.mark)}" if entry.mark else ""
    paper = latex_text(_paper_beside(entry))
    return text + (rf" {{\scriptsize [{paper}]}}" if paper else "")


def _latex_row(entries: Sequence[str]) -> str:
    # "{}" keeps a first entry of "[" or "*" from being read as an argument of the "\\" before it
    first = "{}" if entries and entries[0][:1] in ("[", "*") else ""
    return first + " & ".join(entries) + r" \\"


def _latex_groups(table: TableView) -> list[str]:
    spans, rules, start = [], [], 1
    for heading, size in table.groups:
        spans.append(rf"\multicolumn{{{size}}}{{c}}{{{latex_text(heading)}}}")
        if heading:
            rules.append(rf"\cmidrule(lr){{{start}-{start + size - 1}}}")
        start += size
    return [_latex_row(spans), *([" ".join(rules)] if rules else [])]
