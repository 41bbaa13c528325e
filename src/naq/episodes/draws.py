"""Vectorised draws without replacement, in blocks with a random stream each, and supports that are not near each other.

Episode t depends on (seed, purpose, t) alone: the first hundred of 16,000 are the same as a hundred.

Two supports of an episode that are neighbours likely share a true class, and then get different labels. :func:`keep_apart` leaves no
support among the ``near`` first neighbours of another: one that clashes with an earlier slot is drawn again until none does, which is
drawing slot after slot among the nodes that are still allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit

from naq.errors import OptionError
from naq.random import stream

BLOCK = 4096


def blocks(count: int, seed: int, purpose: str) -> Iterator[tuple[slice, np.random.Generator]]:
    """Slices of 0..count and the generator of each; a generator always draws for a whole block."""
    for number, start in enumerate(range(0, count, BLOCK)):
        yield slice(start, min(count, start + BLOCK)), stream(seed, purpose, number)


def distinct(random: np.random.Generator, rows: int, n: int, size: int) -> np.ndarray:
    """(rows, size) integers below n, each row without repetition, uniform over ordered choices."""
    if n < 4 * size * size:
        chunk = max(1, 4_000_000 // n)
        parts = [np.argsort(random.random((min(chunk, rows - r), n)), axis=1)[:, :size] for r in range(0, rows, chunk)]
        return np.concatenate(parts)
    drawn = random.integers(0, n, size=(rows, size))
    repeated = repeats(drawn)
    while repeated.any():
        drawn[repeated] = random.integers(0, n, size=(int(repeated.sum()), size))
        repeated[repeated] = repeats(drawn[repeated])
    return drawn


def repeats(drawn: np.ndarray) -> np.ndarray:
    """(rows,) whether a row holds a number twice."""
    order = np.sort(drawn, axis=1)
    return (order[:, 1:] == order[:, :-1]).any(axis=1)


ROUNDS = 64
"""Times a slot is drawn again before an episode is left with the fewest clashes seen."""


def keep_apart(
    random: np.random.Generator, support: np.ndarray, ids: np.ndarray, near: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw offending slots again.

    Args:
        support: (rows, way) distinct nodes per row.
        ids: (n, k) neighbours, -1 where there is none; the first ``near`` columns count.

    Returns:
        the supports, still distinct, and (rows,) True where a clash is left.

    Cost: rows x way x near look-ups, and the same for the few rows that are drawn again.
    """
    best = support.astype(np.int64)
    place = np.full(len(ids), -1, dtype=np.int32)
    offending = _offending(ids, best, near, place)
    rows = np.flatnonzero(offending.any(axis=1))
    clashes = offending.sum(axis=1)
    current, again = best[rows], offending[rows]
    for _ in range(ROUNDS):
        if not len(rows):
            break
        current[again] = random.integers(0, len(ids), size=int(again.sum()))
        again = _offending(ids, current, near, place)
        left = again.sum(axis=1)
        # Repeated nodes may pass through a round, never into the result.
        better = (left < clashes[rows]) & ~repeats(current)
        best[rows[better]], clashes[rows[better]] = current[better], left[better]
        going = left > 0
        rows, current, again = rows[going], current[going], again[going]
    return best, clashes > 0


def check_apart(ids: np.ndarray, way: int, near: int) -> None:
    """Raise an ``OptionError`` where no draw can succeed: a support needs ``way - 1`` nodes that are not among its first ``near``."""
    n = len(ids)
    close = ((ids[:, :near] >= 0) & (ids[:, :near] != np.arange(n)[:, None])).sum(axis=1)
    free = int((close + way <= n).sum())
    if free < way:
        raise OptionError(
            f"apart={near} cannot be kept by {way}-way episodes: only {free} of {n} nodes have {way - 1} others outside "
            f"their first {near} neighbours; lower apart."
        )


@njit(cache=True)
def _offending(ids: Any, support: Any, near: Any, place: Any) -> Any:
    """(rows, way): slots that repeat, list or are listed by a support of an earlier slot; ``place`` is (n,) of -1, left so."""
    rows, way = support.shape
    out = np.zeros((rows, way), dtype=np.bool_)
    for r in range(rows):
        for j in range(way):
            s = support[r, j]
            if place[s] < 0:
                place[s] = j
            else:
                out[r, j] = True
        for j in range(way):
            row = ids[support[r, j]]
            for c in range(near):
                v = row[c]
                if v >= 0 and place[v] >= 0 and v != support[r, j]:
                    out[r, max(j, place[v])] = True
        for j in range(way):
            place[support[r, j]] = -1
    return out
