"""Nearest vectors of some rows among all rows of a file, which is read from front to end."""

from __future__ import annotations

import numpy as np
import torch

from naq.neighbors.clusters import PER_CENTRE, assign, centres
from naq.neighbors.topk import offer_rows, sort_heaps
from naq.neighbors.vectors import recall
from naq.randomness import stream

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
    n, count = len(rows), min(CENTRES, max(1, round(len(rows) ** 0.5)))
    some = np.sort(stream(seed, "sampled/centres").choice(n, min(n, PER_CENTRE * count), replace=False))
    sample = torch.from_numpy(np.array(rows[some]))
    middle = centres(sample[sample.any(dim=1)], seed, count)
    asked = torch.from_numpy(np.array(rows[wanted]))
    near = assign(asked, middle, min(PROBES, len(middle))).numpy()
    near[~asked.any(dim=1).numpy()] = -1
    order = np.argsort(near.ravel(), kind="stable")
    bounds = np.searchsorted(near.ravel()[order], np.arange(len(middle) + 1))
    owners = order // near.shape[1]
    sound = np.flatnonzero(asked.any(dim=1).numpy())
    checked = sound[np.unique(np.linspace(0, len(sound) - 1, CHECKED).astype(np.int64))] if len(sound) else sound
    block = max(block, ENTRIES // max(1, rows.shape[1]))
    found, true = _Heaps(len(wanted), k), _Heaps(len(wanted), k)
    for start in range(0, n, block):
        part = torch.from_numpy(np.array(rows[start : start + block]))
        there = np.flatnonzero(part.any(dim=1).numpy())
        home = _home(part[there], middle)
        by_home = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[by_home], np.arange(len(middle) + 1))
        for c in np.flatnonzero(np.diff(ends)):
            inside, who = there[by_home[ends[c] : ends[c + 1]]], owners[bounds[c] : bounds[c + 1]]
            if len(who):
                found.offer(asked[who] @ part[inside].T, who, start + inside)
        there = there.astype(np.int64)
        true.offer(asked[checked] @ part[there].T, checked, start + there)
    ids, scores = found.without(wanted)
    return ids, scores, recall(ids[checked], true.without(wanted)[0][checked])


def _home(rows: torch.Tensor, middle: torch.Tensor) -> np.ndarray:
    """The nearest centre of every row; faster than the best of a top-k."""
    parts = [torch.argmax(part @ middle.T, dim=1) for part in rows.split(ROWS)]
    return torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.int64)


class _Heaps:
    """The k + 1 best of every wanted row so far: it may meet itself."""

    def __init__(self, count: int, k: int) -> None:
        self.count = count
        self.scores = np.full((count, k + 1), -np.inf, dtype=np.float32)
        self.ids = np.full((count, k + 1), -1, dtype=np.int64)
        self.sizes = np.zeros(count, dtype=np.int64)

    def offer(self, values: torch.Tensor, owners: np.ndarray, candidates: np.ndarray) -> None:
        # Heaps are known by their number here and candidates by their row: shifted, the two are never equal.
        offer_rows(values.numpy(), owners, candidates + self.count, self.scores, self.ids, self.sizes)

    def without(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ids and scores (count, k), best first, without the row itself."""
        scores, ids = self.scores.copy(), self.ids.copy()
        sort_heaps(scores, ids, self.sizes)
        ids = np.where(ids >= 0, ids - self.count, -1)
        scores[ids == wanted[:, None]] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :-1]
        scores, ids = np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)
        there = np.isfinite(scores)
        return np.where(there, ids, -1), np.where(there, scores, 0)
