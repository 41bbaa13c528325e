r"""What Graph-Bert reads of a graph: for every node a sequence of nodes and three codes for each of them.

Zhang, Zhang, Xia, Sun, Graph-Bert: Only Attention is Needed for Learning Graph Representations,
https://arxiv.org/abs/2001.05140

* the sequence: the node itself, then the k nodes of largest intimacy
  :math:`S = c\,(I - (1-c)\, D^{-1/2} A D^{-1/2})^{-1}`, :math:`c = 0.15`, best first;
* the role: the node's Weisfeiler-Lehman colour. The most frequent colours have their own rows in the table of roles,
  the rest share the last;
* the position in the sequence;
* the hops between the two nodes, counted up to 6; 99 beyond that, between components, and for a token that is missing.

Cost: the diffusion table (:mod:`naq.neighbors.diffusion`); O(edges) per iteration for colours; hops are met from both
ends, the cheaper side first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numba import njit, prange

from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors import diffusion_neighbors
from naq.random import mixed

TELEPORT = 0.15
"""c of the intimacy."""
CODES = 100
"""Rows of the tables of positions and hops."""
DEPTH = 6
"""Hops are counted this far."""
FAR = 99
"""The code of nodes further apart, unreachable or missing."""


@dataclass(frozen=True)
class Sequences:
    """The sequence of every node, itself first.

    Shapes:
        - ``nodes``: (n, k + 1) int64, -1 where the context is shorter
        - ``hops``: (n, k + 1) uint8 codes, ``FAR`` where a node is missing
        - ``roles``: (n,) int64 rows of the table of roles
    """

    nodes: np.ndarray
    hops: np.ndarray
    roles: np.ndarray

    @property
    def length(self) -> int:
        return int(self.nodes.shape[1])


def sequences(
    graph: Graph, context: int, *, iterations: int = 2, roles: int = CODES, cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sequences:  # fmt: skip
    """Sequences of ``context`` + 1 nodes; shorter in a component too small for the context.

    Args:
        iterations: of Weisfeiler-Lehman; the released code ends with the colours of the first, which are degrees.
        roles: rows of the table of roles.
        cache: folder for the diffusion table.
        progress: called with (nodes done, nodes in all) while the diffusion table is computed.
    """
    check_context(graph, context)
    table = diffusion_neighbors(
        graph, context, alpha=TELEPORT, self_loops=False, fill="none", cache=cache, progress=progress
    )
    nodes = np.concatenate([np.arange(graph.num_nodes)[:, None], table.ids], axis=1).astype(np.int64)
    return Sequences(nodes, hop_codes(graph.adjacency, nodes), role_ids(wl_colors(graph.adjacency, iterations), roles))


def check_context(graph: Graph, context: int) -> None:
    """One sentence where the graph has no room for a context of this length."""
    if context >= graph.num_nodes:
        raise OptionError(
            f"context is {context}, but graph {graph.name!r} has {graph.num_nodes:,} nodes, so a node has "
            f"{graph.num_nodes - 1:,} others at most; lower context, or give a larger graph."
        )


def wl_colors(adjacency: sp.csr_array, iterations: int) -> np.ndarray:
    """(n,) uint64 colours after ``iterations``."""
    colors = np.ones(adjacency.shape[0], dtype=np.uint64)
    for _ in range(iterations):
        colors = _next_colors(adjacency.indptr, adjacency.indices, colors)
    return colors


@njit(cache=True)
def _next_colors(indptr: Any, indices: Any, colors: Any) -> Any:
    """A hash of (own colour, multiset of the neighbours'): a sum of hashes has no order, so nothing is sorted."""
    out = np.empty(len(colors), dtype=np.uint64)
    for v in range(len(colors)):
        around = np.uint64(0)
        for e in range(indptr[v], indptr[v + 1]):
            around += mixed(colors[indices[e]] + np.uint64(0x9E3779B97F4A7C15))
        out[v] = mixed(mixed(colors[v]) + around * np.uint64(0xD1342543DE82EF95))
    return out


def role_ids(colors: np.ndarray, rows: int) -> np.ndarray:
    """The row of each colour: the most frequent first, equals by their hash, the rest in the last row."""
    values, place, counts = np.unique(colors, return_inverse=True, return_counts=True)
    order = np.lexsort((values, -counts))
    row = np.empty(len(values), dtype=np.int64)
    row[order] = np.minimum(np.arange(len(values)), rows - 1)
    return row[place.ravel()]


def hop_codes(adjacency: sp.csr_array, nodes: np.ndarray, depth: int = DEPTH) -> np.ndarray:
    """(n, k + 1) hops from the first node of each row to the others, ``FAR`` beyond ``depth`` or for no node."""
    codes = np.full(nodes.shape, FAR, dtype=np.uint8)
    _hops(adjacency.indptr, adjacency.indices, nodes, depth, codes, numba.get_num_threads())
    return codes


@njit(cache=True, parallel=True)
def _hops(indptr: Any, indices: Any, nodes: Any, depth: Any, codes: Any, workers: Any) -> None:
    n = len(indptr) - 1
    for worker in prange(workers):
        seen = np.zeros((2, n), dtype=np.bool_)
        found = np.empty((2, n), dtype=np.int32)
        for v in range(worker, len(nodes), workers):
            for t in range(nodes.shape[1]):
                if nodes[v, t] >= 0:
                    hops = _distance(indptr, indices, nodes[v, 0], nodes[v, t], depth, seen, found)
                    if hops >= 0:
                        codes[v, t] = hops


@njit(cache=True)
def _distance(indptr: Any, indices: Any, a: Any, b: Any, depth: Any, seen: Any, found: Any) -> Any:
    """Hops from a to b, -1 beyond ``depth``: levels from either end, the cheaper first, until they meet."""
    if a == b:
        return 0
    found[0, 0], found[1, 0] = a, b
    seen[0, a] = seen[1, b] = True
    first, count = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
    cost = np.array([indptr[a + 1] - indptr[a], indptr[b + 1] - indptr[b]])
    hops, met = 0, False
    while hops < depth and not met:
        side = 0 if cost[0] <= cost[1] else 1
        start, stop = first[side], count[side]
        if start == stop:
            break
        first[side], cost[side] = stop, 0
        for i in range(start, stop):
            for e in range(indptr[found[side, i]], indptr[found[side, i] + 1]):
                w = indices[e]
                if not seen[side, w]:
                    seen[side, w] = True
                    found[side, count[side]] = w
                    count[side] += 1
                    cost[side] += indptr[w + 1] - indptr[w]
                    met = met or seen[1 - side, w]
            if met:
                break
        hops += 1
    for side in range(2):
        for i in range(count[side]):
            seen[side, found[side, i]] = False
    return hops if met else -1
