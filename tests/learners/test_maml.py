"""MAML against a plain one: full graph, one task after the other, every weight copied, gradients by autograd."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import naq
import naq.nn
from dense_views import augmented_episodes, dense_graphs, normalised
from gradients import move_biases
from graphs import random_graph
from methods_under_test import community_graph
from naq.errors import OptionError, TrainingError
from naq.learners import LEARNERS, meta_batch
from naq.learners.maml import MAML


def episodes(count=5, way=3, shot=2, queries=4, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(0, 141, size=(count, way, shot + queries)).astype(np.int32)
    mask = random.random((count, way, queries)) < 0.8
    query = np.where(mask, ids[:, :, shot:], -1)
    return naq.Episodes(ids[:, :, :shot].copy(), query, mask)


def plain_loss(learner, drawn, second_order, update=0):
    """The whole graph for every task, step and query; each query column on its view."""
    own, *views = (
        (torch.from_numpy(normalised(adjacency)).float(), torch.from_numpy(features))
        for adjacency, features in dense_graphs(learner, drawn, update)
    )

    def forward(weights, graph):
        w1, b1, w2, b2, wc, bc = weights
        hidden = torch.relu(graph[0] @ graph[1] @ w1 + b1)
        return torch.relu(graph[0] @ hidden @ w2 + b2) @ wc + bc

    e = learner.encoder
    start = [e.weight1, e.bias1, e.weight2, e.bias2, learner.head_weight, learner.head_bias]
    total = 0.0
    for t in range(len(drawn)):
        support = torch.from_numpy(drawn.support[t].ravel()).long()
        labels = torch.arange(drawn.way).repeat_interleave(drawn.shot)
        weights = start
        for _ in range(learner.options["inner_steps"]):
            loss = F.cross_entropy(forward(weights, own)[support], labels)
            grads = torch.autograd.grad(loss, weights, create_graph=second_order)
            weights = [w - learner.options["inner_lr"] * g for w, g in zip(weights, grads)]
        slots, columns = np.nonzero(drawn.mask[t])
        if len(slots):
            read = [forward(weights, view) for view in views]
            logits = torch.stack([read[c][drawn.query[t, s, c]] for s, c in zip(slots, columns)])
            total = total + F.cross_entropy(logits, torch.from_numpy(slots))
    return total / len(drawn)


def gradients(learner, loss):
    return torch.autograd.grad(loss, list(learner.parameters()))


@pytest.fixture
def learner_of():
    def make(**options):
        given = {"latent": 8, "inner_steps": 4, "inner_lr": 0.5, **options}
        learner = MAML(community_graph().without_labels(), way=3, seed=1, **given)
        move_biases(learner.encoder.bias1, learner.encoder.bias2)
        return learner

    return make


@pytest.mark.parametrize("order", ["first", "second"])
def test_equals_the_plain_one(learner_of, order):
    learner, drawn = learner_of(order=order), episodes()
    ours, theirs = learner.loss(drawn), plain_loss(learner, drawn, order == "second")
    assert torch.allclose(ours, theirs, atol=1e-5)
    for a, b in zip(gradients(learner, ours), gradients(learner, theirs)):
        assert torch.allclose(a, b, atol=2e-6 + 1e-4 * float(b.abs().max()))


@pytest.mark.parametrize("shot", [1, 2])
@pytest.mark.parametrize("order", ["first", "second"])
def test_under_g_umtra_queries_are_read_on_their_own_view(learner_of, order, shot):
    learner, drawn = learner_of(order=order), augmented_episodes(141, shot=shot)
    for update in (0, 5):
        ours, theirs = learner.loss(drawn, update), plain_loss(learner, drawn, order == "second", update)
        assert torch.allclose(ours, theirs, atol=1e-5)
        for a, b in zip(gradients(learner, ours), gradients(learner, theirs)):
            assert torch.allclose(a, b, atol=2e-6 + 1e-4 * float(b.abs().max()))
    assert learner.loss(drawn, 0) != learner.loss(drawn, 5)


def test_the_orders_differ(learner_of):
    drawn = episodes()
    one, two = ([*gradients(m, m.loss(drawn))] for m in (learner_of(order="first"), learner_of(order="second")))
    assert not torch.allclose(one[0], two[0], atol=1e-6)


@pytest.mark.parametrize("entries", [1, 4000])
def test_chunks_do_not_matter(learner_of, monkeypatch, entries):
    learner, drawn = learner_of(), episodes()
    whole = learner.loss(drawn)
    monkeypatch.setattr(meta_batch, "CHUNK_ENTRIES", entries)
    assert torch.allclose(learner.loss(drawn), whole, atol=1e-6)


def test_through_the_features_where_a_gram_matrix_would_not_fit(learner_of, monkeypatch):
    learner, drawn = learner_of(), episodes()
    whole = learner.loss(drawn)
    expected = gradients(learner, whole)
    monkeypatch.setattr(meta_batch, "CHUNK_ENTRIES", 1)
    monkeypatch.setattr(meta_batch, "GRAM_ENTRIES", 1)
    loss = learner.loss(drawn)
    assert torch.allclose(loss, whole, atol=1e-6)
    for a, b in zip(gradients(learner, loss), expected):
        assert torch.allclose(a, b, atol=2e-6 + 1e-4 * float(b.abs().max()))
    with pytest.raises(TrainingError, match="use order=first"):
        learner_of(order="second").loss(drawn)


def test_no_query_at_all(learner_of):
    learner, drawn = learner_of(), episodes(count=2)
    empty = naq.Episodes(drawn.support, np.full_like(drawn.query, -1), np.zeros_like(drawn.mask))
    loss = learner.loss(empty)
    loss.backward()
    assert loss.item() == 0.0 and all(torch.isfinite(p.grad).all() for p in learner.parameters() if p.grad is not None)


def test_a_step_lowers_the_loss(learner_of):
    learner, drawn = learner_of(lr=1e-2), episodes()
    optimizer = learner.optimizer()
    losses = [float(learner.step(drawn, i, optimizer)) for i in range(20)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "third"}, "order of maml is 'third'"),
        ({"inner_steps": 0}, "inner_steps of maml is 0"),
        ({"inner_lr": -0.1}, "inner_lr of maml is -0.1"),
        ({"meta_batch": 0}, "meta_batch of maml is 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(OptionError, match=message):
        LEARNERS["maml"](community_graph(), way=2, **options)


def test_a_way_it_was_not_made_for(learner_of):
    with pytest.raises(OptionError, match="an episode has 2 classes, but the classifier of maml was trained for 3"):
        learner_of().loss(episodes(way=2))


def test_gram_matrices_of_inputs_that_are_held(monkeypatch):
    """Some tasks at once, as on a GPU, against a product for each task."""
    operator = naq.nn.GraphOperator(random_graph(dense=True))
    nodes = np.array([[0, 5, 9, -1], [59, 3, -1, -1], [7, 8, 9, 10]])
    fields = meta_batch._Fields([operator], torch.ones(operator.width, 2), nodes)
    shares = fields.shares(fields.local)
    _, columns = meta_batch._padded(fields.local, shares)
    known = [fields.arounds[0][own[own >= 0]] for own in columns]
    monkeypatch.setattr(meta_batch, "CHUNK_ENTRIES", 2 * 2 * columns.shape[1] * operator.width)
    expected = fields.gram(columns, operator, known, columns.shape[1])
    found = fields._gram_of(operator.held_inputs(), columns, known, columns.shape[1])
    assert float(expected.abs().max()) > 0.1 and torch.allclose(found, expected, atol=1e-5)
