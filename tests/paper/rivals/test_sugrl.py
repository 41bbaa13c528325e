"""SUGRL against dense float64 arithmetic: inputs, slots, distances, losses and their gradients, vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import naq
from methods_under_test import community_graph
from naq.errors import OptionError
from naq.heads import evaluate
from naq_paper.rivals import sugrl
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.sugrl import SUGRL, distances, drawn_distances, neighbor_means, slot_neighbors, slots_of

WIDTHS = {"hidden": 24, "latent": 16}


def dense(features: Any) -> np.ndarray:
    return np.asarray(features if isinstance(features, np.ndarray) else features.toarray(), dtype=np.float64)


def looped(piece: Piece) -> np.ndarray:
    """A + I of a piece, by its own loops."""
    a = piece.graph.adjacency.toarray()
    return np.array([[1.0 if u == v else a[u, v] for v in piece.nodes] for u in piece.nodes])


def average(a: np.ndarray, ogb: bool) -> np.ndarray:
    degree = a.sum(axis=1)
    return a / degree[:, None] if ogb else a / np.sqrt(np.outer(degree, degree))


def table(a: np.ndarray) -> list[list[int]]:
    """Slot j = 1..100 of every node, literally: neighbour number (j mod degree) of its row, itself included."""
    rows = [np.flatnonzero(row).tolist() for row in a]
    return [[row[j % len(row)] for row in rows] for j in range(1, 101)]


def oracle(e: SUGRL, piece: Piece, update: int, *, stop: bool = True) -> tuple[float, dict[str, np.ndarray]]:
    """The loss and its gradients, dense, in float64; draws are the model's own."""
    o = e.options
    weights = {k: v.detach().double().requires_grad_() for k, v in e.named_parameters()}
    x = dense(piece.features)
    if o["dropout"]:
        where = np.nonzero(x)
        keep = torch.rand(len(where[0]), generator=e.generator("inputs", update)).numpy() >= o["dropout"]
        x[where] = np.where(keep, x[where] / (1 - o["dropout"]), 0.0)
    a = looped(piece)
    hat = torch.from_numpy(average(a, bool(o["ogb"])))

    def layers(first: torch.Tensor) -> torch.Tensor:
        hidden = torch.clamp(first + weights["bias1"], min=0)
        return hidden @ weights["weight2"] + weights["bias2"]

    first = torch.from_numpy(x) @ weights["weight1"]
    h = layers(first)
    seen = h if o["encoder"] == "mlp" else layers(hat @ first)
    kept = torch.rand(h.shape, generator=e.generator("dropout", update)) >= 0.2
    seen = seen * kept / 0.8
    s, slots = hat @ seen, table(a)
    epoch, m = update // e.updates_per_epoch, piece.seeds
    generator = e.generator("negatives", update)
    total = torch.zeros((), dtype=torch.float64)
    for _ in range(int(o["negatives"])):
        other = torch.randperm(m, generator=generator)
        for v in range(m):
            near = torch.stack([h[slots[(epoch + 2 * i) % 100][v]] for i in range(5)]).mean(0)
            p, b, n = ((h[v] - y + 1e-6).square().sum().sqrt() for y in (s[v], near, h[other[v]]))
            bound = (p.detach() if stop else p) + o["m1"] + o["m2"]
            parts = {"mean": m * o["negatives"], "sum": o["negatives"]}[o["l3_reduction"]]
            third = torch.clamp(n - bound, min=0) / parts
            first_two = o["w1"] * torch.clamp(p - n + o["m1"], min=0) + o["w2"] * torch.clamp(b - n + o["m1"], min=0)
            total = total + first_two / m + o["w3"] * third
    total.backward()
    return total.item(), {k: v.grad.numpy() for k, v in weights.items()}


def small(**options: Any) -> SUGRL:
    """A model on 43 nodes with margins small enough for all three losses to count; biases keep empty rows off the ReLU's corner."""
    given = {
        "m1": 0.004,
        "m2": 0.001,
        "w3": 5.0,
        "negatives": 2,
        "dropout": 0.0,
        **WIDTHS,
        **options,
    }
    e = SUGRL(community_graph(size=6), seed=3, **given)
    for bias in (e.bias1, e.bias2):
        torch.nn.init.normal_(bias, std=0.02, generator=torch.Generator().manual_seed(0))
    return e


def agrees(e: SUGRL, piece: Piece, update: int) -> None:
    loss = e.loss(piece, update)
    loss.backward()
    wanted, grads = oracle(e, piece, update)
    assert loss.item() == pytest.approx(wanted, rel=2e-5)
    for name, parameter in e.named_parameters():
        assert parameter.grad is not None
        assert np.abs(parameter.grad.numpy() - grads[name]).max() < 2e-4 * np.abs(grads[name]).max() + 1e-6, name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"l3_reduction": "sum"},
        {"ogb": True},
        {"encoder": "gcn"},
        {"encoder": "gcn", "ogb": True},
        {"dropout": 0.3},
        {"dropout": 0.3, "encoder": "gcn"},
        {"w1": 3.0, "w2": 0.5, "w3": 2.0, "m2": 0.01},
    ],
    ids=str,
)
def test_loss_and_gradients(options: dict[str, Any]) -> None:
    e = small(**options)
    agrees(e, e.pieces[95], 95)


def test_loss_of_a_sampled_piece() -> None:
    """Degrees, neighbours and negatives are the piece's own; the loss is over its first nodes; slots follow the epoch, not the update."""
    e = small(batch=10, fanout=2)
    piece = e.pieces[13]
    assert e.updates_per_epoch == 5 and piece.seeds < len(piece) < e.graph.num_nodes
    agrees(e, piece, 13)


def test_no_gradient_flows_through_the_bound() -> None:
    """The third loss moves other nodes only: with a gradient through p the numbers would be others."""
    e = small(w1=0.0, w2=0.0)
    _, stopped = oracle(e, e.pieces[0], 0)
    _, through = oracle(e, e.pieces[0], 0, stop=False)
    assert np.abs(stopped["weight1"] - through["weight1"]).max() > 0.1 * np.abs(stopped["weight1"]).max()
    agrees(e, e.pieces[0], 0)


def test_reductions_of_the_third_loss() -> None:
    """sum is n times mean."""
    losses = {
        kind: float(e.loss(e.pieces[0], 0).detach())
        for kind in ("mean", "sum")
        for e in [small(l3_reduction=kind, w1=0.0, w2=0.0)]
    }
    assert losses["mean"] > 0
    assert losses["sum"] == pytest.approx(43 * losses["mean"], rel=1e-5)


def test_slots() -> None:
    assert slots_of(0) == [1, 3, 5, 7, 9]
    assert slots_of(97) == [98, 100, 2, 4, 6]
    assert slots_of(100) == slots_of(0)


def test_neighbours_come_by_slots() -> None:
    graph = community_graph(size=6).without_labels()
    for piece in (Piece(graph, "cpu"), Piece(graph, "cpu", np.array([5, 30, 2, 4, 42, 3]), 4)):
        slots = table(looped(piece))
        found = slot_neighbors(piece, slots_of(96))
        wanted = [[slots[j][v] for j in (96, 98, 0, 2, 4)] for v in range(piece.seeds)]
        assert found.tolist() == wanted
        values = torch.randn(len(piece), 7, generator=torch.Generator().manual_seed(0))
        means = neighbor_means(piece, values, slots_of(96))
        assert torch.allclose(means, torch.stack([values[row].mean(0) for row in wanted]), atol=1e-6)


@pytest.mark.parametrize("width", [1, 7, 64])
def test_distances(width: int) -> None:
    """Compiled distances and their gradients are PyTorch's."""
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(50, width, generator=generator, requires_grad=True) for _ in range(2))
    order, pull = torch.randperm(50, generator=generator), torch.randn(50, generator=generator)
    cases = (
        (distances(a, b), F.pairwise_distance(a, b, eps=1e-6)),
        (distances(a, a.flip(0)), F.pairwise_distance(a, a.flip(0), eps=1e-6)),
        (drawn_distances(a, order), F.pairwise_distance(a, a[order], eps=1e-6)),
    )
    for mine, theirs in cases:
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-7)
        for one, two in zip(
            torch.autograd.grad(mine, (a, b), pull, allow_unused=True),
            torch.autograd.grad(theirs, (a, b), pull, allow_unused=True),
        ):
            assert (one is None) == (two is None)
            assert one is None or torch.allclose(one, two, rtol=1e-4, atol=1e-6)


def test_equal_rows_have_a_distance_with_a_gradient() -> None:
    a = torch.ones(4, 9, requires_grad=True)
    found = distances(a, a.detach())
    assert torch.allclose(found, torch.full((4,), 3e-6))
    found.sum().backward()
    assert a.grad is not None and torch.allclose(a.grad, torch.full((4, 9), 1 / 3), atol=1e-3)


def test_inputs_have_unit_rows() -> None:
    for features in (community_graph().features, np.random.default_rng(0).standard_normal((141, 9), dtype=np.float32)):
        graph = community_graph().with_features(features)
        e = SUGRL(graph, **WIDTHS)
        found = e.graph.features
        assert isinstance(found, np.ndarray) == isinstance(features, np.ndarray)
        sums = np.abs(dense(features)).sum(axis=1)
        assert np.allclose(dense(found), dense(features) / np.where(sums > 0, sums, 1)[:, None], atol=1e-6)
        assert graph.features is not found and e.graph.labels is None


def test_inputs_for_ogb() -> None:
    """L1, then L2, then one average over neighbours."""
    graph = community_graph()
    x = dense(graph.features)
    x = x / np.maximum(np.abs(x).sum(axis=1, keepdims=True), 1e-30)
    x = x / np.maximum(np.sqrt((x**2).sum(axis=1, keepdims=True)), 1e-30)
    wanted = average(looped(Piece(graph, "cpu")), True) @ x
    e = SUGRL(graph, ogb=True, **WIDTHS)
    assert np.allclose(dense(e.graph.features), wanted, atol=1e-6)


def test_ogb_inputs_are_refused_where_they_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sugrl, "PROPAGATED_ENTRIES", 10)
    with pytest.raises(OptionError, match="leave it out"):
        SUGRL(community_graph(), ogb=True, **WIDTHS)


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"ogb": True}, {"encoder": "gcn"}], ids=str)
def test_vectors(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A_hat MLP(X) without dropout; in blocks the same."""
    e = SUGRL(community_graph(), seed=1, epochs=3, **WIDTHS, **options)
    train(e)
    weight1, weight2, bias1, bias2 = (w.detach().double().numpy() for w in (e.weight1, e.weight2, e.bias1, e.bias2))
    hat = average(looped(Piece(e.graph, "cpu")), bool(e.options["ogb"]))
    first = dense(e.graph.features) @ weight1
    first = hat @ first if e.options["encoder"] == "gcn" else first
    wanted = hat @ (np.maximum(first + bias1, 0) @ weight2 + bias2)
    if e.options["normalize"]:
        wanted /= np.sqrt((wanted**2).sum(axis=1, keepdims=True))
    found = e.encode_all()
    assert found.shape == (141, 16) and np.allclose(found.numpy(), wanted, atol=1e-5)
    monkeypatch.setattr(sugrl, "BLOCK", 20)
    assert torch.allclose(e.encode_all(), found, atol=1e-6)


def train(e: SUGRL) -> SUGRL:
    optimizer = e.optimizer()
    for update in range(e.updates):
        e.step(update, optimizer)
    return e


def test_trained_in_batches() -> None:
    """The same twice, and better than no training."""
    graph = community_graph()
    tasks = naq.sample_tasks(graph, way=5, shot=1, queries=5, count=60, seed=0)
    options = {"batch": 64, "hidden": 64, "latent": 32}
    one, two = (train(SUGRL(graph, seed=0, epochs=30, **options)).embed() for _ in range(2))
    assert np.array_equal(one, two)
    before = evaluate(SUGRL(graph, seed=0, epochs=0, **options).embed(), tasks).accuracy
    after = evaluate(one, tasks).accuracy
    assert after > before + 0.04, (before, after)


def test_a_piece_reaches_as_far_as_the_encoder() -> None:
    assert SUGRL(community_graph(), **WIDTHS).pieces.hops == 1
    assert SUGRL(community_graph(), encoder="gcn", **WIDTHS).pieces.hops == 2
    assert SUGRL.hops == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latent": 0}, "latent of sugrl is 0; expected more than 0"),
        ({"dropout": 1.0}, "dropout of sugrl is 1.0; expected at least 0 and below 1"),
        ({"w3": -1.0}, "w3 of sugrl is -1.0; expected at least 0"),
        ({"m2": -0.5}, "m2 of sugrl"),
        ({"negatives": 0}, "negatives of sugrl is 0; expected at least 1"),
        ({"l3_reduction": "max"}, "l3_reduction of sugrl is 'max'"),
        ({"encoder": "gat"}, "encoder of sugrl"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SUGRL(community_graph(), **options)
