"""Twins: nodes with the same neighbours. Swapping two of them changes nothing in the graph, so every node is equally near to both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from naq.random import mixed


def twins(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """(n,) int32, equal for nodes with the same neighbours, themselves and each other left aside; found by hashes of 64 bits.

    >>> twins(np.array([0, 2, 3, 4, 4]), np.array([1, 2, 0, 0])).tolist()
    [0, 1, 1, 3]
    """
    apart, joined = _neighbor_hashes(indptr, indices)
    label = np.arange(len(apart), dtype=np.int32)
    for code in (apart, joined):  # no node has twins of both kinds, not joined to it and joined
        _, first, group, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        label = np.where(count[group] > 1, first[group].astype(np.int32), label)
    return label


@njit(cache=True)
def _neighbor_hashes(indptr: Any, indices: Any) -> Any:
    """Two times (n,) uint64: sums of the hashes of a node's neighbours, without and with its own."""
    n = len(indptr) - 1
    apart, joined = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
    for u in range(n):
        total = np.uint64(0)
        for e in range(indptr[u], indptr[u + 1]):
            if indices[e] != u:
                total += _hash(indices[e])
        apart[u], joined[u] = total, total + _hash(u)
    return apart, joined


@njit(cache=True)
def _hash(node: Any) -> Any:
    return mixed(np.uint64(node) + np.uint64(0x9E3779B97F4A7C15))
