r"""Multinomial logistic regression on the supports, fitted like the paper's probe: early-stopped, not to the optimum.

Jung et al., Unsupervised Episode Generation for Graph Meta-learning (NaQ), https://arxiv.org/abs/2306.15217, whose
released code calls scikit-learn 1.1: ``LogisticRegression(multi_class="multinomial", C=1e4, max_iter=1000)`` with
L-BFGS.

.. math::
    \min_{W, b} \sum_{i \in \text{support}} -\log \mathrm{softmax}(W z_i + b)_{y_i} + \frac{1}{2 C} \lVert W \rVert_F^2

With C = 1e4 the true optimum can be far worse than the point where L-BFGS stops, so the optimiser's path and its
stopping rule are part of the head; later scikit-learn releases stop by another rule and give other numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from naq.heads.base import Head, task_slices
from naq.heads.lbfgs import MAX_TRIALS, MEMORY, STATE, STEP_MAX, dot, next_trial, set_direction, start_search
from naq.options import option
from naq.tasks import Tasks

EPS = 2.220446049250313e-16
DEPENDENT = 1e-13
"""A support row whose part outside the earlier rows is smaller than this, relative to the row, adds no direction."""


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
        for part in task_slices(tasks, embedding.shape[1]):
            ids = np.concatenate([tasks.support[part], tasks.query[part]], axis=1)
            nodes, place = np.unique(ids, return_inverse=True)
            rows = np.ascontiguousarray(embedding[nodes], dtype=np.float64)
            found = slots[part], iterations[part], objective[part]
            how = penalty, tol, ftol, self.options.max_iter
            solve_tasks(rows, place.reshape(ids.shape), tasks.way, tasks.shot, *how, *found)
        return Solution(slots, iterations, objective)


@njit(cache=True, parallel=True)
def solve_tasks(
    rows: Any, ids: Any, way: Any, shot: Any, penalty: Any, tol: Any, ftol: Any, max_iter: Any, slots: Any,
    iterations: Any, objective: Any,
) -> None:  # fmt: skip
    """Fit every task of ``ids`` (count, supports + queries; rows of ``rows``) and fill the three last arrays."""
    supports = way * shot
    for task in prange(len(ids)):
        basis, coordinates = _span(rows, ids[task, :supports])
        x, iterations[task], objective[task] = _minimise(basis, coordinates, way, penalty, tol, ftol, max_iter)
        _answer(rows, ids[task, supports:], basis, x, slots[task])


@njit(cache=True)
def _answer(rows: Any, ids: Any, basis: Any, x: Any, slots: Any) -> None:
    """The slot with the highest score for each of the rows ``ids``."""
    rank, width = basis.shape
    weights = np.zeros((len(x), width))
    for slot in range(len(x)):
        for r in range(rank):
            for j in range(width):
                weights[slot, j] += x[slot, r] * basis[r, j]
    for q in range(len(ids)):
        row = rows[ids[q]]
        best, score = 0, -np.inf
        for slot in range(len(x)):
            here = dot(row, weights[slot]) + x[slot, rank]
            if here > score:
                best, score = slot, here
        slots[q] = best


@njit(cache=True)
def _span(rows: Any, ids: Any) -> Any:
    """An orthonormal basis (rank, d) of the support rows and the rows' coordinates in it (supports, rank): all iterates
    lie in that span. Gram-Schmidt with every projection done twice."""
    width = rows.shape[1]
    basis = np.zeros((min(len(ids), width), width))
    coordinates = np.zeros((len(ids), len(basis)))
    if len(ids) >= width:
        for j in range(width):
            basis[j, j] = 1.0
        for i in range(len(ids)):
            for j in range(width):
                coordinates[i, j] = rows[ids[i], j]
        return basis, coordinates
    rank = 0
    for i in range(len(ids)):
        rest = rows[ids[i]].copy()
        size = np.sqrt(dot(rest, rest))
        for _ in range(2):
            for r in range(rank):
                part = dot(rest, basis[r])
                coordinates[i, r] += part
                for j in range(width):
                    rest[j] -= part * basis[r, j]
        left = np.sqrt(dot(rest, rest))
        if left > DEPENDENT * size:
            coordinates[i, rank] = left
            for j in range(width):
                basis[rank, j] = rest[j] / left
            rank += 1
    return basis[:rank], coordinates[:, :rank].copy()


@njit(cache=True)
def _evaluate(coordinates: Any, way: Any, penalty: Any, x: Any, gradient: Any) -> Any:
    """The objective at x (way, rank + 1), intercepts last; its gradient goes into ``gradient``."""
    supports, rank = coordinates.shape
    shot = supports // way
    scores = np.empty(way)
    total = 0.0
    for slot in range(way):
        square = 0.0
        for r in range(rank):
            square += x[slot, r] * x[slot, r]
            gradient[slot, r] = penalty * x[slot, r]
        gradient[slot, rank] = 0.0
        total += 0.5 * penalty * square
    for i in range(supports):
        row = coordinates[i]
        for slot in range(way):
            scores[slot] = dot(row, x[slot, :rank]) + x[slot, rank]
        answer = scores[i // shot]
        top = answer
        for slot in range(way):
            top = max(top, scores[slot])
        mass = 0.0
        for slot in range(way):
            scores[slot] = np.exp(scores[slot] - top)
            mass += scores[slot]
        total += np.log(mass) + top - answer
        for slot in range(way):
            pull = scores[slot] / mass - (1.0 if slot == i // shot else 0.0)
            for r in range(rank):
                gradient[slot, r] += pull * row[r]
            gradient[slot, rank] += pull
    return total


@njit(cache=True)
def _flat(basis: Any, gradient: Any, tol: Any) -> Any:
    """Whether no entry of the gradient, in the coordinates of the embedding, is larger than ``tol``; the entries are
    computed only where the norm of a row does not decide it."""
    rank, width = basis.shape
    certain = True
    for slot in range(len(gradient)):
        if abs(gradient[slot, rank]) > tol:
            return False
        norm = np.sqrt(dot(gradient[slot, :rank], gradient[slot, :rank]))
        if norm > tol * np.sqrt(width) * (1.0 + 1e-9):
            return False
        certain = certain and norm < tol * (1.0 - 1e-9)
    if certain:
        return True
    for slot in range(len(gradient)):
        entries = np.zeros(width)
        for r in range(rank):
            for j in range(width):
                entries[j] += gradient[slot, r] * basis[r, j]
        for j in range(width):
            if abs(entries[j]) > tol:
                return False
    return True


@njit(cache=True, error_model="numpy")
def _minimise(basis: Any, coordinates: Any, way: Any, penalty: Any, tol: Any, ftol: Any, max_iter: Any) -> Any:
    """(x, iterations, objective): from zero, down the path of unconstrained L-BFGS-B, to its stop."""
    size = way * (len(basis) + 1)
    x = np.zeros(size)
    gradient = np.empty(size)
    before_x = np.empty(size)
    before_gradient = np.empty(size)
    direction = np.empty(size)
    steps = np.empty((MEMORY, size))
    changes = np.empty((MEMORY, size))
    curvature = np.empty(MEMORY)
    state = np.empty(STATE)
    as_matrix = (way, len(basis) + 1)
    held, newest, iteration, theta = 0, 0, 0, 1.0

    value = _evaluate(coordinates, way, penalty, x.reshape(as_matrix), gradient.reshape(as_matrix))
    if _flat(basis, gradient.reshape(as_matrix), tol):
        return x.reshape(as_matrix), iteration, value
    while True:
        set_direction(gradient, steps, changes, curvature, newest, held, theta, direction)
        step = min(1.0 / np.sqrt(dot(direction, direction)), STEP_MAX) if iteration == 0 else 1.0
        for i in range(size):
            before_x[i] = x[i]
            before_gradient[i] = gradient[i]
        before_value = value
        slope = before_slope = dot(gradient, direction)
        found, trials = False, 0
        start_search(state, step, value, slope)
        while before_slope < 0.0 and trials < MAX_TRIALS and not found:
            trials += 1
            taken = step
            for i in range(size):
                x[i] = before_x[i] + taken * direction[i]
            value = _evaluate(coordinates, way, penalty, x.reshape(as_matrix), gradient.reshape(as_matrix))
            slope = dot(gradient, direction)
            found, step = next_trial(state, taken, value, slope)
        if not found:
            for i in range(size):
                x[i] = before_x[i]
                gradient[i] = before_gradient[i]
            value = before_value
            if held == 0:
                return x.reshape(as_matrix), iteration, value
            held, theta = 0, 1.0
            continue

        iteration += 1
        if (
            _flat(basis, gradient.reshape(as_matrix), tol)
            or before_value - value <= ftol * max(abs(before_value), abs(value), 1.0)
            or iteration >= max_iter
        ):
            return x.reshape(as_matrix), iteration, value
        bend = (slope - before_slope) * step
        if bend > EPS * -before_slope * step:
            newest = (newest + 1) % MEMORY
            held = min(held + 1, MEMORY)
            curvature[newest] = bend
            for i in range(size):
                steps[newest, i] = step * direction[i]
                changes[newest, i] = gradient[i] - before_gradient[i]
            theta = dot(changes[newest], changes[newest]) / bend
