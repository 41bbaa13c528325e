"""How a trained learner, or vectors, answer tasks: by every head, or by the learner itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch

from naq.embedders import EMBEDDERS, TrainedEmbedder
from naq.graph import Graph
from naq.heads import HEADS, Evaluation, Head, evaluate, in_reading_order, make_head, scored
from naq.learners import Learner
from naq.tasks import Tasks
from naq_scale.transfer import Transfer

Model = Learner | TrainedEmbedder
"""What was trained; both kinds answer tasks in the same way."""
OWN = "own"
"""Stands where the name of a head would, for a method that solves tasks itself."""
DIRICHLET = "dirichlet"
"""After the name of a head and a slash: its answers to the same tasks with Dirichlet(2) queries."""
BASELINE = "smooth"
"""The training-free method that every result is compared with."""


_aside = ThreadPoolExecutor(1, "naq-validation")


def validation_accuracy(learner: Model, tasks: Tasks, head: Head | None) -> float:
    """Accuracy of the learner as it is; None where it solves tasks itself. Only nodes of the tasks are encoded unless the head needs all."""
    if head is None:
        return own_evaluation(learner, tasks).accuracy
    with torch.no_grad():
        if head.needs_all_nodes:
            return evaluate(learner.encode_all(), tasks, head).accuracy
        nodes = tasks.nodes()
        place = np.full(int(nodes.max()) + 1, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        return evaluate(learner.encode(nodes), tasks.relabelled(place), head).accuracy


def begun_validation(learner: Model, tasks: Tasks, head: Head | None) -> float | Callable[[], float]:
    """:func:`validation_accuracy`, or on a GPU, where vectors are computed and sent while the training goes on, a function that waits for it."""
    if head is None or head.needs_all_nodes or learner.device.type != "cuda":
        return validation_accuracy(learner, tasks, head)
    nodes = tasks.nodes()
    place = np.full(int(nodes.max()) + 1, -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    with torch.no_grad():
        vectors = Transfer(learner.encode(nodes))
    # A thread of its own: a GPU takes so few steps ahead that it would wait for the host otherwise. The interpreter's lock keeps compiled code of both apart.
    return _aside.submit(lambda: evaluate(vectors.result(), tasks.relabelled(place), head).accuracy).result


@contextmanager
def other_weights(model: Model, weights: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """The model with these weights for a while, then with its own again."""
    own = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    try:
        yield
    finally:
        model.load_state_dict(own)


def own_evaluation(learner: Model, tasks: Tasks) -> Evaluation:
    """The answers of a learner that needs no head."""
    return scored(learner.solve(tasks), tasks, head=OWN, transductive=learner.transductive)


def every_answer(
    model: Model | None, vectors: np.ndarray, tasks: Tasks, unbalanced: Tasks, chosen: Head | None
) -> dict[str, Evaluation]:
    """Every head on the vectors, and the model's own answers where it has some; the ones that choose come first."""
    own = {OWN: own_evaluation(model, tasks)} if model is not None and (model.solves_tasks or model.also_solves) else {}
    if model is not None and model.solves_tasks:
        return {**own, **(every_head(vectors, tasks, unbalanced) if model.also_heads else {})}
    return {**every_head(vectors, tasks, unbalanced, chosen), **own}


def every_head(
    vectors: np.ndarray, tasks: Tasks, unbalanced: Tasks, chosen: Head | None = None
) -> dict[str, Evaluation]:
    """One evaluation per head that every run reports; ``chosen`` joins them or replaces the one of its name.

    Also the ``unbalanced`` tasks, by the heads that look at queries together and by ``prototype``, which does not: what looking gains.
    """
    heads = {name: make_head(name) for name in in_reading_order() if HEADS[name].reported}
    if chosen is not None:
        heads[chosen.name] = chosen
    shifted = {name: head for name, head in heads.items() if head.transductive or name == "prototype"}
    return {
        **{name: evaluate(vectors, tasks, head) for name, head in heads.items()},
        **{dirichlet(name): evaluate(vectors, unbalanced, head) for name, head in shifted.items()},
    }


def dirichlet(head: str) -> str:
    """The name under which a head's answers to Dirichlet(2) queries are kept."""
    return f"{head}/{DIRICHLET}"


_kept: dict[str, np.ndarray] = {}


def baseline_vectors(graph: Graph) -> np.ndarray:
    """Vectors of the ``smooth`` baseline; those of the last graph are kept, since many runs ask for them."""
    graph = graph.without_labels()
    if graph.hash not in _kept:
        _kept.clear()
        _kept[graph.hash] = EMBEDDERS[BASELINE](graph).embed()
    return _kept[graph.hash]
