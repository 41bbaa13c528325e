"""A table as the page's template needs it: rows, headings and the classes of every cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from naq_paper.experiments.views import Entry, Label, Missing, Number, TableView
from naq_paper.report.format import Parts, parts

_BRIEF = 26
"""Letters of a label that stays on one line where the page is broad."""
_PHRASE = 12
"""Letters from which on words in a column of numbers may wrap on paper."""
_CROWDED = 9
"""Columns above which, on paper, what follows a number stands below it."""


@dataclass(frozen=True)
class Cell:
    """One cell. ``rank`` is that of its number; ``sort`` is what it is sorted by; ``made`` are places of the page's cells behind it."""

    parts: Parts
    kind: str
    heading: bool = False
    rank: int = 0
    title: str = ""
    sort: str = ""
    made: str = ""


@dataclass(frozen=True)
class Row:
    """One row; ``family`` is the first label where rows that follow each other share it, ``first`` of them has it as a heading."""

    cells: Sequence[Cell]
    family: str = ""
    first: bool = False


@dataclass(frozen=True)
class WebTable:
    """``heads`` are (heading, classes, whether the rows are sorted by it), ``groups`` are (heading over columns, how many)."""

    heads: Sequence[tuple[str, str, bool]]
    groups: Sequence[tuple[str, int]]
    rows: Sequence[Row]
    wide: bool
    crowded: bool


def web_table(view: TableView, places: Mapping[str, int]) -> WebTable:
    """The table for the template; ``places`` are those of the page's cells by key."""
    families = _families(view)
    if families:
        view = _without_first_label(view)
    ends = _group_ends(view)
    heads = [
        (heading, _classes("label" if i < view.labels else "num", i in ends and "end"), i == view.sorted_by)
        for i, heading in enumerate(view.columns)
    ]
    rows = []
    for i, row in enumerate(view.rows):
        cells = [_cell(entry, column, view.labels, column in ends, places) for column, entry in enumerate(row)]
        family = families[i] if families else ""
        rows.append(Row(cells, family, bool(families) and (i == 0 or family != families[i - 1])))
    groups = [(heading, span) for heading, span in view.groups if span > 0]
    return WebTable(heads, groups, rows, is_wide(view), len(view.columns) > _CROWDED)


def is_wide(view: TableView) -> bool:
    """Whether the table needs smaller type on paper: about how wide its columns are, by the letters in them."""
    needed = 0.0
    for i, heading in enumerate(view.columns):
        word = max(map(len, heading.split()), default=0)  # headings wrap
        needed += 6.6 * max([word, *(_letters(row[i]) for row in view.rows)]) + 15
    return len(view.columns) > _CROWDED or needed > 690


def _letters(entry: Entry) -> int:
    found = parts(entry)
    return sum(
        len(part) + 1 for part in (found.value, found.interval, found.spread, found.against) if part
    )  # a remark wraps


def _families(view: TableView) -> list[str]:
    """The first label of each row, where it gathers rows that follow each other under one heading; else nothing."""
    if view.labels < 2 or not all(isinstance(row[0], str) for row in view.rows):
        return []
    names = [str(row[0]) for row in view.rows]
    starts = [name for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    return names if len(set(starts)) == len(starts) < len(names) else []


def _without_first_label(view: TableView) -> TableView:
    groups = list(view.groups)
    if groups:
        groups[0] = (groups[0][0], groups[0][1] - 1)
    rows = [row[1:] for row in view.rows]
    by = None if view.sorted_by is None else view.sorted_by - 1
    return replace(view, columns=view.columns[1:], rows=rows, labels=view.labels - 1, groups=groups, sorted_by=by)


def _group_ends(view: TableView) -> set[int]:
    """The columns after which a group of columns ends."""
    ends, at = {view.labels - 1}, 0
    for _, span in view.groups:
        at += span
        ends.add(at - 1)
    return ends - {len(view.columns) - 1}


def _cell(entry: Entry, column: int, labels: int, end: bool, places: Mapping[str, int]) -> Cell:
    shown, last = parts(entry), end and "end"
    if isinstance(entry, Missing):
        return Cell(shown, _classes("num none", last), title=entry.reason)
    if isinstance(entry, str | Label):
        if column < max(1, labels):
            return Cell(shown, _classes("label", len(shown.value) <= _BRIEF and "brief", last), heading=column == 0)
        return Cell(shown, _classes("num", len(shown.value) > _PHRASE and "phrase", last))
    if not math.isfinite(entry.value):
        return Cell(shown, _classes("num none", last), title="not a number")
    return _number(entry, shown, _classes("num", entry.rank == 1 and "best", last), places)


def _number(entry: Number, shown: Parts, kind: str, places: Mapping[str, int]) -> Cell:
    seeds = f"mean of {entry.seeds} seeds" if entry.seeds > 1 else ""
    made = " ".join(str(places[key]) for key in entry.keys if key in places)
    return Cell(shown, kind, rank=entry.rank, title=seeds, sort=f"{entry.value:.6g}", made=made)


def _classes(*names: str | bool) -> str:
    return " ".join(str(name) for name in names if name)
