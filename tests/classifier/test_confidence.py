"""What an answer is worth, told by labels left out, on planted graphs; labels and features that are odd."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from naq import Graph
from naq.classifier import FewShotNodeClassifier, Labels
from naq.classifier.confidence import (
    AGREEMENT,
    class_shares,
    edges_do_not_help,
    leave_one_out_weights,
    otsu_threshold,
    outside_known_classes,
    parting_threshold,
)
from naq.classifier.page import verdicts
from naq.classifier.prediction import FLOOR, MASS, NARROW, Prediction
from naq.errors import OptionError

NODES, CLASSES, NAMES = 900, 3, np.array(["a", "b", "c"])


class Planted:
    """Features tell classes in part; edges lead from a class to the next but ``shift``, or anywhere."""

    def __init__(self, tell: float, others: float, shift: int = 0, odd: str = "") -> None:
        random = np.random.default_rng(0)
        self.truth = random.integers(CLASSES, size=NODES)
        x = random.standard_normal((NODES, 40)) + tell * random.standard_normal((CLASSES, 40))[self.truth]
        if odd == "outliers":
            x[::50, 3] = 1e9
        elif odd == "a column that is the class":
            x = np.concatenate([x[:, :6], self.truth[:, None]], axis=1)
        elif odd:
            x[:] = {"constant": 3.0, "empty": 0.0}[odd]
        ends = random.integers(NODES, size=(2, 12 * NODES))
        kept = ((self.truth[ends[0]] + shift) % CLASSES == self.truth[ends[1]]) | (random.random(12 * NODES) < others)
        self.fitted = FewShotNodeClassifier().fit(Graph(ends[:, kept], x, nodes=NODES))

    def labelled(self, count: int, seed: int = 0) -> np.ndarray:
        random = np.random.default_rng([seed, count])
        each = (np.flatnonzero(self.truth == c) for c in range(CLASSES))
        return np.concatenate([random.choice(nodes, count, replace=False) for nodes in each])

    def ask(self, nodes: np.ndarray, own: np.ndarray | None = None) -> Prediction:
        return self.fitted.prediction(support=nodes, labels=NAMES[self.truth[nodes] if own is None else own])

    def accuracy(self, found: Prediction) -> float:
        return float((found.predicted == NAMES[self.truth])[found.free].mean())


@pytest.fixture(scope="module")
def easy() -> Planted:
    return Planted(0.4, 0.25)


@pytest.fixture(scope="module")
def hard() -> Planted:
    """Neighbours are of other classes."""
    return Planted(0.3, 0.1, shift=1)


def test_more_labels_are_better_and_promised_to_be(hard: Planted) -> None:
    """Over six draws: what is expected is near the truth, intervals and 90 % sets hold about as often as they say."""
    rows = []
    for count in (1, 5, 30):
        for seed in range(6):
            found = hard.ask(hard.labelled(count, seed))
            e, held = found.expected, found.sets(0.9)[found.free, hard.truth[found.free]].mean()
            rows.append((hard.accuracy(found), e.value, e.low, e.high, held))
    true, value, low, high, held = np.array(rows).reshape(3, 6, 5).transpose(2, 0, 1)
    right, wide, off = true.mean(axis=1), (high - low).mean(axis=1), np.abs(value - true).mean(axis=1)
    assert (np.diff(right) > 0).all() and right[2] > 0.88 and (np.diff(wide) < 0).all()
    assert off[2] < 0.05 and off[1] < 0.2 and ((low <= true) & (true <= high)).mean() > 0.8
    assert 0.86 <= held.mean() <= 0.98


def test_the_value_is_the_mean_confidence_and_the_interval_that_of_its_labels(hard: Planted) -> None:
    for count, m in ((1, AGREEMENT), (10, 30)):
        found = hard.ask(hard.labelled(count))
        expected, sure, named = found.expected, found.probabilities.max(axis=1), found.probabilities.argmax(axis=1)
        assert expected.value == pytest.approx(sure[found.free].mean(), abs=2e-3)
        b = (m * expected.value + 2) / (m + 4)
        reach = NARROW * np.sqrt(b * (1 - b) / (m + 4) + FLOOR**2)
        wanted = max(0, expected.value - reach), min(1, expected.value + reach)
        assert (expected.low, expected.high) == pytest.approx(wanted)
        for place, one in enumerate(found.expected_by_class()):
            mine = found.free[named[found.free] == place]
            assert one is not None and one.value == pytest.approx(sure[mine].mean(), abs=1e-5)


def test_sets_hold_classes_above_the_highest_threshold_that_holds_enough(hard: Planted) -> None:
    found = hard.ask(hard.labelled(5))
    likeliest = np.eye(CLASSES, dtype=bool)[found.probabilities.argmax(axis=1)]
    some, own, left = found.probabilities[found.free].astype(float), found.labels.class_index, found.leave_one_out
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


def test_left_out_labels_without_meaning_are_told_by_chance(easy: Planted) -> None:
    hits, guessed = [], []
    for seed in range(8):
        random = np.random.default_rng(seed)
        nodes, own = random.choice(NODES, 60, replace=False), random.permutation(np.repeat(np.arange(CLASSES), 20))
        found = easy.ask(nodes, own)
        hits.append((found.leave_one_out.argmax(axis=1) == found.labels.class_index).mean())
        guessed.append(found.no_better_than_guessing())
        assert found.expected.low < 0.45
    assert np.mean(hits) < 0.46 and np.mean(guessed) > 0.4


def test_left_out_are_the_experts_without_the_label_with_weights_without_it(hard: Planted) -> None:
    found = hard.ask(hard.labelled(4))
    left, unseen = (np.stack([getattr(one, name) for one in found.experts]) for name in ("leave_one_out", "unseen"))
    each = leave_one_out_weights(left, found.labels.class_index, found.has_other_labels, found.weights)
    wanted, logs = np.einsum("iv,vic->ic", each, unseen), np.log(found.leave_one_out)
    wanted, logs = (x - x.mean(axis=1, keepdims=True) for x in (wanted, logs))
    theta = (wanted * logs).sum() / (wanted**2).sum()  # one exponent for all
    np.testing.assert_allclose(logs, theta * wanted, atol=1e-3)
    assert np.abs(each - found.weights).max() > 0.02


def test_before_a_label_can_be_left_out_class_means_decide(easy: Planted) -> None:
    found = easy.ask(easy.labelled(1, 3))
    assert not found.has_other_labels.any() and np.isnan(found.leave_one_out).all() and found.doubtful_labels() == []
    assert found.view_weights() == pytest.approx({"naq-plus": 7 / 8, "smooth": 1 / 8})
    total = sum(weight * e.scores(np.arange(NODES)) for e, weight in zip(found.experts[:2], (0.7, 0.1)))
    np.testing.assert_array_equal(total.argmax(axis=1), found.probabilities.argmax(axis=1))
    beside = next(expert for expert in found.experts if expert.name == "surroundings")
    agreed = found.experts[0].predicted(found.free) == beside.predicted(found.free)
    assert 0.5 < found.expected.value < 1 and found.expected.value == pytest.approx(agreed.mean())


def test_flipped_labels_are_doubted(easy: Planted) -> None:
    first, count, flipped = 0, 0, [3, 25, 47]
    for seed in range(6):
        nodes = easy.labelled(20, seed)
        own = easy.truth[nodes].copy()
        own[flipped] = (own[flipped] + 1) % CLASSES
        found = easy.ask(nodes, own)
        doubts = found.doubtful_labels()
        rows = found.leave_one_out[np.searchsorted(found.labels.nodes, [doubt.node for doubt in doubts])]
        np.testing.assert_allclose(rows.max(axis=1), [doubt.instead_probability for doubt in doubts])
        assert len(doubts) == (found.leave_one_out.argmax(axis=1) != found.labels.class_index).sum()
        odds = [doubt.given_probability / doubt.instead_probability for doubt in doubts]
        assert odds == sorted(odds) and odds[-1] < 1
        wrong = dict(zip(nodes[flipped], zip(NAMES[own[flipped]], NAMES[easy.truth[nodes[flipped]]])))
        first += doubts[0].node in wrong
        count += sum(wrong.get(doubt.node) == (doubt.given, doubt.instead) for doubt in doubts[:10])
        assert (found.transduction[nodes] == NAMES[own]).all() and (found.predicted[nodes] != NAMES[own]).any()
    assert first >= 5 and count >= 15


@pytest.mark.parametrize(("tell", "others", "useless"), ((1.5, 1.0, True), (0.4, 0.25, False)))
def test_edges_that_help_and_that_do_not(tell: float, others: float, useless: bool) -> None:
    graph = Planted(tell, others)
    found = graph.ask(graph.labelled(20))
    assert edges_do_not_help(found) == useless and not found.no_better_than_guessing()
    assert any("edges" in one for one in verdicts(found)) == useless


def test_shares_and_classes_that_no_label_has_met(easy: Planted) -> None:
    np.testing.assert_allclose(class_shares(np.array([4, 4])), 0.5)
    np.testing.assert_allclose(class_shares(np.array([9, 0])), [0.95, 0.05])
    found = easy.ask(easy.labelled(6)[:13])  # one label of the last class
    sure = found.probabilities[found.free].max(axis=1).mean()
    assert found.expected.value == pytest.approx(sure * (1 - 1 / 13), abs=3e-3)
    assert np.isnan(found.leave_one_out[~found.has_other_labels]).all() and found.has_other_labels.sum() == 12
    assert any("8 %" in one for one in verdicts(found))


def test_order_of_labels_and_names_of_classes_change_nothing(easy: Planted) -> None:
    nodes, numbers = easy.labelled(4)[1:], np.array([30, 10, 20])  # in another order when sorted
    before, again = easy.ask(nodes), easy.ask(nodes[::-1])
    np.testing.assert_array_equal(before.probabilities, again.probabilities)
    other = easy.fitted.prediction(Labels.of(nodes, numbers[easy.truth[nodes]].tolist()))
    np.testing.assert_allclose(other.probabilities[:, [2, 0, 1]], before.probabilities, atol=0.02)
    assert other.expected.value == pytest.approx(before.expected.value, abs=0.01)


def test_disagreement_and_deciding_views_are_those_of_the_experts(hard: Planted) -> None:
    everyone, found = np.arange(NODES), hard.ask(hard.labelled(3))
    votes, scores = np.zeros((NODES, CLASSES)), {}
    for expert, weight in zip(found.experts, found.weights / found.weights.sum()):
        mine = expert.scores(everyone)
        votes[everyone, mine.argmax(axis=1)] += weight * (weight > 0.01)
        scores[expert.source] = scores.get(expert.source, 0) + weight * mine
    apart = found.disagreement()
    np.testing.assert_allclose(apart, 1 - votes.max(axis=1), atol=1e-5)
    one, two = np.argsort(-found.probabilities, axis=1)[:, :2].T
    gains = {name: s[everyone, one] - s[everyone, two] for name, s in scores.items()}
    best = np.array([gains[name][i] for i, name in enumerate(found.deciding_views(one, two))])
    np.testing.assert_allclose(best, np.max(list(gains.values()), axis=0), atol=1e-3)
    asked = copy.copy(hard.fitted).set_labels(found.labels).suggest(20)
    assert not np.isin(asked, found.labels.nodes).any() and apart[asked[1::2]].mean() > apart.mean() > 0


@pytest.mark.parametrize("odd", ("outliers", "a column that is the class", "constant", "empty"))
def test_features_that_are_odd(odd: str) -> None:
    graph = Planted(0.4, 0.25, odd=odd)
    found = graph.ask(graph.labelled(20))
    right = graph.accuracy(found)
    assert right > {"outliers": 0.8, "a column that is the class": 0.98}.get(odd, 0.5)
    assert np.isfinite(found.probabilities).all() and abs(found.expected.value - right) < 0.15


def test_labels_that_are_odd(easy: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    for few in ({}, {0: "a"}, {0: "a", 1: "a"}):
        with pytest.raises(OptionError, match="classes"):
            easy.fitted.prediction(few)
    every = easy.ask(np.arange(NODES))
    assert (every.leave_one_out.argmax(axis=1) == easy.truth).mean() > 0.85 and every.sets(0.9).any(axis=1).all()
    with pytest.raises(OptionError, match="label"):
        _ = every.expected
    many = easy.fitted.prediction({node: node for node in range(300)})
    assert many.expected.value < 0.5 and (many.predicted[:300] == np.arange(300)).mean() > 0.9
    monkeypatch.setattr("naq.device.room", lambda: 1e8)
    with pytest.raises(OptionError, match="800 labels"):
        easy.fitted.prediction({node: node for node in range(800)})


def test_nodes_that_are_alike_with_labels_that_contradict_each_other() -> None:
    rows = np.random.default_rng(0).standard_normal((3, 12))[np.arange(90) % 3]
    alike = FewShotNodeClassifier().fit(Graph(np.empty((2, 0), int), rows, nodes=90))
    found = alike.prediction({i: i // 3 % 2 for i in range(36)})
    np.testing.assert_allclose(found.probabilities, 0.5, atol=0.1)
    assert found.no_better_than_guessing() and found.sets(0.9).mean() > 0.9


def test_thresholds_of_unknown_nodes() -> None:
    """Otsu's divides two groups, the parting one is the best of all edges, and labelled nodes are never outside."""
    random = np.random.default_rng(0)
    low, high, second = random.normal(0.2, 0.05, 300), random.normal(0.7, 0.05, 200), random.normal(0.15, 0.05, 500)
    nearest = np.concatenate([low, high])
    assert low.max() < otsu_threshold(nearest) < high.min()
    outside = outside_known_classes(np.stack([nearest, second], axis=1), np.array([0]))
    assert not outside[0] and not outside[300:].any() and outside[1:300].mean() > 0.9
    low, high = random.normal(0.2, 0.1, 400), random.normal(0.5, 0.1, 400)
    found = parting_threshold(low, high)
    wrong = [(low >= t).sum() + (high < t).sum() for t in np.linspace(-0.2, 0.9, 2000)]
    assert (low >= found).sum() + (high < found).sum() <= min(wrong) + 3
