r"""Features made narrow and averaged over the graph: what ``smooth`` and ``naq-plus`` start from.

.. math::
    Z_0 = \mathrm{SVD}_d(X), \qquad Z \leftarrow 0.85\, \hat A Z + 0.15\, Z_0

Every function takes NumPy and SciPy arrays, or tensors on a device, and answers in kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from naq.graph import Graph
from naq.graph.checks import FEW, as_dense
from naq.graph.operators import csr_tensor, svd_basis, svd_rotation, svd_start
from naq.graph.weighting import is_counted, tfidf
from naq.threads import one_blas_thread
from naq.unit_rows import unit_rows

SHORTEST = 1e-12  # vectors no longer than this become zero
ROUNDING = 1e-6  # vectors of length one that lie no further apart are the same: float32 knows no better
OUTLIER = 8.0  # numbers lie within so many times their usual distance from the median; beyond it they count as this far
STAY = 0.15  # the share of a node's own start in each step of ``ppr`` smoothing
Matrix = Any  # dense or sparse: NumPy, SciPy or torch


def word_weights(graph: Graph, method: str) -> sp.csr_array | np.ndarray:
    """TF-IDF of features that are sparse and non-negative; others as they are."""
    features = graph.require_features(method)
    return tfidf(features) if is_counted(graph) else features


def on_device(matrix: sp.csr_array | np.ndarray, device: torch.device) -> Matrix:
    """The matrix where it is computed with: itself on the CPU, a tensor on other devices."""
    if device.type == "cpu":
        return matrix
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device)
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape, device, torch.float32)


def narrowed(matrix: Matrix, dim: int, seed: int, transposed: Matrix = None) -> Matrix:
    """(n, at most dim) float32: U S of a truncated SVD, or the matrix itself where it is no wider."""
    if matrix.shape[1] <= dim:
        if isinstance(matrix, torch.Tensor):
            return (matrix.to_dense() if matrix.layout != torch.strided else matrix).float()
        return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), dtype=np.float32)
    with one_blas_thread():
        return truncated_svd(matrix, min(dim, matrix.shape[0]), seed, transposed=transposed)


def smoothed(adjacency: Matrix, start: Matrix, steps: int, smoothing: str = "ppr") -> Matrix:
    """``steps`` of 0.85 A_hat Z + 0.15 Z_0 (``ppr``), or A_hat applied ``steps`` times (``hops``)."""
    vectors = start
    for _ in range(steps):
        vectors = adjacency @ vectors
        if smoothing == "ppr":
            vectors = (1 - STAY) * vectors + STAY * start
    return vectors if isinstance(vectors, torch.Tensor) else np.asarray(vectors, dtype=np.float32)


def unit(vectors: Matrix, shortest: float = SHORTEST) -> Matrix:
    """Rows of length one; those no longer than ``shortest`` become zero."""
    if isinstance(vectors, np.ndarray):
        return unit_rows(vectors, shortest)
    length = vectors.double().norm(dim=1, keepdim=True)
    return torch.where(length > shortest, vectors / length.clamp(min=shortest), 0.0).to(vectors.dtype)


def centred(vectors: Matrix) -> Matrix:
    """Rows of length one, minus the mean of all, of length one again; rows within ``ROUNDING`` of the mean become zero."""
    vectors = unit(vectors)
    if isinstance(vectors, np.ndarray):
        return unit(vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype), ROUNDING)
    return unit(vectors - vectors.double().mean(dim=0).to(vectors.dtype), ROUNDING)


def narrow(kind: str, columns: sp.csr_array | np.ndarray, width: int, seed: int = 0) -> np.ndarray:
    """(n, at most width) float32: a block of features weighted (:func:`weigh`), cut by SVD and :func:`balanced`."""
    rows = weigh(kind, columns)
    return balanced(narrowed(rows, width, seed), kind == "numbers" and rows.shape[1] < FEW, kind == "vectors")


def weigh(kind: str, columns: sp.csr_array | np.ndarray) -> sp.csr_array | np.ndarray:
    """A block of features as its kind (:data:`naq.graph.KINDS`) asks for: words and categories by TF-IDF, numbers
    standardised, vectors and whatever has negative values at length one."""
    if kind == "numbers":
        return standardised(as_dense(columns))
    if kind == "vectors" or isinstance(columns, np.ndarray):
        return unit_rows(np.asarray(as_dense(columns), dtype=np.float32))
    if (columns.data >= 0).all():
        return tfidf(sp.csr_array(columns))
    return unit_sparse_rows(columns)


def unit_sparse_rows(columns: sp.csr_array) -> sp.csr_array:
    """Rows of length one; empty ones stay empty."""
    rows = sp.csr_array(columns, dtype=np.float64)
    length = np.sqrt(rows.power(2).sum(axis=1))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return sp.csr_array(sp.diags_array(scale) @ rows, dtype=np.float32)


def standardised(columns: np.ndarray) -> np.ndarray:
    """(n, d) float32: columns in units of their usual distance from the median, none beyond ``OUTLIER``; a constant one is 0."""
    apart = columns.astype(np.float64)
    apart -= np.median(apart, axis=0)
    far = np.abs(apart)
    usual = np.minimum(far, np.quantile(far, 0.99, axis=0)).mean(axis=0)
    usual = np.where(usual > 0, usual, far.mean(axis=0))
    shown = np.clip(np.divide(apart, usual, out=np.zeros_like(apart), where=usual > 0), -OUTLIER, OUTLIER)
    return np.asarray(shown - shown.mean(axis=0), dtype=np.float32)


def balanced(rows: np.ndarray, few: bool = False, gaps: bool = False) -> np.ndarray:
    """A block of columns that weighs as much as others: centred unit rows; ``few`` columns are centred, their rows have a
    mean square of one. Where there may be ``gaps``, rows of zeros stay so: such nodes are like their neighbours."""
    if not few:
        return np.asarray(centred(rows) * rows.any(axis=1, keepdims=True) if gaps else centred(rows))
    apart = rows - rows.mean(axis=0, dtype=np.float64)
    size = np.sqrt((apart**2).sum(axis=1).mean())
    return np.asarray(apart / size if size > ROUNDING else 0 * apart, dtype=np.float32)


def truncated_svd(
    matrix: Matrix, dim: int, seed: int, *, oversample: int = 16, iterations: int = 3, transposed: Matrix = None
) -> Matrix:
    """U S of a randomised SVD (Halko, Martinsson, Tropp 2011); the random vectors belong to columns, not to rows.

    So renumbering the nodes renumbers the result. Signs are fixed by the largest entry of each right vector.

    Args:
        transposed: the transpose where it is at hand; a sparse tensor needs it.
    """
    basis = svd_start(matrix.shape, dim, seed, oversample)
    if isinstance(matrix, torch.Tensor):
        return _svd_on_device(matrix, matrix.T if transposed is None else transposed, basis, dim, iterations)
    basis = svd_basis(matrix, basis, iterations)
    image = matrix @ basis
    rotation = svd_rotation(image.T.astype(np.float64) @ image.astype(np.float64), basis, dim)
    return np.ascontiguousarray(image @ rotation, dtype=np.float32)


def _svd_on_device(matrix: Matrix, turned: Matrix, start: np.ndarray, dim: int, iterations: int) -> torch.Tensor:
    basis = torch.from_numpy(start).to(matrix.device)
    for _ in range(iterations):
        basis = torch.linalg.qr(turned @ (matrix @ basis)).Q
    image = matrix @ basis
    gram = (image.double().T @ image.double()).cpu().numpy()
    rotation = svd_rotation(gram, basis.cpu().numpy(), dim)
    return image @ torch.from_numpy(rotation).to(image)
