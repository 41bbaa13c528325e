"""Class-level similarity and the shape of neighbour tables against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

import naq
from naq_paper.measurements.class_similarity import class_cosines, class_similarity_cell, in_degrees


def slow_similarity(graph: naq.Graph, ids: np.ndarray, classes: set[int]) -> tuple[float, float, int]:
    """Mean similarity and share of equal classes over pairs whose first node is of ``classes``, written out."""
    x = graph.features.toarray() if graph.sparse_features else graph.features
    y = graph.labels
    centroid = {c: x[y == c].mean(axis=0) for c in set(y.tolist()) - {-1}}
    alike, same = [], []
    for i in range(len(y)):
        for j in ids[i]:
            if y[i] in classes and j >= 0 and y[j] >= 0:
                a, b = centroid[y[i]], centroid[y[j]]
                alike.append(1.0 if y[i] == y[j] else a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
                same.append(y[i] == y[j])
    return 100 * float(np.mean(alike)), float(np.mean(same)), len(alike)


def slow_tail(graph: naq.Graph, percent: int) -> set[int]:
    sizes = {c: int((graph.labels == c).sum()) for c in set(graph.labels.tolist()) - {-1}}
    order = sorted(sizes, key=lambda c: (sizes[c], c))
    return set(order[: math.ceil(percent / 100 * len(order))])


@pytest.mark.parametrize("dataset", ["islands", "communities"])
@pytest.mark.parametrize("fill", ["none", "lowest"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "jaccard", None])
def test_similarity_and_tails_are_those_of_plain_loops(context, compute, dataset, fill, metric):
    graph = context.dataset_cache.graph(dataset)
    if metric is None:
        cell = class_similarity_cell(dataset, kind="naq-diff", k=4, fill=fill, self_loops=False)
        table = naq.diffusion_neighbors(graph, 4, fill=fill, self_loops=False)
    else:
        cell = class_similarity_cell(dataset, metric=metric, k=4, fill=fill)
        table = naq.feature_neighbors(graph, 4, metric=metric, fill=fill)
    result = compute(cell)
    for tail in result["tails"]:
        chosen = slow_tail(graph, tail["percent"])
        alike, same, pairs = slow_similarity(graph, table.ids, chosen)
        assert tail["classes"] == len(chosen) and tail["pairs"] == pairs
        assert tail["nodes"] == np.isin(graph.labels, list(chosen)).sum()
        assert tail["similarity_percent"] == pytest.approx(alike)
        assert tail["same_class_share"] == pytest.approx(same)
    assert [tail["percent"] for tail in result["tails"]] == [10, 20, 50, 80, 100]
    for name in ("similarity_percent", "same_class_share", "pairs"):
        assert result[name] == pytest.approx(result["tails"][-1][name])


def test_centroids_are_raw_whatever_finds_the_neighbours(context, compute):
    graph = context.dataset_cache.graph("communities")
    result = compute(class_similarity_cell("communities", features="tfidf", k=4))
    table = naq.feature_neighbors(naq.graph.weighted(graph, "tfidf"), 4)
    assert result["similarity_percent"] == pytest.approx(slow_similarity(graph, table.ids, set(range(7)))[0])


def test_classes_without_features_are_like_no_other_and_like_themselves():
    graph = naq.Graph([[0, 1], [1, 2]], [[0, 0], [0, 0], [1, 2], [2, 4]], [0, 0, 3, 5], nodes=4)
    assert class_cosines(graph, np.array([0, 3, 5])) == pytest.approx(np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1]]))


def test_in_degrees_of_a_hub():
    ids = np.array([[1, 2], [2, 0], [0, -1], [0, 2], [0, 2]])
    degrees = [4, 1, 4, 0, 0]
    found = in_degrees(ids)
    pairs = [abs(a - b) for a in degrees for b in degrees]
    assert found["gini"] == pytest.approx(np.mean(pairs) / (2 * np.mean(degrees)))
    assert found["skewness"] == pytest.approx(scipy.stats.skew(degrees))
    assert found["largest"] == 4 and found["never_chosen"] == pytest.approx(2 / 5)
    assert in_degrees(np.array([[1], [2], [0]])) == {"skewness": None, "largest": 1, "never_chosen": 0.0, "gini": 0.0}
    assert in_degrees(np.full((3, 2), -1)) == {"skewness": None, "largest": 0, "never_chosen": 1.0, "gini": None}
