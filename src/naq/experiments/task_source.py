"""Where a run's tasks and class split come from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from naq.data import split_for, tasks_path
from naq.errors import TaskError
from naq.graph import Graph
from naq.tasks import ClassSplit, Tasks, sample_tasks, split_of_file

VALID_TASKS, TEST_TASKS, QUERIES = 50, 500, 8


@dataclass(frozen=True, eq=False)
class TaskSource:
    """Validation and test tasks of one setting and the split they come from."""

    split: ClassSplit
    valid: Tasks
    test: Tasks
    base_labels: np.ndarray
    origin: str

    @property
    def fingerprint(self) -> str:
        """A hash of the tasks, so that a result says what it was tested on."""
        digest = hashlib.blake2b(digest_size=12)
        for tasks in (self.valid, self.test):
            digest.update(tasks.support.tobytes())
            digest.update(tasks.query.tobytes())
        return digest.hexdigest()


def task_source(graph: Graph, source: str | None, path: str | Path | None, *, way: int, shot: int) -> TaskSource:
    """Tasks from ``path``, else from the file that comes with the dataset, else drawn with seed 0."""
    labels = graph.require_labels("testing")
    if path is None:
        path = tasks_path(source if source is not None else graph.name)
    if path is not None:
        split = split_of_file(path, graph)
        valid, test = (Tasks.load(path, way=way, shot=shot, part=part).check(graph) for part in ("valid", "test"))
        for tasks in (valid, test):
            outside = set(np.unique(labels[tasks.nodes()]).tolist()) - set(split.part(tasks.part))
            if outside:
                raise TaskError(
                    f"{path}: {tasks.part} tasks use classes {sorted(outside)[:5]}, which are not {tasks.part} classes."
                )
        origin = Path(path).name
    else:
        split = split_for(source if source is not None else graph.name, graph)
        valid, test = (
            sample_tasks(
                graph,
                way=way,
                shot=shot,
                queries=QUERIES,
                count=count,
                seed=0,
                classes=split.part(part),
                part=part,
            )
            for part, count in (("valid", VALID_TASKS), ("test", TEST_TASKS))
        )
        origin = "drawn with seed 0"
    base = np.where(np.isin(labels, split.base), labels, -1)
    return TaskSource(split, valid, test, base, origin)
