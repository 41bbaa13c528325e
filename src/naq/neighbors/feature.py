r"""Neighbours by features: exact top-k of cosine, negative Euclidean or Jaccard similarity (NaQ-Feat).

.. math::
    S_{ij} = \frac{x_i \cdot x_j}{|x_i||x_j|}, \qquad S_{ij} = -|x_i - x_j|, \qquad
    S_{ij} = \frac{|a_i \cap a_j|}{|a_i \cup a_j|}

Sparse features go through an inverted index: time sum of squared document frequencies, memory O(n) per thread. Dense features, and
CUDA, go through blocks of matrix products: memory O(block x n). Nothing is n x n.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors.feature_blocks import block_topk
from naq.neighbors.fill import check_fill, filled
from naq.neighbors.inverted_index import inverted_index_topk
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
    features = graph.require_features("feature_neighbors")
    k = check_k(graph, k)
    if metric not in METRICS:
        raise OptionError(f"metric is {metric!r}; expected one of {', '.join(METRICS)}.")
    check_fill(fill, ("none", "lowest", "random"))
    info = {"kind": "feature", "metric": metric, "k": k}

    def make() -> NeighborTable:
        if graph.sparse_features and str(device) == "cpu":
            ids, scores = inverted_index_topk(features, k, metric, progress)
        else:
            ids, scores = block_topk(features, k, metric, device, progress)
        return NeighborTable(ids, scores, info)

    table = cached(graph, info, cache, make, reads_features=True)
    return filled(table, fill, seed=seed)
