from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from naq.neighbors import NeighborTable, mutual_pairs, topk, vector_neighbors, vectors
from naq.random import stream
from naq_scale.recall import recall

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
    """One or four entries of +-1, so that cosines are exact in float32: ties, duplicates, opposites, some zero rows."""
    random = np.random.default_rng(seed)
    x = np.zeros((n, d))
    for i, count in enumerate(random.choice([0, 1, 4, 4, 4], n)):
        x[i, random.choice(d, count, replace=False)] = random.choice([-1.0, 1.0], count)
    return x


def clustered_rows(n: int, d: int = 16, noise: float = 0.25) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.standard_normal((12, d))[random.integers(0, 12, n)] + noise * random.standard_normal((n, d))


class InTorch(topk.Best):
    """The lists that other devices keep, on the CPU."""

    def __init__(self, n: int, k: int, device: torch.device) -> None:
        super().__init__(n, k, device)
        self.on_cpu = False


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 60), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([16, 49, 1 << 24]))
def test_every_path_is_the_sorted_matrix(n: int, k: int, seed: int, entries: int) -> None:
    """Ties go to the lowest id whatever the order of blocks; cosines below zero count; zero rows are left out."""
    k = min(k, n - 1)
    ids, scores = oracle(exact_rows(n, seed), k)
    rows = vectors._unit_tensor(exact_rows(n, seed), "cpu")
    found = [vectors.nearest_by_symmetry(rows, k, None, entries)]
    with pytest.MonkeyPatch.context() as patch:
        for best in (topk.Best, InTorch):
            patch.setattr(vectors, "Best", best)
            found.append(vectors.nearest_rows(rows, torch.arange(n), k, None, entries))
    for one in found:
        assert np.array_equal(one[0], ids) and np.array_equal(one[1], scores.astype(np.float32))


@pytest.mark.parametrize("kind", ["random", "clustered", "float32 extremes"])
def test_any_vectors_have_the_true_scores(kind: str) -> None:
    x = clustered_rows(300) if kind == "clustered" else np.random.default_rng(0).standard_normal((300, 16))
    if kind == "float32 extremes":
        x = x * 10.0 ** np.random.default_rng(1).integers(-35, 37, (300, 1))
    x = x.astype(np.float32)
    table, full = vector_neighbors(x, 7), cosine_matrix(x)
    _, scores = oracle(x, 7)
    # Not the ids: those of nearly equal cosines may change places in float32.
    assert np.abs(table.scores - scores).max() < 1e-5
    assert np.abs(np.take_along_axis(full, table.ids.astype(int), axis=1) - table.scores).max() < 1e-5
    assert (np.sort(table.ids, axis=1)[:, 1:] != np.sort(table.ids, axis=1)[:, :-1]).all()
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
    assert recall(here.ids, there.ids) > (0.999 if exact else 0.95)


def test_an_approximate_table_states_its_recall_on_a_sample() -> None:
    x = np.random.default_rng(0).standard_normal((2000, 32))
    table, true = vector_neighbors(x, 5, exact=False, seed=4), vector_neighbors(x, 5, exact=True)
    sample = stream(4, "vector-neighbors/recall").choice(2000, 512, replace=False)
    assert table.info["search"] == "descent"
    assert table.info["recall"] == pytest.approx(recall(table.ids[sample], true.ids[sample]), abs=2e-3)


@pytest.mark.parametrize("exact", [True, False])
def test_no_vector_at_all_has_no_neighbours(exact: bool) -> None:
    for x in (np.zeros((6, 3)), np.zeros((6, 0)), np.eye(1, 3).repeat(6, 0) * np.eye(6, 1)):
        table = vector_neighbors(x, 2, exact=exact)
        assert (table.ids == -1).all() and (table.scores == 0).all()
    pair = vector_neighbors(np.array([[1.0, 2.0], [-1.0, -2.0]]), 1, exact=exact)
    assert pair.ids.tolist() == [[1], [0]] and np.allclose(pair.scores, -1)


def test_large_tables_are_approximate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vector_neighbors(clustered_rows(80), 3).info["search"] == "exact"
    monkeypatch.setitem(vectors.EXACT_NODES, "cpu", 79)
    assert vector_neighbors(clustered_rows(80), 3).info["search"] == "descent"


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
