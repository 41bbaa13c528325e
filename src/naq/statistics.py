"""What a number is worth: intervals over tasks, spread over seeds, differences on the same tasks.

Accuracies are fractions, 0..1. With y[s, t] the accuracy of seed s on task t, S seeds and T tasks:

- mean: of all y; ``per_task`` p[t] = mean over seeds of y[s, t];
- ``ci95`` = 1.96 sqrt(var0(p) / T), var0 with ddof 0: the paper's interval, it speaks of the tasks drawn and not of the training;
- ``spread`` = standard deviation, ddof 1, over seeds of the means over tasks.

The difference of two methods has two sources of chance, and :func:`difference` counts both::

    variance = var(d) / T + s_a^2 / S_a + s_b^2 / S_b        d[t] = p_a[t] - p_b[t], the same tasks (paired)
               var(p_a) / T_a + var(p_b) / T_b + ...         other tasks (unpaired)

with variances of ddof 1 and s the spreads. Few seeds know their spread badly, so the quantile is Student's, with the degrees of
freedom of Welch and Satterthwaite: variance^2 / sum of (term^2 / degrees of the term). What a seed does to single tasks is in
both terms, so the interval is, if anything, a little wide.

Three seeds estimate a spread so badly that a difference of 10 points may not be significant. Where many scores of one protocol stand
side by side, :func:`pooled_variance` estimates the typical variance over seeds of them all; a difference uses the pooled variance, or
the side's own where that is larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from naq.errors import OptionError

LEVEL = 0.05
"""Two-sided, for a whole column of a table."""


@dataclass(frozen=True, eq=False)
class Score:
    """The accuracy of one method in one setting, over tasks and seeds.

    Attributes:
        mean: of all tasks and seeds.
        ci95: half width of the paper's interval over tasks.
        spread: standard deviation of the seeds' means; None with one seed.
        seeds: trainings behind it.
        per_task: mean over seeds, (tasks,).
        runs: (seeds, tasks).
        tasks: fingerprint of the task set; "" is unknown.
        trained: False for a method whose result no seed enters; its one run is then all there is to know.
    """

    mean: float
    ci95: float
    spread: float | None
    seeds: int
    per_task: np.ndarray = field(repr=False)
    runs: np.ndarray = field(repr=False)
    tasks: str = ""
    trained: bool = True


@dataclass(frozen=True)
class Difference:
    """``a - b``.

    Attributes:
        mean: of the difference.
        ci95: half width of its 95 % interval.
        p: two-sided, of no difference.
        paired: whether it was taken task by task.
        seeds_known: whether the chance of training is in it. If not, it speaks of these two trainings only.
    """

    mean: float
    ci95: float
    p: float
    paired: bool
    seeds_known: bool


@dataclass(frozen=True)
class SeedVariance:
    """The variance over seeds that scores have in common, and how well it is known."""

    variance: float
    degrees: int


@dataclass(frozen=True)
class Standing:
    """Where a row stands in a column.

    Attributes:
        rank: 1 for the best; equal means share a rank and the next is left out (1, 1, 3).
        to_best: this row less the best; None for the best itself.
        p: of ``to_best``, corrected for the rows compared; None for the best.
        apart: significantly worse than the best.
        mark: ``▲`` significantly better than every other row; ``≈`` no significant difference from the best, or the best itself; ``▼``
            significantly worse than the best (p < 0.05, Holm); "" for a row alone.
    """

    rank: int
    to_best: Difference | None
    p: float | None
    apart: bool
    mark: str


def score(runs: Sequence[Sequence[float]] | np.ndarray, tasks: str = "", *, trained: bool = True) -> Score:
    """A score from the accuracies of each task, one list per seed, all on the same tasks.

    Args:
        runs: S lists of T fractions.
        tasks: fingerprint of the task set; scores are compared task by task only where both bear the same one.
        trained: False for a method without chance in its training (``smooth``): its spread over seeds is known to be 0.
    """
    if not len(runs) or len({len(run) for run in runs}) != 1:
        raise OptionError(
            f"runs have {sorted({len(run) for run in runs})} tasks; expected one list per seed, all of the same tasks."
        )
    values = np.asarray(runs, dtype=np.float64)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise OptionError("runs must hold one accuracy per task, all finite, e.g. [[0.8, 0.6], [0.7, 0.7]].")
    per_task = values.mean(axis=0)
    means = values.mean(axis=1)
    return Score(
        mean=float(values.mean()),
        ci95=float(1.96 * per_task.std() / np.sqrt(per_task.size)),
        spread=float(means.std(ddof=1)) if len(means) > 1 else None,
        seeds=len(means),
        per_task=per_task,
        runs=values,
        tasks=tasks,
        trained=trained,
    )


def pooled_variance(scores: Iterable[Score]) -> SeedVariance | None:
    """The typical spread over seeds of all scores that have several; None where none has.

    The median over scores of s^2 nu / median(chi^2_nu), unbiased in the middle where all spreads are equal; it counts half of the
    degrees of freedom nu, for a median is worth about half of a mean.
    """
    from scipy import stats

    known = [(_squared(s.spread), s.seeds - 1) for s in scores if s.trained and s.spread is not None]
    if not known:
        return None
    values = [value * freedom / float(stats.chi2.median(freedom)) for value, freedom in known]
    return SeedVariance(float(np.median(values)), max(1, sum(freedom for _, freedom in known) // 2))


def difference(a: Score, b: Score, variance: SeedVariance | None = None) -> Difference:
    """``a - b`` with its interval; see the head of this module for the formula.

    Args:
        variance: over seeds, pooled over all scores that stand beside the two; None uses these two alone.

    A side of one seed borrows the other side's spread s: the terms of the seeds become s^2 (1/S_a + 1/S_b), with the degrees of s,
    as in a t-test of one observation against a sample. Trainings of one protocol have similar spreads, and leaving the term out
    would count that side as exact. With no spread on either side ``seeds_known`` is False. A side that is not ``trained`` has no such
    term.
    """
    paired = bool(a.tasks) and a.tasks == b.tasks and a.per_task.size == b.per_task.size
    samples = [a.per_task - b.per_task] if paired else [a.per_task, b.per_task]
    if min(sample.size for sample in samples) < 2:
        raise OptionError("a difference of scores on one task has no interval; give at least two tasks.")
    terms = [(float(sample.var(ddof=1)) / sample.size, sample.size - 1) for sample in samples]
    of_seeds = _seed_terms(a, b) if variance is None else _pooled_terms(a, b, variance)
    mean = a.mean - b.mean
    half, p = _student(mean, terms + (of_seeds or []))
    return Difference(mean, half, p, paired, of_seeds is not None)


def _seed_terms(a: Score, b: Score) -> list[tuple[float, int]] | None:
    """(variance, degrees of freedom) of what training adds; None where nothing is known of it."""
    trained = [side for side in (a, b) if side.trained]
    known = [side for side in trained if side.spread is not None]
    if trained and not known:
        return None
    if len(known) == len(trained):
        return [(_squared(side.spread) / side.seeds, side.seeds - 1) for side in known]
    lender = known[0]
    return [(_squared(lender.spread) * (1 / a.seeds + 1 / b.seeds), lender.seeds - 1)]


def _pooled_terms(a: Score, b: Score, pooled: SeedVariance) -> list[tuple[float, int]]:
    own = [(max(pooled.variance, _squared(s.spread) if s.spread else 0.0), s.seeds) for s in (a, b) if s.trained]
    return [(sum(value / seeds for value, seeds in own), pooled.degrees)] if own else []


def _squared(spread: float | None) -> float:
    assert spread is not None
    return spread * spread


def _student(mean: float, terms: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Half width of the 95 % interval and two-sided p of ``mean``, whose variance is the sum of independent terms."""
    from scipy import stats

    variance = sum(value for value, _ in terms)
    if variance <= 0:
        return 0.0, 1.0 if mean == 0 else 0.0
    # weights before squares: a variance of 1e-200 must not become 0 / 0
    degrees = 1 / sum((value / variance) ** 2 / freedom for value, freedom in terms)
    error = float(np.sqrt(variance))
    return float(stats.t.ppf(1 - LEVEL / 2, degrees)) * error, float(2 * stats.t.sf(abs(mean) / error, degrees))


def compare(scores: Mapping[str, Score]) -> dict[str, Standing]:
    """Where each row of one column stands, and which differences are significant.

    Every row is compared with the best one. The level of 5 % holds for the column: p is corrected by Holm's rule. The best is
    chosen by the data, so each comparison is one picked from the k (k - 1) / 2 pairs of rows, and that is the number Holm starts
    from. Starting from the k - 1 rows compared would mark a row of twelve equal ones in every fifth column.
    """
    if not scores:
        return {}
    order = sorted(scores, key=lambda name: -scores[name].mean)
    best = order[0]
    variance = pooled_variance(scores.values())
    to_best = {name: difference(scores[name], scores[best], variance) for name in order[1:]}
    corrected = _holm({name: found.p for name, found in to_best.items()}, len(order) * (len(order) - 1) // 2)
    apart = {name: p < LEVEL for name, p in corrected.items()}
    alone = all(apart.values())
    standings = {}
    for name in scores:
        rank = 1 + sum(other.mean > scores[name].mean for other in scores.values())
        if name == best:
            mark = "" if len(order) == 1 else "▲" if alone else "≈"
            standings[name] = Standing(rank, None, None, False, mark)
        else:
            standings[name] = Standing(rank, to_best[name], corrected[name], apart[name], "▼" if apart[name] else "≈")
    return standings


def _holm(p: Mapping[str, float], hypotheses: int) -> dict[str, float]:
    """Holm's corrected p: the i-th smallest times ``hypotheses`` - i, never below one before it."""
    corrected: dict[str, float] = {}
    least = 0.0
    for i, name in enumerate(sorted(p, key=lambda name: p[name])):
        least = max(least, min(1.0, p[name] * (hypotheses - i)))
        corrected[name] = least
    return corrected


def average_ranks(columns: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean rank of each row over columns, 1 for the highest value.

    As in the paper: a row without a number in a column (absent, None, or a word like ``OOM``) is left out of it, the others are
    ranked among themselves, and its own mean is over the columns it has. The paper's tables have no ties; here tied rows share the
    mean of their ranks. Rows with no number at all are left out.
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
