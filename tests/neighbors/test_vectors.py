from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from naq.errors import OptionError
from naq.neighbors import NeighborTable, approximate, feature_exact, mutual_pairs, topk, vector_neighbors, vectors
from naq.random import stream

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def cosine_matrix(x: np.ndarray) -> np.ndarray:
    """(n, n) float64; -inf where a row is zero and for a node and itself."""
    x = x.astype(np.float64)
    largest = np.abs(x).max(axis=1, keepdims=True)
    there = largest[:, 0] > 0
    x = np.divide(x, largest, out=np.zeros_like(x), where=largest > 0)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.divide(x, length, out=np.zeros_like(x), where=length > 0)
    found = x @ x.T
    found[~there] = found[:, ~there] = -np.inf
    np.fill_diagonal(found, -np.inf)
    return found


def oracle(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort every row of the dense matrix, ties to the lowest id."""
    scores = cosine_matrix(x)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, ids, axis=1)
    return np.where(np.isfinite(best), ids, -1), np.where(np.isfinite(best), best, 0.0)


def exact_rows(n: int, seed: int = 0, d: int = 8) -> np.ndarray:
    """One or four entries of +-1, so that cosines are exact in float32: many ties, duplicates, opposites and some zero rows."""
    random = np.random.default_rng(seed)
    x = np.zeros((n, d))
    for i, count in enumerate(random.choice([0, 1, 4, 4, 4], n)):
        x[i, random.choice(d, count, replace=False)] = random.choice([-1.0, 1.0], count)
    return x


def clustered_rows(n: int, d: int = 16, groups: int = 12, seed: int = 0, noise: float = 0.25) -> np.ndarray:
    random = np.random.default_rng(seed)
    middle = random.standard_normal((groups, d))
    return middle[random.integers(0, groups, n)] + noise * random.standard_normal((n, d))


class InTorch(topk.Best):
    """The lists that other devices keep, on the CPU."""

    def __init__(self, n: int, k: int, device: torch.device) -> None:
        super().__init__(n, k, device)
        self.on_cpu = False


def by_row_blocks(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    rows = vectors._unit_tensor(x, "cpu")
    return vectors._nearest(rows, torch.arange(len(rows)), k, None)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 60), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([16, 49, 1 << 24]))
def test_every_path_is_the_sorted_matrix(n: int, k: int, seed: int, block: int) -> None:
    """Ties go to the lowest id whatever the order of blocks; cosines below zero count; zero rows are left out."""
    k = min(k, n - 1)
    x = exact_rows(n, seed)
    ids, scores = oracle(x, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "BLOCK_ENTRIES", block)
        table = vector_neighbors(x, k)
        assert np.array_equal(table.ids, ids) and np.array_equal(table.scores, scores.astype(np.float32))
        for best in (topk.Best, InTorch):
            patch.setattr(vectors, "Best", best)
            found = by_row_blocks(x, k)
            assert np.array_equal(found[0], ids) and np.array_equal(found[1], scores.astype(np.float32))


@pytest.mark.parametrize("kind", ["random", "clustered", "float32 extremes"])
def test_any_vectors_have_the_true_scores(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = clustered_rows(300) if kind == "clustered" else np.random.default_rng(0).standard_normal((300, 16))
    if kind == "float32 extremes":
        x = x * 10.0 ** np.random.default_rng(1).integers(-35, 37, (300, 1))
    x = x.astype(np.float32)
    monkeypatch.setattr(vectors, "BLOCK_ENTRIES", 70**2)
    table, full = vector_neighbors(x, 7), cosine_matrix(x)
    _, scores = oracle(x, 7)
    # Not the ids: those of nearly equal cosines may change places in float32.
    assert np.abs(table.scores - scores).max() < 1e-5
    assert np.abs(np.take_along_axis(full, table.ids.astype(int), axis=1) - table.scores).max() < 1e-5
    assert (np.sort(table.ids, axis=1)[:, 1:] != np.sort(table.ids, axis=1)[:, :-1]).all()
    assert (table.ids != np.arange(300)[:, None]).all() and np.all(np.diff(table.scores, axis=1) <= 0)
    assert table.info == {"kind": "vectors", "metric": "cosine", "k": 7, "search": "exact"}


@needs_cuda
@pytest.mark.parametrize("exact", [True, False])
def test_cuda_gives_the_same_table(exact: bool) -> None:
    x = exact_rows(200)
    here, there = (vector_neighbors(x, 5, exact=exact, device=device) for device in ("cpu", "cuda"))
    if exact:
        assert np.array_equal(here.ids, there.ids) and np.array_equal(here.scores, there.scores)
    x = clustered_rows(2000)
    here, there = (vector_neighbors(x, 5, exact=exact, device=device) for device in ("cpu", "cuda"))
    assert feature_exact.recall(here.ids, there.ids) > (0.999 if exact else 0.95)


@pytest.mark.parametrize("in_torch", [False, True])
def test_clusters_find_nearly_all_and_report_how_many(in_torch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = clustered_rows(500, noise=0.5).astype(np.float32)
    x[[3, 77]] = 0
    if in_torch:
        monkeypatch.setattr(approximate, "Best", InTorch)
    true, full = oracle(x, 10)[0], cosine_matrix(x)
    recalls = []
    monkeypatch.setattr(approximate, "MEMBERS", 20)
    monkeypatch.setattr(approximate, "EXTRA", 0)
    for probes, passes in ((1, 0), (2, 0), (2, 2), (24, 0)):
        monkeypatch.setattr(approximate, "PROBES", probes)
        monkeypatch.setattr(approximate, "PASSES", passes)
        table = vector_neighbors(x, 10, exact=False)
        there = table.ids >= 0
        found = np.take_along_axis(full, np.maximum(table.ids, 0).astype(int), axis=1)
        assert np.abs(found - table.scores)[there].max() < 1e-5, "every listed score is the true cosine"
        assert (table.ids != np.arange(500)[:, None]).all() and (table.ids[[3, 77]] == -1).all()
        assert not np.isin(table.ids[there], [3, 77]).any()
        hits = sum(len(set(a.tolist()) & set(b[b >= 0].tolist())) for a, b in zip(table.ids, true, strict=True)) / max(
            1, (true >= 0).sum()
        )
        # All 500 nodes are in the sample of 512; cosines that are equal in float32 may change places.
        assert table.info["search"] == "descent" and table.info["recall"] == pytest.approx(hits, abs=2e-3)
        recalls.append(hits)
    assert recalls[0] < recalls[1] < recalls[2] and recalls[1] < 0.95 and min(recalls[2:]) > 0.98


def test_the_recall_of_many_nodes_is_that_of_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "MEMBERS", 30)
    monkeypatch.setattr(approximate, "PROBES", 4)
    x = np.random.default_rng(0).standard_normal((3000, 32))
    table, true = vector_neighbors(x, 5, exact=False, seed=4), vector_neighbors(x, 5, exact=True)
    sample = stream(4, "vector-neighbors/recall").choice(3000, feature_exact.SAMPLE, replace=False)
    assert table.info["recall"] == pytest.approx(feature_exact.recall(table.ids[sample], true.ids[sample]), abs=2e-3)
    assert 0.5 < feature_exact.recall(table.ids, true.ids) < 0.99, "directions without clusters are hard"


def test_recall_counts_what_is_there() -> None:
    true = np.array([[1, 2], [0, -1], [-1, -1]])
    assert feature_exact.recall(true, true) == 1
    assert feature_exact.recall(np.array([[2, 5], [4, -1], [1, 2]]), true) == pytest.approx(1 / 3)
    assert feature_exact.recall(np.full((3, 2), -1), true) == 0


@pytest.mark.parametrize("exact", [True, False])
def test_the_number_of_threads_does_not_matter(
    exact: bool, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approximate, "MEMBERS", 40)
    monkeypatch.setattr(approximate, "PROBES", 3)
    x, before, tables = clustered_rows(1500, d=64), torch.get_num_threads(), []
    try:
        for count in (1, 2):
            threads(count)
            torch.set_num_threads(count)
            tables.append(vector_neighbors(x, 10, exact=exact))
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(tables[0].ids, tables[1].ids) and np.array_equal(tables[0].scores, tables[1].scores)
    assert tables[0].info == tables[1].info


@pytest.mark.parametrize("exact", [True, False])
def test_no_vector_at_all_has_no_neighbours(exact: bool) -> None:
    for x in (np.zeros((6, 3)), np.zeros((6, 0)), np.eye(1, 3).repeat(6, 0) * np.eye(6, 1)):
        table = vector_neighbors(x, 2, exact=exact)
        assert (table.ids == -1).all() and (table.scores == 0).all()
    pair = vector_neighbors(np.array([[1.0, 2.0], [-1.0, -2.0]]), 1, exact=exact)
    assert pair.ids.tolist() == [[1], [0]] and np.allclose(pair.scores, -1)


def test_arrays_and_tensors_and_progress() -> None:
    x, seen = clustered_rows(400), []
    one = vector_neighbors(torch.from_numpy(x), 3, progress=lambda done, whole: seen.append((done, whole)))
    assert np.array_equal(one.ids, vector_neighbors(x, 3).ids) and seen[-1] == (400, 400)
    seen.clear()
    vector_neighbors(x, 3, exact=False, progress=lambda done, whole: seen.append((done, whole)))
    assert seen[-1] == (400, 400) and seen == sorted(seen)


def test_large_tables_are_approximate(monkeypatch: pytest.MonkeyPatch) -> None:
    x = clustered_rows(80)
    assert vector_neighbors(x, 3).info["search"] == "exact"
    monkeypatch.setitem(vectors.EXACT_NODES, "cpu", 79)
    assert vector_neighbors(x, 3).info["search"] == "descent"


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 10**6))
def test_mutual_pairs_are_those_of_sets(n: int, k: int, seed: int) -> None:
    random, k = np.random.default_rng(seed), min(k, n - 1)
    ids = np.stack([random.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    ids[random.random(ids.shape) < 0.2] = -1
    near = [set(row[row >= 0].tolist()) for row in ids]
    expected = [[i, j] for i in range(n) for j in range(i + 1, n) if j in near[i] and i in near[j]]
    found = mutual_pairs(NeighborTable(ids.astype(np.int32), np.ones(ids.shape)))
    assert found.dtype == np.int64 and found.shape == (len(expected), 2) and found.tolist() == expected


def test_mutual_pairs_of_many_nodes_do_not_overflow() -> None:
    n = 100_000  # n * n is more than an int32 holds
    ids = np.full((n, 1), -1, dtype=np.int32)
    ids[n - 1, 0], ids[n - 2, 0] = n - 2, n - 1
    assert mutual_pairs(NeighborTable(ids, np.zeros((n, 1)))).tolist() == [[n - 2, n - 1]]


@pytest.mark.parametrize(
    ("x", "k", "words"),
    [
        (np.eye(4), 0, "k is 0"),
        (np.eye(4), 2.0, "k is 2.0"),
        (np.eye(4), True, "k is True"),
        (np.eye(4), 4, "there are 4 vectors, so one has 3 others"),
        (np.eye(1), 1, "there are 1 vectors, so one has 0 others"),
        (np.zeros((0, 3)), 1, "there are 0 vectors"),
        (np.ones(4), 1, r"shape \(4,\)"),
        (np.ones((2, 2, 2)), 1, r"shape \(2, 2, 2\)"),
        (np.array([[1.0, np.nan], [1.0, 2.0]]), 1, "not finite"),
        (np.array([[1.0, np.inf], [1.0, 2.0]]), 1, "not finite"),
    ],
)
def test_what_has_no_table(x: np.ndarray, k: int, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        vector_neighbors(x, k)
