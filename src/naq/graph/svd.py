"""Pieces of a randomised SVD (Halko, Martinsson, Tropp 2011), for those who hold the matrix and for those who read it in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from naq.random import stream


def svd_start(shape: tuple[int, int], dim: int, seed: int, oversample: int) -> np.ndarray:
    """(columns, at most dim + oversample) the random vectors a randomised SVD starts from."""
    width = min(dim + oversample, *shape)
    return stream(seed, "smooth/svd").standard_normal((shape[1], width)).astype(np.float32)


def svd_basis(matrix: Any, basis: np.ndarray, iterations: int) -> np.ndarray:
    """(columns, width) orthonormal, near the leading right vectors; ``matrix`` is a NumPy or SciPy array, ``basis`` of :func:`svd_start`."""
    turned = matrix.T.tocsr() if sp.issparse(matrix) else matrix.T
    for _ in range(iterations):
        basis = scipy.linalg.qr(turned @ (matrix @ basis), mode="economic", check_finite=False)[0]
    return basis


def svd_rotation(gram: np.ndarray, basis: np.ndarray, dim: int) -> np.ndarray:
    """(width, dim) to the leading right vectors, each with a positive largest entry."""
    # The small eigenproblem of (matrix basis)^T (matrix basis) is symmetric in the rows of the matrix.
    _, rotation = np.linalg.eigh(gram)
    rotation = rotation[:, ::-1][:, :dim]
    right = basis @ rotation
    signs = np.sign(right[np.abs(right).argmax(axis=0), np.arange(right.shape[1])])
    return rotation * np.where(signs == 0, 1, signs)
