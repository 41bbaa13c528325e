"""Node vectors in files, and products with A_hat by tiles, which are some columns of all nodes.

A product needs vectors of neighbours, which are anywhere, but no column of it needs another: so a tile is held in
memory while its product is made, and the adjacency is read from its own arrays. Memory: some tiles of 4 bytes per node
and column.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numba import njit, prange

from naq.device import free_bytes
from naq.errors import DataError
from naq.files import NO_SPACE, temporary_path, write_atomically
from naq.graph import Graph
from naq_scale.lanes import add_rows, line_aligned

HELD = 4
"""Tiles that are in memory at once, with room for one more."""


def columns_that_fit(nodes: int, width: int) -> int:
    """Columns of a tile: as many as fit into the memory that is free, a multiple of 16 where that many fit."""
    fitting = max(1, int(free_bytes(torch.device("cpu")) // (4 * HELD * nodes)))
    return min(width, fitting if fitting < 16 else fitting // 16 * 16)


def new_mapped(file: Path, shape: tuple[int, ...]) -> np.memmap:
    """A float32 array in a new .npy file, mapped to be written, whose place on the disk is taken first.

    Without it a disk that is full ends the process (SIGBUS) in the middle of an assignment; so it is an ``OSError``
    here.
    """
    made: np.memmap = np.lib.format.open_memmap(file, "w+", np.float32, shape)
    if made.nbytes and hasattr(os, "posix_fallocate"):
        with file.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, made.offset + made.nbytes)
    return made


def mapped_rows(
    path: str | Path | None, make: Callable[[Path, Path], None], mode: Literal["r", "c"] = "r"
) -> np.ndarray:
    """(n, d) memory-mapped, read-only (``r``) or with changes kept in memory (``c``): the file that ``make(temporary
    file, scratch folder)`` writes, at ``path`` or, with None, without a name: it ends with its last array."""
    if path is None:
        try:
            with tempfile.TemporaryDirectory(prefix="naq-") as folder:
                file = Path(folder, "rows.npy")
                make(file, Path(folder))
                return np.load(file, mmap_mode=mode)
        except OSError as error:
            place = f"cannot write to {tempfile.gettempdir()}: {error.strerror or error}"
            raise DataError(f"{place}; {NO_SPACE}, by the environment variable TMPDIR.") from error

    def write(temporary: Path) -> None:
        with temporary_path(temporary, folder=True) as folder:
            make(temporary, folder)

    return np.load(write_atomically(path, write), mmap_mode=mode)


def inverse_root_degrees(graph: Graph) -> np.ndarray:
    """(n,) 1 / sqrt(degree + 1), float64."""
    return 1.0 / np.sqrt(graph.degrees + 1.0)


def multiply_tile(graph: Graph, held: np.ndarray) -> np.ndarray:
    """A_hat times some columns of all nodes; A_hat is not formed."""
    scale, adjacency, out = inverse_root_degrees(graph), graph.adjacency, line_aligned(held.shape)
    rows = line_aligned(held.shape)
    scale_rows(held, scale, rows)
    multiply_rows(adjacency.indptr, adjacency.indices, scale, rows, held, np.float32(1), np.float32(0), False, out)
    return out


@njit(cache=True, parallel=True)
def scale_rows(rows: Any, scale: Any, out: Any) -> None:
    """out = every row times its scale."""
    for i in prange(len(out)):
        factor = np.float32(scale[i])
        for k in range(out.shape[1]):
            out[i, k] = factor * rows[i, k]


@njit(cache=True, parallel=True)
def multiply_rows(
    indptr: Any, indices: Any, scale: Any, rows: Any, start: Any, move: Any, stay: Any, scaled: Any, out: Any
) -> None:
    """out = move A_hat Z + stay start, from ``rows`` = D^-1/2 Z; where ``scaled``, D^-1/2 times that.

    A_hat = D^-1/2 (A + I) D^-1/2: with rows scaled before, a neighbour's row is all that is fetched of it.

    Args:
        scale: (n,) the diagonal of D^-1/2, see :func:`inverse_root_degrees`.
        rows, start, out: (n, d) float32; ``rows`` and ``out`` contiguous.
    """
    width, flat, sums = out.shape[1], rows.reshape(-1), out.reshape(-1)
    for i in prange(len(out)):
        row = out[i]
        for k in range(width):
            row[k] = rows[i, k]
        add_rows(flat, width, indices, indptr[i], indptr[i + 1], sums, i * width)
        again = scale[i] if scaled else 1.0
        moved, stayed = np.float32(move * scale[i] * again), np.float32(stay * again)
        for k in range(width):
            row[k] = moved * row[k] + stayed * start[i, k]
