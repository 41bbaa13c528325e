r"""A task whose graph has learned edges.

Nodes of its graph are the two-hop closed neighbourhood V of the task's nodes; the weights are

.. math::
    W = \mathrm{rownorm}\left(A_V + \tfrac12\, \mathrm{kept}(a)\right), \qquad A = \tilde D^{-1} (A + I), \qquad
    a_{ij} = \exp(-|p_i - r_j|)

with :math:`A_V` the rows and columns of A in V, not normalised again. The nearest k entries of every row of a are kept
(:mod:`naq.learners.glitter.nearest`). Rows are formed only where something is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numba import njit

from naq.encoders.rows import SparseRows, take_rows
from naq.learners.glitter.nearest import nearest, reaching
from naq.learners.glitter.plain_tasks import Draw
from naq.learners.glitter.row_graph import RowGraph
from naq.learners.glitter.task_rows import compiled


class LearnedTask:
    """One task whose graph has learned edges: of each row the ``k`` nearest nodes of V, and ties with the k-th.

    The features give three products per node: the encoder's and the two projections p and r, columns of one weight.
    What is read is formed: rows of W for the task's nodes, for their neighbours in W, and, for the influence, for
    those nodes beyond that have an edge to a support. It is used as :class:`~naq.learners.glitter.plain_tasks.PlainTasks` is.

    Args:
        space: the graph.
        support: (1, supports) nodes, class-major.
        query: (1, queries) nodes, -1 where there is none.
        way: classes.
        k: entries kept per row.

    Shapes:
        - base: (V, 3 h), change: (1, d + 1, 3 h)
        - ``inner``, ``queries``, ``outer``: -> (1, supports, queries or both, h)
    """

    count = 1

    def __init__(self, space: RowGraph, support: np.ndarray, query: np.ndarray, *, way: int, k: int) -> None:
        self.space, self.way = space, way
        support, query = support.ravel(), query.ravel()
        own = np.unique(np.concatenate([support, query[query >= 0]]))
        wide = space.around(space.around(own))
        self.nodes = np.concatenate([own, wide[~np.isin(wide, own)]])
        self.k = min(k, len(self.nodes))
        self._edges = restrict_rows(space.adjacency, self.nodes, space.node_place)
        self._inputs = space.inputs(self.nodes)
        self._own = np.arange(len(own))
        self._support = np.searchsorted(own, support)
        asked = np.searchsorted(own, np.where(query >= 0, query, support[0]))
        self._listed = space.index(np.concatenate([self._support, asked]))
        self._asked = space.index(asked[query >= 0])
        self._slots = space.index(np.repeat(np.arange(way), len(support) // way))

    def base(self, first: torch.Tensor) -> torch.Tensor:
        """What the unchanged weight gives for each node of V; differentiable."""
        return self._inputs @ first

    def start(self, base: torch.Tensor) -> torch.Tensor:
        """The rows themselves: any node of V may be read."""
        return base

    def subtract(self, change: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """Move the change of the first weight, in place, against the gradient of the rows."""
        self._inputs.subtract(change, gradient, rate)

    def moved(self, start: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """The rows after a change of the first weight."""
        return start + self._inputs.times(change)

    def inner(self, rows: torch.Tensor, draw: Draw | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """W H at the supports, H with dropout if drawn; and what each query receives of each class, (queries, way)."""
        vectors, weights = self._read(rows, draw)
        return vectors[:, : len(self._support)], self._influence(*weights)

    def outer(self, base: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """W H at the supports, then at the queries."""
        return self._read(self.moved(base, change), None)[0]

    def queries(self, base: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """W H at the queries; a missing one reads as the first support."""
        return self.outer(base, change)[:, len(self._support) :]

    def _read(
        self, rows: torch.Tensor, draw: Draw | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor, Weights, Weights]]:
        """W H at supports and queries, and what the influence is made of: p, r, rows of W for the task's nodes and for those these lead to."""
        own, *projections = rows.chunk(3, dim=1)
        p, r = (F.normalize(torch.relu(part), dim=1) for part in projections)
        near = self.weights(p, r, self._own)
        reached = np.unique(near.columns)
        next_ = self.weights(p, r, reached)
        hidden = torch.relu(next_ @ own)
        if draw is not None:
            positions = self.space.order_within(self.nodes[reached], np.array([0, len(reached)]))
            hidden = hidden * draw(len(reached))[self.space.index(positions)]
        vectors = (near @ self._spread(hidden, reached)).index_select(0, self._listed)[None]
        return vectors, (p, r, near, next_)

    def weights(self, p: torch.Tensor, r: torch.Tensor, rows: np.ndarray) -> Weights:
        """Rows of W, with a gradient for the kept entries."""
        edges, index = take_rows(self._edges, rows), self.space.index
        owner, column = nearest(p.detach()[index(rows)], r.detach(), self.k)
        row = np.concatenate([np.repeat(np.arange(len(rows)), np.diff(edges.indptr)), owner])
        columns = np.concatenate([edges.indices.astype(np.int64), column])
        start, end = p.index_select(0, index(rows[owner])), r.index_select(0, index(column))
        learned = 0.5 * torch.exp(-torch.linalg.vector_norm(start - end, dim=1))
        values = torch.cat([torch.from_numpy(edges.data).to(p.device), learned])
        total = values.new_zeros(len(rows)).index_add(0, index(row), values)
        return Weights(rows, row, columns, values / total.index_select(0, index(row)))

    def _spread(self, values: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        """Rows put at their place among all nodes of V, zeros elsewhere."""
        return values.new_zeros(len(self.nodes), values.shape[1]).index_copy(0, self.space.index(rows), values)

    def _influence(self, p: torch.Tensor, r: torch.Tensor, near: Weights, next_: Weights) -> torch.Tensor:
        """M B + M M B at the queries, summed over the supports of a class.

        M are the weights among nodes that are no supports, B those from such nodes to supports. A query that is a
        support too is read as any other: by the nodes its own row leads to that are no supports.
        """
        slots = p.new_zeros(len(self.nodes), self.way)
        slots.index_put_((self.space.index(self._support), self._slots), p.new_ones(1), accumulate=True)
        rest = (slots.sum(dim=1, keepdim=True) == 0).to(p.dtype)
        direct = rest * self._spread(next_ @ slots, next_.rows)
        beyond = np.setdiff1d(next_.columns, next_.rows)
        beyond = beyond[reaching(p.detach()[self.space.index(beyond)], r.detach(), self._support, self.k)]
        if len(beyond):
            direct = direct + rest * self._spread(self.weights(p, r, beyond) @ slots, beyond)
        through = direct + rest * self._spread(next_ @ direct, next_.rows)
        return (near @ through).index_select(0, self._asked)


@dataclass(frozen=True)
class Weights:
    """Some rows of W by entry; where an edge is both given and learned it has two entries."""

    rows: np.ndarray
    row: np.ndarray
    columns: np.ndarray
    values: torch.Tensor

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        """The product with one row per node of V, differentiable in both."""
        return entry_product(self.values, dense, self.row, self.columns)


def entry_product(values: torch.Tensor, dense: torch.Tensor, row: np.ndarray, column: np.ndarray) -> torch.Tensor:
    """out[row[e]] += values[e] * dense[column[e]] over all entries e, differentiable in values and dense.

    Shapes:
        - values, row, column: (entries,), dense: (n, h) -> (row.max() + 1, h); every row has an entry
    """
    return _EntryProduct.apply(values, dense, row, column)


class _EntryProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, dense: torch.Tensor, row: np.ndarray, column: np.ndarray
    ) -> torch.Tensor:
        ctx.save_for_backward(values, dense)
        ctx.places = row, column
        return _scattered(values, dense, column, row, int(row.max()) + 1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        (values, dense), (row, column) = ctx.saved_tensors, ctx.places
        wide = _scattered(values, grad, row, column, len(dense)) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[0]:
            return None, wide, None, None
        if not compiled(grad):
            rows, columns = (torch.from_numpy(place).to(grad.device) for place in (row, column))
            return (grad[rows] * dense[columns]).sum(dim=1), wide, None, None
        out = torch.empty_like(values)
        _dots(grad.contiguous().numpy(), dense.detach().contiguous().numpy(), row, column, out.numpy())
        return out, wide, None, None


def _scattered(
    values: torch.Tensor, dense: torch.Tensor, source: np.ndarray, target: np.ndarray, count: int
) -> torch.Tensor:
    out, values, dense = dense.new_zeros(count, dense.shape[1]), values.detach(), dense.detach()
    if not compiled(dense):
        sources, targets = (torch.from_numpy(place).to(dense.device) for place in (source, target))
        return out.index_add_(0, targets, values[:, None] * dense[sources])
    _scatter(values.contiguous().numpy(), dense.contiguous().numpy(), source, target, out.numpy())
    return out


@njit(cache=True, fastmath={"contract"})
def _scatter(values: Any, dense: Any, source: Any, target: Any, out: Any) -> None:
    width = dense.shape[1]
    for e in range(len(values)):
        v, s, t = values[e], dense[source[e]], out[target[e]]
        for k in range(width):
            t[k] += v * s[k]


@njit(cache=True, fastmath=True)
def _dots(one: Any, two: Any, row: Any, column: Any, out: Any) -> None:
    width = one.shape[1]
    for e in range(len(out)):
        a, b, total = one[row[e]], two[column[e]], np.float32(0.0)
        for k in range(width):
            total += a[k] * b[k]
        out[e] = total


def restrict_rows(matrix: sp.csr_array, nodes: np.ndarray, place: np.ndarray) -> SparseRows:
    """Rows and columns of ``nodes``, renumbered.

    Args:
        place: (columns,) int32 of -1, a scratch buffer that is restored on return.
    """
    place[nodes] = np.arange(len(nodes))
    indptr, indices, data = _restrict(matrix.indptr, matrix.indices, matrix.data, nodes, place)
    place[nodes] = -1
    return SparseRows(indptr, indices, data, (len(nodes), len(nodes)))


@njit(cache=True)
def _restrict(indptr: Any, indices: Any, data: Any, rows: Any, place: Any) -> Any:
    total = 0
    for r in range(len(rows)):
        total += indptr[rows[r] + 1] - indptr[rows[r]]
    out = np.zeros(len(rows) + 1, dtype=np.int64)
    local, values = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.float32)
    e = 0
    for r in range(len(rows)):
        for x in range(indptr[rows[r]], indptr[rows[r] + 1]):
            if place[indices[x]] >= 0:
                local[e], values[e] = place[indices[x]], data[x]
                e += 1
        out[r + 1] = e
    return out, local[:e].copy(), values[:e].copy()
