"""Metrics of feature rows, and exact top-k by them.

Sparse features on the CPU go through an inverted index: a row meets the rows that share a column with it. The work is
the sum of squared column counts, the memory O(n) per thread. Under Euclid rows that were not met are offered from the
shortest on until none can enter. Dense features, and any on CUDA, go through blocks of matrix products in torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.device import require
from naq.graph.operators import csr_tensor
from naq.neighbors.topk import Lists, Progress, heap_offer, heap_sort, stable_topk

METRICS = ("cosine", "euclidean", "jaccard")


def squared_norms(features: Any) -> np.ndarray:
    """(n,) float64 sum of squares of each row."""
    if isinstance(features, np.ndarray):
        return np.einsum("ij,ij->i", features, features, dtype=np.float64)
    squared = features.data.astype(np.float64) ** 2
    squares = sp.csr_array((squared, features.indices, features.indptr), shape=features.shape)
    return np.asarray(squares.sum(axis=1)).ravel()


def binary(features: Any) -> Any:
    """1 where a feature is present, which is all that Jaccard looks at."""
    if isinstance(features, np.ndarray):
        return (features != 0).astype(np.float32)
    return sp.csr_array((np.ones_like(features.data), features.indices, features.indptr), shape=features.shape)


@njit(cache=True, inline="always")
def metric_score(metric: Any, dot: Any, size_i: Any, size_j: Any) -> Any:
    """float32 score from a dot product and two squared norms, all float64: equal inputs give equal scores.

    Args:
        metric: its place in ``METRICS``.
    """
    if metric == 0:
        return np.float32(dot / np.sqrt(size_i * size_j)) if size_i > 0.0 and size_j > 0.0 else np.float32(0.0)
    if metric == 1:
        return np.float32(-np.sqrt(max(size_i + size_j - 2.0 * dot, 0.0)))
    union = size_i + size_j - dot
    return np.float32(dot / union) if union > 0.0 else np.float32(0.0)


def metric_scores(metric: str, dots: torch.Tensor, size_i: torch.Tensor, size_j: torch.Tensor) -> torch.Tensor:
    """As :func:`metric_score`, of whole blocks."""
    if metric == "cosine":
        scale = torch.sqrt(size_i * size_j)
        return torch.where(scale > 0, dots / scale, 0.0).float()
    if metric == "euclidean":
        return -torch.sqrt(torch.clamp(size_i + size_j - 2 * dots, min=0)).float()
    union = size_i + size_j - dots
    return torch.where(union > 0, dots / union, 0.0).float()


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
            features.indptr, features.indices, features.data, columns.indptr, columns.indices, columns.data,
            heavy, place, size, by_size, ends, wanted[part], METRICS.index(metric), ids[part], scores[part],
            numba.get_num_threads(),
        )  # fmt: skip
        if progress is not None:
            progress(part.stop, len(wanted))
    return ids, scores


def _heavy_columns(columns: sp.csr_array, most_bytes: int = 256 << 20) -> tuple[np.ndarray, np.ndarray]:
    """Columns so full that adding them whole beats visiting their entries: dense (h, n), and (d,) place in it or -1."""
    n = columns.shape[1]
    counts = np.diff(columns.indptr)
    chosen = np.flatnonzero(counts > n / 8)
    most = max(1, most_bytes // (4 * n))
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
    """As :func:`_add_columns`, and list the rows that were met: how many. ``last[j] == i`` if j is one of them."""
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
    """Offer the rows that were not met under Euclid, by length, then id; ``ends[p]`` follows the p-th length."""
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


def block_topk(
    features: sp.csr_array | np.ndarray, k: int, metric: str, device: str, progress: Progress,
    seeds: tuple[int, int] | None = None, entries: int = 1 << 25,
) -> Lists:  # fmt: skip
    """ids (s, k) and scores (s, k), as :func:`inverted_index_topk`, by :func:`block_scores`."""
    first, last = seeds or (0, features.shape[0])
    ids = np.full((last - first, k), -1, dtype=np.int32)
    scores = np.zeros((last - first, k), dtype=np.float32)
    for start, values in block_scores(features, metric, device, (first, last), entries):
        chosen, found = stable_topk(values, k)
        rows, keep = slice(start - first, start - first + len(values)), torch.isfinite(found)
        ids[rows] = torch.where(keep, chosen, -1).cpu().numpy()
        scores[rows] = torch.where(keep, found, 0).cpu().numpy()
        if progress is not None:
            progress(rows.stop, last - first)
    return ids, scores


def block_scores(
    features: sp.csr_array | np.ndarray, metric: str, device: str, seeds: tuple[int, int], entries: int = 1 << 25
) -> Iterator[tuple[int, torch.Tensor]]:
    """The first node of a block and its float32 scores (rows, n); -inf for pairs that are no neighbours.

    Args:
        seeds: the nodes first..last-1 whose rows are wanted.
        entries: scores held at once, a block of rows times n; 256 MiB in float64.
    """
    n, (first, last) = features.shape[0], seeds
    block = int(max(1, min(4096, entries // n)))
    if str(device) == "cpu":
        whole = 8.0 * (features.size if isinstance(features, np.ndarray) else 2 * features.nnz)
        rows = min(block, last - first)
        what = f"a block of {rows:,} x {n:,} scores and the features in float64"
        require(whole + 32.0 * rows * n, what, "use fewer workers, or a machine with more memory")
    if metric == "jaccard":
        features = binary(features)
    size = torch.from_numpy(squared_norms(features)).to(device)
    if isinstance(features, np.ndarray):
        right = torch.from_numpy(np.array(features)).to(device, torch.float64)
    else:
        right = csr_tensor(features.indptr, features.indices, features.data, features.shape, device, torch.float64)
    for start in range(first, last, block):
        stop = min(last, start + block)
        left = features[start:stop]
        left = np.array(left) if isinstance(left, np.ndarray) else left.toarray()
        dots = (right @ torch.from_numpy(left).to(device, torch.float64).T).T
        values = metric_scores(metric, dots, size[start:stop, None], size[None, :])
        own = torch.arange(start, stop, device=values.device)
        values[own - start, own] = -torch.inf
        if metric != "euclidean":
            values[values == 0] = -torch.inf
        yield start, values
