r"""Neighbours by features: exact top-k of cosine, negative Euclidean or Jaccard similarity (NaQ-Feat).

.. math::
    S_{ij} = \frac{x_i \cdot x_j}{|x_i||x_j|}, \qquad S_{ij} = -|x_i - x_j|, \qquad
    S_{ij} = \frac{|a_i \cap a_j|}{|a_i \cup a_j|}

Sparse features go through an inverted index: time sum of squared document frequencies, memory O(n) per thread. Dense features, and
CUDA, go through blocks of matrix products: memory O(block x n). Nothing is n x n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from naq.devices import checked_device
from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors.feature_blocks import block_topk
from naq.neighbors.fill import check_fill, filled
from naq.neighbors.inverted_index import inverted_index_topk
from naq.neighbors.screened import euclidean_topk
from naq.neighbors.similarity import METRICS
from naq.neighbors.table import NeighborTable, cached, check_k


def feature_neighbors(
    graph: Graph,
    k: int = 10,
    *,
    metric: str = "cosine",
    fill: str = "none",
    seed: int = 0,
    device: str = "cpu",
    cache: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> NeighborTable:
    """The ``k`` nearest other nodes of every node by features, exact, ties to the lowest id.

    Args:
        metric: ``cosine``; ``euclidean`` (scores are negative distances); ``jaccard`` (of the non-zero positions).
        fill: under cosine and Jaccard a similarity of exactly 0 means nothing in common and makes no neighbour, so a
            node may have fewer than k; an all-zero row has none. ``none`` leaves -1, ``lowest`` completes with the lowest ids
            (as the paper's code), ``random`` with random nodes.
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
    info = feature_info(graph, k, metric)
    check_fill(fill, ("none", "lowest", "random"))
    checked_device(device)

    def make() -> NeighborTable:
        return NeighborTable(*feature_rows(graph, info, None, device, progress), info)

    table = cached(graph, info, cache, make, reads_features=True)
    return filled(table, fill, seed=seed, graph=graph)


def feature_info(graph: Graph, k: int, metric: str) -> dict[str, Any]:
    """What describes the table, checked."""
    graph.require_features("feature_neighbors")
    k = check_k(graph, k)
    if metric not in METRICS:
        raise OptionError(f"metric is {metric!r}; expected one of {', '.join(METRICS)}.")
    return {"kind": "feature", "metric": metric, "k": k}


def feature_rows(
    graph: Graph,
    info: Mapping[str, Any],
    seeds: tuple[int, int] | None,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (s, k) of the nodes first..last-1, or of all, in the table that ``info`` describes."""
    features = graph.require_features("feature_neighbors")
    if graph.sparse_features and str(device) == "cpu":
        return inverted_index_topk(features, info["k"], info["metric"], progress, seeds)
    if isinstance(features, np.ndarray) and info["metric"] == "euclidean" and str(device) != "cpu":
        return euclidean_topk(features, info["k"], device, progress, seeds)
    return block_topk(features, info["k"], info["metric"], device, progress, seeds=seeds)
