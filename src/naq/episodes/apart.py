"""Supports that are not near each other.

Two supports of an episode that are neighbours likely share a true class, and then get different labels. Here no support is among the
``near`` first neighbours of another, in either direction. Slots are filled in order: a support that clashes with one of an earlier slot
is drawn again, uniformly, until none does. That is the distribution of drawing slot after slot among the nodes that are still allowed,
which differs a little from rejecting whole episodes but also succeeds at many ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from naq.episodes.draws import repeats
from naq.errors import OptionError

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
            f"apart={near} cannot be kept by {way}-way episodes: only {free} of {n} nodes have {way - 1} others outside their first "
            f"{near} neighbours; lower apart."
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
