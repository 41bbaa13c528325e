"""Scans of index arrays in compiled code, a piece of rows per thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from naq.hashing import mixed
from naq_scale.mapped import ROWS


@njit(cache=True, parallel=True)
def first_bad_row(indptr: Any, indices: Any, columns: Any, square: Any, pieces: Any) -> Any:
    """The first row that is not ascending, leaves 0..columns - 1 or, in a ``square`` matrix, holds its own number; -1 if none."""
    rows = len(indptr) - 1
    found = np.full(pieces, rows, dtype=np.int64)
    for piece in prange(pieces):
        for r in range(piece * ROWS, min(rows, (piece + 1) * ROWS)):
            last, sound = np.int64(-1), True
            for e in range(indptr[r], indptr[r + 1]):
                column = np.int64(indices[e])
                sound &= (column > last) & ((not square) | (column != r))
                last = column
            if not sound or last >= columns:
                found[piece] = r
                break
    first = found.min() if pieces else rows
    return -1 if first == rows else first


@njit(cache=True, parallel=True)
def one_way(indptr: Any, indices: Any, pieces: Any) -> Any:
    """Whether hashes of the edges above the diagonal and of those below have different sums."""
    rows = len(indptr) - 1
    sums = np.zeros(pieces, dtype=np.uint64)
    for piece in prange(pieces):
        for r in range(piece * ROWS, min(rows, (piece + 1) * ROWS)):
            for e in range(indptr[r], indptr[r + 1]):
                column = np.int64(indices[e])
                low, high = (r, column) if r < column else (column, r)
                bits = mixed(np.uint64(low) * np.uint64(rows) + np.uint64(high) + np.uint64(1))
                sums[piece] += bits if r == low else ~bits + np.uint64(1)
    return sums.sum() != np.uint64(0)
