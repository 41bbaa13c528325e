"""What the trained rivals share: pieces of a graph, convolutions, sums in fixed order, the choice of batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import nn

import methods_under_test as suite
import naq
from graphs import random_graph
from naq.errors import OptionError
from naq.methods import get_method
from naq_paper.rivals.convolutions import Convolutions, follow, rising_momentum, teacher_of, warm_cosine
from naq_paper.rivals.fixed_order import NUMBERS, BatchNorm, drop_values, ordered_softmax, prelu, total
from naq_paper.rivals.pieces import Piece, PieceSampler

SMALL = {"hidden": 12, "latent": 6, "epochs": 20}
CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense_spread(adjacency: np.ndarray) -> np.ndarray:
    looped = adjacency + np.eye(len(adjacency))
    scale = 1 / np.sqrt(looped.sum(axis=1))
    return scale[:, None] * looped * scale[None, :]


@pytest.fixture(params=["sparse", "dense"])
def graph(request):
    plain = random_graph(60, 150, 12, seed=1, density=0.2)
    features = np.asarray(plain.features.toarray() if sp.issparse(plain.features) else plain.features)
    return naq.Graph(plain.adjacency, features + (request.param == "dense"), nodes=60)


def x_of(graph: naq.Graph) -> np.ndarray:
    return graph.features.toarray() if sp.issparse(graph.features) else np.asarray(graph.features)


# Pieces.


@pytest.mark.parametrize("nodes", [None, [7, 3, 40, 11, 12, 13]])
def test_products_and_their_gradients_equal_dense_ones(graph, nodes):
    piece = Piece(graph, "cpu", None if nodes is None else np.array(nodes), seeds=2)
    own = np.arange(60) if nodes is None else np.array(nodes)
    assert len(piece) == len(own) and piece.seeds == 2
    weight = torch.randn(graph.num_features, 5, generator=generator(), requires_grad=True)
    out = piece.spread() @ piece.inputs(weight)
    target = torch.randn(out.shape, generator=generator(1))
    (out * target).sum().backward()
    a, x = dense_spread(graph.adjacency.toarray()[np.ix_(own, own)]), x_of(graph)[own]
    assert np.allclose(out.detach().numpy(), a @ x @ weight.detach().numpy(), atol=1e-5)
    assert np.allclose(weight.grad.numpy(), x.T @ a.T @ target.numpy(), atol=1e-4)


def test_a_dropped_edge_goes_in_both_directions_and_degrees_are_counted_again(graph):
    piece = Piece(graph, "cpu")
    spread = piece.spread(0.4, generator(3))
    matrix = np.zeros((60, 60))
    matrix[piece.rows.numpy(), piece.columns.numpy()] = spread.values.numpy()
    kept = (matrix > 0) & ~np.eye(60, dtype=bool)
    assert np.array_equal(kept, kept.T) and (np.diag(matrix) > 0).all()
    assert (kept <= graph.adjacency.toarray().astype(bool)).all()
    assert np.allclose(matrix, dense_spread(kept.astype(float)), atol=1e-6)
    dense = torch.randn(60, 3, generator=generator())
    assert np.allclose((spread @ dense).numpy(), matrix @ dense.numpy(), atol=1e-5)
    assert torch.equal(piece.spread(0.4, generator(3)).values, spread.values)
    assert not torch.equal(piece.spread(0.4, generator(4)).values, spread.values)
    large = random_graph(400, 4000, 3, seed=2)
    left = (Piece(large, "cpu").spread(0.3, generator()).values > 0).sum().item() - 400
    assert abs(left / (2 * large.num_edges) - 0.7) < 0.03


def test_dropped_inputs_lose_non_zeros_and_keep_their_mean(graph):
    piece, eye, x = Piece(graph, "cpu"), torch.eye(graph.num_features), x_of(graph)
    thinned = piece.inputs(eye, 0.5, generator(5)).numpy()
    assert set(np.unique(np.round(thinned[x != 0] / x[x != 0], 4))) == {0.0, 2.0} and (thinned[x == 0] == 0).all()
    mean = np.mean([piece.inputs(eye, 0.5, generator(s)).numpy() for s in range(200)], axis=0)
    assert np.abs(mean - x).max() < 0.5 * np.abs(x).max() and abs(mean.sum() / x.sum() - 1) < 0.05
    weight = torch.ones(graph.num_features, 1, requires_grad=True)
    piece.inputs(weight, 0.5, generator(5)).sum().backward()
    assert np.allclose(weight.grad.numpy()[:, 0], thinned.sum(axis=0), atol=1e-4)


def test_batches_deal_every_node_once_per_epoch_and_follow_from_the_number(graph):
    pieces, fresh = (PieceSampler(graph, CPU, batch=16, hops=2, fanout=3, seed=0) for _ in range(2))
    assert pieces.per_epoch == 4
    for epoch in (0, 1):
        found = [pieces[4 * epoch + i] for i in range(4)]
        assert np.array_equal(np.sort(np.concatenate([p.nodes[: p.seeds] for p in found])), np.arange(60))
        assert all(len(np.unique(p.nodes)) == len(p.nodes) <= 16 * 4 * 4 for p in found)
    assert np.array_equal(fresh[6].nodes, pieces[6].nodes), "a piece depends on nothing but its number"
    assert not np.array_equal(pieces[2].nodes, pieces[6].nodes)
    whole = PieceSampler(graph, CPU, batch=0, hops=2, fanout=3)
    assert whole.per_epoch == 1 and whole[0] is whole[5] and whole[0].seeds == 60


def test_a_batch_is_joined_by_at_most_fanout_neighbours_of_each_node():
    star = naq.Graph(np.stack([np.zeros(50, int), np.arange(1, 51)]), np.eye(51), nodes=51)
    pieces, joined = PieceSampler(star, CPU, batch=17, hops=1, fanout=4, seed=1), []
    for i in range(30):
        seeds, extra = np.split(pieces[i].nodes, [pieces[i].seeds])
        if 0 in seeds:
            joined.append(len(extra))
        else:
            assert extra.tolist() == [0]
    assert len(joined) == 10 and max(joined) == 4, "drawn neighbours may be in the batch already"
    far = PieceSampler(star, CPU, batch=51, hops=2, fanout=60, seed=1)[0]
    assert sorted(far.nodes.tolist()) == list(range(51))


# Sums in fixed order.


def close(found: torch.Tensor | None, wanted: torch.Tensor | None) -> None:
    assert found is not None and wanted is not None
    assert (found - wanted).abs().max() < 2e-6 * (1 + wanted.abs().max())


@pytest.mark.parametrize("rows", [40, 511, 1300])
@pytest.mark.parametrize("momentum", [0.1, 0.99])
def test_batch_normalisation_is_that_of_torch(rows, momentum):
    mine, theirs = BatchNorm(37, momentum=momentum), nn.BatchNorm1d(37, momentum=momentum).double()
    with torch.no_grad():
        mine.weight.copy_(torch.linspace(0.5, 2, 37))
        mine.bias.copy_(torch.linspace(-1, 1, 37))
    theirs.load_state_dict(mine.state_dict())
    for step in range(2):
        x = (3 + 2 * torch.randn(rows, 37, generator=generator(step))).requires_grad_()
        y = x.detach().double().requires_grad_()
        pull = torch.randn(37, rows, generator=generator(9)).T  # gradients need not be contiguous
        found, wanted = mine(x), theirs(y)
        close(found, wanted)
        found.backward(pull)
        wanted.backward(pull.double())
        close(x.grad, y.grad)
    for one, two in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(one.grad, two.grad)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        close(mine.state_dict()[name], theirs.state_dict()[name])
    close(mine.eval()(x), theirs.eval()(y))
    with pytest.raises(ValueError, match="more than 1 value"):
        BatchNorm(3)(torch.ones(1, 3))


def test_prelu_and_softmax_are_those_of_torch():
    x, pull = (torch.randn(9, 5, 18, generator=generator(seed)) for seed in (0, 1))
    x[..., 3] = -torch.inf
    one, two = x.clone().requires_grad_(), x.double().requires_grad_()
    found, wanted = ordered_softmax(one), two.softmax(dim=-1)
    close(found, wanted)
    found.backward(pull)
    wanted.backward(pull.double())
    close(one.grad, two.grad)
    x, pull = (torch.randn(50, 7, generator=generator(seed)) for seed in (0, 1))
    one, two = (torch.tensor([0.25], requires_grad=True) for _ in range(2))
    assert torch.equal(prelu(x, one), F.prelu(x, two))
    prelu(x, one).backward(pull)
    F.prelu(x, two).backward(pull)
    close(one.grad, two.grad)


@pytest.mark.parametrize("count", [1, NUMBERS, 2 * NUMBERS + 3])
def test_total(count):
    values = torch.rand(count, generator=generator(), requires_grad=True)
    found = total(values)
    assert found.shape == () and torch.allclose(found, values.double().sum().float())
    found.backward()
    assert (values.grad == 1).all()


def test_dropout_has_its_share_and_a_gradient():
    values = torch.ones(400, 503)
    found = drop_values(values, 0.3, generator())
    assert torch.allclose(found.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert abs(float((found == 0).float().mean()) - 0.3) < 5 * (0.21 / values.numel()) ** 0.5
    assert torch.equal(drop_values(values, 0.3, generator()), found)
    assert not torch.equal(drop_values(values, 0.3, generator(1)), found)
    assert drop_values(values, 0.0, generator()) is values and drop_values(values, 0.3, None) is values
    values = torch.randn(7, 9, generator=generator(), requires_grad=True)
    found = drop_values(values, 0.3, generator(3))
    (grad,) = torch.autograd.grad((2 * found).sum(), values)
    assert torch.allclose(grad * values / 2, found)


# Networks and training.


def test_schedules_and_the_teacher():
    assert [rising_momentum(0.99, u, 100) for u in (0, 50, 100)] == pytest.approx([0.99, 0.995, 1.0])
    rates = [warm_cosine(1.0, u, 110, 10) for u in range(110)]
    assert [rates[u] for u in (0, 9, 10, 60)] == pytest.approx([0.1, 1.0, 1.0, 0.5]) and rates[-1] < 0.001
    cosine = [(1 + math.cos(math.pi * (u - 10) / 100)) / 2 for u in range(10, 110)]
    assert rates[10:] == pytest.approx(cosine)
    student = nn.Linear(3, 2)
    teacher = teacher_of(student)
    with torch.no_grad():
        for p in student.parameters():
            p.add_(1.0)
    before = [p.clone() for p in teacher.parameters()]
    follow(teacher, student, 0.75)
    assert all(torch.allclose(now, old + 0.25) for old, now in zip(before, teacher.parameters()))
    assert not any(p.requires_grad for p in teacher.parameters())


def batch_norm(values, norm):
    mean, var = values.mean(dim=0), values.var(dim=0, unbiased=False)
    return (values - mean) / torch.sqrt(var + norm.eps) * norm.weight + norm.bias


def test_convolutions_without_the_last_norm_and_with_dropout(graph):
    sizes, how = (graph.num_features, 8, 4), {"device": CPU, "momentum": 0.1, "activation": "relu", "last": "linear"}
    plain, thin = (Convolutions(sizes, generator=generator(), dropout=d, **how) for d in (0.0, 0.5))
    x, matrix = torch.from_numpy(x_of(graph) + 0), torch.from_numpy(graph.normalized_adjacency().toarray())
    hidden = torch.relu(batch_norm(matrix @ x @ plain.weights[0] + plain.biases[0], plain.norms[0]))
    piece = Piece(graph, "cpu")
    assert torch.allclose(plain(piece), matrix @ hidden @ plain.weights[1] + plain.biases[1], atol=1e-4)
    one, two, other = (thin(piece, generator=generator(s)) for s in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)
    thin.eval()
    assert torch.equal(thin(piece, generator=generator(1)), thin(piece, generator=generator(2)))


RIVALS = ("afgrl", "bgrl", "cola", "sugrl", "vnt")


@pytest.mark.parametrize("name", RIVALS)
def test_batches_if_memory_is_short(name):
    graph, kind = suite.community_graph(size=200).without_labels(), get_method(name).model
    small = {k: v for k, v in (SMALL | {"fanout": 1, "latent": 8}).items() if k in kind.defaults}
    whole = kind(graph, **small)
    assert whole.batch == 0 and "whole graph" in whole.plan()
    short = kind(graph, **small, memory=whole.needs(0) / 2e9)
    assert 64 <= short.batch < graph.num_nodes and short.updates == short.options.epochs * short.updates_per_epoch
    assert short.needs(short.batch) <= short.limit() < short.needs(2 * short.batch)
    piece = short.pieces[0]
    assert (len(piece) == piece.seeds) == (name == "vnt"), "its sequences need no neighbours in the piece"
    assert {m.momentum for m in short.modules() if isinstance(m, nn.BatchNorm1d)} <= {0.1}
    optimizer = short.optimizer()
    for update in range(2):
        short.step(update, optimizer)
    assert np.isfinite(short.embed()).all()
    with pytest.raises(OptionError, match="batches of 64"):
        kind(graph, **small, memory=1e-6)
    with pytest.raises(OptionError, match="batch"):
        kind(graph, **small, batch=graph.num_nodes + 1)


@pytest.mark.parametrize("name", RIVALS[:4])
@pytest.mark.parametrize("batch", [0, 64])
def test_training_beats_no_training(name, batch):
    graph, kind = suite.noisy_graph(), get_method(name).model
    tasks = naq.sample_tasks(graph, way=5, shot=1, queries=8, count=60, seed=0)
    given = {"hidden": 64, "latent": 32, "lr": 5e-3, "dropout": 0.0}
    options = {k: v for k, v in given.items() if k in kind.defaults}
    accuracy = {}
    for epochs in (0, 15 if batch else 60):
        model = kind(graph, epochs=epochs, batch=batch, **options)
        optimizer = model.optimizer()
        for update in range(model.updates):
            model.step(update, optimizer)
        accuracy[bool(epochs)] = naq.evaluate(model.embed(), tasks, head="prototype").accuracy
    assert accuracy[True] > accuracy[False] + 0.05


@pytest.mark.parametrize(("name", "option", "value"), [
    *(("cola", *pair) for pair in (("way", 150), ("shot", 142), ("batch", 4))),
    *(("vnt", *pair) for pair in (("context", 100), ("latent", 15), ("fanout", 5))), ("afgrl", "hidden", 0),
])  # fmt: skip
def test_options_that_do_not_fit_the_graph_or_each_other(name, option, value):
    with pytest.raises(OptionError, match=option):
        get_method(name).model(suite.community_graph(), **{option: value})
