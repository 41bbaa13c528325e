"""MAML against a plain one, and the chunks of tasks that inner loops work on against dense products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dense_views import CASES, dense_graphs, episodes_of, normalised
from gradients import check_loss, move_biases
from graphs import random_graph
from naq import Episodes
from naq.errors import TrainingError
from naq.learners import meta_batch
from naq.learners.inner_loop import adapt, movable
from naq.learners.maml import MAML
from naq.learners.meta_batch import FeatureGram, FirstProducts, chunk_episodes
from naq.nn import GraphOperator


def make(**options: Any) -> MAML:
    given = {"latent": 8, "inner_steps": 4, "inner_lr": 0.5, **options}
    learner = MAML(random_graph().without_labels(), way=3, seed=1, **given)
    move_biases(learner.encoder.bias1, learner.encoder.bias2)
    return learner


def plain_loss(learner: MAML, drawn: Episodes, second_order: bool, update: int) -> torch.Tensor:
    """The whole graph for every task, step and query; each query column on its view."""
    own, *views = (
        (torch.from_numpy(normalised(adjacency)).float(), torch.from_numpy(features))
        for adjacency, features in dense_graphs(learner, drawn, update)
    )

    def forward(weights: list[torch.Tensor], graph: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        w1, b1, w2, b2, wc, bc = weights
        hidden = torch.relu(graph[0] @ graph[1] @ w1 + b1)
        return torch.relu(graph[0] @ hidden @ w2 + b2) @ wc + bc

    e = learner.encoder
    start = [e.weight1, e.bias1, e.weight2, e.bias2, learner.head_weight, learner.head_bias]
    total = torch.zeros(())
    for t in range(len(drawn)):
        support = torch.from_numpy(drawn.support[t].ravel()).long()
        labels = torch.arange(drawn.way).repeat_interleave(drawn.shot)
        weights = start
        for _ in range(learner.options.inner_steps):
            loss = F.cross_entropy(forward(weights, own)[support], labels)
            grads = torch.autograd.grad(loss, weights, create_graph=second_order)
            weights = [w - learner.options.inner_lr * g for w, g in zip(weights, grads)]
        slots, columns = np.nonzero(drawn.mask[t])
        if len(slots):
            read = [forward(weights, view) for view in views]
            logits = torch.stack([read[c][drawn.query[t, s, c]] for s, c in zip(slots, columns)])
            total = total + F.cross_entropy(logits, torch.from_numpy(slots))
    return total / len(drawn)


@pytest.mark.parametrize("order", ["first", "second"])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_plain_one(case: str, order: str) -> None:
    learner, drawn = make(order=order), episodes_of(case)
    for update in (0, 5):
        expected = plain_loss(learner, drawn, order == "second", update)
        check_loss(learner, learner.loss(drawn, update), expected)


@pytest.mark.parametrize(
    "limits", [{}, {"chunk_entries": 4000}, {"chunk_entries": 1}, {"chunk_entries": 1, "gram_entries": 1}]
)
@pytest.mark.parametrize("dense", [False, True])
def test_chunks_hold_the_products_of_the_receptive_fields(limits: dict[str, int], dense: bool) -> None:
    """Second-layer inputs P (W - P_S^T D), with and without a Gram matrix, against the dense ones."""
    graph, drawn = random_graph(dense=dense), episodes_of("missing queries")
    operator, weight = GraphOperator(graph), torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    smooth = torch.from_numpy(normalised(graph.adjacency.toarray())).float()
    inputs = smooth @ torch.tensor(graph.features if dense else graph.features.toarray())
    seen = []
    for chunk in chunk_episodes(drawn, operator, [operator], weight, **limits):
        seen += chunk.tasks.tolist()
        assert isinstance(chunk.query.gram, FeatureGram) == ("gram_entries" in limits)
        for place, task in enumerate(chunk.tasks):
            field = chunk.fields[place]
            shift = torch.zeros_like(chunk.support.first)
            shift[place, : len(field)] = torch.randn(len(field), 6)
            moved = weight + inputs[field].T @ shift[place, : len(field)]
            nodes = drawn.support[task].ravel(), drawn.query[task].ravel()
            for side, ids in zip((chunk.support, chunk.query), nodes):
                found = side.pool[place] @ side.moved(shift)[place]
                kept = ids >= 0
                assert np.array_equal(side.kept[place].numpy(), kept)
                slots = np.repeat(np.arange(3), len(ids) // 3)
                assert np.array_equal(side.slot[place].numpy()[kept], slots[kept])
                expected = smooth[ids[kept]] @ inputs @ moved
                assert torch.allclose(found[kept], expected, atol=1e-5 * float((inputs @ moved).abs().max()))
    assert sorted(seen) == [0, 1, 2]


def test_second_order_needs_gram_matrices() -> None:
    learner, drawn = make(order="second"), episodes_of("one shot")
    operator = learner.operator
    chunks = chunk_episodes(drawn, operator, [operator], learner.encoder.weight1, chunk_entries=1, gram_entries=1)
    with pytest.raises(TrainingError, match="order"):
        learner._chunk_loss(next(chunks))


def test_gram_matrices_of_inputs_that_are_held() -> None:
    """Some tasks at once, as on a GPU, against a product for each task."""
    operator = GraphOperator(random_graph(dense=True))
    nodes = np.array([[0, 5, 9, -1], [59, 3, -1, -1], [7, 8, 9, 10]])
    fields = meta_batch._Fields([operator], torch.ones(operator.width, 2), nodes)
    _, columns = meta_batch._pad(fields.local, fields.shares(fields.local))
    known = [fields.arounds[0][own[own >= 0]] for own in columns]
    expected = fields.gram(columns, operator, known, columns.shape[1], 1 << 20)
    at_once = 2 * 2 * columns.shape[1] * operator.width
    found = fields._gram_of(operator.dense_inputs(), columns, known, columns.shape[1], at_once)
    assert float(expected.abs().max()) > 0.1 and torch.allclose(found, expected, atol=1e-5)


def test_inner_steps_by_hand() -> None:
    """Gradient descent on |w - a|^2 / 2 per task: after s steps w = a + (1 - lr)^s (w0 - a)."""
    start, target = {"bias1": torch.ones(2, requires_grad=True)}, torch.tensor([[3.0, 0.0], [0.0, 5.0]])
    support = FirstProducts(torch.zeros(2, 1, 1, requires_grad=True), torch.zeros(2, 1, 1))

    def loss(weights: dict[str, torch.Tensor], first: torch.Tensor) -> torch.Tensor:
        return 0.5 * (weights["bias1"] - target).pow(2).sum() + first.sum()

    for second_order in (False, True):
        before, after = adapt(start, support, loss, steps=3, lr=0.1, second_order=second_order)
        for (weights, shift), steps in ((before, 2), (after, 3)):
            assert torch.allclose(weights["bias1"], target + 0.9**steps * (1 - target))
            assert torch.allclose(shift, torch.full((2, 1, 1), -0.1 * steps))
        (gradient,) = torch.autograd.grad(after[0]["bias1"].sum(), start["bias1"])
        assert torch.allclose(gradient, torch.full((2,), 2 * (0.9**3 if second_order else 1.0)))


def test_the_first_weight_is_not_copied() -> None:
    assert set(movable(make())) == {"bias1", "weight2", "bias2", "head_weight", "head_bias"}
