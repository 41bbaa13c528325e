"""Sparse rows of several tasks at once: products in which every task has a weight of its own, changed in place.

Small products run on one core: an inner loop is made of many, and waking the other cores costs more than they save.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.encoders.rows import SparseRows, add_row, multiply, row_entries, take_rows, transpose
from naq.graph.sparse_tensor import csr_tensor

SERIAL_WORK = 1 << 22
"""A product of fewer multiplications runs on one core."""
PART = 24
"""Columns per job where a single task is changed by several cores."""


def compiled(values: torch.Tensor) -> bool:
    """Whether the compiled kernels work on these values; else torch does."""
    return values.device.type == "cpu" and values.dtype == torch.float32


class Fixed:
    """A constant sparse matrix; it and its transpose are put into the form of the device once."""

    def __init__(self, rows: SparseRows, device: torch.device) -> None:
        self.rows, self.device = rows, device
        self._transposed: SparseRows | None = None
        self._tensors: dict[bool, torch.Tensor] = {}

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        return _Product.apply(dense, self)

    def times(self, dense: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """The product, or that of the transpose; no gradient."""
        if transposed and self._transposed is None:
            self._transposed = transpose(self.rows)
        rows = self._transposed if transposed and self._transposed is not None else self.rows
        if not compiled(dense):
            if transposed not in self._tensors:
                parts = rows.indptr, rows.indices, rows.data, rows.shape
                self._tensors[transposed] = csr_tensor(*parts, self.device, dense.dtype)
            return self._tensors[transposed] @ dense.detach()
        if len(rows.indices) * dense.shape[1] > SERIAL_WORK:
            return multiply(rows, dense)
        out, dense = torch.empty(rows.shape[0], dense.shape[1]), dense.detach().contiguous()
        _multiply_serial(rows.indptr, rows.indices, rows.data, dense.numpy(), out.numpy())
        return out


class _Product(torch.autograd.Function):
    """matrix @ dense, differentiable in ``dense``."""

    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, matrix: Fixed) -> torch.Tensor:
        ctx.matrix = matrix
        return matrix.times(dense)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.matrix.times(grad, transposed=True), None


class TaskRows:
    """Rows of a constant sparse matrix, listed task by task. On the CPU they are read where they are, never copied.

    Args:
        matrix: (nodes, d).
        rows: which of its rows, those of the first task first.
        bounds: (tasks + 1,) task t has ``rows[bounds[t]:bounds[t + 1]]``.
        device: where weights are.

    Shapes:
        - weights: (tasks, d, h), gradient: (rows, h)
    """

    def __init__(self, matrix: sp.csr_array, rows: np.ndarray, bounds: np.ndarray, device: torch.device) -> None:
        self.matrix, self.rows, self.bounds, self.device = matrix, rows, bounds, device
        self._entries = row_entries(matrix, rows)
        self._stacked: Fixed | None = None

    def __matmul__(self, weight: torch.Tensor) -> torch.Tensor:
        """The product with one weight (d, h) for all, differentiable in it."""
        return _SharedProduct.apply(weight, self)

    def times(self, weights: torch.Tensor) -> torch.Tensor:
        """Each row times the weight of its task; no gradient."""
        if not compiled(weights):
            return self._block().times(weights.flatten(0, 1))
        out, weights = torch.empty(len(self.rows), weights.shape[2]), weights.detach().contiguous()
        task = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))
        kernel = _times if self._entries * weights.shape[2] > SERIAL_WORK else _times_serial
        kernel(*self._arrays(), self.rows, task, weights.numpy(), out.numpy())
        return out

    def subtract(self, weights: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """weights[t] -= rate * rows[t].T @ gradient[t], in place."""
        if not compiled(weights):
            weights.view(-1, weights.shape[2]).sub_(self._block().times(gradient, transposed=True), alpha=rate)
            return
        width, gradient = weights.shape[2], gradient.detach().contiguous()
        kernel = _subtract if self._entries * width > SERIAL_WORK else _subtract_serial
        parts = 1 if len(self.bounds) > 2 else max(1, width // PART)
        kernel(*self._arrays(), self.rows, self.bounds, gradient.numpy(), np.float32(rate), weights.numpy(), parts)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.matrix.indptr, self.matrix.indices, self.matrix.data

    def _block(self) -> Fixed:
        """All tasks as one block-diagonal matrix."""
        if self._stacked is None:
            taken, (tasks, d) = take_rows(self.matrix, self.rows), (len(self.bounds) - 1, self.matrix.shape[1])
            shift = np.repeat(np.arange(tasks) * d, np.diff(taken.indptr[self.bounds]))
            block = SparseRows(taken.indptr, taken.indices + shift, taken.data, (len(self.rows), tasks * d))
            self._stacked = Fixed(block, self.device)
        return self._stacked


class _SharedProduct(torch.autograd.Function):
    """rows @ weight, differentiable in ``weight``; ``rows`` of one task."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, rows: TaskRows) -> torch.Tensor:
        ctx.rows, ctx.height = rows, len(weight)
        return rows.times(weight[None])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        out = grad.new_zeros(1, ctx.height, grad.shape[1])
        ctx.rows.subtract(out, grad, -1.0)
        return out[0], None


@njit(cache=True)
def _multiply_serial(indptr: Any, indices: Any, data: Any, dense: Any, out: Any) -> None:
    for r in range(len(indptr) - 1):
        add_row(indptr[r], indptr[r + 1], indices, data, dense, out[r])


@njit(cache=True, parallel=True)
def _times(indptr: Any, indices: Any, data: Any, rows: Any, task: Any, weights: Any, out: Any) -> None:
    for r in prange(len(rows)):
        add_row(indptr[rows[r]], indptr[rows[r] + 1], indices, data, weights[task[r]], out[r])


@njit(cache=True)
def _times_serial(indptr: Any, indices: Any, data: Any, rows: Any, task: Any, weights: Any, out: Any) -> None:
    for r in range(len(rows)):
        add_row(indptr[rows[r]], indptr[rows[r] + 1], indices, data, weights[task[r]], out[r])


@njit(cache=True, fastmath={"contract"})
def _subtract_row(e: Any, end: Any, indices: Any, data: Any, row: Any, rate: Any, weight: Any, low: Any) -> None:
    """weight -= rate * (entries e..end, transposed) times row, in the columns from ``low``."""
    high = low + len(row)
    if not row.any():
        return
    while e + 4 <= end:
        a, b, c, d = rate * data[e], rate * data[e + 1], rate * data[e + 2], rate * data[e + 3]
        p, q = weight[np.uint64(indices[e])][low:high], weight[np.uint64(indices[e + 1])][low:high]
        r, s = weight[np.uint64(indices[e + 2])][low:high], weight[np.uint64(indices[e + 3])][low:high]
        for k in range(len(row)):
            g = row[k]
            p[k] -= a * g
            q[k] -= b * g
            r[k] -= c * g
            s[k] -= d * g
        e += 4
    while e < end:
        a, p = rate * data[e], weight[np.uint64(indices[e])][low:high]
        for k in range(len(row)):
            p[k] -= a * row[k]
        e += 1


@njit(cache=True)
def _subtract_job(
    indptr: Any, indices: Any, data: Any, rows: Any, gradient: Any, rate: Any, weight: Any, part: Any, parts: Any
) -> None:
    low, high = part * weight.shape[1] // parts, (part + 1) * weight.shape[1] // parts
    for r in range(len(rows)):
        e, end = indptr[rows[r]], indptr[rows[r] + 1]
        _subtract_row(e, end, indices, data, gradient[r][low:high], rate, weight, low)


@njit(cache=True, parallel=True)
def _subtract(
    indptr: Any, indices: Any, data: Any, rows: Any, bounds: Any, gradient: Any, rate: Any, weights: Any, parts: Any
) -> None:
    for job in prange((len(bounds) - 1) * parts):
        t, part = job // parts, job % parts
        mine, given = rows[bounds[t] : bounds[t + 1]], gradient[bounds[t] : bounds[t + 1]]
        _subtract_job(indptr, indices, data, mine, given, rate, weights[t], part, parts)


@njit(cache=True)
def _subtract_serial(
    indptr: Any, indices: Any, data: Any, rows: Any, bounds: Any, gradient: Any, rate: Any, weights: Any, parts: Any
) -> None:
    for t in range(len(bounds) - 1):
        mine, given = rows[bounds[t] : bounds[t + 1]], gradient[bounds[t] : bounds[t + 1]]
        _subtract_job(indptr, indices, data, mine, given, rate, weights[t], 0, 1)
