"""Which classes are for training, choosing and testing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from naq.errors import TaskError
from naq.files import read_npz
from naq.graph import Graph
from naq.random import stream


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
    if (
        wrong := next((key for key, ids in arrays.items() if ids.size and ids.dtype.kind not in "iu"), None)
    ) is not None:
        raise TaskError(f"{path}: {wrong} has type {arrays[wrong].dtype}; expected whole numbers.")
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
