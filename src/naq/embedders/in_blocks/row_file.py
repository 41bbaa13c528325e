"""Rows of an embedding in a .npy file, read and written a block at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from naq.embedders.smoothing import ROUNDING, unit

Read = Callable[[int, int], np.ndarray]
"""Rows from ``start`` to ``stop``, float32."""
Write = Callable[[int, np.ndarray], None]
"""Rows from ``start`` on."""


class RowFile:
    """(n, d) float32 on disk."""

    def __init__(self, path: Path, nodes: int, width: int) -> None:
        self.array = np.lib.format.open_memmap(path, "w+", np.float32, (nodes, width))

    def rows(self, start: int, stop: int) -> np.ndarray:
        return np.array(self.array[start:stop])

    def write(self, start: int, rows: np.ndarray) -> None:
        self.array[start : start + len(rows)] = rows

    def close(self) -> None:
        self.array.flush()


def centre(read: Read, write: Write, nodes: int, block: int) -> None:
    """:func:`~naq.embedders.smoothing.centred` in two passes: the mean of the rows of length one, then the rows without it."""
    total: np.ndarray | float = 0.0
    for start in range(0, nodes, block):
        total = total + unit(read(start, start + block)).sum(axis=0, dtype=np.float64)
    mean = np.asarray(total / nodes, dtype=np.float32)
    for start in range(0, nodes, block):
        write(start, unit(unit(read(start, start + block)) - mean, ROUNDING))
