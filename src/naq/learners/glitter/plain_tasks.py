r"""Tasks without learned edges, many at once.

The graph of a task holds the two-hop closed neighbourhood V of the task's nodes, with the rows and columns of
:math:`A = \tilde D^{-1} (A + I)` in V, not normalised again. A row of it within one hop of the task's nodes is the row
of A itself, so V need not be formed: two layers need one-hop fields in A X, which is constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit

from naq.encoders.rows import SparseRows
from naq.learners.glitter.row_graph import RowGraph
from naq.learners.glitter.task_rows import Fixed, TaskRows

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
        position = space.order_within(self._support.field, self._support.first.bounds)
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

    def inner(self, rows: torch.Tensor, draw: Draw | None = None) -> tuple[torch.Tensor, None]:
        """W H at the supports, H with dropout if drawn; no weight changes what queries receive, so that is left out."""
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


def stack_rows(
    matrix: sp.csr_array, rows: np.ndarray, bounds: np.ndarray, place: np.ndarray
) -> tuple[SparseRows, np.ndarray, np.ndarray]:
    """Rows of several tasks as one block-diagonal matrix, with its columns and where those of each task begin.

    Args:
        bounds: (tasks + 1,) task t has ``rows[bounds[t]:bounds[t + 1]]``; it renumbers the columns it uses for itself.
        place: (columns,) int32 of -1, a scratch buffer that is restored on return.
    """
    indptr, indices, data, field, ends = _stack(matrix.indptr, matrix.indices, matrix.data, rows, bounds, place)
    return SparseRows(indptr, indices, data, (len(rows), len(field))), field, ends


@njit(cache=True)
def _stack(indptr: Any, indices: Any, data: Any, rows: Any, bounds: Any, place: Any) -> Any:
    total = 0
    for r in range(len(rows)):
        total += indptr[rows[r] + 1] - indptr[rows[r]]
    out = np.zeros(len(rows) + 1, dtype=np.int64)
    local, values = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.float32)
    field, ends = np.empty(total, dtype=np.int64), np.zeros(len(bounds), dtype=np.int64)
    e, count = 0, 0
    for t in range(len(bounds) - 1):
        for r in range(bounds[t], bounds[t + 1]):
            for x in range(indptr[rows[r]], indptr[rows[r] + 1]):
                c = indices[x]
                if place[c] < 0:
                    place[c] = count
                    field[count] = c
                    count += 1
                local[e], values[e] = place[c], data[x]
                e += 1
            out[r + 1] = e
        ends[t + 1] = count
        for f in range(ends[t], count):
            place[field[f]] = -1
    return out, local, values, field[:count].copy(), ends
