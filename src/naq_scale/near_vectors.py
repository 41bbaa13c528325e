"""Approximate top-k of many dense rows by cosine in linear time: clusters, then neighbours of neighbours.

1. Equal rows are taken once, and zero rows not at all.
2. k-means divides the rows into clusters of ``MEMBERS`` on average, and every row is compared with the members of its
   ``PROBES`` nearest.
3. ``PASSES`` times a row is compared with neighbours of its neighbours (:mod:`naq_scale.nn_descent`), which finds those
   across clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba import njit, prange

from naq.neighbors.clusters import assign, centres
from naq.neighbors.topk import Best, Lists, Progress, heap_offer, heap_sort
from naq.neighbors.vectors import nearest_rows
from naq.random import mixed, stream
from naq_scale.lanes import line_aligned
from naq_scale.nn_descent import PARTS, VectorRows, descend, enter_row, leave_row, pair_score, row_memory
from naq_scale.recall import SAMPLE, recall

MEMBERS = 400
"""Rows of a cluster, on average. One of more than eight times as many is divided evenly, and a row is compared with one
of the parts: rows may be too near to each other for k-means."""
PROBES = 20
"""Clusters that a row is compared with."""
PASSES = 3
ENTRIES = {"cpu": 1 << 18, "cuda": 1 << 22}
"""Scores held at once: 1 MiB, which stays in the second cache of a core, and 16 MiB on a GPU."""


def near_rows(
    rows: torch.Tensor, k: int, seed: int, progress: Progress, *, members_each: int = MEMBERS, probes: int = PROBES,
    passes: int = PASSES, extra: int = 10,
) -> Lists:  # fmt: skip
    """ids and scores (n, k), best first, -1 and 0 for no neighbour.

    Args:
        rows: (n, d) of length one, or zero: such a row has no neighbours and is none.
        members_each: rows of a cluster, on average.
        probes: clusters that a row is compared with.
        passes: over neighbours of neighbours.
        extra: neighbours kept beyond k until the end.
    """
    n = len(rows)
    ids, scores = np.full((n, k), -1, dtype=np.int32), np.zeros((n, k), dtype=np.float32)
    there = torch.nonzero(rows.any(dim=1))[:, 0].cpu().numpy()
    starts, members = groups(row_hashes(np.ascontiguousarray(rows.cpu().numpy()))[there], there)
    first = torch.from_numpy(members[starts[:-1]]).to(rows.device)
    count = len(first)

    def report(done: int) -> None:
        if progress is not None:
            progress(done * n // ((1 + passes) * count), n)

    if count:
        order, lists = near_lists(rows[first], None, k + extra, seed, passes, report, probes, members_each)
        everyone = VectorRows(rows.cpu().numpy(), np.zeros(n, dtype=np.float32))
        share_out(everyone, lists, order, starts, members, ids, scores, np.float32(np.nan))
    if progress is not None:
        progress(n, n)
    return ids, scores


def near_table(rows: torch.Tensor, k: int, seed: int, progress: Progress) -> tuple[np.ndarray, np.ndarray, float]:
    """As :func:`near_rows`, and the recall on a sample."""
    ids, scores = near_rows(rows, k, seed, progress)
    sample = np.sort(stream(seed, "vector-neighbors/recall").choice(len(rows), min(SAMPLE, len(rows)), replace=False))
    true, _ = nearest_rows(rows, torch.from_numpy(sample).to(rows.device), k, None)
    return ids, scores, recall(ids[sample], true[sample])


def near_lists(
    rows: torch.Tensor, offset: np.ndarray | None, k: int, seed: int, passes: int, report: Callable[[int], None],
    probes: int, members_each: int = MEMBERS,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(n,) rows in the order of their clusters, and (n, at most k) places in it of those near them, best first.

    Args:
        offset: (n,) what is subtracted from products with a row, see :class:`~naq_scale.nn_descent.VectorRows`.
    """
    lifted = rows
    if offset is not None:  # unit rows of what is compared by distance: one more column, as long as a row is on average
        mean = rows.double().square().sum(dim=1).mean().sqrt().to(rows.dtype)
        lifted = torch.cat([rows, mean.expand(len(rows), 1)], dim=1)
        lifted = lifted / lifted.norm(dim=1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
    middle = centres(lifted, seed, -(-len(rows) // members_each), rounds=2)
    near = assign(lifted, middle, min(probes, len(middle)))
    order = torch.argsort(near[:, 0], stable=True)
    near = near[order].to(torch.int32)
    del lifted
    rows, placed = rows[order], order.cpu().numpy()
    offset = np.zeros(len(rows), dtype=np.float32) if offset is None else offset[placed]
    found = _near_members(
        rows, torch.from_numpy(offset).to(rows.device), near, min(k, len(rows) - 1), 8 * members_each, report
    )
    del near  # as large as the lists
    held = line_aligned((len(rows), rows.shape[1]))  # torch's memory is not in huge pages
    held[:] = rows.cpu().numpy()
    del rows
    return placed, descend(VectorRows(held, offset), *found, passes, lambda done: report(len(placed) + done))[0]


def groups(code: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each group of equal ``code`` starts, in the order of first nodes, and the nodes, ascending in each."""
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
    rows: torch.Tensor, offset: torch.Tensor, near: torch.Tensor, k: int, largest: int, report: Callable[[int], None]
) -> Lists:
    """ids and scores (n, k): each row is compared with the members of its clusters, which follow one another."""
    best, entries = Best(len(rows), k, rows.device), ENTRIES["cpu" if rows.device.type == "cpu" else "cuda"]
    named = near.flatten()
    order = torch.argsort(named, stable=True)
    clusters = torch.arange(int(named.max()) + 2, dtype=near.dtype, device=rows.device)
    asking = torch.searchsorted(named[order], clusters).tolist()
    ends = torch.searchsorted(near[:, 0].contiguous(), clusters).tolist()
    for (low, high), (begin, end) in zip(pairwise(ends), pairwise(asking), strict=True):
        parts = -(-(high - low) // largest) if k else 0
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
        nothing: a score that means no neighbour; NaN if there is no such score.
    """
    n, k = len(lists), ids.shape[1]
    for number in prange(PARTS):
        part = np.int64(number)
        held, found = row_memory(rows), np.empty(k, dtype=np.int64)
        for row in range(part * n // PARTS, (part + 1) * n // PARTS):
            own = order[row]
            for place in range(starts[own], starts[own + 1]):
                node, size = members[place], 0
                best = scores[node]
                enter_row(rows, node, held)
                for rank in range(-1, lists.shape[1]):
                    other = np.int64(row) if rank < 0 else np.int64(lists[row, rank])
                    if other < 0:
                        continue
                    group = order[other]
                    for at in range(starts[group], min(starts[group + 1], starts[group] + k + 1)):
                        if members[at] != node:
                            value = pair_score(rows, node, members[at], held)
                            if value != nothing:
                                size = heap_offer(best, found, size, value, members[at])
                leave_row(rows, node, held)
                heap_sort(best, found, size)
                for rank in range(size):
                    ids[node, rank] = found[rank]
