"""Rows of sparse matrices and their products, in compiled code (CPU) or torch (CUDA)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.graph.operators import csr_tensor

TILES = (256, 128, 64)
"""Widths a product may be cut into: the widest that leaves two tiles or more."""
SCATTER_BYTES = 1 << 20
"""A product is formed by columns while a tile of its result has at most this size."""
ROW_CHUNKS = 4
"""Pieces of rows a tile is worked on in, so that few tiles still occupy all cores."""


@dataclass(frozen=True)
class SparseRows:
    """A small CSR matrix: some rows of a large one, its columns kept or renumbered."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    shape: tuple[int, int]

    @cached_property
    def turned(self) -> SparseRows:
        """The same entries by column."""
        indptr, indices, data = _transpose(self.indptr, self.indices, self.data, self.shape[1])
        return SparseRows(indptr, indices, data, (self.shape[1], self.shape[0]))


def row_entries(matrix: sp.csr_array, rows: np.ndarray) -> int:
    """Non-zeros in the listed rows."""
    return int((matrix.indptr[rows + 1] - matrix.indptr[rows]).sum())


def take_rows(matrix: sp.csr_array, rows: np.ndarray) -> SparseRows:
    """The listed rows, columns as they are."""
    indptr, indices, data = take(matrix.indptr, matrix.indices, matrix.data, rows)
    return SparseRows(indptr, indices, data, (len(rows), matrix.shape[1]))


def take_field(matrix: sp.csr_array, rows: np.ndarray, place: np.ndarray) -> tuple[SparseRows, np.ndarray]:
    """The listed rows with columns renumbered by first use, and the columns used: the receptive field of one layer.

    Args:
        place: (n,) int32 of -1, a scratch buffer that is left as it was found.
    """
    indptr, indices, data = take(matrix.indptr, matrix.indices, matrix.data, rows)
    local, field = renumber(indices, place)
    return SparseRows(indptr, local, data, (len(rows), len(field))), field


@njit(cache=True)
def take(indptr: Any, indices: Any, data: Any, rows: Any) -> Any:
    """The listed rows of a CSR matrix: indptr, indices, data."""
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
def renumber(indices: Any, place: Any) -> Any:
    """Numbers 0, 1, ... by first use, and the values they stand for; ``place`` is int32 of -1 and is left so."""
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
def _multiply(indptr: Any, indices: Any, data: Any, tiles: Any, out: Any) -> None:
    """rows @ dense, with ``dense`` cut into (tiles, n, width): a tile stays in the cache of its core."""
    rows, width = len(indptr) - 1, tiles.shape[2]
    step = (rows + ROW_CHUNKS - 1) // ROW_CHUNKS
    for job in prange(tiles.shape[0] * ROW_CHUNKS):
        t = job // ROW_CHUNKS
        first = (job % ROW_CHUNKS) * step
        for r in range(first, min(rows, first + step)):
            add_row(indptr[r], indptr[r + 1], indices, data, tiles[t], out[r, t * width : (t + 1) * width])


@njit(cache=True, fastmath={"contract"})
def add_row(e: Any, end: Any, indices: Any, data: Any, tile: Any, row: Any) -> None:
    """row = entries e..end times tile, four at a time: the row is then read and written a quarter as often."""
    width = tile.shape[1]
    row[:] = 0.0
    while e + 4 <= end:
        a, b, c, d = data[e], data[e + 1], data[e + 2], data[e + 3]
        p, q = tile[np.uint64(indices[e])], tile[np.uint64(indices[e + 1])]
        r, s = tile[np.uint64(indices[e + 2])], tile[np.uint64(indices[e + 3])]
        for k in range(width):
            row[k] += (a * p[k] + b * q[k]) + (c * r[k] + d * s[k])
        e += 4
    while e < end:
        a, p = data[e], tile[np.uint64(indices[e])]
        for k in range(width):
            row[k] += a * p[k]
        e += 1


@njit(cache=True, parallel=True, fastmath={"contract"})
def _scatter(indptr: Any, rows: Any, data: Any, dense: Any, tiles: Any) -> None:
    """The product by columns: ``dense`` is read once, in order, and the few rows of the result stay in the cache.

    ``tiles`` is (pieces, rows, width), a piece of the result's columns per job, so that no two threads share a row.
    """
    width = tiles.shape[2]
    for t in prange(tiles.shape[0]):
        tile = tiles[t]
        tile[:] = 0.0
        for c in range(len(indptr) - 1):
            source = dense[c, t * width : (t + 1) * width]
            for e in range(indptr[c], indptr[c + 1]):
                value, row = data[e], tile[np.uint64(rows[e])]
                for k in range(width):
                    row[k] += value * source[k]


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
        return multiply(ctx.rows.turned, grad), None


class _MixedProduct(torch.autograd.Function):
    """rows @ weight + full @ weight[columns], differentiable in ``weight``; ``rows`` has nothing in ``columns``."""

    @staticmethod
    def forward(
        ctx: Any, weight: torch.Tensor, rows: SparseRows, full: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        ctx.parts = rows, full, columns
        return _multiply_few(rows, weight).addmm_(full, weight.detach().index_select(0, columns))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        rows, full, columns = ctx.parts
        out = multiply(rows.turned, grad)
        out.index_copy_(0, columns, full.T @ grad)
        return out, None, None, None


def multiply(rows: SparseRows, dense: torch.Tensor) -> torch.Tensor:
    """rows (m, n) @ dense (n, h), no gradient; on the CPU the same bits for any number of threads."""
    if dense.device.type == "cpu" and dense.dtype == torch.float32:
        return _multiply_cpu(rows, dense.detach())
    matrix = csr_tensor(rows.indptr, rows.indices, rows.data, rows.shape, dense.device, dense.dtype)
    return matrix @ dense.detach()


def tile_width(width: int) -> int:
    """Columns per tile, 0 for a product that is not cut."""
    return next((tile for tile in TILES if width % tile == 0 and width >= 2 * tile), 0)


def _multiply_few(rows: SparseRows, dense: torch.Tensor) -> torch.Tensor:
    """:func:`multiply`, by columns if there are few rows and ``dense`` is tall."""
    height, width = rows.shape[0], dense.shape[1]
    tile = tile_width(width)
    if dense.device.type != "cpu" or dense.dtype != torch.float32 or not tile or height * tile * 4 > SCATTER_BYTES:
        return multiply(rows, dense)
    turned = rows.turned
    tiles = torch.empty(width // tile, height, tile)
    weights = dense.detach().contiguous().numpy()
    _scatter(turned.indptr, turned.indices, turned.data, weights, tiles.numpy())
    return torch.empty(height, width).copy_(tiles.permute(1, 0, 2).reshape(height, width))


def _multiply_cpu(rows: SparseRows, dense: torch.Tensor) -> torch.Tensor:
    height, width = dense.shape
    out = torch.empty(rows.shape[0], width)
    tile = tile_width(width)
    if tile and len(rows.indices) >= 4 * height:
        tiles = torch.empty(width // tile, height, tile)
        tiles.copy_(dense.reshape(height, width // tile, tile).permute(1, 0, 2))
    else:
        tiles = dense.contiguous()[None]
    _multiply(rows.indptr, rows.indices, rows.data, tiles.numpy(), out.numpy())
    return out


def sparse_product(rows: SparseRows, dense: torch.Tensor) -> torch.Tensor:
    """rows (m, n) @ dense (n, h) with a gradient for ``dense``."""
    return _Product.apply(dense, rows)


def mixed_product(rows: SparseRows, full: torch.Tensor, columns: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """(rows + full in ``columns``) @ weight with a gradient for ``weight``: crowded columns by dense arithmetic."""
    return _MixedProduct.apply(weight, rows, full, columns)


def mean_present(rows: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """(m, h): the mean over those of the rows (m, t, h) that are present (m, t); one at least."""
    weights = present.to(rows.dtype)
    return torch.bmm((weights / weights.sum(1, keepdim=True))[:, None], rows)[:, 0]
