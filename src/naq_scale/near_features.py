r"""Approximate top-k of many feature rows in linear time, with the scores of the exact table.

1. Equal rows are taken once; rows of zeros have no neighbours under cosine and Jaccard and are left out.
2. Rows are made narrow, clustered, and compared with the members of the nearest clusters: :math:`s_{ij} \approx z_i
   \cdot z_j - h_j`, :math:`z_i = B^\top \tilde x_i`, orders the rows j about as the metric does. :math:`\tilde x` is a
   row of length one (cosine; Jaccard, of the non-zero positions) and h = 0, or the row minus the mean of all dense rows
   (Euclid) and :math:`h = |\tilde x|^2 / 2`. B is the leading right vectors of a sample.
3. Sparse rows also meet rows that share a word with them: each goes through its 16 rarest words and takes 8 rows before
   and after it, in the order of clusters, from the list of each. Under Euclid they meet the shortest rows too.
4. ``PASSES`` times neighbours of neighbours are compared (:mod:`naq_scale.nn_descent`), by the metric itself.
5. What is left is scored in float64 as the exact table does, ties to the lowest id.

The table is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.device import require
from naq.graph.operators import svd_basis, svd_start
from naq.neighbors.feature_exact import METRICS, binary, squared_norms
from naq.neighbors.topk import Lists, Progress
from naq.random import mixed, stream
from naq.threads import one_blas_thread
from naq_scale import near_vectors
from naq_scale.near_vectors import groups, near_lists, row_hashes, share_out
from naq_scale.nn_descent import (
    PARTS,
    NumberRows,
    VectorRows,
    WordRows,
    add_candidate,
    best_candidates,
    descend,
    hash_table,
    row_memory,
)
from naq_scale.recall import measure_recall

PROBES = 8
"""Clusters that a sparse row is compared with."""
NEAR = 20
"""Narrow rows that become candidates of a sparse row."""
EXTRA = 20
"""Neighbours kept beyond k until the end."""
FAN = 30
PASSES = 4
SEED = 0
WIDTH, WIDEST_DENSE = 32, 128
"""Numbers of a narrow row, and dense columns up to which rows stay as they are."""
SAMPLE, ITERATIONS = 1 << 16, 4
"""Rows that B is fitted on, and how often."""
BLOCK = 1 << 15
"""Rows narrowed at once."""


class Compared:
    """The rows of any nodes as the metric compares them: of length one, or scaled and (dense ones) minus their mean."""

    def __init__(self, features: Any, metric: str) -> None:
        self.features, self.metric = features, metric
        self.scale, self.mean = np.float32(1), np.float32(0)
        if metric == "euclidean":
            data = features if isinstance(features, np.ndarray) else features.data
            largest = max(float(data.max(initial=0)), -float(data.min(initial=0)))
            if largest > 0:  # squares of very large numbers do not fit in float32
                self.scale = np.float32(1.0 / largest)
            if isinstance(features, np.ndarray):
                self.mean = (features.mean(axis=0, dtype=np.float64) * self.scale).astype(np.float32)

    def __call__(self, nodes: np.ndarray) -> Any:
        rows = self.features[nodes]
        if self.metric == "euclidean":
            return rows * self.scale - self.mean if isinstance(rows, np.ndarray) else rows * self.scale
        rows = binary(rows) if self.metric == "jaccard" else rows
        length = np.sqrt(squared_norms(rows))
        scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        if isinstance(rows, np.ndarray):
            return (rows * scale[:, None]).astype(np.float32)
        data = (rows.data * np.repeat(scale, np.diff(rows.indptr))).astype(np.float32)
        return sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)

    def blocks(self, nodes: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Places in ``nodes`` and the rows there, a block at a time."""
        for start in range(0, len(nodes), BLOCK):
            part = slice(start, min(len(nodes), start + BLOCK))
            yield part, self(nodes[part])


def low_rank_width(features: Any) -> int:
    """Numbers of a narrow row."""
    columns = features.shape[1]
    return columns if columns <= (WIDEST_DENSE if isinstance(features, np.ndarray) else WIDTH) else WIDTH


def low_rank_rows(compared: Compared, nodes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """z (nodes, w) float32 and h (nodes,) float32."""
    width = low_rank_width(compared.features)
    rows, half = np.empty((len(nodes), width), dtype=np.float32), np.zeros(len(nodes), dtype=np.float32)
    with one_blas_thread():
        basis = None
        if width < compared.features.shape[1]:
            chosen = stream(seed, "narrow/sample").choice(len(nodes), min(SAMPLE, len(nodes)), replace=False)
            sample = compared(nodes[np.sort(chosen)])
            basis = svd_basis(sample, svd_start(sample.shape, WIDTH, seed, 0), ITERATIONS).astype(np.float32)
        for part, block in compared.blocks(nodes):
            if compared.metric == "euclidean":
                half[part] = 0.5 * squared_norms(block)
            if basis is not None:
                image = block @ basis
                rows[part, : image.shape[1]], rows[part, image.shape[1] :] = image, 0.0
            else:
                rows[part] = block if isinstance(block, np.ndarray) else block.toarray()
    return rows, half


def approximate_topk(
    features: sp.csr_array | np.ndarray, k: int, metric: str, device: str = "cpu", progress: Progress = None, *,
    members_each: int = near_vectors.MEMBERS, probes: int | None = None,
) -> Lists:  # fmt: skip
    """ids (n, k) and scores (n, k): best first, -1 and 0 for no neighbour.

    Args:
        members_each: rows of a cluster, on average.
        probes: clusters that a row is compared with; None: 8 for sparse rows, 20 for dense ones.
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
        probes = probes or (PROBES if sp.issparse(features) else near_vectors.PROBES)
        order, lists = _near(compared, first, min(k + EXTRA, len(first) - 1), device, report, members_each, probes)
        nothing = np.float32(np.nan if metric == "euclidean" else 0)
        share_out(_exact(features, metric), lists, order, starts, members, ids, scores, nothing)
    if progress is not None:
        progress(n, n)
    return ids, scores


def approximate_rows(
    features: sp.csr_array | np.ndarray, k: int, metric: str, device: str = "cpu", progress: Progress = None
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """As :func:`approximate_topk`, and the recall on a sample."""
    ids, scores = approximate_topk(features, k, metric, device, progress)
    return ids, scores, measure_recall(features, ids, scores, metric)


def _bytes(features: Any, k: int) -> float:
    """At the peak: narrow rows twice, their clusters and best, or lists twice and the rows in another order."""
    n, kept = features.shape[0], k + EXTRA
    width = features.nnz / n if sp.issparse(features) else 0.0
    probes = PROBES if sp.issparse(features) else near_vectors.PROBES
    clusters = 12.0 * low_rank_width(features) + 32.0 * probes + 16.0 * kept
    return n * (8.0 * k + 24.0 + max(clusters, 28.0 * kept + 4.0 * FAN + 12.0 * width))


def _equal_rows(compared: Compared) -> tuple[np.ndarray, np.ndarray]:
    """Where each group of rows with equal hashes starts, and its nodes; no zero rows if they have no neighbours."""
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


def _near(
    compared: Compared, nodes: np.ndarray, k: int, device: str, report: Callable[[int], None], members_each: int,
    probes: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(m,) the order of the nodes by clusters, and (m, k) places in it of those near each, -1 for none."""
    features, sparse, euclidean = compared.features, sp.issparse(compared.features), compared.metric == "euclidean"
    narrow, half = low_rank_rows(compared, nodes, SEED)
    passes, wide = 0 if sparse else near_vectors.PASSES, sparse or narrow.shape[1] < features.shape[1]
    order, near = near_lists(
        torch.from_numpy(narrow).to(device), half if euclidean else None, NEAR if sparse else k, SEED, passes, report,
        probes, members_each,
    )  # fmt: skip
    del narrow
    if not wide:  # rows that are narrow as they are need no more than the search among them
        return order, near
    if sparse:
        rows: Any = _exact(features[nodes[order]], compared.metric)
        # Rows that share nothing are the nearer the shorter they are.
        always = np.argsort(rows.size, kind="stable")[: k if euclidean else 0]
        lists = score_candidates(rows, near, always, k)
    else:
        rows = _dense_rows(compared, nodes[order])
        lists = np.full(near.shape, -1, dtype=np.int32), np.full(near.shape, -np.inf, dtype=np.float32)
        _rescore(rows, near, *lists)
    del near
    done_before = max(2, 1 + passes) * len(nodes)
    report(done_before)
    return order, descend(rows, *lists, PASSES, lambda done: report(done_before + done), FAN)[0]


def _dense_rows(compared: Compared, nodes: np.ndarray) -> VectorRows:
    rows = np.empty((len(nodes), compared.features.shape[1]), dtype=np.float32)
    half = np.zeros(len(nodes), dtype=np.float32)
    for part, block in compared.blocks(nodes):
        rows[part] = block
        if compared.metric == "euclidean":
            half[part] = 0.5 * squared_norms(block)
    return VectorRows(rows, half)


def _exact(features: Any, metric: str) -> WordRows | NumberRows:
    """The rows with the score of the exact table."""
    if isinstance(features, np.ndarray):
        return NumberRows(features, squared_norms(features), METRICS.index(metric))
    features = binary(features) if metric == "jaccard" else features
    size = squared_norms(features)
    return WordRows(features.indptr, features.indices, features.data, features.shape[1], size, METRICS.index(metric))


@njit(cache=True, parallel=True)
def _rescore(rows: Any, near: Any, ids: Any, scores: Any) -> None:
    """Lists in the order of another score."""
    for row in prange(len(near)):
        held, found = row_memory(rows), np.empty(near.shape[1], dtype=np.int64)
        candidates = near[row][near[row] >= 0].astype(np.int64)
        for rank in range(best_candidates(rows, row, candidates, held, scores[row], found, 0)):
            ids[row, rank] = found[rank]


def score_candidates(
    rows: WordRows, near: np.ndarray, always: np.ndarray, k: int, words: int = 16, window: int = 8
) -> Lists:
    """ids and scores (n, k), best first, -1 and -inf for no neighbour: the best by the metric of the candidates.

    Args:
        near: (n, m) candidates of each row, -1 for none; candidates by shared words come on top.
        always: (a,) candidates of all rows.
    """
    ids = np.full((len(near), k), -1, dtype=np.int32)
    scores = np.full((len(near), k), -np.inf, dtype=np.float32)
    ends, listed = _postings(rows.indptr, rows.indices, rows.columns)
    _offer(rows, ends, listed, near, always, ids, scores, words, window)
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
    for number in prange(PARTS):
        part = np.int64(number)
        table, candidates = hash_table(most), np.empty(most, dtype=np.int64)
        found, held = np.empty(k, dtype=np.int64), row_memory(rows)
        chosen, counts = np.empty(words, dtype=np.int64), np.empty(words, dtype=np.int64)
        for row in range(part * n // PARTS, (part + 1) * n // PARTS):
            table[:] = -1
            count = add_candidate(rows, table, candidates, 0, row)
            for source in range(near.shape[1]):
                count = add_candidate(rows, table, candidates, count, np.int64(near[row, source]))
            for node in always:
                count = add_candidate(rows, table, candidates, count, node)
            own_words = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
            for rank in range(_rarest(own_words, ends, chosen, counts)):
                low, high = ends[chosen[rank]], ends[chosen[rank] + 1]
                own = low + np.searchsorted(listed[low:high], row)
                for place in range(max(low, own - window), min(high, own + window + 1)):
                    count = add_candidate(rows, table, candidates, count, np.int64(listed[place]))
            size = best_candidates(rows, row, candidates[1:count], held, scores[row], found, 0)
            for rank in range(size):
                ids[row, rank] = found[rank]
