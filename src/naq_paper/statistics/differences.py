"""The difference of two methods: its variance, its interval, and how likely it is by chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, cast

import numpy as np
from scipy import optimize, special, stats

from naq.errors import OptionError
from naq.run.seeds import Term, rest_square, satterthwaite, student


@dataclass(frozen=True, eq=False)
class Score:
    """The accuracy of one method in one setting, over tasks and seeds."""

    mean: float  # of all tasks and seeds
    ci95: float  # half width of the paper's interval over tasks
    spread: float | None  # standard deviation of the seeds' means; None with one seed
    rest: float | None  # mean square of what is neither seed nor task; None with one seed or one task
    seeds: int  # trainings behind it
    per_task: np.ndarray = field(repr=False)  # (tasks,) mean over seeds
    runs: np.ndarray = field(repr=False)  # (seeds, tasks)
    tasks: str = ""  # fingerprint of the task set; "" is unknown
    trained: bool = True  # False for a method whose result no seed enters


def score(runs: Sequence[Sequence[float]] | np.ndarray, tasks: str = "", *, trained: bool = True) -> Score:
    """A score from the accuracies of each task, one list per seed, all on the same tasks.

    Args:
        runs: S lists of T fractions.
        tasks: fingerprint of the task set; scores are compared task by task only where both bear the same one.
        trained: False for a method without chance in its training, such as ``smooth``.
    """
    if not len(runs) or len({len(run) for run in runs}) != 1:
        counts = sorted({len(run) for run in runs})
        raise OptionError(f"runs have {counts} tasks; expected one list per seed, all of the same tasks.")
    values = np.asarray(runs, dtype=np.float64)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise OptionError("runs must hold one accuracy per task, all finite, e.g. [[0.8, 0.6], [0.7, 0.7]].")
    per_task = values.mean(axis=0)
    means = values.mean(axis=1)
    ci95 = float(1.96 * per_task.std() / np.sqrt(per_task.size))
    spread = float(means.std(ddof=1)) if len(means) > 1 else None
    rest = None
    if min(values.shape) > 1:  # MS_rest of the two-way table of seeds and tasks
        rest = rest_square(values)
    return Score(float(values.mean()), ci95, spread, rest, len(means), per_task, values, tasks, trained)


def average_ranks(columns: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean rank of each row over columns, 1 for the highest value.

    As in the paper: a row without a number in a column (absent, None, or a word like ``OOM``) is left out of it, the
    others are ranked among themselves, and its own mean is over the columns it has. The paper's tables have no ties;
    here tied rows share the mean of their ranks. Rows with no number at all are left out.
    """
    from scipy import stats

    ranks: dict[str, list[float]] = {}
    for column in columns:
        present = {name: float(value) for name, value in column.items() if isinstance(value, Real)}
        if any(np.isnan(value) for value in present.values()):
            raise OptionError("a column has a value that is NaN; leave the row out of the column instead.")
        for name, rank in zip(present, stats.rankdata([-value for value in present.values()])):
            ranks.setdefault(name, []).append(float(rank))
    return {name: float(np.mean(found)) for name, found in ranks.items()}


PRIOR_DEGREES = 2
"""What the typical variance over seeds counts, in degrees of freedom, next to a method's own."""
SMALLEST = 1e-200  # p is not followed further


@dataclass(frozen=True)
class Difference:
    """``a - b``; without known variance over seeds it is of these trainings only and claims no significance."""

    mean: float
    ci95: float  # half width of its 95 % interval
    p: float  # two-sided, of no difference, for this comparison alone
    tail_p: float  # the same, never too small however small it is; what a correction for many comparisons multiplies
    paired: bool  # taken task by task
    seeds_known: bool  # whether the variance over seeds is in it
    sources: tuple[Term, ...] = ()  # variances of seeds and tasks with their degrees of freedom, as tail_p takes them


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
    medians = {degrees: float(stats.f.median(degrees, PRIOR_DEGREES)) for degrees in {degrees for _, degrees in known}}
    typical = float(np.median([variance / medians[degrees] for variance, degrees in known]))
    return SeedPrior(typical, sum(degrees for _, degrees in known))


def difference(a: Score, b: Score, prior: SeedPrior | None = None) -> Difference:
    """``a - b`` with its interval (:mod:`naq_paper.statistics`); the family's ``prior`` enters ``tail_p`` only."""
    paired = bool(a.tasks) and a.tasks == b.tasks and a.per_task.size == b.per_task.size
    samples = [a.per_task - b.per_task] if paired else [a.per_task, b.per_task]
    if min(sample.size for sample in samples) < 2:
        raise OptionError("a difference of scores on one task has no interval; give at least two tasks.")
    tasks: list[Term] = [(float(sample.var(ddof=1)) / sample.size, sample.size - 1) for sample in samples]
    trained = [side for side in (a, b) if side.trained]
    seeds_known = all(side.spread is not None for side in trained)
    own = [_seed_term(side) for side in trained] if seeds_known else []
    # MS_rest / (S T)
    shapes = [(cast(float, side.rest), *side.runs.shape) for side in trained] if seeds_known else []
    rest = [(square / (seeds * count), (seeds - 1) * (count - 1)) for square, seeds, count in shapes]
    moderated = [_seed_term(side, prior) for side in trained] if seeds_known else []
    mean = a.mean - b.mean
    half, p = student(mean, *satterthwaite(own, tasks, rest))
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


def half_width(sources: Sequence[Term], level: float) -> float:
    """Of Banerjee's interval: every source with its own quantile, added in squares."""
    # the square of a quantile of one degree of freedom is not a float any more if p is small
    return math.hypot(*(math.sqrt(value) * float(special.stdtrit(degrees, level / 2)) for value, degrees in sources))


def tail_p(mean: float, sources: Sequence[Term]) -> float:
    """The level at which Banerjee's interval ends at ``mean``."""
    sources = [source for source in sources if source[0] > 0]
    if not sources or mean == 0:
        return 1.0 if mean == 0 else 0.0
    ratio = -abs(mean) / math.sqrt(sum(value for value, _ in sources))
    degrees = [freedom for _, freedom in sources]
    # the answer is between those of the most and the fewest degrees of freedom
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
