"""What a run is evaluated on: validation and test tasks, the class split they come from, and what chooses the checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from naq.errors import OptionError, TaskError
from naq.graph import Graph
from naq.io.splits import split_for, tasks_path
from naq.options import nearest
from naq.tasks import ClassSplit, Tasks, dirichlet_queries, sample_tasks, split_of_file

if TYPE_CHECKING:
    from naq.run.config import RunConfig

VALID_TASKS, TEST_TASKS, QUERIES = 50, 500, 8
SELECTIONS = {
    "valid": "first best accuracy on validation tasks",
    "clusters": "first best accuracy on label-free tasks: clusters of smoothed features as classes",
}
CLUSTERS = 15
"""Of label-free tasks."""


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


def check_selection(select: str) -> str:
    """The name, once it is known to be one."""
    if select not in SELECTIONS:
        raise OptionError(f"select is {select!r}; {nearest(select, SELECTIONS)}")
    return select


def selection_tasks(config: RunConfig, graph: Graph, evaluation: EvaluationTasks) -> Tasks:
    """The tasks that choose the checkpoint of a run."""
    if config.select == "valid":
        return evaluation.valid
    return label_free_tasks(graph, config.way, device=config.device)


def label_free_tasks(graph: Graph, way: int, *, device: str = "cpu", clusters: int = CLUSTERS) -> Tasks:
    """Fifty one-shot tasks whose classes are clusters of the nodes, the same for every seed of a run.

    Clusters: k-means on cosine of the smoothed features that ``naq-plus`` starts from. Where fewer than ``way`` clusters have the nodes
    of a task, there are too many of them for the graph, and one fewer is tried.
    """
    from naq.embedders.naq_plus import NaqPlus

    graph = graph.without_labels()
    rows = torch.as_tensor(NaqPlus(graph, device=device).smoothed())
    for number in range(max(clusters, way), way - 1, -1):
        home = clusters_of(rows, number)
        if (np.bincount(home[home >= 0]) > QUERIES).sum() >= way:
            pretended = graph.with_labels(home)
            return sample_tasks(pretended, way=way, shot=1, queries=QUERIES, count=VALID_TASKS, part="valid")
    raise OptionError(
        f"the {graph.num_nodes} nodes of graph {graph.name!r} do not form {way} clusters of {QUERIES + 1} nodes or more, "
        "which label-free tasks need; choose by validation tasks, or lower way."
    )


def clusters_of(rows: torch.Tensor, count: int) -> np.ndarray:
    """(n,) the cluster of each unit row; -1 for rows of zeros, which lie nowhere."""
    from naq.neighbors.clusters import assign, centres

    home = assign(rows, centres(rows, 0, count), 1)[:, 0]
    return torch.where(rows.any(dim=1), home, -1).cpu().numpy()
