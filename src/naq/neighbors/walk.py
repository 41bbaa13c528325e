"""The memory of a push, and its relaxations in compiled code.

A walk starts at one node, meets others over edges, and keeps a residual and an estimate for each under the node's
number, or, on large graphs, under that of a hash table. Both relax the same nodes in the same order.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from naq.options import imported

_FIELDS = {"residual": "f8", "estimate": "f8", "degree": "f4", "state": "i4", "id": "i4", "place": "u4"}
NODE = np.dtype(list(_FIELDS.items()))
"""What a visit reads and writes, in one cache line; ``place`` is that in a hash table. States: 0 untouched, 1 touched,
2 in the next front."""


def walk_memory(
    indptr: np.ndarray, threads: int, dense_up_to: int = 1 << 18
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Memory of every thread for a walk forward and one back.

    Shapes:
        - nodes: (threads, 2, n); n + 1 with hash tables, where the last is never met
        - lists: (threads, 4, n + 1): nodes touched of both walks, and two fronts
    """
    n = len(indptr) - 1
    lists = np.empty((threads, 4, n + 1), dtype=np.int32)
    if n > dense_up_to:
        nodes, tables = imported("naq_scale.hashed_walk:hashed_memory")(n, threads)
        return nodes, lists, tables
    nodes = np.zeros((threads, 2, n), dtype=NODE)
    nodes["degree"] = np.diff(indptr)
    nodes["id"] = np.arange(n)
    return nodes, lists, None


@njit(cache=True)
def own_table(tables: Any, which: Any) -> Any:
    """One of several tables, or None of none."""
    if tables is None:
        return None
    return tables[which]


@njit(cache=True)
def start_walk(indptr: Any, walk: Any, i: Any) -> None:
    """The walk has met node i, which has all of the residual."""
    nodes, touched, table = walk
    number = first(indptr, nodes, table, np.uint64(i))
    nodes[number].residual = 1.0
    nodes[number].state = 1
    touched[0] = number


@njit(cache=True)
def reset_walk(walk: Any, count: Any) -> None:
    """The walk has met nobody."""
    nodes, touched, table = walk
    clear(nodes, touched, table, count)


def first(indptr: Any, nodes: Any, table: Any, node: Any) -> Any:
    """The number of the first node of a walk."""
    return node


def number_of(table: Any, nodes: Any, node: Any) -> Any:
    """The number of a node in its walk; of one without residual if the walk has not met it."""
    return np.uint64(node)


def clear(nodes: Any, touched: Any, table: Any, count: Any) -> None:
    """Forget ``count`` nodes of a walk."""
    for position in range(count):
        node = nodes[touched[position]]
        node.residual = 0.0
        node.estimate = 0.0
        node.state = 0


def relax(
    indptr: Any, indices: Any, alpha: Any, omega: Any, bound: Any,
    nodes: Any, touched: Any, table: Any, front: Any, count: Any,
) -> Any:  # fmt: skip
    """Relax until every residual is within ``bound * degree``: how many nodes are touched, and the edge visits."""
    # The inner loop appends first and counts afterwards, with unsigned numbers: few branches to mispredict.
    length = queued(bound, nodes, touched, front, count)
    now, last, visits = 0, np.uint64(count), 0
    while length > 0:
        new = np.uint64(0)
        for position in range(length):
            number = front[now, position]
            own = nodes[number]
            own.state = 1
            rest = own.residual
            if abs(rest) <= bound * own.degree:
                continue
            moved = omega * rest
            own.residual = rest - moved
            own.estimate += alpha * moved
            start, stop = indptr[own.id], indptr[own.id + 1]
            visits += stop - start
            share = (1.0 - alpha) * moved / own.degree
            for e in range(start, stop):
                which = np.uint64(indices[e])
                node = nodes[which]
                value = node.residual + share
                node.residual = value
                state = node.state
                touched[last] = which
                last += np.uint64(state == 0)
                enters = (abs(value) > bound * node.degree) & (state != 2)
                front[1 - now, new] = which
                new += np.uint64(enters)
                node.state = np.int32(2) if enters else max(state, np.int32(1))
            if own.state == 1 and abs(own.residual) > bound * own.degree:
                front[1 - now, new] = number
                new += np.uint64(1)
                own.state = 2
        length, now = int(new), 1 - now
    return np.int64(last), visits


for _function in (first, number_of, clear, relax):
    # For a walk without a hash table; naq_scale.hashed_walk adds what compiled code calls for one with a table.
    _place = list(inspect.signature(_function).parameters).index("table")
    overload(_function, strict=False)(
        lambda *of, f=_function, p=_place: f if isinstance(of[p], types.NoneType) else None
    )


@njit(cache=True)
def queued(bound: Any, nodes: Any, touched: Any, front: Any, count: Any) -> Any:
    """How many of the nodes touched have a residual above their bound; they are the first front."""
    length = 0
    for position in range(count):
        number = touched[position]
        if abs(nodes[number].residual) > bound * nodes[number].degree:
            front[0, length] = number
            nodes[number].state = 2
            length += 1
    return length
