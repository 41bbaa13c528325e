from __future__ import annotations

import numpy as np
import pytest
import torch

from naq.neighbors.clusters import assign, centres, kmeans
from naq_scale.recall import recall


def unit_rows(n: int, d: int, groups: int, noise: float) -> tuple[torch.Tensor, np.ndarray]:
    random = np.random.default_rng(0)
    middle, home = random.standard_normal((groups, d)), random.integers(0, groups, n)
    x = middle[home] + noise * random.standard_normal((n, d))
    return torch.from_numpy((x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)), home


@pytest.mark.parametrize("rounds", [1, 4])
def test_centres_are_those_of_lloyd(rounds: int) -> None:
    rows, _ = unit_rows(300, 6, 5, 0.3)
    start = centres(rows, 0, count=7, rounds=0)
    x, middle = rows.numpy().astype(np.float64), start.numpy().astype(np.float64)
    assert all((rows == one).all(dim=1).any() for one in start), "centres start at rows"
    for _ in range(rounds):
        home = (x @ middle.T).argmax(axis=1)
        for c in range(7):
            total = x[home == c].sum(axis=0)
            middle[c] = total / np.linalg.norm(total) if np.linalg.norm(total) > 0 else middle[c]
    for found in (kmeans(rows, start, rounds), centres(rows, 0, count=7, rounds=rounds, per_centre=100)):
        assert np.abs(found.numpy() - middle).max() < 1e-5


def test_separated_groups_keep_together() -> None:
    rows, home = unit_rows(600, 16, 6, 0.05)
    middle = centres(rows, 1, count=24)
    nearest = assign(rows, middle, 1)[:, 0].numpy()
    for c in np.unique(nearest):
        assert len(np.unique(home[nearest == c])) == 1, "no cluster holds rows of two groups"
    assert torch.allclose(middle.norm(dim=1), torch.ones(24), atol=1e-5)


def test_counts_seeds_and_a_centre_without_rows() -> None:
    rows, _ = unit_rows(400, 8, 4, 0.5)
    assert centres(rows, 0).shape == (20, 8), "sqrt(n) by default"
    assert centres(rows, 0, count=1000).shape == (400, 8), "no more centres than rows"
    assert centres(rows[:1], 0).shape == (1, 8)
    assert torch.equal(centres(rows, 3), centres(rows, 3)) and not torch.equal(centres(rows, 3), centres(rows, 4))
    same = torch.tensor([[0.6, 0.8]]).repeat(6, 1)  # all rows go to one of the centres
    assert torch.allclose(centres(same, 0, count=5), same[:5], atol=1e-6)


def test_the_nearest_centres_in_order_in_blocks_and_by_groups() -> None:
    rows, _ = unit_rows(5000, 16, 20, 1.5)
    middle = centres(rows, 0, 400, 2)
    whole = assign(rows, middle, 8)
    assert torch.equal(whole, assign(rows, middle, 8, entries=50 * 400)), "blocks do not matter"
    scores = rows @ middle.T
    assert torch.allclose(scores.gather(1, whole), scores.sort(dim=1, descending=True).values[:, :8], atol=1e-6)
    found = assign(rows, middle, 8, compared=100)
    assert recall(found.numpy(), whole.numpy()) > 0.9 and not torch.equal(found, whole)
    assert (found[:, 0] == whole[:, 0]).float().mean() > 0.95
