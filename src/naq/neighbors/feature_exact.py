"""Exact feature top-k, and how much of it an approximate table has.

Sparse features on the CPU go through an inverted index, a row at a time: a row meets the rows that share a column with it, through the lists
of its columns. The work is the sum over columns of the squared number of rows that have it; memory O(n) per thread. Under cosine and
Jaccard the others have a score of 0 and are no neighbours; under Euclid they are offered from the shortest on until none can enter.

Dense features, and any on CUDA, go through blocks of matrix products in torch. Both round float64 scores to float32, ties to the lowest id.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.device import require
from naq.graph.operators import csr_tensor
from naq.neighbors.similarity import METRICS, binary, metric_score, metric_scores, squared_norms
from naq.neighbors.topk import Best, Lists, Mark, Progress, heap_offer, heap_sort, no_mark, stable_topk
from naq.random import stream

HEAVY_SHARE = 1 / 8
"""A column with more than this share of non-zeros is added densely."""
HEAVY_BYTES = 256 << 20


def inverted_index_topk(
    features: sp.csr_array, k: int, metric: str, progress: Progress, seeds: tuple[int, int] | np.ndarray | None = None
) -> Lists:
    """ids (s, k) and scores (s, k): float64 scores rounded to float32, ties to the lowest id.

    Args:
        seeds: the nodes first..last-1 whose rows are wanted, or (s,) any nodes; None is all of them.
    """
    n = features.shape[0]
    wanted = seeds if isinstance(seeds, np.ndarray) else np.arange(*(seeds or (0, n)))
    if metric == "jaccard":
        features = binary(features)
    columns = sp.csr_array(features.T)
    size = squared_norms(features)
    heavy, place = _heavy_columns(columns)
    by_size = np.argsort(size, kind="stable").astype(np.int32)
    ends = np.searchsorted(size[by_size], size[by_size], side="right")
    ids = np.full((len(wanted), k), -1, dtype=np.int32)
    scores = np.zeros((len(wanted), k), dtype=np.float32)
    block = max(256, n // 64)
    for start in range(0, len(wanted), block):
        part = slice(start, min(len(wanted), start + block))
        _rows(
            features.indptr, features.indices, features.data, columns.indptr, columns.indices, columns.data, heavy, place,
            size, by_size, ends, wanted[part], METRICS.index(metric), ids[part], scores[part], numba.get_num_threads(),
        )  # fmt: skip
        if progress is not None:
            progress(part.stop, len(wanted))
    return ids, scores


def _heavy_columns(columns: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Columns so full that adding them whole beats visiting their entries: dense (h, n), and (d,) place in it or -1."""
    n = columns.shape[1]
    counts = np.diff(columns.indptr)
    chosen = np.flatnonzero(counts > HEAVY_SHARE * n)
    most = max(1, HEAVY_BYTES // (4 * n))
    chosen = chosen[np.argsort(-counts[chosen], kind="stable")][:most]
    place = np.full(columns.shape[0], -1, dtype=np.int32)
    place[chosen] = np.arange(len(chosen))
    return np.ascontiguousarray(columns[chosen].toarray(), dtype=np.float32).reshape(len(chosen), n), place


@njit(cache=True, parallel=True)
def _rows(
    indptr: Any, indices: Any, data: Any, col_ptr: Any, col_rows: Any, col_data: Any, heavy: Any, place: Any,
    size: Any, by_size: Any, ends: Any, wanted: Any, metric: Any, ids: Any, scores: Any, threads: Any,
) -> None:  # fmt: skip
    n = len(indptr) - 1
    for thread in prange(threads):
        dots = np.zeros(n, dtype=np.float64)
        everyone = np.arange(n).astype(np.uint32)  # unsigned: an index that cannot be negative is not checked
        met, last = np.empty(n + 1, dtype=np.uint32), np.full(n, -1, dtype=np.int64)
        for row in range(thread, len(ids), threads):
            i = wanted[row]
            columns = indices[indptr[i] : indptr[i + 1]]
            values = data[indptr[i] : indptr[i + 1]]
            if _visits(columns, col_ptr, place, n) >= n:
                _add_columns(columns, values, col_ptr, col_rows, col_data, heavy, place, dots)
                found = _select(i, size, metric, dots, everyone, scores[row], ids[row])
                dots[:] = 0.0
            else:
                count = _meet(i, columns, values, col_ptr, col_rows, col_data, dots, met, last)
                found = _select(i, size, metric, dots, met[:count], scores[row], ids[row])
                if metric == 1:
                    found = _offer_others(i, size, by_size, ends, last, found, scores[row], ids[row])
                for position in range(count):
                    dots[met[position]] = 0.0
            heap_sort(scores[row], ids[row], found)


@njit(cache=True)
def _visits(columns: Any, col_ptr: Any, place: Any, n: Any) -> Any:
    """Entries in the lists of these columns; n or more where one is added densely."""
    total = 0
    for column in columns:
        total += n if place[column] >= 0 else col_ptr[column + 1] - col_ptr[column]
    return total


@njit(cache=True)
def _add_columns(
    columns: Any, values: Any, col_ptr: Any, col_rows: Any, col_data: Any, heavy: Any, place: Any, dots: Any
) -> None:
    for e in range(len(columns)):
        column, value = columns[e], np.float64(values[e])
        if place[column] >= 0:
            whole = heavy[place[column]]
            for j in range(len(dots)):
                dots[j] += value * np.float64(whole[j])
        else:
            for f in range(col_ptr[column], col_ptr[column + 1]):
                dots[np.uint64(col_rows[f])] += value * col_data[f]


@njit(cache=True)
def _meet(
    i: Any, columns: Any, values: Any, col_ptr: Any, col_rows: Any, col_data: Any, dots: Any, met: Any, last: Any
) -> Any:
    """As :func:`_add_columns`, and list the rows that were met: how many. ``last[j] == i`` says that j is one of them."""
    end = np.uint64(0)
    for e in range(len(columns)):
        column, value = columns[e], np.float64(values[e])
        for f in range(col_ptr[column], col_ptr[column + 1]):
            j = np.uint64(col_rows[f])
            dots[j] += value * col_data[f]
            # Appended first and counted afterwards: no branch to mispredict.
            met[end] = j
            end += np.uint64(last[j] != i)
            last[j] = i
    return np.int64(end)


@njit(cache=True)
def _select(i: Any, size: Any, metric: Any, dots: Any, candidates: Any, scores: Any, ids: Any) -> Any:
    """Offer the candidates to the heap of row i; how many it holds."""
    found, k = 0, len(ids)
    cutoff = 0.0
    for j in candidates:
        # A squared comparison that is safely below the worst kept score spares the division and the root.
        if metric == 0 and found == k and dots[j] * dots[j] < cutoff * size[j] and scores[0] > 0.0:
            continue
        if j == i or (metric != 1 and dots[j] == 0.0):
            continue
        found = heap_offer(scores, ids, found, metric_score(metric, dots[j], size[i], size[j]), j)
        worst = np.float64(scores[0])
        cutoff = worst * worst * size[i] * (1.0 - 1e-6)
    return found


@njit(cache=True)
def _offer_others(i: Any, size: Any, by_size: Any, ends: Any, last: Any, found: Any, scores: Any, ids: Any) -> Any:
    """Offer the rows that were not met under Euclid, shortest first and then by id; ``ends[p]`` is where the rows as long as the p-th end."""
    position, k = 0, len(ids)
    while position < len(by_size):
        j = by_size[position]
        position += 1
        if j == i or last[j] == i:
            continue
        score = metric_score(1, 0.0, size[i], size[j])
        if found == k:
            if score < scores[0]:
                break
            if score == scores[0] and j > ids[0]:  # so are all others of this length
                position = ends[position - 1]
                continue
        found = heap_offer(scores, ids, found, score, j)
    return found


BLOCK_ENTRIES = 1 << 25
"""Scores held at once: a block of rows times n; 256 MiB in float64."""


def block_topk(
    features: sp.csr_array | np.ndarray, k: int, metric: str, device: str, progress: Progress, mark: Mark = no_mark,
    seeds: tuple[int, int] | None = None,
) -> Lists:  # fmt: skip
    """ids (s, k) and scores (s, k); same rules as the inverted index: float64 scores rounded to float32, ties to the lowest id.

    Args:
        seeds: the nodes first..last-1 whose rows are wanted; None is all of them.
    """
    n = features.shape[0]
    first, last = (0, n) if seeds is None else seeds
    block = int(max(1, min(4096, BLOCK_ENTRIES // n)))
    if str(device) == "cpu":
        held = 8.0 * (features.size if isinstance(features, np.ndarray) else 2 * features.nnz)
        rows = min(block, last - first)
        what = f"a block of {rows:,} x {n:,} scores beside the features in float64"
        require(held + 32.0 * rows * n, what, "use fewer workers, or a machine with more memory")
    if metric == "jaccard":
        features = binary(features)
    size = torch.from_numpy(squared_norms(features)).to(device)
    mark("compute")
    right = _on_device(features, device)
    mark("transfer")
    ids = np.full((last - first, k), -1, dtype=np.int32)
    scores = np.zeros((last - first, k), dtype=np.float32)
    for start in range(first, last, block):
        stop = min(last, start + block)
        left = features[start:stop]
        left = np.array(left) if isinstance(left, np.ndarray) else left.toarray()
        left = torch.from_numpy(left).to(device, torch.float64)
        mark("transfer")
        dots = (right @ left.T).T
        values = metric_scores(metric, dots, size[start:stop, None], size[None, :])
        own = torch.arange(start, stop, device=values.device)
        values[own - start, own] = -torch.inf
        if metric != "euclidean":
            values[values == 0] = -torch.inf
        mark("compute")
        chosen, found = stable_topk(values, k)
        mark("selection")
        keep = torch.isfinite(found)
        ids[start - first : stop - first] = torch.where(keep, chosen, -1).cpu().numpy()
        scores[start - first : stop - first] = torch.where(keep, found, 0).cpu().numpy()
        mark("transfer")
        if progress is not None:
            progress(stop - first, last - first)
    return ids, scores


def _on_device(features: Any, device: str) -> torch.Tensor:
    if isinstance(features, np.ndarray):
        return torch.from_numpy(np.array(features)).to(device, torch.float64)
    return csr_tensor(features.indptr, features.indices, features.data, features.shape, device, torch.float64)


SAMPLE = 512
"""Nodes whose true neighbours are found to measure recall."""
BLOCK = 1 << 15
"""Nodes that the sample is compared with at once."""


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """The share of the true neighbours that was found, 1 where there are none; both (rows, k) with -1 where there is none."""
    hits = ((found[:, :, None] == true[:, None, :]) & (true[:, None, :] >= 0)).any(axis=1)
    return float(hits.sum() / (true >= 0).sum()) if (true >= 0).any() else 1.0


def recall_with_ties(found: np.ndarray, scores: np.ndarray, true: np.ndarray, true_scores: np.ndarray) -> float:
    """As :func:`recall`, but one that is as near as the last true one counts as found."""
    there = true >= 0
    last = np.where(there, true_scores, np.inf).min(axis=1, initial=np.inf)[:, None]
    hits = np.minimum(((found >= 0) & (scores >= last)).sum(axis=1), there.sum(axis=1))
    return float(hits.sum() / there.sum()) if there.any() else 1.0


def measured_recall(features: Any, ids: np.ndarray, scores: np.ndarray, metric: str) -> dict[str, float]:
    """``recall`` and ``recall_with_ties`` of an approximate feature table, on ``SAMPLE`` random nodes."""
    n, k = ids.shape
    sample = np.sort(stream(0, "feature-neighbors/recall").choice(n, min(SAMPLE, n), replace=False))
    true, true_scores = true_rows(features, sample, k, metric)
    with_ties = recall_with_ties(ids[sample], scores[sample], true, true_scores)
    return {"recall": recall(ids[sample], true), "recall_with_ties": with_ties}


def true_rows(features: Any, nodes: np.ndarray, k: int, metric: str) -> Lists:
    """ids and scores (nodes, k) of the exact table; time O(nodes x n), memory O(nodes x block)."""
    if not isinstance(features, np.ndarray):
        return inverted_index_topk(features, k, metric, None, nodes)
    best, own = Best(len(nodes), k, torch.device("cpu")), np.array(features[nodes])
    left = torch.from_numpy((binary(own) if metric == "jaccard" else own).astype(np.float64))
    size = left.square().sum(dim=1)[:, None]
    places = torch.arange(len(nodes))
    for start in range(0, len(features), BLOCK):
        rows = np.array(features[start : start + BLOCK])
        rows = binary(rows) if metric == "jaccard" else rows
        dots = left @ torch.from_numpy(rows.astype(np.float64)).T
        values = metric_scores(metric, dots, size, torch.from_numpy(squared_norms(rows))[None])
        inside = np.flatnonzero((nodes >= start) & (nodes < start + len(rows)))
        values[inside, nodes[inside] - start] = -torch.inf
        if metric != METRICS[1]:
            values[values == 0] = -torch.inf
        # Owners are places in the sample, and none of the candidates has such a number.
        best.offer(values, places, torch.arange(start, start + len(rows)) + len(nodes))
    ids, scores = best.arrays()
    return np.where(ids >= 0, ids - len(nodes), -1), scores
