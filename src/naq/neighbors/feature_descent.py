"""Feature top-k of very many rows, in time that grows with their number: nearly all of the true neighbours, with the scores of the exact table.

1. Equal rows are taken once; rows of zeros have no neighbours under cosine and Jaccard and are left out.
2. Rows are made narrow (:mod:`naq.neighbors.similarity`), divided into clusters, and compared with the members of the nearest.
3. Sparse rows also meet rows that share a word with them: each goes through its ``WORDS`` rarest words and takes ``WINDOW`` rows before
   and after it, in the order of clusters, from the list of each. Under Euclid they meet the shortest rows too.
4. ``PASSES`` times neighbours of neighbours are compared (:mod:`naq.neighbors.descent`), by the metric itself.
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

from naq.device import require
from naq.neighbors import approximate
from naq.neighbors.approximate import groups, near_lists, row_hashes, share_out
from naq.neighbors.descent import Numbers, Vectors, Words, added, descend, enter, fetch, leave, room, score
from naq.neighbors.similarity import METRICS, Compared, binary, narrow_rows, narrow_width, squared_norms
from naq.neighbors.topk import Lists, Progress, heap_offer, heap_sort
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
    features: sp.csr_array | np.ndarray, k: int, metric: str, device: str = "cpu", progress: Progress = None
) -> Lists:
    """ids (n, k) and scores (n, k): best first, -1 and 0 where there is none."""
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
        nothing = np.float32(np.nan if metric == "euclidean" else 0)
        share_out(_exact(features, metric), lists, order, starts, members, ids, scores, nothing)
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


WORDS = 16
WINDOW = 8
PARTS = 64


def scored_lists(rows: Words, near: np.ndarray, always: np.ndarray, k: int) -> Lists:
    """ids and scores (n, k), best first, -1 and -inf where there is none: the best by the metric of the candidates.

    Args:
        near: (n, m) candidates of each row, -1 where there is none; candidates by shared words come on top.
        always: (a,) candidates of all rows.
    """
    ids = np.full((len(near), k), -1, dtype=np.int32)
    scores = np.full((len(near), k), -np.inf, dtype=np.float32)
    ends, listed = _postings(rows.indptr, rows.indices, rows.columns)
    _offer(rows, ends, listed, near, always, ids, scores, WORDS, WINDOW)
    return ids, scores


@njit(cache=True)
def _postings(indptr: Any, indices: Any, columns: Any) -> Any:
    """(columns + 1,) where the list of each column begins, and the rows that have it, ascending."""
    ends = np.zeros(columns + 1, dtype=np.int64)
    for e in range(len(indices)):
        ends[indices[e] + 1] += 1
    for c in range(columns):
        ends[c + 1] += ends[c]
    place, rows = ends[:-1].copy(), np.empty(len(indices), dtype=np.int32)
    for row in range(len(indptr) - 1):
        for e in range(indptr[row], indptr[row + 1]):
            rows[place[indices[e]]] = row
            place[indices[e]] += 1
    return ends, rows


@njit(cache=True)
def _rarest(columns: Any, ends: Any, chosen: Any, counts: Any) -> Any:
    """Put the columns with the shortest lists, but for those of one row, into ``chosen``; how many."""
    found, most = 0, len(chosen)
    for column in columns:
        count = ends[column + 1] - ends[column]
        if count < 2 or (found == most and counts[most - 1] <= count):
            continue
        place = min(found, most - 1)
        found = place + 1
        while place > 0 and counts[place - 1] > count:
            counts[place], chosen[place] = counts[place - 1], chosen[place - 1]
            place -= 1
        counts[place], chosen[place] = count, column
    return found


@njit(cache=True, parallel=True)
def _offer(
    rows: Any, ends: Any, listed: Any, near: Any, always: Any, ids: Any, scores: Any, words: Any, window: Any
) -> None:
    n, k = ids.shape
    most = near.shape[1] + len(always) + words * (2 * window + 1) + 1
    slots = 64
    while slots < 2 * most:
        slots *= 2
    for number in prange(PARTS):
        part = np.int64(number)
        table, taken = np.full(slots, -1, dtype=np.int64), np.empty(most, dtype=np.int64)
        candidates, found, held = np.empty(most, dtype=np.int64), np.empty(k, dtype=np.int64), room(rows)
        chosen, counts = np.empty(words, dtype=np.int64), np.empty(words, dtype=np.int64)
        for row in range(part * n // PARTS, (part + 1) * n // PARTS):
            best, size = scores[row], 0
            candidates[0], taken[0], used = row, added(table, row), 1
            for source in range(near.shape[1] + len(always)):
                node = np.int64(near[row, source] if source < near.shape[1] else always[source - near.shape[1]])
                slot = added(table, node) if node >= 0 else np.int64(-1)
                if slot >= 0:
                    candidates[used], taken[used] = node, slot
                    used += 1
                    fetch(rows, node)
            own_words = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
            for rank in range(_rarest(own_words, ends, chosen, counts)):
                low, high = ends[chosen[rank]], ends[chosen[rank] + 1]
                own = low + np.searchsorted(listed[low:high], row)
                for place in range(max(low, own - window), min(high, own + window + 1)):
                    node = np.int64(listed[place])
                    slot = added(table, node)
                    if slot >= 0:
                        candidates[used], taken[used] = node, slot
                        used += 1
                        fetch(rows, node)
            enter(rows, row, held)
            for place in range(1, used):
                value = score(rows, row, candidates[place], held)
                if size < k or value >= best[0]:
                    size = heap_offer(best, found, size, value, candidates[place])
            leave(rows, row, held)
            for place in range(used):
                table[taken[place]] = -1
            heap_sort(best, found, size)
            for rank in range(size):
                ids[row, rank] = found[rank]
