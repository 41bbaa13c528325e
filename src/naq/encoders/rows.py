"""Rows of sparse matrices and their products, in compiled code (CPU) or torch (CUDA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange


@dataclass(frozen=True)
class SparseRows:
    """A small CSR matrix: some rows of a large one, its columns kept or renumbered."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    shape: tuple[int, int]


def take_rows(matrix: sp.csr_array, rows: np.ndarray) -> SparseRows:
    """The listed rows, columns as they are."""
    indptr, indices, data = _take(matrix.indptr, matrix.indices, matrix.data, rows)
    return SparseRows(indptr, indices, data, (len(rows), matrix.shape[1]))


def take_field(matrix: sp.csr_array, rows: np.ndarray, place: np.ndarray) -> tuple[SparseRows, np.ndarray]:
    """The listed rows with columns renumbered by first use, and the columns used: the receptive field of one layer.

    Args:
        place: (n,) int32 of -1, a scratch buffer that is left as it was found.
    """
    indptr, indices, data = _take(matrix.indptr, matrix.indices, matrix.data, rows)
    local, field = _renumber(indices, place)
    return SparseRows(indptr, local, data, (len(rows), len(field))), field


@njit(cache=True)
def _take(indptr: Any, indices: Any, data: Any, rows: Any) -> Any:
    out = np.zeros(len(rows) + 1, dtype=np.int64)
    for r in range(len(rows)):
        out[r + 1] = out[r] + indptr[rows[r] + 1] - indptr[rows[r]]
    columns = np.empty(out[-1], dtype=np.int32)
    values = np.empty(out[-1], dtype=np.float32)
    for r in range(len(rows)):
        start, length = indptr[rows[r]], out[r + 1] - out[r]
        columns[out[r] : out[r + 1]] = indices[start : start + length]
        values[out[r] : out[r + 1]] = data[start : start + length]
    return out, columns, values


@njit(cache=True)
def _renumber(indices: Any, place: Any) -> Any:
    local = np.empty(len(indices), dtype=np.int32)
    field = np.empty(len(indices), dtype=np.int64)
    count = 0
    for e in range(len(indices)):
        c = indices[e]
        if place[c] < 0:
            place[c] = count
            field[count] = c
            count += 1
        local[e] = place[c]
    for f in range(count):
        place[field[f]] = -1
    return local, field[:count].copy()


@njit(cache=True, parallel=True, fastmath={"contract"})
def _multiply(indptr: Any, indices: Any, data: Any, dense: Any, out: Any) -> None:
    width = dense.shape[1]
    for r in prange(len(indptr) - 1):
        row = out[r]
        for c in range(width):
            row[c] = 0.0
        for e in range(indptr[r], indptr[r + 1]):
            value, source = data[e], dense[indices[e]]
            for c in range(width):
                row[c] += value * source[c]


@njit(cache=True)
def _transpose(indptr: Any, indices: Any, data: Any, columns: Any) -> Any:
    out = np.zeros(columns + 1, dtype=np.int64)
    for e in range(len(indices)):
        out[indices[e] + 1] += 1
    for c in range(columns):
        out[c + 1] += out[c]
    place = out[:-1].copy()
    rows = np.empty(len(indices), dtype=np.int32)
    values = np.empty(len(indices), dtype=np.float32)
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            position = place[indices[e]]
            rows[position], values[position] = r, data[e]
            place[indices[e]] += 1
    return out, rows, values


class _Product(torch.autograd.Function):
    """rows @ dense, differentiable in ``dense``."""

    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, rows: SparseRows) -> torch.Tensor:
        ctx.rows = rows
        return multiply(rows, dense)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        rows: SparseRows = ctx.rows
        indptr, indices, data = _transpose(rows.indptr, rows.indices, rows.data, rows.shape[1])
        turned = SparseRows(indptr, indices, data, (rows.shape[1], rows.shape[0]))
        return multiply(turned, grad), None


def multiply(rows: SparseRows, dense: torch.Tensor) -> torch.Tensor:
    """rows (m, n) @ dense (n, h), no gradient. The order of additions is fixed on the CPU."""
    if dense.device.type == "cpu" and dense.dtype == torch.float32:
        out = torch.empty(rows.shape[0], dense.shape[1])
        _multiply(rows.indptr, rows.indices, rows.data, dense.detach().contiguous().numpy(), out.numpy())
        return out
    matrix = torch.sparse_csr_tensor(
        torch.from_numpy(rows.indptr).to(dense.device),
        torch.from_numpy(rows.indices.astype(np.int64)).to(dense.device),
        torch.from_numpy(rows.data).to(dense.device, dense.dtype),
        size=rows.shape,
        check_invariants=False,
    )
    return matrix @ dense.detach()


def sparse_product(rows: SparseRows, dense: torch.Tensor) -> torch.Tensor:
    """rows (m, n) @ dense (n, h) with a gradient for ``dense``."""
    return _Product.apply(dense, rows)
