"""Scales and ticks of charts, and how much room texts take, in units of the view box, where text is 13 high."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from matplotlib.ticker import LogLocator, MaxNLocator

_MOST_PLACES = 12
"""Places on the x axis up to which each has its tick."""

Scale = Callable[[float], float]


def finite(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def num(value: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def text_width(text: str) -> float:
    """About how wide a text is; on the generous side, for fonts differ."""
    units = (
        0.38 if c in "iljtfrI.,:;|!()[]'` -/" else 0.95 if c in "mwMW@%—&" or ord(c) > 0x2E80 else 0.64 for c in text
    )
    return 13 * sum(units)


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
