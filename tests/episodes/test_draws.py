"""Draws without repetition, and supports that are not near each other, against sets in plain Python."""

from __future__ import annotations

from itertools import permutations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import chisquare

from graphs import random_graph
from naq import NeighborTable, diffusion_neighbors, naq_episodes
from naq.episodes.episodes import _offending, distinct, keep_apart
from naq.errors import OptionError

TABLE = diffusion_neighbors(random_graph(), k=6)


def random_ids(n: int, k: int, seed: int, missing: float = 0.2) -> np.ndarray:
    """Neighbours that are not mutual; some rows are short."""
    random = np.random.default_rng(seed)
    ids = np.stack([random.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    kept = np.where(random.random(n) < missing, random.integers(0, k + 1, n), k)
    ids[np.arange(k) >= kept[:, None]] = -1
    return ids.astype(np.int32)


def near(ids: np.ndarray, a: int, b: int, m: int) -> bool:
    return b in ids[a, :m].tolist() or a in ids[b, :m].tolist()


def clashes(ids: np.ndarray, row: list[int], m: int) -> bool:
    return any(near(ids, a, b, m) for i, a in enumerate(row) for b in row[:i])


@settings(max_examples=60, deadline=None)
@given(st.integers(6, 40), st.integers(1, 5), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_offending_slots_are_those_that_meet_an_earlier_one(n: int, m: int, way: int, seed: int) -> None:
    ids = random_ids(n, 5, seed)
    support = np.random.default_rng(seed + 1).integers(0, n, size=(20, way))
    place = np.full(n, -1, dtype=np.int32)
    found = _offending(ids, support, m, place)
    for row, flags in zip(support.tolist(), found.tolist()):
        expected = [any(row[i] == b or near(ids, row[i], b, m) for i in range(j)) for j, b in enumerate(row)]
        assert flags == expected
    assert (place == -1).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(12, 60), st.integers(1, 4), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_what_is_left_clashing_is_said_and_nothing_else_clashes(n: int, m: int, way: int, seed: int) -> None:
    ids, random = random_ids(n, 4, seed), np.random.default_rng(seed)
    first = distinct(random, 50, n, way)
    found, left = keep_apart(random, first, ids, m)
    for before, row, flag in zip(first.tolist(), found.tolist(), left.tolist()):
        assert len(set(row)) == way
        assert clashes(ids, row, m) == flag
        if not clashes(ids, before, m):
            assert row == before, "an episode without a clash stays as it was drawn"


@pytest.mark.parametrize("m", [1, 3, 6])
def test_no_support_is_among_anothers_first_neighbours(m: int) -> None:
    episodes = naq_episodes(TABLE, way=4, queries=3, count=500, apart=m)
    assert episodes.info["apart"] == m and episodes.info["clashing"] == 0
    for row in episodes.support[:, :, 0].tolist():
        assert not clashes(TABLE.ids, row, m) and len(set(row)) == 4
    free = naq_episodes(TABLE, way=4, queries=3, count=500)
    assert any(clashes(TABLE.ids, row, m) for row in free.support[:, :, 0].tolist())
    assert "apart" not in free.info


def test_slots_are_uniform_over_what_earlier_ones_allow() -> None:
    """On a ring with both neighbours listed, by counting every ordered pair and triple."""
    n = 7
    ids = np.stack([(np.arange(n) + 1) % n, (np.arange(n) - 1) % n], axis=1)
    table = NeighborTable(ids, np.zeros(ids.shape))
    pairs = naq_episodes(table, way=2, queries=1, count=30_000, apart=2).support[:, :, 0]
    allowed = [p for p in permutations(range(n), 2) if not clashes(ids, list(p), 2)]
    index = {p: i for i, p in enumerate(allowed)}
    counts = np.bincount([index[tuple(p)] for p in pairs.tolist()], minlength=len(allowed))
    assert chisquare(counts).pvalue > 1e-3
    triples = naq_episodes(table, way=3, queries=1, count=2000, apart=2).support[:, :, 0]
    assert {tuple(t) for t in triples.tolist()} == {
        p for p in permutations(range(n), 3) if not clashes(ids, list(p), 2)
    }


def crowd(size: int, groups: int) -> NeighborTable:
    """Cliques in which everybody lists everybody."""
    n = size * groups
    ids = np.stack([np.delete(np.arange(i // size * size, (i // size + 1) * size), i % size) for i in range(n)])
    return NeighborTable(ids, np.zeros(ids.shape))


def test_what_cannot_be_kept_apart_is_refused() -> None:
    for table, way, apart, words in (
        (crowd(10, 1), 2, 9, "only 0 of 10"),
        (crowd(10, 2), 3, 9, "3-way"),
        (TABLE, 2, 7, "k=7"),
    ):
        with pytest.raises(OptionError, match=words):
            naq_episodes(table, way=way, queries=2, count=5, apart=apart)
    for wrong in (-1, 1.0, True):
        with pytest.raises(OptionError, match="apart"):
            naq_episodes(TABLE, way=2, queries=2, count=5, apart=wrong)


def test_rare_sets_are_found_or_counted() -> None:
    """Twelve cliques, twelve ways: one support from each; an early slot never has to move for a later one."""
    episodes = naq_episodes(crowd(5, 12), way=12, queries=2, count=300, apart=4)
    groups = np.sort(episodes.support[:, :, 0] // 5, axis=1)
    clashing = (groups[:, 1:] == groups[:, :-1]).any(axis=1)
    assert clashing.sum() == episodes.info["clashing"] < 300


def test_a_node_that_lists_itself_is_no_clash() -> None:
    """As a table completed by the lowest ids may have it."""
    ids = np.tile(np.arange(10)[:, None], (1, 3))
    episodes = naq_episodes(NeighborTable(ids, np.zeros(ids.shape)), way=9, queries=1, count=20, apart=3)
    assert episodes.info["clashing"] == 0


@pytest.mark.parametrize(("n", "size"), [(4, 4), (7, 3), (60, 3), (1000, 5), (100_000, 20)])
def test_rows_are_distinct_and_in_range(n: int, size: int) -> None:
    drawn = distinct(np.random.default_rng(0), 2000, n, size)
    assert drawn.shape == (2000, size) and drawn.min() >= 0 and drawn.max() < n
    assert all(len(set(row)) == size for row in drawn.tolist())


@pytest.mark.parametrize(("n", "size"), [(4, 2), (5, 3), (16, 2)])
def test_uniform_over_ordered_choices(n: int, size: int) -> None:
    """(16, 2) takes the rejecting route, the others the sorting one."""
    drawn = distinct(np.random.default_rng(1), 60_000, n, size)
    index = {choice: i for i, choice in enumerate(permutations(range(n), size))}
    counts = np.bincount([index[tuple(row)] for row in drawn.tolist()], minlength=len(index))
    assert chisquare(counts).pvalue > 1e-3
