"""The page of a report as one HTML text, from the templates of this package."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from naq.files import write_atomically
from naq_paper.cells.records import Record
from naq_paper.experiments.views import BarView, Entry, Label, LineView, Missing, ScatterView, TableView, TextView, View
from naq_paper.report.charts import draw_chart
from naq_paper.report.export import chart_csv, to_csv
from naq_paper.report.format import (
    AGAINST,
    MARKS,
    Parts,
    clean,
    count_words,
    duration,
    legend,
    machine_words,
    parts,
    shorten,
    slug,
)
from naq_paper.report.page import Report, Section

_BRIEF = 26  # letters of a label that stays on one line on a broad screen
_PHRASE = 12  # letters from which on words in a column of numbers may wrap on paper
_WIDE = 9  # columns above which a table has smaller type on paper
_LONG = 10  # rows of a table from which on it starts on a new printed page, with its heading


PLAIN = "version 1"  # of code that no version above 1 had a part in


@dataclass(frozen=True)
class TableCell:
    """An entry for the template: ``sort`` is its value; ``made`` are places of the page's cells behind it."""

    parts: Parts
    kind: str
    rank: int = 0
    title: str = ""
    sort: str = ""
    made: str = ""


def table_cells(view: TableView, places: Mapping[str, int]) -> list[list[TableCell]]:
    """The rows of a table; ``places`` are those of the page's cells by key."""
    ends, at = {view.labels - 1}, 0
    for _, span in view.groups:
        at += span
        ends.add(at - 1)
    ends.discard(len(view.columns) - 1)
    return [
        [_table_cell(entry, column < max(1, view.labels), column in ends, places) for column, entry in enumerate(row)]
        for row in view.rows
    ]


def _table_cell(entry: Entry, label: bool, end: bool, places: Mapping[str, int]) -> TableCell:
    shown, last = parts(entry), " end" if end else ""
    if isinstance(entry, Missing):
        return TableCell(shown, f"num none{last}", title=entry.reason)
    if isinstance(entry, str | Label):
        length = len(shown.value)
        kind = "label" + " brief" * (length <= _BRIEF) if label else "num" + " phrase" * (length > _PHRASE)
        return TableCell(shown, kind + last)
    if not math.isfinite(entry.value):
        return TableCell(shown, f"num none{last}", title="not a number")
    seeds = f"mean of {entry.seeds} seeds" if entry.seeds > 1 else ""
    made = " ".join(str(places[key]) for key in entry.keys if key in places)
    kind = "num" + " best" * (entry.rank == 1) + last
    return TableCell(shown, kind, entry.rank, seeds, f"{entry.value:.6g}", made)


def write_page(page: Report, path: str | Path) -> Path:
    """Write the page; a reader sees the old file or the new one."""
    html = render(page)
    return write_atomically(path, lambda temporary: temporary.write_text(html, "utf-8", "replace"))


def render(page: Report) -> str:
    """The page as one HTML text that needs no other file and no network."""
    older = [section for _, sections in page.older for section in sections]
    made = {record.key: record for section in (*page.sections, *older) for record in section.made}
    # most of the cells' JSON is the same in every cell; the page unpacks it when somebody looks
    text = json.dumps([how_made(record) for record in made.values()], separators=(",", ":"), default=str)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            anchors=_anchors(page.sections),
            places={key: place for place, key in enumerate(made)},
            cells=base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
            style=_asset("style.css"),
            script=_asset("page.js"),
        )
    )


def how_made(record: Record) -> dict[str, Any]:
    """What the page says of a cell."""
    config, machine = record.cell.config, record.machine
    return {
        "key": record.key,
        "title": record.cell.title,
        "config": {"measurement": record.cell.measurement, **config},
        "seed": config.get("seed"),
        "data": record.identity.data,
        "code": record.identity.versions or PLAIN,
        "versions": machine.get("versions", {}),
        "machine": machine_words(machine),
        "seconds": record.seconds,
        "finished": record.finished,
    }


@cache
def _environment() -> Environment:
    """Templates escape every value; of what comes from data only drawings are markup, which escape it themselves."""
    environment = Environment(
        loader=PackageLoader("naq_paper.report"),
        autoescape=True,
        undefined=StrictUndefined,
        # before it is escaped; ``Markup`` is what a macro has written already
        finalize=lambda it: clean(it) if isinstance(it, str) and not isinstance(it, Markup) else it,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shorten": shorten, "duration": duration}
    environment.filters["address"] = lambda csv: f"data:text/csv;charset=utf-8,{quote(clean(csv))}"
    known = _blocks, chart_csv, _command_words, count_words, legend, _sources, table_cells, to_csv
    environment.globals |= {function.__name__.lstrip("_"): function for function in known}
    environment.globals["drawing"] = lambda view: Markup(draw_chart(view))
    environment.globals["is_long"] = lambda it: any(len(getattr(view, "rows", ())) > _LONG for view in it.views)
    kinds = dict(zip([*MARKS, *AGAINST], 2 * ("up", "same", "down")))
    environment.globals |= {"mark_kinds": kinds, "most_columns": _WIDE}
    return environment


def _asset(name: str) -> Markup:
    """A file of the package, as it is."""
    return Markup(files("naq_paper.report").joinpath("templates", name).read_text(encoding="utf-8"))


def _anchors(sections: Sequence[Section]) -> list[str]:
    """An anchor per section; the second of the same name gets a number."""
    taken: dict[str, int] = {}
    anchors = []
    for section in sections:
        name = slug(section.name)
        taken[name] = taken.get(name, 0) + 1
        anchors.append(name if taken[name] == 1 else f"{name}-{taken[name]}")
    return anchors


def _blocks(views: Sequence[View]) -> list[tuple[str, list[View]]]:
    """The views by kind, in their order; charts that follow each other share a row if there is room."""
    kinds = {TableView: "table", LineView: "charts", BarView: "charts", ScatterView: "scatter"}
    by_kind = groupby(views, lambda view: view.kind if isinstance(view, TextView) else kinds[type(view)])
    return [(name, list(found)) for name, found in by_kind]


def _command_words(line: str) -> list[tuple[str, bool]]:
    """The words of a command with the blanks after them, and whether they hold a hyphen, where no line ends."""
    words = line.split(" ")
    return [(word + (" " if i < len(words) - 1 else ""), "-" in word) for i, word in enumerate(words)]


def _sources(made: Sequence[Record]) -> list[dict[str, Any]]:
    """The versions of the code and of the data behind a section: the values if they are one or two, else how many."""
    identities = [record.identity for record in made]
    found = {"code": [one.versions or PLAIN for one in identities], "data": [one.data for one in identities]}
    different = {name: list(dict.fromkeys(filter(None, values))) for name, values in found.items()}
    return [
        {"name": name, "values": values if len(values) <= 2 else [], "count": len(values)}
        for name, values in different.items()
        if values
    ]
