r"""Every node in its own sub-graph: two hops around it, with the degrees inside.

.. math::
    \mathrm{layer}(H) = D_v^{-1/2} A_v D_v^{-1/2} H, \qquad A_v = A[S_v, S_v], \quad S_v = \{v\} \cup N(v) \cup N(N(v))

No self-loops; degrees are counted inside :math:`S_v` and are at least 1. The centre of a two-layer network needs the
first layer at its neighbours only, so a batch of centres is one sparse matrix with a row per (centre, neighbour) and
one with a row per centre.

A sub-graph of more than ``limit`` nodes in addition to the centre keeps the centre and ``limit`` drawn ones. Whether a
node is drawn is a hash of (seed, centre, node), so a sub-graph is the same in every batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit

from naq.nn.augment import AugmentedOperator
from naq.nn.operator import GraphOperator
from naq.nn.rows import SparseRows, renumber, sparse_product, take
from naq.random import mixed, word


@dataclass(frozen=True)
class PairRows:
    """First-layer rows of (centre, neighbour) pairs: weights over ``nodes``."""

    rows: SparseRows
    nodes: np.ndarray

    def __len__(self) -> int:
        return self.rows.shape[0]

    def __getitem__(self, index: np.ndarray) -> PairRows:
        """Some of the pairs, and the nodes that these need."""
        indptr, indices, data = take(self.rows.indptr, self.rows.indices, self.rows.data, np.asarray(index))
        used, local = np.unique(indices, return_inverse=True)
        rows = SparseRows(indptr, local.astype(np.int32), data, (len(indptr) - 1, len(used)))
        return PairRows(rows, self.nodes[used])


class LocalOperator:
    """A graph read through the sub-graphs of its nodes; for encoders, as a :class:`~naq.nn.GraphOperator` is.

    Args:
        base: the graph, or one thinning of it: sub-graphs are taken from what is left.
        limit: nodes per sub-graph in addition to the centre; 0 for all.

    Shapes:
        - ``field``: nodes (m,) -> rows (m, pairs) of the second layer, and the pairs
        - ``first_layer``: pairs (p,) and weight (d, h) -> (p, h)

    Cost: the edges of all these sub-graphs, in compiled code.
    """

    def __init__(self, base: GraphOperator | AugmentedOperator, *, limit: int = 1000, seed: int = 0) -> None:
        self.base, self.graph, self.device = base, base.graph, base.device
        self.limit = limit
        self._key = word(seed, "sub-graphs")
        n = base.graph.num_nodes
        self._stamp, self._degree = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self._place = np.full(n, -1, dtype=np.int32)
        self._seen = 0  # centres so far: each stamps its sub-graph with another number

    @property
    def width(self) -> int:
        return self.base.width

    def field(self, nodes: np.ndarray) -> tuple[SparseRows, PairRows]:
        """Second-layer rows of ``nodes`` and the pairs their columns are."""
        nodes = np.asarray(nodes, dtype=np.int64)
        if isinstance(self.base, AugmentedOperator):
            indptr, indices = self.base.adjacency_around(nodes)
        else:
            indptr, indices = self.graph.adjacency.indptr, self.graph.adjacency.indices
        found = _sub_graphs(indptr, indices, nodes, self._seen, self.limit, self._key, self._stamp, self._degree)
        pool_ptr, pool_data, ptr, columns, data = found
        self._seen += len(nodes)
        pairs = len(pool_data)
        pool = SparseRows(pool_ptr, np.arange(pairs, dtype=np.int32), pool_data, (len(nodes), pairs))
        local, members = renumber(columns, self._place)
        return pool, PairRows(SparseRows(ptr, local, data, (pairs, len(members))), members)

    def first_layer(self, pairs: PairRows, weight: torch.Tensor) -> torch.Tensor:
        """Rows of A_v X of the pairs @ weight, differentiable in ``weight``."""
        return sparse_product(pairs.rows, self.base.inputs(pairs.nodes, weight))

    def inputs(self, nodes: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """X[nodes] @ weight, differentiable in ``weight``."""
        return self.base.inputs(nodes, weight)

    def dense_rows(self, pairs: PairRows) -> torch.Tensor:
        """Rows of A_v X of the pairs as a dense matrix; for few pairs."""
        matrix = sp.csr_array((pairs.rows.data, pairs.rows.indices, pairs.rows.indptr), shape=pairs.rows.shape)
        product = matrix @ self.graph.require_features("an encoder")[pairs.nodes]
        dense = product if isinstance(product, np.ndarray) else product.toarray()
        return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32)).to(self.device)


@njit(cache=True)
def _rank(seed: Any, centre: Any, node: Any) -> Any:
    """A random number for (centre, node)."""
    x = np.uint64(centre) * np.uint64(0x9E3779B97F4A7C15) + seed
    for _ in range(2):
        x = mixed(x) + np.uint64(node)
    return x


@njit(cache=True)
def fill_ball(indptr: Any, indices: Any, v: Any, number: Any, stamp: Any, found: Any) -> Any:
    """Put the nodes within two hops of v into ``found``, breadth first, and stamp them with ``number``; their count."""
    stamp[v], found[0] = number, v
    start, count = 0, 1
    for _ in range(2):
        end = count
        for position in range(start, end):
            u = found[position]
            for e in range(indptr[u], indptr[u + 1]):
                w = indices[e]
                if stamp[w] != number:
                    stamp[w] = number
                    found[count] = w
                    count += 1
        start = end
    return count


@njit(cache=True)
def _members(indptr: Any, indices: Any, v: Any, number: Any, limit: Any, seed: Any, stamp: Any, found: Any) -> Any:
    """Stamp S_v with ``number`` and return its size; ``found`` is scratch that takes the members."""
    count = fill_ball(indptr, indices, v, number, stamp, found)
    if limit > 0 and count - 1 > limit:
        ranks = np.empty(count - 1, dtype=np.uint64)
        for i in range(1, count):
            ranks[i - 1] = _rank(seed, v, found[i])
        keep = np.argsort(ranks)[:limit]
        chosen = found[1:count][keep].copy()
        for i in range(1, count):
            stamp[found[i]] = -1
        for i in range(limit):
            stamp[chosen[i]] = number
            found[i + 1] = chosen[i]
        count = limit + 1
    return count


@njit(cache=True)
def _sub_graphs(
    indptr: Any, indices: Any, nodes: Any, seen: Any, limit: Any, seed: Any, stamp: Any, degree: Any
) -> Any:
    """Second-layer rows by centre and first-layer rows by pair; ``stamp`` and ``degree`` are scratch of n entries."""
    pairs = 0
    entries = 0
    for v in nodes:
        pairs += indptr[v + 1] - indptr[v]
        for e in range(indptr[v], indptr[v + 1]):
            entries += indptr[indices[e] + 1] - indptr[indices[e]]
    pool_ptr = np.zeros(len(nodes) + 1, dtype=np.int64)
    pool_data = np.empty(pairs, dtype=np.float32)
    ptr = np.zeros(pairs + 1, dtype=np.int64)
    columns = np.empty(entries, dtype=np.int32)
    data = np.empty(entries, dtype=np.float32)
    found = np.empty(len(stamp), dtype=np.int64)
    pair = 0
    entry = 0
    for centre in range(len(nodes)):
        v, number = nodes[centre], seen + centre
        size = _members(indptr, indices, v, number, limit, seed, stamp, found)
        for i in range(size):
            inside = 0
            for e in range(indptr[found[i]], indptr[found[i] + 1]):
                if stamp[indices[e]] == number:
                    inside += 1
            degree[found[i]] = max(1, inside)
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if stamp[u] != number:
                continue
            pool_data[pair] = 1.0 / np.sqrt(float(degree[v] * degree[u]))
            for f in range(indptr[u], indptr[u + 1]):
                w = indices[f]
                if stamp[w] == number:
                    columns[entry] = w
                    data[entry] = 1.0 / np.sqrt(float(degree[u] * degree[w]))
                    entry += 1
            pair += 1
            ptr[pair] = entry
        pool_ptr[centre + 1] = pair
    return pool_ptr, pool_data[:pair].copy(), ptr[: pair + 1].copy(), columns[:entry].copy(), data[:entry].copy()
