"""Nearest vectors of some rows among all rows of a file, which is read from front to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from naq.neighbors.clusters import PER_CENTRE, assign, centres
from naq.neighbors.feature_exact import recall
from naq.neighbors.topk import offer_rows
from naq.random import stream

CENTRES = 1024
"""Clusters, whatever the number of rows: the cost is then linear in it."""
PROBES = 24
"""Clusters that a wanted row is compared with."""
ROWS = 1 << 14
"""Rows whose cosines with all centres are held at once."""
ENTRIES = 1 << 25
"""Numbers of a block of rows, at least: with many members of every cluster in a block, products are large."""
CHECKED = 64
"""Wanted rows that are compared with every row, to measure recall."""


def sampled_neighbors(
    rows: np.ndarray, wanted: np.ndarray, k: int, *, seed: int = 0, block: int = 1 << 16
) -> tuple[np.ndarray, np.ndarray, float]:
    """ids and scores (wanted, k) by cosine, best first, -1 and 0 where there is none, and the recall on ``CHECKED`` of them.

    Each wanted row is compared with the members of its nearest clusters, found by k-means on a sample.

    Args:
        rows: (n, d) float32 of length one, or zero: such a row has no neighbours and is none.
        wanted: rows whose neighbours are sought, ascending.
        block: rows read at once, or more where they are narrow.

    Cost: O(n d (CENTRES + wanted PROBES / CENTRES)) and one pass over the rows; memory: the wanted rows and a block.
    """
    n, block = len(rows), rows_at_once(block, rows.shape[1])
    search = search_for(lambda ids: np.array(rows[ids]), n, wanted, seed)
    asked = torch.from_numpy(search.asked)
    sound = np.flatnonzero(asked.any(dim=1).numpy())
    checked = sound[np.unique(np.linspace(0, len(sound) - 1, CHECKED).astype(np.int64))] if len(sound) else sound
    found, true = Heaps(len(wanted), k), Heaps(len(wanted), k)
    for start in range(0, n, block):
        part = np.array(rows[start : start + block])
        search.offer(found, part, start)
        there = np.flatnonzero(part.any(axis=1))
        true.offer(asked[checked] @ torch.from_numpy(part[there]).T, checked, start + there)
    ids, scores = merged([(found.scores, found.ids)], wanted)
    return ids, scores, recall(ids[checked], merged([(true.scores, true.ids)], wanted)[0][checked])


def rows_at_once(block: int, width: int) -> int:
    """Rows of a block: ``block``, or more where they are narrow."""
    return max(block, ENTRIES // max(1, width))


def search_for(take: Callable[[np.ndarray], np.ndarray], n: int, wanted: np.ndarray, seed: int) -> Search:
    """The wanted rows and the clusters to look in; ``take`` gives rows of ascending numbers."""
    count = min(CENTRES, max(1, round(n**0.5)))
    some = np.sort(stream(seed, "sampled/centres").choice(n, min(n, PER_CENTRE * count), replace=False))
    sample = torch.from_numpy(take(some))
    middle = centres(sample[sample.any(dim=1)], seed, count)
    asked = torch.from_numpy(take(wanted))
    near = assign(asked, middle, min(PROBES, len(middle))).numpy()
    near[~asked.any(dim=1).numpy()] = -1
    return Search(asked.numpy(), middle.numpy(), near)


class Search:
    """Wanted rows (w, d), centres of clusters (c, d), and the clusters near each wanted row (w, PROBES), -1 for none."""

    def __init__(self, asked: np.ndarray, middle: np.ndarray, near: np.ndarray) -> None:
        self.asked, self.middle, self.near = asked, middle, near
        order = np.argsort(near.ravel(), kind="stable")
        self._bounds = np.searchsorted(near.ravel()[order], np.arange(len(middle) + 1))
        self._owners = order // near.shape[1]

    def offer(self, found: Heaps, rows: np.ndarray, start: int) -> None:
        """Offer rows, which are ``start`` and those after it, to the wanted rows that look in their clusters."""
        part, asked, middle = (torch.from_numpy(array) for array in (rows, self.asked, self.middle))
        there = np.flatnonzero(part.any(dim=1).numpy())
        home = _home(part[there], middle)
        by_home = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[by_home], np.arange(len(middle) + 1))
        for c in np.flatnonzero(np.diff(ends)):
            inside = there[by_home[ends[c] : ends[c + 1]]]
            who = self._owners[self._bounds[c] : self._bounds[c + 1]]
            if len(who):
                found.offer(asked[who] @ part[inside].T, who, start + inside)


def _home(rows: torch.Tensor, middle: torch.Tensor) -> np.ndarray:
    """The nearest centre of every row; faster than the best of a top-k."""
    parts = [torch.argmax(part @ middle.T, dim=1) for part in rows.split(ROWS)]
    return torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.int64)


class Heaps:
    """The k + 1 best of every wanted row so far: it may meet itself."""

    def __init__(self, count: int, k: int) -> None:
        self.scores = np.full((count, k + 1), -np.inf, dtype=np.float32)
        self.ids = np.full((count, k + 1), -1, dtype=np.int64)
        self._sizes = np.zeros(count, dtype=np.int64)

    def offer(self, values: torch.Tensor, owners: np.ndarray, candidates: np.ndarray) -> None:
        # Heaps are known by their number here and candidates by their row: shifted, the two are never equal.
        shift = len(self.ids)
        offer_rows(values.numpy(), owners, candidates + shift, self.scores, self.ids, self._sizes)


def merged(heaps: Sequence[tuple[np.ndarray, np.ndarray]], wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (wanted, k), best first and ties to the lowest id, of the scores and ids of heaps that met different rows; without the row itself."""
    size = heaps[0][0].shape[1]
    scores, ids = (np.concatenate(arrays, axis=1) for arrays in zip(*heaps))
    best = np.lexsort((ids, -scores), axis=1)[:, :size]
    scores, ids = np.take_along_axis(scores, best, 1), np.take_along_axis(ids, best, 1)
    ids = np.where(ids >= 0, ids - len(wanted), -1)
    scores[ids == wanted[:, None]] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :-1]
    scores, ids = np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)
    there = np.isfinite(scores)
    return np.where(there, ids, -1), np.where(there, scores, 0)
