"""Features as methods read them, and their truncated SVD, in blocks of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit, prange

from naq.embedders.node_words import FEWEST_COLUMNS, UNCORRELATED, diffused, mean_squared_cosine
from naq.embedders.smoothing import unit_sparse_rows
from naq.graph import Graph
from naq.graph.operators import svd_rotation, svd_start
from naq.graph.weighting import idf_of, tfidf
from naq.threads import one_blas_thread
from naq_scale.blocks.shards import Arrays, Block, Pieces, Shards, below

TILE = 16
"""Columns that a thread multiplies at once: two cache lines of float64 sums."""
OVERSAMPLE, ITERATIONS = 16, 3
"""As in :func:`~naq.embedders.smoothing.truncated_svd`."""


@dataclass(frozen=True, eq=False)
class Words:
    """What :func:`~naq.embedders.node_words.node_words` or :func:`~naq.embedders.smoothing.word_weights` make of the
    features, a block at a time.

    Attributes:
        matrix: the features, CSR or dense; of a graph without any its diffusion, held in memory: some 400 bytes per node.
        change: ``none``, ``tfidf``, ``unit`` (rows of length one), ``standard`` (columns).
        arrays: statistics of columns that the change needs, and the diffusion.
    """

    matrix: Any
    change: str = "none"
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def block(self, start: int, stop: int) -> Any:
        """CSR or dense float32 (rows, w)."""
        rows = self.matrix[start:stop]
        if self.change == "tfidf":
            return tfidf(rows, self.arrays["idf"])
        if self.change == "unit":
            return unit_sparse_rows(rows)
        if self.change == "standard":
            apart, spread = rows - self.arrays["mean"], self.arrays["spread"]
            return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0).astype(np.float32)
        return rows


def read_words(graph: Graph, weighting: str, block: int, shards: Shards) -> Words:
    """Find out what the features are: one or two passes.

    Args:
        weighting: ``words`` as naq-plus reads features, ``counts`` as ``smooth`` does, ``none``.
    """
    features = graph.features
    if weighting == "words" and (features is None or not _differ(features, block)):
        near = diffused(graph)
        return Words(near, "none", {"indptr": near.indptr, "indices": near.indices, "data": near.data})
    matrix = graph.require_features("an embedding")
    if weighting == "none":
        return Words(matrix)
    if isinstance(matrix, np.ndarray):
        statistics = _standardising(matrix.shape, block, shards) if weighting == "words" else None
        return Words(matrix) if statistics is None else Words(matrix, "standard", statistics)
    starts = range(0, matrix.shape[0], block)
    if all(bool((matrix[start : start + block].data >= 0).all()) for start in starts):
        frequency = np.zeros(matrix.shape[1], dtype=np.int64)
        for start in starts:
            frequency += np.bincount(matrix[start : start + block].indices, minlength=len(frequency))
        return Words(matrix, "tfidf", {"idf": idf_of(frequency, graph.num_nodes)})
    return Words(matrix, "unit" if weighting == "words" else "none")


def _differ(features: Any, block: int) -> bool:
    """Whether any row differs from the first."""
    if isinstance(features, np.ndarray):
        starts = range(0, len(features), block)
        return any(bool((features[start : start + block] != features[0]).any()) for start in starts)
    counts = np.diff(features.indptr)
    if (counts != counts[0]).any():
        return True
    width = int(counts[0])
    return any(
        bool((values[start : start + step].reshape(-1, width) != values[:width]).any())
        for step in [max(1, block * max(1, width))]
        for start in range(0, features.nnz, step)
        for values in (features.indices, features.data)
    )


def _standardising(shape: tuple[int, int], block: int, shards: Shards) -> dict[str, np.ndarray] | None:
    """Mean and spread of dense columns, None where they are components (:func:`~naq.embedders.node_words.are_components`)."""
    n, d = shape
    found = shards.by_rows(_moments, n, {"block": block}, {})
    mean = below(found, "sums").total() / n
    apart = shards.by_rows(_spread, n, {"block": block}, {"mean": mean})
    grams = (below(each, "gram").total() for each in (found, apart))
    if d >= FEWEST_COLUMNS and n > d and any(n * mean_squared_cosine(gram) < UNCORRELATED for gram in grams):
        return None
    return {"mean": mean, "spread": np.sqrt(below(apart, "sums").total() / n)}


def _moments(block: Block) -> Arrays:
    rows = block.graph.require_features("an embedding")[block.start : block.stop]
    return {"sums": rows.sum(axis=0, dtype=np.float64)[None], "gram": (rows.T.astype(np.float64) @ rows)[None]}


def _spread(block: Block) -> Arrays:
    rows = block.graph.require_features("an embedding")[block.start : block.stop] - block.array("mean")
    return {"sums": (rows**2).sum(axis=0)[None], "gram": (rows.T @ rows)[None]}


def narrowing(words: Words, dim: int, seed: int, block: int, shards: Shards) -> tuple[dict[str, np.ndarray], int]:
    """``basis`` and ``rotation`` that make rows at most ``dim`` wide, and that width: the randomised SVD of
    :func:`~naq.embedders.smoothing.truncated_svd`, or nothing where there are few columns."""
    n, w = words.matrix.shape
    if w <= dim:
        return {}, w
    dim = min(dim, n)
    basis = svd_start((n, w), dim, seed, OVERSAMPLE)
    facts = {"change": words.change, "block": block}
    with one_blas_thread():
        for _ in range(ITERATIONS):
            image = _twice(words, basis, block, shards)
            basis = scipy.linalg.qr(image, mode="economic", check_finite=False)[0]
        gram = below(shards.by_rows(_image, n, facts, {**words.arrays, "basis": basis}), "gram").total()
        return {"basis": basis, "rotation": svd_rotation(gram, basis, dim)}, dim


def _twice(words: Words, basis: np.ndarray, block: int, shards: Shards) -> np.ndarray:
    """X^T (X basis), float32: one pass over X, and X basis is never held.

    Sparse: in shards of columns of the basis, since a sum over rows has as many numbers as there are words. Dense: of rows.
    """
    inputs = {**words.arrays, "basis": basis}
    if isinstance(words.matrix, np.ndarray):
        facts = {"change": words.change, "block": block}
        found = shards.by_rows(_dense_product, len(words.matrix), facts, inputs)
        return below(found, "product").total().astype(np.float32)
    facts = {"change": words.change, "rows_at_once": block}
    found = shards.run(_sparse_product, shards.column_bounds(basis.shape[1], TILE), facts, inputs)
    return Pieces([[part["product"] for part in found]]).whole()


def _words_of(block: Block) -> Words:
    """Those that :func:`read_words` found, in a shard."""
    arrays = {name: block.array(name) for name in ("idf", "mean", "spread") if name in block.inputs}
    matrix = block.graph.features
    if "indptr" in block.inputs:
        n = block.graph.num_nodes
        matrix = sp.csr_array(tuple(block.array(name) for name in ("data", "indices", "indptr")), shape=(n, n))
    return Words(matrix, str(block.facts["change"]), arrays)


def _sparse_product(columns: Block) -> Arrays:
    words, block = _words_of(columns), columns.facts["rows_at_once"]
    basis = np.ascontiguousarray(columns.array("basis")[:, columns.start : columns.stop], dtype=np.float32)
    total = np.zeros(basis.shape)
    for start in range(0, columns.graph.num_nodes, block):
        rows = words.block(start, start + block)
        _add_product(rows.indptr, rows.indices, rows.data, basis, total)
    return {"product": total.astype(np.float32)}


def _dense_product(block: Block) -> Arrays:
    rows = _words_of(block).block(block.start, block.stop)
    with one_blas_thread():
        return {"product": (rows.T @ (rows @ block.array("basis")))[None]}


def _image(block: Block) -> Arrays:
    with one_blas_thread():
        rows = _words_of(block).block(block.start, block.stop)
        image = np.asarray(rows @ block.array("basis"), dtype=np.float64)
        return {"gram": (image.T @ image)[None]}


def narrow_rows(block: Block) -> np.ndarray:
    """(rows, at most dim) float32, with what :func:`narrowing` found."""
    rows = _words_of(block).block(block.start, block.stop)
    if "basis" not in block.inputs:
        return np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), dtype=np.float32)
    with one_blas_thread():
        narrow = (rows @ block.array("basis")) @ block.array("rotation")
        return np.ascontiguousarray(narrow, dtype=np.float32)


@njit(cache=True, parallel=True)
def _add_product(indptr: Any, indices: Any, data: Any, basis: Any, total: Any) -> None:
    """total += X^T (X basis), a few columns of the basis per thread: every sum has one owner and one order."""
    width = basis.shape[1]
    for tile in prange((width + TILE - 1) // TILE):
        first = tile * TILE
        last = min(width, first + TILE)
        row = np.empty(TILE, dtype=np.float32)
        for r in range(len(indptr) - 1):
            row[:] = 0.0
            for e in range(indptr[r], indptr[r + 1]):
                value, source = data[e], basis[indices[e]]
                for k in range(first, last):
                    row[k - first] += value * source[k]
            for e in range(indptr[r], indptr[r + 1]):
                value, target = np.float64(data[e]), total[indices[e]]
                for k in range(first, last):
                    target[k] += value * row[k - first]
