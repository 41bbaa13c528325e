"""Shares that changes are given: checked, and turned into whole numbers."""

from __future__ import annotations

import math

from naq.errors import OptionError


def check_share(perturbation: str, *, most: float = 1.0, **values: float) -> None:
    """Every value lies within 0 and ``most``."""
    for name, value in values.items():
        if not 0 <= value <= most:
            above = f" and at most {most:g}" if math.isfinite(most) else ""
            raise OptionError(f"option {name} of {perturbation} is {value!r}; expected at least 0{above}.")


def ceil_of(share: float, count: int) -> int:
    """The ceiling of ``share * count`` for the share as it is written: 0.07 of 100 are 7, though 0.07 * 100 > 7."""
    return math.ceil(round(share * count, 9))


def floor_of(share: float, count: int) -> int:
    """The floor of ``share * count`` for the share as it is written: 0.29 of 100 are 29."""
    return math.floor(round(share * count, 9))
