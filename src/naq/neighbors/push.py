r"""Personalised PageRank of every node by local push with over-relaxation, in parallel, with an error bound.

For source i the push keeps an estimate p and a residual q of the random-walk form :math:`R = \alpha (I - (1-\alpha)
D^{-1}A)^{-1}` with the invariant :math:`R_{i\cdot} = p + q R`. Relaxing a node moves :math:`\omega q_u` of its
residual; since the symmetric form of the system is positive definite, any order of relaxations with :math:`0 < \omega <
2` converges. When :math:`|q_u| \le \epsilon d_u` everywhere, reversibility (:math:`d_u R_{uj} = d_j R_{ju}`) gives
:math:`|R_{ij} - p_j| \le \epsilon d_j`, and for the symmetric diffusion :math:`S_{ij} = \sqrt{d_i / d_j} R_{ij}` an
error of at most :math:`\epsilon \sqrt{d_i d_j}`.

**Cost.** The threshold grows with the degree, so a hub is relaxed only for a residual that pays for its edges: relaxing
u visits :math:`d_u` edges and lowers the energy :math:`\tfrac12 r^T M^{-1} r` of the symmetric form by at least
:math:`\tfrac12 \omega (2 - \omega) \epsilon^2 d_u`, out of at most :math:`1 / (2 \alpha d_i)`. A node costs at most
:math:`1 / (\omega (2-\omega) \alpha d_i \epsilon^2)` edge visits, whatever the graph's size and hubs.

**The boundary.** Where the scores on both sides of the tenth place are too close to call, first the nodes near the
boundary get a separate short push without over-relaxation. It leaves a share m of its mass, and :math:`R_{uj} = d_j
R_{ju} / d_u` turns what it has settled, :math:`0 \le p^{(j)} \le R_{j\cdot}`, into a correction of the score of j after
which its error is at most :math:`\epsilon m \sqrt{d_i d_j}`. Where that does not decide, the tolerance is divided by
four while ``REFINE_VISITS`` last. A boundary between twins, nodes with the same neighbours, is left alone.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange

from naq.neighbors.topk import Progress, heap_offer, heap_sort
from naq.neighbors.walk import number_of, own_table, relax, reset_walk, start_walk, walk_memory

SETTLE = 10
"""The boundary after this many neighbours (the paper's query count) is refined where it is too close to call."""
WINDOW = 32
"""Nodes at the top of a row among which those near the boundary are corrected."""
BACK = 1e-2
"""Tolerance of these pushes: a few dozen edge visits each."""
REFINEMENTS = 4
"""How often an unsettled node's tolerance is divided by four."""
REFINE_VISITS, REFINE_TOTAL = 100_000, 10_000_000_000
"""No refinement is begun that would bring a node above so many edge visits; in a small graph above its share of the
total, ten times as many at most."""
SLACK = 0.1
"""Signed residuals cancel: the error seen at the boundary is about a tenth of the bound."""
DEEPENINGS = 64
"""How often it may be divided by four while a node has found fewer neighbours than its component holds."""


def push_topk(
    indptr: np.ndarray, indices: np.ndarray, others: np.ndarray, twin: np.ndarray, k: int, alpha: float,
    tolerance: float, progress: Progress = None, seeds: tuple[int, int] | None = None, dense_up_to: int = 1 << 18,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """ids (s, k), scores (s, k), the tolerance each node ended with (s,) and its edge visits (s,).

    Args:
        indptr, indices: adjacency, with the self-loops where they are wanted.
        others: (n,) number of other nodes in each node's component; a node with none gets an empty row.
        twin: (n,) of :func:`~naq.neighbors.diffusion.twins`.
        dense_up_to: nodes up to which a walk is kept in arrays over all nodes.
    """
    n = len(indptr) - 1
    first, last = (0, n) if seeds is None else seeds
    size = last - first
    ids = np.full((size, k), -1, dtype=np.int32)
    scores = np.zeros((size, k), dtype=np.float32)
    reached = np.zeros(size, dtype=np.float64)
    visits = np.zeros(size, dtype=np.int64)
    omega = 2.0 / (1.0 + np.sqrt(1.0 - (1.0 - alpha) ** 2))
    memory = walk_memory(indptr, numba.get_num_threads(), dense_up_to)
    block = max(256, size // 64)
    for start in range(0, size, block):
        stop = min(size, start + block)
        part = slice(start, stop)
        _rows(
            indptr, indices, others, twin, first + start, alpha, omega, tolerance,
            ids[part], scores[part], reached[part], visits[part], memory,
        )  # fmt: skip
        if progress is not None:
            progress(stop, size)
    return ids, scores, reached, visits


@njit(cache=True, parallel=True)
def _rows(
    indptr: Any, indices: Any, others: Any, twin: Any, first: Any, alpha: Any, omega: Any, tolerance: Any,
    ids: Any, scores: Any, reached: Any, visits: Any, memory: Any,
) -> None:  # fmt: skip
    nodes, lists, tables = memory
    for thread in prange(len(nodes)):
        _rows_of_thread(
            indptr, indices, others, twin, first, alpha, omega, tolerance,
            ids, scores, reached, visits, thread, nodes[thread], lists[thread], own_table(tables, thread), len(nodes),
        )  # fmt: skip


@njit(cache=True)
def _rows_of_thread(
    indptr: Any, indices: Any, others: Any, twin: Any, first: Any, alpha: Any, omega: Any, tolerance: Any,
    ids: Any, scores: Any, reached: Any, visits: Any, thread: Any, nodes: Any, lists: Any, tables: Any, threads: Any,
) -> None:  # fmt: skip
    forward, backward = (nodes[0], lists[0], own_table(tables, 0)), (nodes[1], lists[1], own_table(tables, 1))
    front = lists[2:]
    window = (np.empty(WINDOW), np.empty(WINDOW, dtype=np.int32))
    for row in range(thread, len(ids), threads):
        i = first + row
        if others[i] > 0:
            need = min(others[i], ids.shape[1])
            reached[row], visits[row] = _one(
                indptr, indices, twin, i, need, alpha, omega, tolerance,
                forward, backward, front, window, ids[row], scores[row],
            )  # fmt: skip


@njit(cache=True)
def _one(
    indptr: Any, indices: Any, twin: Any, i: Any, need: Any, alpha: Any, omega: Any, tolerance: Any,
    forward: Any, backward: Any, front: Any, window: Any, ids: Any, scores: Any,
) -> Any:  # fmt: skip
    nodes, touched, table = forward
    start_walk(indptr, forward, i)
    count, bound = 1, tolerance
    refinements, work = 0, 0
    most = max(REFINE_VISITS, min(10 * REFINE_VISITS, REFINE_TOTAL // (len(indptr) - 1)))
    near, corrections = np.empty(WINDOW, dtype=np.int32), np.empty(WINDOW)
    for deepening in range(DEEPENINGS):
        if deepening > 0:
            bound /= 4.0
        count, visits = relax(indptr, indices, alpha, omega, bound, nodes, touched, table, front, count)
        work += visits
        positive, held = _best(alpha, forward, count, window[0], window[1])
        if positive < need:
            continue
        low, high = _too_close(indptr, i, bound, twin, window, held)
        if low == high:
            break
        left = 0.0
        for place in range(low, high):
            j = window[1][place]
            corrections[place], mass, more = _correction(indptr, indices, alpha, j, forward, backward, front)
            near[place] = j
            left = max(left, mass)
            work += more
        for place in range(low, high):
            nodes[number_of(table, nodes, near[place])].estimate += corrections[place]
            window[0][place] += corrections[place] * _root(indptr, i) / _root(indptr, near[place])
        _sort_again(window[0], window[1], held)
        settled = _too_close(indptr, i, left * bound, twin, window, held) == (0, 0)
        if settled or refinements == REFINEMENTS or work + 4 * visits > most:
            break
        refinements += 1
        for place in range(low, high):  # the residuals they were made of are about to change
            nodes[number_of(table, nodes, near[place])].estimate -= corrections[place]
    ids[:] = -1
    scores[:] = 0.0
    _best(alpha, forward, count, scores, ids)
    reset_walk(forward, count)
    return bound, work


@njit(cache=True)
def _correction(indptr: Any, indices: Any, alpha: Any, j: Any, forward: Any, walk: Any, front: Any) -> Any:
    """What a short push from j adds to its estimate, the share of mass it has not settled, and its edge visits."""
    nodes, touched, own_places = walk
    residuals, _, places = forward
    start_walk(indptr, walk, j)
    count, visits = relax(indptr, indices, alpha, 1.0, BACK, nodes, touched, own_places, front, 1)
    total, left = 0.0, 0.0
    for position in range(count):
        node = nodes[touched[position]]
        settled = node.estimate + alpha * node.residual
        total += settled * residuals[number_of(places, residuals, node.id)].residual / node.degree
        left += (1.0 - alpha) * node.residual
    reset_walk(walk, count)
    own = residuals[number_of(places, residuals, j)]
    # The selection adds the first step of that push, alpha * residual, for every node.
    return total * own.degree - alpha * own.residual, left, visits


@njit(cache=True)
def _best(alpha: Any, walk: Any, count: Any, scores: Any, ids: Any) -> Any:
    """Fill a list with the best nodes met but the first: how many have a positive score, and how many it holds."""
    nodes, touched, _ = walk
    positive, held = 0, 0
    own, worst = np.float64(nodes[touched[0]].degree), 0.0
    root = np.sqrt(own)
    for number in touched[1:count]:
        node = nodes[number]
        amount = node.estimate + alpha * node.residual
        if amount <= 0.0:
            continue
        positive += 1
        # A squared comparison that is safely below the worst kept score spares the division and the root.
        if amount * amount * own < worst * node.degree:
            continue
        score = scores.dtype.type(amount * root / np.sqrt(np.float64(node.degree)))
        held = heap_offer(scores, ids, held, score, node.id)
        if held == len(ids):
            worst = np.float64(scores[0]) * np.float64(scores[0]) * (1.0 - 1e-6)
    heap_sort(scores, ids, held)
    return positive, held


@njit(cache=True)
def _sort_again(scores: Any, ids: Any, held: Any) -> None:
    """By insertion: only a few places have changed."""
    for place in range(1, held):
        score, node = scores[place], ids[place]
        while place > 0 and scores[place - 1] < score:
            scores[place], ids[place] = scores[place - 1], ids[place - 1]
            place -= 1
        scores[place], ids[place] = score, node


@njit(cache=True)
def _too_close(indptr: Any, i: Any, bound: Any, twin: Any, window: Any, held: Any) -> Any:
    """First and last + 1 place of the window that the typical error may bring across the boundary; (0, 0) if clear."""
    scores, ids = window
    if held <= SETTLE:
        return 0, 0
    error = SLACK * bound * _root(indptr, i)
    low, high = 0, held
    while low < SETTLE and _clear(low, SETTLE, error, indptr, twin, scores, ids):
        low += 1
    while high > SETTLE and _clear(SETTLE - 1, high - 1, error, indptr, twin, scores, ids):
        high -= 1
    return (low, high) if low < SETTLE < high else (0, 0)


@njit(cache=True)
def _clear(one: Any, two: Any, error: Any, indptr: Any, twin: Any, scores: Any, ids: Any) -> Any:
    """Whether the first place is ahead of the second by more than the error, or equal to it whatever the tolerance."""
    apart = error * (_root(indptr, ids[one]) + _root(indptr, ids[two]))
    return scores[one] - scores[two] > apart or twin[ids[one]] == twin[ids[two]]


@njit(cache=True, inline="always")
def _root(indptr: Any, u: Any) -> Any:
    return np.sqrt(np.float64(indptr[u + 1] - indptr[u]))
