r"""A whole graph, or a sampled piece of one, as an encoder reads it that passes over all of its nodes at once.

A piece offers two products, both differentiable in their dense side and neither of them ever dense in the graph:

.. math::
    X W \quad\text{(features stay sparse)}, \qquad \hat A' H \quad\text{with}\quad
    \hat A' = \tilde D'^{-1/2} (A' + I) \tilde D'^{-1/2}

:math:`A'` is the piece's adjacency after each undirected edge was dropped with probability ``drop``; both directions of
an edge go or stay together and degrees are counted anew.

Sampled pieces: the nodes of an epoch are dealt into batches; a batch is joined by up to ``fanout`` drawn neighbours of
each node, and of those again, ``hops`` times, and the piece is the sub-graph that all of them induce, with degrees of
its own. The loss is taken over the batch.

Cost: X W takes the non-zeros of X times the width, A_hat' H the edges times the width.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit

from naq.graph import Graph
from naq.graph.operators import csr_tensor
from naq.nn.operator import DENSE_BYTES
from naq.nn.rows import SparseRows, multiply
from naq.random import mixed, stream, word

FULL = 0.1
"""On an accelerator features with a larger share of non-zeros are held dense; below it the sparse product is the faster
one."""


class Spread:
    """A_hat' of one view of a piece, ready to be multiplied.

    ``values`` are its entries, in the order of ``piece.rows`` and ``piece.columns``; zero where an edge was dropped.
    """

    def __init__(self, piece: Piece, values: torch.Tensor) -> None:
        self.values, self._matrix = values, piece._sparse(values)

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        """A_hat' @ dense with a gradient for ``dense``."""
        return _Fixed.apply(dense, self._matrix, self._matrix)


class Piece:
    """Nodes of a graph with their features and the edges among them.

    Args:
        graph: whole.
        device: where the arithmetic runs.
        nodes: which of its nodes, distinct; all of them by default.
        seeds: how many of the first nodes the loss is over; all by default.

    Attributes:
        nodes: (m,) ids in the graph.
        rows, columns: (entries,) row and column of every entry of A + I, as on the device.
    """

    def __init__(
        self, graph: Graph, device: str | torch.device, nodes: np.ndarray | None = None, seeds: int | None = None
    ) -> None:
        self.graph, self.device = graph, torch.device(device)
        self.nodes = np.arange(graph.num_nodes) if nodes is None else np.asarray(nodes, dtype=np.int64)
        self.whole = nodes is None
        self.seeds = len(self.nodes) if seeds is None else int(seeds)
        features = graph.require_features("an encoder")
        self.features: sp.csr_array | np.ndarray = features if self.whole else features[self.nodes]
        adjacency = graph.adjacency if self.whole else sp.csr_array(graph.adjacency[self.nodes][:, self.nodes])
        looped = sp.csr_array(adjacency + sp.eye_array(len(self.nodes), format="csr", dtype=np.float32))
        looped.sort_indices()
        self._indptr, self._indices = looped.indptr.astype(np.int64), looped.indices.astype(np.int32)
        rows = np.repeat(np.arange(len(self.nodes), dtype=np.int32), np.diff(self._indptr))
        self.rows = torch.from_numpy(rows.astype(np.int64)).to(self.device)
        self.columns = torch.from_numpy(self._indices.astype(np.int64)).to(self.device)
        self._device_indptr = torch.from_numpy(self._indptr).to(self.device)
        self._edge = torch.from_numpy(_edge_numbers(self._indptr, self._indices)).to(self.device)
        self.num_edges = adjacency.nnz // 2

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def _plain(self) -> Spread:
        return Spread(self, self._normalize(torch.ones(len(self._edge), device=self.device)))

    def spread(self, drop: float = 0.0, generator: torch.Generator | None = None) -> Spread:
        """A_hat' with edges dropped by numbers of ``generator``; the graph as it is for ``drop`` 0."""
        if drop <= 0.0:
            return self._plain
        keep = (torch.rand(self.num_edges + 1, generator=generator) >= drop).float()
        keep[self.num_edges] = 1.0  # self-loops stay
        return Spread(self, self._normalize(keep.to(self.device)[self._edge]))

    def _normalize(self, keep: torch.Tensor) -> torch.Tensor:
        degree = torch.zeros(len(self.nodes), dtype=torch.float64, device=self.device)
        degree.index_add_(0, self.rows, keep.double())
        scale = degree.rsqrt()
        return (keep * scale[self.rows] * scale[self.columns]).float()

    def _sparse(self, values: torch.Tensor) -> SparseRows | torch.Tensor:
        m = len(self.nodes)
        if self.device.type == "cpu":
            return SparseRows(self._indptr, self._indices, values.numpy(), (m, m))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
            return torch.sparse_csr_tensor(
                self._device_indptr, self.columns, values, size=(m, m), check_invariants=False
            )

    def inputs(self, weight: torch.Tensor, drop: float = 0.0, generator: torch.Generator | None = None) -> torch.Tensor:
        """X @ weight, differentiable in ``weight``; non-zeros of X are dropped with probability ``drop``, the rest
        scaled."""
        x = self.features
        if drop > 0.0:
            shape = x.shape if isinstance(x, np.ndarray) else x.data.shape
            keep = (torch.rand(shape, generator=generator) >= drop).float() / (1.0 - drop)
            if isinstance(x, np.ndarray):
                return (self._held * keep.to(self.device)) @ weight
            return _Fixed.apply(weight, *self._both_ways(x, x.data * keep.numpy()))
        return self._held @ weight if isinstance(self._held, torch.Tensor) else _Fixed.apply(weight, *self._held)

    @cached_property
    def _held(self) -> Any:
        """X as a dense matrix where it is one or nearly so; else X and its transpose, both by rows."""
        x = self.features
        if isinstance(x, np.ndarray):
            return torch.from_numpy(x if x.flags.writeable else x.copy()).to(self.device)
        size = x.shape[0] * x.shape[1]
        if self.device.type != "cpu" and x.nnz > FULL * size and 4 * size <= DENSE_BYTES:
            return self._tensor(x).to_dense()
        return self._both_ways(x, x.data)

    def _both_ways(self, x: sp.csr_array, data: np.ndarray) -> Any:
        """The matrix with the entries of ``x`` at these values, and its transpose."""
        if self.device.type == "cpu":
            rows = SparseRows(x.indptr.astype(np.int64), x.indices.astype(np.int32), data, x.shape)
            return rows, rows.turned
        matrix = sp.csr_array((data, x.indices, x.indptr), shape=x.shape)
        return self._tensor(matrix), self._tensor(sp.csr_array(matrix.T.tocsr()))

    def _tensor(self, x: sp.csr_array) -> torch.Tensor:
        return csr_tensor(x.indptr, x.indices, x.data, x.shape, self.device, torch.float32)


def _times(matrix: SparseRows | torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return multiply(matrix, dense) if isinstance(matrix, SparseRows) else matrix @ dense.detach()


class _Fixed(torch.autograd.Function):
    """matrix @ dense for a matrix whose transpose is at hand."""

    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, matrix: Any, turned: Any) -> torch.Tensor:
        ctx.turned = turned
        return _times(matrix, dense)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _times(ctx.turned, grad.contiguous()), None, None


@njit(cache=True)
def _edge_numbers(indptr: Any, indices: Any) -> Any:
    """The number of the undirected edge behind every entry of A + I; self-loops get the number after the last edge."""
    n = len(indptr) - 1
    edges = (len(indices) - n) // 2
    number = np.empty(len(indices), dtype=np.int64)
    place = indptr[:-1].copy()  # entries of row v below its diagonal that were met so far, as rows u < v come in order
    count = 0
    for u in range(n):
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if v == u:
                number[e] = edges
            elif v > u:
                number[e] = count
                number[place[v]] = count
                place[v] += 1
                count += 1
    return number


class PieceSampler:
    """The pieces of a training: the whole graph at every update, or batches that are dealt anew every epoch.

    Args:
        graph: whole.
        device: where the arithmetic runs.
        batch: nodes of a batch; 0 for the whole graph.
        hops: how far a batch is extended by neighbours.
        fanout: neighbours drawn per node and hop.
        seed: of the dealing and the drawing.

    ``pieces[update]`` depends on nothing but the seed and the number.
    """

    def __init__(
        self, graph: Graph, device: torch.device, *, batch: int, hops: int, fanout: int, seed: int = 0
    ) -> None:
        self.graph, self.device, self.seed = graph, device, seed
        self.batch, self.hops, self.fanout = batch, hops, fanout
        self.per_epoch = 1 if batch == 0 else -(-graph.num_nodes // batch)
        self._dealt: tuple[int, list[np.ndarray]] = (-1, [])

    @cached_property
    def whole(self) -> Piece:
        """The whole graph as a piece."""
        return Piece(self.graph, self.device)

    def __getitem__(self, update: int) -> Piece:
        if self.batch == 0:
            return self.whole
        epoch, number = divmod(update, self.per_epoch)
        if self._dealt[0] != epoch:
            order = stream(self.seed, "pieces", epoch).permutation(self.graph.num_nodes)
            self._dealt = epoch, np.array_split(order, self.per_epoch)
        seeds = self._dealt[1][number]
        draws = word(self.seed, "pieces/neighbours", update)
        adjacency = self.graph.adjacency
        nodes = _extend(adjacency.indptr, adjacency.indices, seeds, self.hops, self.fanout, draws)
        return Piece(self.graph, self.device, nodes, len(seeds))


@njit(cache=True)
def _extend(indptr: Any, indices: Any, seeds: Any, hops: Any, fanout: Any, word: Any) -> Any:
    """The seeds, then drawn neighbours of theirs, hop by hop, each node once."""
    seen = np.zeros(len(indptr) - 1, dtype=np.bool_)
    seen[seeds] = True
    out = list(seeds)
    start = 0
    for _ in range(hops):
        end = len(out)
        for i in range(start, end):
            u = out[i]
            neighbors = indices[indptr[u] : indptr[u + 1]]
            if len(neighbors) > fanout:
                ranks = np.empty(len(neighbors), dtype=np.uint64)
                for e in range(len(neighbors)):
                    ranks[e] = mixed(mixed(np.uint64(u) ^ word) + np.uint64(neighbors[e]))
                neighbors = neighbors[np.argsort(ranks)[:fanout]]
            for v in neighbors:
                if not seen[v]:
                    seen[v] = True
                    out.append(np.int64(v))
        start = end
    return np.array(out, dtype=np.int64)
