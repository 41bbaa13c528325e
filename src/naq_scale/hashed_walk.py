"""The memory of a push on a large graph: a walk keeps the nodes it meets together, in the order in which it meets them.

A hash table with open addressing finds the place of a node. A row meets some ten thousand nodes however large the
graph, so all that it reads again and again stays in the processor's cache; of the graph only edges, and the degree of a
node met for the first time, are fetched from far away. What is compiled here is chosen by :mod:`naq.neighbors.walk`
where ``table`` is an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from naq.neighbors.walk import NODE, clear, first, number_of, queued, relax
from naq_scale.lanes import prefetch

LOOKED_AT = 16
"""Edges of a coming node whose ends are prefetched."""
BITS = 17
"""Least bits of a table: 1 MB, of which a walk uses what it meets."""
SPREAD, LOW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFFFFFF)
NONE, ONE, HALF, WORD = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(64)


def hashed_memory(n: int, threads: int, bits: int = BITS) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and tables of every thread for a walk forward and one back, from NumPy, which asks for large pages.

    Shapes:
        - nodes: (threads, 2, n + 1); the last is never met and has no residual
        - tables: (threads, 2, places + 2); an entry holds a node + 1 below and its number above; the last two, the
          shift that makes a place of a hash at first and now
    """
    nodes = np.empty((threads, 2, n + 1), dtype=NODE)
    nodes[:, :, n] = 0
    tables = np.zeros((threads, 2, (1 << max(bits, n.bit_length() + 1)) + 2), dtype=np.uint64)
    tables[:, :, -2:] = 64 - bits
    return nodes, tables


@overload(first)
def _first(indptr: Any, nodes: Any, table: Any, node: Any) -> Any:
    def first(indptr: Any, nodes: Any, table: Any, node: Any) -> Any:
        table[len(table) - 1] = table[len(table) - 2]
        _enter(indptr, nodes, table, node, (node * SPREAD) >> table[len(table) - 1], NONE)
        return NONE

    return first if isinstance(table, types.Array) else None


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


@overload(clear)
def _clear(nodes: Any, touched: Any, table: Any, count: Any) -> Any:
    def clear(nodes: Any, touched: Any, table: Any, count: Any) -> None:
        _empty(nodes, table, count)

    return clear if isinstance(table, types.Array) else None


@njit(cache=True)
def _empty(nodes: Any, table: Any, count: Any) -> None:
    for number in range(count):
        table[nodes[number].place] = NONE


@overload(number_of)
def _number_of(table: Any, nodes: Any, node: Any) -> Any:
    def number_of(table: Any, nodes: Any, node: Any) -> Any:
        v, shift = np.uint64(node), table[len(table) - 1]
        place = (v * SPREAD) >> shift
        while table[place] != NONE:
            if (table[place] & LOW) == v + ONE:
                return table[place] >> HALF
            place = (place + ONE) & ((NONE - ONE) >> shift)
        return np.uint64(len(nodes) - 1)

    return number_of if isinstance(table, types.Array) else None


@njit(cache=True)
def _shift(table: Any, nodes: Any, count: Any, most: Any) -> Any:
    """The shift of a table that ``most`` nodes half fill; it is doubled for that, with its ``count`` nodes."""
    last = len(table) - 1
    shift = table[last]
    while np.uint64(2 * most) > ONE << (WORD - shift) and ONE << (WORD - shift) < np.uint64(last - 1):
        _empty(nodes, table, count)
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


@overload(relax)
def _relax(
    indptr: Any, indices: Any, alpha: Any, omega: Any, bound: Any,
    nodes: Any, touched: Any, table: Any, front: Any, count: Any,
) -> Any:  # fmt: skip
    def relax(
        indptr: Any, indices: Any, alpha: Any, omega: Any, bound: Any,
        nodes: Any, touched: Any, table: Any, front: Any, count: Any,
    ) -> Any:  # fmt: skip
        # The table's part of the inner loop is written out: as a function it would count references at every visit.
        length = queued(bound, nodes, touched, front, count)
        now, last, visits = 0, np.uint64(count), 0
        while length > 0:
            new = np.uint64(0)
            for position in range(length):
                _look_ahead(indptr, indices, nodes, front, now, position, length)
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

    return relax if isinstance(table, types.Array) else None


@njit(cache=True, inline="always")
def _look_ahead(indptr: Any, indices: Any, nodes: Any, front: Any, now: Any, position: Any, length: Any) -> None:
    """Prefetch what the next nodes of the front read: where edges begin, the edges, where those of their ends do."""
    if position + 8 < length:
        prefetch(indptr, nodes[front[now, position + 8]].id)
    if position + 4 < length:
        prefetch(indices, indptr[nodes[front[now, position + 4]].id])
    if position + 2 < length:
        coming = nodes[front[now, position + 2]].id
        for e in range(indptr[coming], min(indptr[coming] + LOOKED_AT, indptr[coming + 1])):
            prefetch(indptr, indices[e])
