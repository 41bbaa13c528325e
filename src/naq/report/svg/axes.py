"""Scales and ticks: round numbers, evenly written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def finite(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def number(value: float | None) -> float | None:
    """None for what cannot be drawn."""
    return float(value) if value is not None and math.isfinite(value) else None


def nice_step(span: float, count: int) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that needs at most ``count`` steps."""
    rough = span / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))


def nice_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers from at or below ``low`` to at or above ``high``."""
    if not low < high:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    step = nice_step(high - low, count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") + 0.0 for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten inside the range; powers alone where there would be too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [f * 10.0**p for p in powers for f in (1, 2, 5) if low * 0.999 <= f * 10.0**p <= high * 1.001]
    if len(inside) > 10:
        inside = [10.0**p for p in powers if low * 0.999 <= 10.0**p <= high * 1.001]
        inside = inside[:: math.ceil(len(inside) / 8)]
    return inside or [low, high]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Ticks with the same number of decimals, as few as listener them apart; thousands with a comma, millions with M."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if largest >= 1e6:
        return [f"{tick / 1e6:.6g}M" if tick else "0" for tick in ticks]
    if 0 < largest < 1e-3:
        return [f"{tick:.3g}" if tick else "0" for tick in ticks]
    for digits in range(6):
        if all(abs(round(tick, digits) - tick) <= 1e-9 * max(1.0, largest) for tick in ticks):
            break
    return [f"{tick:,.{digits}f}".replace("-", "−") for tick in ticks]


def log_texts(ticks: Sequence[float]) -> list[str]:
    """Ticks of very different sizes, each written as short as it can be."""
    return [
        f"{tick / 1e6:g}M" if tick >= 1e6 else f"{tick:,.0f}" if tick >= 1 and tick == round(tick) else f"{tick:g}"
        for tick in ticks
    ]


def shown(value: float) -> str:
    """A value in a tooltip or beside a line."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 or size == 0 else f"{value:.3g}"


def place_text(x: float | str) -> str:
    """A place on the x axis, in words."""
    if isinstance(x, str):
        return x
    return f"{x:,.0f}" if x == round(x) else f"{x:g}"


@dataclass(frozen=True)
class Scale:
    """From values to coordinates."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log10(low), math.log10(high), math.log10(value)
        if high == low:
            return (self.start + self.end) / 2
        return self.start + (at - low) / (high - low) * (self.end - self.start)
