"""Random draws keyed by the content of a node: they depend neither on its id nor on the order in which nodes are read.

A node's name is a hash of its features and surroundings (:func:`node_codes`); nodes with the same hash are numbered in
the order of their ids. A draw is a hash of (key, name, column). The receptive field of an episode therefore gets the
dropout that a pass over the whole graph would give it, and renumbered nodes keep their draws, up to a swap of nodes
with the same hash.

Cost: names once, linear in edges and non-zeros but for one sort; a draw takes some nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange

from naq.graph import Graph
from naq.nn.rows import SparseRows
from naq.random import mixed

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ROUNDS = 2
"""How many hops of surroundings enter a node's code."""


def node_codes(graph: Graph) -> np.ndarray:
    """(n,) uint64 hashes of features and surroundings within two hops; ids do not enter, so equal nodes have equal
    codes."""
    features = graph.require_features("codes of nodes")
    if isinstance(features, np.ndarray):
        n, d = features.shape
        codes = _codes(np.arange(n + 1) * d, np.arange(d), np.ascontiguousarray(features).view(np.uint32).ravel())
    else:
        codes = _codes(features.indptr, features.indices, features.data.view(np.uint32))
    for _ in range(ROUNDS):
        codes = _surround(graph.adjacency.indptr, graph.adjacency.indices, codes)
    return codes


def node_names(graph: Graph) -> np.ndarray:
    """(n,) uint64, different for different nodes."""
    codes = node_codes(graph)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.append(True, ordered[1:] != ordered[:-1])
    place = np.arange(len(codes))
    rank = place - np.maximum.accumulate(np.where(starts, place, 0))
    names = np.empty_like(codes)
    names[order] = _combine(ordered, rank.astype(np.uint64))
    return names


def draw_keys(names: np.ndarray, salt: np.uint64) -> np.ndarray:
    """(n,) uint64, one uniform draw for each node."""
    return _combine(names, np.full(len(names), salt))


@dataclass(frozen=True)
class NodeDropout:
    """Factors 0 (with probability ``share``) and 1 / (1 - ``share``), one for each node and column.

    Args:
        names: of all nodes, by :func:`node_names`.
        share: at least 0 and below 1.
        salt: names the set of draws, by :func:`naq.random.word`.
    """

    names: np.ndarray
    share: float
    salt: np.uint64

    def dense(self, nodes: np.ndarray, width: int) -> np.ndarray:
        """(nodes, width) float32."""
        columns = np.tile(np.arange(width, dtype=np.int32), len(nodes))
        return self._draws(nodes, np.arange(len(nodes) + 1) * width, columns).reshape(len(nodes), width)

    def sparse(self, nodes: np.ndarray, rows: SparseRows) -> np.ndarray:
        """(entries,) float32 for the entries of ``rows``, which belong to ``nodes``: the same draws at the same
        columns."""
        return self._draws(nodes, rows.indptr, rows.indices)

    def _draws(self, nodes: np.ndarray, indptr: np.ndarray, columns: np.ndarray) -> np.ndarray:
        bar, scale = np.uint64(int(self.share * 2.0**64)), np.float32(1.0 / (1.0 - self.share))
        return _factors(self.names[nodes], self.salt, bar, scale, indptr, columns)


@njit(cache=True)
def hash_word(x: Any) -> Any:
    """A hash of one word, 0 included."""
    return mixed(np.uint64(x) + GOLDEN)


@njit(cache=True)
def _combine(one: Any, two: Any) -> Any:
    """A hash of two words each."""
    return mixed(one + mixed(two + GOLDEN))


@njit(cache=True, parallel=True)
def _factors(names: Any, salt: Any, bar: Any, scale: Any, indptr: Any, indices: Any) -> Any:
    out = np.empty(len(indices), dtype=np.float32)
    for i in prange(len(names)):
        start = mixed(names[i] ^ salt)
        for e in range(indptr[i], indptr[i + 1]):
            kept = mixed(start + np.uint64(indices[e] + 1) * GOLDEN) >= bar
            out[e] = scale if kept else np.float32(0.0)
    return out


@njit(cache=True, parallel=True)
def _codes(indptr: Any, indices: Any, bits: Any) -> Any:
    """Of rows with these entries; dense rows give their columns once for all."""
    codes = np.empty(len(indptr) - 1, dtype=np.uint64)
    for i in prange(len(codes)):
        total = np.uint64(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += hash_word((np.uint64(indices[e % len(indices)]) << np.uint64(32)) | np.uint64(bits[e]))
        codes[i] = hash_word(total)
    return codes


@njit(cache=True, parallel=True)
def _surround(indptr: Any, indices: Any, codes: Any) -> Any:
    """Codes of nodes with their neighbours; a sum, so that the order of neighbours does not matter."""
    out = np.empty_like(codes)
    for i in prange(len(codes)):
        total = np.uint64(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += hash_word(codes[indices[e]])
        out[i] = hash_word(codes[i] ^ hash_word(total))
    return out
