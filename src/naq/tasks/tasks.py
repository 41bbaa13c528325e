"""Which classes are for training, choosing and testing; fixed sets of few-shot tasks, and their files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import TaskError
from naq.files import read_npz, write_npz
from naq.graph import Graph
from naq.random import stream

_KEY = re.compile(r"(\d+)way_(\d+)shot_(valid|test)_(support|query)")


@dataclass(frozen=True)
class ClassSplit:
    """Three disjoint sets of class ids: base (a supervised learner may train on them), valid, test."""

    base: tuple[int, ...]
    valid: tuple[int, ...]
    test: tuple[int, ...]

    def __post_init__(self) -> None:
        for one, two in (("base", "valid"), ("base", "test"), ("valid", "test")):
            shared = set(getattr(self, one)) & set(getattr(self, two))
            if shared:
                raise TaskError(f"classes {sorted(shared)[:5]} are both {one} and {two}; parts may not share a class.")

    def part(self, name: str) -> tuple[int, ...]:
        """The classes of ``base``, ``valid`` or ``test``."""
        if name not in ("base", "valid", "test"):
            raise TaskError(f"part is {name!r}; expected 'base', 'valid' or 'test'.")
        return getattr(self, name)


def class_sizes(graph: Graph) -> np.ndarray:
    """Number of labelled nodes of each class id."""
    labels = graph.require_labels("counting classes")
    return np.bincount(labels[labels >= 0])


def split_classes(graph: Graph, *, valid: int, test: int, seed: int = 0, min_nodes: int = 13) -> ClassSplit:
    """Draw a class split; classes with fewer than ``min_nodes`` nodes are in no part.

    Args:
        valid, test: number of classes of each part; the rest are base classes.
        min_nodes: 13 holds 5 shots and 8 queries.
    """
    sizes = class_sizes(graph)
    usable = np.flatnonzero(sizes >= min_nodes)
    if len(usable) < valid + test:
        raise TaskError(
            f"{valid} validation and {test} test classes were asked for, but only {len(usable)} classes of graph "
            f"{graph.name!r} have {min_nodes} nodes or more; ask for fewer classes or lower min_nodes."
        )
    order = stream(seed, "split").permutation(usable)
    parts = order[valid + test :], order[:valid], order[valid : valid + test]
    return ClassSplit(*(tuple(sorted(map(int, part))) for part in parts))


def split_of_file(path: str | Path, graph: Graph | None = None) -> ClassSplit:
    """The split of a task file: the one it stores or, where it stores none, the one its tasks imply for this graph.

    Implied: valid and test are the classes whose nodes its tasks use; every other class is base.
    """
    arrays = read_npz(path, kind="task file")
    for key, ids in arrays.items():
        if ids.size and ids.dtype.kind not in "iu":
            raise TaskError(f"{path}: {key} has type {ids.dtype}; expected whole numbers.")
    names = ("base_classes", "valid_classes", "test_classes")
    if all(name in arrays for name in names):
        parts = [tuple(sorted(map(int, arrays[name].ravel()))) for name in names]
        return ClassSplit(*parts)
    if graph is None:
        raise TaskError(f"{path} stores no class split; give the graph, so that it can be read off the tasks.")
    labels = graph.require_labels("reading a class split off tasks")
    used: dict[str, set[int]] = {"valid": set(), "test": set()}
    for key, ids in arrays.items():
        for part in used:
            if f"_{part}_" in key and ids.size:
                if ids.min() < 0 or ids.max() >= graph.num_nodes:
                    raise TaskError(
                        f"{path}: {key} names node {ids.max()}, but graph {graph.name!r} has {graph.num_nodes:,} nodes."
                    )
                used[part] |= set(map(int, np.unique(labels[ids])))
    base = set(map(int, np.unique(labels[labels >= 0]))) - used["valid"] - used["test"]
    return ClassSplit(tuple(sorted(base)), tuple(sorted(used["valid"] - {-1})), tuple(sorted(used["test"] - {-1})))


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
            sizes = f"support {self.support.shape} and query {self.query.shape}"
            raise TaskError(f"{sizes} do not fit {self.way}-way {self.shot}-shot tasks.")
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
        """Queries per class; a ``TaskError`` with ``slots``, since classes then need not have equally many."""
        if self.slots is not None:
            raise TaskError("the classes of these tasks have no common number of queries; use query.shape[1] or slots.")
        return int(self.query.shape[1] // self.way)

    @property
    def support_slots(self) -> np.ndarray:
        """(way * shot,) slot of each support."""
        return np.repeat(np.arange(self.way), self.shot)

    @property
    def query_slots(self) -> np.ndarray:
        """Slots of the right answers, (way * queries,) for all tasks alike, or ``slots`` (count, queries)."""
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
        """Self; a ``TaskError`` unless all ids exist and each slot holds one known label that no other slot has."""
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
                    f"task {int(np.flatnonzero(wrong)[0])} does not fit the labels of graph {graph.name!r}: every slot "
                    "must hold one known class, different from the others; the tasks belong to another graph."
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


def save_task_file(path: str | Path, sets: Iterable[Tasks], split: ClassSplit | None = None, **options: Any) -> Path:
    """Write task sets, and the class split they come from, as one npz."""
    arrays: dict[str, np.ndarray] = {}
    if split is not None:
        for part in ("base", "valid", "test"):
            arrays[f"{part}_classes"] = np.asarray(split.part(part), dtype=np.int64)
    for tasks in sets:
        arrays |= tasks.arrays()
    return write_npz(path, arrays, **options)


def sample_tasks(
    graph: Graph,
    *,
    way: int = 5,
    shot: int = 1,
    queries: int = 8,
    count: int = 500,
    seed: int = 0,
    classes: Sequence[int] | None = None,
    part: str = "test",
) -> Tasks:
    """Draw ``count`` tasks: ``way`` classes uniformly, then ``shot + queries`` distinct nodes of each.

    Args:
        classes: class ids to draw from; all classes with enough nodes if None. A listed class with too few nodes is an
            error, since leaving it out would change what is tested.
    """
    for title, value, least in (("way", way, 2), ("shot", shot, 1), ("queries", queries, 1), ("count", count, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise TaskError(f"{title} is {value!r}; expected a whole number of at least {least}.")
    labels = graph.require_labels("sampling tasks")
    need = shot + queries
    sizes = class_sizes(graph)
    if classes is None:
        pool = np.flatnonzero(sizes >= need)
    else:
        pool = np.unique(np.asarray(classes, dtype=np.int64))
        small = [int(c) for c in pool if c < 0 or c >= len(sizes) or sizes[c] < need]
        if small:
            c = small[0]
            have = int(sizes[c]) if 0 <= c < len(sizes) else 0
            asked = f"{shot} shots and {queries} queries need {need}"
            raise TaskError(f"class {c} has {have} nodes, but {asked}; leave it out or lower queries.")
    if way > len(pool):
        raise TaskError(
            f"{way}-way tasks were asked for, but only {len(pool)} classes have {need} nodes or more; lower way."
        )
    members = {int(c): np.flatnonzero(labels == c) for c in pool}
    support = np.empty((count, way, shot), dtype=np.int64)
    query = np.empty((count, way, queries), dtype=np.int64)
    for index in range(count):
        random = stream(seed, f"tasks/{part}/{way}way/{shot}shot/{queries}queries", index)
        for slot, c in enumerate(random.choice(pool, size=way, replace=False)):
            drawn = random.choice(members[int(c)], size=need, replace=False)
            support[index, slot], query[index, slot] = drawn[:shot], drawn[shot:]
    return Tasks(support.reshape(count, -1), query.reshape(count, -1), way, shot, part)


def dirichlet_queries(tasks: Tasks, labels: np.ndarray, *, concentration: float = 2.0, seed: int = 0) -> Tasks:
    """Tasks with the same supports and as many queries, whose classes are not equally frequent.

    For every task: class shares from a symmetric Dirichlet distribution, numbers of queries from the multinomial
    distribution of these shares, then nodes without replacement among those of the class that are not supports. A class
    with too few nodes gives all it has; the rest is drawn again among the others. Veilleux et al., Realistic Evaluation
    of Transductive Few-Shot Learning, https://arxiv.org/abs/2204.11181; 2 is their value.

    Args:
        tasks: their classes are those of their supports; the queries are only counted.
        labels: (n,) class of every node, -1 where it is not known.
        concentration: of the Dirichlet distribution; the higher, the more equal the shares.
        seed: task ``i`` depends on it, on ``i`` and on the setting alone.

    Shapes:
        - answer: ``query`` and ``slots`` (count, queries of a task), class-major
    """
    if not np.isfinite(concentration) or concentration <= 0:
        raise TaskError(f"concentration is {concentration!r}; expected a number above 0, e.g. 2.0.")
    count, total, way = len(tasks), tasks.query.shape[1], tasks.way
    support = tasks.support.reshape(count, way, tasks.shot)
    classes = labels[support[:, :, 0]]
    members = {int(c): np.flatnonzero(labels == c) for c in np.unique(classes)}
    query, slots = np.empty((count, total), dtype=np.int64), np.empty((count, total), dtype=np.int64)
    for index in range(count):
        random = stream(seed, f"queries/dirichlet/{tasks.part}/{way}way/{tasks.shot}shot/{total}queries", index)
        own = [members[int(c)] for c in classes[index]]
        own = [np.delete(one, np.searchsorted(one, nodes)) for one, nodes in zip(own, support[index])]
        available = np.array([len(one) for one in own])
        numbers = _numbers(random, available, total, concentration, index)
        drawn = [random.choice(size, size=number, replace=False) for size, number in zip(available, numbers)]
        query[index] = np.concatenate([one[some] for one, some in zip(own, drawn)])
        slots[index] = np.repeat(np.arange(way), numbers)
    return replace(tasks, query=query, slots=slots)


def _numbers(
    random: np.random.Generator, available: np.ndarray, total: int, concentration: float, index: int
) -> np.ndarray:
    """Queries of each class: ``total`` in all, no class more than are available."""
    if available.sum() < total:
        raise TaskError(f"task {index} needs {total} queries, but its classes have {available.sum()} other nodes.")
    shares = random.dirichlet(np.full(len(available), concentration))
    numbers = np.zeros(len(available), dtype=np.int64)
    while (left := total - int(numbers.sum())) > 0:
        weight = np.where(numbers < available, shares + 1e-12, 0.0)  # a share may be zero to the last bit
        numbers = np.minimum(numbers + random.multinomial(left, weight / weight.sum()), available)
    return numbers
