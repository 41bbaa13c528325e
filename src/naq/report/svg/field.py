"""The field of a plot: margins, grid, ticks, names under the axis, and horizontal lines with their names at the right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naq.report.html import shorten
from naq.report.svg.axes import Scale, finite, nice_ticks, shown, tick_texts
from naq.report.svg.marks import FONT, LINE, label, rule, titled, width_of

HEIGHT = 230.0
"""Of the field itself."""

TOP = 30.0
TILT = 38.0
_LONGEST = 26


@dataclass(frozen=True)
class Levels:
    """Names under the axis, laid out so that none touches another: on one line, on several, or tilted."""

    names: Sequence[str]
    lines: Sequence[Sequence[str]]
    tilted: bool

    @property
    def height(self) -> float:
        if self.tilted:
            return 14 + max(map(width_of, self.names), default=0.0) * math.sin(math.radians(TILT)) + LINE / 2
        return 8 + LINE * max(map(len, self.lines), default=1)

    def reach(self, slot: float) -> float:
        """How far the first tilted name goes to the left of the field."""
        if not self.tilted:
            return 0.0
        return max(
            (width_of(n) * math.cos(math.radians(TILT)) - slot * (i + 0.5) for i, n in enumerate(self.names)), default=0
        )

    def draw(self, centers: Sequence[float], y: float) -> list[str]:
        if self.tilted:
            return [label(x + 4, y + 15, n, "end", "tilt", -TILT) for x, n in zip(centers, self.names)]
        return [
            label(x, y + 6 + LINE * (i + 0.8), part, "middle")
            for x, parts in zip(centers, self.lines)
            for i, part in enumerate(parts)
        ]


def lay_levels(names: Sequence[str], slot: float) -> Levels:
    """Lay out ``names`` in slots of a width."""
    lines = [_wrapped(shorten(name, 2 * _LONGEST), slot - 8) for name in names]
    fits = all(width_of(part) <= slot - 8 for parts in lines for part in parts) and max(map(len, lines), default=1) <= 3
    return Levels([shorten(name, _LONGEST) for name in names], lines, not fits)


def _wrapped(name: str, most: float) -> list[str]:
    """The words of a name on as few lines as fit."""
    lines: list[str] = []
    for word in name.split():
        if lines and width_of(f"{lines[-1]} {word}") <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


@dataclass(frozen=True)
class FloorName:
    """The lines of text that name a horizontal line."""

    name: str
    value: float
    lines: Sequence[str]

    @property
    def height(self) -> float:
        return LINE * len(self.lines)


def floor_names(floors: Mapping[str, float]) -> list[FloorName]:
    """The floors that can be drawn, highest first."""
    found = [FloorName(n, v, [*_wrapped(shorten(n, 40), 128), shown(v)]) for n, v in floors.items() if finite([v])]
    return sorted(found, key=lambda floor: -floor.value)


def spread(centers: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Move blocks of text apart, keeping their order, inside ``low`` to ``high`` where there is room."""
    placed: list[float] = []
    edge = low
    for center, height in zip(centers, heights):
        placed.append(max(center, edge + height / 2))
        edge = placed[-1] + height / 2
    edge = high
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], edge - heights[i] / 2)
        edge = placed[i] - heights[i] / 2
    return placed


@dataclass(frozen=True)
class Field:
    """Where things are: the inner box, and the scale of values."""

    left: float
    right: float
    y: Scale
    ticks: Sequence[float]
    floors: Sequence[FloorName]

    @property
    def bottom(self) -> float:
        return self.y.start

    @property
    def full_width(self) -> float:
        names = max((width_of(part) for floor in self.floors for part in floor.lines), default=0.0)
        return self.right + (names + 22 if names else 12)

    def backdrop(self, y_label: str) -> list[str]:
        """Grid, ticks and the name of the values, over their axis."""
        parts = [label(4, 14, shorten(y_label, 60), kind="axis-name")]
        for tick, words in zip(self.ticks, tick_texts(self.ticks)):
            at = self.y(tick)
            parts.append(rule(self.left, at, self.right, at, "zero" if tick == 0 else "grid"))
            parts.append(label(self.left - 8, at + FONT * 0.35, words, "end"))
        parts.append(rule(self.left, self.bottom, self.right, self.bottom, "axis"))
        return parts

    def draw_floors(self) -> list[str]:
        """Each horizontal line with its name at the right, moved apart where they are close."""
        lines = [self.y(floor.value) for floor in self.floors]
        centers = spread(lines, [floor.height for floor in self.floors], TOP - 14, self.bottom + 14)
        parts = []
        for floor, at, center in zip(self.floors, lines, centers):
            drawn = rule(self.left, at, self.right, at, "floor") + rule(self.right, at, self.right + 12, center, "lead")
            parts.append(titled(drawn, f"{floor.name}: {shown(floor.value)}"))
            first = center - floor.height / 2 + LINE * 0.78
            parts += [label(self.right + 16, first + LINE * i, part) for i, part in enumerate(floor.lines)]
        return parts


def broad(floors: Mapping[str, float]) -> float:
    """The usual width of a field: two plots share a row of the page, and one fits a phone."""
    return 340.0 if floors else 408.0


def value_ticks(values: Sequence[float], *, from_zero: bool) -> list[float]:
    """Ticks that hold all values, with a little air; bars start at zero."""
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(0.0, low), max(0.0, high)
    return nice_ticks(low, high)


def lay_field(
    width: float, values: Sequence[float], floors: Mapping[str, float], *, from_zero: bool, reach: float
) -> Field:
    """A field whose inner box is about ``width`` wide; ``reach`` is what the names under the axis need at the left."""
    named = floor_names(floors)
    ticks = value_ticks([*values, *(floor.value for floor in named)], from_zero=from_zero)
    left = max(14 + max(width_of(words) for words in tick_texts(ticks)), reach + 6)
    return Field(left, left + width, Scale(ticks[0], ticks[-1], TOP + HEIGHT, TOP), ticks, named)
