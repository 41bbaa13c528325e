"""Approximate tables of vectors and of features against every pair compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

from graphs import random_counts
from naq import Graph, NeighborTable, feature_neighbors, load, vector_neighbors
from naq.io import save_mapped
from naq.neighbors.feature_exact import METRICS, squared_norms
from naq.neighbors.vectors import _unit_tensor
from naq_scale import near_features, near_vectors, nn_descent
from naq_scale.nn_descent import VectorRows, WordRows
from naq_scale.recall import measure_recall, recall, recall_with_ties, true_rows
from shared_data import shared

KINDS = ("sparse", "dense")
SMALL = {"members_each": 50}
"""Several thousand rows in as many clusters as millions have."""


def spread_rows(n: int, d: int, kind: str = "plain") -> np.ndarray:
    """Classes and noise with a decaying spectrum."""
    random, spectrum = np.random.default_rng(0), 1 / np.sqrt(np.arange(1, d + 1))
    centres = random.standard_normal((20, d)) * spectrum
    x = (centres[random.integers(0, 20, n)] + random.standard_normal((n, d)) * spectrum).astype(np.float32)
    if kind == "heavy tails":
        x *= random.standard_t(3, x.shape).astype(np.float32)
    if kind == "copies":
        x[: n // 2] = x[random.integers(n // 2, n // 2 + 60, n // 2)]
        x = x[random.permutation(n)]
    if kind == "zeros":
        x[random.choice(n, n // 3, replace=False)] = 0
    return x


def topics(n: int, d: int = 300) -> np.ndarray:
    """Counts of words around 30 topics; every 17th row is empty."""
    random = np.random.default_rng(0)
    x = np.zeros((n, d), dtype=np.float32)
    common, topic = random.integers(0, d, (n, 4)), random.integers(0, 30, n)
    own = (topic[:, None] * 10 + random.integers(0, 14, (n, 8))) % d
    for words in (common, own):
        np.add.at(x, (np.arange(n)[:, None], words), 1)
    x[::17] = 0
    return x


def graph_of(x: Any, kind: str = "sparse") -> Graph:
    graph = Graph([[], []], sp.csr_array(x), nodes=x.shape[0])
    if kind == "dense":
        object.__setattr__(graph, "features", np.ascontiguousarray(x, dtype=np.float32))
    return graph


def near_rows(x: np.ndarray, k: int, seed: int = 0, **options: int) -> NeighborTable:
    return NeighborTable(*near_vectors.near_rows(_unit_tensor(x, "cpu"), k, seed, None, **options))


def near_by_features(x: np.ndarray, kind: str, k: int, metric: str) -> NeighborTable:
    probes = 4 if kind == "sparse" else 8
    features = graph_of(x, kind).features
    return NeighborTable(*near_features.approximate_topk(features, k, metric, probes=probes, **SMALL))


def both(graph: Graph, k: int, metric: str) -> tuple[NeighborTable, NeighborTable]:
    exact, approximate = (feature_neighbors(graph, k, metric=metric, search=s) for s in ("exact", "approximate"))
    return exact, approximate


@pytest.mark.parametrize("kind", ["plain", "heavy tails", "copies", "zeros"])
def test_nearly_all_near_vectors_are_found(kind: str) -> None:
    x = spread_rows(4000, 300 if kind == "heavy tails" else 32, kind)
    found, true = near_rows(x, 10, probes=8, **SMALL), vector_neighbors(x, 10, exact=True)
    assert recall(found.ids, true.ids) > 0.95 and np.array_equal(found.ids >= 0, true.ids >= 0)


def test_probes_and_passes_find_more_and_scores_are_cosines() -> None:
    x = spread_rows(600, 16)
    x[[3, 77]] = 0
    true, unit = vector_neighbors(x, 10, exact=True), _unit_tensor(x, "cpu").numpy()
    shares = []
    for probes, passes in ((1, 0), (2, 0), (2, 2), (30, 0)):
        table = near_rows(x, 10, members_each=20, extra=0, probes=probes, passes=passes)
        there = table.ids >= 0
        assert np.allclose(np.take_along_axis(unit @ unit.T, np.maximum(table.ids, 0), 1)[there], table.scores[there])
        assert (table.ids != np.arange(600)[:, None]).all() and (table.ids[[3, 77]] == -1).all()
        assert not np.isin(table.ids[there], [3, 77]).any()
        shares.append(recall(table.ids, true.ids))
    assert shares[0] < shares[1] < shares[2] and shares[1] < 0.95 and shares[3] > 0.98


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_nearly_all_near_features_are_found_with_their_scores(metric: str, kind: str) -> None:
    """One word in every row and one row with every word are among these."""
    x = topics(3000)
    x[:, 0] += 1
    x[7] = 1
    true, found = feature_neighbors(graph_of(x, kind), 10, metric=metric), near_by_features(x, kind, 10, metric)
    assert recall_with_ties(found.ids, found.scores, true.ids, true.scores) > 0.95
    same = found.ids == true.ids
    assert same.mean() > 0.5 and np.allclose(found.scores[same], true.scores[same], atol=1e-6)
    assert np.array_equal(found.ids >= 0, true.ids >= 0)


@pytest.mark.parametrize(
    ("name", "nodes", "metric", "share"),
    [
        ("coauthor_cs", 8000, "jaccard", 0.97),
        ("coauthor_cs", 8000, "euclidean", 0.95),
        ("amazon_computers", 3000, "cosine", 0.9),
        ("debian", 8000, "cosine", 0.95),
    ],
)
def test_real_graphs_and_the_recall_they_state(name: str, nodes: int, metric: str, share: float) -> None:
    features = load(name if name == "debian" else shared(f"{name}.npz")).features[:nodes]
    true, found = both(Graph([[], []], features, nodes=features.shape[0]), 10, metric)
    assert recall_with_ties(found.ids, found.scores, true.ids, true.scores) > share
    assert (true.info["search"], found.info["search"]) == ("exact", "approximate")
    assert found.info["recall"] == pytest.approx(recall(found.ids, true.ids), abs=0.05)
    assert found.info["recall_with_ties"] > share - 0.02


counts = st.tuples(st.integers(2, 12), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.integers(-1, 3), fill=st.just(np.int8(0)))
)


@settings(max_examples=100, deadline=None)
@given(counts, st.sampled_from(METRICS), st.integers(1, 11))
def test_small_tables_are_exact(x: np.ndarray, metric: str, k: int) -> None:
    """Lists hold all other rows; empty rows, equal rows, ties and k up to n - 1 are among these."""
    k = min(k, len(x) - 1)
    for kind in KINDS:
        true, found = both(graph_of(x.astype(np.float32), kind), k, metric)
        assert np.array_equal(found.ids, true.ids) and np.array_equal(found.scores, true.scores), kind
        assert found.info["recall"] == 1.0 and found.info["recall_with_ties"] == 1.0
    true, found = (vector_neighbors(x, k, exact=exact) for exact in (True, False))
    assert np.array_equal(found.ids >= 0, true.ids >= 0) and np.allclose(found.scores, true.scores, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_equal_rows_are_each_others_nearest_lowest_first(metric: str, kind: str) -> None:
    x = topics(2000)
    x[5::10] = x[5]  # 200 rows, more than a list and more than a cluster
    copies = np.flatnonzero((x == x[5]).all(axis=1))
    tables = [near_by_features(x, kind, 12, metric)]
    if (kind, metric) == ("dense", "cosine"):
        tables.append(near_rows(x, 12, **SMALL))
    for table in tables:
        for node in copies[[0, 4, 150]]:
            assert table.ids[node].tolist() == [c for c in copies[:13] if c != node][:12]
            assert np.allclose(table.scores[node], 0 if metric == "euclidean" else 1, atol=1e-6)


def test_very_large_and_very_small_numbers() -> None:
    x = topics(300)
    for kind in KINDS:
        for factor in (1e-15, 1e15):
            for metric in ("cosine", "euclidean"):
                true, found = both(graph_of(x * np.float32(factor), kind), 5, metric)
                assert np.allclose(found.scores / factor, true.scores / factor, rtol=1e-5), (kind, factor, metric)


def test_wide_dense_rows_are_narrowed_for_the_candidates_only() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((30, 200))[random.integers(0, 30, 1500)] + random.standard_normal((1500, 200))
    x = x.astype(np.float32)
    assert near_features.low_rank_width(x) == near_features.WIDTH < x.shape[1]
    for metric in ("cosine", "euclidean"):
        true, found = both(graph_of(x, "dense"), 10, metric)
        assert recall(found.ids, true.ids) > 0.97


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_decide_and_threads_do_not(kind: str, threads: Callable[[int], None]) -> None:
    x, tables = topics(1500), []
    for number in (1, 2):
        threads(number)
        tables.append([near_by_features(x, kind, 8, metric) for metric in METRICS])
        tables[-1] += [near_rows(x, 8, seed, probes=2, passes=0, **SMALL) for seed in (3, 4)]
    for one, two in zip(*tables, strict=True):
        assert np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores)
    assert not np.array_equal(tables[0][-1].ids, tables[0][-2].ids)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mapped_graph_has_the_same_table(kind: str, tmp_path: Path) -> None:
    graph = graph_of(topics(800), kind)
    mapped = load(save_mapped(tmp_path / "g", graph))
    assert mapped.mapped and mapped.sparse_features == (kind == "sparse")
    for metric in METRICS:
        one, two = (feature_neighbors(g, 6, metric=metric, search="approximate") for g in (graph, mapped))
        assert np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores)


@pytest.mark.parametrize("kind", KINDS)
def test_progress_reaches_the_end(kind: str) -> None:
    seen: list[tuple[int, int]] = []
    feature_neighbors(graph_of(topics(600), kind), 3, search="approximate", progress=lambda *done: seen.append(done))
    assert seen == sorted(seen) and seen[-1] == (600, 600) and len(seen) > 3


def test_memory_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(near_features, "require", lambda needed, *_: asked.append(needed))
    feature_neighbors(graph_of(topics(500)), 3, search="approximate")
    feature_neighbors(graph_of(topics(1000)), 3, search="approximate")
    assert asked[1] == pytest.approx(2 * asked[0], rel=0.05) and 500 * 500 < asked[0] < 500 * 3000


def test_rows_too_near_for_clusters_cost_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((2000, 8), dtype=np.float32)
    x[:, 0] += 1e-7 * np.arange(2000)
    widest = 0

    class Watched(near_vectors.Best):
        def offer(self, values: torch.Tensor, owners: torch.Tensor, candidates: torch.Tensor) -> None:
            nonlocal widest
            widest = max(widest, len(candidates))
            super().offer(values, owners, candidates)

    monkeypatch.setattr(near_vectors, "Best", Watched)
    table = near_rows(x, 5, members_each=12)
    assert 0 < widest <= 96 and (table.ids >= 0).all() and np.allclose(table.scores, 1, atol=1e-4)


def slow_pass(s: np.ndarray, ids: np.ndarray, fan: int) -> np.ndarray:
    """The best of a row's list and of all rows one or two steps away, forth and back to ``fan`` rows at most."""
    n, k = ids.shape
    ways: list[list[int]] = []
    for i in range(n):
        listing = sorted((ids[j].tolist().index(i), j) for j in range(n) if i in ids[j])
        ways.append([*ids[i, :fan].tolist(), *(j for _, j in listing[:fan])])
    found = np.empty_like(ids)
    for i in range(n):
        reached = {c for j in ways[i] for c in [j, *ways[j]]} | set(ids[i].tolist())
        reached.discard(i)
        found[i] = sorted(reached, key=lambda j: (-s[i, j], j))[:k]
    return found


def word_rows(x: np.ndarray) -> WordRows:
    rows = sp.csr_array(x)
    euclid = METRICS.index("euclidean")
    return WordRows(rows.indptr, rows.indices, rows.data, rows.shape[1], squared_norms(rows), euclid)


def by_euclid(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return -np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2)).astype(np.float32)


@pytest.mark.parametrize(("kind", "fan", "passes"), [("v", 2, 1), ("v", 20, 1), ("v", 120, 4), ("w", 120, 1)])
def test_a_pass_offers_all_neighbours_of_neighbours(kind: str, fan: int, passes: int) -> None:
    """Also where those that were offered before are left out: after one pass, or where no step back is cut off."""
    random, n, k = np.random.default_rng(0), 120, 3
    x = random.integers(-8, 9, (n, 5)).astype(np.float32)  # products are exact in float32
    rows = VectorRows(x, np.zeros(n, dtype=np.float32)) if kind == "v" else word_rows(x)
    s = x @ x.T if kind == "v" else by_euclid(x)
    ids = np.stack([random.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    ids = np.take_along_axis(ids, np.lexsort((ids, -np.take_along_axis(s, ids, 1)), axis=1), 1)
    expected, seen = ids, []
    for _ in range(passes):
        expected = slow_pass(s, expected, fan)
    found, scores = nn_descent.descend(rows, ids, np.take_along_axis(s, ids, 1), passes, seen.append, fan)
    assert np.array_equal(found, expected) and not np.array_equal(found, ids)
    assert np.array_equal(scores, np.take_along_axis(s, found, 1))
    assert seen == [n * p for p in range(1, passes + 1)]


def test_candidates_are_those_that_share_rare_words() -> None:
    """Against lists made word by word: the window around a row in the list of each of its rarest words."""
    x = random_counts(200, 40, density=0.15).toarray()
    s, frequency = by_euclid(x), (x != 0).sum(axis=0)
    near = np.random.default_rng(0).integers(-1, 200, (200, 2))
    always = np.array([3, 50])
    ids, scores = near_features.score_candidates(word_rows(x), near, always, 30, words=3, window=2)
    for row in range(200):
        words = [w for w in np.flatnonzero(x[row]) if frequency[w] > 1]
        expected = set(near[row].tolist()) | set(always.tolist())
        for word in sorted(words, key=lambda w: (frequency[w], w))[:3]:
            listed = np.flatnonzero(x[:, word]).tolist()
            at = listed.index(row)
            expected |= set(listed[max(0, at - 2) : at + 3])
        best = sorted(expected - {row, -1}, key=lambda j: (-s[row, j], j))[:30]
        assert ids[row, : len(best)].tolist() == best and (ids[row, len(best) :] == -1).all()
        assert np.array_equal(scores[row, : len(best)], s[row, best])


def test_recall_counts_what_it_says() -> None:
    true, true_scores = np.array([[1, 2], [3, -1]]), np.array([[0.9, 0.5], [0.4, 0.0]], dtype=np.float32)
    found, scores = np.array([[1, 7], [-1, -1]]), np.array([[0.9, 0.5], [0.0, 0.0]], dtype=np.float32)
    assert recall(found, true) == pytest.approx(1 / 3) and recall(true, true) == 1
    assert recall_with_ties(found, scores, true, true_scores) == pytest.approx(2 / 3)
    assert recall_with_ties(true, true_scores, true, true_scores) == 1.0


@pytest.mark.parametrize("metric", METRICS)
def test_rows_of_a_sample_are_those_of_the_table(metric: str) -> None:
    x, nodes = random_counts(300, 20).toarray(), np.array([0, 5, 17, 120, 299])
    for kind in KINDS:
        features = graph_of(x, kind).features
        table = feature_neighbors(graph_of(x, kind), 7, metric=metric, search="exact")
        found, scores = true_rows(features, nodes, 7, metric, block=70)
        assert np.array_equal(found, table.ids[nodes]) and np.allclose(scores, table.scores[nodes], atol=1e-6)
        stated = measure_recall(features, table.ids, table.scores, metric)
        assert stated == {"recall": 1.0, "recall_with_ties": 1.0}
