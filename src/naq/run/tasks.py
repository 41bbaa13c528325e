"""What a run is evaluated on: validation and test tasks, and the class split they come from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from naq.errors import TaskError
from naq.graph import Graph
from naq.io.splits import split_for, tasks_path
from naq.tasks import ClassSplit, Tasks, dirichlet_queries, sample_tasks, split_of_file

VALID_TASKS, TEST_TASKS, QUERIES = 50, 500, 8


@dataclass(frozen=True, eq=False)
class EvaluationTasks:
    """Validation and test tasks of one setting and the split they come from.

    Attributes:
        base_labels: (n,) what a supervised method may read, -1 elsewhere.
        origin: a file name, or how they were drawn.
        unbalanced: the test tasks with Dirichlet(2) queries; they choose nothing.
    """

    split: ClassSplit
    valid: Tasks
    test: Tasks
    base_labels: np.ndarray
    origin: str
    unbalanced: Tasks

    @property
    def hash(self) -> str:
        """A hash of the tasks, so that a result says what it was tested on."""
        digest = hashlib.blake2b(digest_size=12)
        for tasks in (self.valid, self.test):
            digest.update(tasks.support.tobytes())
            digest.update(tasks.query.tobytes())
        return digest.hexdigest()


def evaluation_tasks(
    graph: Graph,
    source: str | None,
    path: str | Path | None,
    *,
    way: int,
    shot: int,
    split: ClassSplit | None = None,
    base_labels: np.ndarray | None = None,
) -> EvaluationTasks:
    """Tasks from ``path``, else from the file that comes with ``source`` (by default what the graph was loaded from), else drawn with seed 0.

    ``split`` draws them from its classes, whatever file there is; ``base_labels`` replaces what a supervised method may
    read, and base classes without any are left out.
    """
    labels = graph.require_labels("testing")
    source = source or graph.source or graph.name
    if path is None and split is None:
        path = tasks_path(source)
    if path is not None:
        split = split_of_file(path, graph) if split is None else split
        valid, test = (Tasks.load(path, way=way, shot=shot, part=part).check(graph) for part in ("valid", "test"))
        for tasks in (valid, test):
            outside = set(np.unique(labels[tasks.nodes()]).tolist()) - set(split.part(tasks.part))
            if outside:
                raise TaskError(
                    f"{path}: {tasks.part} tasks use classes {sorted(outside)[:5]}, which are not {tasks.part} classes."
                )
        origin = Path(path).name
    else:
        if split is None:
            split = split_for(source, graph)
        valid, test = (
            sample_tasks(
                graph, way=way, shot=shot, queries=QUERIES, count=count, seed=0, classes=split.part(part), part=part
            )
            for part, count in (("valid", VALID_TASKS), ("test", TEST_TASKS))
        )
        origin = "drawn with seed 0"
    if base_labels is None:
        base = np.where(np.isin(labels, split.base), labels, -1)
    else:
        base = _checked(base_labels, split, graph)
        split = replace(split, base=tuple(np.unique(base[base >= 0]).tolist()))
    return EvaluationTasks(split, valid, test, base, origin, dirichlet_queries(test, labels))


def labels_hash(labels: np.ndarray) -> str:
    """A hash of (n,) labels."""
    return hashlib.blake2b(np.ascontiguousarray(labels, dtype="<i8").tobytes(), digest_size=12).hexdigest()


def _checked(base_labels: np.ndarray, split: ClassSplit, graph: Graph) -> np.ndarray:
    """Labels that a supervised method may read: of base classes alone, -1 elsewhere."""
    given = np.asarray(base_labels, dtype=np.int64)
    if given.shape != (graph.num_nodes,):
        raise TaskError(
            f"base_labels has shape {given.shape}; expected one entry for each of the {graph.num_nodes:,} nodes."
        )
    outside = set(np.unique(given[given >= 0]).tolist()) - set(split.base)
    if outside:
        raise TaskError(f"base_labels names classes {sorted(outside)[:5]}, which are not base classes; use -1 there.")
    return given
