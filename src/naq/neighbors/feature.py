r"""Neighbours by features: top-k of cosine, negative Euclidean or Jaccard similarity (NaQ-Feat).

.. math::
    S_{ij} = \frac{x_i \cdot x_j}{|x_i||x_j|}, \qquad S_{ij} = -|x_i - x_j|, \qquad
    S_{ij} = \frac{|a_i \cap a_j|}{|a_i \cup a_j|}

Exact by :mod:`naq.neighbors.feature_exact`; where that is more than some minutes of work (``prefer_exact``),
:mod:`naq_scale.near_features` finds nearly all of the same neighbours and states their share.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.device import checked_device
from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors.feature_exact import METRICS, block_topk, inverted_index_topk
from naq.neighbors.table import NeighborTable, cached, check_fill, check_k, fill_table
from naq.neighbors.topk import Progress
from naq.options import imported

SEARCHES = ("auto", "exact", "approximate")
EXACT_VISITS = 1.5e11
"""Sparse features on the CPU: the largest sum of squared document frequencies."""
EXACT_PRODUCTS = 6e12
"""Dense features on the CPU: most multiplications, n^2 (columns + ``SELECTION``)."""
SELECTION = 1250
"""What it costs to choose the best among the scores, for a pair of rows, in multiplications."""
EXACT_NODES_CUDA = 1_000_000
"""On CUDA; under Euclid three times as many."""


def feature_neighbors(
    graph: Graph, k: int = 10, *, metric: str = "cosine", search: str = "auto", fill: str = "none", seed: int = 0,
    device: str = "cpu", cache: str | Path | None = None, progress: Progress = None,
) -> NeighborTable:  # fmt: skip
    """The ``k`` nearest other nodes of every node by features, ties to the lowest id.

    Args:
        metric: ``cosine``; ``euclidean`` (scores are negative distances); ``jaccard`` (of the non-zero positions).
        search: ``exact`` compares all nodes that have something in common; ``approximate`` finds nearly all of the same
            neighbours, with the same scores, in time that grows with the nodes; ``auto`` is exact where that takes some
            minutes at most. An approximate table states its ``info["recall"]``, the share of the exact table's
            neighbours of 512 nodes, and ``info["recall_with_ties"]``, with others that are as near as the last.
        fill: under cosine and Jaccard a similarity of exactly 0 means nothing in common and makes no neighbour, so a
            node may have fewer than k; an all-zero row has none. ``none`` leaves -1, ``lowest`` completes with the
            lowest ids (as the paper's code), ``random`` with random nodes.
        seed: for ``fill="random"``.
        device: ``cpu`` or a CUDA device.
        cache: folder in which tables are kept, by structure and features; None keeps nothing.
        progress: called with (rows done, rows in all).

    Example:
        >>> import naq
        >>> g = naq.Graph([[0], [1]], features=[[1, 1], [1, 0], [0, 1]], nodes=3)
        >>> naq.feature_neighbors(g, k=1).ids.tolist()
        [[1], [0], [0]]
    """
    info = feature_info(graph, k, metric, search, device)
    check_fill(fill, ("none", "lowest", "random"))
    checked_device(device)

    def make() -> NeighborTable:
        ids, scores, more = feature_rows(graph, info, None, device, progress)
        return NeighborTable(ids, scores, {**complete_info(info), **more})

    table = cached(graph, info, cache, make, reads_features=True)
    return fill_table(table, fill, seed=seed, graph=graph)


def feature_info(graph: Graph, k: int, metric: str, search: str = "auto", device: str = "cpu") -> dict[str, Any]:
    """What describes the table, checked; ``auto`` is decided. Exact ones have no ``search``: stored ones have none."""
    features = graph.require_features("feature_neighbors")
    k = check_k(graph, k)
    if metric not in METRICS:
        raise OptionError(f"metric is {metric!r}; expected one of {', '.join(METRICS)}.")
    if search not in SEARCHES:
        raise OptionError(f"search is {search!r}; expected one of {', '.join(SEARCHES)}.")
    info = {"kind": "feature", "metric": metric, "k": k}
    if search == "exact" or (search == "auto" and prefer_exact(features, metric, device)):
        return info
    return {**info, "search": "approximate"}


def complete_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a table says of itself."""
    return {"search": "exact", **info}


def prefer_exact(features: sp.csr_array | np.ndarray, metric: str = "cosine", device: str = "cpu") -> bool:
    """Whether an exact table takes some minutes at most: by its work on one core, or by the nodes on CUDA."""
    n, d = features.shape
    if not str(device).startswith("cpu"):
        return n <= EXACT_NODES_CUDA * (3 if metric == "euclidean" and isinstance(features, np.ndarray) else 1)
    if isinstance(features, np.ndarray):
        return float(n) * n * (d + SELECTION) <= EXACT_PRODUCTS
    frequency = np.zeros(d, dtype=np.int64)
    for start in range(0, features.nnz, 1 << 24):
        frequency += np.bincount(features.indices[start : start + (1 << 24)], minlength=d)
    return float((frequency.astype(np.float64) ** 2).sum()) <= EXACT_VISITS


def feature_rows(
    graph: Graph, info: Mapping[str, Any], seeds: tuple[int, int] | None, device: str = "cpu", progress: Progress = None
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """ids and scores (s, k) of the nodes first..last-1, or of all, and the recall of an approximate table."""
    features, k, metric = graph.require_features("feature_neighbors"), info["k"], info["metric"]
    if info.get("search") == "approximate":
        if seeds not in (None, (0, graph.num_nodes)):
            raise OptionError("an approximate feature table is made whole; expected one shard, or search='exact'.")
        return imported("naq_scale.near_features:approximate_rows")(features, k, metric, device, progress)
    if graph.sparse_features and str(device) == "cpu":
        return *inverted_index_topk(features, k, metric, progress, seeds), {}
    if isinstance(features, np.ndarray) and metric == "euclidean" and str(device) != "cpu":
        euclidean_topk = imported("naq_scale.screened:euclidean_topk")
        return *euclidean_topk(features, k, device, progress, seeds), {}
    return *block_topk(features, k, metric, device, progress, seeds=seeds), {}
