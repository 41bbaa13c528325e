"""The k best, ties to the lowest id: bounded heaps in compiled code for a stream, and rows of a matrix in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit, prange

Lists = tuple[np.ndarray, np.ndarray]
"""ids and scores (rows, k), best first."""
Progress = Callable[[int, int], None] | None
"""Is called with (rows done, rows in all)."""


@njit(cache=True, inline="always")
def _worse(score_a: Any, id_a: Any, score_b: Any, id_b: Any) -> Any:
    return score_a < score_b or (score_a == score_b and id_a > id_b)


@njit(cache=True)
def heap_offer(scores: Any, ids: Any, size: Any, score: Any, node: Any) -> Any:
    """Offer one candidate to the heap (worst on top); return the new size."""
    capacity = len(ids)
    if size < capacity:
        place = size
        while place > 0:
            parent = (place - 1) >> 1
            if not _worse(score, node, scores[parent], ids[parent]):
                break
            scores[place], ids[place] = scores[parent], ids[parent]
            place = parent
        scores[place], ids[place] = score, node
        return size + 1
    if not _worse(scores[0], ids[0], score, node):
        return size
    _sift_down(scores, ids, size, score, node)
    return size


@njit(cache=True)
def _sift_down(scores: Any, ids: Any, size: Any, score: Any, node: Any) -> None:
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _worse(scores[child + 1], ids[child + 1], scores[child], ids[child]):
            child += 1
        if not _worse(scores[child], ids[child], score, node):
            break
        scores[place], ids[place] = scores[child], ids[child]
        place = child
    scores[place], ids[place] = score, node


@njit(cache=True)
def heap_sort(scores: Any, ids: Any, size: Any) -> None:
    """Turn the heap into a list, best first."""
    for end in range(size - 1, 0, -1):
        score, node = scores[end], ids[end]
        scores[end], ids[end] = scores[0], ids[0]
        _sift_down(scores, ids, end, score, node)


@njit(cache=True, parallel=True)
def offer_rows(values: Any, owners: Any, candidates: Any, scores: Any, ids: Any, sizes: Any) -> None:
    """Offer ``values[r, c]`` of node ``candidates[c]`` to the heap of another node ``owners[r]``.

    Shapes:
        - values: (rows, columns); ``owners`` (rows,), ``candidates`` (columns,)
        - scores, ids: (nodes, k) heaps, of which the first ``sizes[node]`` entries are filled
    """
    for r in prange(len(owners)):
        node = owners[r]
        own_scores, own_ids, size = scores[node], ids[node], sizes[node]
        capacity = len(own_ids)
        for c in range(len(candidates)):
            value = values[r, c]
            if (size < capacity or value >= own_scores[0]) and candidates[c] != node:
                size = heap_offer(own_scores, own_ids, size, value, candidates[c])
        sizes[node] = size


@njit(cache=True, parallel=True)
def sort_heaps(scores: Any, ids: Any, sizes: Any) -> None:
    """Turn every row's heap into a list, best first."""
    for node in prange(len(ids)):
        heap_sort(scores[node], ids[node], sizes[node])


def stable_topk(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Top-k along rows with ties to the lowest column. ``torch.topk`` alone leaves ties open."""
    found, chosen = torch.topk(values, k, dim=1)
    last = found[:, -1:]
    crowded = ((values == last).sum(1) > (found == last).sum(1)) & torch.isfinite(last[:, 0])
    if bool(crowded.any()):
        rows = torch.nonzero(crowded)[:, 0]
        order = torch.sort(values[rows], dim=1, descending=True, stable=True)
        found[rows], chosen[rows] = order.values[:, :k], order.indices[:, :k]
    by_id = torch.argsort(chosen, dim=1)
    found, chosen = found.gather(1, by_id), chosen.gather(1, by_id)
    by_score = torch.sort(found, dim=1, descending=True, stable=True)
    return chosen.gather(1, by_score.indices), by_score.values


class Best:
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
        """ids and scores (n, k), best first; -1 and 0 for no neighbour."""
        if self.on_cpu:
            sort_heaps(self.scores.numpy(), self.ids.numpy(), self.sizes.numpy())
        there = torch.isfinite(self.scores)
        ids, scores = torch.where(there, self.ids, -1).to(torch.int32), torch.where(there, self.scores, 0)
        return ids.cpu().numpy(), scores.cpu().numpy()
