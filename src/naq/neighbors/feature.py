r"""Neighbours by features: exact top-k of cosine, negative Euclidean or Jaccard similarity (NaQ-Feat).

.. math::
    S_{ij} = \frac{x_i \cdot x_j}{|x_i||x_j|}, \qquad S_{ij} = -|x_i - x_j|, \qquad
    S_{ij} = \frac{|a_i \cap a_j|}{|a_i \cup a_j|}

Sparse features go through an inverted index, one row at a time: time sum of squared document frequencies, memory
O(n) per thread. Dense features, and CUDA, go through blocks of matrix products: memory O(block x n). Nothing is n x n.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numba import njit, prange

from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors.fill import check_fill, fill_table
from naq.neighbors.table import NeighborTable, cached, check_k
from naq.neighbors.topk import heap_offer, heap_sort

METRICS = ("cosine", "euclidean", "jaccard")
Progress = Callable[[int, int], None]
HEAVY_SHARE = 1 / 8
"""A column with more than this share of non-zeros is added densely."""
HEAVY_BYTES = 256 << 20


def feature_neighbors(
    graph: Graph,
    k: int = 10,
    *,
    metric: str = "cosine",
    fill: str = "none",
    seed: int = 0,
    device: str = "cpu",
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> NeighborTable:
    """The ``k`` nearest other nodes of every node by features, exact, ties to the lowest id.

    Args:
        metric: ``cosine``; ``euclidean`` (scores are negative distances); ``jaccard`` (of the non-zero positions).
        fill: under cosine and Jaccard a similarity of exactly 0 means nothing in common and makes no neighbour, so a
            node may have fewer than k; an all-zero row has none. ``none`` leaves -1, ``lowest`` completes with the lowest ids
            (as the paper's code), ``random`` with random nodes.
        seed: for ``fill="random"``.
        device: ``cpu`` or a CUDA device.
        cache: folder in which tables are kept by graph hash; None keeps nothing.
        progress: called with (rows done, rows in all).

    Example:
        >>> import naq
        >>> g = naq.Graph([[0], [1]], features=[[1, 1], [1, 0], [0, 1]], nodes=3)
        >>> naq.feature_neighbors(g, k=1).ids.tolist()
        [[1], [0], [0]]
    """
    features = graph.require_features("feature_neighbors")
    k = check_k(graph, k)
    if metric not in METRICS:
        raise OptionError(f"metric is {metric!r}; expected one of {', '.join(METRICS)}.")
    check_fill(fill, ("none", "lowest", "random"))
    info = {"kind": "feature", "metric": metric, "k": k, "fill": fill}
    if fill == "random":
        info["seed"] = seed

    def make() -> NeighborTable:
        if graph.sparse_features and str(device) == "cpu":
            ids, scores = _inverted_index(features, k, metric, progress)
        else:
            from naq.neighbors.feature_blocks import block_topk

            ids, scores = block_topk(features, k, metric, device, progress)
        fill_table(ids, fill, seed=seed)
        return NeighborTable(ids, scores, info)

    return cached(graph, info, cache, make)


def squared_norms(features: Any) -> np.ndarray:
    """(n,) float64 sum of squares of each row."""
    if isinstance(features, np.ndarray):
        return np.einsum("ij,ij->i", features, features, dtype=np.float64)
    squares = sp.csr_array(
        (features.data.astype(np.float64) ** 2, features.indices, features.indptr), shape=features.shape
    )
    return np.asarray(squares.sum(axis=1)).ravel()


def _inverted_index(
    features: sp.csr_array, k: int, metric: str, progress: Progress | None
) -> tuple[np.ndarray, np.ndarray]:
    n = features.shape[0]
    if metric == "jaccard":
        features = sp.csr_array((np.ones_like(features.data), features.indices, features.indptr), shape=features.shape)
    columns = sp.csr_array(features.T)
    size = squared_norms(features)
    heavy, place = _heavy_columns(columns)
    ids = np.full((n, k), -1, dtype=np.int32)
    scores = np.zeros((n, k), dtype=np.float32)
    block = max(256, n // 64)
    for start in range(0, n, block):
        stop = min(n, start + block)
        _rows(
            features.indptr, features.indices, features.data, columns.indptr, columns.indices, columns.data, heavy, place,
            size, start, stop, METRICS.index(metric), ids, scores, numba.get_num_threads(),
        )  # fmt: skip
        if progress is not None:
            progress(stop, n)
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


@njit(cache=True, inline="always")
def similarity(metric: Any, dot: Any, size_i: Any, size_j: Any) -> Any:
    """float32 score from a dot product and two squared norms, all float64: equal inputs give equal scores."""
    if metric == 0:
        return np.float32(dot / np.sqrt(size_i * size_j)) if size_i > 0.0 and size_j > 0.0 else np.float32(0.0)
    if metric == 1:
        return np.float32(-np.sqrt(max(size_i + size_j - 2.0 * dot, 0.0)))
    union = size_i + size_j - dot
    return np.float32(dot / union) if union > 0.0 else np.float32(0.0)


@njit(cache=True, parallel=True)
def _rows(
    indptr: Any, indices: Any, data: Any, col_ptr: Any, col_rows: Any, col_data: Any, heavy: Any, place: Any,
    size: Any, start: Any, stop: Any, metric: Any, ids: Any, scores: Any, threads: Any,
) -> None:  # fmt: skip
    n = len(indptr) - 1
    for thread in prange(threads):
        dots = np.zeros(n, dtype=np.float64)
        for i in range(start + thread, stop, threads):
            _accumulate(indptr, indices, data, col_ptr, col_rows, col_data, heavy, place, i, dots)
            found = _select(i, size, metric, dots, scores[i], ids[i])
            heap_sort(scores[i], ids[i], found)
            dots[:] = 0.0


@njit(cache=True)
def _accumulate(
    indptr: Any,
    indices: Any,
    data: Any,
    col_ptr: Any,
    col_rows: Any,
    col_data: Any,
    heavy: Any,
    place: Any,
    i: Any,
    dots: Any,
) -> None:
    for e in range(indptr[i], indptr[i + 1]):
        column, value = indices[e], np.float64(data[e])
        if place[column] >= 0:
            whole = heavy[place[column]]
            for j in range(len(dots)):
                dots[j] += value * np.float64(whole[j])
        else:
            for f in range(col_ptr[column], col_ptr[column + 1]):
                dots[np.uint64(col_rows[f])] += value * col_data[f]


@njit(cache=True)
def _select(i: Any, size: Any, metric: Any, dots: Any, scores: Any, ids: Any) -> Any:
    found, k = 0, len(ids)
    cutoff = 0.0
    for j in range(len(size)):
        # A squared comparison that is safely below the worst kept score spares the division and the root.
        if metric == 0 and found == k and dots[j] * dots[j] < cutoff * size[j] and scores[0] > 0.0:
            continue
        if j == i or (metric != 1 and dots[j] == 0.0):
            continue
        found = heap_offer(scores, ids, found, similarity(metric, dots[j], size[i], size[j]), j)
        worst = np.float64(scores[0])
        cutoff = worst * worst * size[i] * (1.0 - 1e-6)
    return found
