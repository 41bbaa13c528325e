"""One method trained with several seeds, as one result: its mean, and an interval over seeds and tasks.

With y[s, t] the accuracy of seed s on task t, S seeds and T tasks, both are crossed random factors; the variance of the
mean is that of the means of seeds over S, plus that of the means of tasks over T, minus the rest, which is in both
(:mod:`naq_paper.statistics` has the whole rule, of which this is the case of one method). The variance of two seeds has
one degree of freedom, for which this interval is too short: theirs is Banerjee's, every source with its own quantile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from naq.heads import Evaluation
from naq.run.result import Result

LEVEL = 0.05
"""Two-sided, of an interval."""

Term = tuple[float, float]
"""A variance and its degrees of freedom."""


def over_seeds(results: Sequence[Result]) -> Result:
    """Results of seeds on the same tasks as one: accuracies are means over seeds, ``ci95`` is over seeds and tasks.

    What is of one training (configuration, history, embedding, model) is that of the first; ``per_seed`` has them all.
    """
    first = results[0]
    seconds = {name: sum(one.seconds.get(name, 0.0) for one in results) for name in first.seconds}
    evaluations = _means([one.evaluations for one in results])
    baseline = _means([one.baseline for one in results])
    return replace(first, evaluations=evaluations, baseline=baseline, seconds=seconds, per_seed=tuple(results))


def _means(parts: Sequence[Mapping[str, Evaluation]]) -> dict[str, Evaluation]:
    found = {}
    for name, one in parts[0].items():
        runs = np.stack([part[name].per_task for part in parts])
        ci95 = interval_over_runs(runs) if len(runs) > 1 else one.ci95
        found[name] = replace(one, accuracy=float(runs.mean()), ci95=ci95, per_task=runs.mean(axis=0))
    return found


def interval_over_runs(runs: np.ndarray) -> float:
    """Of the 95 % interval of the mean of ``runs`` (seeds, tasks), two seeds at least."""
    (count, size), per_task, means = runs.shape, runs.mean(axis=0), runs.mean(axis=1)
    seeds = [(float(means.var(ddof=1)) / count, count - 1)]
    tasks = [(float(per_task.var(ddof=1)) / size, size - 1)] if size > 1 else []
    if count == 2:
        return math.hypot(*(student(0.0, *source)[0] for source in (*seeds, *tasks)))
    rest = [(rest_square(runs) / (count * size), (count - 1) * (size - 1))] if size > 1 else []
    return student(0.0, *satterthwaite(seeds, tasks, rest))[0]


def rest_square(runs: np.ndarray) -> float:
    """The mean square of what is neither seed nor task in ``runs`` (seeds, tasks)."""
    residual = runs - runs.mean(axis=0) - runs.mean(axis=1, keepdims=True) + runs.mean()
    return float(np.square(residual).sum()) / ((runs.shape[0] - 1) * (runs.shape[1] - 1))


def satterthwaite(seeds: Sequence[Term], tasks: Sequence[Term], rest: Sequence[Term]) -> Term:
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


def student(mean: float, variance: float, degrees: float) -> tuple[float, float]:
    """Half width of the 95 % interval and two-sided p of ``mean``."""
    if variance <= 0:
        return 0.0, 1.0 if mean == 0 else 0.0
    error = math.sqrt(variance)
    return -float(special.stdtrit(degrees, LEVEL / 2)) * error, 2 * float(special.stdtr(degrees, -abs(mean) / error))
