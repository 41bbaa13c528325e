"""Sub-graphs as batches, and one graph convolution inside each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numba import njit, prange
from torch import nn

from naq.neighbors import NeighborTable
from naq.nn import GraphOperator
from naq.nn.rows import SparseRows, mean_present, sparse_product
from naq.random import torch_seed


@dataclass(frozen=True)
class Subgraphs:
    """A batch of M sub-graphs of k rows, the centre first.

    Shapes:
        - ``inputs``: (M, k, hidden), rows of X W
        - ``edges``: (M, k, k), weights without loops
        - ``present``: (M, k), False where the sub-graph is smaller
    """

    inputs: torch.Tensor
    edges: torch.Tensor
    present: torch.Tensor

    def __getitem__(self, index: torch.Tensor) -> Subgraphs:
        return Subgraphs(*(part.index_select(0, index) for part in (self.inputs, self.edges, self.present)))


class SubgraphEncoder(nn.Module):
    """One graph convolution inside sub-graphs, d -> hidden, PReLU, rows of length one.

    Args:
        operator: the graph it reads.
        table: the sub-graph of every node, itself first.
        hidden: width of the vectors.

    Shapes:
        - ``encode``: nodes (m,) -> (m, hidden), the rows of the centres
        - ``encode_all``: (n, hidden)
    """

    def __init__(self, operator: GraphOperator, table: NeighborTable, hidden: int, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.table, self.hidden = operator, table, hidden
        generator = torch.Generator().manual_seed(torch_seed(seed, "encoder/subgraph"))
        weight = nn.init.xavier_uniform_(torch.empty(operator.width, hidden), generator=generator)
        self.weight = nn.Parameter(weight.to(operator.device))
        self.bias = nn.Parameter(torch.zeros(hidden, device=operator.device))
        self.slope = nn.Parameter(torch.full((hidden,), 0.25, device=operator.device))

    def extra_repr(self) -> str:
        return f"{self.operator.width} -> {self.hidden}, sub-graphs of {self.table.k}"

    def gather(self, nodes: np.ndarray) -> Subgraphs:
        """The sub-graphs of ``nodes``; every distinct node in them is multiplied once."""
        device = self.operator.device
        members = self.table.ids[nodes]
        present = members >= 0
        union, place = np.unique(members[present], return_inverse=True)
        where = np.full(members.shape, len(union), dtype=np.int64)
        where[present] = place.ravel()
        rows = F.pad(self.operator.inputs(union, self.weight), (0, 0, 0, 1))
        inputs = rows.index_select(0, torch.from_numpy(where.ravel()).to(device))
        edges = torch.from_numpy(induced_edges(self.operator.graph.adjacency, members)).to(device)
        return Subgraphs(inputs.view(*members.shape, -1), edges, torch.from_numpy(present).to(device))

    def views(self, batch: Subgraphs) -> tuple[torch.Tensor, torch.Tensor]:
        """z and s, (M, hidden) each."""
        mixed = torch.bmm(normalized_blocks(batch.edges), batch.inputs)
        rows = self._activate(mixed.view(-1, self.hidden)).view_as(mixed)
        return rows[:, 0], mean_present(rows, batch.present)

    def encode(self, nodes: np.ndarray, block: int = 4096) -> torch.Tensor:
        """z of ``nodes``, repeats allowed: rows of C X W, with C the centre rows of the normalised sub-graphs."""
        nodes = self.operator.graph.known_nodes(nodes).ravel()
        blocks = [self._centres(nodes[start : start + block]) for start in range(0, len(nodes), block)]
        return torch.cat(blocks) if blocks else self.bias.new_zeros(0, self.hidden)

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """z of all nodes, in blocks."""
        return self.encode(np.arange(self.operator.graph.num_nodes))

    def _centres(self, nodes: np.ndarray) -> torch.Tensor:
        members = self.table.ids[nodes]
        weights = centre_weights(self.operator.graph.adjacency, members)
        used = weights > 0
        around, local = np.unique(members[used], return_inverse=True)
        indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
        rows = SparseRows(indptr, local.ravel().astype(np.int32), weights[used], (len(nodes), len(around)))
        return self._activate(sparse_product(rows, self.operator.inputs(around, self.weight)))

    def _activate(self, rows: torch.Tensor) -> torch.Tensor:
        return directions(F.prelu(rows + self.bias, self.slope))


def directions(rows: torch.Tensor) -> torch.Tensor:
    """Rows divided by their length. A zero row stays zero and passes no gradient on: it has no direction to turn."""
    square = rows.pow(2).sum(-1, keepdim=True)
    some = square > 0
    return rows * torch.where(some, torch.rsqrt(torch.where(some, square, 1.0)), 0.0)


def normalized_blocks(edges: torch.Tensor) -> torch.Tensor:
    """D~^-1/2 (E + I) D~^-1/2 of each block, D~ the row sums of E + I; the edges may have weights."""
    looped = edges + torch.eye(edges.shape[-1], device=edges.device)
    scale = looped.sum(-1).rsqrt()
    return scale[..., :, None] * looped * scale[..., None, :]


def induced_edges(adjacency: sp.csr_array, members: np.ndarray) -> np.ndarray:
    """(m, k, k) float32: 1 where two members of the same row are joined; no loops, zeros at -1.

    Args:
        adjacency: symmetric, without loops, indices sorted, as a graph has it.
        members: (m, k) node ids.
    """
    out = np.zeros((*members.shape, members.shape[1]), dtype=np.float32)
    _induce(adjacency.indptr, adjacency.indices, members, out)
    return out


def centre_weights(adjacency: sp.csr_array, members: np.ndarray) -> np.ndarray:
    """(m, k) float32: the first row of D~^-1/2 (A + I) D~^-1/2 inside each sub-graph, degrees counted inside it too."""
    edges = induced_edges(adjacency, members)
    degree = 1.0 + edges.sum(axis=2, dtype=np.float64)
    edges[:, 0, 0] = 1.0
    return (edges[:, 0] / np.sqrt(degree[:, :1] * degree)).astype(np.float32)


@njit(cache=True)
def _join(indptr: Any, indices: Any, a: Any, b: Any) -> Any:
    """Whether b is among the sorted neighbours of a; looked up in the shorter of the two lists."""
    if indptr[a + 1] - indptr[a] > indptr[b + 1] - indptr[b]:
        a, b = b, a
    low, high = indptr[a], indptr[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low < indptr[a + 1] and indices[low] == b


@njit(cache=True, parallel=True)
def _induce(indptr: Any, indices: Any, members: Any, out: Any) -> None:
    for row in prange(len(members)):
        own = members[row]
        for i in range(len(own)):
            for j in range(i):
                if own[i] >= 0 and own[j] >= 0 and _join(indptr, indices, own[i], own[j]):
                    out[row, i, j] = out[row, j, i] = 1.0
