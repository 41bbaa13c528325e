"""Where the rows of nodes lie in memory while they are smoothed: nodes with like vectors next to each other, since most edges join such nodes.

A step of smoothing fetches the rows of neighbours, and on a large graph most come from memory, not from a cache of the processor. With nodes in the order of a few clusters of their vectors more neighbours were
fetched a short while before. The order of places changes no bit: a node's neighbours are added in the order of their numbers wherever they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit, prange

from naq.graph import Graph
from naq.neighbors.clusters import assign, centres
from naq.neighbors.prefetch import LANES, line_aligned, prefetch_far
from naq.random import stream
from naq_scale.lanes import AHEAD, load_lanes, store_lanes

LARGE = 64 << 20
"""Bytes of rows above which places are sought: fewer stay in the caches."""
CLUSTERS, ROUNDS = 32, 4
"""Of k-means."""
SAMPLE = 1 << 16
"""Edges that are looked at before nodes are placed."""
GAIN = 0.1
"""Nodes are placed where the share of edges that lead to a near place grows by more than this."""


@dataclass(frozen=True, eq=False)
class Places:
    """A graph whose nodes have places.

    Attributes:
        indptr, indices: the adjacency from place to place; the entries of a row are in the order of their nodes.
        node: (n,) the node at each place, or None: every node is at the place of its number.
        place: (n,) the place of each node, or None.
    """

    indptr: np.ndarray
    indices: np.ndarray
    node: np.ndarray | None = None
    place: np.ndarray | None = None

    def by_place(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Rows of all nodes, (n, d) or (n,), by place; ``rows`` itself or ``out``, which has rows of the same shape."""
        return rows if self.node is None else _taken(rows, self.node, out)

    def by_node(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The reverse of :meth:`by_place`."""
        return rows if self.place is None else _taken(rows, self.place, out)


def plain_places(graph: Graph) -> Places:
    """Every node at the place of its number."""
    return Places(graph.adjacency.indptr, graph.adjacency.indices)


def places(graph: Graph, rows: np.ndarray) -> Places:
    """Places by clusters of ``rows`` (n, d), where these are large, the edges no larger, and edges stay within clusters more than within as many ranges of numbers.

    Memory: 4 bytes per entry of the adjacency and 8 per node.
    """
    plain, wide = plain_places(graph), torch.from_numpy(rows)
    if rows.nbytes < LARGE or graph.adjacency.nnz > rows.size:
        return plain
    middle = centres(wide, 0, CLUSTERS, ROUNDS)
    if _gain(graph, wide, middle) <= GAIN:
        return plain
    home = assign(wide, middle, 1)[:, 0].to(torch.uint8).numpy()
    node = np.argsort(home, kind="stable").astype(graph.adjacency.indices.dtype)
    place, indices = np.empty_like(node), np.empty_like(graph.adjacency.indices, subok=False)
    place[node] = np.arange(len(node), dtype=node.dtype)
    indptr = np.r_[0, np.cumsum(np.diff(plain.indptr)[node])].astype(plain.indptr.dtype)
    _translate(plain.indptr, plain.indices, place, indptr, indices)
    for array in (indptr, indices):
        array.flags.writeable = False  # as those of a graph: compiled code is compiled once
    return Places(indptr, indices, node, place)


def _gain(graph: Graph, rows: torch.Tensor, middle: torch.Tensor) -> float:
    """By how much the share of edges within a cluster is larger than that within as many ranges of numbers, on a sample."""
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    chosen = np.sort(stream(0, "places/edges").integers(0, len(indices), SAMPLE)) if len(indices) else np.empty(0, int)
    one, two = np.searchsorted(indptr, chosen, side="right") - 1, np.asarray(indices[chosen], dtype=np.int64)
    if not len(chosen):
        return 0.0
    near = (one * CLUSTERS // len(rows) == two * CLUSTERS // len(rows)).mean()
    homes = [assign(rows[torch.from_numpy(ends)], middle, 1)[:, 0] for ends in (one, two)]
    return float((homes[0] == homes[1]).float().mean()) - float(near)


@njit(cache=True, parallel=True)
def _translate(indptr: Any, indices: Any, place: Any, starts: Any, out: Any) -> None:
    for i in prange(len(place)):
        begin = starts[place[i]] - indptr[i]
        for e in range(indptr[i], indptr[i + 1]):
            out[begin + e] = place[indices[e]]


def _taken(rows: np.ndarray, which: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    if rows.ndim == 1:
        return rows[which]
    out = line_aligned(rows.shape) if out is None else out
    _take(rows.reshape(-1), which, out)
    return out


@njit(cache=True, parallel=True)
def _take(rows: Any, which: Any, out: Any) -> None:
    """Rows ``which`` of ``rows`` (all behind one another), asked for ahead of time."""
    width, last, flat = out.shape[1], len(which) - 1, out.reshape(-1)
    whole = width // LANES * LANES
    for i in prange(len(which)):
        coming, row = np.int64(which[min(i + AHEAD, last)]) * width, np.int64(which[i]) * width
        for k in range(0, width, LANES):
            prefetch_far(rows, coming + k)
        prefetch_far(rows, coming + width - 1)
        for k in range(0, whole, LANES):
            store_lanes(flat, i * width + k, load_lanes(rows, row + k))
        for k in range(whole, width):
            flat[i * width + k] = rows[row + k]
