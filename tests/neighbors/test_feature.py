from __future__ import annotations

from collections.abc import Callable
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
from naq.neighbors import feature_exact
from shared_data import shared

METRICS = ("cosine", "euclidean", "jaccard")


def similarities(x: np.ndarray, metric: str) -> np.ndarray:
    """Dense n x n in float64, straight from the definition, then float32."""
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        if metric == "cosine":
            norms = (x**2).sum(1)
            s = x @ x.T / np.sqrt(norms[:, None] * norms)
        elif metric == "euclidean":
            s = -np.sqrt(np.stack([((row - x) ** 2).sum(1) for row in x]))
        else:
            a = (x != 0).astype(float)
            both = a @ a.T
            s = both / (a.sum(1)[:, None] + a.sum(1) - both)
    return np.nan_to_num(s).astype(np.float32)


def oracle(x: np.ndarray, k: int, metric: str) -> tuple[np.ndarray, np.ndarray]:
    s = similarities(x, metric)
    none = np.eye(len(x), dtype=bool) | ((s == 0) if metric != "euclidean" else False)
    s = np.where(none, -np.inf, s)
    ids = np.argsort(-s, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(s, ids, 1)
    return np.where(np.isfinite(scores), ids, -1), np.where(np.isfinite(scores), scores, 0)


def graph_of(features: Any) -> Graph:
    return Graph([[], []], features, nodes=features.shape[0])


def stays_sparse(x: np.ndarray) -> Graph:
    return graph_of(sp.csr_array(x))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("heavy", [0, 4])
def test_both_routes_equal_the_dense_oracle(metric: str, heavy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, so that every dot product is exact: ids and scores must be equal, ties included."""
    x = random_counts(600, 40, density=0.06, heavy=heavy).toarray()
    x[300:320] = x[100:120]
    ids, scores = oracle(x, 12, metric)
    monkeypatch.setattr(feature_exact, "BLOCK_ENTRIES", 600 * 37)
    dense = graph_of(x)
    object.__setattr__(dense, "features", x)
    routes = {
        "inverted index": feature_neighbors(stays_sparse(x), k=12, metric=metric),
        "blocks of sparse rows": feature_neighbors(stays_sparse(x), k=12, metric=metric, device="cpu:0"),
        "blocks of dense rows": feature_neighbors(dense, k=12, metric=metric),
    }
    for name, table in routes.items():
        assert np.array_equal(table.ids, ids), name
        assert np.array_equal(table.scores, scores), name


def test_heavy_columns_are_taken_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = sp.csr_array(random_counts(200, 30, heavy=5, density=0.03).T)
    heavy, place = feature_exact._heavy_columns(columns)
    assert heavy.shape == (5, 200) and np.flatnonzero(place >= 0).tolist() == [0, 1, 2, 3, 4]
    for column in range(5):
        assert np.array_equal(heavy[place[column]], columns[[column]].toarray()[0])
    monkeypatch.setattr(feature_exact, "HEAVY_BYTES", 2 * 200 * 4)
    heavy, place = feature_exact._heavy_columns(columns)
    assert heavy.shape == (2, 200) and (place >= 0).sum() == 2
    counts = np.diff(columns.indptr)
    assert counts[place >= 0].min() >= counts[:5][place[:5] < 0].max()


@pytest.mark.parametrize("metric", METRICS)
def test_rows_that_meet_few_others_equal_the_oracle(metric: str) -> None:
    """Short column lists, many rows of equal length and rows that are zero: the others come by length, then by id."""
    x = random_counts(400, 300, density=0.004).toarray()
    x[50:120] = np.minimum(x[50:120], 1)
    ids, scores = oracle(x, 15, metric)
    table = feature_neighbors(stays_sparse(x), k=15, metric=metric)
    assert np.array_equal(table.ids, ids) and np.array_equal(table.scores, scores)


@pytest.mark.parametrize("metric", METRICS)
def test_real_numbers_with_signs(metric: str) -> None:
    """Dot products round, so neighbours are compared by the similarity they have."""
    random = np.random.default_rng(0)
    x = random.standard_normal((150, 12)) * (random.random((150, 12)) < 0.4)
    x = x.astype(np.float32)
    s = similarities(x, metric)
    _, scores = oracle(x, 10, metric)
    for device in ("cpu", "cpu:0"):
        table = feature_neighbors(stays_sparse(x), k=10, metric=metric, device=device)
        assert np.allclose(table.scores, scores, atol=1e-6)
        found = np.where(table.ids >= 0, np.take_along_axis(s, np.maximum(table.ids, 0), 1), 0)
        assert np.allclose(found, scores, atol=1e-6)


def test_negative_similarities_are_neighbours_and_zero_is_none() -> None:
    x = np.array([[1, 0], [-1, 0], [0, 1], [2, 1]], dtype=np.float32)
    table = feature_neighbors(stays_sparse(x), k=3)
    assert table.ids.tolist() == [[3, 1, -1], [3, 0, -1], [3, -1, -1], [0, 2, 1]]


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_zero_rows_have_no_neighbours_and_are_none(device: str) -> None:
    x = random_counts(40, 8, density=0.5)
    empty = np.flatnonzero(np.diff(x.indptr) == 0)
    for metric in ("cosine", "jaccard"):
        table = feature_neighbors(graph_of(x), k=5, metric=metric, device=device)
        assert (table.ids[empty] == -1).all() and (table.scores[empty] == 0).all()
        assert not np.isin(table.ids, empty).any()
    far = feature_neighbors(graph_of(x), k=5, metric="euclidean", device=device)
    assert (far.ids >= 0).all()
    assert far.ids[empty[0], :2].tolist() == empty[1:3].tolist() and (far.scores[empty[0], :2] == 0).all()


def test_duplicate_rows_under_euclid_are_at_no_distance() -> None:
    x = np.tile(np.arange(1, 5, dtype=np.float32), (6, 3))
    table = feature_neighbors(graph_of(x), k=4, metric="euclidean")
    assert table.ids[3].tolist() == [0, 1, 2, 4] and (table.scores == 0).all()


def test_fills() -> None:
    x = random_counts(60, 30, density=0.05)
    none, lowest, random = (feature_neighbors(graph_of(x), k=9, fill=f) for f in ("none", "lowest", "random"))
    assert (none.ids == -1).any()
    for i in range(60):
        have = [j for j in none.ids[i].tolist() if j >= 0]
        assert lowest.ids[i].tolist() == have + [j for j in range(60) if j not in have][: 9 - len(have)]
        assert random.ids[i, : len(have)].tolist() == have
        assert len(set(random.ids[i].tolist())) == 9 and i not in random.ids[i] and (random.ids[i] >= 0).all()
    assert np.array_equal(random.ids, feature_neighbors(graph_of(x), k=9, fill="random").ids)
    assert not np.array_equal(random.ids, feature_neighbors(graph_of(x), k=9, fill="random", seed=1).ids)
    assert lowest.ids[0].tolist() == list(range(9))  # row 0 is empty: the node itself is the first of all


counts = st.tuples(st.integers(2, 12), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.integers(-1, 3), fill=st.just(np.int8(0)))
)


@settings(max_examples=150, deadline=None)
@given(counts, st.sampled_from(METRICS), st.sampled_from(("none", "lowest", "random")), st.integers(1, 11))
def test_any_table_of_counts(x: np.ndarray, metric: str, fill: str, k: int) -> None:
    k = min(k, len(x) - 1)
    expected, expected_scores = oracle(x, k, metric)
    for device in ("cpu", "cpu:0"):
        table = feature_neighbors(stays_sparse(x), k=k, metric=metric, fill=fill, device=device)
        own = expected >= 0
        assert np.array_equal(table.ids[own], expected[own])
        assert np.array_equal(table.scores, expected_scores)
        for i, row in enumerate(table.ids.tolist()):
            present = [j for j in row if j >= 0]
            assert len(set(present)) == len(present)
            assert fill == "lowest" or i not in present
            assert fill == "none" or len(present) == k
            ranked = list(zip((-table.scores[i]).tolist(), row))[: int(own[i].sum())]
            assert ranked == sorted(ranked)


def test_threads_do_not_matter(threads: Callable[[int], None]) -> None:
    graph = stays_sparse(random_counts(700, 50, heavy=3).toarray())
    tables = []
    for number in (1, 2):
        threads(number)
        tables.append(feature_neighbors(graph, k=10))
    assert np.array_equal(tables[0].ids, tables[1].ids) and np.array_equal(tables[0].scores, tables[1].scores)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_progress_reaches_the_end(device: str) -> None:
    seen: list[tuple[int, int]] = []
    graph = stays_sparse(random_counts(600, 10).toarray())
    feature_neighbors(graph, k=3, device=device, progress=lambda done, of: seen.append((done, of)))
    assert seen == sorted(seen) and seen[-1] == (600, 600)


def test_metric_is_checked() -> None:
    with pytest.raises(OptionError, match="metric is 'cosin'; expected one of cosine, euclidean, jaccard"):
        feature_neighbors(graph_of(random_counts(5, 3)), k=2, metric="cosin")


def test_info_says_how() -> None:
    graph = graph_of(random_counts(9, 3))
    table = feature_neighbors(graph, k=2, fill="random", seed=4)
    expected = {"kind": "feature", "metric": "cosine", "k": 2, "search": "exact", "fill": "random", "seed": 4}
    assert table.info == expected | {"graph": graph.without_labels().hash}


def test_a_real_graph_equals_the_oracle() -> None:
    graph = load(shared("cora.npz"))
    ids, scores = oracle(graph.features.toarray(), 10, "cosine")
    table = feature_neighbors(graph, k=10)
    assert np.array_equal(table.scores, scores) and np.array_equal(table.ids, ids)
