"""The page of a report as one HTML text, from the templates beside this module."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from naq.files import write_atomically
from naq_paper.experiments.views import BarView, LineView, ScatterView, TableView, TextView, View
from naq_paper.report import charts
from naq_paper.report.axes import finite, num
from naq_paper.report.export import csv_text, to_csv
from naq_paper.report.format import AGAINST, MARKS, clean, counted, duration, legend, rounded, shorten, slug
from naq_paper.report.page import Made, Page, Section, ShortPage
from naq_paper.report.tables import web_table

_LONG = 10
"""Rows of a table from which on it starts on a printed page of its own, with its heading."""


def write_page(page: Page | ShortPage, path: str | Path) -> Path:
    """Write the page; a reader sees the old file or the new one."""
    html = render_short(page) if isinstance(page, ShortPage) else render(page)

    def write(temporary: Path) -> None:
        temporary.write_text(html, encoding="utf-8")

    return write_atomically(path, write)


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


def render_short(page: ShortPage) -> str:
    """A short page as one HTML text that needs no other file and no network."""
    template = _environment().get_template("short.html.j2")
    return template.render(
        page=page,
        anchors=_anchors(page.sections),
        places={},
        cells=_packed([]),
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
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shorten": shorten, "num": num, "duration": duration, "address": _address}
    environment.globals |= {
        "blocks": _blocks,
        "charts": charts,
        "chart_csv": _chart_csv,
        "chart_rows": _chart_rows,
        "command_words": _command_words,
        "counted": counted,
        "finite": finite,
        "is_long": _is_long,
        "legend": legend,
        "rounded": rounded,
        "mark_kinds": dict(zip([*MARKS, *AGAINST], 2 * ("up", "same", "down"))),
        "sources": _sources,
        "to_csv": to_csv,
        "web_table": web_table,
    }
    return environment


def _finalized(value: object) -> object:
    """What a template writes, before it is escaped; ``Markup`` is what a macro has written already."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


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

    def kind(view: View) -> str:
        return view.kind if isinstance(view, TextView) else kinds[type(view)]

    return [(name, list(found)) for name, found in groupby(views, kind)]


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
