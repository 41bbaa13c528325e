"""What an answer is worth, told by labels left out, on planted graphs; labels and graphs that people get wrong."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from naq import Graph
from naq.classifier import FewShotNodeClassifier, Labels
from naq.classifier.confidence import AGREEMENT, MASS, ExpectedAccuracy, Prediction, class_shares
from naq.errors import OptionError

NODES, CLASSES = 900, 3
NAMES = np.array(["a", "b", "c"])


Fitted = tuple[FewShotNodeClassifier, np.ndarray]


def planted(tell: float, others: float, shift: int = 0) -> tuple[Graph, np.ndarray]:
    """Classes that features tell in part; edges lead to the next class but ``shift``, or anywhere."""
    random = np.random.default_rng(0)
    truth = random.integers(CLASSES, size=NODES)
    features = random.standard_normal((NODES, 40)) + tell * random.standard_normal((CLASSES, 40))[truth]
    ends = random.integers(NODES, size=(2, 12 * NODES))
    kept = ((truth[ends[0]] + shift) % CLASSES == truth[ends[1]]) | (random.random(ends.shape[1]) < others)
    return Graph(ends[:, kept], features, nodes=NODES), truth


@pytest.fixture(scope="module")
def easy() -> Fitted:
    """Neighbours share a class."""
    graph, truth = planted(0.4, 0.25)
    return FewShotNodeClassifier().fit(graph), truth


@pytest.fixture(scope="module")
def hard() -> Fitted:
    """Neighbours are of other classes."""
    graph, truth = planted(0.3, 0.1, shift=1)
    return FewShotNodeClassifier().fit(graph), truth


def labelled(truth: np.ndarray, count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng([seed, count])
    return np.concatenate([random.choice(np.flatnonzero(truth == c), count, replace=False) for c in range(CLASSES)])


def given(nodes: np.ndarray, classes: np.ndarray) -> Labels:
    return Labels.of(nodes, NAMES[classes].tolist())


def accuracy(found: Prediction, truth: np.ndarray) -> float:
    return float((found.probabilities[found.free].argmax(axis=1) == truth[found.free]).mean())


def test_more_labels_are_better_and_promised_to_be(hard: Fitted) -> None:
    """Over six draws the expected accuracy is right on average, intervals and 90 % sets hold about as often as they say."""
    classifier, truth = hard
    right, wide, off, inside, held = [], [], [], [], []
    for count in (1, 5, 30):
        each = []
        for seed in range(6):
            nodes = labelled(truth, count, seed)
            found = classifier.prediction(given(nodes, truth[nodes]))
            each.append((accuracy(found, truth), found.expected.value, found.expected.low, found.expected.high))
            held.append(found.sets(0.9)[found.free, truth[found.free]].mean())
        true, value, low, high = np.array(each).T
        right.append(true.mean())
        wide.append((high - low).mean())
        off.append(np.abs(value - true).mean())
        inside.append(((low <= true) & (true <= high)).mean())
    assert right[0] < right[1] < right[2] and right[2] > 0.9
    assert wide[0] > wide[1] > wide[2] and off[2] < 0.05 and off[1] < 0.2
    assert np.mean(inside) > 0.8 and 0.86 <= np.mean(held) <= 0.98


def test_the_value_is_the_mean_confidence_and_the_interval_that_of_its_labels(
    hard: Fitted,
) -> None:
    classifier, truth = hard
    for count in (1, 10):
        nodes = labelled(truth, count, 0)
        found = classifier.prediction(given(nodes, truth[nodes]))
        sure, expected = found.probabilities[found.free].max(axis=1), found.expected
        assert expected.value == pytest.approx(sure.mean(), abs=2e-3)
        m = len(nodes) if count > 1 else AGREEMENT
        b = (m * expected.value + 2) / (m + 4)
        assert b - expected.low <= expected.value - expected.low + b - expected.value + 1e-9
        reach = 1.8 * np.sqrt(b * (1 - b) / (m + 4))
        assert expected.low == pytest.approx(max(0, expected.value - reach))
        assert expected.high == pytest.approx(min(1, expected.value + reach))
        named = found.probabilities[found.free].argmax(axis=1)
        for place, one in enumerate(found.expected_by_class()):
            assert one is not None and one.value == pytest.approx(sure[named == place].mean(), abs=1e-5)
    assert ExpectedAccuracy.around(0.5, 100).high - ExpectedAccuracy.around(0.5, 10).high < 0


def test_sets_hold_classes_above_the_highest_threshold_that_holds_enough(hard: Fitted) -> None:
    classifier, truth = hard
    nodes = labelled(truth, 5, 0)
    found = classifier.prediction(given(nodes, truth[nodes]))
    likeliest = np.eye(CLASSES, dtype=bool)[found.probabilities.argmax(axis=1)]
    some, own, left = found.probabilities[found.free].astype(float), found.labels.class_index, found.left_out
    least = np.where(left.argmax(axis=1) == own, 1.0, left[np.arange(len(own)), own])
    for level in (0.5, 0.8, 0.9, 0.99):
        for threshold in np.sort(some, axis=None)[::-1]:
            mass = some[some >= threshold].sum() / len(some)
            if (MASS * mass + (least >= threshold).sum()) / (MASS + len(own)) >= level:
                break
        wanted = (found.probabilities >= threshold) | likeliest
        assert (wanted != found.sets(level)).mean() < 1e-3 and (wanted.mean() > 1 / CLASSES) == (level > 0.6)
    with pytest.raises(OptionError, match="level"):
        found.sets(1.0)


def test_left_out_labels_without_meaning_are_told_by_chance(easy: Fitted) -> None:
    classifier, hits, guessed = easy[0], [], []
    for seed in range(8):
        random = np.random.default_rng(seed)
        nodes, own = random.choice(NODES, 60, replace=False), random.permutation(np.repeat(np.arange(CLASSES), 20))
        found = classifier.prediction(given(nodes, own))
        hits.append((found.left_out.argmax(axis=1) == found.labels.class_index).mean())
        guessed.append(found.no_better_than_guessing())
        assert found.expected.low < 0.45
    assert np.mean(hits) < 0.46 and np.mean(guessed) > 0.4


def test_before_a_label_can_be_left_out_class_means_decide(easy: Fitted) -> None:
    classifier, truth = easy
    nodes = labelled(truth, 1, 3)
    found = classifier.prediction(given(nodes, truth[nodes]))
    assert not found.told.any() and np.isnan(found.left_out).all() and found.doubtful_labels() == []
    assert [e.name for e, w in zip(found.experts, found.weights) if w > 0] == [
        "class means of naq-plus",
        "class means of smooth",
    ]
    total = sum(e.scores(np.arange(NODES)) * w for e, w in zip(found.experts, found.weights))
    np.testing.assert_array_equal(total.argmax(axis=1), found.probabilities.argmax(axis=1))
    assert found.view_weights() == pytest.approx({"naq-plus": 7 / 8, "smooth": 1 / 8})


def test_flipped_labels_are_doubted(easy: Fitted) -> None:
    classifier, truth = easy
    first, found, flipped = 0, 0, [3, 25, 47]
    for seed in range(6):
        nodes = labelled(truth, 20, seed)
        own = truth[nodes].copy()
        own[flipped] = (own[flipped] + 1) % CLASSES
        doubts = copy.copy(classifier).set_labels(given(nodes, own)).doubtful_labels()
        odds = [doubt.given_probability / doubt.instead_probability for doubt in doubts]
        assert odds == sorted(odds) and odds[-1] < 1
        wrong = dict(zip(nodes[flipped], zip(NAMES[own[flipped]], NAMES[truth[nodes[flipped]]])))
        first += doubts[0].node in wrong
        found += sum(wrong.get(doubt.node) == (doubt.given, doubt.instead) for doubt in doubts[:10])
    assert first >= 5 and found >= 15


def test_edges_that_help_and_that_do_not() -> None:
    for tell, others, useless in ((1.5, 1.0, True), (0.4, 0.25, False)):
        graph, truth = planted(tell, others)
        nodes = labelled(truth, 20, 0)
        found = FewShotNodeClassifier().fit(graph).prediction(given(nodes, truth[nodes]))
        assert found.edges_do_not_help() == useless and not found.no_better_than_guessing()
        assert any("edges" in one for one in found.verdicts()) == useless


def test_shares_and_classes_that_no_label_has_met(easy: Fitted) -> None:
    np.testing.assert_allclose(class_shares(np.array([4, 4])), 0.5)
    np.testing.assert_allclose(class_shares(np.array([9, 0])), [0.95, 0.05])
    classifier, truth = easy
    nodes = labelled(truth, 6, 0)
    found = classifier.prediction(given(nodes[:13], truth[nodes[:13]]))  # one label of the last class
    sure = found.probabilities[found.free].max(axis=1).mean()
    assert found.expected.value == pytest.approx(sure * (1 - 1 / 13), abs=3e-3)
    assert np.isnan(found.left_out[~found.told]).all() and found.told.sum() == 12
    assert any("8 %" in one for one in found.verdicts())


def test_order_of_labels_and_names_of_classes_change_nothing(
    easy: Fitted,
) -> None:
    classifier, truth = easy
    nodes = labelled(truth, 4, 0)[1:]
    before = classifier.prediction(given(nodes, truth[nodes]))
    again = classifier.prediction(given(nodes[::-1], truth[nodes[::-1]]))
    np.testing.assert_array_equal(before.probabilities, again.probabilities)
    numbers = np.array([30, 10, 20])  # in another order when sorted
    other = classifier.prediction(Labels.of(nodes, numbers[truth[nodes]].tolist()))
    columns = np.argsort(np.argsort(numbers))
    np.testing.assert_allclose(other.probabilities[:, columns], before.probabilities, atol=0.02)
    same = other.predicted == numbers[before.probabilities.argmax(axis=1)]
    assert same.mean() > 0.99 and other.expected.value == pytest.approx(before.expected.value, abs=0.01)


def test_disagreement_and_deciding_views_are_those_of_the_experts(
    hard: Fitted,
) -> None:
    classifier, truth = hard
    nodes, everyone = labelled(truth, 3, 0), np.arange(NODES)
    found = classifier.prediction(given(nodes, truth[nodes]))
    share = found.weights / found.weights.sum()
    votes, scores = np.zeros((NODES, CLASSES)), {}
    for expert, weight in zip(found.experts, share):
        mine = expert.scores(everyone)
        if weight > 0.01:
            votes[everyone, mine.argmax(axis=1)] += weight
        scores[expert.seen] = scores.get(expert.seen, 0) + weight * mine
    np.testing.assert_allclose(found.disagreement(), 1 - votes.max(axis=1), atol=1e-5)
    assert found.disagreement().max() > 0.2
    order = np.argsort(-found.probabilities, axis=1)
    best = found.deciding_views(order[:, 0], order[:, 1])
    for node in range(0, NODES, 50):
        gain = {name: s[node, order[node, 0]] - s[node, order[node, 1]] for name, s in scores.items()}
        assert gain[best[node]] >= max(gain.values()) - 1e-3
    first = copy.copy(classifier).set_labels(found.labels).suggest(20)
    assert not np.isin(first, nodes).any() and found.disagreement()[first[1::2]].mean() > found.disagreement().mean()


def odd_graph(kind: str) -> tuple[Graph, np.ndarray]:
    graph, truth = planted(0.4, 0.25)
    features = np.array(graph.features)
    if kind == "outliers":
        features[::50, 3] = 1e9
    elif kind == "a column that is the label":
        features = np.concatenate([features[:, :6], truth[:, None]], axis=1)
    elif kind == "constant features":
        features[:] = 3.0
    elif kind == "empty features":
        features[:] = 0.0
    return Graph(graph.adjacency, features, nodes=NODES), truth


@pytest.mark.parametrize(
    ("kind", "least"),
    [("outliers", 0.8), ("a column that is the label", 0.98), ("constant features", 0.5), ("empty features", 0.5)],
)
def test_features_that_are_odd(kind: str, least: float) -> None:
    graph, truth = odd_graph(kind)
    nodes = labelled(truth, 20, 0)
    found = FewShotNodeClassifier().fit(graph).prediction(given(nodes, truth[nodes]))
    assert np.isfinite(found.probabilities).all() and accuracy(found, truth) > least
    assert abs(found.expected.value - accuracy(found, truth)) < 0.15


def test_labels_that_are_odd(easy: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier, truth = easy
    for few in ({}, {0: "a"}, {0: "a", 1: "a"}):
        with pytest.raises(OptionError, match="at least two classes"):
            classifier.prediction(few)
    with pytest.raises(OptionError, match="keep one of them"):
        classifier.prediction(support=[0, 1, 0], labels=["a", "b", "b"])
    every = classifier.prediction(given(np.arange(NODES), truth))
    assert accuracy_of_left_out(every) > 0.85 and (every.transduction == NAMES[truth]).all()
    assert np.isfinite(every.probabilities).all() and every.sets(0.9).any(axis=1).all()
    with pytest.raises(OptionError, match="every node has a label"):
        _ = every.expected
    many = classifier.prediction({node: f"class {node}" for node in range(300)})
    assert many.probabilities.shape == (NODES, 300) and np.isfinite(many.probabilities).all()
    assert many.expected.value < 0.5 and (many.predicted[:300] == [f"class {i}" for i in range(300)]).mean() > 0.9
    monkeypatch.setattr("naq.device.room", lambda: 1e8)
    with pytest.raises(OptionError, match=r"800 labels of 800 classes.* GB"):
        classifier.prediction({node: node for node in range(800)})


def accuracy_of_left_out(found: Prediction) -> float:
    return float((found.left_out.argmax(axis=1) == found.labels.class_index)[found.told].mean())


def test_nodes_that_are_alike_with_labels_that_contradict_each_other() -> None:
    random = np.random.default_rng(0)
    group = np.arange(90) % 3
    alike = Graph(np.empty((2, 0), int), random.standard_normal((3, 12))[group], nodes=90)
    found = FewShotNodeClassifier().fit(alike).prediction({i: ("a", "b")[i // 3 % 2] for i in range(36)})
    np.testing.assert_allclose(found.probabilities, 0.5, atol=0.1)
    assert found.no_better_than_guessing() and found.sets(0.9).mean() > 0.9
