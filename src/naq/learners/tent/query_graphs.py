r"""The 2-hop graphs around queries as one block-sparse batch, in compiled code.

A query graph holds the nodes s within two hops of its query, the query among them, and the entries of
:math:`A_r = \tilde D^{-1} (A + I)` between them; degrees are those of the whole graph, so nothing is normalised again.
A batch of them is two sparse matrices: one row per (query graph, node) with the entries of :math:`A_s`, its columns
numbering the nodes of all graphs together, and one row per query graph with :math:`1^\top A_s / |s|`, which is all that
the mean over a last linear layer needs.

Cost: one visit of every neighbour of every node of every query graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import njit

from naq.errors import OptionError
from naq.graph import Graph
from naq.learners.node_draws import hashed
from naq.nn.rows import SparseRows
from naq.random import key

WORD = (1 << 64) - 1


class Neighbors(Protocol):
    """A view of a graph that lists the neighbours it keeps, without self-loops."""

    def adjacency_rows(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class LocalGraph:
    """Neighbour lists that hold the two hops around some nodes: the whole graph, or what a view keeps of it.

    Shapes:
        - ``indptr`` (m + 1,), ``indices``: neighbours by local number, without self-loops, each edge in both directions
        - ``degrees`` (m,): neighbours in the whole view, also those beyond the m nodes
        - ``ids`` (m,): node ids in increasing order; None where they are 0..m-1
    """

    indptr: np.ndarray
    indices: np.ndarray
    degrees: np.ndarray
    ids: np.ndarray | None = None

    @classmethod
    def whole(cls, graph: Graph) -> LocalGraph:
        """All of a graph."""
        return cls(graph.adjacency.indptr, graph.adjacency.indices, graph.degrees)

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
        return cls(kept, place[inside], np.diff(indptr).astype(np.int64), ids)

    def local(self, nodes: np.ndarray) -> np.ndarray:
        """Local numbers of node ids."""
        return nodes.astype(np.int64) if self.ids is None else np.searchsorted(self.ids, nodes)

    def balls_fit(self, limit: int) -> bool:
        """Whether no node can have more than ``limit`` nodes within two hops."""
        if not len(self.degrees):
            return True
        beyond = np.concatenate([[0], np.cumsum(self.degrees[self.indices])])
        return bool((1 + self.degrees + beyond[self.indptr[1:]] - beyond[self.indptr[:-1]]).max() <= limit)


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


def query_graphs(
    graph: LocalGraph, queries: np.ndarray, *, limit: int = 0, codes: np.ndarray | None = None, seed: int = 0
) -> QueryGraphs:
    """Build the query graphs of ``queries``, repeats allowed.

    Args:
        graph: must reach two hops beyond every query.
        limit: most nodes of one query graph, 0 for no limit. Beyond it the query stays and the others are drawn.
        codes: :func:`~naq.learners.node_draws.node_codes` of all nodes of the whole graph; needed with a limit.
    """
    centres = graph.local(np.asarray(queries))
    nodes = len(graph.degrees)
    if codes is None:
        if limit:
            raise OptionError(f"limit is {limit}, but no codes of nodes are given; give node_codes(graph).")
        codes = np.zeros(0, dtype=np.uint64)
    elif graph.ids is not None:
        codes = codes[graph.ids]
    salt = np.uint64(key(seed, "query graphs") & WORD)
    starts, members = _members(
        graph.indptr, graph.indices, centres, codes, salt, limit, np.zeros(nodes, dtype=np.uint8)
    )
    indptr, columns, values, weights, union = _entries(
        graph.indptr, graph.indices, graph.degrees, starts, members, np.full(nodes, -1, dtype=np.int32)
    )
    pairs = len(members)
    return QueryGraphs(
        union if graph.ids is None else graph.ids[union],
        SparseRows(indptr, columns, values, (pairs, len(union))),
        SparseRows(starts, np.arange(pairs, dtype=np.int32), weights, (len(centres), pairs)),
    )


@njit(cache=True)
def _members(indptr: Any, indices: Any, centres: Any, codes: Any, salt: Any, limit: Any, seen: Any) -> Any:
    """Nodes within two hops of each centre, the centre first, one ball after the other; ``seen`` is restored on
    return."""
    starts = np.zeros(len(centres) + 1, dtype=np.int64)
    members = np.empty(256 * len(centres) + 1, dtype=np.int64)
    count = 0
    for q in range(len(centres)):
        first = count
        members = _with_room(members, count + 1)
        members[count] = centres[q]
        seen[centres[q]] = 1
        count += 1
        begin = first
        for _ in range(2):
            end = count
            for position in range(begin, end):
                u = members[position]
                members = _with_room(members, count + indptr[u + 1] - indptr[u])
                for e in range(indptr[u], indptr[u + 1]):
                    v = indices[e]
                    if seen[v] == 0:
                        seen[v] = 1
                        members[count] = v
                        count += 1
            begin = end
        for position in range(first, count):
            seen[members[position]] = 0
        if 0 < limit < count - first:
            count = first + _draw(members[first:count], codes, salt, limit)
        starts[q + 1] = count
    return starts, members[:count].copy()


@njit(cache=True)
def _with_room(array: Any, size: Any) -> Any:
    if size <= len(array):
        return array
    larger = np.empty(2 * size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@njit(cache=True)
def _draw(ball: Any, codes: Any, salt: Any, limit: Any) -> Any:
    """Move the centre and the ``limit`` - 1 others of smallest random key to the front."""
    if limit == 1:
        return 1
    own = hashed(codes[ball[0]] ^ salt)
    keys = np.empty(len(ball) - 1, dtype=np.uint64)
    for position in range(len(keys)):
        keys[position] = hashed(codes[ball[position + 1]] ^ own)
    bar = np.partition(keys, limit - 2)[limit - 2]
    ties = limit - 1 - (keys < bar).sum()
    kept = 1
    for position in range(len(keys)):
        if keys[position] < bar or (keys[position] == bar and ties > 0):
            ties -= keys[position] == bar
            ball[kept] = ball[position + 1]
            kept += 1
    return kept


@njit(cache=True)
def _entries(indptr: Any, indices: Any, degrees: Any, starts: Any, members: Any, place: Any) -> Any:
    """Rows of every A_s over the union of nodes, and the column sums of A_s divided by its size."""
    union = np.empty(len(members), dtype=np.int64)
    count, bound = 0, len(members)
    for position in range(len(members)):
        v = members[position]
        bound += indptr[v + 1] - indptr[v]
        if place[v] < 0:
            place[v] = count
            union[count] = v
            count += 1
    inside = np.zeros(len(place), dtype=np.uint8)
    out = np.zeros(len(members) + 1, dtype=np.int64)
    columns = np.empty(bound, dtype=np.int32)
    values = np.empty(bound, dtype=np.float32)
    weights = np.empty(len(members), dtype=np.float32)
    end = 0
    for q in range(len(starts) - 1):
        ball = members[starts[q] : starts[q + 1]]
        for v in ball:
            inside[v] = 1
        for position in range(len(ball)):
            v = ball[position]
            start, share = end, 1.0 / (degrees[v] + 1.0)
            columns[end] = place[v]
            end += 1
            arriving = share
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if inside[u]:
                    columns[end] = place[u]
                    end += 1
                    arriving += 1.0 / (degrees[u] + 1.0)
            values[start:end] = share
            # Edges run both ways, so the column of v has its entries where the row has them.
            weights[starts[q] + position] = arriving / len(ball)
            out[starts[q] + position + 1] = end
        for v in ball:
            inside[v] = 0
    return out, columns[:end].copy(), values[:end].copy(), weights, union[:count].copy()
