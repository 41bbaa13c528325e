"""An embedding in stages, each of which has parts that need nothing of each other: some blocks of rows, or some columns.

A part is a function of a graph, of facts (JSON values) and of arrays, and gives arrays; so whoever has these can compute it: this process, one part after the other,
or workers that share files (:mod:`naq_scale.sharded`). Sums over nodes are kept block by block and added here, in the order of the blocks: the numbers do not depend on
who computed what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from naq.graph import Graph
from naq_scale.blocks.pieces import Pieces

Bounds = list[tuple[int, int]]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Work:
    """What all parts of a stage are given.

    Attributes:
        graph: without labels.
        facts: JSON values; where there is a ``block``, a part is computed in blocks of so many rows.
        inputs: arrays by name.
    """

    graph: Graph
    facts: Mapping[str, Any]
    inputs: Mapping[str, Pieces]

    def array(self, name: str) -> np.ndarray:
        """An input that is one array, as it is."""
        return self.inputs[name].grid[0][0][:]


Compute = Callable[[Work, int, int], Arrays]
STAGES: dict[str, Compute] = {}


def stage(name: str) -> Callable[[Compute], Compute]:
    """Decorator: makes a function known as the stage ``name``."""

    def register(compute: Compute) -> Compute:
        STAGES[name] = compute
        return compute

    return register


def computed(name: str, work: Work, first: int, last: int) -> Iterator[Arrays]:
    """A part of a stage, in pieces that belong below each other."""
    step = max(1, int(work.facts.get("block", last - first)))
    for start in range(first, last, step):
        yield STAGES[name](work, start, min(start + step, last))


class Parts(ABC):
    """Who computes the parts of a stage.

    Attributes:
        shards: into how many parts a stage is divided where it can be.
        processes: how many parts are computed at the same time, each with memory of its own.
    """

    shards: int = 1
    processes: int = 1

    @abstractmethod
    def run(
        self, name: str, bounds: Bounds, facts: Mapping[str, Any], inputs: Mapping[str, np.ndarray | Pieces]
    ) -> list[Arrays]:
        """The arrays of each part, mapped from files."""

    def by_rows(
        self, name: str, nodes: int, facts: Mapping[str, Any], inputs: Mapping[str, np.ndarray | Pieces], out: str
    ) -> Pieces:
        """A stage over all rows, in parts of whole blocks; its result ``out``."""
        found = self.run(name, self.row_bounds(nodes, int(facts["block"])), facts, inputs)
        return Pieces([[part[out]] for part in found])

    def row_bounds(self, nodes: int, block: int) -> Bounds:
        """Parts of whole blocks, nearly the same number of them each."""
        return _bounds(nodes, block, min(self.shards, max(1, -(-nodes // block))))

    def column_bounds(self, columns: int, step: int) -> Bounds:
        """Parts of whole steps of ``step`` columns, one for each process, since every part reads all rows."""
        steps = max(1, -(-columns // step))
        return _bounds(columns, step, min(self.shards, self.processes, steps))


def _bounds(length: int, step: int, parts: int) -> Bounds:
    ends = np.linspace(0, max(1, -(-length // step)), 1 + parts).astype(int) * step
    whole = [min(length, int(end)) for end in ends]
    return list(pairwise(whole))


def as_pieces(inputs: Mapping[str, np.ndarray | Pieces]) -> dict[str, Pieces]:
    return {name: value if isinstance(value, Pieces) else Pieces([[value]]) for name, value in inputs.items()}


class InThisProcess(Parts):
    """One part after the other; arrays lie in files without a name, which are gone when nobody holds them any more."""

    def __init__(self, graph: Graph, folder: Path) -> None:
        self._graph, self._folder = graph, folder

    def run(
        self, name: str, bounds: Bounds, facts: Mapping[str, Any], inputs: Mapping[str, np.ndarray | Pieces]
    ) -> list[Arrays]:
        self._graph.check_files()
        work = Work(self._graph, facts, as_pieces(inputs))
        return [self._part(name, work, first, last) for first, last in bounds]

    def _part(self, name: str, work: Work, first: int, last: int) -> Arrays:
        files: dict[str, _Growing] = {}
        for piece in computed(name, work, first, last):
            for key, array in piece.items():
                if key not in files:
                    files[key] = _Growing(self._folder / f"{key}.part", array)
                files[key].append(array)
        return {key: file.mapped() for key, file in files.items()}


class _Growing:
    """An array that is written from front to end and then mapped."""

    def __init__(self, path: Path, like: np.ndarray) -> None:
        self._path, self._dtype, self._row, self._length = path, like.dtype, like.shape[1:], 0
        self._stream: BinaryIO = path.open("wb")

    def append(self, piece: np.ndarray) -> None:
        self._stream.write(np.ascontiguousarray(piece).data)
        self._length += len(piece)

    def mapped(self) -> np.ndarray:
        self._stream.close()
        shape = (self._length, *self._row)
        array = np.empty(shape, self._dtype) if 0 in shape else np.memmap(self._path, self._dtype, "r", shape=shape)
        self._path.unlink()
        return array
