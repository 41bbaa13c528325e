"""Scores of methods over tasks and seeds, and ranks of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from naq.errors import OptionError


@dataclass(frozen=True, eq=False)
class Score:
    """The accuracy of one method in one setting, over tasks and seeds.

    Attributes:
        mean: of all tasks and seeds.
        ci95: half width of the paper's interval over tasks.
        spread: standard deviation of the seeds' means; None with one seed.
        rest: mean square of what is neither seed nor task in (seeds, tasks); None with one seed or one task.
        seeds: trainings behind it.
        per_task: mean over seeds, (tasks,).
        runs: (seeds, tasks).
        tasks: fingerprint of the task set; "" is unknown.
        trained: False for a method whose result no seed enters.
    """

    mean: float
    ci95: float
    spread: float | None
    rest: float | None
    seeds: int
    per_task: np.ndarray = field(repr=False)
    runs: np.ndarray = field(repr=False)
    tasks: str = ""
    trained: bool = True


def score(runs: Sequence[Sequence[float]] | np.ndarray, tasks: str = "", *, trained: bool = True) -> Score:
    """A score from the accuracies of each task, one list per seed, all on the same tasks.

    Args:
        runs: S lists of T fractions.
        tasks: fingerprint of the task set; scores are compared task by task only where both bear the same one.
        trained: False for a method without chance in its training (``smooth``, deterministic up to the seed of its SVD).
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
        rest=_rest(values) if min(values.shape) > 1 else None,
        seeds=len(means),
        per_task=per_task,
        runs=values,
        tasks=tasks,
        trained=trained,
    )


def _rest(y: np.ndarray) -> float:
    """MS_rest of the two-way table of seeds and tasks."""
    residual = y - y.mean(axis=0) - y.mean(axis=1, keepdims=True) + y.mean()
    return float(np.square(residual).sum()) / ((y.shape[0] - 1) * (y.shape[1] - 1))


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
