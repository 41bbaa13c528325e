"""Feature top-k of very many rows, in time that grows with their number: nearly all of the true neighbours, with the scores of the exact table.

1. Equal rows are taken once; rows of zeros have no neighbours under cosine and Jaccard and are left out.
2. Rows are made narrow (:mod:`naq.neighbors.narrow`), divided into clusters, and compared with the members of the nearest (:mod:`naq.neighbors.approximate`).
3. Sparse rows also meet rows that share a word with them (:mod:`naq.neighbors.shared_words`), under Euclid the shortest rows too.
4. ``PASSES`` times neighbours of neighbours are compared (:mod:`naq.neighbors.descent`), by the metric itself: most of the true neighbours are found here.
5. What is left is scored in float64 as the exact table does, ties to the lowest id.

The table is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.memory import require
from naq.neighbors import approximate
from naq.neighbors.approximate import groups, near_lists, row_hashes
from naq.neighbors.descent import descend
from naq.neighbors.narrow import Compared, narrow_rows, narrow_width
from naq.neighbors.scored_rows import Numbers, Vectors, Words, enter, leave, room, score
from naq.neighbors.shared_words import scored_lists
from naq.neighbors.similarity import METRICS, binary, squared_norms
from naq.neighbors.topk import heap_offer, heap_sort
from naq.random import mixed

PROBES = 8
"""Clusters that a sparse row is compared with."""
NEAR = 20
"""Narrow rows that become candidates of a sparse row."""
EXTRA = 20
"""Neighbours kept beyond k until the end."""
FAN = 30
PASSES = 4
SEED = 0


def approximate_topk(
    features: sp.csr_array | np.ndarray,
    k: int,
    metric: str,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """ids (n, k) and scores (n, k): best first, -1 and 0 where there is none.

    Args:
        device: where clusters are found.
        progress: called with (rows done, rows in all), each step a share of them.
    """
    n = features.shape[0]
    if isinstance(features, np.ndarray) and metric == "jaccard":
        features = sp.csr_array(features != 0, dtype=np.float32)
    require(_bytes(features, k), f"an approximate table of {n:,} nodes", "lower k, or use search='exact'")
    ids, scores = np.full((n, k), -1, dtype=np.int32), np.zeros((n, k), dtype=np.float32)
    compared = Compared(features, metric)
    starts, members = _equal_rows(compared)
    first = members[starts[:-1]]
    rounds = 2 + PASSES

    def report(done: int) -> None:
        if progress is not None:
            progress(min(n, done * n // (rounds * len(first))), n)

    if len(first):
        search = _words if sp.issparse(features) else _numbers
        order, lists = search(compared, first, min(k + EXTRA, len(first) - 1), device, report)
        _share_out(_exact(features, metric), lists, order, starts, members, ids, scores)
    if progress is not None:
        progress(n, n)
    return ids, scores


def _bytes(features: Any, k: int) -> float:
    """At the peak: narrow rows twice beside the clusters of each and their best, or lists twice beside the rows in another order."""
    n, kept = features.shape[0], k + EXTRA
    width = features.nnz / n if sp.issparse(features) else 0.0
    probes = PROBES if sp.issparse(features) else approximate.PROBES
    clusters = 12.0 * narrow_width(features) + 32.0 * probes + 16.0 * kept
    return n * (8.0 * k + 24.0 + max(clusters, 28.0 * kept + 4.0 * FAN + 12.0 * width))


def _equal_rows(compared: Compared) -> tuple[np.ndarray, np.ndarray]:
    """Where each group of equal rows starts, and the nodes of each; equal by a hash of 64 bits. Zero rows are left out where they have no neighbours."""
    nodes = np.arange(compared.features.shape[0])
    code, there = np.empty(len(nodes), dtype=np.uint64), np.ones(len(nodes), dtype=bool)
    for part, rows in compared.blocks(nodes):
        if isinstance(rows, np.ndarray):
            code[part] = row_hashes(np.ascontiguousarray(rows))
            any_there = rows.any(axis=1)
        else:
            code[part] = _word_hashes(rows.indptr, rows.indices, rows.data.view(np.uint32))
            any_there = np.diff(rows.indptr) > 0
        if compared.metric != "euclidean":
            there[part] = any_there
    return groups(code[there], nodes[there])


@njit(cache=True)
def _word_hashes(indptr: Any, indices: Any, bits: Any) -> Any:
    found = np.empty(len(indptr) - 1, dtype=np.uint64)
    for row in range(len(found)):
        code = np.uint64(0)
        for e in range(indptr[row], indptr[row + 1]):
            code = mixed(
                code + (np.uint64(indices[e]) << np.uint64(32)) + np.uint64(bits[e]) + np.uint64(0x9E3779B97F4A7C15)
            )
        found[row] = code
    return found


def _words(
    compared: Compared, nodes: np.ndarray, kept: int, device: str, report: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """(m,) order of the nodes by clusters, and (m, kept) places in it of those near each."""
    order, near = _near(compared, nodes, NEAR, 0, device, report, PROBES)
    rows = _exact(compared.features[nodes[order]], compared.metric)
    assert isinstance(rows, Words)
    always = np.empty(0, dtype=np.int64)
    if compared.metric == "euclidean":
        always = np.argsort(rows.size, kind="stable")[
            :kept
        ]  # rows that share nothing are the nearer the shorter they are
    lists = scored_lists(rows, near, always, kept)
    del near
    report(2 * len(nodes))
    return order, descend(rows, *lists, PASSES, lambda done: report(2 * len(nodes) + done), FAN)[0]


def _numbers(
    compared: Compared, nodes: np.ndarray, kept: int, device: str, report: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`_words`. Rows that are narrow as they are need no more than the search among them."""
    wide = narrow_width(compared.features) < compared.features.shape[1]
    order, lists = _near(compared, nodes, kept, approximate.PASSES, device, report, approximate.PROBES)
    if not wide:
        return order, lists
    rows = np.empty((len(nodes), compared.features.shape[1]), dtype=np.float32)
    half = np.zeros(len(nodes), dtype=np.float32)
    for part, block in compared.blocks(nodes[order]):
        rows[part] = block
        if compared.metric == "euclidean":
            half[part] = 0.5 * squared_norms(block)
    scored = Vectors(rows, half)
    found = np.full(lists.shape, -1, dtype=np.int32), np.full(lists.shape, -np.inf, dtype=np.float32)
    _rescore(scored, lists, *found)
    done_before = (1 + approximate.PASSES) * len(nodes)
    return order, descend(scored, *found, PASSES, lambda done: report(done_before + done), FAN)[0]


def _near(
    compared: Compared, nodes: np.ndarray, k: int, passes: int, device: str, report: Callable[[int], None], probes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Order of clusters, and the places in it of narrow rows near each."""
    rows, half = narrow_rows(compared, nodes, SEED)
    offset = half if compared.metric == "euclidean" else None
    given = torch.from_numpy(rows).to(device)
    del rows
    order, _, lists = near_lists(given, offset, k, SEED, passes, report, probes)
    return order, lists[0]


def _exact(features: Any, metric: str) -> Words | Numbers:
    """The rows with the score of the exact table."""
    if isinstance(features, np.ndarray):
        return Numbers(features, squared_norms(features), METRICS.index(metric))
    features = binary(features) if metric == "jaccard" else features
    size = squared_norms(features)
    return Words(features.indptr, features.indices, features.data, features.shape[1], size, METRICS.index(metric))


@njit(cache=True, parallel=True)
def _rescore(rows: Any, near: Any, ids: Any, scores: Any) -> None:
    """Lists in the order of another score."""
    for row in prange(len(near)):
        held, size, found = room(rows), 0, np.empty(near.shape[1], dtype=np.int64)
        enter(rows, row, held)
        for rank in range(near.shape[1]):
            other = np.int64(near[row, rank])
            if other >= 0:
                size = heap_offer(scores[row], found, size, score(rows, row, other, held), other)
        leave(rows, row, held)
        heap_sort(scores[row], found, size)
        for rank in range(size):
            ids[row, rank] = found[rank]


@njit(cache=True, parallel=True)
def _share_out(rows: Any, lists: Any, order: Any, starts: Any, members: Any, ids: Any, scores: Any) -> None:
    """Neighbours of distinct rows become those of all nodes: equal rows share them and are near each other.

    A score of 0 is no neighbour but under Euclid.
    """
    n, k = len(lists), ids.shape[1]
    parts = 64
    for number in prange(parts):
        part = np.int64(number)
        held, found = room(rows), np.empty(k, dtype=np.int64)
        for row in range(part * n // parts, (part + 1) * n // parts):
            own = order[row]
            for place in range(starts[own], starts[own + 1]):
                node, size = members[place], 0
                best = scores[node]
                enter(rows, node, held)
                for rank in range(-1, lists.shape[1]):
                    other = np.int64(row) if rank < 0 else np.int64(lists[row, rank])
                    if other < 0:
                        continue
                    group = order[other]
                    for at in range(starts[group], min(starts[group + 1], starts[group] + k + 1)):
                        if members[at] != node:
                            value = score(rows, node, members[at], held)
                            if value != 0 or rows.metric == 1:
                                size = heap_offer(best, found, size, value, members[at])
                leave(rows, node, held)
                heap_sort(best, found, size)
                for rank in range(size):
                    ids[node, rank] = found[rank]
