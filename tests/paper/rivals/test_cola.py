"""COLA against dense float64 arithmetic and loops: tasks, loss and gradients, the slow copy, the schedule, vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import naq
from methods_under_test import community_graph, noisy_graph
from naq.errors import OptionError
from naq.heads import evaluate
from naq_paper.rivals import cola
from naq_paper.rivals.cola import COLA, most_similar
from naq_paper.rivals.pieces import Piece

WIDTHS = {"hidden": 24, "latent": 16}


def small(**options: Any) -> COLA:
    """A model on 43 nodes whose slow copy has other weights than its encoder."""
    given = {"way": 3, "shot": 2, "tasks": 4, "temperature": 0.5, **WIDTHS, **options}
    e = COLA(community_graph(size=6), seed=3, **given)
    generator = torch.Generator().manual_seed(0)
    for parameter in e.target.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    for bias in (*e.online.biases, *e.target.biases):
        torch.nn.init.normal_(bias, std=0.1, generator=generator)
    return e


def encoded(e: COLA, who: str, view: int, piece: Piece, update: int, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """[convolution, batch normalisation, ReLU, dropout], convolution: dense, on a view that is drawn as the model draws it."""
    w = {name.removeprefix(f"{who}."): value for name, value in weights.items() if name.startswith(f"{who}.")}
    spread = piece.spread(e.options[f"drop_edge{view}"], e.generator(f"edges{view}", update))
    hat = torch.zeros(len(piece), len(piece), dtype=torch.float64)
    hat[piece.rows, piece.columns] = spread.values.double()
    columns = torch.rand(e.graph.num_features, generator=e.generator(f"columns{view}", update))
    x = torch.from_numpy(piece.features.toarray()).double() * (columns >= e.options[f"drop_feature{view}"])
    values = hat @ (x @ w["weights.0"]) + w["biases.0"]
    centred = values - values.mean(dim=0)
    values = centred / torch.sqrt((centred**2).mean(dim=0) + 1e-5) * w["norms.0.weight"] + w["norms.0.bias"]
    values = torch.clamp(values, min=0)
    drop = e.options["dropout"]
    keep = torch.rand(values.shape, generator=e.generator(f"dropout{view}", update)) >= drop
    return hat @ (values * keep / (1 - drop) @ w["weights.1"]) + w["biases.1"]


def unit(values: torch.Tensor) -> torch.Tensor:
    return values / torch.sqrt((values**2).sum(dim=-1, keepdim=True))


def oracle(e: COLA, piece: Piece, update: int) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss by loops over tasks, queries and support nodes."""
    weights = {k: v.detach().double().requires_grad_() for k, v in e.named_parameters()}
    seen = encoded(e, "online", 1, piece, update, weights)
    z1 = unit(seen @ weights["head.weight"].T + weights["head.bias"])
    z = {view: unit(encoded(e, "target", view, piece, update, weights)).detach() for view in (2, 3)}
    tau, shot, total, count = e.options["temperature"], int(e.options["shot"]), 0.0, 0
    for one, other in ((2, 3), (3, 2)):
        for task in e.queries(piece.seeds, update).tolist():
            near = {}
            for q in task:
                similarity = [float(z[one][q] @ z[other][s]) for s in range(len(piece))]
                near[q] = sorted(range(len(piece)), key=lambda s: -similarity[s])[:shot]
            for q in task:
                terms = [torch.exp(z1[q] @ z[other][s] / tau) for other_q in task for s in near[other_q]]
                centre = sum(z[other][s] for s in near[q]) / shot
                total, count = total + torch.log(sum(terms)) - z1[q] @ centre / tau, count + 1
    loss = total / count
    loss.backward()
    return loss.item(), {k: v.grad for k, v in weights.items()}


def agrees(e: COLA, piece: Piece, update: int) -> None:
    e.train()
    loss = e.loss(piece, update)
    loss.backward()
    wanted, grads = oracle(e, piece, update)
    assert loss.item() == pytest.approx(wanted, rel=1e-5)
    for name, parameter in e.named_parameters():
        if name.startswith("target."):
            assert parameter.grad is None and not parameter.requires_grad
            continue
        assert parameter.grad is not None
        error = (parameter.grad - grads[name]).abs().max()
        assert error < 2e-4 * grads[name].abs().max() + 1e-6, name


@pytest.mark.parametrize("options", [{}, {"dropout": 0.0, "temperature": 1.0, "shot": 4}], ids=str)
def test_loss_and_gradients(options: dict[str, Any]) -> None:
    e = small(**options)
    agrees(e, e.pieces[5], 5)


def test_loss_of_a_sampled_piece() -> None:
    """Queries are nodes of the batch, similar nodes those of the piece."""
    e = small(batch=12, fanout=2)
    piece = e.pieces[6]
    assert piece.seeds < len(piece) < e.graph.num_nodes
    agrees(e, piece, 6)


def test_task_loss() -> None:
    e = small(temperature=0.7)
    random = np.random.default_rng(0)
    z, s = random.standard_normal((2, 3, 4)), random.standard_normal((2, 3, 5, 4))
    wanted = np.mean(
        [
            np.log(sum(np.exp(z[t, q] @ s[t, j, k] / 0.7) for j in range(3) for k in range(5)))
            - z[t, q] @ s[t, q].mean(axis=0) / 0.7
            for t in range(2)
            for q in range(3)
        ]
    )
    assert e.task_loss(torch.from_numpy(z), torch.from_numpy(s)).item() == pytest.approx(wanted)


def test_most_similar_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(11, 6, generator=generator), torch.randn(40, 6, generator=generator)
    products = (queries @ keys.T).numpy()
    for numbers in (1, 100, 10_000):
        monkeypatch.setattr(cola, "BLOCK_NUMBERS", numbers)
        assert most_similar(queries, keys, 7).tolist() == np.argsort(-products, axis=1)[:, :7].tolist()


def test_queries() -> None:
    e = small(tasks=14)
    found = e.queries(43, 0)
    assert found.shape == (14, 3) and len(set(found.ravel().tolist())) == 42  # all but one of 43 nodes
    few = e.queries(7, 0)
    assert few.shape == (14, 3) and few.max() < 7 and all(len(set(task)) == 3 for task in few.tolist())
    assert not torch.equal(found, e.queries(43, 1)) and torch.equal(found, e.queries(43, 0))


def test_schedule_and_slow_copy() -> None:
    e = small(epochs=8, lr=0.02)
    assert [e.rate(u) for u in (0, 2, 4, 8)] == pytest.approx([0.02, 0.01 * (1 + math.sqrt(0.5)), 0.01, 0.0], abs=1e-12)
    before = [p.clone() for p in e.target.parameters()]
    e.step(0, e.optimizer())
    for old, mine, theirs in zip(before, e.target.parameters(), e.online.parameters()):
        assert torch.allclose(mine, 0.9 * old + 0.1 * theirs, atol=1e-6)
    copy = COLA(community_graph(), **WIDTHS)
    assert all(torch.equal(a, b) for a, b in zip(copy.target.parameters(), copy.online.parameters()))


def test_vectors_are_the_encoders_own() -> None:
    """With running statistics, without dropout, before the head, whole or in blocks; the slow copy plays no part."""
    e = train(COLA(community_graph(), seed=1, epochs=4, **WIDTHS))
    w = {k: v.detach().double() for k, v in e.state_dict().items()}
    hat = torch.from_numpy(e.graph.normalized_adjacency().toarray()).double()
    x = torch.from_numpy(e.graph.features.toarray()).double()
    h = hat @ x @ w["online.weights.0"] + w["online.biases.0"]
    h = (h - w["online.norms.0.running_mean"]) / torch.sqrt(w["online.norms.0.running_var"] + 1e-5)
    h = torch.clamp(h * w["online.norms.0.weight"] + w["online.norms.0.bias"], min=0)
    wanted = hat @ h @ w["online.weights.1"] + w["online.biases.1"]
    assert torch.allclose(e.encode_all().double(), wanted, atol=1e-4)
    batched = COLA(community_graph(), seed=1, batch=50, **WIDTHS)
    batched.load_state_dict(e.state_dict())
    assert torch.allclose(batched.encode_all(), e.encode_all(), atol=1e-5)


def test_running_statistics() -> None:
    def momentum(**options: Any) -> set[float | None]:
        e = COLA(community_graph(), **WIDTHS, **options)
        return {m.momentum for m in e.modules() if isinstance(m, torch.nn.BatchNorm1d)}

    assert momentum() == {0.99} and momentum(batch=50) == {0.1} and momentum(batch=50, bn_momentum=0.01) == {0.01}


def train(e: COLA) -> COLA:
    optimizer = e.optimizer()
    for update in range(e.updates):
        e.step(update, optimizer)
    return e


def test_trained_in_batches() -> None:
    """The same twice, and better than no training."""
    graph = noisy_graph()
    tasks = naq.sample_tasks(graph, way=5, shot=1, queries=5, count=60, seed=0)
    options = {"batch": 64, "hidden": 64, "latent": 32, "lr": 5e-3}
    one, two = (train(COLA(graph, seed=0, epochs=6, **options)).embed() for _ in range(2))
    assert np.array_equal(one, two)
    before = evaluate(COLA(graph, seed=0, epochs=0, **options).embed(), tasks).accuracy
    after = evaluate(one, tasks).accuracy
    assert after > before + 0.1, (before, after)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latent": 0}, "latent of cola is 0; expected more than 0"),
        ({"temperature": 0.0}, "temperature of cola"),
        ({"way": 1}, "way of cola is 1; expected at least 2"),
        ({"shot": 0}, "shot of cola is 0; expected at least 1"),
        ({"tasks": 0}, "tasks of cola"),
        ({"drop_edge3": 1.0}, "drop_edge3 of cola"),
        ({"dropout": 1.0}, "dropout of cola is 1.0; expected at least 0 and below 1"),
        ({"way": 150}, "needs 150 nodes, but graph 'communities' has 141; give a smaller way"),
        ({"shot": 142}, "needs 142 nodes, but graph"),
        ({"batch": 4}, "needs 5 nodes, but batches have 3"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        COLA(community_graph(), **options)
