"""Families of comparisons: rows of a column against the best and against a baseline, and given pairs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

import numpy as np

from naq.run.seeds import LEVEL
from naq_paper.statistics.differences import Difference, Score, difference, half_width, seed_prior

Name = TypeVar("Name", bound=Hashable)
POWER_QUANTILE = 0.8416
"""The normal quantile of 80 % power."""


@dataclass(frozen=True)
class Comparison:
    """A comparison in its family."""

    difference: Difference  # with its own interval
    p: float | None  # corrected by Holm's rule for the family; None where the variance over seeds is not known

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < LEVEL


@dataclass(frozen=True)
class Standing:
    """A row of a column: less the best (None for the best itself) and less the baseline, if there is one.

    Attributes:
        rank: 1 for the best; equal means share a rank and the next is left out (1, 1, 3).
        mark: ``▲`` significantly better than every other row; ``≈`` no significant difference from the best, or the
            best itself; ``▼`` significantly worse than the best (p < 0.05, Holm); "" for a row alone and where one side
            has a single seed.
        against: ``s+`` significantly better than the baseline, ``s-`` significantly worse, ``s=`` no significant
            difference; "" as above.
    """

    rank: int
    to_best: Comparison | None
    to_baseline: Comparison | None
    mark: str
    against: str


def family(pairs: Mapping[Name, tuple[Score, Score]]) -> dict[Name, Comparison]:
    """``a - b`` of every pair; they are one family."""
    prior = seed_prior({id(s): s for pair in pairs.values() for s in pair}.values())
    found = {name: difference(a, b, prior) for name, (a, b) in pairs.items()}
    corrected = _holm({name: one for name, one in found.items() if one.seeds_known})
    return {name: Comparison(one, corrected.get(name)) for name, one in found.items()}


def compare(scores: Mapping[str, Score], baseline: str = "") -> dict[str, Standing]:
    """Each row of one column, compared with the best, and with ``baseline`` if it is a row.

    The best is chosen by the data, so every comparison with it is one picked from the k (k - 1) / 2 pairs of rows. All
    pairs are the family of the column; those with the baseline are among them. The level of 5 % holds for all marks of
    the column together.
    """
    order = sorted(scores, key=lambda name: -scores[name].mean)
    pairs = _all_pairs(scores, order)

    def less(name: str, other: str) -> Comparison | None:
        if name == other or other not in scores:
            return None
        if (name, other) in pairs:
            return pairs[name, other]
        one = pairs[other, name]
        return replace(one, difference=replace(one.difference, mean=-one.difference.mean))

    standings = {}
    for name in scores:
        rank = 1 + sum(other.mean > scores[name].mean for other in scores.values())
        to_best, to_baseline = less(name, order[0]), less(name, baseline)
        mark = against = ""
        if to_best is not None and to_best.p is not None:
            mark = "▼" if to_best.significant else "≈"
        if to_baseline is not None and to_baseline.p is not None:
            better = to_baseline.difference.mean > 0
            against = "s=" if not to_baseline.significant else "s+" if better else "s-"
        standings[name] = Standing(rank, to_best, to_baseline, mark, against)
    if len(order) > 1:
        best = standings[order[0]]
        marks = {standings[name].mark for name in order[1:]}
        mark = "" if "" in marks else "▲" if marks == {"▼"} else "≈"
        standings[order[0]] = replace(best, mark=mark)
    return standings


def detectable(scores: Mapping[str, Score]) -> float | None:
    """The difference that the median pair of a column shows with 80 % power; None if no pair can show any.

    Its interval at the level of Holm's first step, and 0.84 standard errors.
    """
    pairs = [one.difference for one in _all_pairs(scores, list(scores)).values() if one.p is not None]
    if not pairs:
        return None
    level = LEVEL / len(pairs)
    errors = [sum(value for value, _ in one.sources) ** 0.5 for one in pairs]
    return float(np.median([half_width(a.sources, level) + POWER_QUANTILE * error for a, error in zip(pairs, errors)]))


def _all_pairs(scores: Mapping[str, Score], order: list[str]) -> dict[tuple[str, str], Comparison]:
    return family({(a, b): (scores[a], scores[b]) for a, b in combinations(order, 2)})


def _holm(found: Mapping[Name, Difference]) -> dict[Name, float]:
    """Holm's p: the i-th smallest times (number - i), never below one before it, nor below that of the pair alone."""
    corrected: dict[Name, float] = {}
    least = 0.0
    for i, name in enumerate(sorted(found, key=lambda name: found[name].tail_p)):
        least = max(least, min(1.0, found[name].tail_p * (len(found) - i)))
        corrected[name] = max(least, found[name].p)
    return corrected
