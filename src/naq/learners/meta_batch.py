r"""A batch of tasks for learners with an inner loop, small enough to adapt every task at once.

The inner loop of a two-layer network on a graph changes the first weight only along the first-layer inputs of the
support: with rows P_S of A_hat X (one per node of the support's neighbourhood) and gradients G of the pre-activations,

.. math::
    W_1^{(s)} = W_1 - a P_S^\top \sum_{r<s} G_r, \qquad P_Q W_1^{(s)} = P_Q W_1 - a (P_Q P_S^\top) \sum_{r<s} G_r.

So an inner step needs the products P W_1, formed once per update for all tasks, and the Gram matrices P_S P_S^T and
P_Q P_S^T of each task, never the d x h weight. This is exact, for first and for second order.

Tasks are padded to the largest of their chunk; tasks of similar size share a chunk. Where the Gram matrix of one task
would not fit, the products go through the d features instead (:class:`FeatureGram`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from naq.episodes import Episodes
from naq.errors import TrainingError
from naq.nn import DenseOperator, GraphOperator, Operator
from naq.nn.rows import SparseRows, take_field

CHUNK_ENTRIES = 1 << 26
"""Padded numbers of one chunk of tasks (256 MB)."""
GRAM_ENTRIES = 1 << 27
"""The largest Gram matrix of one task (512 MB)."""

FirstLayer = Callable[[torch.Tensor], torch.Tensor]
"""Some first-layer inputs times a weight (d, h), differentiable in it."""


@dataclass(frozen=True)
class FeatureGram:
    """P_M P_S^T of one task, never formed: a product with it goes through the features. First order only.

    Args:
        parts: products of the rows M, and their places among them.
        basis: the product of the rows S.
        height: number of rows M.
        weight: (d, h) whose shape the products are for.
    """

    parts: Sequence[tuple[FirstLayer, torch.Tensor | slice]]
    basis: FirstLayer
    height: int
    weight: torch.Tensor

    @cached_property
    def _basis_of_zero(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A weight and its product, to take gradients of."""
        weight = torch.zeros_like(self.weight, requires_grad=True)
        with torch.enable_grad():
            return weight, self.basis(weight)

    def times(self, shift: torch.Tensor) -> torch.Tensor:
        """(1, s, h) -> (1, m, h)."""
        weight, product = self._basis_of_zero
        (features,) = torch.autograd.grad(product, weight, shift[0, : product.shape[0]], retain_graph=True)
        out = shift.new_zeros(1, self.height, shift.shape[2])
        with torch.no_grad():
            for first_layer, place in self.parts:
                out[0, place] = first_layer(features)
        return out


@dataclass(frozen=True)
class FirstProducts:
    """First-layer products of tasks, as the first weight moves along the first-layer inputs of the supports.

    Shapes (tasks t, first-layer rows m, width h, support's first-layer rows s):
        - ``first``: (t, m, h) rows of P W1, differentiable in W1
        - ``gram``: (t, m, s)
    """

    first: torch.Tensor
    gram: torch.Tensor | FeatureGram

    def moved(self, shift: torch.Tensor) -> torch.Tensor:
        """The first layer's products after the first weight moved by P_S^T ``shift``."""
        if not isinstance(self.gram, FeatureGram):
            return self.first + torch.bmm(self.gram, shift)
        if shift.requires_grad:
            raise TrainingError(
                "the neighbourhoods of this task are too large for second-order steps; use order=first."
            )
        return self.first + self.gram.times(shift)


@dataclass(frozen=True)
class Side(FirstProducts):
    """The supports, or the queries, of a chunk of tasks.

    Shapes (tasks t, rows r, first-layer rows m):
        - ``pool``: (t, r, m) the second aggregation
        - ``slot``: (t, r) labels; ``kept``: (t, r) False where a row is padding
    """

    pool: torch.Tensor
    slot: torch.Tensor
    kept: torch.Tensor


@dataclass(frozen=True)
class TaskChunk:
    """Some of the tasks of an update.

    Args:
        tasks: which of them.
        support, query: their two sides.
        fields: for each task what the first-layer rows of its supports are known by: node ids, for a graph's operator.
    """

    tasks: np.ndarray
    support: Side
    query: Side
    fields: Sequence[Any]

    def __len__(self) -> int:
        return len(self.tasks)


def chunk_episodes(
    episodes: Episodes, operator: DenseOperator, views: Sequence[Operator], weight: torch.Tensor, *,
    width: Callable[[int], int] = int, chunk_entries: int = CHUNK_ENTRIES, gram_entries: int = GRAM_ENTRIES,
) -> Iterator[TaskChunk]:  # fmt: skip
    """The tasks of ``episodes`` in padded chunks.

    Args:
        operator: reads the supports, and the queries too unless there are other ``views``: then the queries of column j
            are read on the j-th.
        weight: (d, h) the first weight.
        width: what the first-layer rows of the supports of a chunk are filled up to, given those of the largest.
        chunk_entries: padded numbers of one chunk, about.
        gram_entries: of a task alone in its chunk, above which no Gram matrix is formed.
    """
    count = len(episodes)
    support_rows = episodes.support.reshape(count, -1).astype(np.int64)
    query_rows = np.where(episodes.mask, episodes.query, -1).reshape(count, -1).astype(np.int64)
    support_slot = np.broadcast_to(np.repeat(np.arange(episodes.way), episodes.shot), support_rows.shape)
    query_slot = np.broadcast_to(np.repeat(np.arange(episodes.way), episodes.queries), query_rows.shape)
    if list(views) == [operator]:
        supports = queries = _Fields([operator], weight, np.concatenate([support_rows, query_rows], axis=1))
        local = supports.local[:, : support_rows.shape[1]], supports.local[:, support_rows.shape[1] :]
    else:
        supports = _Fields([operator], weight, support_rows)
        queries = _Fields(views, weight, query_rows, np.tile(np.arange(episodes.queries), episodes.way))
        local = supports.local, queries.local
    s_shares, q_shares = supports.shares(local[0]), queries.shares(local[1])
    sizes, rows = (_sizes(s_shares), _sizes(q_shares)), episodes.way * episodes.queries
    for some in _by_size(*sizes, rows, weight.shape[1], chunk_entries):
        s_entries, s_columns = _pad(local[0][some], [s_shares[task] for task in some], width)
        q_entries, q_columns = _pad(local[1][some], [q_shares[task] for task in some])
        fields = [supports.arounds[0][columns[columns >= 0]] for columns in s_columns]
        s_gram, q_gram = (
            side.gram(columns, operator, fields, s_columns.shape[1], gram_entries)
            for side, columns in ((supports, s_columns), (queries, q_columns))
        )
        yield TaskChunk(
            some,
            supports.side(s_entries, s_columns, s_gram, support_slot[some], local[0][some]),
            queries.side(q_entries, q_columns, q_gram, query_slot[some], local[1][some]),
            fields,
        )


def _by_size(support: np.ndarray, query: np.ndarray, rows: int, width: int, limit: int) -> list[np.ndarray]:
    """Tasks in order of size, cut where padding the next one in would pass the limit."""
    order = np.argsort(support * query, kind="stable")
    chunks: list[list[int]] = [[]]
    for task in order:
        both = [*chunks[-1], int(task)]
        s, q = support[both].max(), query[both].max()
        if chunks[-1] and len(both) * (s + q) * (s + 2 * width + rows) > limit:
            chunks.append([int(task)])
        else:
            chunks[-1] = both
    return [np.sort(np.array(chunk)) for chunk in chunks]


Share = tuple[SparseRows, np.ndarray]
"""Rows of a task whose columns are numbered for it alone, and what these columns are."""


def _sizes(shares: Sequence[Share]) -> np.ndarray:
    """First-layer rows per task, at least 1."""
    return np.array([max(1, len(columns)) for _, columns in shares], dtype=np.int64)


def _pad(
    local: np.ndarray, shares: Sequence[Share], filled: Callable[[int], int] = int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The non-zeros of dense pools (t, r, m), as flat places and values, and which first-layer rows their columns are
    (t, m), -1 for padding."""
    width = filled(int(_sizes(shares).max()))
    columns = np.full((len(local), width), -1, dtype=np.int64)
    places = []
    for task, (rows, own) in enumerate(shares):
        row = np.repeat(np.flatnonzero(local[task] >= 0), np.diff(rows.indptr))
        places.append((task * local.shape[1] + row) * width + rows.indices)
        columns[task, : len(own)] = own
    return (np.concatenate(places), np.concatenate([rows.data for rows, _ in shares])), columns


class _Fields:
    """First-layer rows of every node that occurs in a batch, and each task's share of them."""

    def __init__(
        self, views: Sequence[Operator], weight: torch.Tensor, nodes: np.ndarray, column_view: np.ndarray | None = None
    ) -> None:
        self.views, self.weight, self.device = views, weight, weight.device
        self.local = np.full(nodes.shape, -1, dtype=np.int64)
        self.arounds: list[Any] = []
        pools: list[SparseRows] = []
        products: list[torch.Tensor] = []
        for number, view in enumerate(views):
            mine = nodes >= 0
            if column_view is not None:
                mine &= (column_view == number)[None, :]
            unique, place = np.unique(nodes[mine], return_inverse=True)
            pool, around = view.field(unique)
            self.local[mine] = place + sum(p.shape[0] for p in pools)
            pools.append(pool)
            self.arounds.append(around)
            products.append(view.first_layer(around, weight))
        self.offsets = np.concatenate([[0], np.cumsum([p.shape[1] for p in pools])])
        self.pool = _stack(pools, self.offsets)
        products.append(weight.new_zeros(1, weight.shape[1]))
        self.products = torch.cat(products)
        self._place = np.full(int(self.offsets[-1]) + 1, -1, dtype=np.int32)

    def shares(self, local: np.ndarray) -> list[Share]:
        """The rows of the pool that each task reads."""
        return [take_field(self.pool, rows[rows >= 0], self._place) for rows in local]

    def side(
        self, entries: tuple[np.ndarray, np.ndarray], columns: np.ndarray, gram: torch.Tensor | FeatureGram,
        slot: np.ndarray, local: np.ndarray,
    ) -> Side:  # fmt: skip
        def send(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, non_blocking=True)

        # F.embedding: the gradient of an index sums in an order that depends on the number of threads.
        first = F.embedding(send(columns % len(self.products)), self.products)
        pool = torch.zeros(*local.shape, columns.shape[1], device=self.device)
        pool.view(-1).index_copy_(0, *(send(part) for part in entries))
        return Side(first, gram, pool, send(slot), send(local >= 0))

    def gram(
        self, columns: np.ndarray, operator: DenseOperator, fields: Sequence[Any], width: int, most: int
    ) -> torch.Tensor | FeatureGram:
        """(t, m, width) inner products of first-layer inputs with those of the fields; padding is 0.

        One task with more than ``most`` of them gets a :class:`FeatureGram`.
        """
        if len(columns) == 1 and columns.shape[1] * width > most:
            basis = partial(operator.first_layer, fields[0])
            return FeatureGram(list(self._parts(columns[0])), basis, columns.shape[1], self.weight)
        held = operator.dense_inputs() if isinstance(operator, GraphOperator) and self.device.type == "cuda" else None
        if held is not None and list(self.views) == [operator]:
            return self._gram_of(held, columns, fields, width)
        out = torch.zeros(*columns.shape, width, device=self.device)
        for task, rows in enumerate(fields):
            inputs = operator.dense_rows(rows).T
            for first_layer, place in self._parts(columns[task]):
                with torch.no_grad():
                    out[task, place, : len(rows)] = first_layer(inputs)
        return out

    def _gram_of(
        self, inputs: torch.Tensor, columns: np.ndarray, fields: Sequence[Any], width: int, at_once: int = CHUNK_ENTRIES
    ) -> torch.Tensor:
        """The same for first-layer inputs that are held: some tasks at once instead of small products for each."""
        basis = np.full((len(columns), width), -1, dtype=np.int64)
        for task, rows in enumerate(fields):
            basis[task, : len(rows)] = rows
        nodes = np.append(self.arounds[0], -1)[columns]
        out = torch.empty(*columns.shape, width, device=self.device)
        step = max(1, at_once // ((columns.shape[1] + width) * inputs.shape[1]))
        for start in range(0, len(columns), step):
            parts = (torch.from_numpy(part[start : start + step]) for part in (nodes, basis))
            ids = [part.to(self.device, non_blocking=True) for part in parts]
            left, right = (inputs[one.clamp(min=0)] for one in ids)
            there = (ids[0] >= 0)[:, :, None] & (ids[1] >= 0)[:, None, :]
            out[start : start + step] = torch.bmm(left, right.transpose(1, 2)) * there
        return out

    def _parts(self, columns: np.ndarray) -> Iterator[tuple[FirstLayer, torch.Tensor]]:
        """One task's first-layer rows, view by view, and their places."""
        for number, view in enumerate(self.views):
            low, high = self.offsets[number], self.offsets[number + 1]
            place = np.flatnonzero((columns >= low) & (columns < high))
            if len(place):
                rows = self.arounds[number][columns[place] - low]
                yield partial(view.first_layer, rows), torch.from_numpy(place).to(self.device)


def _stack(pools: list[SparseRows], offsets: np.ndarray) -> SparseRows:
    """The pools below each other, the columns of each after those of the one before."""
    if len(pools) == 1:
        return pools[0]
    starts = np.concatenate([[0], np.cumsum([len(p.indices) for p in pools])])
    indptr = np.concatenate([[0], *(p.indptr[1:] + starts[i] for i, p in enumerate(pools))]).astype(np.int64)
    indices = np.concatenate([p.indices.astype(np.int64) + offsets[i] for i, p in enumerate(pools)])
    return SparseRows(
        indptr, indices, np.concatenate([p.data for p in pools]), (sum(p.shape[0] for p in pools), int(offsets[-1]))
    )
