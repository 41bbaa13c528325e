r"""What TEG reads of a node: one graph convolution, and where the node lies relative to virtual anchors.

Structural features are distances to the anchors,

.. math::
    h_{vi} = \frac{1}{1 + d(v, a_i)}

Anchor :math:`a_i`, i = 0, 1, ..., is a new node linked to :math:`n / 2^{i+1}` random ones (rounded down, at least 1),
and d is the number of hops in the graph with *all* anchors, so that paths may run through any of them: the large ones
bring most nodes within a few hops of each other, a property of the method. A node that no path joins to an anchor has
0.

Nodes are linked by a hash of their names (:mod:`naq.learners.node_draws`), so renumbering nodes changes nothing.

Cost: breadth-first from all anchors at once, one bit per anchor: every level reads each edge once. Levels are few,
since the anchors themselves shorten all paths. Memory: 4 n (anchors) bytes of features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from torch import nn

from naq.graph import Graph
from naq.learners.node_draws import NodeDropout, drawn_keys
from naq.nn import GraphOperator
from naq.nn.rows import SparseRows, sparse_product, take_rows
from naq.random import torch_seed, word


class OneLayerGCN(nn.Module):
    """A_hat X W + b, no activation; Xavier-uniform weight, zero bias.

    Args:
        operator: the graph it reads.
        latent: width of the vectors.
        seed: of the initial weights.

    Shapes:
        - ``encode``: nodes (m,) -> (m, latent), on the operator's device
        - ``encode_all``: (n, latent)

    Cost: rows of A_hat X, which is formed once; with dropout the features of the neighbours.
    """

    BLOCK = 8192

    def __init__(self, operator: GraphOperator, latent: int, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.latent = operator, latent
        generator = torch.Generator().manual_seed(torch_seed(seed, "encoder/one-layer gcn"))
        weight = nn.init.xavier_uniform_(torch.empty(operator.width, latent), generator=generator)
        self.weight = nn.Parameter(weight.to(operator.device))
        self.bias = nn.Parameter(torch.zeros(latent, device=operator.device))

    def extra_repr(self) -> str:
        return f"{self.operator.width} -> {self.latent}"

    def encode(self, nodes: np.ndarray, drop: NodeDropout | None = None) -> torch.Tensor:
        """Vectors of ``nodes``, repeats allowed; ``drop`` thins the features."""
        nodes = self.operator.graph.known_nodes(nodes).ravel()
        if drop is None:
            return self.operator.first_layer(nodes, self.weight) + self.bias
        rows, around = self.operator.field(nodes)
        return sparse_product(rows, self._thinned_inputs(around, drop)) + self.bias

    def _thinned_inputs(self, nodes: np.ndarray, drop: NodeDropout) -> torch.Tensor:
        """X[nodes] W with some entries of X at zero; a zero entry stays what it is, so only the others are drawn."""
        features = self.operator.graph.require_features("an encoder")
        if isinstance(features, np.ndarray):
            thinned = features[nodes] * drop.dense(nodes, features.shape[1])
            return torch.from_numpy(thinned).to(self.weight.device) @ self.weight
        taken = take_rows(features, nodes)
        kept = taken.data * drop.sparse(nodes, taken)
        return sparse_product(SparseRows(taken.indptr, taken.indices, kept, taken.shape), self.weight)

    def encode_blocks(self, nodes: np.ndarray) -> torch.Tensor:
        """As :meth:`encode` without a gradient, in blocks of nodes."""
        with torch.no_grad():
            starts = range(0, max(1, len(nodes)), self.BLOCK)
            return torch.cat([self.encode(nodes[start : start + self.BLOCK]) for start in starts])

    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes."""
        return self.encode_blocks(np.arange(self.operator.graph.num_nodes))


def anchor_links(names: np.ndarray, anchors: int, seed: int) -> list[np.ndarray]:
    """Nodes that each anchor is linked to."""
    links = []
    for number in range(anchors):
        count = max(1, len(names) >> (number + 1))
        keys = drawn_keys(names, word(seed, "anchors", number))
        links.append(np.sort(np.argpartition(keys, count - 1)[:count]))
    return links


def with_anchors(adjacency: sp.csr_array, links: list[np.ndarray]) -> sp.csr_array:
    """The graph with one more node for each anchor, after the others."""
    n = adjacency.shape[0]
    indptr = np.concatenate([[0], np.cumsum([len(nodes) for nodes in links], dtype=np.int64)])
    indices = np.concatenate(links)
    shape = (len(links), n)
    across = sp.csr_array((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=shape)
    return sp.csr_array(sp.block_array([[adjacency, across.T], [across, None]], format="csr"))


def hops(adjacency: sp.csr_array, sources: np.ndarray) -> np.ndarray:
    """(nodes, sources) int32 hops from up to 64 sources, -1 where there is no path."""
    n = adjacency.shape[0]
    found = np.full((n, len(sources)), -1, dtype=np.int32)
    front, seen = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
    front[sources] = np.uint64(1) << np.arange(len(sources), dtype=np.uint64)
    level = 0
    while front.any():
        seen |= front
        _record(front, level, found)
        front = _reached(adjacency.indptr, adjacency.indices, front, seen)
        level += 1
    return found


def structural_features(graph: Graph, anchors: int, names: np.ndarray, seed: int) -> np.ndarray:
    """(n, anchors) float32; 64 anchors at most, one bit of a word each."""
    n = graph.num_nodes
    joined = with_anchors(graph.adjacency, anchor_links(names, anchors, seed))
    away = hops(joined, np.arange(n, n + anchors))[:n]
    return np.where(away >= 0, 1.0 / (1.0 + np.maximum(away, 0)), 0.0).astype(np.float32)


@njit(cache=True, parallel=True)
def _reached(indptr: Any, indices: Any, front: Any, seen: Any) -> Any:
    """Sources that reach each node through its neighbours for the first time."""
    out = np.empty_like(front)
    for v in prange(len(out)):
        bits = np.uint64(0)
        for e in range(indptr[v], indptr[v + 1]):
            bits |= front[indices[e]]
        out[v] = bits & ~seen[v]
    return out


@njit(cache=True, parallel=True)
def _record(front: Any, level: Any, found: Any) -> None:
    for v in prange(len(front)):
        if front[v]:
            for source in range(found.shape[1]):
                if (front[v] >> np.uint64(source)) & np.uint64(1):
                    found[v, source] = level
