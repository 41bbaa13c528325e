"""A fixed set of few-shot tasks and its file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import TaskError
from naq.files import read_npz, write_npz
from naq.graph import Graph
from naq.tasks.split import ClassSplit

_KEY = re.compile(r"(\d+)way_(\d+)shot_(valid|test)_(support|query)")


@dataclass(frozen=True, eq=False)
class Tasks:
    """``count`` tasks of one setting. Ids are class-major: the first ``shot`` supports belong to slot 0, and so on.

    Queries are class-major too, equally many of each class, unless ``slots`` says which slot each belongs to.

    Shapes:
        - ``support``: (count, way * shot) int64
        - ``query``: (count, way * queries) int64; with ``slots`` (count, any number)
        - ``slots``: None, or as ``query``
    """

    support: np.ndarray
    query: np.ndarray
    way: int
    shot: int
    part: str = "test"
    slots: np.ndarray | None = None

    def __post_init__(self) -> None:
        for title in ("support", "query") if self.slots is None else ("support", "query", "slots"):
            array = np.asarray(getattr(self, title))
            if array.ndim != 2 or array.dtype.kind not in "iu":
                raise TaskError(
                    f"{title} has shape {array.shape} and type {array.dtype}; expected whole numbers (count, ids)."
                )
            array = array.astype(np.int64)
            array.setflags(write=False)
            object.__setattr__(self, title, array)
        if self.way < 2 or self.shot < 1:
            raise TaskError(f"tasks are {self.way}-way {self.shot}-shot; expected at least 2 ways and 1 shot.")
        if self.support.shape[1] != self.way * self.shot or len(self.support) != len(self.query):
            raise TaskError(
                f"support {self.support.shape} and query {self.query.shape} do not fit {self.way}-way {self.shot}-shot tasks."
            )
        if len(self.support) == 0:
            raise TaskError("the task set is empty; expected at least one task.")
        if self.slots is not None:
            if self.slots.shape != self.query.shape or self.query.shape[1] == 0:
                raise TaskError(f"slots {self.slots.shape} and query {self.query.shape} differ in shape or are empty.")
            if self.slots.min() < 0 or self.slots.max() >= self.way:
                raise TaskError(f"slots are {self.slots.min()}..{self.slots.max()}; expected 0..{self.way - 1}.")
        elif self.query.shape[1] == 0 or self.query.shape[1] % self.way:
            raise TaskError(f"tasks have {self.query.shape[1]} queries, which {self.way} classes cannot share equally.")
        both = np.sort(np.concatenate([self.support, self.query], axis=1), axis=1)
        repeated = (both[:, 1:] == both[:, :-1]).any(axis=1)
        if repeated.any():
            raise TaskError(f"task {int(np.flatnonzero(repeated)[0])} uses a node twice; expected distinct nodes.")

    def __len__(self) -> int:
        return len(self.support)

    def __repr__(self) -> str:
        number = f"{self.queries} queries per class" if self.slots is None else f"{self.query.shape[1]} queries"
        return f"Tasks({len(self)} x {self.way}-way {self.shot}-shot, {number}, part={self.part!r})"

    @property
    def queries(self) -> int:
        """Queries per class; a ``TaskError`` where ``slots`` are given, since classes then need not have equally many."""
        if self.slots is not None:
            raise TaskError("the classes of these tasks have no common number of queries; use query.shape[1] or slots.")
        return int(self.query.shape[1] // self.way)

    @property
    def support_slots(self) -> np.ndarray:
        """(way * shot,) slot of each support."""
        return np.repeat(np.arange(self.way), self.shot)

    @property
    def query_slots(self) -> np.ndarray:
        """Slots of the queries, which are the answers, (way * queries,) the same for all tasks, or ``slots`` (count, queries of a task)."""
        if self.slots is not None:
            return self.slots
        return np.repeat(np.arange(self.way), self.queries)

    def nodes(self) -> np.ndarray:
        """Every node that some task uses, sorted."""
        return np.unique(np.concatenate([self.support.ravel(), self.query.ravel()]))

    def relabelled(self, new_id: np.ndarray) -> Tasks:
        """The same tasks after node ``i`` became ``new_id[i]``."""
        return replace(self, support=new_id[self.support], query=new_id[self.query])

    def take(self, count: int) -> Tasks:
        """The first ``count`` tasks."""
        slots = None if self.slots is None else self.slots[:count]
        return replace(self, support=self.support[:count], query=self.query[:count], slots=slots)

    def check(self, graph: Graph) -> Tasks:
        """Self; a ``TaskError`` unless all ids exist and each slot holds one known label, different from the others'."""
        highest = int(max(self.support.max(), self.query.max()))
        if min(int(self.support.min()), int(self.query.min())) < 0 or highest >= graph.num_nodes:
            raise TaskError(
                f"the tasks name node {highest}, but graph {graph.name!r} has nodes 0..{graph.num_nodes - 1}."
            )
        if graph.labels is not None:
            support = graph.labels[self.support].reshape(len(self), self.way, self.shot)
            slot = support[:, :, :1]
            right = np.take_along_axis(slot[:, :, 0], np.broadcast_to(self.query_slots, self.query.shape), axis=1)
            wrong = (support != slot).any((1, 2)) | (slot < 0).any((1, 2))
            wrong |= (graph.labels[self.query] != right).any(axis=1)
            order = np.sort(slot[:, :, 0], axis=1)
            wrong |= (order[:, 1:] == order[:, :-1]).any(axis=1)
            if wrong.any():
                raise TaskError(
                    f"task {int(np.flatnonzero(wrong)[0])} does not fit the labels of graph {graph.name!r}: every slot must hold "
                    "one known class, different from the others; the tasks belong to another graph."
                )
        return self

    @classmethod
    def load(cls, path: str | Path, *, way: int, shot: int, part: str = "test") -> Tasks:
        """One setting of a task file."""
        arrays = read_npz(path, kind="task file")
        stem = f"{way}way_{shot}shot_{part}_"
        if stem + "support" not in arrays or stem + "query" not in arrays:
            found = sorted({(m[3], int(m[1]), int(m[2])) for m in map(_KEY.fullmatch, arrays) if m})
            have = ", ".join(f"{w}-way {k}-shot {p}" for p, w, k in found) or "none at all"
            raise TaskError(f"{path} has no {way}-way {shot}-shot {part} tasks; it has {have}.")
        return cls(arrays[stem + "support"], arrays[stem + "query"], way, shot, part)

    def arrays(self) -> dict[str, np.ndarray]:
        """The two arrays under the names of the task file, which holds no ``slots``."""
        if self.slots is not None:
            raise TaskError("a task file holds equally many queries per class, these tasks do not; draw them again.")
        stem = f"{self.way}way_{self.shot}shot_{self.part}_"
        kind = np.int32 if max(self.support.max(), self.query.max()) < 2**31 else np.int64
        return {stem + "support": self.support.astype(kind), stem + "query": self.query.astype(kind)}

    def save(self, path: str | Path, split: ClassSplit | None = None) -> Path:
        """Write this setting alone; :func:`save_task_file` writes several."""
        return save_task_file(path, [self], split)


def settings_of_file(path: str | Path) -> list[tuple[int, int]]:
    """The (way, shot) pairs a task file holds."""
    names = read_npz(path, kind="task file")
    return sorted({(int(m[1]), int(m[2])) for m in map(_KEY.fullmatch, names) if m})


def save_task_file(path: str | Path, sets: Iterable[Tasks], split: ClassSplit | None = None, **options: Any) -> Path:
    """Write task sets, and the class split they come from, as one npz."""
    arrays: dict[str, np.ndarray] = {}
    if split is not None:
        for part in ("base", "valid", "test"):
            arrays[f"{part}_classes"] = np.asarray(split.part(part), dtype=np.int64)
    for tasks in sets:
        arrays |= tasks.arrays()
    return write_npz(path, arrays, **options)
