"""How a checkpoint is chosen: by tasks of validation classes, or without any label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import nearest
from naq.tasks import Tasks, sample_tasks

if TYPE_CHECKING:
    from naq.run.config import RunConfig
    from naq.run.tasks import EvaluationTasks

SELECTIONS = {
    "valid": "first best accuracy on validation tasks",
    "clusters": "first best accuracy on label-free tasks: clusters of smoothed features as classes",
}
CLUSTERS, QUERIES, COUNT = 15, 8, 50


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
            return sample_tasks(pretended, way=way, shot=1, queries=QUERIES, count=COUNT, part="valid")
    raise OptionError(
        f"the {graph.num_nodes} nodes of graph {graph.name!r} do not form {way} clusters of {QUERIES + 1} nodes or more, "
        "which label-free tasks need; choose by validation tasks, or lower way."
    )


def clusters_of(rows: torch.Tensor, count: int) -> np.ndarray:
    """(n,) the cluster of each unit row; -1 for rows of zeros, which lie nowhere."""
    from naq.neighbors.clusters import assign, centres

    home = assign(rows, centres(rows, 0, count), 1)[:, 0]
    return torch.where(rows.any(dim=1), home, -1).cpu().numpy()
