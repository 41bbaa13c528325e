"""G-Meta against a plain one: dense sub-graphs, one task after the other, every weight copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dense_views import CASES, dense_graphs, episodes_of
from gradients import check_loss, move_biases
from graphs import random_graph, sub_graph
from naq import Episodes
from naq.learners.gmeta import GMeta

SubGraph = tuple[torch.Tensor, torch.Tensor, int]


def make(**options: Any) -> GMeta:
    given = {"latent": 8, "inner_steps": 3, "inner_lr": 0.2, **options}
    learner = GMeta(random_graph().without_labels(), way=3, seed=2, **given)
    move_biases(learner.encoder.bias1, learner.encoder.bias2)
    return learner


def taken(adjacency: np.ndarray, features: np.ndarray, v: int) -> SubGraph:
    """(matrix, features, position of the centre) of a node's sub-graph."""
    members, matrix = sub_graph(adjacency, v)
    return torch.from_numpy(matrix).float(), torch.from_numpy(features[members]), int(np.flatnonzero(members == v)[0])


def forward(weights: list[torch.Tensor], graphs: list[SubGraph]) -> torch.Tensor:
    w1, b1, w2, b2, wc, bc = weights
    rows = [torch.relu(a @ torch.relu(a @ x @ w1 + b1) @ w2 + b2)[c] for a, x, c in graphs]
    return torch.stack(rows) @ wc + bc


def nll(outputs: torch.Tensor, prototypes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    distances = torch.stack([(outputs - c).pow(2).sum(dim=1) for c in prototypes], dim=1)
    return -torch.log_softmax(-distances, dim=1)[torch.arange(len(labels)), labels].mean()


def plain_loss(learner: GMeta, drawn: Episodes, update: int) -> torch.Tensor:
    """Supports in sub-graphs of the graph, each query in a sub-graph of its column's view."""
    own, *views = dense_graphs(learner, drawn, update)
    e = learner.encoder
    start = [e.weight1, e.bias1, e.weight2, e.bias2, learner.head_weight, learner.head_bias]
    total = torch.zeros(())
    for t in range(len(drawn)):
        support = [taken(*own, v) for v in drawn.support[t].ravel()]
        labels = torch.arange(drawn.way).repeat_interleave(drawn.shot)
        slots, columns = np.nonzero(drawn.mask[t])
        query = [taken(*views[c], drawn.query[t, s, c]) for s, c in zip(slots, columns)]

        def prototypes(weights: list[torch.Tensor], support: list[SubGraph] = support) -> torch.Tensor:
            return forward(weights, support).view(drawn.way, drawn.shot, -1).mean(dim=1)

        weights = start
        for _ in range(learner.options.inner_steps):
            before = weights
            grads = torch.autograd.grad(nll(forward(weights, support), prototypes(weights), labels), weights)
            weights = [w - learner.options.inner_lr * g for w, g in zip(weights, grads)]
        if query:
            total = total + nll(forward(weights, query), prototypes(before), torch.from_numpy(slots))
    return total / len(drawn)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_plain_one(case: str, steps: int) -> None:
    learner, drawn = make(inner_steps=steps), episodes_of(case)
    for update in (0, 5):
        check_loss(learner, learner.loss(drawn, update), plain_loss(learner, drawn, update))


def test_a_head_reads_the_centres_before_the_linear_layer() -> None:
    learner, nodes = make(), np.array([3, 40, 59])
    e, graph = learner.encoder, learner.graph
    weights = [e.weight1, e.bias1, e.weight2, e.bias2, torch.eye(8), torch.zeros(8)]
    graphs = [taken(graph.adjacency.toarray(), graph.features.toarray(), v) for v in nodes]
    assert torch.allclose(learner.encode(nodes), forward(weights, graphs), atol=1e-6)
    assert not torch.allclose(make(sample_nodes=2).encode(nodes), learner.encode(nodes), atol=1e-4)
    outputs = forward([*weights[:4], learner.head_weight, learner.head_bias], graphs)
    assert torch.allclose(make(readout="output").encode(nodes), outputs, atol=1e-6)


def test_vectors_of_the_whole_graph_have_its_degrees() -> None:
    learner = make(embed="graph")
    e, graph = learner.encoder, learner.graph
    adjacency = torch.from_numpy(graph.normalized_adjacency(self_loops=False).toarray())
    hidden = torch.relu(adjacency @ torch.from_numpy(graph.features.toarray()) @ e.weight1 + e.bias1)
    whole = torch.relu(adjacency @ hidden @ e.weight2 + e.bias2)
    assert torch.allclose(learner.encode_all(), whole, atol=1e-6)
    assert not torch.allclose(make().encode_all(), whole, atol=1e-4)
