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
from naq.graph.operators import csr_tensor, svd_basis, svd_rotation, svd_start
from naq.graph.weighting import is_counted, tfidf
from naq.threads import one_blas_thread
from naq.unit_rows import unit_rows

SHORTEST = 1e-12  # vectors no longer than this become zero
ROUNDING = 1e-6  # vectors of length one that lie no further apart are the same: float32 knows no better
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
