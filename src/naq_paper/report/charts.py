"""Charts: drawn by matplotlib as SVG whose colours are the page's CSS variables, so they follow light, dark and paper.

Matplotlib draws with codes that are not colours of the page; each is then replaced by a variable.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from html import escape
from itertools import count, pairwise
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from naq_paper.experiments.views import BarView, LineView, ScatterView, Series
from naq_paper.report.format import clean, shorten

COLOURS = 12
"""``--c0`` to ``--c11`` of style.css."""
VARIABLES = {f"#fe00{i:02x}": f"var(--c{i})" for i in range(COLOURS)} | {
    "#fd0001": "var(--soft)", "#fd0002": "var(--grid)", "#fd0003": "var(--axis)"
}  # fmt: skip
SERIES, SOFT, GRID, AXIS = [*VARIABLES][:COLOURS], *[*VARIABLES][COLOURS:]
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "naq", "text.parse_math": False, "font.size": 9.5, "text.color": SOFT,
    "axes.edgecolor": AXIS, "axes.labelcolor": SOFT, "axes.facecolor": "none", "figure.facecolor": "none",
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "grid.color": GRID,
    "xtick.color": AXIS, "ytick.color": AXIS, "xtick.labelcolor": SOFT, "ytick.labelcolor": SOFT,
    "legend.frameon": False, "legend.fontsize": 9, "errorbar.capsize": 2, "lines.markersize": 4.5,
}  # fmt: skip
MARKERS = "os^Dv"
MOST_TICKS, DENSE, SORTED_FROM, LONGEST = 12, 26, 13, 34
"""Places with a tick each; points of a curve, which has a band and no markers; rows from which on the highest is first;
letters of a name."""


def finite(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def colours(series: Sequence[Series]) -> list[int]:
    """A colour per series; the paper's line of a method has the colour of our line of it."""
    paper = r"^paper:? |,? \(?(the )?paper\b.*$"
    names = [re.sub(paper, "", item.name) if item.paper else item.name for item in series]
    ours_first = [name for theirs in (False, True) for item, name in zip(series, names) if item.paper is theirs]
    given = {name: i for i, name in enumerate(dict.fromkeys(ours_first))}
    return [given[name] % COLOURS for name in names]


def draw_chart(view: LineView | BarView | ScatterView) -> str:
    """The chart as one ``svg`` element; "" without any number to draw."""
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a letter that matplotlib's font lacks; the page's has it
        if isinstance(view, ScatterView):
            figure = _scatter(view)
        elif not any(finite(series.y) for series in view.series):
            return ""
        elif isinstance(view, BarView):
            figure = _rows(view)
        else:
            figure = _lines(view)
        return "" if figure is None else _svg(figure, view)


_numbers = count()


def _svg(figure: Figure, view: LineView | BarView | ScatterView) -> str:
    """The drawing as part of a page: without a head, with its own identifiers and the page's colours."""
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|\s*\n\s*", " ", text[text.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg, count=2).replace("xlink:href=", "href=")
    used = set(re.findall(r'(?:url\(#|href="#)([\w-]+)', svg))
    own = f"v{next(_numbers)}-"
    svg = re.sub(r' id="([\w.-]+)"', lambda found: f' id="{own}{found[1]}"' if found[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{own}", svg)
    svg = re.sub(r"(font: [\d.]+px|font-family:) '[^;\"]*", r"\1 system-ui, sans-serif", svg)
    svg = re.sub(r'<defs> <style.*?</style> </defs>| (?:width|height)="[\d.]+pt"', "", svg)
    for code, variable in VARIABLES.items():
        svg = svg.replace(code, variable)
    return svg.replace("<svg ", f'<svg class="plot" role="img" aria-label="{escape(clean(_described(view)))}" ', 1)


def _fit(text: str, most: int) -> str:
    return shorten(clean(text), most)


def _described(view: LineView | BarView | ScatterView) -> str:
    if isinstance(view, ScatterView):
        return f"{view.title}: {', '.join(f'{len(p.x)} points of {p.title}. {p.caption}' for p in view.panels)}"
    found = [(series.name, values) for series in view.series if (values := finite(series.y))]
    parts = [f"{name}: {y[0]:.4g} to {y[-1]:.4g}, highest {max(y):.4g}" for name, y in found]
    return f"{view.title}. {'; '.join(parts)}. All numbers are in the CSV file of this chart."


def _points(series: Series) -> list[tuple[Any, float, list[float]]]:
    """Place, value and the two ends of the interval (or none) of the points that can be drawn."""
    ends = zip(series.low, series.high) if series.low else ((None, None) for _ in series.x)
    return [
        (x, float(y), finite(pair)) for x, y, pair in zip(series.x, series.y, ends) if y is not None and finite([y])
    ]


def _errors(points: Sequence[tuple[Any, float, list[float]]]) -> list[list[float]]:
    return [[abs(y - ends[side]) if len(ends) == 2 else 0.0 for _, y, ends in points] for side in (0, 1)]


def _style(series: Series, colour: int) -> dict[str, Any]:
    hollow = {"markerfacecolor": "none", "linestyle": "--"} if series.paper else {}
    return {"color": SERIES[colour], "marker": MARKERS[colour % len(MARKERS)], **hollow}


def _begin(view: LineView | BarView, height: float) -> tuple[Figure, Any]:
    """A drawing of this height in inches with its legend below."""
    paper = [" (paper)" * (series.paper and "paper" not in series.name) for series in view.series]
    names = [_fit(series.name + theirs, 72) for series, theirs in zip(view.series, paper)]
    names += [f"{clean(name)}: {value:.4g}" for name, value in view.floors.items() if finite([value])]
    columns = max(1, min(4, 80 // (max(map(len, names)) + 5)))
    shown = len(names) > 1 or view.series[0].paper
    figure = Figure(figsize=(5.8, height + shown * 0.2 * -(-len(names) // columns)), layout="constrained")
    axes = figure.subplots()
    lines: list[Any] = [axes.errorbar([], [], [0.0], **_style(*one)) for one in zip(view.series, colours(view.series))]
    if shown:
        lines += [axes.plot([], [], **_floor(place))[0] for place in range(len(names) - len(lines))]
        figure.legend(lines, names, loc="outside lower left", ncols=columns)
    return figure, axes


def _floor(place: int) -> dict[str, Any]:
    return {"color": AXIS, "linestyle": ("--", ":", "-.")[place % 3], "zorder": 0}


def _lines(view: LineView) -> Figure:
    """Values upwards over numbers, or over named levels."""
    figure, axes = _begin(view, 3.3)
    places = list(dict.fromkeys(x for series in view.series for x in series.x))
    named = any(isinstance(x, str) for x in places)
    at = {x: float(i) if named else float(x) for i, x in enumerate(places)}
    apart = sorted(at.values())
    gap = min((b - a for a, b in pairwise(apart)), default=1.0) / 12 if not view.log_x else 0.0
    taken = colours(view.series)
    for series, colour in zip(view.series, taken):
        points = _points(series)
        x, y = [at[place] for place, _, _ in points], [value for _, value, _ in points]
        style = _style(series, colour)
        if len(points) >= DENSE:
            axes.plot(x, y, **style | {"marker": ""})
            axes.fill_between(x, *zip(*(ends or [v, v] for _, v, ends in points)), color=SERIES[colour], alpha=0.15)
        else:
            shifted = [place + gap * (colour - (max(taken) / 2)) / max(1, max(taken)) for place in x]
            axes.errorbar(shifted, y, yerr=_errors(points), linewidth=1.5, elinewidth=1, **style)
    if view.log_x and min(apart) > 0:
        axes.set_xscale("log")
        axes.minorticks_off()
    if named or len(apart) <= MOST_TICKS:
        spread = axes.transData.transform([(place, 0.0) for place in apart])[:, 0] / axes.bbox.width
        texts = [_short(str(place)) if named else f"{place:g}" for place in (places if named else apart)]
        close = [i > 0 and spread[i] - spread[i - 1] < 0.012 * len(texts[i]) + 0.02 for i in range(len(texts))]
        axes.set_xticks(apart, ["" if touching else text for touching, text in zip(close, texts)])
    axes.grid(axis="y")
    axes.set_xlabel(_fit(view.x_label, 70))
    axes.set_ylabel(_fit(view.y_label, 40))
    for place, value in enumerate(finite(view.floors.values())):
        axes.axhline(value, **_floor(place))
    return figure


def _rows(view: BarView) -> Figure:
    """A row per name with dots and whiskers along it."""
    found = [{str(x): (x, y, ends) for x, y, ends in _points(series)} for series in view.series]
    names = list(dict.fromkeys(str(x) for series in view.series for x in series.x))
    if len(names) >= SORTED_FROM:
        names.sort(
            key=lambda name: max((one[name][1] for one in found if name in one), default=-math.inf), reverse=True
        )
    figure, axes = _begin(view, 1.3 + 0.24 * len(names) * max(1.0, 0.45 * len(view.series)))
    for series, one, colour in zip(view.series, found, colours(view.series)):
        points, places = [], []
        for row, name in enumerate(names):
            here = [i for i, other in enumerate(found) if name in other]
            if name in one:
                place = here.index(next(i for i in here if found[i] is one))
                places.append(row + 0.7 * ((place + 0.5) / len(here) - 0.5))
                points.append(one[name])
        style = _style(series, colour) | {"linestyle": ""}
        axes.errorbar([y for _, y, _ in points], places, xerr=_errors(points), elinewidth=1, **style)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x")
    axes.set_xlabel(_fit(view.y_label, 60))
    for place, value in enumerate(finite(view.floors.values())):
        axes.axvline(value, **_floor(place))
    return figure


def _short(name: str) -> str:
    """Long names often differ at their end: they are cut in the middle."""
    name = clean(name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"


def _scatter(view: ScatterView) -> Figure | None:
    """Clouds side by side, both directions in one scale and without ticks: the axes of a projection mean nothing."""
    panels = [panel for panel in view.panels if panel.x]
    if not panels:
        return None
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.7 * lines + 0.25 * len(view.groups) / 2), layout="constrained")
    for axes, panel in zip(figure.subplots(lines, columns, squeeze=False).ravel(), panels):
        for group in sorted(set(panel.group)):
            name = view.groups[group] if 0 <= group < len(view.groups) else f"group {group}"
            there = [i for i, one in enumerate(panel.group) if one == group and finite([panel.x[i], panel.y[i]])[1:]]
            x, y = [panel.x[i] for i in there], [panel.y[i] for i in there]
            marker = MARKERS[group // COLOURS % len(MARKERS)]
            axes.scatter(x, y, s=9, marker=marker, color=SERIES[group % COLOURS], linewidths=0, label=name)
        axes.set_title(_fit(panel.title, 46), fontsize=9.5)
        axes.set_xlabel(_fit(panel.caption, 60), fontsize=8.5)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal", "datalim")
    for axes in figure.axes[len(panels) :]:
        axes.set_axis_off()
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, [_fit(name, 50) for name in names], loc="outside lower left", ncols=columns)
    return figure
