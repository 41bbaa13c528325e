"""Rows of unit length, of vectors and of features, dense or sparse."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import scipy.sparse as sp

Rows = TypeVar("Rows", np.ndarray, sp.csr_array)

SHORTEST = 1e-12
"""Rows no longer than this become zero."""


def unit_rows(rows: Rows, order: int = 2) -> Rows:
    """Rows (n, d) divided by their L1 (``order`` 1) or L2 (2) norm, as float32; zero rows stay zero, sparse rows stay sparse."""
    norms = _norms(rows, order)
    if isinstance(rows, np.ndarray):
        divided = np.divide(rows, norms[:, None], out=np.zeros_like(rows), where=norms[:, None] > SHORTEST)
        return divided.astype(np.float32)
    scale = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > SHORTEST).astype(np.float32)
    values = rows.data * np.repeat(scale, np.diff(rows.indptr))
    return sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)


def _norms(rows: np.ndarray | sp.csr_array, order: int) -> np.ndarray:
    """(n,) float64."""
    if isinstance(rows, np.ndarray):
        if order == 1:
            return np.abs(rows).sum(axis=1, dtype=np.float64)
        return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    powers = np.bincount(row, weights=np.abs(rows.data.astype(np.float64)) ** order, minlength=rows.shape[0])
    return powers ** (1.0 / order)
