"""The graph as GLITTER reads it: row-normalised edges, features scaled per column."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from naq.graph import Graph
from naq.nn import GraphOperator
from naq.random import stream

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


class RowOperator(GraphOperator):
    """A graph with the edges :math:`A = \\tilde D^{-1} (A + I)`, scaled features and a column of ones for the bias.

    Args:
        graph: with features.
        scale: ``minmax`` or ``none``.
        device: where the dense arithmetic runs.
    """

    def __init__(self, graph: Graph, scale: str, device: torch.device) -> None:
        features = graph.require_features("glitter")
        features = min_max(features) if scale == "minmax" else features
        ones = np.ones((graph.num_nodes, 1), dtype=np.float32)
        stacked = np.hstack if isinstance(features, np.ndarray) else sp.hstack
        super().__init__(graph.with_features(stacked([features, ones])), device)
        looped = (graph.adjacency + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")).tocsr()
        looped.sort_indices()
        counts = np.diff(looped.indptr)
        looped.data = np.repeat((1.0 / counts).astype(np.float32), counts)
        self.adjacency = sp.csr_array(looped)

    @cached_property
    def _product(self) -> np.ndarray | sp.csr_array:
        product = self.adjacency @ self.graph.require_features("glitter")
        return product if isinstance(product, np.ndarray) else sp.csr_array(product)

    def propagated(self) -> np.ndarray | sp.csr_array:
        """A X."""
        return self._product

    def around(self, nodes: np.ndarray) -> np.ndarray:
        """The nodes and their neighbours, each once."""
        return self.field(np.unique(nodes))[1]

    @cached_property
    def rank(self) -> torch.Tensor:
        """Place of each node in an order that is the same however nodes are numbered: by features, degree, neighbours.

        It gives each node its own row of a drawn matrix. Only nodes equal in all three are ordered by id.
        """
        features = self.graph.require_features("glitter")
        direction = stream(0, "glitter/order").standard_normal(self.width)
        blocks = [features[at : at + BLOCK] for at in range(0, self.graph.num_nodes, BLOCK)]
        own = np.concatenate([block.astype(np.float64) @ direction for block in blocks])
        order = np.lexsort((np.round(self.adjacency @ own, 6), self.graph.degrees, own))
        return torch.from_numpy(np.argsort(order)).to(self.device)

    def positions(self, nodes: np.ndarray | torch.Tensor) -> torch.Tensor:
        """The place of each node among the given ones, by ``rank``."""
        return self.rank[nodes].argsort().argsort()
