"""A table of numbers as HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from naq.experiments.views import Entry, Missing, Number, TableView
from naq.report.html import data_address, shorten, tag, text

MARKS = {
    "▲": ("up", "really better than every other of its column"),
    "≈": ("same", "not told apart from the best"),
    "▼": ("down", "really below the best"),
}


_BRIEF = 26
"""Letters of a label that stays on one line where the page is broad."""


def table_html(view: TableView, cells: Mapping[str, int], saved: str, *, files: bool, heading: str = "h3") -> str:
    """The table with its title, legend and downloads.

    Args:
        cells: paths of the cells on the page by key; a number that knows its cells shows them on a click.
        saved: the same table as CSV, for saving.
        files: whether the table's files lie beside the page.
    """
    if not view.rows:
        return tag("p", f"{text(view.title)}: no rows yet.", class_="empty")
    parts = [
        tag("div", _table(view, cells), class_="scroll", tabindex="0", role="region", aria_label=view.title),
        _legend(view),
        tag("p", text(view.note), class_="note") if view.note else "",
    ]
    over = tag("div", tag(heading, text(view.title)), _downloads(view.name, saved, files), class_="bar-over")
    return tag("div", over, *parts, class_="table-view")


def _downloads(name: str, saved: str, files: bool) -> str:
    save = tag("a", "Save CSV", href=data_address(saved, "text/csv"), download=f"{name}.csv")
    if not files:
        return tag("p", save, class_="files")
    links = (
        tag("a", kind, href=quote(f"tables/{name}.{kind}"), title=f"tables/{name}.{kind}")
        for kind in ("csv", "md", "tex")
    )
    return tag("p", save, tag("span", "beside this page: ", ", ".join(links)), class_="files")


def _table(view: TableView, cells: Mapping[str, int]) -> str:
    families = _families(view)
    if families:
        view = _without_first(view)
    ends = _group_ends(view)
    header = _group_row(view) + tag("tr", *(_head(view, i, ends) for i in range(len(view.columns))), class_="columns")
    body: list[str] = []
    for i, row in enumerate(view.rows):
        if families and (i == 0 or families[i] != families[i - 1]):
            body.append(_family_row(families[i], len(view.columns)))
        shown = [_entry(entry, column, view, cells, ends) for column, entry in enumerate(row)]
        if families and isinstance(row[0], str):
            again = tag("span", text(families[i]), class_="family-of")
            shown[0] = tag("th", text(row[0]), again, scope="row", class_="label")
        body.append(tag("tr", *shown))
    wide = "wide" if is_wide(view) else None
    return tag("table", tag("thead", header), tag("tbody", *body), class_=" ".join(filter(None, ["numbers", wide])))


def is_wide(view: TableView) -> bool:
    """Whether the table needs smaller type on paper: about how wide its columns are, by the letters in them."""
    needed = 0.0
    for i, heading in enumerate(view.columns):
        word = max(map(len, heading.split()), default=0)  # headings wrap
        needed += 6.6 * max([word, *(_letters(row[i]) for row in view.rows)]) + 15
    return len(view.columns) > 9 or needed > 690


def _letters(entry: Entry) -> int:
    if isinstance(entry, Missing):
        return len(_short(entry.reason))
    if isinstance(entry, str):
        return len(entry)
    parts = [f"{value:,.{entry.digits}f}" for value in (entry.value, entry.ci, entry.spread) if value is not None]
    return sum(len(part) + 2 for part in parts)


def _families(view: TableView) -> list[str]:
    """The first label of each row, where it gathers rows that follow each other under one heading; else nothing."""
    if view.labels < 2 or not all(isinstance(row[0], str) for row in view.rows):
        return []
    names = [str(row[0]) for row in view.rows]
    starts = [name for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    return names if len(set(starts)) == len(starts) < len(names) else []


def _without_first(view: TableView) -> TableView:
    groups = list(view.groups)
    if groups:
        name, span = groups[0]
        groups[0] = (name, span - 1)
    rows = [row[1:] for row in view.rows]
    return replace(view, columns=view.columns[1:], rows=rows, labels=view.labels - 1, groups=groups)


def _family_row(name: str, columns: int) -> str:
    """A heading over rows; it hides while the table is sorted, and the name stands in each row instead."""
    return tag("tr", tag("th", tag("span", text(name)), colspan=columns, scope="rowgroup"), class_="family")


def _group_ends(view: TableView) -> set[int]:
    """The columns after which a group of columns ends."""
    ends, at = {view.labels - 1}, 0
    for _, span in view.groups:
        at += span
        ends.add(at - 1)
    return ends - {len(view.columns) - 1}


def _group_row(view: TableView) -> str:
    if not view.groups:
        return ""
    heads = []
    for name, span in view.groups:
        if span > 0:
            inner = tag("span", text(name)) if name else ""
            kind = None if name else "blank"
            heads.append(tag("th", inner, colspan=span if span > 1 else None, scope="colgroup", class_=kind))
    rest = len(view.columns) - sum(span for _, span in view.groups)
    if rest > 0:
        heads.append(tag("td", colspan=rest))
    return tag("tr", *heads, class_="groups")


def _head(view: TableView, column: int, ends: set[int]) -> str:
    kinds = ["label" if column < view.labels else "num", "end" if column in ends else ""]
    return tag("th", text(view.columns[column]), scope="col", class_=" ".join(filter(None, kinds)))


def _entry(entry: Entry, column: int, view: TableView, cells: Mapping[str, int], ends: set[int]) -> str:
    kinds = ["end"] if column in ends else []
    if isinstance(entry, Number):
        return _number(entry, cells, kinds)
    if isinstance(entry, Missing):
        shown = tag("span", text(_short(entry.reason)), class_="reason") + _paper(entry.paper, entry.paper_ci)
        return tag("td", shown, class_=" ".join(["num", "none", *kinds]), title=entry.reason)
    brief = ["brief"] if len(entry) <= _BRIEF else []
    if column == 0:
        return tag("th", text(entry), scope="row", class_=" ".join(["label", *brief, *kinds]))
    kinds = ["label", *brief] if column < view.labels else ["num", "phrase"] if len(entry) > 12 else ["num"]
    return tag("td", text(entry), class_=" ".join([*kinds, *(["end"] if column in ends else [])]))


def _number(entry: Number, cells: Mapping[str, int], kinds: list[str]) -> str:
    if not math.isfinite(entry.value):
        return tag("td", "–", class_=" ".join(["num", "none", *kinds]), title="not a number")
    value = f"{entry.value:,.{entry.digits}f}"
    name, meaning = MARKS.get(entry.mark, ("", ""))
    behind = " ".join(str(cells[key]) for key in entry.keys if key in cells)
    parts = [
        tag("span", text(entry.mark), class_=f"mark {name}", title=meaning) if name else "",
        tag("b" if entry.rank == 1 else "u" if entry.rank == 2 else "span", value, class_="value"),
        f" <small>± {entry.ci:,.{entry.digits}f}</small>" if entry.ci is not None else "",
        f' <small class="spread">({entry.spread:,.{entry.digits}f})</small>' if entry.spread is not None else "",
        _paper(entry.paper, entry.paper_ci, entry.digits),
    ]
    seeds = f"mean of {entry.seeds} seeds" if entry.seeds > 1 else None
    kinds = ["num", *(["best"] if entry.rank == 1 else []), *kinds]
    return tag("td", *parts, class_=" ".join(kinds), data_v=f"{entry.value:.6g}", data_k=behind or None, title=seeds)


def _paper(value: float | str | None, ci: float | None, digits: int = 2) -> str:
    if value is None:
        return ""
    shown = (
        text(value)
        if isinstance(value, str)
        else f"{value:,.{digits}f}" + (f" ± {ci:,.{digits}f}" if ci is not None else "")
    )
    return tag("span", "<i>paper</i> ", shown, class_="paper")


def _short(reason: str) -> str:
    """The first words of a reason; all of it is in the tooltip."""
    start = reason.split(":")[0] if len(reason) > 22 else reason
    return shorten(start, 22)


def _legend(view: TableView) -> str:
    """What the marks of this very table mean, in words."""
    entries = [entry for row in view.rows for entry in row]
    numbers = [entry for entry in entries if isinstance(entry, Number)]
    lines = []
    if any(entry.rank for entry in numbers):
        lines.append("<b>bold</b> best and <u>underlined</u> second best of a column")
    used = {entry.mark for entry in numbers}
    lines += [
        f'<span class="mark {name}">{mark}</span> {meaning}' for mark, (name, meaning) in MARKS.items() if mark in used
    ]
    if any(entry.ci is not None for entry in numbers):
        lines.append("± 95 % interval over tasks")
    if any(entry.spread is not None for entry in numbers):
        lines.append("(in parentheses) standard deviation over seeds")
    if any(not isinstance(entry, str) and entry.paper is not None for entry in entries):
        lines.append('<span class="paper"><i>paper</i></span> the number the paper prints')
    return tag("ul", *(tag("li", line) for line in lines), class_="words") if lines else ""


def plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str | tuple[str, str]]], *, labels: int = 1, kind: str = ""
) -> str:
    """A small table of texts, or of (text, tooltip); the columns after ``labels`` hold numbers."""

    def cell(name: str, column: int, entry: str | tuple[str, str]) -> str:
        words, title = (entry, None) if isinstance(entry, str) else entry
        scope = "col" if name == "th" else None
        return tag(name, text(words), scope=scope, class_="num" if column >= labels else "label", title=title)

    head = tag("tr", *(cell("th", i, name) for i, name in enumerate(columns)), class_="columns")
    body = (tag("tr", *(cell("td", i, entry) for i, entry in enumerate(row))) for row in rows)
    table = tag("table", tag("thead", head), tag("tbody", *body), class_=f"numbers {kind}".strip())
    return tag("div", table, class_="scroll")
