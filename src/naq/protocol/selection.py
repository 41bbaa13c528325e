"""How a checkpoint is chosen: by tasks of validation classes, or without any label."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from naq.episodes.pseudo import naq_tasks
from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors import diffusion_neighbors, feature_neighbors
from naq.options import nearest
from naq.tasks import Tasks

SELECTIONS = {
    "valid": "first best accuracy on validation tasks",
    "naq": "first best accuracy on label-free tasks: drawn nodes and their nearest by features and by diffusion",
}
WIDTH, QUERIES, COUNT = 10, 8, 50


def check_selection(select: str) -> str:
    """The name, once it is known to be one."""
    if select not in SELECTIONS:
        raise OptionError(f"select is {select!r}; {nearest(select, SELECTIONS)}")
    return select


def label_free_tasks(
    graph: Graph,
    way: int,
    *,
    cache: str | Path | None,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Tasks:
    """Fifty one-shot tasks without labels, half by features and half by diffusion; the same for every seed of a run."""
    graph = graph.without_labels()
    if graph.num_nodes <= WIDTH:
        raise OptionError(
            f"graph {graph.name!r} has {graph.num_nodes} nodes, too few for label-free tasks; choose by validation tasks."
        )
    tables = [
        feature_neighbors(graph, WIDTH, cache=cache, device=device, progress=progress),
        diffusion_neighbors(graph, WIDTH, cache=cache, progress=progress),
    ]
    return naq_tasks(tables, way=way, queries=QUERIES, count=COUNT)
