"""Features as methods read them, and their truncated SVD, in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit, prange

from naq.embedders.node_words import FEWEST_COLUMNS, UNCORRELATED, diffused, mean_squared_cosine
from naq.graph import Graph
from naq.graph.operators import svd_rotation, svd_start
from naq.graph.weighting import idf_of, tfidf
from naq.threads import one_blas_thread
from naq_scale.blocks.parts import Arrays, Parts, Work, stage
from naq_scale.blocks.pieces import Pieces

TILE = 16
"""Columns that a thread multiplies at once: two cache lines of float64 sums."""
OVERSAMPLE, ITERATIONS = 16, 3
"""As in :func:`~naq.embedders.smoothing.truncated_svd`."""


@dataclass(frozen=True, eq=False)
class Words:
    """What :func:`~naq.embedders.node_words.node_words` or :func:`~naq.embedders.smoothing.word_weights` make of the features, a block at a time.

    Attributes:
        matrix: the features, CSR or dense; of a graph without any its diffusion, which is held in memory: some 400 bytes per node.
        change: ``none``, ``tfidf``, ``unit`` (rows of length one), ``standard`` (columns).
        arrays: statistics of columns that the change needs, and the diffusion.
    """

    matrix: Any
    change: str = "none"
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def sparse(self) -> bool:
        return not isinstance(self.matrix, np.ndarray)

    def block(self, start: int, stop: int) -> Any:
        """CSR or dense float32 (rows, w)."""
        rows = self.matrix[start:stop]
        if self.change == "tfidf":
            return tfidf(rows, self.arrays["idf"])
        if self.change == "unit":
            return _unit_sparse(rows)
        if self.change == "standard":
            apart, spread = rows - self.arrays["mean"], self.arrays["spread"]
            return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0).astype(np.float32)
        return rows


def read_words(graph: Graph, weighting: str, block: int, parts: Parts) -> Words:
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
        statistics = _standardising(matrix.shape, block, parts) if weighting == "words" else None
        return Words(matrix) if statistics is None else Words(matrix, "standard", statistics)
    if all(bool((part.data >= 0).all()) for part in _blocks(matrix, block)):
        frequency = np.zeros(matrix.shape[1], dtype=np.int64)
        for part in _blocks(matrix, block):
            frequency += np.bincount(part.indices, minlength=len(frequency))
        return Words(matrix, "tfidf", {"idf": idf_of(frequency, graph.num_nodes)})
    return Words(matrix, "unit" if weighting == "words" else "none")


def words_in(work: Work) -> Words:
    """Those that :func:`read_words` found, in a part."""
    arrays = {name: work.array(name) for name in ("idf", "mean", "spread") if name in work.inputs}
    matrix = work.graph.features
    if "indptr" in work.inputs:
        n = work.graph.num_nodes
        matrix = sp.csr_array(tuple(work.array(name) for name in ("data", "indices", "indptr")), shape=(n, n))
    return Words(matrix, str(work.facts["change"]), arrays)


def _standardising(shape: tuple[int, int], block: int, parts: Parts) -> dict[str, np.ndarray] | None:
    """Mean and spread of dense columns, None where they are components (:func:`~naq.embedders.node_words.are_components`)."""
    n, d = shape
    found = parts.run("moments", parts.row_bounds(n, block), {"block": block}, {})
    mean = Pieces([[part["sums"]] for part in found]).total() / n
    apart = parts.run("spread", parts.row_bounds(n, block), {"block": block}, {"mean": mean})
    grams = (Pieces([[part["gram"]] for part in each]).total() for each in (found, apart))
    if d >= FEWEST_COLUMNS and n > d and any(n * mean_squared_cosine(gram) < UNCORRELATED for gram in grams):
        return None
    return {"mean": mean, "spread": np.sqrt(Pieces([[part["sums"]] for part in apart]).total() / n)}


@stage("moments")
def _moments(work: Work, start: int, stop: int) -> Arrays:
    rows = work.graph.require_features("an embedding")[start:stop]
    gram = rows.T.astype(np.float64) @ rows
    return {"sums": rows.sum(axis=0, dtype=np.float64)[None], "gram": gram[None]}


@stage("spread")
def _spread(work: Work, start: int, stop: int) -> Arrays:
    rows = work.graph.require_features("an embedding")[start:stop] - work.array("mean")
    return {"sums": (rows**2).sum(axis=0)[None], "gram": (rows.T @ rows)[None]}


def narrowing(words: Words, dim: int, seed: int, block: int, parts: Parts) -> tuple[dict[str, np.ndarray], int]:
    """``basis`` and ``rotation`` that make rows at most ``dim`` wide, and that width: the randomised SVD of :func:`~naq.embedders.smoothing.truncated_svd`, or nothing where there are few columns."""
    n, w = words.matrix.shape
    if w <= dim:
        return {}, w
    dim = min(dim, n)
    basis = svd_start((n, w), dim, seed, OVERSAMPLE)
    facts = {"change": words.change, "block": block}
    with one_blas_thread():
        for _ in range(ITERATIONS):
            image = _twice(words, basis, block, parts)
            basis = scipy.linalg.qr(image, mode="economic", check_finite=False)[0]
        gram = parts.by_rows("image", n, facts, {**words.arrays, "basis": basis}, "gram").total()
        return {"basis": basis, "rotation": svd_rotation(gram, basis, dim)}, dim


def _twice(words: Words, basis: np.ndarray, block: int, parts: Parts) -> np.ndarray:
    """X^T (X basis), float32: one pass over X, and X basis is never held.

    Sparse: in parts of columns of the basis, since a sum over rows has as many numbers as there are words. Dense: in parts of rows.
    """
    inputs = {**words.arrays, "basis": basis}
    if words.sparse:
        facts = {"change": words.change, "rows_at_once": block}
        found = parts.run("sparse product", parts.column_bounds(basis.shape[1], TILE), facts, inputs)
        return Pieces([[part["product"] for part in found]]).whole()
    facts = {"change": words.change, "block": block}
    found = parts.run("dense product", parts.row_bounds(len(words.matrix), block), facts, inputs)
    return Pieces([[part["product"]] for part in found]).total().astype(np.float32)


@stage("sparse product")
def _sparse_product(work: Work, first: int, last: int) -> Arrays:
    words, block = words_in(work), work.facts["rows_at_once"]
    basis = np.ascontiguousarray(work.array("basis")[:, first:last], dtype=np.float32)
    total = np.zeros(basis.shape)
    for start in range(0, work.graph.num_nodes, block):
        rows = words.block(start, start + block)
        _add_product(rows.indptr, rows.indices, rows.data, basis, total)
    return {"product": total.astype(np.float32)}


@stage("dense product")
def _dense_product(work: Work, start: int, stop: int) -> Arrays:
    rows = words_in(work).block(start, stop)
    with one_blas_thread():
        return {"product": (rows.T @ (rows @ work.array("basis")))[None]}


@stage("image")
def _image(work: Work, start: int, stop: int) -> Arrays:
    with one_blas_thread():
        image = np.asarray(words_in(work).block(start, stop) @ work.array("basis"), dtype=np.float64)
        return {"gram": (image.T @ image)[None]}


def narrow_rows(work: Work, start: int, stop: int) -> np.ndarray:
    """(rows, at most dim) float32, with what :func:`narrowing` found."""
    rows = words_in(work).block(start, stop)
    if "basis" not in work.inputs:
        return np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), dtype=np.float32)
    with one_blas_thread():
        narrow = (rows @ work.array("basis")) @ work.array("rotation")
        return np.ascontiguousarray(narrow, dtype=np.float32)


def _blocks(matrix: Any, block: int) -> Iterator[Any]:
    for start in range(0, matrix.shape[0], block):
        yield matrix[start : start + block]


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
