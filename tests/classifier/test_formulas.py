"""Every formula of the classifier against slow, obvious loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import methods_under_test as suite
from naq import Graph
from naq.classifier import FewShotNodeClassifier, confidence
from naq.classifier.confidence import (
    GRID,
    belongs_nowhere,
    class_shares,
    expected_accuracy,
    fitted_temperature,
    measured,
    otsu_threshold,
    parting_threshold,
    prediction_sets,
    prior_temperature,
    shipped,
    widened,
)
from naq.classifier.extend import least_squares
from naq.classifier.page import write_report
from naq.classifier.prototypes import (
    BLOCK,
    ROUNDS,
    SAMPLE,
    SHARPNESS,
    centred_units,
    helping_nodes,
    probabilities,
    solve,
)
from naq.classifier.suggest import medoids, suggested
from naq.classifier.table import LEAST_TELLING, nearest_labels, telling_words, write_predictions
from naq.embedders import naq_plus
from naq.errors import OptionError
from naq.graph.weighting import tfidf


def units_of(n: int = 80, d: int = 6, seed: int = 0) -> np.ndarray:
    return centred_units(np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32))


def length_one(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)


def slow_prototypes(units: np.ndarray, support: list[int], slots: list[int], count: int, weight: float) -> np.ndarray:
    z = units.astype(np.float64)
    anchors = [sum(z[i] for i, c in zip(support, slots) if c == slot) for slot in range(count)]
    helped = [np.zeros(z.shape[1]) for _ in range(count)]
    for _ in range(ROUNDS):
        now = [length_one(a + weight * m) for a, m in zip(anchors, helped)]
        total = [np.zeros(z.shape[1]) for _ in range(count)]
        for q in range(len(z)):
            if q in support:
                continue
            mass = np.exp([z[q] @ p / SHARPNESS for p in now])
            for slot, share in enumerate(mass / mass.sum()):
                total[slot] += share * z[q]
        helped = [length_one(t) for t in total]
    return np.array([length_one(a + weight * m) for a, m in zip(anchors, helped)])


@pytest.mark.parametrize("weight", (0.0, 1.0, 3.0))
def test_prototypes_are_the_formula(weight: float) -> None:
    units, support, slots = units_of(), [3, 9, 10, 40, 41, 77], [0, 0, 2, 1, 1, 1]
    found = solve(units, np.array(support), np.array(slots), 3, weight)
    slow = slow_prototypes(units, support, slots, 3, weight)
    np.testing.assert_allclose(found.cosines, units @ slow.T, atol=1e-5)
    assert found.alone.tolist() == [False, False, True, False, False, False]


def test_left_out_is_the_cosine_without_the_node_itself() -> None:
    units, support, slots = units_of(), np.array([3, 9, 10, 40]), np.array([0, 0, 1, 1])
    found = solve(units, support, slots, 2, 0.0)
    np.testing.assert_allclose(found.left_out[0, 0], units[3] @ units[9], atol=1e-6)
    np.testing.assert_allclose(found.left_out[3, 1], units[40] @ units[10], atol=1e-6)
    np.testing.assert_allclose(found.left_out[0, 1], found.cosines[3, 1], atol=1e-6)


def test_many_nodes_help_by_a_sample_that_is_always_the_same() -> None:
    support = np.array([5, 7])
    assert helping_nodes(10, support).tolist() == [0, 1, 2, 3, 4, 6, 8, 9]
    many = helping_nodes(SAMPLE + 500, support)
    np.testing.assert_array_equal(many, helping_nodes(SAMPLE + 500, support))
    assert SAMPLE - 2 <= len(many) <= SAMPLE and not np.isin(support, many).any()


@pytest.mark.parametrize("cores", (1, 3))
def test_blocks_of_any_number_of_threads_are_the_plain_product(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    units, support, slots = units_of(n=2 * BLOCK + 77), np.array([3, 9, BLOCK + 5, 4000]), np.array([0, 0, 1, 2])
    once = solve(units, support, slots, 3, 1.0)
    monkeypatch.setattr("naq.classifier.prototypes.available_cores", lambda: cores)
    again = solve(units, support, slots, 3, 1.0)
    np.testing.assert_array_equal(once.cosines, again.cosines)
    helpers = units.astype(np.float64)[np.setdiff1d(np.arange(len(units)), support)]
    anchors = np.array([units[support[slots == c]].astype(np.float64).sum(axis=0) for c in range(3)])
    now = anchors / np.linalg.norm(anchors, axis=1, keepdims=True)
    for _ in range(ROUNDS):
        mass = np.exp(helpers @ now.T / SHARPNESS)
        total = (mass / mass.sum(axis=1, keepdims=True)).T @ helpers
        now = anchors + total / np.linalg.norm(total, axis=1, keepdims=True)
        now /= np.linalg.norm(now, axis=1, keepdims=True)
    np.testing.assert_allclose(again.cosines, units @ now.T, atol=1e-4)
    chances = probabilities(again.cosines, 0.2)
    mass = np.exp(again.cosines.astype(np.float64) / 0.2)
    np.testing.assert_allclose(chances, mass / mass.sum(axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("labels", (12, 60))
def test_temperature_is_the_most_likely_under_the_prior(labels: int) -> None:
    units, support, slots = units_of(), np.arange(labels), np.arange(labels) % 3
    slots[:2] = 0  # unequal numbers
    found = solve(units, support, slots, 3, 1.0)
    centre = prior_temperature(labels / 3)
    mass = np.exp(found.cosines.astype(np.float64) / centre)
    share = (mass / mass.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(class_shares(found.cosines, centre), share, atol=1e-6)
    weights = [share[c] * labels / sum(share[other] for other in slots) for c in slots]
    losses = []
    for t in GRID:
        loss = (np.log(t) - np.log(centre)) ** 2 / (2 * confidence.SPREAD**2)
        for row, own, weight in zip(found.left_out, slots, weights):
            loss -= weight * np.log(np.exp(row[own] / t) / np.exp(row / t).sum())
        losses.append(loss)
    answer = fitted_temperature(found, slots)
    assert answer.origin == "leave-one-out"
    assert losses[int(np.flatnonzero(answer.value == GRID)[0])] <= min(losses) + 1e-6


def test_one_label_per_class_has_the_temperature_of_the_prior() -> None:
    slots = np.arange(3)
    answer = fitted_temperature(solve(units_of(), np.array([1, 2, 3]), slots, 3, 1.0), slots)
    assert (answer.value, answer.origin) == (prior_temperature(1), "prior")


def test_sets_are_the_smallest_that_hold_the_level() -> None:
    random = np.random.default_rng(1)
    chances = random.dirichlet(np.ones(4) * 0.7, 500).astype(np.float32)
    for level in (0.9, 0.99):
        sets = prediction_sets(chances, level, 5.0)
        held = widened(level, float(shipped("sets", 5.0)[0]))
        assert sets[np.arange(500), chances.argmax(axis=1)].all()
        threshold = chances[sets & (chances < chances.max(axis=1, keepdims=True))].min(initial=1.0)
        assert chances[chances >= threshold].sum() >= held * 500 - 1e-3
        assert chances[chances > threshold].sum() < held * 500
        truth = np.array([random.choice(4, p=row / row.sum()) for row in chances.astype(float)])
        assert abs(sets[np.arange(500), truth].mean() - max(held, chances.max(axis=1).mean())) < 0.06
    with pytest.raises(OptionError, match="level"):
        prediction_sets(chances, 1.0, 5.0)


def test_few_labels_have_wider_sets_and_intervals() -> None:
    chances = np.random.default_rng(2).dirichlet(np.ones(6) * 0.5, 300).astype(np.float32)
    one, ten = (prediction_sets(chances, 0.9, count).sum() for count in (1.0, 10.0))
    assert one > ten
    assert np.diff(shipped("interval", 1.0))[0] > np.diff(shipped("interval", 10.0))[0]


def test_what_ships_is_read_between_measured_numbers_of_labels() -> None:
    table = measured()
    for place, shot in enumerate(table["shots"]):
        assert shipped("temperature", shot).tolist() == [table["temperature"][place]]
        assert shipped("interval", shot).tolist() == table["interval"][place]
    middle = shipped("interval", np.sqrt(2.0 * 5.0))
    np.testing.assert_allclose(middle, np.mean(table["interval"][1:3], axis=0))
    assert shipped("sets", 1000.0).tolist() == [table["sets"][-1]]


def test_expected_accuracy_is_the_mean_confidence() -> None:
    chances = np.array([[0.7, 0.3], [0.1, 0.9]], dtype=np.float32)
    answer = expected_accuracy(chances, 1.0)
    below, above = shipped("interval", 1.0)
    assert answer.value == pytest.approx(0.8)
    assert answer.low == pytest.approx(0.8 + below) and answer.high == pytest.approx(min(1.0, 0.8 + above))
    bare = expected_accuracy(chances, 1.0, bare=True)
    assert bare.low < answer.low and bare.low == pytest.approx(max(0.0, 0.8 + shipped("bare_interval", 1.0)[0]))
    with pytest.raises(OptionError, match="every node"):
        expected_accuracy(chances[:0], 1.0)


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
    import scipy.sparse as sp

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
    units = units_of()
    support, slots = np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1])
    predicted = np.arange(80) % 2
    found = nearest_labels(units, predicted, support, slots)
    for node in range(80):
        labelled = [i for i, c in zip(support, slots) if c == predicted[node] and i != node]
        assert found[node] == max(labelled, key=lambda i: units[node] @ units[i])


def test_telling_words_are_the_formula() -> None:
    import scipy.sparse as sp

    random = np.random.default_rng(0)
    counts = sp.csr_array((random.random((30, 8)) < 0.4) * random.integers(1, 4, (30, 8)))
    graph = Graph([[0], [1]], counts, nodes=30, vocab=[f"w{j}" for j in range(8)])
    predicted = random.integers(0, 3, 30)
    found = telling_words(graph, predicted, 3)
    x = tfidf(graph.features).toarray().astype(float)
    for node in range(30):
        told = x[node] * (x[predicted == predicted[node]].mean(axis=0) - x.mean(axis=0))
        least = LEAST_TELLING * max(told.max(), 0)
        best = [j for j in np.argsort(-told, kind="stable")[:3] if told[j] > least + 1e-7]
        assert found[node][: len(best)] == [f"w{j}" for j in best]
        assert all(told[int(word[1:])] > least - 1e-7 for word in found[node])
    assert telling_words(Graph([[0], [1]], counts, nodes=30), predicted, 3) == [[]] * 30
    beside = sp.hstack([counts[:, :3], random.standard_normal((30, 2)), counts[:, 3:]])
    names = ["w0", "w1", "w2", "size", "age", *(f"w{j}" for j in range(3, 8))]
    assert telling_words(Graph([[0], [1]], sp.csr_array(beside), nodes=30, vocab=names), predicted, 3) == found


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
    chances = np.full((100, 2), 0.5)
    second = suggested(units, 20, first, chances, 0)
    assert len(set(second.tolist())) == 20 and not np.isin(second, first).any()
    everything = suggested(units, 96, first, chances, 0)
    assert sorted([*everything.tolist(), *first.tolist()]) == list(range(100))
    with pytest.raises(OptionError, match="only 96 nodes"):
        suggested(units, 97, first, chances, 0)


def test_a_prediction_is_computed_once_and_its_sets_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph, asked = suite.community_graph(size=24), []
    fitted = FewShotNodeClassifier().fit(graph, {0: "a", 1: "a", 30: "b", 31: "b"})
    for name in ("solve", "prediction_sets"):
        whole = getattr(confidence, name)
        monkeypatch.setattr(
            confidence, name, lambda *given, name=name, whole=whole: asked.append(name) or whole(*given)
        )
    write_predictions(fitted, tmp_path / "p.csv", 0.8)
    write_report(fitted, tmp_path / "p.html", 0.8)
    assert fitted.prediction_sets(level=0.8) is fitted.prediction_sets(level=0.8) and fitted.expected_accuracy()
    assert asked == ["solve", "prediction_sets"]
