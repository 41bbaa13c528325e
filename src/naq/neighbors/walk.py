"""The memory of a push, and its relaxations in compiled code.

A walk starts at one node, meets others over edges, and keeps a residual and an estimate for each. Its memory is either

- *dense*, up to ``SMALL`` nodes: a node is kept under its own number; the degrees stand there before any walk begins;
- *of the nodes met*: a node is kept under the number in which the walk has met it, and a hash table with open addressing finds that number. A row meets
  some ten thousand nodes however large the graph, so all that it reads again and again stays in the processor's cache; of a large graph only edges,
  and the degree of a node met for the first time, are fetched from far away.

Both relax the same nodes in the same order with the same numbers; ``table`` is None for a dense walk, and Numba compiles each form by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from naq_scale.prefetch import prefetch

SMALL = 1 << 18
"""Up to so many nodes a walk is dense: measured, both forms cost the same near 400,000 nodes."""
BITS = 17
"""A table has so many bits at least: 1 MB, of which a walk uses what it meets."""
LOOKED_AT = 16
"""Edges of a coming node whose ends are asked for ahead of time."""
NODE = np.dtype(
    [
        ("residual", np.float64),
        ("estimate", np.float64),
        ("degree", np.float32),
        ("state", np.int32),
        ("id", np.int32),
        ("place", np.uint32),
    ]
)
"""What a visit reads and writes, in one cache line; ``place`` is that in the table. States: 0 untouched, 1 touched, 2 in the next front."""
SPREAD, LOW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFFFFFF)
NONE, ONE, HALF, WORD = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(64)


def walks(indptr: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Memory of every thread for a walk forward and one back.

    It comes from NumPy, which asks the system for large pages: visits are far apart in it, and with small pages each would miss the processor's list of
    pages too. Of what belongs to nodes that are never met, the system provides nothing.

    Shapes:
        - nodes: (threads, 2, n), or n + 1 where nodes are kept as they are met: the last is never met and has no residual
        - lists: (threads, 4, n + 1): nodes touched of both walks, and two fronts
        - tables: (threads, 2, places + 2) or None; an entry holds a node + 1 below and its number above; the last two, the shift that makes a place of a
          hash at first and now
    """
    n = len(indptr) - 1
    lists = np.empty((threads, 4, n + 1), dtype=np.int32)
    if n <= SMALL:
        nodes = np.zeros((threads, 2, n), dtype=NODE)
        nodes["degree"] = np.diff(indptr)
        nodes["id"] = np.arange(n)
        return nodes, lists, None
    nodes = np.empty((threads, 2, n + 1), dtype=NODE)
    nodes[:, :, n] = 0
    tables = np.zeros((threads, 2, (1 << max(BITS, n.bit_length() + 1)) + 2), dtype=np.uint64)
    tables[:, :, -2:] = 64 - BITS
    return nodes, lists, tables


@njit(cache=True)
def own_table(tables: Any, which: Any) -> Any:
    """One of several tables, or None of none."""
    if tables is None:
        return None
    return tables[which]


@njit(cache=True)
def begin(indptr: Any, walk: Any, i: Any) -> None:
    """The walk has met node i, which has all of the residual."""
    nodes, touched, table = walk
    number = _first(indptr, nodes, table, np.uint64(i))
    nodes[number].residual = 1.0
    nodes[number].state = 1
    touched[0] = number


@njit(cache=True)
def _first(indptr: Any, nodes: Any, table: Any, v: Any) -> Any:
    if table is None:
        return v
    table[len(table) - 1] = table[len(table) - 2]
    _enter(indptr, nodes, table, v, (v * SPREAD) >> table[len(table) - 1], NONE)
    return NONE


@njit(cache=True, inline="always")
def _enter(indptr: Any, nodes: Any, table: Any, v: Any, place: Any, number: Any) -> None:
    table[place] = (number << HALF) | (v + ONE)
    node = nodes[number]
    node.residual = 0.0
    node.estimate = 0.0
    node.degree = np.float32(indptr[v + ONE] - indptr[v])
    node.state = 0
    node.id = np.int32(v)
    node.place = np.uint32(place)


@njit(cache=True)
def end(walk: Any, count: Any) -> None:
    """The walk has met nobody."""
    nodes, touched, table = walk
    if table is None:
        for position in range(count):
            node = nodes[touched[position]]
            node.residual = 0.0
            node.estimate = 0.0
            node.state = 0
    else:
        _clear(nodes, table, count)


@njit(cache=True)
def _clear(nodes: Any, table: Any, count: Any) -> None:
    if table is not None:
        for number in range(count):
            table[nodes[number].place] = NONE


@njit(cache=True)
def met(table: Any, nodes: Any, node: Any) -> Any:
    """The number of a node in its walk; of one without residual if the walk has not met it."""
    if table is None:
        return np.uint64(node)
    v, shift = np.uint64(node), table[len(table) - 1]
    place = (v * SPREAD) >> shift
    while table[place] != NONE:
        if (table[place] & LOW) == v + ONE:
            return table[place] >> HALF
        place = (place + ONE) & ((NONE - ONE) >> shift)
    return np.uint64(len(nodes) - 1)


@njit(cache=True)
def _shift(table: Any, nodes: Any, count: Any, most: Any) -> Any:
    """The shift of a table in which ``most`` nodes would take half of the places; it is doubled for that, and its ``count`` nodes are put in anew."""
    if table is None:
        return NONE
    last = len(table) - 1
    shift = table[last]
    while np.uint64(2 * most) > ONE << (WORD - shift) and ONE << (WORD - shift) < np.uint64(last - 1):
        _clear(nodes, table, count)
        shift -= ONE
        for number in range(count):
            v = np.uint64(nodes[number].id)
            place = (v * SPREAD) >> shift
            while table[place] != NONE:
                place = (place + ONE) & ((NONE - ONE) >> shift)
            table[place] = (np.uint64(number) << HALF) | (v + ONE)
            nodes[number].place = np.uint32(place)
        table[last] = shift
    return shift


@njit(cache=True)
def relax(
    indptr: Any, indices: Any, alpha: Any, omega: Any, bound: Any,
    nodes: Any, touched: Any, table: Any, front: Any, count: Any,
) -> Any:  # fmt: skip
    """Relax until every residual is within ``bound * degree``: how many nodes are touched, and the edge visits.

    The inner loop appends first and counts afterwards, and its node numbers are unsigned: few branches to mispredict. The table's part of it is written
    out: as a function it would count references at every visit.
    """
    length = 0
    for position in range(count):
        number = touched[position]
        if abs(nodes[number].residual) > bound * nodes[number].degree:
            front[0, length] = number
            nodes[number].state = 2
            length += 1
    now, last, visits = 0, np.uint64(count), 0
    while length > 0:
        new = np.uint64(0)
        for position in range(length):
            _look_ahead(table, indptr, indices, nodes, front, now, position, length)
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
            shift = _shift(table, nodes, np.int64(last), np.int64(last) + stop - start)
            mask = (NONE - ONE) >> shift
            for e in range(start, stop):
                v = np.uint64(indices[e])
                if table is None:
                    which = v
                else:
                    if e + LOOKED_AT < stop:
                        prefetch(indptr, indices[e + LOOKED_AT])
                    place = (v * SPREAD) >> shift
                    entry = table[place]
                    while entry != NONE and (entry & LOW) != v + ONE:
                        place = (place + ONE) & mask
                        entry = table[place]
                    which = entry >> HALF
                    if entry == NONE:
                        which = last
                        _enter(indptr, nodes, table, v, place, last)
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


@njit(cache=True, inline="always")
def _look_ahead(
    table: Any, indptr: Any, indices: Any, nodes: Any, front: Any, now: Any, position: Any, length: Any
) -> None:
    """Ask for what the next nodes of the front will read, which is far apart in memory: where their edges begin, the edges, their ends."""
    if position + 8 < length:
        prefetch(indptr, nodes[front[now, position + 8]].id)
    if position + 4 < length:
        prefetch(indices, indptr[nodes[front[now, position + 4]].id])
    if position + 2 < length:
        coming = nodes[front[now, position + 2]].id
        for e in range(indptr[coming], min(indptr[coming] + LOOKED_AT, indptr[coming + 1])):
            if table is None:
                prefetch(nodes, indices[e])
            else:
                prefetch(indptr, indices[e])
