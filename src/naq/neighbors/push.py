r"""Personalised PageRank of every node by local push with over-relaxation, in parallel, with an error bound.

For source i the push keeps an estimate p and a residual q of the random-walk form :math:`R = \alpha (I - (1-\alpha) D^{-1}A)^{-1}`
with the invariant :math:`R_{i\cdot} = p + q R`. Relaxing a node moves :math:`\omega q_u` of its residual; since the
symmetric form of the system is positive definite, any order of relaxations with :math:`0 < \omega < 2` converges. When
:math:`|q_u| \le \epsilon d_u` everywhere, reversibility (:math:`d_u R_{uj} = d_j R_{ju}`) gives :math:`|R_{ij} - p_j| \le \epsilon d_j`,
and for the symmetric diffusion :math:`S_{ij} = \sqrt{d_i / d_j} R_{ij}` an error of at most :math:`\epsilon \sqrt{d_i d_j}`.

Cost per node is bounded by the residual moved, not by the graph: O(1 / (alpha * tolerance)) edge visits at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import njit, prange

from naq.neighbors.topk import heap_offer, heap_sort

SETTLE = 10
"""The boundary after this many neighbours (the paper's query count) is refined where it is too close to call."""
REFINEMENTS = 4
"""How often an unsettled node's tolerance is divided by four."""
REFINE_VISITS = 100_000
"""No further refinement once a node has cost this many edge visits: hubs make everything near everything."""
SLACK = 0.1
"""Signed residuals cancel: the error seen at the boundary is about a tenth of the bound."""
DEEPENINGS = 64
"""How often it may be divided by four while a node has found fewer neighbours than its component holds."""


def push_topk(
    indptr: np.ndarray,
    indices: np.ndarray,
    others: np.ndarray,
    k: int,
    alpha: float,
    tolerance: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ids (n, k), scores (n, k) and the tolerance each node ended with (n,).

    Args:
        indptr, indices: adjacency, with the self-loops where they are wanted.
        others: (n,) number of other nodes in each node's component.
    """
    n = len(indptr) - 1
    ids = np.full((n, k), -1, dtype=np.int32)
    scores = np.zeros((n, k), dtype=np.float32)
    reached = np.zeros(n, dtype=np.float64)
    degree = np.diff(indptr).astype(np.float64)
    omega = 2.0 / (1.0 + np.sqrt(1.0 - (1.0 - alpha) ** 2))
    block = max(256, n // 64)
    for start in range(0, n, block):
        stop = min(n, start + block)
        _rows(
            indptr,
            indices,
            degree,
            others,
            start,
            stop,
            alpha,
            omega,
            tolerance,
            ids,
            scores,
            reached,
            numba.get_num_threads(),
        )
        if progress is not None:
            progress(stop, n)
    return ids, scores, reached


@njit(cache=True, parallel=True)
def _rows(
    indptr: Any, indices: Any, degree: Any, others: Any, start: Any, stop: Any, alpha: Any, omega: Any, tolerance: Any,
    ids: Any, scores: Any, reached: Any, threads: Any,
) -> None:  # fmt: skip
    n = len(indptr) - 1
    for thread in prange(threads):
        estimate, residual = np.zeros(n), np.zeros(n)
        front = np.empty((2, n + 1), dtype=np.int32)
        touched = np.empty(n + 1, dtype=np.int32)
        flag = np.zeros(n, dtype=np.uint8)
        for i in range(start + thread, stop, threads):
            if others[i] > 0:
                reached[i] = _one(
                    indptr, indices, degree, i, min(others[i], ids.shape[1]), alpha, omega, tolerance,
                    estimate, residual, front, touched, flag, ids[i], scores[i],
                )  # fmt: skip


@njit(cache=True)
def _one(
    indptr: Any, indices: Any, degree: Any, i: Any, need: Any, alpha: Any, omega: Any, tolerance: Any,
    estimate: Any, residual: Any, front: Any, touched: Any, flag: Any, ids: Any, scores: Any,
) -> Any:  # fmt: skip
    residual[i] = 1.0
    touched[0], flag[i] = i, 1
    count, bound = 1, tolerance
    refinements, work = 0, 0
    for deepening in range(DEEPENINGS):
        if deepening > 0:
            bound /= 4.0
        count, visits = _relax(
            indptr, indices, degree, alpha, omega, bound, estimate, residual, front, touched, count, flag
        )
        work += visits
        found, settled = _select(i, alpha, bound, degree, estimate, residual, touched[:count], ids, scores)
        if found >= need:
            if settled or refinements == REFINEMENTS or work > REFINE_VISITS:
                break
            refinements += 1
    for position in range(count):
        u = touched[position]
        estimate[u], residual[u], flag[u] = 0.0, 0.0, 0
    return bound


@njit(cache=True)
def _relax(
    indptr: Any, indices: Any, degree: Any, alpha: Any, omega: Any, bound: Any,
    estimate: Any, residual: Any, front: Any, touched: Any, count: Any, flag: Any,
) -> Any:  # fmt: skip
    """Relax until every residual is within ``bound * degree``. Flags: 0 untouched, 1 touched, 2 in the next front.

    The inner loop appends first and counts afterwards, and its node numbers are unsigned: no branch to mispredict.
    """
    length = 0
    for position in range(count):
        u = touched[position]
        if abs(residual[u]) > bound * degree[u]:
            front[0, length], flag[u] = u, 2
            length += 1
    now, end, visits = 0, np.uint64(count), 0
    while length > 0:
        new = np.uint64(0)
        for position in range(length):
            u = front[now, position]
            flag[u] = 1
            rest = residual[u]
            if abs(rest) <= bound * degree[u]:
                continue
            moved = omega * rest
            residual[u] = rest - moved
            estimate[u] += alpha * moved
            visits += indptr[u + 1] - indptr[u]
            share = (1.0 - alpha) * moved / degree[u]
            for e in range(indptr[u], indptr[u + 1]):
                v = np.uint64(indices[e])
                value = residual[v] + share
                residual[v] = value
                state = flag[v]
                touched[end] = v
                end += np.uint64(state == 0)
                enters = (abs(value) > bound * degree[v]) & (state != 2)
                front[1 - now, new] = v
                new += np.uint64(enters)
                flag[v] = np.uint8(2) if enters else max(state, np.uint8(1))
            if flag[u] == 1 and abs(residual[u]) > bound * degree[u]:
                front[1 - now, new] = u
                new += np.uint64(1)
                flag[u] = 2
        length, now = int(new), 1 - now
    return np.int64(end), visits


@njit(cache=True)
def _select(
    i: Any,
    alpha: Any,
    bound: Any,
    degree: Any,
    estimate: Any,
    residual: Any,
    touched: Any,
    ids: Any,
    scores: Any,
) -> Any:
    """Fill the row; say how many were found and whether the boundary at SETTLE is clear of the typical error."""
    ids[:] = -1
    scores[:] = 0.0
    found = 0
    edge_scores = np.zeros(SETTLE + 1, dtype=np.float64)
    edge_ids = np.full(SETTLE + 1, -1, dtype=np.int32)
    edge = 0
    for u in touched:
        if u != i:
            value = (estimate[u] + alpha * residual[u]) * np.sqrt(degree[i] / degree[u])
            if value > 0.0:
                edge = heap_offer(edge_scores, edge_ids, edge, value, u)
                found = heap_offer(scores, ids, found, np.float32(value), u)
    heap_sort(scores, ids, found)
    if edge <= SETTLE:
        return found, True
    heap_sort(edge_scores, edge_ids, edge)
    inside, outside = edge_ids[SETTLE - 1], edge_ids[SETTLE]
    slack = bound * np.sqrt(degree[i]) * (np.sqrt(degree[inside]) + np.sqrt(degree[outside]))
    return found, edge_scores[SETTLE - 1] - edge_scores[SETTLE] > SLACK * slack
