"""What an encoder needs of a graph: rows of A_hat X and of A_hat, for any set of nodes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from naq.encoders.rows import SparseRows, mixed_product, row_entries, sparse_product, take_field, take_rows
from naq.graph import Graph

PROPAGATED_ENTRIES = 200_000_000
"""A_hat X is formed once while it has at most this many entries (1.6 GB); else its rows are formed when asked for."""

CROWDED = 0.1
"""Columns of A_hat X with a larger share of non-zeros are multiplied as dense ones: about ten times the arithmetic per second."""
CROWDED_BYTES = 1 << 29


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
            else:
                self._split(propagated)

    def _split(self, propagated: sp.csr_array) -> None:
        """A_hat X as a dense block of its crowded columns and a sparse rest."""
        n, d = propagated.shape
        share = np.bincount(propagated.indices, minlength=d) / n
        crowded = np.argsort(-share, kind="stable")[: int((share > CROWDED).sum())]
        crowded = np.sort(crowded[: CROWDED_BYTES // (4 * n)])
        inside = np.zeros(d, dtype=bool)
        inside[crowded] = True
        self._crowded = torch.from_numpy(crowded).to(self.device)
        self._full = torch.from_numpy(propagated[:, crowded].toarray()).to(self.device)
        keep = ~inside[propagated.indices]
        counts = np.concatenate([[0], np.cumsum(keep)])[propagated.indptr]
        self._rest = sp.csr_array((propagated.data[keep], propagated.indices[keep], counts), shape=propagated.shape)

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
            dense_cost = CROWDED * len(nodes) * len(self._crowded)
            if row_entries(self._rest, nodes) + dense_cost <= row_entries(features, around) + len(rows.indices):
                full = self._full.index_select(0, torch.from_numpy(nodes).to(self.device))
                return mixed_product(take_rows(self._rest, nodes), full, self._crowded, weight)
        return sparse_product(rows, sparse_product(take_rows(features, around), weight))
