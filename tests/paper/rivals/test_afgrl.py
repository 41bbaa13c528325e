from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from graphs import random_graph
from naq.errors import OptionError
from naq_paper.rivals import afgrl
from naq_paper.rivals.afgrl import AFGRL
from naq_paper.rivals.pieces import Piece
from paper.rivals.test_mining import dense_nearest, dense_positives

SMALL = {"hidden": 12, "latent": 8, "predictor": 16, "clusters": 5, "epochs": 12}
"""Widths for tests."""


def made(**options: Any) -> AFGRL:
    return AFGRL(random_graph(n=90, edges=200), seed=3, **(SMALL | options))


def train(model: AFGRL, first: int, end: int, optimizer: torch.optim.Optimizer | None = None) -> torch.optim.Optimizer:
    optimizer = optimizer or model.optimizer()
    for update in range(first, end):
        model.step(update, optimizer)
    return optimizer


def loop(model: AFGRL, piece: Piece, labels: np.ndarray) -> torch.Tensor:
    """The loss pair by pair, its positives from dense matrices."""
    f, g = model.student(piece), model.teacher(piece).detach()
    q = model.predictor(f)
    a, b = ((x / x.norm(dim=1, keepdim=True)).detach().numpy()[:end] for x, end in ((f, piece.seeds), (g, None)))
    adjacency = model.graph.adjacency.toarray()[np.ix_(piece.nodes, piece.nodes)]
    pairs = np.argwhere(dense_positives(dense_nearest(a, b, int(model.options["k"])), adjacency, labels))
    cos = torch.nn.functional.cosine_similarity
    terms = [(2 - 2 * cos(q[i], g[j], dim=0)) + (2 - 2 * cos(q[j], g[i], dim=0)) for i, j in pairs.tolist()]
    assert len(terms) > piece.seeds and set(pairs[:, 0]) == set(range(piece.seeds))
    return torch.stack(terms).mean()


@pytest.mark.parametrize("options", [{}, {"batch": 20, "fanout": 3}, {"runs": 0}, {"layers": 1, "k": 8}])
def test_the_loss_is_the_mean_over_positive_pairs(options: dict[str, Any]) -> None:
    model = made(**options)
    train(model, 0, 3)
    model.train()
    piece = model.pieces[3]
    assert piece.whole == ("batch" not in options)
    loss = model.loss(piece, 3)
    labels = model.held_clusters.numpy()[piece.nodes] if model.options["runs"] else np.empty((len(piece), 0))
    expected = loop(model, piece, labels)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    trained = list(model.trained())
    found, wanted = (torch.autograd.grad(value, trained) for value in (loss, expected))
    largest = max(float(grad.abs().max()) for grad in wanted)
    for one, two in zip(found, wanted):  # biases before a normalisation have none
        assert torch.allclose(one, two, atol=1e-5 * largest)


def test_the_networks() -> None:
    model = AFGRL(random_graph(d=20), epochs=1)
    assert [w.shape[1] for w in model.student.weights] == [512, 256]
    assert [w.shape[1] for w in AFGRL(random_graph(d=20), layers=1).student.weights] == [256]
    first, norm, second = model.predictor.first, model.predictor.norm, model.predictor.second
    assert first.weight.shape == (512, 256) and second.weight.shape == (256, 512)
    assert norm is not None and norm.num_features == 512
    assert torch.equal(first.bias, torch.full((512,), 0.01)) and torch.equal(second.bias, torch.full((256,), 0.01))
    for mine, theirs in zip(model.teacher.parameters(), model.student.parameters()):
        assert torch.equal(mine, theirs) and not mine.requires_grad and theirs.requires_grad
    assert {id(p) for p in model.trained()} == {
        id(p) for part in (model.student, model.predictor) for p in part.parameters()
    }
    optimizer = model.optimizer()
    assert isinstance(optimizer, torch.optim.AdamW)
    assert optimizer.defaults["lr"] == 1e-3 and optimizer.defaults["weight_decay"] == 1e-5


def test_momentum_of_running_statistics() -> None:
    assert made().student.norms[0].momentum == 0.99 and made(batch=20).student.norms[0].momentum == 0.1
    assert made(batch=20).teacher.norms[1].momentum == made(batch=20).predictor.norm.momentum == 0.1
    assert made(batch=20, bn_momentum=0.01).student.norms[0].momentum == 0.01


@pytest.mark.parametrize("options", [{}, {"batch": 40}])
def test_the_teacher_follows_once_per_update(options: dict[str, Any]) -> None:
    model = made(epochs=4, **options)
    optimizer = model.optimizer()
    assert model.updates == (12 if options else 4)
    for update in range(model.updates):
        before = [p.clone() for p in model.teacher.parameters()]
        model.step(update, optimizer)
        momentum = 1 - 0.1 * (math.cos(math.pi * update / model.updates) + 1) / 2
        for old, new, student in zip(before, model.teacher.parameters(), model.student.parameters()):
            assert torch.allclose(new, momentum * old + (1 - momentum) * student, atol=1e-7)


def searches(monkeypatch: pytest.MonkeyPatch, model: AFGRL) -> dict[str, list[int]]:
    """The updates at which clusters and nearest nodes are searched for."""
    seen: dict[str, list[int]] = {"clusters": [], "nearest": []}
    now = [0]
    for name in seen:
        real = getattr(afgrl, name)
        monkeypatch.setattr(afgrl, name, lambda *args, real=real, name=name: seen[name].append(now[0]) or real(*args))
    optimizer = model.optimizer()
    for now[0] in range(model.updates):
        model.step(now[0], optimizer)
    return seen


def test_when_positives_are_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = searches(monkeypatch, made(epochs=8, refresh=3))
    assert seen == {"clusters": [0, 3, 6], "nearest": list(range(8))}
    with monkeypatch.context() as patch:
        assert searches(patch, made(epochs=3)) == {"clusters": [0], "nearest": [0, 1, 2]}


def test_batches_take_clusters_of_the_whole_graph_at_the_start_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(epochs=5, batch=30, refresh=2)
    drawn: list[torch.Tensor] = []
    real = afgrl.clusters

    def kept(vectors: torch.Tensor, *args: Any) -> torch.Tensor:
        expected = model.teacher.encode_all(model.operator)
        assert torch.allclose(vectors, expected / expected.norm(dim=1, keepdim=True), atol=1e-5)
        drawn.append(real(vectors, *args))
        return drawn[-1]

    with monkeypatch.context() as patch:
        patch.setattr(afgrl, "clusters", kept)
        train(model, 0, 7)
    assert len(drawn) == 2 and not torch.equal(drawn[0], drawn[1])
    assert torch.equal(model.held_clusters, drawn[1]) and model.training
    seen = searches(monkeypatch, made(epochs=5, batch=30, refresh=2))
    assert seen == {"clusters": [0, 6, 12], "nearest": list(range(15))}


@pytest.mark.parametrize("options", [{}, {"batch": 40}])
def test_a_stopped_training_goes_on_with_what_it_had_found(options: dict[str, Any]) -> None:
    options = {"refresh": 5, "runs": 2, "k": 6} | options
    whole = made(**options)
    train(whole, 0, whole.updates)
    stop = 7 * whole.updates_per_epoch  # between two searches

    def resumed(forget: bool = False) -> dict[str, torch.Tensor]:
        first = made(**options)
        optimizer = train(first, 0, stop)
        state = {name: value.clone() for name, value in first.state_dict().items()}
        if forget:
            state["held_clusters"].zero_()
        second = made(**options)
        second.load_state_dict(state)
        fresh = second.optimizer()
        fresh.load_state_dict(optimizer.state_dict())
        train(second, stop, second.updates, fresh)
        return second.state_dict()

    expected = whole.state_dict()
    found = resumed()
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)
    assert not torch.equal(resumed(forget=True)["student.weights.0"], expected["student.weights.0"])


def test_the_whole_graph_that_does_not_fit_is_trained_in_batches() -> None:
    graph = random_graph(n=600, edges=1200)
    model = AFGRL(graph, **(SMALL | {"hidden": 256, "fanout": 1, "memory": 0.004}))
    assert 0 < model.batch < 600 and "batches of" in model.plan()
    train(model, 0, 2)
    assert model.embed().shape == (600, 8) and np.isfinite(model.embed()).all()


def test_training_brings_positives_together_and_not_everything() -> None:
    model = made(epochs=60, lr=5e-3)
    optimizer = model.optimizer()
    losses = [model.step(update, optimizer).item() for update in range(60)]
    assert 0 <= losses[-1] < 0.5 * losses[0] <= 4
    z = torch.nn.functional.normalize(model.encode_all(), dim=1)
    assert (z @ z.T).mean() < 0.5


def test_a_diverged_training_gives_a_loss_that_says_so() -> None:
    model = made()
    model.student.weights[0].data.fill_(torch.nan)
    assert not torch.isfinite(model.loss(model.pieces[0], 0))


def test_a_graph_with_fewer_nodes_than_nearest_or_clusters() -> None:
    model = AFGRL(random_graph(n=6, edges=9), **(SMALL | {"k": 10, "clusters": 100}))
    train(model, 0, 3)
    assert np.isfinite(model.embed()).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("k", 0), ("clusters", 0), ("runs", -1), ("refresh", 0), ("layers", 3), ("layers", 0),
     ("bn_momentum", 1.5), ("latent", 0), ("hidden", 0), ("predictor", -2), ("lr", 0.0), ("batch", 91)],
)  # fmt: skip
def test_bad_options(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"option {name} of afgrl is {value}"):
        made(**{name: value})
