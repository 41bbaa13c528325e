"""Charts, laid out here and written as SVG by ``templates/chart.html.j2``; colours are the page's, so they follow light, dark and paper.

Over numbers there are lines with whiskers; over names there is a row per name, with dots and whiskers along it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.ticker import LogLocator, MaxNLocator

from naq_paper.experiments.views import BarView, LineView, Panel, ScatterView, Series
from naq_paper.report.format import rounded, shorten, with_interval

Scale = Callable[[float], float]


def finite(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def num(value: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def text_width(text: str) -> float:
    """About how wide a text is; on the generous side, for fonts differ."""
    broad = [c in "mwMW@%—&" or ord(c) > 0x2E80 for c in text]
    return 13 * sum(0.38 if c in "iljtfrI.,:;|!()[]'` -/" else 0.95 if wide else 0.64 for c, wide in zip(text, broad))


def covering_ticks(values: Sequence[float]) -> list[float]:
    """Round ticks from at or below the least value to at or above the greatest."""
    low, high = min(values), max(values)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = low - (abs(low) * 0.1 or 1.0), high + (abs(high) * 0.1 or 1.0)
    return [float(tick) for tick in MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]


def place_ticks(places: Sequence[float], x: Scale, log: bool) -> list[float]:
    """Ticks under the x axis: the places themselves where they are few, else round numbers between the first and the last."""
    low, high = places[0], places[-1]
    fit = log or len(spaced(places, x)) == len(places)
    if fit and len(places) <= _MOST_PLACES:
        return list(places)
    locator = LogLocator(numticks=8) if log else MaxNLocator(5, steps=[1, 2, 4, 5, 10])
    return [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high] or [low, high]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Ticks with the same number of decimals, as few as tell them apart."""
    digits = max(len(f"{tick:.10f}".rstrip("0").partition(".")[2]) for tick in ticks)
    return [f"{tick:,.{digits}f}".replace("-", "−") for tick in ticks]


def spaced(ticks: Sequence[float], at: Scale) -> list[tuple[float, str]]:
    """Places and texts of the ticks, from the first on, without those that would touch the one before."""
    kept: list[tuple[float, str]] = []
    for place, text in zip(map(at, ticks), tick_texts(ticks)):
        if not kept or place - kept[-1][0] > (text_width(text) + text_width(kept[-1][1])) / 2 + 8:
            kept.append((place, text))
    return kept


def scale(low: float, high: float, start: float, end: float, log: bool = False) -> Scale:
    """From values to coordinates; a range of one value is in the middle."""
    mapped: Callable[[float], float] = math.log10 if log else float
    if low == high:
        return lambda value: (start + end) / 2
    return lambda value: start + (mapped(value) - mapped(low)) / (mapped(high) - mapped(low)) * (end - start)


COLOURS, SHAPES = 12, 6  # ``.c0`` to ``.c11`` of style.css; markers ``#m0`` to ``#m5`` of the page
# A field of lines, one of rows, a line of text; in units of the view box, where text is 13 high.
WIDTH, HEIGHT, ROW_WIDTH, LINE = 410.0, 230.0, 275.0, 16.0
SIDE, MARGIN = 320.0, 14.0  # of a cloud of points
_STEP, _PAD = 11.0, 12.0  # height of a dot's line in a row, and the air in a row
_SORTED_FROM = 13  # rows from which on the highest is put first
_LONGEST = 26  # letters of a row's name; all of them are in its tooltip
_DENSE = 26  # points from which on a line has a band and no markers: it is a curve
_MOST_PLACES = 12  # on the x axis, up to which each has its tick

Pair = tuple[float, float]


@dataclass(frozen=True)
class Point:
    """One point of a series; ``x`` is a place in words or a number."""

    x: float | str
    y: float | None
    low: float | None
    high: float | None

    @property
    def place(self) -> str:
        if isinstance(self.x, str):
            return self.x
        return f"{self.x:,.0f}" if float(self.x).is_integer() else f"{self.x:g}"

    @property
    def words(self) -> str:
        """The value with its interval."""
        return "–" if self.y is None else with_interval(self.y, self.low, self.high)


@dataclass(frozen=True)
class Label:
    """A line of text with its baseline at ``y``."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = ""
    title: str = ""


@dataclass(frozen=True)
class Dot:
    """A marker, the path of its whisker, and its tooltip."""

    x: float
    y: float
    whisker: str
    title: str


@dataclass(frozen=True)
class Trace:
    """What is drawn of the series at ``index``; ``line`` and ``band`` are paths."""

    index: int
    name: str
    colour: int
    paper: bool
    line: str
    band: str
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Chart:
    """``rules`` are (class, path); ``words`` say what there is to those who cannot see it."""

    width: float
    height: float
    words: str
    rules: Sequence[tuple[str, str]]
    labels: Sequence[Label]
    traces: Sequence[Trace]


@dataclass(frozen=True)
class Cloud:
    """The points of one group as one path of zero-length strokes."""

    group: int
    name: str
    count: int
    path: str


def points(series: Series) -> list[Point]:
    """The points of a series that have a place; a value that is not finite counts as missing."""

    return [
        Point(x, *(next(iter(finite(side[i : i + 1])), None) for side in (series.y, series.low, series.high)))
        for i, x in enumerate(series.x)
        if isinstance(x, str) or math.isfinite(x)
    ]


def legend_name(series: Series) -> str:
    """The name of a series; it says so where the numbers are the paper's."""
    return series.name if not series.paper or "paper" in series.name else f"{series.name} (paper)"


def colours(series: Sequence[Series]) -> list[int]:
    """A colour per series; the paper's line of a method has the colour of our line of it."""
    paper = r"^paper:? |,? \(?(the )?paper\b.*$"
    names = [re.sub(paper, "", item.name) if item.paper else item.name for item in series]
    ours_first = [name for theirs in (False, True) for item, name in zip(series, names) if item.paper is theirs]
    given = {name: i for i, name in enumerate(dict.fromkeys(ours_first))}
    return [given[name] for name in names]


def draw_chart(view: LineView | BarView) -> Chart | None:
    """The chart, or None where there is no number to draw."""
    found = [points(series) for series in view.series]
    if not any(p.y is not None for line in found for p in line):
        return None
    values = finite(v for line in found for p in line for v in (p.y, p.low, p.high))
    ticks = covering_ticks([*values, *finite(view.floors.values())])
    if isinstance(view, BarView) or any(isinstance(p.x, str) for line in found for p in line):
        return _rows(view, found, ticks)
    return _lines(view, found, ticks)


def _rows(view: LineView | BarView, found: Sequence[Sequence[Point]], ticks: Sequence[float]) -> Chart:
    """A row per place, values from left to right; the lines of a ``LineView`` lead from row to row."""
    names = list(dict.fromkeys(p.place for line in found for p in line))
    there = [{p.place: p for p in line if p.y is not None} for line in found]
    connected = isinstance(view, LineView)
    if not connected and len(names) >= _SORTED_FROM:
        highest = {name: max(finite(one[name].y for one in there if name in one), default=-math.inf) for name in names}
        names.sort(key=lambda name: highest[name], reverse=True)
    top = 30.0 if connected else 8.0
    left = 14 + max(text_width(_row_name(name)) for name in names)
    value = scale(ticks[0], ticks[-1], left + 8, left + ROW_WIDTH - 8)
    labels, rules, bottom = [], [], top
    placed: list[list[tuple[float, Point | None]]] = [[] for _ in view.series]
    for name in names:
        here = [i for i, one in enumerate(there) if name in one]
        height = _PAD + _STEP * max(1, len(here))
        middle, bottom = bottom + height / 2, bottom + height
        labels.append(Label(left - 8, middle + 4.5, _row_name(name), "end", title=name))
        rules.append(("grid", f"M{num(left)} {num(bottom)}h{num(ROW_WIDTH)}"))
        for i, one in enumerate(there):
            line = middle + _STEP * (here.index(i) - (len(here) - 1) / 2) if i in here else middle
            placed[i].append((line, one.get(name)))
    shown = spaced(ticks, value)
    rules += [("grid", f"M{num(x)} {num(top)}V{num(bottom)}") for x, _ in shown]
    rules += _floors(view, lambda v: f"M{num(value(v))} {num(top)}V{num(bottom)}")
    labels += [Label(x, bottom + LINE, words, "middle") for x, words in shown]
    labels.append(Label(left + ROW_WIDTH / 2, bottom + 2.2 * LINE, shorten(view.y_label, 50), "middle", "axis-name"))
    if isinstance(view, LineView):
        labels.append(Label(4, 14, shorten(view.x_label, 60), kind="axis-name"))
    pen = _Pen(lambda line, v: (value(v), line), cap=(0, 3.5), connected=connected)
    traces = [pen.trace(i, *one) for i, one in enumerate(zip(view.series, colours(view.series), placed))]
    return Chart(left + ROW_WIDTH + 14, bottom + 2.7 * LINE, _described(view), rules, labels, traces)


def _lines(view: LineView, found: Sequence[Sequence[Point]], ticks: Sequence[float]) -> Chart:
    """Values upwards over numbers."""
    words = tick_texts(ticks)
    left, top = 14 + max(map(text_width, words)), 30.0
    bottom = top + HEIGHT
    value = scale(ticks[0], ticks[-1], bottom, top)
    places = sorted({float(p.x) for line in found for p in line if p.y is not None})
    log, dense = view.log_x and places[0] > 0, max(map(len, found)) >= _DENSE
    x = scale(places[0], places[-1], left + 14, left + WIDTH - 14, log)
    below = place_ticks(places, x, log)
    rules = [("grid", f"M{num(left)} {num(value(tick))}h{num(WIDTH)}") for tick in ticks]
    rules.append(("axis", f"M{num(left)} {num(bottom)}h{num(WIDTH)}"))
    rules += [("axis", f"M{num(x(tick))} {num(bottom)}v5") for tick in below]
    rules += _floors(view, lambda v: f"M{num(left)} {num(value(v))}h{num(WIDTH)}")
    labels = [Label(left - 8, value(tick) + 4.5, text, "end") for tick, text in zip(ticks, words)]
    labels += [Label(at, bottom + 6 + LINE, text, "middle") for at, text in spaced(below, x)]
    labels.append(Label(4, 14, shorten(view.y_label, 60), kind="axis-name"))
    labels.append(Label(left + WIDTH / 2, bottom + 2.5 * LINE, shorten(view.x_label, 50), "middle", "axis-name"))
    # Whiskers at one place stand a little apart where there is room; curves do not.
    taken = colours(view.series)
    slots = max(taken) + 1
    room = min((x(b) - x(a) for a, b in pairwise(places)), default=60.0)
    gap = 0.0 if dense else min(5.0, 0.35 * room / slots, 24.0 / slots)
    pen = _Pen(lambda at, v: (at, value(v)), cap=(3.5, 0), dense=dense)
    traces = []
    for i, (series, colour, line) in enumerate(zip(view.series, taken, found)):
        shift = gap * (colour + (0.4 if series.paper else 0.0) - (slots - 1) / 2)
        ordered = sorted(line, key=lambda p: float(p.x))
        traces.append(pen.trace(i, series, colour, [(x(float(p.x)) + shift, p) for p in ordered]))
    return Chart(left + WIDTH + 12, bottom + 2.5 * LINE + 8, _described(view), rules, labels, traces)


def _row_name(name: str) -> str:
    """Long names often differ at their end: they are cut in the middle."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[1 - _LONGEST // 2 :]}"


def _floors(view: LineView | BarView, path: Callable[[float], str]) -> list[tuple[str, str]]:
    return [(f"floor f{i % 3}", path(value)) for i, value in enumerate(view.floors.values()) if finite([value])]


@dataclass(frozen=True)
class _Pen:
    """Draws series: ``at`` gives the coordinates of a value at a place along the axis, ``cap`` is half of a whisker's end."""

    at: Callable[[float, float], Pair]
    cap: Pair
    connected: bool = True
    dense: bool = False

    def trace(self, index: int, series: Series, colour: int, placed: Sequence[tuple[float, Point | None]]) -> Trace:
        """``placed`` are points with their place; a missing one leaves a gap in the line."""
        line, step, dots = "", "M", []
        sides: tuple[list[Pair], list[Pair]] = ([], [])
        for place, point in placed:
            if point is None or point.y is None:
                step = "M"
                continue
            x, y = self.at(place, point.y)
            line, step = f"{line}{step}{num(x)} {num(y)}", "L"
            ends: list[Pair] = []
            if point.low is not None and point.high is not None:
                ends = [self.at(place, point.low), self.at(place, point.high)]
            for side, end in zip(sides, ends):
                side.append(end)
            dots.append(Dot(x, y, self._whisker(ends), f"{legend_name(series)}, {point.place}: {point.words}"))
        outline = "L".join(f"{num(x)} {num(y)}" for x, y in (*sides[0], *reversed(sides[1])))
        band = f"M{outline}z" if self.dense and outline else ""
        line, dots = line if self.connected else "", [] if self.dense else dots
        return Trace(index, series.name, colour, series.paper, line, band, dots)

    def _whisker(self, ends: Sequence[Pair]) -> str:
        dx, dy = self.cap
        caps = "".join(f"M{num(x - dx)} {num(y - dy)}l{num(2 * dx)} {num(2 * dy)}" for x, y in ends)
        return caps + "".join(f"{step}{num(x)} {num(y)}" for step, (x, y) in zip("ML", ends))


def draw_scatter(view: ScatterView) -> list[tuple[Panel, list[Cloud]]]:
    """Each panel with its points by group; a panel without a point has none."""
    return [(panel, _clouds(panel, view.groups)) for panel in view.panels]


def groups_of(panels: Sequence[tuple[Panel, Sequence[Cloud]]]) -> list[Cloud]:
    """One cloud per group that occurs, for the legend."""
    found = {cloud.group: cloud for _, clouds in panels for cloud in clouds}
    return [found[group] for group in sorted(found)]


def _clouds(panel: Panel, groups: Sequence[str]) -> list[Cloud]:
    """Both directions have one scale and no ticks: the axes of a projection mean nothing."""
    there = [(float(x), float(y), int(g)) for x, y, g in zip(panel.x, panel.y, panel.group) if len(finite([x, y])) == 2]
    if not there:
        return []
    xs, ys = [p[0] for p in there], [p[1] for p in there]
    unit = (SIDE - 2 * MARGIN) / (max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0)
    mid_x, mid_y = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    paths: dict[int, list[str]] = {}
    for x, y, group in there:
        at = f"M{num(SIDE / 2 + (x - mid_x) * unit)} {num(SIDE / 2 - (y - mid_y) * unit)}h.01"
        paths.setdefault(group, []).append(at)
    names = {g: groups[g] if 0 <= g < len(groups) else f"group {g}" for g in paths}
    return [Cloud(g, names[g], len(paths[g]), "".join(paths[g])) for g in sorted(paths)]


def _described(view: LineView | BarView) -> str:
    found = [(series.name, values) for series in view.series if (values := finite(series.y))]
    said = [f"{name}: {rounded(y[0])} to {rounded(y[-1])}, highest {rounded(max(y))}" for name, y in found]
    return f"{view.title}. {'; '.join(said)}. All numbers are in the table under the chart."
