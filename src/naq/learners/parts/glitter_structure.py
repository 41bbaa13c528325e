r"""The graphs GLITTER learns on: one small graph per task, with edges it may add itself.

Nodes of a task graph are the two-hop closed neighbourhood V of the task's nodes; its weights are

.. math::
    W = \mathrm{rownorm}\left(A_V + \tfrac12\, \mathrm{kept}(a)\right), \qquad A = \tilde D^{-1} (A + I), \qquad
    a_{ij} = \exp(-|p_i - r_j|)

with :math:`A_V` the rows and columns of A in V, not normalised again. Two views of tasks give the same interface:

* :class:`PlainTasks`: nothing is kept. A row of W within one hop of the task's nodes is then the row of A itself, so V
  need not be formed: two layers need one-hop fields in A X, which is constant. Many tasks at once.
* :class:`LearnedTask`: the nearest k entries of every row are kept. Rows are formed only where something is read.

Features carry a constant last column: rows of A and of W sum to 1, so its weight is the bias of the layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from naq.encoders.rows import take_rows
from naq.learners.parts.glitter_graph import RowGraph
from naq.learners.parts.glitter_nearest import nearest, reaching
from naq.learners.parts.glitter_rows import Fixed, TaskRows, entry_product, restrict_rows, stack_rows

Draw = Callable[[int], torch.Tensor]
"""``count`` rows of dropout factors; fewer rows are a prefix of more."""


class PlainTasks:
    """Several tasks without learned edges.

    A view of tasks is used in this order: ``base`` is the first layer before its ReLU at the initial weight;
    ``start`` takes from it the rows an inner step reads; ``inner`` turns them into what the second weight is applied
    to; ``subtract`` moves the change of the first weight against the gradient of those rows, and ``moved`` gives the
    rows after it.

    Args:
        space: the graph.
        support: (tasks, supports) nodes.
        query: (tasks, queries) nodes, -1 where there is none.

    Shapes:
        - base: (nodes, h), change: (tasks, d + 1, h)
        - ``inner``, ``queries``, ``outer``: -> (tasks, supports, queries or both, h)
    """

    def __init__(self, space: RowGraph, support: np.ndarray, query: np.ndarray) -> None:
        self.space, self.count = space, len(support)
        asked = np.where(query >= 0, query, support[:, :1])
        self.nodes = np.sort(space.around(np.concatenate([support, asked], axis=1)))
        self._support, self._query = self._layers(support), self._layers(asked)
        position = _positions(space, self._support.field, self._support.first.bounds)
        self._position, self._widest = space.index(position), int(position.max()) + 1

    def _layers(self, nodes: np.ndarray) -> _Layers:
        space, bounds = self.space, np.arange(self.count + 1) * nodes.shape[1]
        second, field, ends = stack_rows(space.adjacency, nodes.ravel(), bounds, space.node_place)
        spot = space.index(np.searchsorted(self.nodes, field))
        first = TaskRows(*space.propagated(field), ends, space.device)
        return _Layers(field, first, Fixed(second, space.device), spot)

    def base(self, first: torch.Tensor) -> torch.Tensor:
        """What the unchanged weight gives in the first layer, one row for each of ``nodes``; differentiable."""
        return self.space.first_layer(self.nodes) @ first

    def start(self, base: torch.Tensor) -> torch.Tensor:
        """Rows of the supports' fields."""
        return base.index_select(0, self._support.spot)

    def subtract(self, change: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """Move the change of the first weight, in place, against the gradient of the rows."""
        self._support.first.subtract(change, gradient, rate)

    def moved(self, start: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """The rows after a change of the first weight."""
        return start + self._support.first.times(change)

    def inner(
        self, rows: torch.Tensor, draw: Draw | None = None, *, influence: bool = False
    ) -> tuple[torch.Tensor, None]:
        """W H at the supports, H with dropout if drawn; nothing is learned from influence."""
        hidden = torch.relu(rows)
        if draw is not None:
            hidden = hidden * draw(self._widest)[self._position]
        return (self._support.second @ hidden).view(self.count, -1, rows.shape[1]), None

    def queries(self, base: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """W H at the queries; a missing one reads as the task's first support."""
        layers = self._query
        hidden = torch.relu(base.index_select(0, layers.spot) + layers.first.times(change))
        return (layers.second @ hidden).view(self.count, -1, base.shape[1])

    def outer(self, base: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """W H at the supports, then at the queries."""
        known, _ = self.inner(self.moved(self.start(base), change))
        return torch.cat([known, self.queries(base, change)], dim=1)


@dataclass(frozen=True)
class _Layers:
    """The field of some nodes, its rows of A X, the nodes' rows of A, and where the field is among all nodes."""

    field: np.ndarray
    first: TaskRows
    second: Fixed
    spot: torch.Tensor


def _positions(space: RowGraph, field: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The place of each node among those of its task, in an order that does not depend on ids."""
    task = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    order = np.lexsort((space.rank[field], task))
    position = np.empty(len(field), dtype=np.int64)
    position[order] = np.arange(len(field)) - ends[task[order]]
    return position


class LearnedTask:
    """One task whose graph has learned edges: of each row the ``k`` nearest nodes of V, and ties with the k-th.

    The features give three products per node: the encoder's and the two projections p and r, columns of one weight.
    What is read is formed: rows of W for the task's nodes, for their neighbours in W, and, for the influence, for
    those nodes beyond that have an edge to a support. It is used as :class:`PlainTasks` is.

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

    def inner(
        self, rows: torch.Tensor, draw: Draw | None = None, *, influence: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """W H at the supports, H with dropout if drawn; and what each query receives of each class, (queries, way)."""
        vectors, received = self._read(rows, draw, influence)
        return vectors[:, : len(self._support)], received

    def outer(self, base: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """W H at the supports, then at the queries."""
        return self._read(self.moved(base, change), None, False)[0]

    def queries(self, base: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """W H at the queries; a missing one reads as the first support."""
        return self.outer(base, change)[:, len(self._support) :]

    def _read(self, rows: torch.Tensor, draw: Draw | None, influence: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        own, *projections = rows.chunk(3, dim=1)
        p, r = (F.normalize(torch.relu(part), dim=1) for part in projections)
        near = self.weights(p, r, self._own)
        reached = np.unique(near.columns)
        next_ = self.weights(p, r, reached)
        hidden = torch.relu(next_ @ own)
        if draw is not None:
            positions = _positions(self.space, self.nodes[reached], np.array([0, len(reached)]))
            hidden = hidden * draw(len(reached))[self.space.index(positions)]
        vectors = (near @ self._spread(hidden, reached)).index_select(0, self._listed)[None]
        return vectors, self._influence(p, r, near, next_) if influence else None

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
