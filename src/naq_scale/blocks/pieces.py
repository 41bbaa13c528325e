"""One array of all nodes that lies in several files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


class Pieces:
    """(n, d) as a grid of arrays: those of a line lie side by side, lines lie below each other.

    A tile (some columns of all nodes) is a column of the grid, a shard of rows is a line. The arrays are read by ``array[rows]`` alone, so that they may be opened when they are
    read (:class:`naq_scale.sharded.FileArray`).
    """

    def __init__(self, grid: Sequence[Sequence[Any]]) -> None:
        self.grid = [list(line) for line in grid]
        self._bounds = np.cumsum([0, *(len(line[0]) for line in self.grid)]).tolist()

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.grid[0]
        if first[0].ndim == 1:
            return (self._bounds[-1],)
        return (self._bounds[-1], sum(array.shape[1] for array in first), *first[0].shape[2:])

    def rows(self, start: int, stop: int) -> np.ndarray:
        """A copy of the rows ``start`` to ``stop - 1``, with all columns."""
        lines = [
            _joined([array[max(0, start - low) : stop - low] for array in line], 1)
            for low, high, line in self._lines()
            if start < high and low < stop
        ]
        return _joined(lines, 0) if lines else _joined([array[:0] for array in self.grid[0]], 1)

    def take(self, ids: np.ndarray) -> np.ndarray:
        """A copy of the rows of these nodes, which are ascending."""
        ends = np.searchsorted(ids, self._bounds)
        lines = (
            _joined([array[ids[first:last] - low] for array in line], 1)
            for first, last, (low, _, line) in zip(ends, ends[1:], self._lines())
        )
        return _joined(list(lines), 0)

    def whole(self) -> np.ndarray:
        """A copy of all of it."""
        return self.rows(0, self._bounds[-1])

    def columns(self, number: int, out: np.ndarray) -> np.ndarray:
        """A column of the grid, with the rows of all nodes, copied to ``out``."""
        for low, high, line in self._lines():
            out[low:high] = line[number][:]
        return out

    def places(self, number: int) -> slice:
        """Where the columns of :meth:`columns` are."""
        before = sum(array.shape[1] for array in self.grid[0][:number])
        return slice(before, before + self.grid[0][number].shape[1])

    def total(self) -> np.ndarray:
        """The sum over rows in float64, one row after the other: the same bits however the rows are divided."""
        total = np.zeros(self.shape[1:])
        for line in self.grid:
            for row in line[0][:]:
                total += row
        return total

    def _lines(self) -> Iterator[tuple[int, int, list[Any]]]:
        return zip(self._bounds, self._bounds[1:], self.grid)


def _joined(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """A plain array in memory, not a view of a file."""
    return np.array(arrays[0]) if len(arrays) == 1 else np.concatenate(arrays, axis=axis)
