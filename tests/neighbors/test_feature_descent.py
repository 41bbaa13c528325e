"""Approximate feature tables against the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

from graphs import random_counts
from naq import Graph, feature_neighbors, load
from naq.errors import OptionError
from naq.io import save_mapped
from naq.neighbors import approximate, descent, feature, feature_descent, feature_exact, similarity
from naq.neighbors.descent import Words
from naq.neighbors.similarity import METRICS, squared_norms
from shared_data import shared

KINDS = ("sparse", "dense")


def graph_of(x: Any, kind: str = "sparse") -> Graph:
    graph = Graph([[], []], sp.csr_array(x), nodes=x.shape[0])
    if kind == "dense":
        object.__setattr__(graph, "features", np.ascontiguousarray(x, dtype=np.float32))
    return graph


def topics(n: int, d: int = 300, seed: int = 0) -> np.ndarray:
    """Counts of words around 30 topics; every 17th row is empty."""
    random = np.random.default_rng(seed)
    x = np.zeros((n, d), dtype=np.float32)
    common, topic = random.integers(0, d, (n, 4)), random.integers(0, 30, n)
    own = (topic[:, None] * 10 + random.integers(0, 14, (n, 8))) % d
    for words in (common, own):
        np.add.at(x, (np.arange(n)[:, None], words), 1)
    x[::17] = 0
    return x


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several thousand rows in as many clusters as millions have, and no list that holds most of them."""
    monkeypatch.setattr(approximate, "MEMBERS", 50)
    monkeypatch.setattr(approximate, "PROBES", 8)
    monkeypatch.setattr(feature_descent, "PROBES", 4)


def both(graph: Graph, k: int, metric: str) -> tuple[Any, Any]:
    return tuple(feature_neighbors(graph, k, metric=metric, search=search) for search in ("exact", "approximate"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_nearly_all_true_neighbours_are_found_with_their_scores(metric: str, kind: str) -> None:
    graph = graph_of(topics(3000), kind)
    true, found = both(graph, 10, metric)
    assert feature_exact.recall_with_ties(found.ids, found.scores, true.ids, true.scores) > 0.97
    assert found.info["search"] == "approximate" and true.info["search"] == "exact"
    sample = found.info["recall"], feature_exact.recall(found.ids, true.ids)
    assert abs(sample[0] - sample[1]) < 0.05 and sample[1] > 0.75
    assert found.info["recall_with_ties"] > 0.95
    same = found.ids == true.ids
    assert same.mean() > 0.5 and np.allclose(found.scores[same], true.scores[same], atol=1e-6)
    assert np.array_equal(found.ids >= 0, true.ids >= 0)


@pytest.mark.parametrize(
    ("name", "nodes", "metric", "share"),
    [
        ("coauthor_cs", None, "cosine", 0.98),
        ("coauthor_cs", 8000, "jaccard", 0.97),
        ("coauthor_cs", 8000, "euclidean", 0.95),
        ("amazon_computers", 3000, "cosine", 0.9),
        ("debian", 8000, "cosine", 0.95),
    ],
)
def test_real_graphs(name: str, nodes: int | None, metric: str, share: float) -> None:
    features = load(name if name == "debian" else shared(f"{name}.npz")).features[:nodes]
    graph = Graph([[], []], features, nodes=features.shape[0])
    true, found = both(graph, 10, metric)
    assert feature_exact.recall_with_ties(found.ids, found.scores, true.ids, true.scores) > share


counts = st.tuples(st.integers(2, 12), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.integers(-1, 3), fill=st.just(np.int8(0)))
)


@settings(max_examples=150, deadline=None)
@given(counts, st.sampled_from(METRICS), st.integers(1, 11))
def test_small_tables_are_exact(x: np.ndarray, metric: str, k: int) -> None:
    """Lists hold all other rows; empty rows, equal rows, ties and k up to n - 1 are among these."""
    k = min(k, len(x) - 1)
    for kind in KINDS:
        true, found = both(graph_of(x.astype(np.float32), kind), k, metric)
        assert np.array_equal(found.ids, true.ids) and np.array_equal(found.scores, true.scores), kind
        assert found.info["recall"] == 1.0 and found.info["recall_with_ties"] == 1.0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_copies_are_each_others_nearest_lowest_first(metric: str, kind: str) -> None:
    x = topics(2000)
    x[5::10] = x[5]  # 200 rows, more than a list and more than a cluster
    table = feature_neighbors(graph_of(x, kind), 12, metric=metric, search="approximate")
    copies = np.flatnonzero((x == x[5]).all(axis=1))
    for node in copies[[0, 4, 150]]:
        assert table.ids[node].tolist() == [c for c in copies[:13] if c != node][:12]
        assert np.allclose(table.scores[node], 0 if metric == "euclidean" else 1, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_direction_are_copies_under_cosine(kind: str) -> None:
    x = topics(400)
    x[1::4] = x[1] * np.arange(1, 101)[:, None]
    true, found = both(graph_of(x, kind), 5, "cosine")
    assert np.allclose(found.scores[1::4], 1) and np.allclose(true.scores[1::4], 1)
    assert np.isin(
        found.ids[1::4], np.flatnonzero(np.isclose(x @ x[1], np.linalg.norm(x, axis=1) * np.linalg.norm(x[1])))
    ).all()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("metric", METRICS)
def test_heavy_words_and_long_rows(metric: str) -> None:
    """One word in every row, one row with every word."""
    x = topics(2500)
    x[:, 0] += 1
    x[7] = 1
    true, found = both(graph_of(x), 10, metric)
    assert feature_exact.recall_with_ties(found.ids, found.scores, true.ids, true.scores) > 0.95


def test_very_large_and_very_small_numbers() -> None:
    x = topics(300)
    for kind in KINDS:
        for factor in (1e-15, 1e15):
            for metric in ("cosine", "euclidean"):
                true, found = both(graph_of(x * np.float32(factor), kind), 5, metric)
                assert np.allclose(found.scores / factor, true.scores / factor, rtol=1e-5), (kind, factor, metric)


def test_wide_dense_rows_are_narrowed_for_the_candidates_only(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = (random.standard_normal((30, 200))[random.integers(0, 30, 1500)] + random.standard_normal((1500, 200))).astype(
        np.float32
    )
    assert similarity.narrow_width(x) == similarity.WIDTH < x.shape[1]
    for metric in ("cosine", "euclidean"):
        true, found = both(graph_of(x, "dense"), 10, metric)
        assert feature_exact.recall(found.ids, true.ids) > 0.97


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_matter(kind: str, threads: Callable[[int], None]) -> None:
    graph, tables = graph_of(topics(1500), kind), []
    for number in (1, 2):
        threads(number)
        tables.append([feature_neighbors(graph, 8, metric=metric, search="approximate") for metric in METRICS])
    for one, two in zip(*tables, strict=True):
        assert np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores) and one.info == two.info


@pytest.mark.parametrize("kind", KINDS)
def test_a_mapped_graph_has_the_same_table(kind: str, tmp_path: Path) -> None:
    graph = graph_of(topics(800), kind)
    mapped = load(save_mapped(tmp_path / "g", graph))
    assert mapped.mapped and mapped.sparse_features == (kind == "sparse")
    for metric in METRICS:
        one, two = (feature_neighbors(g, 6, metric=metric, search="approximate") for g in (graph, mapped))
        assert np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_nothing_in_common(metric: str, kind: str) -> None:
    true, found = both(graph_of(np.eye(9, dtype=np.float32), kind), 3, metric)
    assert np.array_equal(found.ids, true.ids) and np.array_equal(found.scores, true.scores)
    none = np.zeros((6, 4), dtype=np.float32)
    true, found = both(graph_of(none, kind), 3, metric)
    assert np.array_equal(found.ids, true.ids) and (metric == "euclidean" or (found.ids == -1).all())


@pytest.mark.parametrize("kind", KINDS)
def test_progress_reaches_the_end(kind: str) -> None:
    seen: list[tuple[int, int]] = []
    graph = graph_of(topics(600), kind)
    feature_neighbors(graph, 3, search="approximate", progress=lambda done, of: seen.append((done, of)))
    assert seen == sorted(seen) and seen[-1] == (600, 600) and len(seen) > 3


def scored_words(x: np.ndarray, metric: str) -> Words:
    rows = sp.csr_array(x)
    return Words(rows.indptr, rows.indices, rows.data, rows.shape[1], squared_norms(rows), METRICS.index(metric))


def by_euclid(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return -np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2)).astype(np.float32)


def test_candidates_are_those_that_share_rare_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against lists made word by word: the window around a row in the list of each of its rarest words."""
    monkeypatch.setattr(feature_descent, "WORDS", 3)
    monkeypatch.setattr(feature_descent, "WINDOW", 2)
    x = random_counts(200, 40, density=0.15).toarray()
    s, frequency = by_euclid(x), (x != 0).sum(axis=0)
    near = np.random.default_rng(0).integers(-1, 200, (200, 2))
    always = np.array([3, 50])
    ids, scores = feature_descent.scored_lists(scored_words(x, "euclidean"), near, always, 30)
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


def test_a_pass_over_words_offers_all_neighbours_of_neighbours() -> None:
    random, n, k = np.random.default_rng(0), 90, 4
    x = random_counts(n, 30, density=0.3).toarray()
    s = by_euclid(x)
    ids = np.stack([random.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    ids = np.take_along_axis(ids, np.lexsort((ids, -np.take_along_axis(s, ids, 1)), axis=1), 1)
    found, scores = descent.descend(
        scored_words(x, "euclidean"), ids, np.take_along_axis(s, ids, 1), 1, lambda done: None, n
    )
    ways = [set(ids[i].tolist()) | {j for j in range(n) if i in ids[j]} for i in range(n)]
    for i in range(n):
        reached = (ways[i] | {c for j in ways[i] for c in ways[j]}) - {i}
        best = sorted(reached, key=lambda j: (-s[i, j], j))[:k]
        assert found[i].tolist() == best and np.array_equal(scores[i], s[i, best])


def test_recall_counts_what_it_says() -> None:
    true, true_scores = np.array([[1, 2], [3, -1]]), np.array([[0.9, 0.5], [0.4, 0.0]], dtype=np.float32)
    found, scores = np.array([[1, 7], [-1, -1]]), np.array([[0.9, 0.5], [0.0, 0.0]], dtype=np.float32)
    assert feature_exact.recall(found, true) == pytest.approx(1 / 3)
    assert feature_exact.recall_with_ties(found, scores, true, true_scores) == pytest.approx(2 / 3)
    assert feature_exact.recall_with_ties(true, true_scores, true, true_scores) == 1.0


@pytest.mark.parametrize("metric", METRICS)
def test_rows_of_a_sample_are_those_of_the_table(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_exact, "BLOCK", 70)
    x = random_counts(300, 20).toarray()
    nodes = np.array([0, 5, 17, 120, 299])
    for kind in KINDS:
        graph = graph_of(x, kind)
        table = feature_neighbors(graph, 7, metric=metric, search="exact")
        ids, scores = feature_exact.true_rows(graph.features, nodes, 7, metric)
        assert np.array_equal(ids, table.ids[nodes]) and np.allclose(scores, table.scores[nodes], atol=1e-6)


@pytest.mark.parametrize(("kind", "limit"), [("sparse", "EXACT_VISITS"), ("dense", "EXACT_PRODUCTS")])
def test_auto_decides_by_work(kind: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = topics(500)
    graph, n = graph_of(x, kind), 500.0
    work = n * n * (x.shape[1] + feature.SELECTION) if kind == "dense" else float(((x != 0).sum(axis=0) ** 2).sum())
    monkeypatch.setattr(feature, "ENTRIES", 77)
    for allowed, search in ((work, "exact"), (work - 1, "approximate")):
        monkeypatch.setattr(feature, limit, allowed)
        assert feature_neighbors(graph, 4).info["search"] == search
        assert feature_neighbors(graph, 4, search="exact").info["search"] == "exact"
    monkeypatch.setattr(feature, "EXACT_NODES_CUDA", 499)
    assert not feature.exact_is_short(graph.features, device="cuda")
    monkeypatch.setattr(feature, "EXACT_NODES_CUDA", 500)
    assert feature.exact_is_short(graph.features, device="cuda")


def test_graphs_of_usual_size_stay_exact() -> None:
    assert feature.exact_is_short(load("debian").features)
    assert feature.exact_is_short(load(shared("coauthor_cs.npz")).features)


def test_both_tables_have_places_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(topics(200))
    tables = [feature_neighbors(graph, 3, search=search, cache=tmp_path) for search in ("exact", "approximate")]
    assert len(list((tmp_path / "tables").iterdir())) == 2
    monkeypatch.setattr(feature, "feature_rows", None)
    for search, table in zip(("exact", "approximate"), tables, strict=True):
        again = feature_neighbors(graph, 3, search=search, cache=tmp_path)
        assert np.array_equal(again.ids, table.ids) and again.info == table.info
    assert feature.feature_info(graph, 3, "cosine") == {"kind": "feature", "metric": "cosine", "k": 3}


def test_search_is_checked() -> None:
    graph = graph_of(topics(40))
    with pytest.raises(OptionError, match="search is 'fast'; expected one of auto, exact, approximate"):
        feature_neighbors(graph, 3, search="fast")
    info = feature.feature_info(graph, 3, "cosine", "approximate")
    with pytest.raises(OptionError, match="made whole; expected one shard, or search='exact'"):
        feature.feature_rows(graph, info, (0, 20))


def test_memory_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(feature_descent, "require", lambda needed, *_: asked.append(needed))
    feature_neighbors(graph_of(topics(500)), 3, search="approximate")
    feature_neighbors(graph_of(topics(1000)), 3, search="approximate")
    assert asked[1] == pytest.approx(2 * asked[0], rel=0.05) and 500 * 500 < asked[0] < 500 * 3000
