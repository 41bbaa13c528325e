r"""Power iteration of personalised PageRank on the nodes that a source reaches, see :mod:`naq.neighbors.power`.

A node whose value is below a bound passes nothing on, so every score is too low by at most :math:`\sum_{j=1}^{steps-1}
a^j` bounds. The bound is lowered until it is ``tolerance`` times the score of the last member. The cost of a row
depends on what is near its source, not on the graph.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange

from naq.graph import Graph
from naq.neighbors.topk import Progress, heap_offer, heap_sort


def find_members(
    graph: Graph, damping: float, steps: int, tolerance: float, ids: np.ndarray, scores: np.ndarray, progress: Progress
) -> None:
    """Fill ``ids`` and ``scores`` (n, size); scores are relative to 1 / degree of the source."""
    indptr, indices = graph.adjacency.indptr.astype(np.int64), graph.adjacency.indices.astype(np.int32)
    n, threads = len(ids), numba.get_num_threads()
    block = max(256, n // 64)
    for start in range(0, n, block):
        part = np.arange(start, min(n, start + block))
        _find_rows(indptr, indices, part, damping, steps, tolerance, ids, scores, threads)
        if progress is not None:
            progress(int(part[-1]) + 1, n)


@njit(cache=True, parallel=True)
def _find_rows(
    indptr: Any, indices: Any, sources: Any, damping: Any, steps: Any, tolerance: Any, ids: Any, scores: Any,
    threads: Any, first_bound: Any = 1e-3,
) -> None:  # fmt: skip
    """Lower the bound until it is a small share of the last member's score, or nothing is pruned."""
    n = len(indptr) - 1
    for thread in prange(threads):
        pair, lists = np.zeros((2, n)), np.empty((2, n + 1), dtype=np.int32)
        for number in range(thread, len(sources), threads):
            v, bound = sources[number], first_bound
            own_ids, own_scores = ids[v], scores[v]
            while True:
                count, pruned = _iterate(indptr, indices, v, damping, steps, bound, pair, lists)
                reached, values = lists[steps % 2, :count], pair[steps % 2]
                own_ids[:], own_scores[:] = -1, 0.0
                own_ids[0], own_scores[0] = v, np.float32(values[v])
                found = 0
                for u in reached:
                    if u != v and len(own_ids) > 1:
                        found = heap_offer(own_scores[1:], own_ids[1:], found, np.float32(values[u]), u)
                    values[u] = 0.0
                heap_sort(own_scores[1:], own_ids[1:], found)
                full = found == len(own_ids) - 1
                wanted = tolerance * np.float64(own_scores[len(own_ids) - 1]) if full else bound / 8.0
                if not pruned or bound <= wanted:
                    break
                bound = wanted


@njit(cache=True)
def _iterate(
    indptr: Any, indices: Any, v: Any, damping: Any, steps: Any, bound: Any, pair: Any, lists: Any
) -> Any:  # fmt: skip
    """Number of nodes reached and whether any was pruned; they are lists[steps % 2], their values pair[steps % 2].

    ``pair`` is zero before, and afterwards zero but for those nodes.
    """
    pair[0, v], lists[0, 0] = 1.0, v
    length, pruned = 1, False
    for step in range(steps):
        now, new = pair[step % 2], pair[1 - step % 2]
        front, fresh = lists[step % 2], lists[1 - step % 2]
        # The source is always there: it receives what returns (the factor is undone below).
        fresh[0], new[v] = v, (1.0 - damping) / damping * max(1, indptr[v + 1] - indptr[v])
        end = np.uint64(1)
        for w in front[:length]:
            value = now[w]
            now[w] = 0.0
            if value < bound:
                pruned = True
                continue
            for e in range(indptr[w], indptr[w + 1]):
                u = np.uint64(indices[e])
                before = new[u]
                new[u] = before + value
                # Appended first and counted afterwards: no branch to mispredict.
                fresh[end] = u
                end += np.uint64(before == 0.0)
        length = int(end)
        for u in fresh[:length]:
            new[u] *= damping / max(1, indptr[u + 1] - indptr[u])
    return length, pruned
