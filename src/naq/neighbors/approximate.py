"""Nearest rows of very many by cosine, in time that grows with their number: clusters of a fixed size, then neighbours of neighbours.

1. Equal rows are taken once, and zero rows not at all.
2. k-means divides the rows into clusters of ``MEMBERS`` on average, and every row is compared with the members of its ``PROBES`` nearest.
3. ``PASSES`` times a row is compared with neighbours of its neighbours (:mod:`naq.neighbors.descent`), which finds those across clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba import njit, prange

from naq.neighbors.clusters import assign, centres
from naq.neighbors.descent import PARTS, Vectors, descend, enter, leave, room, score
from naq.neighbors.prefetch import line_aligned
from naq.neighbors.topk import Best, Lists, Progress, heap_offer, heap_sort
from naq.random import mixed

MEMBERS = 400
"""Rows of a cluster, on average."""
PROBES = 20
"""Clusters that a row is compared with."""
ROUNDS = 2
"""Of k-means."""
LARGEST = 8 * MEMBERS
"""A larger cluster is divided evenly, and a row asks one of the parts: rows may be too near to each other for k-means."""
EXTRA = 10
"""Neighbours kept beyond k until the end."""
PASSES = 3
ENTRIES = {"cpu": 1 << 18, "cuda": 1 << 22}
"""Scores held at once: 1 MiB, which stays in the second cache of a core, and 16 MiB on a GPU, which needs more work at a time."""


def approximate(rows: torch.Tensor, k: int, seed: int, progress: Progress) -> Lists:
    """ids and scores (n, k), best first, -1 and 0 where there is none.

    Args:
        rows: (n, d) of length one, or zero: such a row has no neighbours and is none.
    """
    n = len(rows)
    ids, scores = np.full((n, k), -1, dtype=np.int32), np.zeros((n, k), dtype=np.float32)
    there = torch.nonzero(rows.any(dim=1))[:, 0].cpu().numpy()
    starts, members = groups(row_hashes(np.ascontiguousarray(rows.cpu().numpy()))[there], there)
    first = torch.from_numpy(members[starts[:-1]]).to(rows.device)
    count = len(first)

    def report(done: int) -> None:
        if progress is not None:
            progress(done * n // ((1 + PASSES) * count), n)

    if count:
        order, _, lists = near_lists(rows[first], None, k + EXTRA, seed, PASSES, report)
        everyone = Vectors(rows.cpu().numpy(), np.zeros(n, dtype=np.float32))
        share_out(everyone, lists[0], order, starts, members, ids, scores, np.float32(np.nan))
    if progress is not None:
        progress(n, n)
    return ids, scores


def near_lists(
    rows: torch.Tensor, offset: np.ndarray | None, k: int, seed: int, passes: int, report: Callable[[int], None],
    probes: int | None = None,
) -> tuple[np.ndarray, Vectors, tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """(n,) rows in the order of their clusters, the rows in that order, and ids and scores (n, at most k) of those near them.

    Args:
        offset: (n,) what is subtracted from products with a row, see :class:`~naq.neighbors.descent.Vectors`; None is nothing.
    """
    lifted = rows
    if offset is not None:  # unit rows of what is compared by distance: one more column, as long as a row is on average
        mean = rows.double().square().sum(dim=1).mean().sqrt().to(rows.dtype)
        lifted = torch.cat([rows, mean.expand(len(rows), 1)], dim=1)
        lifted = lifted / lifted.norm(dim=1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
    middle = centres(lifted, seed, -(-len(rows) // MEMBERS), ROUNDS)
    near = assign(lifted, middle, min(probes or PROBES, len(middle)))
    order = torch.argsort(near[:, 0], stable=True)
    near = near[order].to(torch.int32)
    del lifted
    rows, placed = rows[order], order.cpu().numpy()
    offset = np.zeros(len(rows), dtype=np.float32) if offset is None else offset[placed]
    found = _near_members(rows, torch.from_numpy(offset).to(rows.device), near, min(k, len(rows) - 1), report)
    del near  # as large as the lists
    held = line_aligned((len(rows), rows.shape[1]))  # torch's memory is not in huge pages
    held[:] = rows.cpu().numpy()
    del rows
    kept = Vectors(held, offset)
    return placed, kept, descend(kept, *found, passes, lambda done: report(len(placed) + done))


def groups(code: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes, those of equal ``code`` together and ascending, groups in the order of their first nodes; and where each group starts."""
    order = np.argsort(code, kind="stable")
    code = code[order]
    first = np.flatnonzero(np.r_[True, code[1:] != code[:-1]]) if len(code) else np.empty(0, dtype=np.int64)
    # In the order of their first rows: the order of hashes means nothing.
    parts = np.argsort(nodes[order[first]], kind="stable")
    sizes = np.diff(np.r_[first, len(code)])[parts]
    starts = np.r_[0, np.cumsum(sizes)]
    places = np.repeat(first[parts] - starts[:-1], sizes) + np.arange(len(code))
    return starts, nodes[order[places]]


@njit(cache=True, parallel=True)
def row_hashes(rows: Any) -> Any:
    """(n,) uint64 of the numbers of each row; 0 and -0 are equal."""
    found = np.empty(len(rows), dtype=np.uint64)
    for row in prange(len(rows)):
        bits, code = (rows[row] + np.float32(0)).view(np.uint32), np.uint64(0)
        for c in range(len(bits)):
            code = mixed(code + np.uint64(bits[c]) + np.uint64(0x9E3779B97F4A7C15))
        found[row] = code
    return found


def _near_members(
    rows: torch.Tensor, offset: torch.Tensor, near: torch.Tensor, k: int, report: Callable[[int], None]
) -> Lists:
    """ids and scores (n, k): each row is compared with the members of its clusters, which lie behind one another."""
    best, entries = Best(len(rows), k, rows.device), ENTRIES["cpu" if rows.device.type == "cpu" else "cuda"]
    named = near.flatten()
    order = torch.argsort(named, stable=True)
    clusters = torch.arange(int(named.max()) + 2, dtype=near.dtype, device=rows.device)
    asking = torch.searchsorted(named[order], clusters).tolist()
    ends = torch.searchsorted(near[:, 0].contiguous(), clusters).tolist()
    for (low, high), (begin, end) in zip(pairwise(ends), pairwise(asking), strict=True):
        parts = -(-(high - low) // LARGEST) if k else 0
        owners = order[begin:end] // near.shape[1]
        for number in range(parts):
            inside = torch.arange(low + number, high, parts, device=rows.device)
            those, these = rows[inside], owners[(owners - low) % parts == number]
            for some in these.split(max(1, entries // len(inside))):
                best.offer(rows[some] @ those.T - offset[inside], some, inside)
        report(high)
    return best.arrays()


@njit(cache=True, parallel=True)
def share_out(
    rows: Any, lists: Any, order: Any, starts: Any, members: Any, ids: Any, scores: Any, nothing: Any
) -> None:
    """Neighbours of distinct rows become those of all nodes: equal rows share them and are near each other.

    Args:
        rows: of all nodes, with their score.
        nothing: a score that is no neighbour; NaN for none.
    """
    n, k = len(lists), ids.shape[1]
    for number in prange(PARTS):
        part = np.int64(number)
        held, found = room(rows), np.empty(k, dtype=np.int64)
        for row in range(part * n // PARTS, (part + 1) * n // PARTS):
            own = order[row]
            for place in range(starts[own], starts[own + 1]):
                node, size = members[place], 0
                best = scores[node]
                enter(rows, node, held)
                for rank in range(-1, lists.shape[1]):
                    other = np.int64(row) if rank < 0 else np.int64(lists[row, rank])
                    if other < 0:
                        continue
                    group = order[other]
                    for at in range(starts[group], min(starts[group + 1], starts[group] + k + 1)):
                        if members[at] != node:
                            value = score(rows, node, members[at], held)
                            if value != nothing:
                                size = heap_offer(best, found, size, value, members[at])
                leave(rows, node, held)
                heap_sort(best, found, size)
                for rank in range(size):
                    ids[node, rank] = found[rank]
