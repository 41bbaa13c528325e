"""Receptive fields of many node sets of one size, filled up to common shapes: what a step of fixed shape reads.

A field is the nodes whose first-layer rows a set of nodes reads, and the rows of A_hat between both. Filled up, it is a list of ``size`` nodes,
node 0 in the places that are not used, and a dense matrix with zeros there: the unused places change neither a value nor a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numba import njit, prange

STEPS = 4
"""Sizes per doubling that fields are filled up to: at most a fifth of a field is unused, and few shapes occur."""
SMALLEST = 64


@dataclass(frozen=True)
class PaddedFields:
    """Fields of node sets of ``rows`` nodes each, as what a device fills dense matrices from.

    Shapes:
        - ``around``: (count, width) int64, nodes of the first layer
        - ``place``, ``value``: (entries,) int64 and float32, the non-zeros of a (count, rows, width) matrix by their flat places
    """

    around: np.ndarray
    place: np.ndarray
    value: np.ndarray


def padded_sizes(fields: np.ndarray) -> np.ndarray:
    """The sizes that fields of so many nodes are filled up to.

    >>> padded_sizes(np.array([1, 64, 65, 300])).tolist()
    [64, 64, 80, 320]
    """
    doubling = np.exp2(np.floor(np.log2(np.maximum(fields - 1, SMALLEST // 2))))
    step = doubling / STEPS
    return np.maximum(SMALLEST, np.ceil(fields / step) * step).astype(np.int64)


def field_sizes(adjacency: sp.csr_array, nodes: np.ndarray) -> np.ndarray:
    """(count,) nodes in the field of each row of ``nodes`` (count, rows); -1 stands for no node."""
    return _sizes(adjacency.indptr, adjacency.indices, nodes, numba.get_num_threads(), adjacency.shape[0])


def padded_fields(adjacency: sp.csr_array, nodes: np.ndarray, width: int) -> PaddedFields:
    """The fields of each row of ``nodes`` (count, rows), filled up to ``width``, none of which may be larger; -1 stands for no node."""
    there = nodes >= 0
    lengths = np.where(there, np.diff(adjacency.indptr)[nodes], 0).sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    around = np.zeros((len(nodes), width), dtype=np.int64)
    place, value = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1], dtype=np.float32)
    threads = numba.get_num_threads()
    _fill(adjacency.indptr, adjacency.indices, adjacency.data, nodes, threads, adjacency.shape[0], starts, around, place, value)  # fmt: skip
    return PaddedFields(around, place, value)


@njit(cache=True, parallel=True)
def _sizes(indptr: Any, indices: Any, nodes: Any, threads: Any, n: Any) -> Any:
    out = np.zeros(len(nodes), dtype=np.int64)
    share = (len(nodes) + threads - 1) // threads
    for job in prange(threads):
        seen = np.full(n, -1, dtype=np.int32)
        for c in range(job * share, min(len(nodes), (job + 1) * share)):
            count = 0
            for node in nodes[c]:
                if node >= 0:
                    for e in range(indptr[node], indptr[node + 1]):
                        if seen[indices[e]] != c:
                            seen[indices[e]] = c
                            count += 1
            out[c] = count
    return out


@njit(cache=True, parallel=True)
def _fill(
    indptr: Any, indices: Any, data: Any, nodes: Any, threads: Any, n: Any, starts: Any, around: Any, place: Any, value: Any
) -> None:  # fmt: skip
    rows, width = nodes.shape[1], around.shape[1]
    share = (len(nodes) + threads - 1) // threads
    for job in prange(threads):
        local = np.full(n, -1, dtype=np.int32)
        for c in range(job * share, min(len(nodes), (job + 1) * share)):
            count, at = 0, starts[c]
            for r in range(rows):
                node = nodes[c, r]
                if node < 0:
                    continue
                for e in range(indptr[node], indptr[node + 1]):
                    other = indices[e]
                    if local[other] < 0:
                        local[other] = count
                        around[c, count] = other
                        count += 1
                    place[at] = (np.int64(c) * rows + r) * width + local[other]
                    value[at] = data[e]
                    at += 1
            for f in range(count):
                local[around[c, f]] = -1
