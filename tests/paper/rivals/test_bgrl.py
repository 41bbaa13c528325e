"""BGRL's formulas against plain dense ones."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import methods_under_test as suite
import naq
from naq.errors import GraphError, OptionError
from naq_paper.rivals.bgrl import BGRL
from naq_paper.rivals.convolutions import Convolutions, drawn_view, follow, rising_momentum, teacher_of, warm_cosine
from naq_paper.rivals.pieces import Piece

SMALL = {"hidden": 12, "latent": 6, "epochs": 20}


@pytest.fixture(scope="module")
def graph():
    return suite.community_graph().without_labels()


def dense_view(piece, spread):
    matrix = torch.zeros(len(piece), len(piece))
    matrix[piece.rows, piece.columns] = spread.values
    return matrix


def batch_norm(values, norm):
    mean, var = values.mean(dim=0), values.var(dim=0, unbiased=False)
    return (values - mean) / torch.sqrt(var + norm.eps) * norm.weight + norm.bias


def plain_encoder(encoder, matrix, x):
    """[A X W + b -> batch normalisation over the nodes -> PReLU] twice, written out."""
    values = x
    for weight, bias, norm, slope in zip(encoder.weights, encoder.biases, encoder.norms, encoder.slopes):
        values = batch_norm(matrix @ values @ weight + bias, norm)
        values = torch.where(values > 0, values, slope * values)
    return values


def plain_predictor(predictor, values):
    values = values @ predictor.first.weight.T + predictor.first.bias
    values = torch.where(values > 0, values, predictor.slope * values)
    return values @ predictor.second.weight.T + predictor.second.bias


def test_the_loss_is_two_minus_two_mean_cosines_across_views(graph):
    model = BGRL(graph, **SMALL)
    piece = model.pieces[0]
    x = torch.from_numpy(graph.features.toarray())
    spreads, columns = zip(*(drawn_view(model, piece, number, 3) for number in (1, 2)))
    views = [(dense_view(piece, spread), x * mask) for spread, mask in zip(spreads, columns)]
    assert not torch.equal(views[0][0], views[1][0]) and not torch.equal(columns[0], columns[1])
    expected = 2.0
    for mine, other in ((0, 1), (1, 0)):
        predicted = plain_predictor(model.predictor, plain_encoder(model.online, *views[mine]))
        answer = plain_encoder(model.target, *views[other])
        for v in range(len(piece)):
            p, a = predicted[v], answer[v]
            expected -= (p @ a / (p.norm() * a.norm())).item() / len(piece)
    model.train()
    assert model.loss(piece, 3).item() == pytest.approx(expected, abs=1e-5)


def test_only_the_seeds_of_a_batch_count(graph):
    model = BGRL(graph, batch=32, **SMALL)
    piece = model.pieces[1]
    assert piece.seeds < len(piece)
    model.train()
    whole = Piece(graph, "cpu", piece.nodes, seeds=len(piece))
    assert model.loss(piece, 0).item() != pytest.approx(model.loss(whole, 0).item(), abs=1e-6)


def test_the_target_gets_no_gradient_and_follows_once_per_update(graph):
    model = BGRL(graph, lr=0.01, momentum=0.9, **SMALL)
    before = [p.detach().clone() for p in model.target.parameters()]
    optimizer = model.optimizer()
    assert not {id(p) for p in model.target.parameters()} & {
        id(p) for group in optimizer.param_groups for p in group["params"]
    }
    update = 7
    model.step(update, optimizer)
    keep = 1 - 0.1 * (1 + math.cos(math.pi * update / model.updates)) / 2
    for old, now, online in zip(before, model.target.parameters(), model.online.parameters()):
        assert torch.allclose(now, keep * old + (1 - keep) * online, atol=1e-6)
    assert all(p.grad is None for p in model.target.parameters())


def test_fresh_and_copied_targets(graph):
    copied = BGRL(graph, target="copy", **SMALL)
    assert all(torch.equal(a, b) for a, b in zip(copied.target.parameters(), copied.online.parameters()))
    fresh = BGRL(graph, target="fresh", **SMALL)
    assert not torch.equal(fresh.target.weights[0], fresh.online.weights[0])


def test_schedules():
    assert rising_momentum(0.99, 0, 100) == pytest.approx(0.99)
    assert rising_momentum(0.99, 50, 100) == pytest.approx(0.995)
    assert rising_momentum(0.99, 100, 100) == pytest.approx(1.0)
    rates = [warm_cosine(1.0, u, 110, 10) for u in range(110)]
    assert rates[0] == pytest.approx(0.1) and rates[9] == pytest.approx(1.0) and rates[10] == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.5) and rates[-1] < 0.001
    assert all(a >= b for a, b in pairwise(rates[10:]))


def test_follow_moves_every_tensor_by_the_same_momentum():
    student = torch.nn.Linear(3, 2)
    teacher = teacher_of(student)
    with torch.no_grad():
        for p in student.parameters():
            p.add_(1.0)
    before = [p.clone() for p in teacher.parameters()]
    follow(teacher, student, 0.75)
    for old, now in zip(before, teacher.parameters()):
        assert torch.allclose(now, old + 0.25)


def test_columns_are_zeroed_not_scaled(graph):
    model = BGRL(graph, drop_feature1=0.5, **SMALL)
    _, mask = drawn_view(model, model.pieces[0], 1, 0)
    assert set(mask.unique().tolist()) == {0.0, 1.0} and 0.2 < float(mask.mean()) < 0.8


def test_embedding_uses_running_statistics_of_the_graph_as_it_is(graph):
    model = BGRL(graph, bn_momentum=0.25, **SMALL)
    optimizer = model.optimizer()
    for update in range(4):
        model.step(update, optimizer)
    x = torch.from_numpy(graph.features.toarray())
    matrix = torch.from_numpy(graph.normalized_adjacency().toarray())
    values = x
    for weight, bias, norm, slope in zip(
        model.online.weights, model.online.biases, model.online.norms, model.online.slopes
    ):
        values = matrix @ values @ weight + bias
        values = (values - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps) * norm.weight + norm.bias
        values = torch.where(values > 0, values, slope * values)
    assert torch.allclose(model.encode_all(), values.detach(), atol=1e-4)
    assert model.training, "embedding leaves the training mode as it was"
    assert torch.allclose(model.online.encode_all(model.operator, 17), model.encode_all(), atol=1e-5)


def test_minmax_scaling(graph):
    z = BGRL(graph, scale="minmax", **SMALL).embed()
    assert z.min() == 0 and z.max() == pytest.approx(1)


def test_batches_where_memory_is_short(graph):
    graph = suite.community_graph(size=200).without_labels()
    whole = BGRL(graph, **SMALL)
    assert whole.batch == 0 and "whole graph" in whole.plan()
    short = BGRL(graph, memory=whole.needs(0) / 2e9, fanout=1, **SMALL)
    assert (
        64 <= short.batch <= 256
        and short.needs(short.batch) <= short.limit() < short.needs(2 * short.batch)
        and short.updates == 20 * short.updates_per_epoch
    )
    assert "batches of" in short.plan() and "the whole graph needs" in short.plan()
    assert {m.momentum for m in short.modules() if isinstance(m, torch.nn.BatchNorm1d)} == {0.1}
    with pytest.raises(OptionError, match="even batches of 64 nodes need about"):
        BGRL(graph, memory=1e-6, **SMALL)


@pytest.mark.parametrize("options", [{}, {"batch": 48, "fanout": 3}])
def test_training_beats_no_training(options):
    graph = suite.noisy_graph()
    tasks = naq.sample_tasks(graph, way=5, shot=1, queries=8, count=60, seed=0)
    accuracy = {}
    for epochs in (0, 60):
        model = BGRL(graph, hidden=64, latent=32, lr=5e-3, epochs=epochs, **options)
        optimizer = model.optimizer()
        for update in range(model.updates):
            model.step(update, optimizer)
        accuracy[epochs] = naq.evaluate(model.embed(), tasks, head="prototype").accuracy
    assert accuracy[60] > accuracy[0] + 0.1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": 1000}, "batch of bgrl is 1000, but graph 'communities' has 141 nodes"),
        ({"drop_edge1": 1.0}, "drop_edge1 of bgrl is 1.0; expected at least 0 and below 1"),
        ({"target": "teacher"}, "target of bgrl is 'teacher'; expected one of copy, fresh"),
        ({"lr": 0.0}, "lr of bgrl is 0.0; expected more than 0"),
        ({"epochs": -1}, "epochs of bgrl is -1; expected at least 0"),
        ({"scale": "max"}, "scale of bgrl is 'max'; did you mean minmax"),
    ],
)
def test_bad_options(graph, options, words):
    with pytest.raises(OptionError, match=words):
        BGRL(graph, **options)


def test_no_features(graph):
    with pytest.raises(GraphError, match="has no features, which bgrl needs"):
        BGRL(naq.Graph(graph.adjacency))


def test_convolutions_without_the_last_norm_and_with_dropout(graph):
    def make(dropout):
        return Convolutions(
            (graph.num_features, 8, 4),
            generator=torch.Generator().manual_seed(0),
            device=torch.device("cpu"),
            momentum=0.1,
            activation="relu",
            last="linear",
            dropout=dropout,
        )

    piece, plain = Piece(graph, "cpu"), make(0.0)
    x, matrix = torch.from_numpy(graph.features.toarray()), torch.from_numpy(graph.normalized_adjacency().toarray())
    hidden = torch.relu(batch_norm(matrix @ x @ plain.weights[0] + plain.biases[0], plain.norms[0]))
    expected = matrix @ hidden @ plain.weights[1] + plain.biases[1]
    assert torch.allclose(plain(piece), expected, atol=1e-4)
    dropped = make(0.5)
    one, two, other = (dropped(piece, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)
    dropped.eval()
    assert torch.equal(
        dropped(piece, generator=torch.Generator().manual_seed(1)),
        dropped(piece, generator=torch.Generator().manual_seed(2)),
    )
    assert np.isfinite(dropped(piece).detach().numpy()).all()
