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
from typing import Any

import numpy as np
from numba import njit

from naq.errors import OptionError
from naq.learners.node_draws import hash_word
from naq.nn.local import fill_ball
from naq.nn.rows import SparseRows
from naq.random import key

WORD = (1 << 64) - 1


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
    indptr: np.ndarray, indices: np.ndarray, queries: np.ndarray, *, limit: int = 0, codes: np.ndarray | None = None,
    seed: int = 0,
) -> QueryGraphs:  # fmt: skip
    """Build the query graphs of ``queries``, repeats allowed.

    Args:
        indptr, indices: neighbours without self-loops, at least those of all nodes within two hops of the queries.
        limit: most nodes of one query graph, 0 for no limit. Beyond it the query stays and the others are drawn.
        codes: :func:`~naq.learners.node_draws.node_codes` of all nodes; needed with a limit.
    """
    if codes is None:
        if limit:
            raise OptionError(f"limit is {limit}, but no codes of nodes are given; give node_codes(graph).")
        codes = np.zeros(0, dtype=np.uint64)
    salt, n = np.uint64(key(seed, "query graphs") & WORD), len(indptr) - 1
    centres = np.asarray(queries, dtype=np.int64)
    starts, members = _members(indptr, indices, centres, codes, salt, limit, n)
    rows, columns, values, weights, union = _entries(indptr, indices, starts, members, n)
    pairs = len(members)
    return QueryGraphs(
        union,
        SparseRows(rows, columns, values, (pairs, len(union))),
        SparseRows(starts, np.arange(pairs, dtype=np.int32), weights, (len(centres), pairs)),
    )


def balls_fit(indptr: np.ndarray, indices: np.ndarray, limit: int) -> bool:
    """Whether no node can have more than ``limit`` nodes within two hops."""
    degrees = np.diff(indptr)
    beyond = np.concatenate([[0], np.cumsum(degrees[indices])])
    return bool((1 + degrees + beyond[indptr[1:]] - beyond[indptr[:-1]]).max(initial=0) <= limit)


@njit(cache=True)
def _members(indptr: Any, indices: Any, centres: Any, codes: Any, salt: Any, limit: Any, n: Any) -> Any:
    """Nodes within two hops of each centre, the centre first, one ball after the other."""
    stamp, found = np.full(n, -1, dtype=np.int64), np.empty(n, dtype=np.int64)
    starts = np.zeros(len(centres) + 1, dtype=np.int64)
    members = np.empty(256 * len(centres) + 1, dtype=np.int64)
    for q in range(len(centres)):
        count = fill_ball(indptr, indices, centres[q], q, stamp, found)
        if 0 < limit < count:
            count = _draw(found[:count], codes, salt, limit)
        first, end = starts[q], starts[q] + count
        if end > len(members):
            larger = np.empty(2 * end, dtype=np.int64)
            larger[:first] = members[:first]
            members = larger
        members[first:end] = found[:count]
        starts[q + 1] = end
    return starts, members[: starts[-1]].copy()


@njit(cache=True)
def _draw(ball: Any, codes: Any, salt: Any, limit: Any) -> Any:
    """Move the centre and the ``limit`` - 1 others of smallest random key to the front."""
    if limit == 1:
        return 1
    own = hash_word(codes[ball[0]] ^ salt)
    keys = np.empty(len(ball) - 1, dtype=np.uint64)
    for position in range(len(keys)):
        keys[position] = hash_word(codes[ball[position + 1]] ^ own)
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
def _entries(indptr: Any, indices: Any, starts: Any, members: Any, n: Any) -> Any:
    """Rows of every A_s over the union of nodes, and the column sums of A_s divided by its size."""
    place = np.full(n, -1, dtype=np.int32)
    union = np.empty(len(members), dtype=np.int64)
    count, bound = 0, len(members)
    for position in range(len(members)):
        v = members[position]
        bound += indptr[v + 1] - indptr[v]
        if place[v] < 0:
            place[v] = count
            union[count] = v
            count += 1
    inside = np.zeros(n, dtype=np.uint8)
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
            start, share = end, 1.0 / (indptr[v + 1] - indptr[v] + 1.0)
            columns[end] = place[v]
            end += 1
            arriving = share
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if inside[u]:
                    columns[end] = place[u]
                    end += 1
                    arriving += 1.0 / (indptr[u + 1] - indptr[u] + 1.0)
            values[start:end] = share
            # Edges run both ways, so the column of v has its entries where the row has them.
            weights[starts[q] + position] = arriving / len(ball)
            out[starts[q] + position + 1] = end
        for v in ball:
            inside[v] = 0
    return out, columns[:end].copy(), values[:end].copy(), weights, union[:count].copy()
