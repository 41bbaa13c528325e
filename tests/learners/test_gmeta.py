"""G-Meta against a plain one: dense sub-graphs, one task after the other, every weight copied."""

import numpy as np
import pytest
import torch

from dense_views import augmented_episodes, dense_graphs
from gradients import move_biases
from graphs import sub_graph
from methods_under_test import community_graph
from naq.errors import OptionError
from naq.learners.gmeta import GMeta


def taken(adjacency, features, v):
    """(matrix, features, position of the centre) of a node's sub-graph."""
    members, matrix = sub_graph(adjacency, v)
    return torch.from_numpy(matrix).float(), torch.from_numpy(features[members]), int(np.flatnonzero(members == v)[0])


def sub_graphs(graph, nodes):
    adjacency, features = graph.adjacency.toarray(), graph.features.toarray()
    return [taken(adjacency, features, v) for v in nodes]


def forward(weights, graphs):
    w1, b1, w2, b2, wc, bc = weights
    rows = [torch.relu(a @ torch.relu(a @ x @ w1 + b1) @ w2 + b2)[c] for a, x, c in graphs]
    return torch.stack(rows) @ wc + bc


def nll(outputs, prototypes, labels):
    distances = torch.stack([(outputs - c).pow(2).sum(dim=1) for c in prototypes], dim=1)
    return -torch.log_softmax(-distances, dim=1)[torch.arange(len(labels)), labels].mean()


def plain_loss(learner, drawn, update=0):
    """Supports in sub-graphs of the graph, each query in a sub-graph of its column's view."""
    own, *views = dense_graphs(learner, drawn, update)
    e = learner.encoder
    start = [e.weight1, e.bias1, e.weight2, e.bias2, learner.head_weight, learner.head_bias]
    total = 0.0
    for t in range(len(drawn)):
        support = [taken(*own, v) for v in drawn.support[t].ravel()]
        labels = torch.arange(drawn.way).repeat_interleave(drawn.shot)
        slots, columns = np.nonzero(drawn.mask[t])
        query = [taken(*views[c], drawn.query[t, s, c]) for s, c in zip(slots, columns)]

        def prototypes(weights, support=support):
            return forward(weights, support).view(drawn.way, drawn.shot, -1).mean(dim=1)

        weights = start
        for _ in range(learner.options["inner_steps"]):
            before = weights
            grads = torch.autograd.grad(nll(forward(weights, support), prototypes(weights), labels), weights)
            weights = [w - learner.options["inner_lr"] * g for w, g in zip(weights, grads)]
        if query:
            total = total + nll(forward(weights, query), prototypes(before), torch.from_numpy(slots))
    return total / len(drawn)


@pytest.fixture
def drawn():
    import naq

    random = np.random.default_rng(4)
    ids = random.integers(0, 141, size=(4, 3, 6)).astype(np.int32)
    mask = random.random((4, 3, 4)) < 0.8
    return naq.Episodes(ids[:, :, :2].copy(), np.where(mask, ids[:, :, 2:], -1), mask)


def make(**options):
    """With biases that are not 0: at an isolated node they are the pre-activation, whose sign would be that of a rounding error."""
    given = {"latent": 8, "inner_steps": 3, "inner_lr": 0.2, **options}
    learner = GMeta(community_graph().without_labels(), way=3, seed=2, **given)
    move_biases(learner.encoder.bias1, learner.encoder.bias2)
    return learner


@pytest.mark.parametrize("options", [{}, {"inner_steps": 1}])
def test_equals_the_plain_one(drawn, options):
    learner = make(**options)
    ours, theirs = learner.loss(drawn), plain_loss(learner, drawn)
    assert torch.allclose(ours, theirs, atol=1e-5)
    parameters = list(learner.parameters())
    for a, b in zip(torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters)):
        assert torch.allclose(a, b, atol=2e-6 + 1e-4 * float(b.abs().max()))


@pytest.mark.parametrize("shot", [1, 2])
def test_under_g_umtra_queries_are_read_on_their_own_view(shot):
    learner, drawn = make(), augmented_episodes(141, shot=shot)
    parameters = list(learner.parameters())
    for update in (0, 5):
        ours, theirs = learner.loss(drawn, update), plain_loss(learner, drawn, update)
        assert torch.allclose(ours, theirs, atol=1e-5)
        for a, b in zip(torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters)):
            assert torch.allclose(a, b, atol=2e-6 + 1e-4 * float(b.abs().max()))
    assert learner.loss(drawn, 0) != learner.loss(drawn, 5)


def test_what_a_head_reads(drawn):
    learner = make()
    nodes = np.array([3, 70, 140])
    w = [learner.encoder.weight1, learner.encoder.bias1, learner.encoder.weight2, learner.encoder.bias2]
    outputs = forward([*w, learner.head_weight, learner.head_bias], sub_graphs(learner.graph, nodes))
    hidden = forward([*w, torch.eye(8), torch.zeros(8)], sub_graphs(learner.graph, nodes))
    assert torch.allclose(learner.encode(nodes), hidden, atol=1e-6)
    assert torch.allclose(make(readout="output").encode(nodes), outputs, atol=1e-6)


def test_vectors_of_the_whole_graph():
    """``embed=graph`` reads degrees of the graph, so it differs from sub-graphs where those cut degrees, and only there."""
    learner = make(embed="graph")
    adjacency = torch.from_numpy(learner.graph.normalized_adjacency(self_loops=False).toarray())
    e = learner.encoder
    hidden = torch.relu(adjacency @ torch.from_numpy(learner.graph.features.toarray()) @ e.weight1 + e.bias1)
    whole = torch.relu(adjacency @ hidden @ e.weight2 + e.bias2)
    assert torch.allclose(learner.encode_all(), whole, atol=1e-6)
    assert not torch.allclose(make().encode_all(), whole, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readout": "last"}, "readout of gmeta is 'last'"),
        ({"embed": "both"}, "embed of gmeta is 'both'"),
        ({"sample_nodes": -1}, "sample_nodes of gmeta is -1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(OptionError, match=message):
        make(**options)
