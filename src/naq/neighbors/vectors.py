r"""Neighbours of dense vectors: top-k by cosine, exact in blocks, or among the nearest clusters where there are too many nodes.

.. math:: S_{ij} = \frac{z_i \cdot z_j}{|z_i| |z_j|}

Exact: O(n^2 d) products and O(block x n) memory. Above ``EXACT_NODES`` nodes: the rows are divided into clusters by k-means, and a node
is compared with the members of its ``PROBES`` nearest clusters: O(n^1.5 d). What share of the true neighbours that finds is measured on
a sample and written into the table (``info["recall"]``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch

from naq.errors import OptionError
from naq.neighbors.clusters import assign, centres
from naq.neighbors.table import NeighborTable
from naq.neighbors.topk import offer_rows, sort_heaps, stable_topk
from naq.options import check_whole
from naq.randomness import stream

EXACT_NODES = {"cpu": 60_000, "cuda": 1_000_000}
"""Up to so many nodes every pair is compared, unless the caller says otherwise."""
BLOCK_ENTRIES = 1 << 24
"""Scores held at once; 64 MiB."""
PROBES = 24
"""Clusters that a node is compared with."""
SAMPLE = 512
"""Nodes whose true neighbours are found to measure recall."""


def vector_neighbors(
    vectors: np.ndarray | torch.Tensor,
    k: int = 10,
    *,
    exact: bool | None = None,
    device: str | torch.device = "cpu",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> NeighborTable:
    """The ``k`` nearest other rows of every row by cosine, ties to the lowest id.

    Args:
        vectors: (n, d), finite. A row of zeros has no neighbours and is none.
        exact: compare every pair; None decides by ``EXACT_NODES``.
        device: where the products run.
        seed: of the clusters.
        progress: called with (rows done, rows in all).

    Example:
        >>> import numpy as np
        >>> vector_neighbors(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), k=1).ids.tolist()
        [[1], [0], [1]]
    """
    k = check_whole("k", k)
    rows = _unit_tensor(vectors, device)
    n = len(rows)
    if not 1 <= k < n:
        raise OptionError(
            f"k is {k}, but there are {n:,} vectors, so one has {max(n - 1, 0):,} others at most; lower k."
        )
    if exact is None:
        exact = n <= EXACT_NODES["cpu" if rows.device.type == "cpu" else "cuda"]
    info = {"kind": "vectors", "metric": "cosine", "k": k, "search": "exact" if exact else "clusters"}
    if exact:
        if rows.device.type == "cpu":
            return NeighborTable(*_nearest_by_symmetry(rows, k, progress), info)
        return NeighborTable(*_nearest(rows, torch.arange(n, device=rows.device), k, progress), info)
    ids, scores = _nearest_in_clusters(rows, k, seed, progress)
    sample = np.sort(stream(seed, "vector-neighbors/recall").choice(n, min(SAMPLE, n), replace=False))
    true, _ = _nearest(rows, torch.from_numpy(sample).to(rows.device), k, None)
    return NeighborTable(ids, scores, {**info, "recall": recall(ids[sample], true[sample])})


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """The share of the true neighbours that was found; both (rows, k) with -1 where there is none."""
    hits = ((found[:, :, None] == true[:, None, :]) & (true[:, None, :] >= 0)).any(axis=1)
    return float(hits.sum() / max(1, (true >= 0).sum()))


def mutual_pairs(table: NeighborTable) -> np.ndarray:
    """(pairs, 2) int64, every pair once with the lower id first: nodes that are in each other's list.

    >>> mutual_pairs(NeighborTable(np.array([[1], [0], [0]]), np.ones((3, 1)))).tolist()
    [[0, 1]]
    """
    n, k = table.ids.shape
    one, two = np.repeat(np.arange(n, dtype=np.int64), k), table.ids.ravel().astype(np.int64)
    one, two = one[two >= 0], two[two >= 0]
    low, high = np.minimum(one, two), np.maximum(one, two)
    code = np.sort(low * n + high)
    twice = code[1:][code[1:] == code[:-1]]
    return np.stack([twice // n, twice % n], axis=1)


def _unit_tensor(vectors: np.ndarray | torch.Tensor, device: str | torch.device) -> torch.Tensor:
    """Rows of length one in float32 on the device; zero rows stay zero."""
    if vectors.ndim != 2:
        raise OptionError(f"vectors have shape {tuple(vectors.shape)}; expected (nodes, d).")
    rows = torch.as_tensor(vectors).to(device=device, dtype=torch.float32)
    if not bool(torch.isfinite(rows).all()):
        raise OptionError("vectors hold numbers that are not finite; expected (nodes, d) finite numbers.")
    if rows.shape[1]:
        # The largest entry first: squares of very large or small numbers do not fit in float32.
        largest = rows.abs().amax(dim=1, keepdim=True)
        rows = torch.where(largest > 0, rows / largest, 0.0)
    return rows / rows.norm(dim=1, keepdim=True).clamp(min=1.0)


class _Best:
    """The k best of every row so far: heaps in compiled code on the CPU, sorted lists in torch elsewhere."""

    def __init__(self, n: int, k: int, device: torch.device) -> None:
        self.on_cpu = device.type == "cpu"
        self.scores = torch.full((n, k), -torch.inf, device=device)
        self.ids = torch.full((n, k), -1, dtype=torch.int64, device=device)
        self.sizes = torch.zeros(n, dtype=torch.int64, device=device)

    def offer(self, values: torch.Tensor, owners: torch.Tensor, candidates: torch.Tensor) -> None:
        """``values[r, c]`` is the cosine of rows ``owners[r]`` and ``candidates[c]``; candidates ascend."""
        if self.on_cpu:
            offer_rows(*(one.numpy() for one in (values, owners, candidates, self.scores, self.ids, self.sizes)))
            return
        values[owners[:, None] == candidates[None, :]] = -torch.inf
        chosen, found = stable_topk(values, min(self.ids.shape[1], len(candidates)))
        both = torch.cat([self.scores[owners], found], dim=1)
        who = torch.cat([self.ids[owners], candidates[chosen]], dim=1)
        by_id = torch.argsort(who, dim=1, stable=True)
        best, order = torch.sort(both.gather(1, by_id), dim=1, descending=True, stable=True)
        k = self.ids.shape[1]
        self.scores[owners] = best[:, :k]
        self.ids[owners] = who.gather(1, by_id).gather(1, order[:, :k])

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """ids and scores (n, k), best first; -1 and 0 where there is none."""
        if self.on_cpu:
            sort_heaps(self.scores.numpy(), self.ids.numpy(), self.sizes.numpy())
        there = torch.isfinite(self.scores)
        ids, scores = torch.where(there, self.ids, -1).to(torch.int32), torch.where(there, self.scores, 0)
        return ids.cpu().numpy(), scores.cpu().numpy()


def _nearest(
    rows: torch.Tensor, wanted: torch.Tensor, k: int, progress: Callable[[int, int], None] | None
) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (wanted, k): every pair is compared, a block of rows at a time."""
    there = torch.nonzero(rows.any(dim=1))[:, 0]
    kept, best = rows[there], _Best(len(rows), k, rows.device)
    wanted = wanted[rows[wanted].any(dim=1)]
    block = max(1, BLOCK_ENTRIES // max(1, len(kept)))
    for start in range(0, len(wanted), block):
        these = wanted[start : start + block]
        best.offer(rows[these] @ kept.T, these, there)
        if progress is not None:
            progress(min(start + block, len(wanted)), len(wanted))
    return best.arrays()


def _nearest_by_symmetry(
    rows: torch.Tensor, k: int, progress: Callable[[int, int], None] | None
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`_nearest` for all rows: S is symmetric, so half of its square blocks are computed and read twice."""
    there = torch.nonzero(rows.any(dim=1))[:, 0]
    kept, best = rows[there], _Best(len(rows), k, rows.device)
    block = math.isqrt(BLOCK_ENTRIES)
    starts = range(0, len(kept), block)
    done, whole = 0, len(starts) * (len(starts) + 1) // 2
    for low in starts:
        for high in range(low, len(kept), block):
            left, right = slice(low, low + block), slice(high, high + block)
            values = kept[left] @ kept[right].T
            best.offer(values, there[left], there[right])
            if high > low:
                best.offer(values.T.contiguous(), there[right], there[left])
            done += 1
            if progress is not None:
                progress(done * len(rows) // whole, len(rows))
    return best.arrays()


def _nearest_in_clusters(
    rows: torch.Tensor, k: int, seed: int, progress: Callable[[int, int], None] | None
) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (n, k): each row is compared with the members of its nearest clusters."""
    there = torch.nonzero(rows.any(dim=1))[:, 0]
    best = _Best(len(rows), k, rows.device)
    kept = rows[there]
    if not len(kept):
        return best.arrays()
    middle = centres(kept, seed)
    near = assign(kept, middle, min(PROBES, len(middle)))
    members, questions = _listed(near[:, :1], len(middle)), _listed(near, len(middle))
    for c in range(len(middle)):
        inside = there[members[c]]
        step = max(1, BLOCK_ENTRIES // max(1, len(inside)))
        for part in questions[c].split(step) if len(inside) else ():
            owners = there[part]
            best.offer(rows[owners] @ rows[inside].T, owners, inside)
        if progress is not None:
            progress((c + 1) * len(rows) // len(middle), len(rows))
    return best.arrays()


def _listed(near: torch.Tensor, count: int) -> list[torch.Tensor]:
    """For every cluster, the rows that name it, ascending."""
    named = near.flatten()
    order = torch.argsort(named, stable=True)
    bounds = torch.searchsorted(named[order], torch.arange(count + 1, device=near.device)).tolist()
    return [order[low:high] // near.shape[1] for low, high in pairwise(bounds)]
