"""What an encoder needs of a graph: rows of A_hat X and of A_hat, for any set of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch

from naq.device import free_bytes
from naq.graph import Graph
from naq.graph.operators import csr_tensor
from naq.nn.rows import SparseRows, mixed_product, row_entries, sparse_product, take_field, take_rows
from naq.options import imported

PROPAGATED_ENTRIES = 200_000_000
"""A_hat X is formed once if it has at most this many entries (1.6 GB); else its rows are formed when they are read."""

CROWDED = 0.1
"""Columns of A_hat X with a larger share of non-zeros are multiplied as dense ones."""
CROWDED_BYTES = 1 << 29
"""Most bytes of such columns."""
DENSE_BYTES = 1 << 32
"""On an accelerator X and A_hat X are dense up to this size, and while twice as much is free there."""
MANY = 16
"""On an accelerator the vectors of n / MANY nodes or more are computed sooner as rows of all vectors."""
BLOCK = 8192
"""Nodes that are encoded at once."""


class Operator(Protocol):
    """A graph as an encoder reads it.

    The second value of ``field`` says which first-layer rows the columns are; ``first_layer`` takes it. For a graph's
    own operator they are node ids.
    """

    graph: Graph
    device: torch.device

    def field(self, nodes: np.ndarray) -> tuple[SparseRows, Any]: ...

    def first_layer(self, around: Any, weight: torch.Tensor) -> torch.Tensor: ...

    def inputs(self, nodes: np.ndarray, weight: torch.Tensor) -> torch.Tensor: ...


class DenseOperator(Operator, Protocol):
    """One that also gives first-layer inputs as a dense matrix, for few rows."""

    def dense_rows(self, around: Any) -> torch.Tensor: ...


def operator_for(graph: Graph, device: str | torch.device = "cpu") -> GraphOperator:
    """What encoders read the graph through: the class that the graph names."""
    operator: GraphOperator = imported(graph.operator_class)(graph, device)
    return operator


class GraphOperator:
    """Sparse operators of one graph, shared by the encoders that work on it.

    The first layer of a GCN is A_hat X W1, and A_hat X never changes: it is formed once, so a first-layer row costs one
    sparse row and a two-layer encoder needs the one-hop neighbourhood of its nodes only. Degrees are those of the
    graph, so any set of nodes gets the numbers of a full-graph pass.

    Args:
        graph: with features.
        self_loops: whether A_hat has them; without, A_hat X is never formed.
    """

    block = BLOCK

    def __init__(self, graph: Graph, device: str | torch.device = "cpu", *, self_loops: bool = True) -> None:
        graph.require_features("an encoder")
        self.graph = graph
        self.device = torch.device(device)
        self.adjacency = graph.normalized_adjacency(self_loops=self_loops)
        self._place = np.full(graph.num_nodes, -1, dtype=np.int32)
        self.formed = self_loops and graph.propagated_size() <= PROPAGATED_ENTRIES
        self._dense: torch.Tensor | None = None
        self._inputs: torch.Tensor | None = None
        self._adjacency: torch.Tensor | None = None
        self._ready = False

    def _form(self) -> None:
        """Make A_hat X when it is first read: not every learner reads it."""
        if self.formed and not self._ready:
            propagated = self.propagated()
            self._dense = self._as_dense(propagated)
            if self._dense is None:
                self._split(propagated)
        self._ready = True

    def propagated(self) -> np.ndarray | sp.csr_array:
        """A_hat X."""
        return self.graph.propagated_features()

    def _as_dense(self, matrix: np.ndarray | sp.csr_array) -> torch.Tensor | None:
        """The matrix on the device if it is dense or fits there as such."""
        if isinstance(matrix, np.ndarray):
            return torch.from_numpy(matrix if matrix.flags.writeable else matrix.copy()).to(self.device)
        n, d = matrix.shape
        if self.device.type == "cpu" or 4 * n * d > min(DENSE_BYTES, free_bytes(self.device) / 2):
            return None
        return self._to_device(matrix).to_dense()

    def _to_device(self, matrix: sp.csr_array) -> torch.Tensor:
        return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape, self.device, torch.float32)

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

    def first_layer(self, around: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """(A_hat X)[around] @ weight, differentiable in ``weight``, by (A_hat X) W or A_hat (X W), the cheaper one."""
        self._form()
        if self._dense is not None:
            return self._dense[torch.from_numpy(around).to(self.device, non_blocking=True)] @ weight
        features = self.graph.require_features("an encoder")
        rows, further = self.field(around)
        if self.formed and not isinstance(features, np.ndarray):
            dense_cost = CROWDED * len(around) * len(self._crowded)
            if row_entries(self._rest, around) + dense_cost <= row_entries(features, further) + len(rows.indices):
                full = self._full.index_select(0, torch.from_numpy(around).to(self.device))
                return mixed_product(take_rows(self._rest, around), full, self._crowded, weight)
        return sparse_product(rows, self.inputs(further, weight))

    def inputs(self, nodes: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """X[nodes] @ weight, differentiable in ``weight``."""
        features = self.graph.require_features("an encoder")
        if self.device.type == "cpu" and isinstance(features, np.ndarray):
            return torch.from_numpy(features[nodes]) @ weight
        if self._inputs is None:
            self._inputs = self._as_dense(features)
        if self._inputs is not None:
            return self._inputs[torch.from_numpy(nodes).to(self.device, non_blocking=True)] @ weight
        return sparse_product(take_rows(features, nodes), weight)

    def prefers_all(self, count: int) -> bool:
        """Whether vectors of ``count`` nodes are computed sooner as rows of those of all nodes."""
        return self.device.type == "cuda" and not torch.is_grad_enabled() and count * MANY >= self.graph.num_nodes

    def propagate_all(
        self, make: Callable[[np.ndarray], torch.Tensor], width: int,
        finish: Callable[[torch.Tensor, slice], torch.Tensor],
    ) -> torch.Tensor:  # fmt: skip
        """(n, width): ``finish(A_hat Z, columns)`` of all nodes, where ``make(nodes)`` gives rows of Z."""
        n = self.graph.num_nodes
        inner, columns = torch.empty(n, width, device=self.device), slice(None)
        blocks = np.split(np.arange(n), range(self.block, n, self.block))
        for nodes in blocks:
            inner[nodes[0] : nodes[-1] + 1] = make(nodes)
        whole = self.device_adjacency()
        if whole is not None:
            return finish(whole @ inner, columns)
        out = torch.empty_like(inner)
        for nodes in blocks:
            rows, around = self.field(nodes)
            values = sparse_product(rows, inner[torch.from_numpy(around).to(inner.device)])
            out[nodes[0] : nodes[-1] + 1] = finish(values, columns)
        return out

    def dense_inputs(self) -> torch.Tensor | None:
        """A_hat X as the one dense matrix on the device; None where it is not held so."""
        self._form()
        return self._dense

    def device_adjacency(self) -> torch.Tensor | None:
        """A_hat as a sparse matrix on an accelerator; None on the CPU, where its rows are read in place."""
        if self.device.type == "cpu":
            return None
        if self._adjacency is None:
            self._adjacency = self._to_device(self.adjacency)
        return self._adjacency

    def dense_rows(self, nodes: np.ndarray) -> torch.Tensor:
        """(A_hat X)[nodes] as a dense matrix; for few nodes."""
        self._form()
        if self._dense is not None:
            return self._dense[torch.from_numpy(nodes).to(self.device, non_blocking=True)]
        if self.formed:
            rows = self.propagated()[nodes]
        else:
            rows = self.adjacency[nodes] @ self.graph.require_features("an encoder")
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return torch.from_numpy(dense).to(self.device)
