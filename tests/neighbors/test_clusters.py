from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from naq.neighbors import clusters


def unit_rows(n: int, d: int, groups: int, noise: float, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    random = np.random.default_rng(seed)
    middle = random.standard_normal((groups, d))
    home = random.integers(0, groups, n)
    x = middle[home] + noise * random.standard_normal((n, d))
    return torch.from_numpy((x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)), home


def slow_centres(rows: np.ndarray, start: np.ndarray, rounds: int) -> np.ndarray:
    """Lloyd's rounds by the book: nearest centre by cosine, then the unit mean of its rows."""
    middle = start.astype(np.float64)
    for _ in range(rounds):
        home = (rows @ middle.T).argmax(axis=1)
        for c in range(len(middle)):
            total = rows[home == c].sum(axis=0)
            if np.linalg.norm(total) > 0:
                middle[c] = total / np.linalg.norm(total)
    return middle


def test_centres_are_those_of_lloyd() -> None:
    rows, _ = unit_rows(300, 6, 5, 0.3)
    start = clusters.centres(rows, 0, count=7, rounds=0).numpy()
    assert all((rows.numpy() == one).all(axis=1).any() for one in start), "centres start at rows"
    # 300 rows are more than the 40 per centre that are fitted on: without that limit the sample is every row.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "PER_CENTRE", 100)
        for rounds in (1, 4):
            found = clusters.centres(rows, 0, count=7, rounds=rounds).numpy()
            assert np.abs(found - slow_centres(rows.numpy().astype(np.float64), start, rounds)).max() < 1e-5


def test_separated_groups_keep_together() -> None:
    rows, home = unit_rows(600, 16, 6, 0.05)
    middle = clusters.centres(rows, 1, count=24)
    nearest = clusters.assign(rows, middle, 1)[:, 0].numpy()
    for c in np.unique(nearest):
        assert len(np.unique(home[nearest == c])) == 1, "no cluster holds rows of two groups"
    assert torch.allclose(middle.norm(dim=1), torch.ones(24), atol=1e-5)


def test_counts_and_seeds() -> None:
    rows, _ = unit_rows(400, 8, 4, 0.5)
    assert clusters.centres(rows, 0).shape == (20, 8), "sqrt(n) by default"
    assert clusters.centres(rows, 0, count=1000).shape == (400, 8), "no more centres than rows"
    assert clusters.centres(rows[:1], 0).shape == (1, 8)
    assert torch.equal(clusters.centres(rows, 3), clusters.centres(rows, 3))
    assert not torch.equal(clusters.centres(rows, 3), clusters.centres(rows, 4))


def test_a_centre_without_rows_stays() -> None:
    """Six equal rows and five centres: all rows go to one of them."""
    rows = torch.tensor([[0.6, 0.8]]).repeat(6, 1)
    assert torch.allclose(clusters.centres(rows, 0, count=5), rows[:5], atol=1e-6)


def test_the_nearest_centres_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = unit_rows(90, 8, 4, 0.5)
    middle = clusters.centres(rows, 0, count=9)
    whole = clusters.assign(rows, middle, 3)
    monkeypatch.setattr(clusters, "BLOCK_ENTRIES", 50)
    assert torch.equal(whole, clusters.assign(rows, middle, 3)), "blocks do not matter"
    scores = (rows @ middle.T).double()
    taken = scores.gather(1, whole)
    assert torch.allclose(taken, scores.sort(dim=1, descending=True).values[:, :3])


def test_the_number_of_threads_does_not_matter(threads: Callable[[int], None]) -> None:
    rows, _ = unit_rows(3000, 32, 20, 0.5)
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(clusters.centres(rows, 0))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
