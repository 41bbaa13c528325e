"""The page of a report as one HTML text, from the templates beside this module."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from naq.files import write_atomically
from naq_paper.experiments.views import BarView, Entry, Label, LineView, Missing, ScatterView, TableView, TextView, View
from naq_paper.report import charts
from naq_paper.report.charts import finite, num
from naq_paper.report.export import csv_text, to_csv
from naq_paper.report.format import (
    AGAINST,
    MARKS,
    Parts,
    clean,
    counted,
    duration,
    legend,
    parts,
    rounded,
    shorten,
    slug,
)
from naq_paper.report.page import Made, Page, Section

_BRIEF = 26  # letters of a label that stays on one line where the page is broad
_PHRASE = 12  # letters from which on words in a column of numbers may wrap on paper
_CROWDED = 9  # columns above which, on paper, what follows a number stands below it


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
    found = parts(entry)  # a remark wraps
    return sum(len(part) + 1 for part in (found.value, found.interval, found.spread, found.against) if part)


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
    kind = _classes("num", entry.rank == 1 and "best", last)
    seeds = f"mean of {entry.seeds} seeds" if entry.seeds > 1 else ""
    made = " ".join(str(places[key]) for key in entry.keys if key in places)
    return Cell(shown, kind, rank=entry.rank, title=seeds, sort=f"{entry.value:.6g}", made=made)


def _classes(*names: str | bool) -> str:
    return " ".join(str(name) for name in names if name)


_LONG = 10  # rows of a table from which on it starts on a printed page of its own, with its heading


def write_page(page: Page, path: str | Path) -> Path:
    """Write the page; a reader sees the old file or the new one."""
    html = render(page)
    return write_atomically(path, lambda temporary: temporary.write_text(html, "utf-8", "replace"))


def render(page: Page) -> str:
    """The page as one HTML text that needs no other file and no network."""
    older = [section for _, sections in page.older for section in sections]
    made = {cell.key: cell for section in (*page.sections, *older) for cell in section.made}
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        anchors=_anchors(page.sections),
        places={key: place for place, key in enumerate(made)},
        cells=_packed(list(made.values())),
        style=_asset("style.css"),
        script=_asset("page.js"),
    )


@cache
def _environment() -> Environment:
    """Templates escape every value; nothing that comes from data is ever marked as markup."""
    environment = Environment(
        loader=PackageLoader("naq_paper.report"),
        autoescape=True,
        undefined=StrictUndefined,
        # before it is escaped; ``Markup`` is what a macro has written already
        finalize=lambda it: clean(it) if isinstance(it, str) and not isinstance(it, Markup) else it,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shorten": shorten, "num": num, "duration": duration, "address": _address}
    known = (
        _blocks, _chart_csv, _chart_rows, _command_words, counted, finite, _is_long, legend, rounded, _sources, to_csv, web_table
    )  # fmt: skip
    environment.globals |= {function.__name__.lstrip("_"): function for function in known}
    kinds = dict(zip([*MARKS, *AGAINST], 2 * ("up", "same", "down")))
    environment.globals |= {"charts": charts, "mark_kinds": kinds}
    return environment


def _asset(name: str) -> Markup:
    """A file of the package, as it is."""
    return Markup(files("naq_paper.report").joinpath("templates", name).read_text(encoding="utf-8"))


def _address(content: str) -> str:
    """A CSV file as an address, so that the page alone is enough to save it."""
    return f"data:text/csv;charset=utf-8,{quote(clean(content))}"


def _packed(made: Sequence[Made]) -> str:
    """The cells as JSON, compressed: most of it is the same in every cell. The page unpacks them when somebody looks."""
    text = json.dumps([asdict(cell) for cell in made], separators=(",", ":"), default=str)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _anchors(sections: Sequence[Section]) -> list[str]:
    """An anchor per section; the second of the same name gets a number."""
    taken: dict[str, int] = {}
    anchors = []
    for section in sections:
        name = slug(section.name)
        taken[name] = taken.get(name, 0) + 1
        anchors.append(name if taken[name] == 1 else f"{name}-{taken[name]}")
    return anchors


def _is_long(section: Section) -> bool:
    return any(isinstance(view, TableView) and len(view.rows) > _LONG for view in section.views)


def _blocks(views: Sequence[View]) -> list[tuple[str, list[View]]]:
    """The views by kind, in their order; charts that follow each other share a row where there is room."""
    kinds = {TableView: "table", LineView: "charts", BarView: "charts", ScatterView: "scatter"}
    by_kind = groupby(views, lambda view: view.kind if isinstance(view, TextView) else kinds[type(view)])
    return [(name, list(found)) for name, found in by_kind]


def _command_words(line: str) -> list[tuple[str, bool]]:
    """The words of a command with the blanks after them, and whether they hold a hyphen: no line may end after ``--``."""
    words = line.split(" ")
    return [(word + (" " if i < len(words) - 1 else ""), "-" in word) for i, word in enumerate(words)]


def _chart_rows(view: LineView | BarView) -> list[list[str]]:
    """The numbers of a chart: a row per place, a column per series."""
    found = [{point.x: point for point in charts.points(series)} for series in view.series]
    places = list(dict.fromkeys(x for points in found for x in points))
    if not any(isinstance(x, str) for x in places):
        places.sort()
    first = {x: points[x].place for points in found for x in points}
    return [[first[x], *(points[x].words if x in points else "–" for points in found)] for x in places]


def _chart_csv(view: LineView | BarView) -> str:
    """The numbers of a chart: a line per point."""
    rows: list[list[Any]] = [["series", getattr(view, "x_label", "") or "group", "value", "low", "high", "source"]]
    for series in view.series:
        source = "paper" if series.paper else "measured"
        rows += [[series.name, p.x, p.y, p.low, p.high, source] for p in charts.points(series)]
    return csv_text(rows)


@dataclass(frozen=True)
class Source:
    """What the cells of a section belong to: ``values`` where they are few, else how many there are."""

    name: str
    values: Sequence[str]
    count: int


def _sources(made: Sequence[Made]) -> list[Source]:
    """The versions of the code and of the data behind a section."""
    found: Mapping[str, list[str]] = {"code": [cell.code for cell in made], "data": [cell.data for cell in made]}
    sources = []
    for name, values in found.items():
        different = [value for value in dict.fromkeys(values) if value]
        if different:
            sources.append(Source(name, different if len(different) <= 2 else [], len(different)))
    return sources
