"""Rows and the score of two of them, for compiled code that is written once for all kinds of rows.

==============  =========================================  =====================================================
kind            rows                                       score of rows i and j
==============  =========================================  =====================================================
``Vectors``     dense, float32                             product minus ``offset[j]``, in float32
``Words``       CSR                                        the metric, as the exact table has it
``Numbers``     dense, float64 or float32                  the metric, from a product in float64
==============  =========================================  =====================================================

A row is entered, scored against others, and left: ``held`` (of :func:`room`) keeps what is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from naq.neighbors.prefetch import prefetch, prefetch_far
from naq.neighbors.similarity import metric_score

LINE = 64
"""Bytes in a line of the cache."""


class Vectors(NamedTuple):
    """(n, d) float32, and (n,) float32: half the squared length where a distance is meant, else 0."""

    rows: Any
    offset: Any


class Words(NamedTuple):
    """The arrays of a CSR matrix, its columns, (n,) float64 squared lengths, and the metric's place in ``METRICS``."""

    indptr: Any
    indices: Any
    data: Any
    columns: Any
    size: Any
    metric: Any


class Numbers(NamedTuple):
    """(n, d) dense, (n,) float64 squared lengths, and the metric's place in ``METRICS``."""

    rows: Any
    size: Any
    metric: Any


def room(rows: Any) -> Any:
    """Memory for the row that is entered."""


def enter(rows: Any, row: Any, held: Any) -> None:
    """Begin with a row."""


def leave(rows: Any, row: Any, held: Any) -> None:
    """Be done with it: ``held`` is as it was."""


def score(rows: Any, row: Any, other: Any, held: Any) -> Any:
    """float32 score of the row that was entered and another, larger is nearer; the same whichever of the two is entered."""


def fetch(rows: Any, other: Any) -> None:
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


@overload(room, strict=False)
def _room(rows: Any) -> Callable[..., Any]:
    if _for(Words, rows):
        return lambda rows: np.zeros(rows.columns, dtype=np.float32)
    return lambda rows: np.zeros(0, dtype=np.float32)


@overload(enter, strict=False)
def _enter(rows: Any, row: Any, held: Any) -> Callable[..., Any]:
    if not _for(Words, rows):
        return lambda rows, row, held: None

    def enter_words(rows: Any, row: Any, held: Any) -> None:
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            held[rows.indices[e]] = rows.data[e]

    return enter_words


@overload(leave, strict=False)
def _leave(rows: Any, row: Any, held: Any) -> Callable[..., Any]:
    if not _for(Words, rows):
        return lambda rows, row, held: None

    def leave_words(rows: Any, row: Any, held: Any) -> None:
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            held[rows.indices[e]] = 0.0

    return leave_words


@overload(score, strict=False)
def _score(rows: Any, row: Any, other: Any, held: Any) -> Callable[..., Any]:
    if _for(Vectors, rows):
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

    return score_words if _for(Words, rows) else score_numbers


@overload(fetch, strict=False)
def _fetch(rows: Any, other: Any) -> Callable[..., Any]:
    def fetch_row(rows: Any, other: Any) -> None:
        flat, width = rows.rows.reshape(-1), rows.rows.shape[1]
        for place in range(0, width, LINE // rows.rows.itemsize):
            prefetch_far(flat, other * width + place)

    def fetch_words(rows: Any, other: Any) -> None:
        # The pointers of a row may not be in the cache themselves; near rows have near numbers, so they mostly are.
        for e in range(rows.indptr[other], rows.indptr[other + 1], 16):
            prefetch(rows.indices, e)
            prefetch(rows.data, e)

    return fetch_words if _for(Words, rows) else fetch_row
