"""Graphs and names that tests of several rooms share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import naq
from naq.tasks import save_task_file
from naq.testing import SPLIT, community_graph
from naq.testing import renumber_nodes as relabelled
from naq.testing import small_options as options_for

__all__ = ["HEADS_OF_A_RUN", "SPLIT", "community_graph", "community_task_file", "noisy_graph", "options_for",
           "relabelled", "short_run"]  # fmt: skip

HEADS_OF_A_RUN = frozenset({"logistic", "prototype", "transductive", "em", "balanced"}) | {
    f"{head}/dirichlet" for head in ("prototype", "transductive", "em", "balanced")
}


def noisy_graph(size: int = 40) -> naq.Graph:
    """Communities with few of their own words and as many false edges as nodes: an untrained encoder is lost here."""
    graph, random = community_graph(size=size), np.random.default_rng(5)
    x = graph.features.toarray()
    x = x * (random.random(x.shape) < 0.35) + (random.random(x.shape) < 0.1)
    edges = np.concatenate(
        [np.stack(graph.adjacency.nonzero()), random.integers(0, graph.num_nodes, (2, graph.num_nodes))], axis=1
    )
    return naq.Graph(edges, x.astype(np.float32), graph.labels, nodes=graph.num_nodes, name="noisy")


def community_task_file(graph: naq.Graph, folder: Path) -> Path:
    """Tasks of one and three shots on a community graph."""
    sets = [
        naq.sample_tasks(graph, way=2, shot=shot, queries=4, count=count, classes=SPLIT.part(part), part=part)
        for shot in (1, 3)
        for part, count in (("valid", 20), ("test", 40))
    ]
    return save_task_file(folder / "communities.tasks.npz", sets, SPLIT)


def short_run(graph, tasks, method="naq-feat/protonet", **given):
    """A run of a few small updates."""
    options = {"latent": 16, "lr": 1e-3} if "/" in method else ({"dim": 16} if method == "smooth" else {"latent": 16})
    options |= given.pop("options", {})
    episode = {"queries": 3} if "/" in method else {}
    given = {"way": 2, "episodes": 40, "evaluate_every": 8, "cache": None} | given
    return naq.run(graph, method, tasks=tasks, options=options, episode=episode, **given)
