"""The graph as GLITTER reads it: row-normalised edges, features scaled per column."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from naq.encoders.operator import PROPAGATED_ENTRIES
from naq.encoders.rows import SparseRows, take_field
from naq.graph import Graph
from naq.learners.glitter.task_rows import TaskRows
from naq.randomness import stream

BLOCK = 65_536
"""Nodes whose features are turned into double precision at once."""


def min_max(features: sp.csr_array | np.ndarray) -> sp.csr_array | np.ndarray:
    """Columns scaled to 0..1 over the graph: (x - min) / (max - min + 1e-9).

    Sparse features stay sparse: where a column has a negative entry, zeros would not stay zeros, so it is divided by
    its largest absolute value instead and not moved.
    """
    if isinstance(features, np.ndarray):
        low = features.min(axis=0)
        return ((features - low) / (features.max(axis=0) - low + np.float32(1e-9))).astype(np.float32)
    n, d = features.shape
    columns, data = features.indices, features.data
    full = np.bincount(columns, minlength=d) == n
    low, high, size = np.where(full, np.inf, 0.0), np.where(full, -np.inf, 0.0), np.zeros(d)
    np.minimum.at(low, columns, data)
    np.maximum.at(high, columns, data)
    np.maximum.at(size, columns, np.abs(data))
    moved = np.where(low >= 0, low, 0.0)
    width = np.where(low >= 0, high - moved, size) + 1e-9
    values = ((data - moved[columns]) / width[columns]).astype(np.float32)
    return sp.csr_array((values, columns, features.indptr), shape=features.shape)


class RowGraph:
    """A graph with row-normalised edges and scaled features, as GLITTER reads it.

    Args:
        graph: with features.
        scale: ``minmax`` or ``none``.
        device: where the dense arithmetic runs.
    """

    def __init__(self, graph: Graph, scale: str, device: torch.device) -> None:
        features = graph.require_features("glitter")
        self.graph, self.device = graph, device
        n = graph.num_nodes
        looped = (graph.adjacency + sp.eye_array(n, dtype=np.float32, format="csr")).tocsr()
        looped.sort_indices()
        share = np.repeat((1.0 / np.diff(looped.indptr)).astype(np.float32), np.diff(looped.indptr))
        self.adjacency = sp.csr_array((share, looped.indices, looped.indptr), shape=(n, n))
        features = min_max(features) if scale == "minmax" else features
        ones = np.ones((n, 1), dtype=np.float32)
        if isinstance(features, np.ndarray):
            self.features: sp.csr_array | np.ndarray = np.hstack([features, ones])
        else:
            self.features = sp.csr_array(sp.hstack([features, ones], format="csr"), dtype=np.float32)
        self.width = graph.num_features + 1
        self.node_place = np.full(n, -1, dtype=np.int32)
        self._propagated: sp.csr_array | np.ndarray | None = None
        self._rank: np.ndarray | None = None

    def field(self, nodes: np.ndarray) -> tuple[SparseRows, np.ndarray]:
        """Rows of A for ``nodes``, columns renumbered, and the nodes those columns are."""
        return take_field(self.adjacency, nodes, self.node_place)

    def around(self, nodes: np.ndarray) -> np.ndarray:
        """The nodes and their neighbours, each once."""
        return self.field(np.unique(nodes))[1]

    @property
    def rank(self) -> np.ndarray:
        """Place of each node in an order that is the same however nodes are numbered: by features, degree, neighbours.

        It gives each node its own row of a drawn matrix. Only nodes equal in all three are ordered by id.
        """
        if self._rank is None:
            direction = stream(0, "glitter/order").standard_normal(self.width)
            blocks = [self.features[at : at + BLOCK] for at in range(0, self.graph.num_nodes, BLOCK)]
            own = np.concatenate([block.astype(np.float64) @ direction for block in blocks])
            order = np.lexsort((np.round(self.adjacency @ own, 6), self.graph.degrees, own))
            self._rank = np.empty(len(order), dtype=np.int64)
            self._rank[order] = np.arange(len(order))
        return self._rank

    def order_within(self, nodes: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """The place of each node, by ``rank``, among those of its task: task t has ``nodes[bounds[t]:bounds[t + 1]]``."""
        task = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        order = np.lexsort((self.rank[nodes], task))
        place = np.empty(len(nodes), dtype=np.int64)
        place[order] = np.arange(len(nodes)) - bounds[task[order]]
        return place

    def propagated(self, nodes: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
        """A sparse matrix that holds the rows of A X for ``nodes``, and which of its rows they are."""
        if self.graph.propagated_size() + self.graph.num_nodes <= PROPAGATED_ENTRIES:
            if self._propagated is None:
                product = self.adjacency @ self.features
                self._propagated = product if isinstance(product, np.ndarray) else sp.csr_array(product)
            if not isinstance(self._propagated, np.ndarray):
                return self._propagated, nodes
        unique, place = np.unique(nodes, return_inverse=True)
        rows = self.adjacency[unique] @ self.features if self._propagated is None else self._propagated[unique]
        return _as_rows(rows), place

    def first_layer(self, nodes: np.ndarray) -> TaskRows:
        """(A X)[nodes], for one weight."""
        matrix, rows = self.propagated(nodes)
        return TaskRows(matrix, rows, np.array([0, len(nodes)]), self.device)

    def inputs(self, nodes: np.ndarray) -> TaskRows:
        """X[nodes], for one weight."""
        bounds = np.array([0, len(nodes)])
        if isinstance(self.features, np.ndarray):
            return TaskRows(_as_rows(self.features[nodes]), np.arange(len(nodes)), bounds, self.device)
        return TaskRows(self.features, nodes, bounds, self.device)

    def index(self, array: np.ndarray) -> torch.Tensor:
        """Indices on the device."""
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(self.device)


def _as_rows(matrix: sp.csr_array | np.ndarray) -> sp.csr_array:
    """A dense matrix as sparse rows that are full."""
    if not isinstance(matrix, np.ndarray):
        return sp.csr_array(matrix)
    m, d = matrix.shape
    columns = np.tile(np.arange(d, dtype=np.int32), m)
    return sp.csr_array((matrix.ravel(), columns, np.arange(0, m * d + 1, d)), shape=(m, d))
