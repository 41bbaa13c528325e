"""Tables as files: CSV for programs, Markdown for a page on the web, LaTeX for a paper."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from naq.errors import DataError, OptionError
from naq.files import escape_cell, own_folder, write_atomically
from naq_paper.experiments.views import BarView, Entry, Label, LineView, Missing, Number, ScatterView, TableView
from naq_paper.report.format import Markup, entry_text, legend_text


def write_tables(tables: Iterable[TableView], folder: str | Path) -> list[Path]:
    """Write each table as ``tables/NAME.csv``, ``.md`` and ``.tex`` under ``folder``, each file whole or not at all."""
    tables = list(tables)
    names = [table.name for table in tables]
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or names.count(name) > 1:
            raise OptionError(f"a table is named {name!r}; expected a unique name of letters, digits, '.', '_', '-'.")
    try:
        place = own_folder(Path(folder) / "tables")
    except OSError as error:
        raise DataError(f"cannot write tables: {error.strerror or error}; choose another folder.") from error
    return [
        write_atomically(
            place / f"{table.name}.{ending}",
            lambda path, text=text: path.write_text(text, encoding="utf-8", newline="\n"),  # type: ignore[misc]
        )
        for table in tables
        for ending, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table)))
    ]


def to_csv(table: TableView) -> str:
    """One line per row. A column of numbers becomes several: the value and every one of ``_CSV_PARTS`` that occurs."""
    columns: list[list[str]] = []
    for index, heading in enumerate(_flat_headings(table)):
        for suffix, part in _CSV_PARTS.items():
            texts = [_one_line(part(row[index])) for row in table.rows]
            if suffix == "" or any(texts):
                columns.append([_one_line(heading + suffix), *texts])
    return csv_text(zip(*columns))


def chart_csv(view: LineView | BarView | ScatterView) -> str:
    """The numbers of a chart: a line per point."""
    if isinstance(view, ScatterView):
        points = ((p.title, *one) for p in view.panels for one in zip(p.x, p.y, (view.groups[g] for g in p.group)))
        return csv_text([["panel", "x", "y", "group"], *points])
    rows: list[list[object]] = [["series", getattr(view, "x_label", "") or "group", "value", "low", "high", "source"]]
    for series in view.series:
        source, none = "paper" if series.paper else "measured", [None] * len(series.x)
        columns = zip(series.x, series.y, series.low or none, series.high or none)
        rows += [[series.name, *one, source] for one in columns]
    return csv_text(rows)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as the text of a CSV file that no spreadsheet computes; numbers stay as they are."""
    file = io.StringIO()
    cells = ([cell if _is_number(cell) else escape_cell(str(cell)) for cell in row] for row in rows)
    csv.writer(file, lineterminator="\n").writerows(cells)
    return file.getvalue()


def _is_number(cell: object) -> bool:
    try:
        return cell is None or math.isfinite(float(cell))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _exact(value: float | None, digits: int) -> str:
    """More digits than are shown, none of them noise of binary fractions; "" for what is not a number."""
    return "" if value is None or not math.isfinite(value) else repr(round(float(value), digits + 4))


def _words(entry: Entry) -> str:
    return entry if isinstance(entry, str) else entry.text if isinstance(entry, Label) else ""


def _of_number(read: Callable[[Number], str]) -> Callable[[Entry], str]:
    return lambda entry: read(entry) if isinstance(entry, Number) else ""


def _of_paper(entry: Entry, field: str) -> str:
    value = getattr(entry, field, None)
    if value is None or isinstance(value, str):
        return value or ""
    return _exact(value, entry.digits if isinstance(entry, Number) else 2)


_CSV_PARTS: dict[str, Callable[[Entry], str]] = {
    "": lambda entry: _words(entry) or _of_number(lambda n: _exact(n.value, n.digits))(entry),
    " remark": lambda entry: entry.remark if isinstance(entry, Label) else "",
    " ci95": _of_number(lambda n: _exact(n.ci, n.digits)),
    " sd seeds": _of_number(lambda n: _exact(n.spread, n.digits)),
    " seeds": _of_number(lambda n: str(n.seeds) if n.seeds > 1 else ""),
    " mark": _of_number(lambda n: n.mark),
    " against smooth": _of_number(lambda n: n.against),
    " paper": lambda entry: _of_paper(entry, "paper"),
    " paper ci95": lambda entry: _of_paper(entry, "paper_ci"),
    " missing": lambda entry: entry.reason if isinstance(entry, Missing) else "",
}
"""Columns of the CSV for one of a table; those that are empty throughout are left out, the first never."""


def to_markdown(table: TableView) -> str:
    """Title, table, note and legend. The best is bold, the second underlined, the paper's value in brackets."""
    headings = [_markdown_text(heading) for heading in _flat_headings(table)]
    rule = [":---" if i < table.labels else "---:" for i in range(len(headings))]
    lines = [headings, rule, *([entry_text(entry, MARKDOWN) for entry in row] for row in table.rows)]
    parts = [f"### {_markdown_text(table.title)}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    parts += [_markdown_text(text) for text in (table.note, legend_text(table)) if text]
    return "\n\n".join(parts) + "\n"


def _markdown_text(text: str) -> str:
    escaped = re.sub(r"([\\|*_`\[\]])", r"\\\1", _one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


MARKDOWN = Markup(_markdown_text, "**%s**", "<u>%s</u>", "*%s*", "[paper %s]")


def to_latex(table: TableView) -> str:
    """A ``table`` environment for a document that loads booktabs; nothing else is needed."""
    _check_rows(table)
    lines = _latex_groups(table) if table.groups else []
    lines += [_latex_row([latex_text(column) for column in table.columns]), r"\midrule"]
    lines += [_latex_row([entry_text(entry, _LATEX) for entry in row]) for row in table.rows]
    words = (table.title, table.note, legend_text(table))
    caption = ". ".join(latex_text(text).rstrip(".") for text in words if text)
    sides = "l" * table.labels + "r" * (len(table.columns) - table.labels)
    label = re.sub(r"[^A-Za-z0-9:-]+", "-", table.name)
    head = [r"\begin{table}[t]", r"\centering", rf"\caption{{{caption}.}}", rf"\label{{tab:{label}}}"]
    head += [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
    return "\n".join([*head, *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


_LATEX_SIGNS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}", '"': "''",
    "<": "$<$", ">": "$>$", "≈": r"$\approx$", "▲": r"$\bigtriangleup$", "▼": r"$\bigtriangledown$", "±": r"$\pm$",
    "×": r"$\times$", "−": "$-$", "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\rightarrow$", "·": r"$\cdot$", "–": "--",
    "—": "---", "…": r"\dots{}", "’": "'", "‘": "`", "“": "``", "”": "''",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$", "\N{MICRO SIGN}": r"$\mu$",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}  # fmt: skip
"""Signs that plain LaTeX has under another name; no package but booktabs is needed."""


def latex_text(text: str) -> str:
    """Text that LaTeX sets as it reads: special signs escaped, what its fonts lack as plain letters or ``?``."""
    return "".join(_latex_sign(sign) for sign in _one_line(text))


def _latex_sign(sign: str) -> str:
    if sign in _LATEX_SIGNS:
        return _LATEX_SIGNS[sign]
    if ord(sign) < 0x180:  # the letters of Latin languages, which LaTeX reads as UTF-8
        return sign if sign.isprintable() else ""
    plain = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return "".join(_LATEX_SIGNS.get(letter, letter) for letter in plain) or "?"


_LATEX = Markup(
    lambda text: latex_text(re.sub(r"^-(?=\d)", "−", text)),  # a number's minus is a minus, not a hyphen
    r"\textbf{%s}",
    r"\underline{%s}",
    r"\textit{%s}",
    r"{\scriptsize [paper %s]}",
)


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


def _check_rows(table: TableView) -> None:
    for row in table.rows:
        if len(row) != len(table.columns):
            columns = len(table.columns)
            raise OptionError(
                f"a row of table {table.name!r} has {len(row)} entries; expected one for each of {columns} columns."
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
