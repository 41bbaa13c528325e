"""What stands beside the prediction, against slow, obvious loops: thresholds, later nodes, tables, suggestions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import methods_under_test as suite
from naq import Graph
from naq.classifier import FewShotNodeClassifier, Labels, confidence, estimator
from naq.classifier.confidence import belongs_nowhere, otsu_threshold, parting_threshold
from naq.classifier.extend import least_squares
from naq.classifier.page import write_report
from naq.classifier.prototypes import centred_units
from naq.classifier.suggest import medoids, suggested
from naq.classifier.table import LEAST, LIFT, nearest_labels, supporting_words, write_predictions
from naq.embedders import naq_plus
from naq.errors import OptionError
from naq.graph.weighting import tfidf


def test_otsu_divides_two_groups() -> None:
    random = np.random.default_rng(0)
    low, high = random.normal(0.2, 0.05, 300), random.normal(0.7, 0.05, 200)
    assert low.max() < otsu_threshold(np.concatenate([low, high])) < high.min()
    nearest, second = np.concatenate([low, high]), random.normal(0.15, 0.05, 500)
    nowhere = belongs_nowhere(np.stack([nearest, second], axis=1), np.array([0]))
    assert not nowhere[0] and not nowhere[300:].any() and nowhere[1:300].mean() > 0.9


def test_the_parting_threshold_is_the_best_of_all_edges() -> None:
    random = np.random.default_rng(0)
    low, high = random.normal(0.2, 0.1, 400), random.normal(0.5, 0.1, 400)
    found = parting_threshold(low, high)
    wrong = [(low >= t).sum() + (high < t).sum() for t in np.linspace(-0.2, 0.9, 2000)]
    assert (low >= found).sum() + (high < found).sum() <= min(wrong) + 3


@pytest.mark.parametrize("sparse", (False, True))
def test_least_squares(sparse: bool) -> None:
    random = np.random.default_rng(0)
    words = (np.eye(60, 12) * 3 + 0.1 * random.standard_normal((60, 12))).astype(np.float32)
    true = random.standard_normal((12, 4)).astype(np.float32)
    found = least_squares(sp.csr_array(words) if sparse else words, words @ true)
    np.testing.assert_allclose(found, true, atol=1e-4)


def test_many_nodes_seek_neighbours_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many nodes, the scatter is that of neighbours among some of them."""
    graph = suite.community_graph(size=120)
    whole = FewShotNodeClassifier().fit(graph)
    monkeypatch.setattr("naq.classifier.estimator.MOST_PAIRED", graph.num_nodes // 2)
    part = FewShotNodeClassifier().fit(graph)
    expected = naq_plus.NaqPlus(graph).closed_form(sample=graph.num_nodes // 2)
    np.testing.assert_array_equal(part.vectors_, expected.fit_transform(naq_plus.NaqPlus(graph).smoothed()))
    assert not np.array_equal(whole.vectors_, part.vectors_)
    assert np.abs(whole.vectors_ @ whole.vectors_.T - part.vectors_ @ part.vectors_.T).mean() < 0.05


def test_nearest_label_is_of_the_class_and_not_the_node_itself() -> None:
    units = centred_units(np.random.default_rng(0).standard_normal((80, 6)).astype(np.float32))
    labels, predicted = Labels.of([0, 1, 2, 3, 4], ["a", "a", "b", "b", "c"]), np.arange(80) % 4
    labels = labels.with_classes(np.array(["a", "b", "c", "d"]))  # d has no label
    found = nearest_labels(units, predicted, labels)
    for node in range(80):
        same = [i for i, c in zip(labels.nodes, labels.class_index) if c == predicted[node]]
        others = [i for i in same if i != node] or same
        assert found[node] == max(others, key=lambda i: units[node] @ units[i], default=-1)


def test_supporting_words_are_the_formula() -> None:
    random = np.random.default_rng(0)
    predicted = random.integers(0, 3, 30)
    often = 0.2 + 0.6 * (np.arange(8) % 4 == predicted[:, None])
    counts = sp.csr_array((random.random((30, 8)) < often) * random.integers(1, 4, (30, 8)))
    edges = random.integers(0, 30, (2, 60))
    graph = Graph(edges, counts, nodes=30, vocab=[f"w{j}" for j in range(8)])
    found = supporting_words(graph, predicted, 3, most=2)
    x, near = tfidf(graph.features).toarray().astype(float), graph.adjacency.toarray()
    near = near / np.maximum(near.sum(axis=1, keepdims=True), 1) @ x
    named = 0
    for node in range(30):
        mine = x[predicted == predicted[node]]
        profile = mine.mean(axis=0) - x.mean(axis=0)
        least = min(LIFT, (1 + 30 / len(mine)) / 2) * (x > 0).mean(axis=0)
        assert np.abs((mine > 0).mean(axis=0) - least).min() > 1e-6
        profile[(mine > 0).mean(axis=0) < least] = 0
        for rows, words in zip((x, near), found[node], strict=True):
            told = rows[node] * profile
            enough = LEAST * max(told.max(), 0)
            best = sorted((-t, j) for j, t in enumerate(told) if t > enough)[:2]
            assert words == [f"w{j}" for _, j in best]
            named += len(words)
    assert named > 30
    assert supporting_words(Graph(edges, counts, nodes=30), predicted, 3) == [([], [])] * 30
    beside = sp.hstack([counts[:, :3], random.standard_normal((30, 2)), counts[:, 3:]])
    names = ["w0", "w1", "w2", "size", "age", *(f"w{j}" for j in range(3, 8))]
    wider = Graph(edges, sp.csr_array(beside), nodes=30, vocab=names)
    assert supporting_words(wider, predicted, 3, most=2) == found


def test_suggestions_are_medoids_then_differ_from_the_labelled() -> None:
    middle = np.eye(4, dtype=np.float32)
    random = np.random.default_rng(0)
    rows = np.repeat(middle, [40, 30, 20, 10], axis=0) + 0.05 * random.standard_normal((100, 4)).astype(np.float32)
    units = centred_units(rows)
    nodes, home = medoids(units, 4, 0)
    for cluster, node in enumerate(nodes):
        members = np.flatnonzero(home == cluster)
        assert node in members
        centre = units[members].mean(axis=0)
        assert units[node] @ centre >= (units[members] @ centre).max() - 1e-3
    assert (np.diff(np.bincount(home)) <= 0).all()
    first = suggested(units, 4, np.empty(0, int), None, 0)
    np.testing.assert_array_equal(first, nodes)
    even = np.ones(100)
    second = suggested(units, 20, first, even, 0)
    assert len(set(second.tolist())) == 20 and not np.isin(second, first).any()
    everything = suggested(units, 96, first, even, 0)
    assert sorted([*everything.tolist(), *first.tolist()]) == list(range(100))
    with pytest.raises(OptionError, match="only 96 nodes"):
        suggested(units, 97, first, even, 0)


def test_a_prediction_is_computed_once_and_its_sets_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph, asked = suite.community_graph(size=24), []
    fitted = FewShotNodeClassifier().fit(graph, {0: "a", 1: "a", 30: "b", 31: "b"})
    whole, threshold = estimator.predict, confidence.Prediction._threshold
    monkeypatch.setattr(estimator, "predict", lambda *a, **k: asked.append("predict") or whole(*a, **k))
    monkeypatch.setattr(
        confidence.Prediction, "_threshold", lambda self, level: asked.append(level) or threshold(self, level)
    )
    write_predictions(fitted, tmp_path / "p.csv", 0.8)
    write_report(fitted, tmp_path / "p.html", 0.8)
    assert fitted.prediction_sets(level=0.8) is fitted.prediction_sets(level=0.8) and fitted.expected_accuracy()
    assert fitted.suggest(3).tolist() and fitted.explain_choice_ and asked == ["predict", 0.8]
