"""How a trained model, or vectors, answer tasks: by every head, or by the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from naq.embedders import EMBEDDERS
from naq.graph import Graph
from naq.heads import HEADS, Evaluation, Head, evaluate, in_reading_order, make_head, scored
from naq.run.config import OWN
from naq.tasks import Tasks

DIRICHLET = "dirichlet"
"""After the name of a head and a slash: its answers to the same tasks with Dirichlet(2) queries."""
BASELINE = "smooth"
"""The training-free method that every result is compared with."""


def validation_accuracy(model: Any, tasks: Tasks, head: Head | None) -> float:
    """Accuracy of a learner or trained embedder as it is now, by a head or, with None, by itself.

    Only nodes of the tasks are encoded unless the head needs all.
    """
    if head is None:
        return own_evaluation(model, tasks).accuracy
    with torch.no_grad():
        if head.needs_all_nodes:
            return evaluate(model.encode_all(), tasks, head).accuracy
        nodes = tasks.nodes()
        place = np.full(int(nodes.max()) + 1, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        return evaluate(model.encode(nodes), tasks.relabelled(place), head).accuracy


def own_evaluation(model: Any, tasks: Tasks) -> Evaluation:
    """The answers of a model that needs no head."""
    return scored(model.solve(tasks), tasks, head=OWN, transductive=model.transductive)


def evaluate_heads(
    vectors: np.ndarray, tasks: Tasks, unbalanced: Tasks, *, model: Any = None, chosen: Head | None = None
) -> dict[str, Evaluation]:
    """One evaluation per head that every run reports, and the model's own answers if it has some.

    Also the ``unbalanced`` tasks, by the heads that look at queries together and by ``prototype``, which does not: what
    looking gains.

    Args:
        model: a learner or trained embedder; the head ``own`` comes first if it solves tasks itself.
        chosen: joins the reported heads or replaces the one of its name.
    """
    own: dict[str, Evaluation] = {}
    if model is not None and (model.solves_tasks or model.also_solves):
        own[OWN] = own_evaluation(model, tasks)
        if model.solves_tasks and not model.also_heads:
            return own
    heads = {name: make_head(name) for name in in_reading_order() if HEADS[name].reported}
    if chosen is not None:
        heads[chosen.name] = chosen
    found = {name: evaluate(vectors, tasks, head) for name, head in heads.items()}
    shifted = {name: head for name, head in heads.items() if head.transductive or name == "prototype"}
    found |= {dirichlet(name): evaluate(vectors, unbalanced, head) for name, head in shifted.items()}
    return {**own, **found} if model is not None and model.solves_tasks else {**found, **own}


def dirichlet(head: str) -> str:
    """The name under which a head's answers to Dirichlet(2) queries are kept."""
    return f"{head}/{DIRICHLET}"


_baseline: dict[str, np.ndarray] = {}


def baseline_vectors(graph: Graph) -> np.ndarray:
    """Vectors of the ``smooth`` baseline; those of the last graph are kept, since many runs ask for them."""
    graph = graph.without_labels()
    if graph.hash not in _baseline:
        _baseline.clear()
        _baseline[graph.hash] = EMBEDDERS[BASELINE](graph).embed()
    return _baseline[graph.hash]
