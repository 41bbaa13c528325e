"""What an encoder needs of a graph: rows of A_hat X and of A_hat, for any set of nodes."""

from __future__ import annotations

import numpy as np
import torch

from naq.encoders.rows import SparseRows, row_entries, sparse_product, take_field, take_rows
from naq.graph import Graph

PROPAGATED_ENTRIES = 200_000_000
"""A_hat X is formed once while it has at most this many entries (1.6 GB); else its rows are formed when asked for."""


class GraphOperator:
    """Sparse operators of one graph, shared by the encoders that work on it.

    The first layer of a GCN is A_hat X W1, and A_hat X never changes: it is formed once, so a first-layer row costs one
    sparse row and a two-layer encoder needs the one-hop neighbourhood of its nodes only. Degrees are the graph's own, so any
    set of nodes gets the numbers a full-graph pass would give it.

    Args:
        graph: with features.
        device: where the dense arithmetic runs.
    """

    def __init__(self, graph: Graph, device: str | torch.device = "cpu") -> None:
        graph.require_features("an encoder")
        self.graph = graph
        self.device = torch.device(device)
        self.adjacency = graph.normalized_adjacency()
        self._place = np.full(graph.num_nodes, -1, dtype=np.int32)
        self.formed = graph.propagated_size() <= PROPAGATED_ENTRIES
        self._dense: torch.Tensor | None = None
        if self.formed:
            propagated = graph.propagated_features()
            if isinstance(propagated, np.ndarray):
                self._dense = torch.from_numpy(propagated).to(self.device)

    @property
    def width(self) -> int:
        return self.graph.num_features

    def field(self, nodes: np.ndarray) -> tuple[SparseRows, np.ndarray]:
        """Rows of A_hat for ``nodes``, columns renumbered, and the nodes those columns are."""
        return take_field(self.adjacency, nodes, self._place)

    def first_layer(self, nodes: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """(A_hat X)[nodes] @ weight, differentiable in ``weight``, by whichever order costs less: (A_hat X) W or A_hat (X W)."""
        if self._dense is not None:
            return self._dense[torch.from_numpy(nodes).to(self.device)] @ weight
        features = self.graph.require_features("an encoder")
        rows, around = self.field(nodes)
        if isinstance(features, np.ndarray):
            return sparse_product(rows, torch.from_numpy(features[around]).to(self.device) @ weight)
        if self.formed:
            propagated = self.graph.propagated_features()
            if row_entries(propagated, nodes) <= row_entries(features, around) + len(rows.indices):
                return sparse_product(take_rows(propagated, nodes), weight)
        return sparse_product(rows, sparse_product(take_rows(features, around), weight))
