r"""The 2-hop graphs around queries as one block-sparse batch.

A query graph holds the nodes s within two hops of its query, the query among them, and the entries of
:math:`A_r = \tilde D^{-1} (A + I)` between them; degrees are those of the whole graph, so nothing is normalised again. A batch of
them is two sparse matrices: one row per (query graph, node) with the entries of :math:`A_s`, its columns numbering the nodes of all
graphs together, and one row per query graph with :math:`1^\top A_s / |s|`, which is all that the mean over a last linear layer needs.

Cost: one visit of every neighbour of every node of every query graph, and a bit for every query and node of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from naq.encoders.rows import SparseRows, take_rows
from naq.errors import OptionError
from naq.graph import Graph
from naq.hashing import mixed
from naq.learners.node_draws import GOLDEN
from naq.randomness import key

WORD = (1 << 64) - 1


class Neighbors(Protocol):
    """A view of a graph that lists the neighbours it keeps, without self-loops."""

    def adjacency_rows(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class LocalGraph:
    """Neighbour lists that hold the two hops around some nodes: the whole graph, or what a view keeps of it.

    Shapes:
        - ``adjacency`` (m, m): ones between local numbers, without self-loops, each edge in both directions
        - ``degrees`` (m,): neighbours in the whole view, also those beyond the m nodes
        - ``ids`` (m,): node ids in increasing order; None where they are 0..m-1
    """

    adjacency: sp.csr_array
    degrees: np.ndarray
    ids: np.ndarray | None = None

    @classmethod
    def whole(cls, graph: Graph) -> LocalGraph:
        """All of a graph."""
        return cls(graph.adjacency, graph.degrees)

    @classmethod
    def around(cls, view: Neighbors, queries: np.ndarray) -> LocalGraph:
        """What ``view`` keeps within two hops of ``queries``."""
        ids = np.unique(queries).astype(np.int64)
        for _ in range(2):
            ids = np.union1d(ids, view.adjacency_rows(ids)[1]).astype(np.int64)
        indptr, indices = view.adjacency_rows(ids)
        place = np.minimum(np.searchsorted(ids, indices), max(0, len(ids) - 1))
        inside = ids[place] == indices if len(ids) else np.zeros(0, dtype=bool)
        kept = np.concatenate([[0], np.cumsum(inside)])[indptr]
        ones = np.ones(kept[-1], dtype=np.float32)
        adjacency = sp.csr_array((ones, place[inside], kept), shape=(len(ids), len(ids)))
        return cls(adjacency, np.diff(indptr).astype(np.int64), ids)

    def local(self, nodes: np.ndarray) -> np.ndarray:
        """Local numbers of node ids."""
        return nodes.astype(np.int64) if self.ids is None else np.searchsorted(self.ids, nodes)

    def balls_fit(self, limit: int) -> bool:
        """Whether no node can have more than ``limit`` nodes within two hops."""
        if not len(self.degrees):
            return True
        return bool((1 + self.degrees + self.adjacency @ self.degrees.astype(np.float64)).max() <= limit)


@dataclass(frozen=True)
class QueryGraphs:
    """A batch of query graphs.

    Shapes:
        - ``nodes`` (u,): the nodes of all graphs, each once
        - ``rows`` (pairs, u): the row of node v in its graph's A_s, graph after graph, the query first
        - ``pool`` (queries, pairs): the sum over the rows of A_s divided by their number, block-diagonal
    """

    nodes: np.ndarray
    rows: SparseRows
    pool: SparseRows

    @property
    def sizes(self) -> np.ndarray:
        """Nodes of each query graph."""
        return np.diff(self.pool.indptr)


def query_graphs(
    graph: LocalGraph, queries: np.ndarray, *, limit: int = 0, codes: np.ndarray | None = None, seed: int = 0
) -> QueryGraphs:
    """Build the query graphs of ``queries``, repeats allowed.

    Args:
        graph: must reach two hops beyond every query.
        limit: most nodes of one query graph, 0 for no limit. Beyond it the query stays and the others are drawn without replacement.
        codes: :func:`~naq.learners.node_draws.node_codes` of all nodes of the graph the ids refer to; needed with a limit.
        seed: of the draw, which depends on it and on the codes of query and node only: not on ids, not on when it is made.
    """
    centres = graph.local(np.asarray(queries))
    if codes is None and limit:
        raise OptionError(f"limit is {limit}, but no codes of nodes are given; give node_codes(graph).")
    if codes is not None and graph.ids is not None:
        codes = codes[graph.ids]
    owner, members = _balls(graph.adjacency, centres)
    keys = (members != centres[owner]).astype(np.uint64)
    if limit and codes is not None:
        salt = np.uint64(key(seed, "query graphs") & WORD)
        own = mixed((codes[centres] ^ salt) + GOLDEN)
        keys *= mixed((codes[members] ^ own[owner]) + GOLDEN)
    order = np.lexsort((keys, owner))
    owner, members = owner[order], members[order]
    if limit:
        kept = np.arange(len(owner)) - np.searchsorted(owner, owner) < limit
        owner, members = owner[kept], members[kept]
    return _batch(graph, owner, members, len(centres))


def _balls(adjacency: sp.csr_array, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a centre's number and a node within two hops of it, itself included; in order."""
    shape = len(centres), adjacency.shape[0]
    own = sp.csr_array((np.ones(len(centres), dtype=np.float32), centres, np.arange(len(centres) + 1)), shape=shape)
    near = own + own @ adjacency
    ball = sp.csr_array(near + near @ adjacency)
    ball.sort_indices()
    return np.repeat(np.arange(len(centres)), np.diff(ball.indptr)), ball.indices.astype(np.int64)


def _batch(graph: LocalGraph, owner: np.ndarray, members: np.ndarray, count: int) -> QueryGraphs:
    """The batch of ``count`` graphs, given all pairs of a graph's number and a node of it."""
    pairs, nodes = len(members), len(graph.degrees)
    inside = np.zeros((count, nodes), dtype=bool)
    inside[owner, members] = True
    around = take_rows(graph.adjacency, members)
    pair, neighbor = np.repeat(np.arange(pairs), np.diff(around.indptr)), around.indices
    both = inside[owner[pair], neighbor]
    pair, neighbor = pair[both], neighbor[both]
    union = np.unique(members)
    place = np.zeros(nodes, dtype=np.int32)
    place[union] = np.arange(len(union))
    share, sizes = 1.0 / (graph.degrees + 1.0), np.bincount(owner, minlength=count)
    # Edges run both ways, so the column of a node has its entries where the row has them.
    arriving = share[members] + np.bincount(pair, share[neighbor], minlength=pairs)
    ends = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=pairs))])
    columns = np.insert(place[neighbor], ends[:-1], place[members])
    indptr = ends + np.arange(pairs + 1)
    values = np.repeat(share[members].astype(np.float32), np.diff(indptr))
    weights = (arriving / sizes[owner]).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return QueryGraphs(
        union if graph.ids is None else graph.ids[union],
        SparseRows(indptr, columns, values, (pairs, len(union))),
        SparseRows(starts, np.arange(pairs, dtype=np.int32), weights, (count, pairs)),
    )
