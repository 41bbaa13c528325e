"""An embedding in steps, each computed in shards that need nothing of each other: some blocks of rows, or some columns.

A shard follows from a graph, facts (JSON values) and arrays, so whoever has these can compute it: this process, one
after the other, or workers that share files (:mod:`naq_scale.sharded`). Sums over nodes are kept block by block and
added here, in the order of the blocks: the numbers do not depend on who computed what.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from naq.embedders.smoothing import ROUNDING, unit
from naq.graph import Graph

Bounds = list[tuple[int, int]]
Arrays = dict[str, np.ndarray]


class BlockArray:
    """(n, d) as a grid of arrays: those of a line are side by side, lines below each other.

    A tile (some columns of all nodes) is a column of the grid, a shard of rows is a line. The arrays are read by
    ``array[rows]`` alone, so that they may be opened when they are read (:class:`naq_scale.sharded.FileArray`).
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
            for low, high, line in zip(self._bounds, self._bounds[1:], self.grid)
            if start < high and low < stop
        ]
        return _joined(lines, 0) if lines else _joined([array[:0] for array in self.grid[0]], 1)

    def take(self, ids: np.ndarray) -> np.ndarray:
        """A copy of the rows of these nodes, which are ascending."""
        ends = np.searchsorted(ids, self._bounds)
        lines = (
            _joined([array[ids[first:last] - low] for array in line], 1)
            for first, last, low, line in zip(ends, ends[1:], self._bounds, self.grid)
        )
        return _joined(list(lines), 0)

    def whole(self) -> np.ndarray:
        """A copy of all of it."""
        return self.rows(0, self._bounds[-1])

    def total(self) -> np.ndarray:
        """The sum over rows in float64, one row after the other: the same bits however the rows are divided."""
        total = np.zeros(self.shape[1:])
        for line in self.grid:
            for row in line[0][:]:
                total += row
        return total


def _joined(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """A plain array in memory, not a view of a file."""
    return np.array(arrays[0]) if len(arrays) == 1 else np.concatenate(arrays, axis=axis)


def below(shards: Sequence[Arrays], name: str) -> BlockArray:
    """The arrays of that name, one shard below the other."""
    return BlockArray([[shard[name]] for shard in shards])


Inputs = Mapping[str, np.ndarray | BlockArray]


def as_block_arrays(inputs: Inputs) -> dict[str, BlockArray]:
    return {name: value if isinstance(value, BlockArray) else BlockArray([[value]]) for name, value in inputs.items()}


@dataclass(frozen=True, eq=False)
class Block:
    """What a step is given for the rows, or columns, ``start`` to ``stop - 1``.

    Attributes:
        graph: without labels.
        facts: JSON values; with a ``block``, a shard is computed in blocks of that many rows.
        inputs: arrays by name.
    """

    graph: Graph
    facts: Mapping[str, Any]
    inputs: Mapping[str, BlockArray]
    start: int
    stop: int

    def array(self, name: str) -> np.ndarray:
        """An input that is one array, as it is."""
        return self.inputs[name].grid[0][0][:]

    def rows(self, name: str) -> np.ndarray:
        """Those of an input that has rows of all nodes."""
        return self.inputs[name].rows(self.start, self.stop)


Step = Callable[[Block], Arrays]
"""A function of a module, so that other processes find it."""


def compute_blocks(
    step: Step, graph: Graph, facts: Mapping[str, Any], inputs: Mapping[str, BlockArray], first: int, last: int
) -> Iterator[Arrays]:
    """A shard of a step, in blocks that belong below each other."""
    rows = max(1, int(facts.get("block", last - first)))
    for start in range(first, last, rows):
        yield step(Block(graph, facts, inputs, start, min(start + rows, last)))


class Shards(ABC):
    """Who computes the shards of a step.

    Attributes:
        shards: into how many a step is divided where it can be.
        processes: how many are computed at the same time, each with its own memory.
    """

    shards: int = 1
    processes: int = 1

    @abstractmethod
    def run(self, step: Step, bounds: Bounds, facts: Mapping[str, Any], inputs: Inputs) -> list[Arrays]:
        """The arrays of each shard, mapped from files."""

    def by_rows(self, step: Step, nodes: int, facts: Mapping[str, Any], inputs: Inputs) -> list[Arrays]:
        """A step over all rows, in shards of whole blocks (``facts["block"]``), nearly the same number of them each."""
        return self.run(step, self.row_bounds(nodes, int(facts["block"])), facts, inputs)

    def row_bounds(self, nodes: int, block: int) -> Bounds:
        blocks = max(1, -(-nodes // block))
        ends = np.linspace(0, blocks, 1 + min(self.shards, blocks)).astype(int) * block
        return list(pairwise(min(nodes, int(end)) for end in ends))

    def forget(self, made: Sequence[Arrays]) -> None:  # noqa: B027
        """Give back the disk of shards that nothing reads any more; else it is given back with their last array."""


class InThisProcess(Shards):
    """One shard after the other; arrays are in files without a name, which end with their last array."""

    def __init__(self, graph: Graph, folder: Path) -> None:
        self._graph, self._folder = graph, folder

    def run(self, step: Step, bounds: Bounds, facts: Mapping[str, Any], inputs: Inputs) -> list[Arrays]:
        self._graph.check_files()
        return [
            self._mapped(compute_blocks(step, self._graph, facts, as_block_arrays(inputs), *part)) for part in bounds
        ]

    def _mapped(self, blocks: Iterator[Arrays]) -> Arrays:
        files: dict[str, tuple[BinaryIO, np.ndarray, list[int]]] = {}
        for block in blocks:
            for name, array in block.items():
                if name not in files:
                    files[name] = tempfile.TemporaryFile(dir=self._folder), array[:0], []  # noqa: SIM115
                files[name][0].write(np.ascontiguousarray(array).data)
                files[name][2].append(len(array))
        found = {}
        for name, (file, like, lengths) in files.items():
            with file:
                file.flush()
                shape = (sum(lengths), *like.shape[1:])
                empty = 0 in shape
                found[name] = np.empty(shape, like.dtype) if empty else np.memmap(file, like.dtype, "r", shape=shape)
        return found


class RowPasses:
    """Rows of all nodes and the changes that :meth:`compute` applies to each block of them.

    Changes: ``centre`` (length one, minus the mean, length one), ``times`` (a matrix), ``unit``, ``add`` (the start,
    centred).
    """

    def __init__(self, shards: Shards, rows: BlockArray, block: int, steps: Sequence[str] = (), **inputs: Any) -> None:
        self._shards, self.rows, self.block, self._steps, self._inputs = shards, rows, block, list(steps), inputs

    def then(self, step: str, array: np.ndarray | None = None, **more: BlockArray) -> RowPasses:
        """The same with one more change."""
        given = {} if array is None else {f"{len(self._steps)}": array}
        inputs: dict[str, Any] = {**self._inputs, **given, **more}
        return RowPasses(self._shards, self.rows, self.block, [*self._steps, step], **inputs)

    def center(self) -> RowPasses:
        """With the mean of the rows of length one subtracted, which takes a pass."""
        return self.then("centre", self.mean())

    def mean(self) -> np.ndarray:
        """(d,) float32 of the rows, each of length one."""
        return np.asarray(self._pass("sum").total() / self.rows.shape[0], dtype=np.float32)

    def gram(self) -> np.ndarray:
        """(d, d) the rows' products with each other."""
        return self._pass("gram").total()

    def compute(self) -> BlockArray:
        """The rows as they are after all changes."""
        return self._pass("rows") if self._steps else self.rows

    def _pass(self, keep: str) -> BlockArray:
        facts = {"block": self.block, "steps": self._steps, "keep": keep}
        inputs = {"rows": self.rows, **self._inputs}
        return below(self._shards.by_rows(_rows, self.rows.shape[0], facts, inputs), keep)


def _rows(block: Block) -> Arrays:
    rows, keep = block.rows("rows"), block.facts["keep"]
    for number, step in enumerate(block.facts["steps"]):
        if step == "unit":
            rows = unit(rows)
            continue
        array = block.array(f"{number}")
        if step == "centre":
            rows = _without(rows, array)
        elif step == "add":
            rows = rows + _without(block.rows("start"), array)
        else:
            rows = (torch.from_numpy(rows) @ torch.from_numpy(np.array(array)).float()).numpy()
    if keep == "rows":
        return {"rows": rows}
    if keep == "sum":
        return {"sum": unit(rows).sum(axis=0, dtype=np.float64)[None]}
    part = torch.from_numpy(rows).double()
    return {"gram": (part.T @ part).numpy()[None]}


def _without(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """:func:`~naq.embedders.smoothing.center`, the mean being known."""
    return unit(unit(rows) - mean, ROUNDING)
