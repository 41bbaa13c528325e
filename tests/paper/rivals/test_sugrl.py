"""SUGRL against dense float64 arithmetic: inputs, slots, distances, losses and their gradients, vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from methods_under_test import community_graph
from naq.errors import OptionError
from naq_paper.rivals import sugrl
from naq_paper.rivals.fixed_order import distances, drawn_distances
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.sugrl import SUGRL, neighbor_means, slot_neighbors, slots_of, unit_norm

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
    s = hat @ (seen * (torch.rand(h.shape, generator=e.generator("dropout", update)) >= 0.2) / 0.8)
    slots, epoch, m = table(a), update // e.updates_per_epoch, piece.seeds
    generator, total = e.generator("negatives", update), torch.zeros((), dtype=torch.float64)
    for _ in range(int(o["negatives"])):
        other = torch.randperm(m, generator=generator)
        for v in range(m):
            near = torch.stack([h[slots[(epoch + 2 * i) % 100][v]] for i in range(5)]).mean(0)
            p, b, n = ((h[v] - y + 1e-6).square().sum().sqrt() for y in (s[v], near, h[other[v]]))
            bound = (p.detach() if stop else p) + o["m1"] + o["m2"]
            third = torch.clamp(n - bound, min=0) / (o["negatives"] * (m if o["l3_reduction"] == "mean" else 1))
            first_two = o["w1"] * torch.clamp(p - n + o["m1"], min=0) + o["w2"] * torch.clamp(b - n + o["m1"], min=0)
            total = total + first_two / m + o["w3"] * third
    total.backward()
    return total.item(), {k: v.grad.numpy() for k, v in weights.items()}


def small(**options: Any) -> SUGRL:
    """43 nodes; margins so small that all three losses count, biases that keep empty rows off the ReLU's corner."""
    given = {"m1": 0.004, "m2": 0.001, "w3": 5.0, "negatives": 2, "dropout": 0.0, **WIDTHS, **options}
    e = SUGRL(community_graph(size=6), seed=3, **given)
    for bias in (e.bias1, e.bias2):
        torch.nn.init.normal_(bias, std=0.02, generator=torch.Generator().manual_seed(0))
    return e


@pytest.mark.parametrize(("options", "update"), [
    ({}, 95), ({"l3_reduction": "sum"}, 95), ({"ogb": True}, 95), ({"encoder": "gcn", "ogb": True}, 95),
    ({"dropout": 0.3, "encoder": "gcn"}, 95), ({"w1": 3.0, "w2": 0.5, "w3": 2.0, "m2": 0.01}, 95),
    ({"w1": 0.0, "w2": 0.0}, 0), ({"batch": 10, "fanout": 2}, 13),
], ids=str)  # fmt: skip
def test_loss_and_gradients(options, update):
    """In a batch degrees, neighbours and negatives are the piece's own, and slots follow the epoch, not the update."""
    e = small(**options)
    piece = e.pieces[update]
    assert "batch" not in options or (e.updates_per_epoch == 5 and piece.seeds < len(piece) < e.graph.num_nodes)
    loss = e.loss(piece, update)
    loss.backward()
    wanted, grads = oracle(e, piece, update)
    assert loss.item() == pytest.approx(wanted, rel=2e-5)
    for name, parameter in e.named_parameters():
        assert np.abs(parameter.grad.numpy() - grads[name]).max() < 2e-4 * np.abs(grads[name]).max() + 1e-6, name
    if options == {"w1": 0.0, "w2": 0.0}:
        _, through = oracle(e, piece, update, stop=False)
        apart = np.abs(grads["weight1"] - through["weight1"]).max()
        assert apart > 0.1 * np.abs(grads["weight1"]).max(), "a gradient through the bound would be another one"


def test_neighbours_come_by_slots():
    assert slots_of(0) == [1, 3, 5, 7, 9] == slots_of(100) and slots_of(97) == [98, 100, 2, 4, 6]
    graph = community_graph(size=6).without_labels()
    for piece in (Piece(graph, "cpu"), Piece(graph, "cpu", np.array([5, 30, 2, 4, 42, 3]), 4)):
        slots = table(looped(piece))
        wanted = [[slots[j][v] for j in (96, 98, 0, 2, 4)] for v in range(piece.seeds)]
        assert slot_neighbors(piece, slots_of(96)).tolist() == wanted
        values = torch.randn(len(piece), 7, generator=torch.Generator().manual_seed(0))
        means = neighbor_means(piece, values, slots_of(96))
        assert torch.allclose(means, torch.stack([values[row].mean(0) for row in wanted]), atol=1e-6)
    hops = [SUGRL(graph, encoder=encoder, **WIDTHS).pieces.hops for encoder in ("mlp", "gcn")]
    assert hops == [1, 2] and SUGRL.hops == 1, "a piece reaches as far as the encoder"


@pytest.mark.parametrize("width", [1, 7, 64])
def test_distances_and_their_gradients_are_those_of_torch(width):
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
        grads = (torch.autograd.grad(one, (a, b), pull, allow_unused=True) for one in (mine, theirs))
        for one, two in zip(*grads):
            assert (one is None) == (two is None) and (one is None or torch.allclose(one, two, rtol=1e-4, atol=1e-6))
    same = torch.ones(4, 9, requires_grad=True)
    found = distances(same, same.detach())
    found.sum().backward()
    assert torch.allclose(found, torch.full((4,), 3e-6)), "a distance of 0 has a gradient"
    assert torch.allclose(same.grad, torch.full((4, 9), 1 / 3), atol=1e-3)


@pytest.mark.parametrize("order", [1, 2])
def test_dense_and_sparse_rows_have_unit_norm(order):
    random = np.random.default_rng(0)
    x = (random.standard_normal((50, 9)) * (random.random((50, 9)) < 0.4)).astype(np.float32)
    x[7], x[8], x[9] = 0.0, 1e-20, 1e18
    norms = np.linalg.norm(x.astype(np.float64), ord=order, axis=1)
    wanted = x / np.where(norms > 1e-12, norms, np.inf)[:, None]
    one, two = unit_norm(x, order), unit_norm(sp.csr_array(x), order)
    assert isinstance(two, sp.csr_array) and one.dtype == two.dtype == np.float32
    assert np.allclose(one, wanted, atol=1e-6) and np.allclose(two.toarray(), wanted, atol=1e-6)


def test_inputs_have_unit_rows_and_for_ogb_are_averaged(monkeypatch):
    graph = community_graph()
    for features in (graph.features, np.random.default_rng(0).standard_normal((141, 9), dtype=np.float32)):
        other = graph.with_features(features)
        e = SUGRL(other, **WIDTHS)
        assert isinstance(e.graph.features, np.ndarray) == isinstance(features, np.ndarray)
        x = dense(features) / np.maximum(np.abs(dense(features)).sum(axis=1, keepdims=True), 1e-30)
        assert np.allclose(dense(e.graph.features), x, atol=1e-6)
        assert other.features is not e.graph.features and e.graph.labels is None
    x = dense(graph.features)
    x = x / np.maximum(np.sqrt((x**2).sum(axis=1, keepdims=True)), 1e-30)
    found = SUGRL(graph, ogb=True, **WIDTHS).graph.features
    assert np.allclose(dense(found), average(looped(Piece(graph, "cpu")), True) @ x, atol=1e-6)
    monkeypatch.setattr(sugrl, "PROPAGATED_ENTRIES", 10)
    with pytest.raises(OptionError, match="ogb"):
        SUGRL(graph, ogb=True, **WIDTHS)


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"ogb": True}, {"encoder": "gcn"}], ids=str)
def test_vectors_are_a_hat_times_the_perceptron_whole_or_in_blocks(options, monkeypatch):
    e = SUGRL(community_graph(), seed=1, epochs=3, **WIDTHS, **options)
    optimizer = e.optimizer()
    for update in range(e.updates):
        e.step(update, optimizer)
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
