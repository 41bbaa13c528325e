r"""The graphs of tasks, without and with learned edges.

The graph of a task holds the two-hop closed neighbourhood V of the task's nodes. With
:math:`A = \tilde D^{-1} (A + I)`, :math:`A_V` its rows and columns in V, not normalised again, and projections p, r:

.. math::
    W = \mathrm{rownorm}\left(A_V + \tfrac12\, \mathrm{kept}(a)\right), \qquad a_{ij} = \exp(-|p_i - r_j|)

The nearest k entries of every row of a are kept (:func:`nearest_entries`); rows are worked on in blocks, so nothing as
large as the task graph squared is ever held. Without learned edges a row of W within one hop of the task's nodes is the
row of A itself, so V need not be formed.

Of both kinds, ``inner`` turns the first layer's products ``support`` into what the second weight is applied to at the
supports; ``outer`` gives the same at supports and queries once the inner loop is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from naq.graph import Graph
from naq.learners.meta_batch import FeatureGram, FirstProducts, TaskChunk
from naq.nn import GraphOperator
from naq.random import stream

Draw = Callable[[torch.Tensor], torch.Tensor]
"""Rows of dropout factors by their numbers."""
ROWS = 65_536
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
    """A graph with the edges :math:`A = \\tilde D^{-1} (A + I)`, features scaled by ``minmax`` or ``none``, and a
    column of ones for the bias."""

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
        blocks = [features[at : at + ROWS] for at in range(0, self.graph.num_nodes, ROWS)]
        own = np.concatenate([block.astype(np.float64) @ direction for block in blocks])
        order = np.lexsort((np.round(self.adjacency @ own, 6), self.graph.degrees, own))
        return torch.from_numpy(np.argsort(order)).to(self.device)

    def positions(self, nodes: np.ndarray | torch.Tensor) -> torch.Tensor:
        """The place of each node among the given ones, by ``rank``."""
        return self.rank[nodes].argsort().argsort()


class PlainTasks:
    """Several tasks without learned edges.

    Shapes:
        - ``inner``, ``outer``: -> (tasks, supports, or supports and queries, h)
    """

    def __init__(self, space: RowOperator, chunk: TaskChunk) -> None:
        self.tasks, self.support, self._query = chunk.tasks, chunk.support, chunk.query
        places = [space.positions(torch.from_numpy(field).to(space.device)) for field in chunk.fields]
        self._places = torch.nn.utils.rnn.pad_sequence(places, batch_first=True)

    def inner(self, first: torch.Tensor, draw: Draw | None) -> tuple[torch.Tensor, None]:
        """W H at the supports, H with dropout if drawn; no weight changes what queries receive, so that is left out."""
        hidden = torch.relu(first)
        return torch.bmm(self.support.pool, hidden if draw is None else hidden * draw(self._places)), None

    def outer(self, shift: torch.Tensor) -> torch.Tensor:
        """W H at the supports, then at the queries."""
        sides = self.support, self._query
        return torch.cat([torch.bmm(side.pool, torch.relu(side.moved(shift))) for side in sides], dim=1)


class LearnedTask:
    """One task whose graph has learned edges: of each row the ``k`` nearest nodes of V, and ties with the k-th.

    The features give three products per node: the encoder's and the two projections p and r, columns of one weight.
    What is read is formed: rows of W for the task's nodes, for their neighbours in W, and, for the influence, for
    those nodes beyond that have an edge to a support.

    Args:
        space: the graph.
        task: its number.
        support: (way, shot) nodes.
        query: (queries,) nodes, -1 if missing; such a query reads as the first support.
        weight: (d + 1, 3 h) the first weight.
        k: entries kept per row.

    Shapes:
        - ``inner``: (1, V, 3 h) -> (1, supports, h) and what each query receives of each class, (queries, way)
        - ``outer``: -> (1, supports and queries, h)
    """

    def __init__(
        self, space: RowOperator, task: int, support: np.ndarray, query: np.ndarray, weight: torch.Tensor, k: int
    ) -> None:
        self.space, self.tasks, (self.way, shot) = space, np.array([task]), support.shape
        support, kept = support.ravel(), query >= 0
        own = np.unique(np.concatenate([support, query[kept]]))
        wide = space.around(space.around(own))
        nodes = np.concatenate([own, wide[~np.isin(wide, own)]])
        self.k = min(k, len(nodes))
        send = lambda array: torch.from_numpy(array).to(space.device)  # noqa: E731
        inputs = partial(space.inputs, nodes)
        everywhere = FeatureGram([(inputs, slice(None))], inputs, len(nodes), weight)
        self.support = FirstProducts(inputs(weight)[None], everywhere)
        self.nodes, self._own = send(nodes), torch.arange(len(own), device=space.device)
        edges = space.adjacency[nodes][:, nodes].tocoo()
        self._row, self._column = (send(place.astype(np.int64)) for place in (edges.row, edges.col))
        self._value = send(edges.data)
        self._supports = send(np.searchsorted(own, support))
        asked = send(np.searchsorted(own, np.where(kept, query, support[0])))
        self._asked, self._listed = asked[send(kept)], torch.cat([self._supports, asked])
        self._slots = torch.arange(self.way, device=space.device).repeat_interleave(shot)

    def inner(self, first: torch.Tensor, draw: Draw | None) -> tuple[torch.Tensor, torch.Tensor]:
        """W H at the supports, H with dropout if drawn; and what each query receives of each class."""
        vectors, weights = self._read(first[0], draw)
        return vectors[:, : len(self._supports)], self._influence(*weights)

    def outer(self, shift: torch.Tensor) -> torch.Tensor:
        """W H at the supports, then at the queries."""
        return self._read(self.support.moved(shift)[0], None)[0]

    def _read(
        self, first: torch.Tensor, draw: Draw | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor, Weights, Weights]]:
        """W H at supports and queries, and what the influence is made of: p, r, rows of W for the task's nodes and for
        those these lead to."""
        encoded, *projections = first.chunk(3, dim=1)
        p, r = (F.normalize(torch.relu(part), dim=1) for part in projections)
        near = self._weights(p, r, self._own)
        next_ = self._weights(p, r, near.column.unique())
        hidden = torch.relu(next_ @ encoded)
        if draw is not None:
            hidden = hidden * draw(self.space.positions(self.nodes[next_.rows]))
        vectors = (near @ self._spread(hidden, next_.rows)).index_select(0, self._listed)[None]
        return vectors, (p, r, near, next_)

    def _weights(self, p: torch.Tensor, r: torch.Tensor, rows: torch.Tensor) -> Weights:
        """Rows of W, with a gradient for the kept entries."""
        place = torch.full_like(self.nodes, -1)
        place[rows] = torch.arange(len(rows), device=rows.device)
        given = (place[self._row] >= 0).nonzero()[:, 0]
        owner, column = nearest_entries(p.detach()[rows], r.detach(), self.k)
        start, end = p.index_select(0, rows[owner]), r.index_select(0, column)
        learned = 0.5 * torch.exp(-torch.linalg.vector_norm(start - end, dim=1))
        row = torch.cat([place[self._row[given]], owner])
        values = torch.cat([self._value[given], learned])
        total = values.new_zeros(len(rows)).index_add(0, row, values)
        return Weights(rows, row, torch.cat([self._column[given], column]), values / total.index_select(0, row))

    def _spread(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Rows put at their place among all nodes of V, zeros elsewhere."""
        return values.new_zeros(len(self.nodes), values.shape[1]).index_copy(0, rows, values)

    def _influence(self, p: torch.Tensor, r: torch.Tensor, near: Weights, next_: Weights) -> torch.Tensor:
        """M B + M M B at the queries, summed over the supports of a class.

        M are the weights among nodes that are not supports, B those from such nodes to supports. A query that is a
        support too is read as any other: by the nodes its own row leads to that are not supports.
        """
        slots = torch.zeros(len(self.nodes), self.way, device=p.device)
        slots.index_put_((self._supports, self._slots), slots.new_ones(1), accumulate=True)
        rest = (slots.sum(dim=1, keepdim=True) == 0).to(p.dtype)
        direct = self._spread(next_ @ slots, next_.rows)
        further = torch.zeros_like(self.nodes, dtype=torch.bool)
        further[next_.column] = True
        further[next_.rows] = False
        beyond = further.nonzero()[:, 0]
        beyond = beyond[reaching(p.detach()[beyond], r.detach(), self._supports, self.k)]
        if len(beyond):
            direct = direct + self._spread(self._weights(p, r, beyond) @ slots, beyond)
        direct = rest * direct
        through = direct + rest * self._spread(next_ @ direct, next_.rows)
        return (near @ through).index_select(0, self._asked)


@dataclass(frozen=True)
class Weights:
    """Some rows of W by entry; where an edge is both given and learned it has two entries."""

    rows: torch.Tensor
    row: torch.Tensor
    column: torch.Tensor
    values: torch.Tensor

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        """The product with one row per node of V, differentiable in both."""
        taken = self.values[:, None] * dense.index_select(0, self.column)
        return taken.new_zeros(len(self.rows), dense.shape[1]).index_add(0, self.row, taken)


TIE = 1e-6
"""Squared distances closer than this are equal: nodes with the same features tie on every device and in every order."""
TIE_ROOM = 4
"""A row keeps at most this many times k entries. Where more tie with the k-th, the projections cannot tell these nodes
apart, and only the strictly nearer ones are kept: no tie is ever broken by the numbers of nodes."""
BLOCK = 1 << 22
"""Distances computed at once."""
PIECE = 512
"""Distances of each row computed before looking whether enough of them are smaller."""


def nearest_entries(p: torch.Tensor, r: torch.Tensor, k: int, block: int = BLOCK) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row of ``p`` the rows of ``r`` at most as far as the k-th nearest: pairs of rows, by row of ``p``."""
    room, step, pairs = TIE_ROOM * k, max(1, block // len(r)), []
    for start in range(0, len(p), step):
        distance, column = _distances(p[start : start + step], r).topk(min(room + 1, len(r)), largest=False)
        last = distance[:, k - 1 : k]
        kept = distance <= last + TIE
        kept = torch.where(kept.sum(dim=1, keepdim=True) <= room, kept, distance < last - TIE)
        row, place = kept.nonzero(as_tuple=True)
        pairs.append(torch.stack([row + start, column[row, place]]))
    owner, found = torch.cat(pairs, dim=1)
    return owner, found


def reaching(p: torch.Tensor, r: torch.Tensor, targets: torch.Tensor, k: int) -> torch.Tensor:
    """Rows of ``p`` that may keep one of the targets; a row is left once k others are surely nearer."""
    limit = _distances(p, r[targets]).amin(dim=1, keepdim=True) - 3 * TIE
    rows = torch.arange(len(p), device=p.device)
    nearer = torch.zeros_like(rows)
    for piece in r.split(PIECE):
        nearer = nearer + (_distances(p[rows], piece) < limit[rows]).sum(dim=1)
        rows, nearer = rows[nearer < k], nearer[nearer < k]
    return rows


def _distances(p: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """Squared distances, less the square of the row of ``p``."""
    return torch.addmm(r.square().sum(dim=1), p, r.T, alpha=-2)
