"""Plots with their title, legend and numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from naq.experiments.views import BarView, LineView, ScatterView, Series
from naq.report.html import data_address, tag, text
from naq.report.palette import COUNT
from naq.report.svg import draw_bars, draw_lines, draw_panel
from naq.report.svg.axes import number, place_text, shown
from naq.report.svg.marks import colours, marker
from naq.report.svg.scatter import look
from naq.report.web_table import plain_table

_MOST_ROWS = 120
_BROAD = 560.0
"""A plot wider than this has a row of the printed page to itself."""


def series_figure(view: LineView | BarView, heading: str = "h3") -> str:
    """Lines or bars."""
    bars = isinstance(view, BarView)
    plot = draw_bars(view) if isinstance(view, BarView) else draw_lines(view)
    if not plot:
        return _empty(view.title)
    legend = _legend(view.series, bars=bars) if len(view.series) > 1 or any(s.paper for s in view.series) else ""
    x_name = "" if isinstance(view, BarView) else view.x_label
    broad = "broad" if float(plot.split('viewBox="0 0 ', 1)[1].split(" ", 1)[0]) > _BROAD else None
    return tag(
        "figure",
        tag(heading, text(view.title)),
        legend,
        tag("div", plot, class_="scroll", tabindex="0", role="region", aria_label=view.title),
        tag("figcaption", text(view.note)) if view.note else "",
        _numbers(view.name, x_name, view.series),
        class_=broad,
    )


def scatter_figure(view: ScatterView, heading: str = "h3") -> str:
    """Clouds side by side under one legend."""
    panels = [(panel, draw_panel(panel, view.groups)) for panel in view.panels]
    if not any(plot for _, plot in panels):
        return _empty(view.title)
    present = sorted({int(group) for panel in view.panels for group in panel.group})
    keys = [
        _key(i, _dot_key(i), view.groups[i] if 0 <= i < len(view.groups) else f"group {i}", short=True) for i in present
    ]
    shown = [
        tag(
            "div",
            tag("h4" if heading == "h3" else "h5", text(p.title)),
            plot or _empty(p.title),
            tag("p", text(p.caption)) if p.caption else "",
            class_="panel-box",
        )
        for p, plot in panels
    ]
    return tag(
        "figure",
        tag(heading, text(view.title)),
        tag("ul", *keys, class_="legend") if len(present) > 1 else "",
        tag("div", *shown, class_="panels"),
        tag("figcaption", text(view.note)) if view.note else "",
        class_="whole",
    )


def _empty(title: str) -> str:
    return tag("p", f"{text(title)}: no numbers to draw yet.", class_="empty")


def _legend(series: Sequence[Series], *, bars: bool) -> str:
    keys = []
    for i, (item, colour) in enumerate(zip(series, colours(series))):
        kind = " paper" if item.paper else ""
        if bars:
            drawn = f'<rect class="bar{kind}" x="6" y="2.5" width="13" height="11" rx="1.5"/>'
        else:
            drawn = f'<path class="line{kind}" d="M1 8H25"/>' + marker(13, 8, colour, hollow=item.paper)
        name = item.name if not item.paper or "paper" in item.name else f"{item.name} (paper)"
        keys.append(_key(i, f'<g class="c{colour}">{drawn}</g>', name, short=bars))
    return tag("ul", *keys, class_="legend")


def _dot_key(group: int) -> str:
    hole = '<path class="hole" stroke-width="4" d="M13 8h.01"/>' if group // COUNT % 4 >= 2 else ""
    return f'<g class="cloud {look(group)}"><path class="points" stroke-width="9" d="M13 8h.01"/>{hole}</g>'


def _key(index: int, drawn: str, name: str, *, short: bool = False) -> str:
    box = 'viewBox="6 0 14 16" width="14"' if short else 'viewBox="0 0 26 16" width="26"'
    sample = f'<svg class="key" {box} height="16" aria-hidden="true">{drawn}</svg>'
    return tag("li", sample, text(name), data_s=index)


def _numbers(name: str, x_name: str, series: Sequence[Series]) -> str:
    """The plot's numbers as a table that opens on a click, and as a file."""
    paths = list(dict.fromkeys(x for item in series for x in item.x))
    if not any(isinstance(x, str) for x in paths):
        paths.sort()
    values = [dict(zip(item.x, range(len(item.x)))) for item in series]
    rows = [
        [place_text(x), *(_cell(item, where.get(x)) for item, where in zip(series, values))] for x in paths[:_MOST_ROWS]
    ]
    names = [s.name if not s.paper or "paper" in s.name else f"{s.name} (paper)" for s in series]
    more = (
        "" if len(paths) <= _MOST_ROWS else tag("p", f"The first {_MOST_ROWS} of {len(paths):,}; all are in the file.")
    )
    file = tag("a", "Save CSV", href=data_address(_csv(x_name, series), "text/csv"), download=f"{name}.csv")
    table = plain_table([x_name, *names], rows)
    return tag(
        "details",
        tag("summary", "Numbers of this plot"),
        table,
        more,
        tag("p", file, class_="files"),
        class_="numbers-of",
    )


def _cell(series: Series, i: int | None) -> str:
    value = number(series.y[i]) if i is not None and i < len(series.y) else None
    if value is None or i is None:
        return "–"
    low, high = (number(side[i]) if i < len(side) else None for side in (series.low, series.high))
    return shown(value) if low is None or high is None else f"{shown(value)} ({shown(low)} to {shown(high)})"


def _csv(x_name: str, series: Sequence[Series]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["series", x_name or "group", "value", "low", "high", "source"])
    for item in series:
        for i, (x, y) in enumerate(zip(item.x, item.y)):
            low, high = (side[i] if i < len(side) else None for side in (item.low, item.high))
            row = ["" if number(v) is None else v for v in (y, low, high)]
            writer.writerow([item.name, x, *row, "paper" if item.paper else "measured"])
    return out.getvalue()
