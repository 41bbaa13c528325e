from __future__ import annotations

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
from naq.neighbors import feature, feature_exact
from naq.neighbors.feature_exact import METRICS, block_topk
from shared_data import shared


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
def test_both_routes_equal_the_dense_oracle(metric: str, heavy: int) -> None:
    """Counts, so that every dot product is exact: ids and scores must be equal, ties included."""
    x = random_counts(600, 40, density=0.06, heavy=heavy).toarray()
    x[300:320] = x[100:120]
    ids, scores = oracle(x, 12, metric)
    routes = {
        "inverted index": feature_exact.inverted_index_topk(sp.csr_array(x), 12, metric, None),
        "blocks of sparse rows": block_topk(sp.csr_array(x), 12, metric, "cpu", None, entries=600 * 37),
        "blocks of dense rows": block_topk(x, 12, metric, "cpu", None, entries=600 * 37),
    }
    for name, (found, their_scores) in routes.items():
        assert np.array_equal(found, ids) and np.array_equal(their_scores, scores), name


def test_heavy_columns_are_taken_and_limited() -> None:
    columns = sp.csr_array(random_counts(200, 30, heavy=5, density=0.03).T)
    heavy, place = feature_exact._heavy_columns(columns)
    assert heavy.shape == (5, 200) and np.flatnonzero(place >= 0).tolist() == [0, 1, 2, 3, 4]
    for column in range(5):
        assert np.array_equal(heavy[place[column]], columns[[column]].toarray()[0])
    heavy, place = feature_exact._heavy_columns(columns, most_bytes=2 * 200 * 4)
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


counts = st.tuples(st.integers(2, 12), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.integers(-1, 3), fill=st.just(np.int8(0)))
)


@settings(max_examples=60)
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


def test_an_approximate_table_is_made_whole() -> None:
    graph = graph_of(random_counts(40, 5))
    info = feature.feature_info(graph, 3, "cosine", "approximate")
    with pytest.raises(OptionError, match="whole"):
        feature.feature_rows(graph, info, (0, 20))


@pytest.mark.parametrize(("kind", "limit"), [("sparse", "EXACT_VISITS"), ("dense", "EXACT_PRODUCTS")])
def test_auto_decides_by_work(kind: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_counts(500, 30).toarray()
    features = sp.csr_array(x) if kind == "sparse" else x
    work = 500.0**2 * (30 + feature.SELECTION) if kind == "dense" else float(((x != 0).sum(axis=0) ** 2).sum())
    for allowed in (work, work - 1):
        monkeypatch.setattr(feature, limit, allowed)
        assert feature.prefer_exact(features) == (allowed == work)
    for allowed in (499, 500):
        monkeypatch.setattr(feature, "EXACT_NODES_CUDA", allowed)
        assert feature.prefer_exact(features, device="cuda") == (allowed == 500)


def test_graphs_of_usual_size_stay_exact_and_are_cached_apart(tmp_path: Path) -> None:
    assert feature.prefer_exact(load("debian").features)
    assert feature.prefer_exact(load(shared("coauthor_cs.npz")).features)
    graph = graph_of(random_counts(200, 30))
    for _ in range(2):
        for search in ("exact", "approximate"):
            assert feature_neighbors(graph, 3, search=search, cache=tmp_path).info["search"] == search
        assert len(list((tmp_path / "tables").iterdir())) == 2


def test_a_real_graph_equals_the_oracle() -> None:
    graph = load(shared("cora.npz"))
    ids, scores = oracle(graph.features.toarray(), 10, "cosine")
    table = feature_neighbors(graph, k=10)
    assert np.array_equal(table.scores, scores) and np.array_equal(table.ids, ids)
