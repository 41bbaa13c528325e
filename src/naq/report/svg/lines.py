"""Lines over a number or over named levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from naq.experiments.views import LineView, Series
from naq.report.html import shorten
from naq.report.html import text as escaped
from naq.report.svg.axes import Scale, finite, log_texts, log_ticks, nice_ticks, number, place_text, shown, tick_texts
from naq.report.svg.field import Field, broad, lay_field, lay_levels
from naq.report.svg.marks import LINE, colours, frame, label, marker, num, rule, titled, width_of

_DENSE = 26
"""From this many points on a line has a band and no markers: it is a curve."""


@dataclass(frozen=True)
class Point:
    """One point of a line; ``x`` is a number, or the place of a level."""

    at: str
    x: float
    y: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Axis:
    """What is under a plot: where x lies, ticks and names, the room they need, and how far lines stand apart."""

    field: Field
    x: Scale
    marks: Sequence[str]
    room: float
    gap: float


def draw_lines(view: LineView) -> str:
    """The plot, or "" where no point can be drawn."""
    levels = level_names(view.series)
    lines = [_points(series, levels) for series in view.series]
    if not finite(p.y for line in lines for p in line):
        return ""
    values = finite(v for line in lines for p in line for v in (p.y, p.low, p.high))
    palette = colours(view.series)
    slots = max(palette) + 1
    axis = _named_axis(view, levels, values, slots) if levels else _number_axis(view, lines, values, slots)
    field = axis.field
    body = [*field.backdrop(view.y_label), *axis.marks, *field.draw_floors()]
    for i in sorted(range(len(lines)), key=lambda i: not view.series[i].paper):
        # The paper's line of a method stands close to our line of it.
        place = palette[i] + (0.4 if view.series[i].paper else 0.0)
        shift = axis.gap * (place - (slots - 1) / 2)
        body.append(_line(view.series[i], lines[i], palette[i], i, axis.x, field, shift))
    height = field.bottom + axis.room + (LINE + 9 if view.x_label else 6)
    if view.x_label:
        middle = (field.left + field.right) / 2
        body.append(label(middle, height - 7, shorten(view.x_label, 50), "middle", "axis-name"))
    return frame(field.full_width, height, body, f"{view.title}. {described(view.series)}")


def _named_axis(view: LineView, levels: Sequence[str], values: Sequence[float], slots: int) -> Axis:
    count = max(3, len(levels))
    width = count * max(44.0, 5.0 * slots, broad(view.floors) / count)
    slot = width / len(levels)
    laid = lay_levels(levels, slot)
    field = lay_field(width, values, view.floors, from_zero=False, reach=laid.reach(slot))
    x = Scale(-0.5, len(levels) - 0.5, field.left, field.right)
    marks = laid.draw([x(i) for i in range(len(levels))], field.bottom)
    return Axis(field, x, marks, laid.height, min(9.0, 0.6 * slot / slots))


def _number_axis(view: LineView, lines: Sequence[Sequence[Point]], values: Sequence[float], slots: int) -> Axis:
    field = lay_field(broad(view.floors), values, view.floors, from_zero=False, reach=0)
    paths = sorted({p.x for line in lines for p in line if p.y is not None})
    x, ticks, words = _number_ticks(paths, view.log_x, field)
    marks = [rule(x(t), field.bottom, x(t), field.bottom + 5, "axis") for t in ticks]
    marks += [label(x(t), field.bottom + 6 + LINE, w, "middle") for t, w in zip(ticks, words)]
    # Whiskers at one place stand a little apart where there is room; curves do not.
    room = min((x(b) - x(a) for a, b in pairwise(paths)), default=60.0)
    gap = min(5.0, 0.35 * room / slots, 24.0 / slots) if len(paths) < _DENSE else 0.0
    return Axis(field, x, marks, 10 + LINE, gap)


def level_names(series: Sequence[Series]) -> list[str]:
    """The levels in their order, where x is texts; none where it is numbers."""
    if not any(isinstance(x, str) for item in series for x in item.x):
        return []
    return list(dict.fromkeys(str(x) for item in series for x in item.x))


def described(series: Sequence[Series]) -> str:
    """A plot in a sentence for those who cannot see it."""
    parts = []
    for item in series:
        values = finite(item.y)
        if values:
            parts.append(f"{item.name}: {shown(values[0])} to {shown(values[-1])}, highest {shown(max(values))}")
    return "; ".join(parts) + ". All numbers are in the table under the plot."


def _points(series: Series, levels: Sequence[str]) -> list[Point]:
    place = {name: float(i) for i, name in enumerate(levels)}
    points = []
    for i, (x, y) in enumerate(zip(series.x, series.y)):
        at = place[str(x)] if levels else number(float(x))
        value = number(y)
        if at is None:
            continue
        low, high = (
            number(side[i]) if i < len(side) and value is not None else None for side in (series.low, series.high)
        )
        points.append(Point(place_text(x), at, value, low, high))
    return points if levels else sorted(points, key=lambda p: p.x)


def _number_ticks(paths: Sequence[float], log: bool, field: Field) -> tuple[Scale, list[float], list[str]]:
    low, high = min(paths), max(paths)
    inset = 14.0
    if log and low > 0 and high > low:
        scale = Scale(low, high, field.left + inset, field.right - inset, True)
        ticks = log_ticks(low, high)
        words = log_texts(ticks)
    else:
        ticks = nice_ticks(low, high, max(3, int((field.right - field.left) / 70))) if low < high else [low]
        if low < high:  # a tick beyond the points is kept where it costs little room
            near = 0.1 * (high - low)
            ticks = [tick for tick in ticks if low - near <= tick <= high + near] or [low, high]
        low, high = (min(low, ticks[0]), max(high, ticks[-1]))
        scale = Scale(low, high, field.left + inset, field.right - inset)
        words = tick_texts(ticks)
    kept: list[int] = []
    for i, tick in enumerate(ticks):
        if not kept or scale(tick) - scale(ticks[kept[-1]]) > (width_of(words[i]) + width_of(words[kept[-1]])) / 2 + 8:
            kept.append(i)
    return scale, [ticks[i] for i in kept], [words[i] for i in kept]


def _line(
    series: Series, points: Sequence[Point], colour: int, index: int, x: Scale, field: Field, shift: float
) -> str:
    dense = len(points) >= _DENSE
    parts = [_band(points, x, field)] if dense else []
    drawn = "".join(
        f"{'L' if i and points[i - 1].y is not None else 'M'}{num(x(p.x) + shift)} {num(field.y(p.y))}"
        for i, p in enumerate(points)
        if p.y is not None
    )
    parts.append(f'<path class="line{" paper" if series.paper else ""}" d="{drawn}"/>' if drawn else "")
    for p in points:
        if p.y is None or dense:
            continue
        at, y = x(p.x) + shift, field.y(p.y)
        mark = whisker(at, p.low, p.high, field) + marker(at, y, colour, hollow=series.paper)
        parts.append(titled(mark, told(series, p.at, p.y, p.low, p.high)))
    return f'<g class="series c{colour}" data-s="{index}"><title>{escaped(series.name)}</title>{"".join(parts)}</g>'


def whisker(x: float, low: float | None, high: float | None, field: Field) -> str:
    """The interval of a point; "" where there is none."""
    if low is None or high is None:
        return ""
    top, bottom = num(field.y(high)), num(field.y(low))
    return f'<path class="whisker" d="M{num(x)} {top}V{bottom}M{num(x - 3)} {top}h6M{num(x - 3)} {bottom}h6"/>'


def told(series: Series, at: str, y: float, low: float | None, high: float | None) -> str:
    """The tooltip of a point."""
    interval = "" if low is None or high is None else f" ({shown(low)} to {shown(high)})"
    paper = " (paper)" if series.paper and "paper" not in series.name else ""
    return f"{series.name}{paper}, {at}: {shown(y)}{interval}"


def _band(points: Sequence[Point], x: Scale, field: Field) -> str:
    inside = [(x(p.x), field.y(p.low), field.y(p.high)) for p in points if p.low is not None and p.high is not None]
    if len(inside) < 2:
        return ""
    there = "L".join(f"{num(at)} {num(high)}" for at, _, high in inside)
    back = "L".join(f"{num(at)} {num(low)}" for at, low, _ in reversed(inside))
    return f'<path class="band" d="M{there}L{back}z"/>'
