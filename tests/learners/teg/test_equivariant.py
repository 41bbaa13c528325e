from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from naq.learners.teg.equivariant import EquivariantLayer, Perceptron, Points, TaskAdaptation, pair_distances

TASKS, SUPPORTS, QUERIES, WIDTH, STRUCTURE, HIDDEN = 3, 4, 6, 5, 3, 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def layers() -> TaskAdaptation:
    """With weights large enough that points move."""
    made = TaskAdaptation(2, STRUCTURE, HIDDEN, generator(), torch.device("cpu")).double()
    with torch.no_grad():
        for layer in made.layers:
            layer.move.weight2.mul_(3e3)
    return made


def points(count: int, seed: int) -> Points:
    random = generator(seed)
    x = torch.randn(TASKS, count, WIDTH, generator=random, dtype=torch.float64)
    h = torch.rand(TASKS, count, STRUCTURE, generator=random, dtype=torch.float64)
    return Points(x, h, torch.ones(TASKS, count, dtype=torch.float64))


def both() -> tuple[Points, Points]:
    query = points(QUERIES, 2)
    query.kept[0, 2] = query.kept[1, :] = query.kept[2, 4:] = 0
    return points(SUPPORTS, 1), query


def two_layer(perceptron: Perceptron, inputs: torch.Tensor) -> torch.Tensor:
    hidden = F.silu(inputs @ perceptron.weight1 + perceptron.bias1)
    return hidden @ perceptron.weight2 + perceptron.bias2


def one_by_one(layer: EquivariantLayer, support: Points, query: Points) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The layer for one task without padding, pair by pair: (x, h) of supports, then of queries."""
    found = []
    for mine, theirs in ((support, query), (query, support)):
        xs, hs = [], []
        for x, h in zip(mine.x, mine.h):
            move, total = torch.zeros(WIDTH, dtype=x.dtype), torch.zeros(HIDDEN, dtype=x.dtype)
            for y, g in zip(theirs.x, theirs.h):
                inputs = torch.cat([h, g, ((x - y) ** 2).sum()[None]])
                message = F.silu(two_layer(layer.message, inputs))
                inner = F.silu(message @ layer.move.weight1 + layer.move.bias1)
                move = move + (x - y) * (inner @ layer.move.weight2)
                total = total + message
            xs.append(x + move / max(1, len(theirs.x)))
            hs.append(h if layer.update is None else h + two_layer(layer.update, torch.cat([h, total])))
        found.append((torch.stack(xs), torch.stack(hs)) if xs else (mine.x, mine.h))
    return found


def test_layers_are_their_formulas() -> None:
    adaptation = layers()
    support, query = both()
    found_support, found_query = adaptation(support, query)
    for t in range(TASKS):
        kept = query.kept[t] > 0
        one = Points(support.x[t], support.h[t], support.kept[t])
        two = Points(query.x[t][kept], query.h[t][kept], query.kept[t][kept])
        for layer in adaptation.layers:
            (x1, h1), (x2, h2) = one_by_one(layer, one, two)
            one, two = Points(x1, h1, one.kept), Points(x2, h2, two.kept)
        assert torch.allclose(found_support[t], one.x, atol=1e-10)
        assert torch.allclose(found_query[t][kept], two.x, atol=1e-10)
    assert (found_support - support.x)[[0, 2]].abs().max().item() > 0.1, (
        "points must move for the test to mean anything"
    )
    assert torch.equal(found_support[1], support.x[1]), "without queries nothing reaches a support"


def test_what_stands_for_a_missing_query_does_not_matter() -> None:
    adaptation = layers()
    support, query = both()
    gone = query.kept == 0
    other = Points(query.x.clone(), query.h.clone(), query.kept)
    other.x[gone], other.h[gone] = 100.0, -7.0
    one, two = adaptation(support, query), adaptation(support, other)
    assert torch.allclose(one[0], two[0], atol=1e-12)
    assert torch.allclose(one[1][~gone], two[1][~gone], atol=1e-12)


def test_rotations_reflections_and_translations_go_through() -> None:
    adaptation = layers()
    support, query = both()
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((WIDTH, WIDTH)))
    turn[:, 0] *= -1
    rotation = torch.from_numpy(turn)
    shift = torch.linspace(-2, 3, WIDTH, dtype=torch.float64)

    def moved(these: Points) -> Points:
        return Points(these.x @ rotation + shift, these.h, these.kept)

    plain, turned = adaptation(support, query), adaptation(moved(support), moved(query))
    for one, two in zip(plain, turned):
        assert torch.allclose(one @ rotation + shift, two, atol=1e-9)
    assert (plain[0] - support.x).abs().max().item() > 0.1
    first = adaptation.layers[0]
    for one, two in zip(first(support, query), first(moved(support), moved(query))):
        assert torch.allclose(one.h, two.h, atol=1e-9) and (one.h - support.h[:, :1]).abs().max().item() > 1e-3
    stretched = adaptation(Points(2 * support.x, support.h, support.kept), Points(2 * query.x, query.h, query.kept))
    assert not torch.allclose(2 * plain[0], stretched[0], atol=1e-3), "a change of scale is not among them"


def test_the_order_of_points_and_tasks_goes_through() -> None:
    adaptation = layers()
    support, query = both()
    s, q, t = torch.tensor([2, 0, 3, 1]), torch.tensor([5, 1, 0, 2, 4, 3]), torch.tensor([2, 0, 1])

    def shuffled(these: Points, order: torch.Tensor) -> Points:
        return Points(these.x[t][:, order], these.h[t][:, order], these.kept[t][:, order])

    plain, moved = adaptation(support, query), adaptation(shuffled(support, s), shuffled(query, q))
    assert torch.allclose(plain[0][t][:, s], moved[0], atol=1e-12)
    assert torch.allclose(plain[1][t][:, q], moved[1], atol=1e-12)


def test_weights() -> None:
    made = TaskAdaptation(2, 16, 64, generator(), torch.device("cpu"))
    shapes = {name: tuple(p.shape) for name, p in made.named_parameters()}
    assert shapes["layers.0.message.weight1"] == (33, 64) and shapes["layers.1.message.weight2"] == (64, 64)
    assert shapes["layers.0.update.weight1"] == (80, 64) and shapes["layers.0.update.weight2"] == (64, 16)
    assert not any(name.startswith("layers.1.update") for name in shapes)
    assert made.layers[0].message.weight1.abs().max() <= 33**-0.5
    assert 0 < made.layers[0].move.weight2.abs().max() <= 1e-3 * (6 / 65) ** 0.5
    again = TaskAdaptation(2, 16, 64, generator(), torch.device("cpu"))
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), again.parameters()))


def test_every_weight_gets_a_gradient() -> None:
    adaptation = layers()
    moved = adaptation(*both())
    (moved[0].pow(2).sum() + moved[1].pow(2).sum()).backward()
    assert all(p.grad is not None and p.grad.any() for p in adaptation.parameters())


def test_pair_distances() -> None:
    one, two = torch.randn(2, 3, 4, generator=generator(), dtype=torch.float64), torch.ones(2, 5, 4).double()
    assert torch.allclose(pair_distances(one, two), torch.cdist(one, two) ** 2, atol=1e-12)
