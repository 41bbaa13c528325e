r"""Neighbours of dense vectors: top-k by cosine, exact in blocks, or nearly so on large graphs.

.. math:: S_{ij} = \frac{z_i \cdot z_j}{|z_i| |z_j|}

Exact: O(n^2 d) products and O(block x n) memory. Above ``EXACT_NODES`` nodes by :mod:`naq_scale.near_vectors`, whose
share of the true neighbours, measured on a sample, is in ``info["recall"]``.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from naq.device import checked_device
from naq.errors import OptionError
from naq.neighbors.table import NeighborTable
from naq.neighbors.topk import Best, Lists, Progress
from naq.options import check_whole, imported

EXACT_NODES = {"cpu": 60_000, "cuda": 1_000_000}
"""Nodes up to which every pair is compared, unless the caller says otherwise."""
ENTRIES = 1 << 24
"""Scores held at once; 64 MiB."""


def vector_neighbors(
    vectors: np.ndarray | torch.Tensor, k: int = 10, *, exact: bool | None = None, device: str | torch.device = "cpu",
    seed: int = 0, progress: Progress = None,
) -> NeighborTable:  # fmt: skip
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
    rows = _unit_tensor(vectors, checked_device(device))
    n = len(rows)
    if not 1 <= k < n:
        raise OptionError(f"k is {k}, but there are {n:,} vectors, so one has {max(n - 1, 0):,} others; lower k.")
    if exact is None:
        exact = n <= EXACT_NODES["cpu" if rows.device.type == "cpu" else "cuda"]
    info = {"kind": "vectors", "metric": "cosine", "k": k, "search": "exact" if exact else "descent"}
    if exact:
        if rows.device.type == "cpu":
            return NeighborTable(*nearest_by_symmetry(rows, k, progress), info)
        return NeighborTable(*nearest_rows(rows, torch.arange(n, device=rows.device), k, progress), info)
    ids, scores, recall = imported("naq_scale.near_vectors:near_table")(rows, k, seed, progress)
    return NeighborTable(ids, scores, {**info, "recall": recall})


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


def nearest_rows(rows: torch.Tensor, wanted: torch.Tensor, k: int, progress: Progress, entries: int = ENTRIES) -> Lists:
    """ids and scores (wanted, k): every pair is compared, a block of rows at a time."""
    there = torch.nonzero(rows.any(dim=1))[:, 0]
    kept, best = rows[there], Best(len(rows), k, rows.device)
    wanted = wanted[rows[wanted].any(dim=1)]
    block = max(1, entries // max(1, len(kept)))
    for start in range(0, len(wanted), block):
        these = wanted[start : start + block]
        best.offer(rows[these] @ kept.T, these, there)
        if progress is not None:
            progress(min(start + block, len(wanted)), len(wanted))
    return best.arrays()


def nearest_by_symmetry(rows: torch.Tensor, k: int, progress: Progress, entries: int = ENTRIES) -> Lists:
    """As :func:`nearest_rows` for all rows: S is symmetric, so half of its blocks are computed and read twice."""
    there = torch.nonzero(rows.any(dim=1))[:, 0]
    kept, best = rows[there], Best(len(rows), k, rows.device)
    block = math.isqrt(entries)
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
