r"""Multinomial logistic regression on the supports, fitted like the paper's probe: early-stopped, not to the optimum.

Jung et al., Unsupervised Episode Generation for Graph Meta-learning (NaQ), https://arxiv.org/abs/2306.15217, whose
released code calls scikit-learn 1.1: ``LogisticRegression(multi_class="multinomial", C=1e4, max_iter=1000)`` with
L-BFGS.

.. math::
    \min_{W, b} \sum_{i \in \text{support}} -\log \mathrm{softmax}(W z_i + b)_{y_i} + \frac{1}{2 C} \lVert W \rVert_F^2

The intercept is not penalised, so with C = 1e4 the true optimum can be far worse than the point where L-BFGS stops:
on raw counts it loses tens of points. The optimiser's path and its stopping rule therefore are part of the head, and
later scikit-learn releases, which stop by another rule, give other numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from naq.heads.base import Head, task_chunks
from naq.heads.softmax_fit import solve_tasks
from naq.options import option
from naq.tasks import Tasks


class Solution(NamedTuple):
    """What the probe found: slots (count, queries), and per task the iterations and the objective at the stop."""

    slots: np.ndarray
    iterations: np.ndarray
    objective: np.ndarray


class LogisticHead(Head):
    """The linear probe.

    Shapes:
        - embedding: (nodes, d), used as it is: no centring, no scaling; float64 inside
        - answer: (count, way * queries) int64; ties to the lowest slot

    Cost: O(supports^2 d) per task for a basis of its supports, then O(way supports^2) per iteration whatever d is, plus
    O(way supports d) in the last iterations. All tasks run in parallel; the answer does not depend on the number of
    threads.

    Example:
        >>> from naq.heads import evaluate
        >>> result = evaluate(embedding, tasks, "logistic", C=1e4)  # doctest: +SKIP
    """

    name = "logistic"
    summary = "linear probe: logistic regression on the supports, stopped early as in the paper"

    @dataclass(frozen=True)
    class Options(Head.Options):
        C: float = option(1e4, more_than=0)  # inverse strength of the penalty
        tol: float = option(1e-4, at_least=0)  # stop when no entry of the gradient of the summed objective is larger
        # stop when one iteration lowers the objective by no more than this, relative to max(objective, 1)
        ftol: float = option(2.220446049250313e-09, at_least=0)
        max_iter: int = option(1000, more_than=0)  # stop after this many iterations

    options: Options

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        return self.solve(embedding, tasks).slots

    def solve(self, embedding: np.ndarray, tasks: Tasks) -> Solution:
        """The answers and how the optimiser got there."""
        slots = np.empty(tasks.query.shape, dtype=np.int64)
        iterations = np.empty(len(tasks), dtype=np.int64)
        objective = np.empty(len(tasks), dtype=np.float64)
        penalty, tol, ftol = 1.0 / self.options.C, self.options.tol, self.options.ftol
        for part in task_chunks(tasks, embedding.shape[1]):
            ids = np.concatenate([tasks.support[part], tasks.query[part]], axis=1)
            nodes, place = np.unique(ids, return_inverse=True)
            rows = np.ascontiguousarray(embedding[nodes], dtype=np.float64)
            solve_tasks(
                rows,
                place.reshape(ids.shape),
                tasks.way,
                tasks.shot,
                penalty,
                tol,
                ftol,
                self.options.max_iter,
                slots[part],
                iterations[part],
                objective[part],
            )
        return Solution(slots, iterations, objective)
