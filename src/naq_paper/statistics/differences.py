"""The difference of two methods: its variance, its interval, and how likely it is by chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import optimize, special, stats

from naq.errors import OptionError
from naq_paper.statistics.scores import Score

LEVEL = 0.05
"""Two-sided; of an interval, and of a whole family of comparisons."""
PRIOR_DEGREES = 2
"""What the typical variance over seeds counts, in degrees of freedom, beside a method's own."""
SMALLEST = 1e-200
"""p is not followed further."""

Term = tuple[float, float]
"""A variance and its degrees of freedom."""


@dataclass(frozen=True)
class Difference:
    """``a - b``.

    Attributes:
        mean: of the difference.
        ci95: half width of its 95 % interval.
        p: two-sided, of no difference, for this comparison alone.
        tail_p: the same, never too small however small it is; what a correction for many comparisons multiplies.
        paired: whether it was taken task by task.
        seeds_known: whether the variance over seeds is in it. If not, it speaks of these trainings only, and no significance is claimed.
        sources: variances of seeds and tasks with their degrees of freedom, as ``tail_p`` takes them.
    """

    mean: float
    ci95: float
    p: float
    tail_p: float
    paired: bool
    seeds_known: bool
    sources: tuple[Term, ...] = ()


@dataclass(frozen=True)
class SeedPrior:
    """The typical variance over seeds of the scores of a family, and how many degrees of freedom all of them have."""

    variance: float
    degrees: int


def seed_prior(scores: Iterable[Score]) -> SeedPrior | None:
    """The scale s0^2 of the variances over seeds of all trained scores that have several seeds; None where none has.

    The median of s^2 / median(F), as s^2 / s0^2 has the distribution F(S - 1, PRIOR_DEGREES).
    """
    known = [(s.spread**2, s.seeds - 1) for s in scores if s.trained and s.spread is not None]
    if not known:
        return None
    typical = float(np.median([variance / _f_median(degrees) for variance, degrees in known]))
    return SeedPrior(typical, sum(degrees for _, degrees in known))


def difference(a: Score, b: Score, prior: SeedPrior | None = None) -> Difference:
    """``a - b`` with its interval; :mod:`naq_paper.statistics` has the formula.

    Args:
        prior: of the family that the comparison belongs to; it enters ``tail_p`` only.
    """
    paired = bool(a.tasks) and a.tasks == b.tasks and a.per_task.size == b.per_task.size
    samples = [a.per_task - b.per_task] if paired else [a.per_task, b.per_task]
    if min(sample.size for sample in samples) < 2:
        raise OptionError("a difference of scores on one task has no interval; give at least two tasks.")
    tasks: list[Term] = [(float(sample.var(ddof=1)) / sample.size, sample.size - 1) for sample in samples]
    trained = [side for side in (a, b) if side.trained]
    seeds_known = all(side.spread is not None for side in trained)
    own = [_seed_term(side) for side in trained] if seeds_known else []
    rest = [_rest_term(side) for side in trained] if seeds_known else []
    moderated = [_seed_term(side, prior) for side in trained] if seeds_known else []
    mean = a.mean - b.mean
    half, p = _student(mean, *_satterthwaite(own, tasks, rest))
    sources = tuple(moderated + tasks)
    return Difference(mean, half, p, tail_p(mean, sources), paired, seeds_known, sources)


def _seed_term(side: Score, prior: SeedPrior | None = None) -> Term:
    """MS_seed / (S T) = s^2 / S, combined with what is typical."""
    assert side.spread is not None
    own, variance = side.seeds - 1, side.spread**2
    if prior is None:
        return variance / side.seeds, own
    # what the others know: a median is worth half of a mean, and it is taken of variances that differ
    weight = max(0.0, min(PRIOR_DEGREES, (prior.degrees - own) / 4))
    return (weight * prior.variance + own * variance) / (weight + own) / side.seeds, weight + own


def _rest_term(side: Score) -> Term:
    """MS_rest / (S T)."""
    assert side.rest is not None
    return side.rest / side.runs.size, (side.runs.shape[0] - 1) * (side.runs.shape[1] - 1)


def _satterthwaite(seeds: Sequence[Term], tasks: Sequence[Term], rest: Sequence[Term]) -> Term:
    """seeds + tasks - rest, never below the larger of seeds and tasks, and its degrees of freedom."""
    by_seeds, by_tasks, both = (sum(value for value, _ in terms) for terms in (seeds, tasks, rest))
    variance = by_seeds + by_tasks - both
    terms = [*seeds, *tasks, *rest]
    if variance < max(by_seeds, by_tasks):
        variance, terms = max((by_seeds, list(seeds)), (by_tasks, list(tasks)), key=lambda source: source[0])
    if variance <= 0:
        return 0.0, 1.0
    # weights before squares: a variance of 1e-200 must not become 0 / 0
    return variance, 1 / sum((value / variance) ** 2 / degrees for value, degrees in terms)


def _student(mean: float, variance: float, degrees: float) -> tuple[float, float]:
    """Half width of the 95 % interval and two-sided p of ``mean``."""
    if variance <= 0:
        return 0.0, 1.0 if mean == 0 else 0.0
    error = math.sqrt(variance)
    return -float(special.stdtrit(degrees, LEVEL / 2)) * error, 2 * float(special.stdtr(degrees, -abs(mean) / error))


def half_width(sources: Sequence[Term], level: float) -> float:
    """Of Banerjee's interval: every source with its own quantile, added in squares."""
    # the square of a quantile of one degree of freedom is no float any more where p is small
    return math.hypot(*(math.sqrt(value) * float(special.stdtrit(degrees, level / 2)) for value, degrees in sources))


def tail_p(mean: float, sources: Sequence[Term]) -> float:
    """The level at which Banerjee's interval ends at ``mean``."""
    sources = [source for source in sources if source[0] > 0]
    if not sources or mean == 0:
        return 1.0 if mean == 0 else 0.0
    ratio = -abs(mean) / math.sqrt(sum(value for value, _ in sources))
    degrees = [freedom for _, freedom in sources]
    # the answer lies between those of the most and the fewest degrees of freedom
    low, high = (2 * float(special.stdtr(freedom, ratio)) for freedom in (max(degrees), min(degrees)))
    if high <= SMALLEST or low > high * (1 - 1e-9):
        return high

    def beyond(log_p: float) -> float:
        return half_width(sources, math.exp(log_p)) - abs(mean)

    start = math.log(max(low, SMALLEST))
    if beyond(start) <= 0:
        return math.exp(start)
    end = math.log(high)
    return math.exp(optimize.brentq(beyond, start, end, rtol=1e-10)) if beyond(end) < 0 else high


@cache
def _f_median(degrees: int) -> float:
    return float(stats.f.median(degrees, PRIOR_DEGREES))
