"""Approximate neighbours against every pair compared."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from naq.neighbors import approximate, clusters, descent, feature_exact, vector_neighbors
from naq.neighbors.descent import Vectors
from naq.neighbors.vectors import _unit_tensor


def spread_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Classes and noise with a decaying spectrum."""
    random, spectrum = np.random.default_rng(seed), 1 / np.sqrt(np.arange(1, d + 1))
    centres = random.standard_normal((20, d)) * spectrum
    return (centres[random.integers(0, 20, n)] + random.standard_normal((n, d)) * spectrum).astype(np.float32)


def hard_rows(kind: str, n: int) -> np.ndarray:
    random = np.random.default_rng(1)
    x = spread_rows(n, 300 if kind == "heavy tails" else 32)
    if kind == "heavy tails":
        x *= random.standard_t(3, x.shape).astype(np.float32)
    if kind == "copies":
        x[: n // 2] = x[random.integers(n // 2, n // 2 + 60, n // 2)]
        x = x[random.permutation(n)]
    if kind == "zeros":
        x[random.choice(n, n // 3, replace=False)] = 0
    return x


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several thousand rows in as many clusters as millions have."""
    monkeypatch.setattr(approximate, "MEMBERS", 50)
    monkeypatch.setattr(approximate, "PROBES", 8)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["plain", "heavy tails", "copies", "zeros"])
def test_nearly_all_true_neighbours_are_found(kind: str) -> None:
    x = hard_rows(kind, 4000)
    table, true = vector_neighbors(x, 10, exact=False), vector_neighbors(x, 10, exact=True)
    assert feature_exact.recall(table.ids, true.ids) > 0.95 and table.info["recall"] > 0.95
    assert np.array_equal(table.ids >= 0, true.ids >= 0)


@pytest.mark.usefixtures("small")
def test_copies_are_each_others_nearest_lowest_first() -> None:
    x = spread_rows(3000, 16)
    x[5::10] = x[5]  # 300 rows, more than a list and more than a cluster
    x[[7, 1007, 2007]] = x[7]
    table = vector_neighbors(x, 12, exact=False)
    copies = np.arange(5, 3000, 10)
    for node in copies[[0, 4, 200]]:
        assert table.ids[node].tolist() == [c for c in copies[:13] if c != node][:12]
    assert table.ids[1007, :2].tolist() == [7, 2007] and np.allclose(table.scores[1007, :2], 1)
    near = int(table.ids[1007, 2])  # a neighbour of one copy is that of all
    assert table.ids[7, 2] == near and table.ids[2007, 2] == near


def test_few_distinct_rows_and_all_others_wanted() -> None:
    x = np.repeat(np.eye(3, dtype=np.float32), [4, 1, 2], axis=0)
    for k in (1, 6):
        one, two = (vector_neighbors(x, k, exact=exact) for exact in (True, False))
        assert np.array_equal(one.ids, two.ids) and np.allclose(one.scores, two.scores)
    same = vector_neighbors(np.ones((5, 2)), 4, exact=False)
    assert same.ids.tolist() == [[j for j in range(5) if j != i] for i in range(5)]
    assert vector_neighbors(np.array([[0.0, 1.0], [-0.0, 2.0]]), 1, exact=False).ids.tolist() == [[1], [0]]


@pytest.mark.usefixtures("small")
def test_a_seed_decides_the_table() -> None:
    x = spread_rows(3000, 32)
    one, again, other = (vector_neighbors(x, 5, exact=False, seed=seed).ids for seed in (0, 0, 1))
    assert np.array_equal(one, again) and not np.array_equal(one, other)


@pytest.mark.usefixtures("small")
def test_rows_too_near_for_clusters_cost_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "LARGEST", 100)
    x = np.ones((2000, 8), dtype=np.float32)
    x[:, 0] += 1e-7 * np.arange(2000)
    widest = 0

    class Watched(approximate.Best):
        def offer(self, values: torch.Tensor, owners: torch.Tensor, candidates: torch.Tensor) -> None:
            nonlocal widest
            widest = max(widest, len(candidates))
            super().offer(values, owners, candidates)

    monkeypatch.setattr(approximate, "Best", Watched)
    table = vector_neighbors(x, 5, exact=False)
    assert 0 < widest <= 100 and (table.ids >= 0).all() and np.allclose(table.scores, 1, atol=1e-4)


def test_centres_by_groups_are_nearly_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _unit_tensor(spread_rows(5000, 32), "cpu")
    middle = clusters.centres(rows, 0, 400, 2)
    true = clusters.assign(rows, middle, 8)
    monkeypatch.setattr(clusters, "COMPARED", 100)
    found = clusters.assign(rows, middle, 8)
    assert feature_exact.recall(found.numpy(), true.numpy()) > 0.9 and not torch.equal(found, true)
    assert (found[:, 0] == true[:, 0]).float().mean() > 0.95


def slow_pass(x: np.ndarray, ids: np.ndarray, fan: int) -> np.ndarray:
    """The best of a row's list and of all rows that are one or two steps away, forth and back to so many rows at most."""
    n, k = ids.shape
    ways: list[list[int]] = []
    for i in range(n):
        listing = sorted((ids[j].tolist().index(i), j) for j in range(n) if i in ids[j])
        ways.append([*ids[i, :fan].tolist(), *(j for _, j in listing[:fan])])
    found = np.empty_like(ids)
    for i in range(n):
        reached = {c for j in ways[i] for c in [j, *ways[j]]} | set(ids[i].tolist())
        reached.discard(i)
        found[i] = sorted(reached, key=lambda j: (-float(x[i] @ x[j]), j))[:k]
    return found


@pytest.mark.parametrize(("fan", "passes"), [(2, 1), (20, 1), (120, 4)])
def test_a_pass_offers_all_neighbours_of_neighbours(fan: int, passes: int) -> None:
    """Also where those that were offered before are left out: after one pass, or where no step back is cut off."""
    random, n, k = np.random.default_rng(0), 120, 3
    x = random.integers(-8, 9, (n, 5)).astype(np.float32)  # products are exact in float32
    ids = np.stack([random.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    order = np.lexsort((ids, -np.take_along_axis(x @ x.T, ids, 1)), axis=1)
    ids, seen = np.take_along_axis(ids, order, 1), []
    expected = ids
    for _ in range(passes):
        expected = slow_pass(x, expected, fan)
    found, _ = descent.descend(
        Vectors(x, np.zeros(n, dtype=np.float32)), ids, np.take_along_axis(x @ x.T, ids, 1), passes, seen.append, fan
    )
    assert (
        np.array_equal(found, expected)
        and not np.array_equal(found, ids)
        and seen == [n * p for p in range(1, passes + 1)]
    )
