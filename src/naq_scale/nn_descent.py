"""Neighbours of neighbours: lists of near rows become better (NN-descent, Dong et al., WWW 2011).

A pass offers every row the neighbours of its neighbours and of the rows that list it, where at least one of the two
steps is new since the pass before. It reads the lists of the pass before and writes new ones, so the result depends
neither on the order of rows nor on the number of threads. Cost: O(n fan^2 d) for the first pass at most; memory: two
times the lists, and fan numbers per row.

Compiled code is written once for three kinds of rows. A row is entered, scored against others, and left; ``held`` (of
:func:`row_memory`) keeps what is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from naq.neighbors.feature_exact import metric_score
from naq.neighbors.topk import Lists, heap_offer, heap_sort
from naq_scale.lanes import prefetch


class VectorRows(NamedTuple):
    """(n, d) float32, and (n,) float32: half the squared length where a distance is meant, else 0."""

    rows: Any
    offset: Any


class WordRows(NamedTuple):
    """The arrays of a CSR matrix, its columns, (n,) float64 squared lengths, and the metric's place in ``METRICS``."""

    indptr: Any
    indices: Any
    data: Any
    columns: Any
    size: Any
    metric: Any


class NumberRows(NamedTuple):
    """(n, d) dense, (n,) float64 squared lengths, and the metric's place in ``METRICS``."""

    rows: Any
    size: Any
    metric: Any


def row_memory(rows: Any) -> Any:
    """Memory for the row that is entered."""


def enter_row(rows: Any, row: Any, held: Any) -> None:
    """Begin with a row."""


def leave_row(rows: Any, row: Any, held: Any) -> None:
    """Be done with it: ``held`` is as it was."""


def pair_score(rows: Any, row: Any, other: Any, held: Any) -> Any:
    """float32 score of the row that was entered and another, larger is nearer; the same whichever is entered."""


def prefetch_row(rows: Any, other: Any) -> None:
    """Start to load a row into the cache."""


@njit(cache=True, fastmath={"reassoc", "contract"})
def product(one: Any, two: Any) -> Any:
    """The product of two rows, in an order that only their length decides."""
    total = np.float32(0)
    for c in range(len(one)):
        total += one[c] * two[c]
    return total


def _for(kind: type, rows: Any) -> bool:
    return isinstance(rows, types.NamedTuple) and rows.instance_class is kind


@overload(row_memory, strict=False)
def _row_memory(rows: Any) -> Callable[..., Any]:
    if _for(WordRows, rows):
        return lambda rows: np.zeros(rows.columns, dtype=np.float32)
    return lambda rows: np.zeros(0, dtype=np.float32)


@overload(enter_row, strict=False)
def _enter(rows: Any, row: Any, held: Any) -> Callable[..., Any]:
    if not _for(WordRows, rows):
        return lambda rows, row, held: None

    def enter_words(rows: Any, row: Any, held: Any) -> None:
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            held[rows.indices[e]] = rows.data[e]

    return enter_words


@overload(leave_row, strict=False)
def _leave(rows: Any, row: Any, held: Any) -> Callable[..., Any]:
    if not _for(WordRows, rows):
        return lambda rows, row, held: None

    def leave_words(rows: Any, row: Any, held: Any) -> None:
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            held[rows.indices[e]] = 0.0

    return leave_words


@overload(pair_score, strict=False)
def _score(rows: Any, row: Any, other: Any, held: Any) -> Callable[..., Any]:
    if _for(VectorRows, rows):
        return lambda rows, row, other, held: product(rows.rows[row], rows.rows[other]) - rows.offset[other]

    def score_numbers(rows: Any, row: Any, other: Any, held: Any) -> Any:
        one, two, dot = rows.rows[row], rows.rows[other], 0.0
        for c in range(len(one)):
            dot += np.float64(one[c]) * np.float64(two[c])
        return metric_score(rows.metric, dot, rows.size[row], rows.size[other])

    def score_words(rows: Any, row: Any, other: Any, held: Any) -> Any:
        dot = 0.0
        # Unsigned: an index that cannot be negative is not checked.
        for e in range(np.uint64(rows.indptr[other]), np.uint64(rows.indptr[other + 1])):
            dot += np.float64(held[np.uint32(rows.indices[e])]) * np.float64(rows.data[e])
        return metric_score(rows.metric, dot, rows.size[row], rows.size[other])

    return score_words if _for(WordRows, rows) else score_numbers


@overload(prefetch_row, strict=False)
def _prefetch_row(rows: Any, other: Any) -> Callable[..., Any]:
    if not _for(WordRows, rows):  # measured: dense rows are not found faster
        return lambda rows, other: None

    def fetch_words(rows: Any, other: Any) -> None:
        # The pointers of a row may not be in the cache themselves; near rows have near numbers, so they mostly are.
        for e in range(rows.indptr[other], rows.indptr[other + 1], 16):
            prefetch(rows.indices, e)
            prefetch(rows.data, e)

    return fetch_words


FAN = 20
BLOCK = 1 << 16
"""Rows between two chances to stop."""
PARTS = 64
"""Parts of a block, each with separate memory."""


def descend(
    rows: VectorRows | WordRows | NumberRows, ids: np.ndarray, scores: np.ndarray, passes: int,
    progress: Callable[[int], None], fan: int = FAN,
) -> Lists:  # fmt: skip
    """(n, k) ids and scores of nearer rows, best first, -1 and -inf for no neighbour.

    Args:
        rows: with their score; near rows should have near numbers, so that they are near in memory.
        ids, scores: (n, k) the lists to begin with, best first.
        fan: neighbours of a row, and rows that list it, that a step goes to at most.
    """
    n = len(ids)
    kind = np.int32 if n < 1 << 30 else np.int64
    steps: np.ndarray = np.where(ids >= 0, 2 * ids.astype(kind) + 1, -1).astype(kind)
    for number in range(passes):
        back = np.full((n, fan), -1, dtype=kind)
        _listed_by(steps, back)
        fresh, better = np.full_like(steps, -1), np.full_like(scores, -np.inf)
        for low in range(0, n, BLOCK):
            _pass(rows, steps, scores, back, fresh, better, min(fan, ids.shape[1]), low, min(n, low + BLOCK))
            progress(number * n + min(n, low + BLOCK))
        steps, scores = fresh, better
    return steps >> 1, scores


@njit(cache=True)
def _listed_by(steps: Any, back: Any) -> None:
    """Fill ``back`` (n, most), all -1, with the rows that list a row, those that list it first before others."""
    most, count = back.shape[1], np.zeros(len(steps), dtype=np.int32)
    for rank in range(steps.shape[1]):
        for row in range(len(steps)):
            step = steps[row, rank]
            if step >= 0 and count[step >> 1] < most:
                back[step >> 1, count[step >> 1]] = 2 * row + (step & 1)
                count[step >> 1] += 1


@njit(cache=True)
def add_candidate(rows: Any, table: Any, candidates: Any, count: Any, node: Any) -> Any:
    """How many candidates there are with this one: as before if the hash table has it, or if it is -1."""
    if node < 0:
        return count
    mask = len(table) - 1
    slot = ((node * 2654435769) >> 8) & mask
    while table[slot] >= 0:
        if table[slot] == node:
            return count
        slot = (slot + 1) & mask
    table[slot], candidates[count] = node, node
    prefetch_row(rows, node)
    return count + 1


@njit(cache=True)
def best_candidates(rows: Any, row: Any, candidates: Any, held: Any, scores: Any, ids: Any, size: Any) -> Any:
    """Score the candidates of a row for its heap, of which ``size`` entries are filled, and sort it: its new size."""
    enter_row(rows, row, held)
    for other in candidates:
        value = pair_score(rows, row, other, held)
        if size < len(scores) or value >= scores[0]:
            size = heap_offer(scores, ids, size, value, other)
    leave_row(rows, row, held)
    heap_sort(scores, ids, size)
    return size


@njit(cache=True)
def hash_table(most: Any) -> Any:
    """Of int64, all -1, that ``most`` candidates half fill."""
    slots = 64
    while slots < 2 * most:
        slots *= 2
    return np.full(slots, -1, dtype=np.int64)


@njit(cache=True, parallel=True)
def _pass(
    rows: Any, steps: Any, scores: Any, back: Any, fresh: Any, better: Any, fan: Any, low: Any, high: Any
) -> None:
    """Fill ``fresh`` and ``better`` of the rows from ``low`` to ``high``. A step is 2 x row + (1 if it is new)."""
    k = steps.shape[1]
    ways = fan + back.shape[1]
    most = ways * (ways + 1) + k + 1
    for number in prange(PARTS):
        part = np.int64(number)
        table, candidates = hash_table(most), np.empty(most, dtype=np.int64)
        found, held = np.empty(k, dtype=np.int64), row_memory(rows)
        for row in range(low + part * (high - low) // PARTS, low + (part + 1) * (high - low) // PARTS):
            table[:] = -1
            add_candidate(rows, table, candidates, 0, row)
            size, count = 0, 0
            for rank in range(k):
                node = np.int64(steps[row, rank] >> 1)
                if node >= 0:  # known with its score, so no candidate
                    add_candidate(rows, table, candidates, 0, node)
                    size = heap_offer(better[row], found, size, scores[row, rank], node)
            for first in range(ways):
                step = steps[row, first] if first < fan else back[row, first - fan]
                if step < 0:
                    continue
                middle = step >> 1
                for second in range(-1, ways):
                    if second < 0:
                        last = 2 * middle + 1
                    else:
                        last = steps[middle, second] if second < fan else back[middle, second - fan]
                    if last >= 0 and (step | last) & 1:
                        count = add_candidate(rows, table, candidates, count, np.int64(last >> 1))
            size = best_candidates(rows, row, candidates[:count], held, better[row], found, size)
            for rank in range(size):
                new = 1
                for before in range(k):
                    if steps[row, before] >= 0 and steps[row, before] >> 1 == found[rank]:
                        new = 0
                        break
                fresh[row, rank] = 2 * found[rank] + new
