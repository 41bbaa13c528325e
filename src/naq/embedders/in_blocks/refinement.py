"""The closed form of NaQ (:mod:`naq.embedders.refinement`) on rows in a file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from naq.embedders.in_blocks.row_file import RowFile, centre
from naq.embedders.refinement import MUTUAL, PAIRS, removal_of, sharpening_of
from naq.embedders.smoothing import unit
from naq.errors import OptionError
from naq.neighbors import vector_neighbors
from naq.neighbors.sampled import sampled_neighbors
from naq.randomness import stream

SEARCHED = 1 << 16
"""Nodes whose neighbours are sought: all where there are no more, else a sample of so many."""
PAIRS_AT_ONCE = 1 << 16


def closed_form(
    out: RowFile, *, neighbors: int, pairs: str, shrink: float, power: float, seed: int, block: int
) -> None:
    """:func:`~naq.embedders.refinement.refined` of the rows, in their place."""
    n, d = out.array.shape
    centre(out.rows, out.write, n, block)
    if n <= 2 or d <= 1:
        return
    found = near_pairs(out.array, min(neighbors, n - 1), pairs, seed, block)
    matrix = removal_of(_scatter(out.array, found), shrink) if len(found) else None
    if matrix is not None:
        centre(_times(out, matrix), out.write, n, block)
    gram = np.zeros((d, d))
    for start in range(0, n, block):
        part = torch.from_numpy(out.rows(start, start + block)).double()
        gram += (part.T @ part).numpy()
    sharp = sharpening_of(gram, power)
    if sharp is not None:
        turned = _times(out, sharp)
        for start in range(0, n, block):
            out.write(start, unit(turned(start, start + block)))


def near_pairs(rows: np.ndarray, k: int, pairs: str, seed: int, block: int) -> np.ndarray:
    """(pairs, 2) of near nodes: of all nodes, or a sample of ``SEARCHED`` of them."""
    n = len(rows)
    if n <= SEARCHED:
        return PAIRS[pairs](vector_neighbors(np.array(rows), k, seed=seed))
    if pairs == MUTUAL:
        raise OptionError(
            f"pairs is 'mutual', which needs the neighbours of every node, but there are {n:,} nodes and {SEARCHED:,} is the most in blocks; use pairs='nearest'."
        )
    wanted = np.sort(stream(seed, "closed-form/sample").choice(n, SEARCHED, replace=False))
    ids = sampled_neighbors(rows, wanted, k, seed=seed, block=block)[0]
    return np.stack([np.repeat(wanted, k), ids.ravel()], axis=1)[ids.ravel() >= 0]


def _times(out: RowFile, matrix: np.ndarray) -> Callable[[int, int], np.ndarray]:
    """Rows times a (d, d) matrix."""
    there = torch.from_numpy(matrix).float()
    return lambda start, stop: (torch.from_numpy(out.rows(start, stop)) @ there).numpy()


def _scatter(rows: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(d, d) float64: the mean of (z_i - z_j)(z_i - z_j)^T / 2 over the pairs."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        part = pairs[start : start + PAIRS_AT_ONCE]
        used, place = np.unique(part, return_inverse=True)
        held = torch.from_numpy(np.array(rows[used]))
        ends = torch.from_numpy(place.reshape(part.shape))
        apart = (held[ends[:, 0]] - held[ends[:, 1]]).double()
        total += (apart.T @ apart).numpy()
    return total / (2 * len(pairs))
