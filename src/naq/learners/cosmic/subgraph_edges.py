"""The edges among the members of small sub-graphs, and the weights with which a centre reads its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit, prange


def induced_edges(adjacency: sp.csr_array, members: np.ndarray) -> np.ndarray:
    """(m, k, k) float32: 1 where two members of the same row are joined; no loops, zeros at -1.

    Args:
        adjacency: symmetric, without loops, indices sorted, as a graph has it.
        members: (m, k) node ids.
    """
    out = np.zeros((*members.shape, members.shape[1]), dtype=np.float32)
    _induced(adjacency.indptr, adjacency.indices, members, out)
    return out


def centre_weights(adjacency: sp.csr_array, members: np.ndarray) -> np.ndarray:
    """(m, k) float32: the first row of D~^-1/2 (A + I) D~^-1/2 inside each sub-graph, degrees counted inside it too."""
    out = np.zeros(members.shape, dtype=np.float32)
    _centres(adjacency.indptr, adjacency.indices, members, out)
    return out


@njit(cache=True)
def _joined(indptr: Any, indices: Any, a: Any, b: Any) -> Any:
    """Whether b is among the sorted neighbours of a; looked up in the shorter of the two lists."""
    if indptr[a + 1] - indptr[a] > indptr[b + 1] - indptr[b]:
        a, b = b, a
    low, high = indptr[a], indptr[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low < indptr[a + 1] and indices[low] == b


@njit(cache=True)
def _induced(indptr: Any, indices: Any, members: Any, out: Any) -> None:
    """On one core: a training step asks for a few dozen rows, microseconds each."""
    for row in range(len(members)):
        own = members[row]
        for i in range(len(own)):
            for j in range(i):
                if own[i] >= 0 and own[j] >= 0 and _joined(indptr, indices, own[i], own[j]):
                    out[row, i, j] = out[row, j, i] = 1.0


@njit(cache=True, parallel=True)
def _centres(indptr: Any, indices: Any, members: Any, out: Any) -> None:
    for row in prange(len(members)):
        own = members[row]
        degree = np.ones(len(own))
        for i in range(len(own)):
            for j in range(i):
                if own[i] >= 0 and own[j] >= 0 and _joined(indptr, indices, own[i], own[j]):
                    degree[i] += 1.0
                    degree[j] += 1.0
        out[row, 0] = 1.0 / degree[0]
        for i in range(1, len(own)):
            if own[i] >= 0 and _joined(indptr, indices, own[0], own[i]):
                out[row, i] = 1.0 / np.sqrt(degree[0] * degree[i])
