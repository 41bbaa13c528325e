"""Features as methods read them, and their truncated SVD, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit, prange

from naq.embedders.node_words import FEWEST_COLUMNS, UNCORRELATED, diffused, mean_squared_cosine
from naq.embedders.smoothing import svd_rotation, svd_start
from naq.graph import Graph
from naq.graph.weighting import idf_of, tfidf
from naq.threads import one_blas_thread

TILE = 16
"""Columns that a thread multiplies at once: two cache lines of float64 sums."""
OVERSAMPLE, ITERATIONS = 16, 3
"""As in :func:`~naq.embedders.smoothing.truncated_svd`."""

Narrow = Callable[[Any], np.ndarray]


class Words:
    """What :func:`~naq.embedders.node_words.node_words` (``words``) or :func:`~naq.embedders.smoothing.word_weights` (``counts``) make of the features, a block at a time.

    Statistics of columns are taken when it is made, in one or two passes. A graph without features is described by diffusion, which is held in memory: some 400 bytes per node.
    """

    def __init__(self, graph: Graph, weighting: str, block: int) -> None:
        self.nodes, self.rows_at_once = graph.num_nodes, block
        self._change: Callable[[Any], Any] = lambda rows: rows
        features = graph.features
        by_diffusion = weighting == "words" and (features is None or not _differ(features, block))
        self.matrix: Any = diffused(graph) if by_diffusion else graph.require_features("an embedding")
        self.sparse = not isinstance(self.matrix, np.ndarray)
        if by_diffusion or weighting == "none":
            return
        if self.sparse and self._counted():
            frequency = np.zeros(self.matrix.shape[1], dtype=np.int64)
            for part in self._raw():
                frequency += np.bincount(part.indices, minlength=len(frequency))
            idf = idf_of(frequency, self.nodes)
            self._change = lambda rows: tfidf(rows, idf)
        elif self.sparse and weighting == "words":
            self._change = _unit_sparse
        elif weighting == "words":
            self._standardise()

    def _raw(self) -> Iterator[Any]:
        for start in range(0, self.nodes, self.rows_at_once):
            yield self.matrix[start : start + self.rows_at_once]

    def _counted(self) -> bool:
        return all(bool((part.data >= 0).all()) for part in self._raw())

    def _standardise(self) -> None:
        """Mean and spread of dense columns, unless they are components (:func:`~naq.embedders.node_words.are_components`)."""
        n, d = self.matrix.shape
        total, gram = np.zeros(d), np.zeros((d, d))
        for part in self._raw():
            total += part.sum(axis=0, dtype=np.float64)
            gram += part.T.astype(np.float64) @ part
        mean = total / n
        squares, apart = np.zeros(d), np.zeros((d, d))
        for part in self._raw():
            rows = part - mean
            squares += (rows**2).sum(axis=0)
            apart += rows.T @ rows
        if d >= FEWEST_COLUMNS and n > d and any(n * mean_squared_cosine(one) < UNCORRELATED for one in (gram, apart)):
            return
        spread = np.sqrt(squares / n)

        def standardised(rows: np.ndarray) -> np.ndarray:
            difference = rows - mean
            return np.divide(difference, spread, out=np.zeros_like(difference), where=spread > 0).astype(np.float32)

        self._change = standardised

    def block(self, start: int, stop: int) -> Any:
        """CSR or dense float32 (rows, w)."""
        return self._change(self.matrix[start:stop])

    def narrowing(self, dim: int, seed: int) -> tuple[Narrow, int]:
        """What makes a block (rows, at most dim), and that width: the randomised SVD of :func:`~naq.embedders.smoothing.truncated_svd`, or nothing where there are few columns."""
        if self.matrix.shape[1] <= dim:
            return _dense, self.matrix.shape[1]
        dim = min(dim, self.nodes)
        basis = svd_start(self.matrix.shape, dim, seed, OVERSAMPLE)
        with one_blas_thread():
            for _ in range(ITERATIONS):
                basis = scipy.linalg.qr(self._twice(basis), mode="economic", check_finite=False)[0]
            gram = np.zeros((basis.shape[1], basis.shape[1]))
            for start in range(0, self.nodes, self.rows_at_once):
                image = np.asarray(self.block(start, start + self.rows_at_once) @ basis, dtype=np.float64)
                gram += image.T @ image
            rotation = svd_rotation(gram, basis, dim)

        def narrow(rows: Any) -> np.ndarray:
            with one_blas_thread():
                return np.ascontiguousarray((rows @ basis) @ rotation, dtype=np.float32)

        return narrow, dim

    def _twice(self, basis: np.ndarray) -> np.ndarray:
        """X^T (X basis), float32: one pass over X, and X basis is never held."""
        total = np.zeros(basis.shape, dtype=np.float64)
        for start in range(0, self.nodes, self.rows_at_once):
            rows = self.block(start, start + self.rows_at_once)
            if self.sparse:
                _add_product(rows.indptr, rows.indices, rows.data, np.ascontiguousarray(basis, dtype=np.float32), total)
            else:
                total += rows.T @ (rows @ basis)
        return total.astype(np.float32)


def _dense(rows: Any) -> np.ndarray:
    return np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), dtype=np.float32)


def _unit_sparse(rows: sp.csr_array) -> sp.csr_array:
    rows = sp.csr_array(rows, dtype=np.float64)
    length = np.sqrt(rows.power(2).sum(axis=1))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return sp.csr_array(sp.diags_array(scale) @ rows, dtype=np.float32)


def _differ(features: Any, block: int) -> bool:
    """Whether any row differs from the first."""
    if isinstance(features, np.ndarray):
        return any(
            bool((features[start : start + block] != features[0]).any()) for start in range(0, len(features), block)
        )
    counts = np.diff(features.indptr)
    if (counts != counts[0]).any():
        return True
    step = max(1, block * max(1, int(counts[0])))
    first = slice(0, int(counts[0]))
    for start in range(0, features.nnz, step):
        for values in (features.indices, features.data):
            part = values[start : start + step].reshape(-1, int(counts[0]))
            if (part != values[first]).any():
                return True
    return False


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
