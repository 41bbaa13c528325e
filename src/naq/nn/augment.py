r"""A randomly thinned view of a graph: DropEdge and DropFeature on the receptive field of some nodes.

Rong, Huang, Xu, Huang, DropEdge: Towards Deep Graph Convolutional Networks on Node Classification,
https://arxiv.org/abs/1907.10903

.. math::
    \hat A' = \tilde D'^{-1/2} (A' + I) \tilde D'^{-1/2}, \qquad X' = X \, \mathrm{diag}(m)

:math:`A'` keeps each undirected edge of :math:`A` with probability :math:`1 - p_e`, :math:`\tilde D'` are the row sums
of :math:`A' + I`, and :math:`m` is 0 for a share :math:`p_f` of the feature columns, 1 for the others (nothing is
rescaled).

Whether an edge stays is a hash of (key, its two ends), so every receptive field, of any nodes in any order, reads the
same thinned graph, and that graph is never formed.

Cost: a hash per edge of the nodes and of their kept neighbours (their degrees in the thinned graph), 2 to 3 ns each;
no work and no memory that grows with the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba import njit

from naq.graph import Graph
from naq.nn.operator import GraphOperator
from naq.nn.rows import SparseRows, sparse_product, take_rows
from naq.options import check_probability
from naq.random import key, mixed, stream


class AugmentedOperator:
    """One random thinning of a graph, read as a :class:`~naq.nn.GraphOperator` is.

    Args:
        operator: of the whole graph.
        drop_edge: probability that an undirected edge is left out, at least 0 and below 1.
        drop_feature: probability that a feature column is zero, at least 0 and below 1.

    Shapes:
        - ``field``: nodes (m,) -> rows of A_hat' (m, f) and the f nodes of its columns
        - ``first_layer``, ``inputs``: nodes (m,) and weight (d, h) -> (m, h), on the operator's device

    Edges are identified by the ids of their ends: renumbered nodes get another thinning of the same distribution.
    """

    def __init__(
        self, operator: GraphOperator, *, drop_edge: float, drop_feature: float, seed: int, index: Sequence[int]
    ) -> None:
        check_probability(drop_edge=drop_edge, drop_feature=drop_feature)
        self.base = operator
        self.graph: Graph = operator.graph
        self.device: torch.device = operator.device
        self.drop_edge, self.drop_feature = float(drop_edge), float(drop_feature)
        number = "/".join(str(int(i)) for i in index)
        edge_key = key(seed, f"g-umtra/edges/{number}")
        self._keys = np.array([edge_key >> 64, edge_key & (2**64 - 1)], dtype=np.uint64)
        kept = stream(seed, f"g-umtra/columns/{number}").random(operator.width) >= drop_feature
        self.columns: np.ndarray = kept.astype(np.float32)
        self._place = operator._place

    @property
    def width(self) -> int:
        return self.base.width

    def field(self, nodes: np.ndarray) -> tuple[SparseRows, np.ndarray]:
        """Rows of A_hat' for ``nodes``, columns renumbered by first use, and the nodes those columns are."""
        adjacency = self.graph.adjacency
        wanted = np.asarray(nodes, dtype=np.int64)
        found = _thin_field(adjacency.indptr, adjacency.indices, wanted, self._keys, self.drop_edge, self._place)
        indptr, indices, data, around = found
        return SparseRows(indptr, indices, data, (len(nodes), len(around))), around

    def adjacency_rows(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Kept neighbours of ``nodes`` without self-loops, ascending: indptr (m + 1,) int64 and ids int32."""
        adjacency = self.graph.adjacency
        wanted = np.asarray(nodes, dtype=np.int64)
        return _thin_rows(adjacency.indptr, adjacency.indices, wanted, self._keys, self.drop_edge)

    def adjacency_around(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Kept neighbours, indptr (n + 1,) and ids: of all nodes within two hops of ``nodes``, none of the others."""
        reached = np.unique(nodes).astype(np.int64)
        for _ in range(2):
            reached = np.union1d(reached, self.adjacency_rows(reached)[1]).astype(np.int64)
        some, indices = self.adjacency_rows(reached)
        counts = np.zeros(self.graph.num_nodes + 1, dtype=np.int64)
        counts[reached + 1] = np.diff(some)
        return np.cumsum(counts), indices

    def first_layer(self, nodes: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """(A_hat' X')[nodes] @ weight, differentiable in ``weight``."""
        rows, around = self.field(nodes)
        return sparse_product(rows, self.inputs(around, weight))

    def inputs(self, nodes: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """X'[nodes] @ weight, differentiable in ``weight``."""
        if self.device.type != "cpu":
            columns = torch.from_numpy(self.columns).to(self.device)
            return self.base.inputs(nodes, weight * columns[:, None])
        # The few entries of these rows are masked instead of the tall weight and its gradient.
        features = self.graph.require_features("an encoder")
        if isinstance(features, np.ndarray):
            return torch.from_numpy(features[nodes] * self.columns) @ weight
        taken = take_rows(features, nodes)
        masked = taken.data * self.columns[taken.indices]
        return sparse_product(SparseRows(taken.indptr, taken.indices, masked, taken.shape), weight)


@njit(cache=True)
def _kept(u: Any, v: Any, keys: Any, drop: Any) -> Any:
    """Whether the undirected edge u - v stays: its uniform number in [0, 1) is at least ``drop``."""
    low, high = np.uint64(min(u, v)), np.uint64(max(u, v))
    bits = mixed(mixed(mixed(low + keys[0]) ^ high) + keys[1])
    return np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0) >= drop


@njit(cache=True)
def _thin_rows(indptr: Any, indices: Any, nodes: Any, keys: Any, drop: Any) -> Any:
    out = np.zeros(len(nodes) + 1, dtype=np.int64)
    total = 0
    for u in nodes:
        total += indptr[u + 1] - indptr[u]
    found = np.empty(total, dtype=np.int32)
    count = 0
    for r in range(len(nodes)):
        u = nodes[r]
        for e in range(indptr[u], indptr[u + 1]):
            if _kept(u, indices[e], keys, drop):
                found[count] = indices[e]
                count += 1
        out[r + 1] = count
    return out, found[:count].copy()


@njit(cache=True)
def _thin_scale(indptr: Any, indices: Any, u: Any, keys: Any, drop: Any) -> Any:
    degree = 1
    for e in range(indptr[u], indptr[u + 1]):
        degree += _kept(u, indices[e], keys, drop)
    return 1.0 / np.sqrt(np.float64(degree))


@njit(cache=True)
def _thin_field(indptr: Any, indices: Any, nodes: Any, keys: Any, drop: Any, place: Any) -> Any:
    """CSR rows of A_hat', entries in ascending order of node as in the whole matrix, columns numbered by first use."""
    starts, neighbors = _thin_rows(indptr, indices, nodes, keys, drop)
    size = len(neighbors) + len(nodes)
    out = np.empty(len(nodes) + 1, dtype=np.int64)
    local, data = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
    around, scale = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.float64)
    used = count = 0
    out[0] = 0
    for r in range(len(nodes)):
        first, own, e = count, nodes[r], starts[r]
        waiting = True
        while e < starts[r + 1] or waiting:
            if waiting and (e == starts[r + 1] or own < neighbors[e]):
                v, waiting = np.int64(own), False
            else:
                v = np.int64(neighbors[e])
                e += 1
            if place[v] < 0:
                place[v], around[used] = used, v
                scale[used] = _thin_scale(indptr, indices, v, keys, drop)
                used += 1
            local[count] = place[v]
            count += 1
        mine = scale[place[own]]
        for position in range(first, count):
            data[position] = mine * scale[local[position]]
        out[r + 1] = count
    for f in range(used):
        place[around[f]] = -1
    return out, local, data, around[:used].copy()
