"""Bars in groups; they start at zero."""

from __future__ import annotations

from collections.abc import Sequence

from naq.experiments.views import BarView, Series
from naq.report.html import text as escaped
from naq.report.svg.axes import finite, number, shown
from naq.report.svg.field import Field, broad, lay_field, lay_levels
from naq.report.svg.lines import described, told, whisker
from naq.report.svg.marks import FONT, colours, frame, label, num, titled, width_of

WHOLE = 880.0
"""Width of a field that has the whole row of the page to itself."""
_MANY = 24
"""Bars from which on a plot takes the whole row."""


def draw_bars(view: BarView) -> str:
    """The plot, or "" where there is no bar."""
    groups = list(dict.fromkeys(str(x) for series in view.series for x in series.x))
    values = finite(v for s in view.series for side in (s.y, s.low, s.high) for v in side)
    if not finite(v for series in view.series for v in series.y):
        return ""
    there = _present(view.series, groups)
    count = max(len(paths) for paths in there.values())
    room = broad(view.floors)
    if sum(len(paths) for paths in there.values()) > _MANY:
        room = WHOLE - (0 if not view.floors else 70)
    bar = max(6.0, min(36.0, room * 1.05 / (len(groups) * (count + 0.8))))
    width = max(room, (bar * count + max(12.0, 0.8 * bar)) * len(groups))
    slot = width / len(groups)
    laid = lay_levels(groups, slot)
    field = lay_field(width, values, view.floors, from_zero=True, reach=laid.reach(slot))
    centers = [field.left + slot * (i + 0.5) for i in range(len(groups))]
    body, numbers = field.backdrop(view.y_label), []
    for i, (series, colour) in enumerate(zip(view.series, colours(view.series))):
        # The bars of a group stand in its middle; a series without one there leaves no gap.
        place = {
            group: x + bar * (there[group].index(i) - (len(there[group]) - 1) / 2)
            for group, x in zip(groups, centers)
            if i in there[group]
        }
        drawn, over = _bars(series, place, bar, field)
        body.append(f'<g class="series c{colour}" data-s="{i}"><title>{escaped(series.name)}</title>{drawn}</g>')
        numbers.append(f'<g class="series" data-s="{i}">{over}</g>' if over else "")
    body += [*laid.draw(centers, field.bottom), *field.draw_floors(), *numbers]
    return frame(field.full_width, field.bottom + laid.height + 8, body, f"{view.title}. {described(view.series)}")


def _present(series: Sequence[Series], groups: Sequence[str]) -> dict[str, list[int]]:
    """The paths of the series that have a bar, by group."""
    there: dict[str, list[int]] = {group: [] for group in groups}
    for i, item in enumerate(series):
        for group, y in zip(item.x, item.y):
            if number(y) is not None and i not in there[str(group)]:
                there[str(group)].append(i)
    return there


def _bars(series: Series, place: dict[str, float], bar: float, field: Field) -> tuple[str, str]:
    """The bars of a series, and the numbers over them, which are drawn after everything else."""
    bars, numbers = [], []
    for i, (group, y) in enumerate(zip(series.x, series.y)):
        value = number(y)
        if value is None:
            continue
        low, high = (number(side[i]) if i < len(side) else None for side in (series.low, series.high))
        x = place[str(group)]
        drawn = _bar(x, value, bar, field, hollow=series.paper) + whisker(x, low, high, field)
        bars.append(titled(drawn, told(series, str(group), value, low, high)))
        numbers.append(_value(x, value, high if high is not None else value, bar, field))
    return "".join(bars), "".join(numbers)


def _bar(x: float, value: float, bar: float, field: Field, *, hollow: bool) -> str:
    zero, top = field.y(0.0), field.y(value)
    inset = 0.7 if bar < 12 else 1.5
    box = f'x="{num(x - bar / 2 + inset)}" y="{num(min(zero, top))}" width="{num(bar - 2 * inset)}" height="{num(abs(zero - top))}"'
    return f'<rect class="{"bar paper" if hollow else "bar"}" {box} rx="1.5"/>'


def _value(x: float, value: float, top: float, bar: float, field: Field) -> str:
    """The number over the bar, where the bar is wide enough for it."""
    words = f"{value:.1f}" if abs(value) < 1000 else shown(value)
    if value < 0 or width_of(words, FONT - 2.5) > bar - 1:
        return ""
    return label(x, field.y(top) - 5, words, "middle", "bar-value")
