"""Candidates among rows that share a word: of every word's rows those that lie next to a row in the order of clusters.

A row goes through its ``WORDS`` rarest words and takes ``WINDOW`` rows before and after it from the list of each, so its work does not depend on how
frequent words are: all rows of a rare word, and of a frequent one those of the same or of near clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from naq.neighbors.descent import added
from naq.neighbors.scored_rows import Words, enter, fetch, leave, room, score
from naq.neighbors.topk import heap_offer, heap_sort

WORDS = 16
WINDOW = 8
PARTS = 64


def scored_lists(rows: Words, near: np.ndarray, always: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (n, k), best first, -1 and -inf where there is none: the best by the metric of the candidates.

    Args:
        near: (n, m) candidates of each row, -1 where there is none; candidates by shared words come on top.
        always: (a,) candidates of all rows.
    """
    ids = np.full((len(near), k), -1, dtype=np.int32)
    scores = np.full((len(near), k), -np.inf, dtype=np.float32)
    ends, listed = _postings(rows.indptr, rows.indices, rows.columns)
    _offer(rows, ends, listed, near, always, ids, scores, WORDS, WINDOW)
    return ids, scores


@njit(cache=True)
def _postings(indptr: Any, indices: Any, columns: Any) -> Any:
    """(columns + 1,) where the list of each column begins, and the rows that have it, ascending."""
    ends = np.zeros(columns + 1, dtype=np.int64)
    for e in range(len(indices)):
        ends[indices[e] + 1] += 1
    for c in range(columns):
        ends[c + 1] += ends[c]
    place, rows = ends[:-1].copy(), np.empty(len(indices), dtype=np.int32)
    for row in range(len(indptr) - 1):
        for e in range(indptr[row], indptr[row + 1]):
            rows[place[indices[e]]] = row
            place[indices[e]] += 1
    return ends, rows


@njit(cache=True)
def _rarest(columns: Any, ends: Any, chosen: Any, counts: Any) -> Any:
    """Put the columns with the shortest lists, but for those of one row, into ``chosen``; how many."""
    found, most = 0, len(chosen)
    for column in columns:
        count = ends[column + 1] - ends[column]
        if count < 2 or (found == most and counts[most - 1] <= count):
            continue
        place = min(found, most - 1)
        found = place + 1
        while place > 0 and counts[place - 1] > count:
            counts[place], chosen[place] = counts[place - 1], chosen[place - 1]
            place -= 1
        counts[place], chosen[place] = count, column
    return found


@njit(cache=True, parallel=True)
def _offer(
    rows: Any, ends: Any, listed: Any, near: Any, always: Any, ids: Any, scores: Any, words: Any, window: Any
) -> None:
    n, k = ids.shape
    most = near.shape[1] + len(always) + words * (2 * window + 1) + 1
    slots = 64
    while slots < 2 * most:
        slots *= 2
    for number in prange(PARTS):
        part = np.int64(number)
        table, taken = np.full(slots, -1, dtype=np.int64), np.empty(most, dtype=np.int64)
        candidates, found, held = np.empty(most, dtype=np.int64), np.empty(k, dtype=np.int64), room(rows)
        chosen, counts = np.empty(words, dtype=np.int64), np.empty(words, dtype=np.int64)
        for row in range(part * n // PARTS, (part + 1) * n // PARTS):
            best, size = scores[row], 0
            candidates[0], taken[0], used = row, added(table, row), 1
            for source in range(near.shape[1] + len(always)):
                node = np.int64(near[row, source] if source < near.shape[1] else always[source - near.shape[1]])
                slot = added(table, node) if node >= 0 else np.int64(-1)
                if slot >= 0:
                    candidates[used], taken[used] = node, slot
                    used += 1
                    fetch(rows, node)
            own_words = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
            for rank in range(_rarest(own_words, ends, chosen, counts)):
                low, high = ends[chosen[rank]], ends[chosen[rank] + 1]
                own = low + np.searchsorted(listed[low:high], row)
                for place in range(max(low, own - window), min(high, own + window + 1)):
                    node = np.int64(listed[place])
                    slot = added(table, node)
                    if slot >= 0:
                        candidates[used], taken[used] = node, slot
                        used += 1
                        fetch(rows, node)
            enter(rows, row, held)
            for place in range(1, used):
                value = score(rows, row, candidates[place], held)
                if size < k or value >= best[0]:
                    size = heap_offer(best, found, size, value, candidates[place])
            leave(rows, row, held)
            for place in range(used):
                table[taken[place]] = -1
            heap_sort(best, found, size)
            for rank in range(size):
                ids[row, rank] = found[rank]
