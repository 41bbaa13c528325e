"""The stack and what its answer is worth, on graphs that are made up."""

import numpy as np
import pytest
import scipy.sparse as sp

from candidate.means import class_means, folds, helped_means, sums
from candidate.pool import Outside
from candidate.stack import LabelStack, class_shares
from candidate.trust import Trust
from candidate.views import View, centred, make_views
from naq.unit_rows import unit_rows

NODES, CLASSES = 900, 3


@pytest.fixture(scope="module")
def planted() -> tuple[list[View], np.ndarray]:
    """Classes that features tell in part and edges in part."""
    random = np.random.default_rng(0)
    truth = random.integers(CLASSES, size=NODES)
    features = random.standard_normal((NODES, 40)) + 0.4 * random.standard_normal((CLASSES, 40))[truth]
    ends = random.integers(NODES, size=(2, 12 * NODES))
    kept = (truth[ends[0]] == truth[ends[1]]) | (random.random(ends.shape[1]) < 0.25)
    ends = ends[:, kept & (ends[0] != ends[1])]
    one = sp.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(NODES, NODES))
    adjacency = sp.csr_array((one + one.T) > 0, dtype=np.float64)
    smoothed = centred(np.asarray(adjacency @ features + features, dtype=np.float32))
    return make_views(adjacency, [features], vectors=[View("naq-plus", smoothed, True, True)]), truth


def labelled(truth: np.ndarray, count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng([seed, count])
    return np.concatenate([random.choice(np.flatnonzero(truth == c), count, replace=False) for c in range(CLASSES)])


def test_more_labels_are_better_and_expected_to_be(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    right, expected = [], []
    for count in (1, 5, 30):
        nodes = labelled(truth, count, 0)
        stack = LabelStack(views).fit_labels(nodes, truth[nodes], CLASSES)
        rest = np.setdiff1d(np.arange(NODES), nodes)
        right.append((stack.predict_proba()[rest].argmax(axis=1) == truth[rest]).mean())
        expected.append(Trust(stack).expected_accuracy())
    assert right[0] < right[2] and right[2] > 0.9
    assert expected[2].high - expected[2].low < expected[0].high - expected[0].low
    assert expected[2].low <= right[2] <= expected[2].high


def test_sets_hold_as_often_as_asked(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    held = []
    for seed in range(8):
        nodes = labelled(truth, 8, seed)
        sets = Trust(LabelStack(views).fit_labels(nodes, truth[nodes], CLASSES)).prediction_sets(0.9)
        rest = np.setdiff1d(np.arange(NODES), nodes)
        held.append(sets[rest, truth[rest]].mean())
    assert 0.85 <= np.mean(held) <= 0.99


def test_left_out_probabilities_do_not_know_the_label(planted: tuple[list[View], np.ndarray]) -> None:
    """Labels without meaning are told no better than by chance."""
    views, _ = planted
    hits = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        nodes, slots = random.choice(NODES, 60, replace=False), random.permutation(np.repeat(np.arange(CLASSES), 20))
        stack = LabelStack(views).fit_labels(nodes, slots, CLASSES)
        hits.append((stack.left_out().argmax(axis=1) == slots).mean())
        trust = Trust(stack)
        assert trust.expected_accuracy().low < 0.45
    assert np.mean(hits) < 0.42


def test_at_one_label_the_class_means_decide(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    nodes = labelled(truth, 1, 3)
    stack = LabelStack(views).fit_labels(nodes, truth[nodes], CLASSES)
    first = stack.experts[0]
    alone = (first.view.rows @ first.weights).argmax(axis=1)
    np.testing.assert_array_equal(stack.predict_proba().argmax(axis=1), alone)
    assert stack.weights["class means of naq-plus"] == pytest.approx(1.0)


def test_flipped_labels_are_doubted(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    nodes = labelled(truth, 20, 1)
    slots = truth[nodes].copy()
    wrong = np.array([3, 25, 47])
    slots[wrong] = (slots[wrong] + 1) % CLASSES
    doubts = Trust(LabelStack(views).fit_labels(nodes, slots, CLASSES)).doubtful_labels()
    found = [doubt for doubt in doubts[:5] if doubt.label in wrong]
    assert len(found) == 3 and doubts[0].label in wrong
    assert all(doubt.instead == truth[nodes[doubt.label]] and doubt.own < 0.5 for doubt in found)


def test_an_update_is_nearly_a_fit(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    nodes = labelled(truth, 10, 2)
    stack = LabelStack(views).fit_labels(nodes, truth[nodes], CLASSES)
    new = int(np.setdiff1d(np.arange(NODES), nodes)[0])
    found = stack.update(new, int(truth[new])).predict_proba()
    fresh = LabelStack(views).fit_labels(stack.nodes, stack.slots, CLASSES).predict_proba()
    assert len(stack.nodes) == len(nodes) + 1 and stack.nodes[-1] == new
    assert (found.argmax(axis=1) == fresh.argmax(axis=1)).mean() > 0.97


def test_an_update_may_bring_a_class_or_change_one(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    nodes = labelled(truth, 5, 4)
    stack = LabelStack(views).fit_labels(nodes, truth[nodes], CLASSES).update(int(nodes[0]), CLASSES)
    assert stack.predict_proba().shape == (NODES, CLASSES + 1)
    assert len(stack.nodes) == len(nodes) and stack.alone.sum() == 1


def test_an_outside_expert_that_is_right_is_followed(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    nodes = labelled(truth, 4, 5)
    scores = np.log(np.full((NODES, CLASSES), 0.01) + 0.97 * np.eye(CLASSES)[truth]).astype(np.float32)
    stack = LabelStack(views, [Outside("names", scores)]).fit_labels(nodes, truth[nodes], CLASSES)
    assert (stack.predict_proba().argmax(axis=1) == truth).mean() > 0.93
    assert stack.weights["names"] > 0.2


def test_edges_that_lead_anywhere_do_not_help() -> None:
    random = np.random.default_rng(1)
    truth = random.integers(CLASSES, size=600)
    features = random.standard_normal((600, 10)) + 2 * random.standard_normal((CLASSES, 10))[truth]
    ends = random.integers(600, size=(2, 3000))
    one = sp.csr_array((np.ones(3000), (ends[0], ends[1])), shape=(600, 600))
    nodes = labelled(truth, 20, 0)
    trust = Trust(
        LabelStack(make_views(sp.csr_array(one + one.T), [features])).fit_labels(nodes, truth[nodes], CLASSES)
    )
    assert trust.edges_do_not_help() and not trust.no_better_than_guessing()


def test_edges_that_tell_the_class_help(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    nodes = labelled(truth, 20, 0)
    assert not Trust(LabelStack(views).fit_labels(nodes, truth[nodes], CLASSES)).edges_do_not_help()


def test_classes_met_once_are_expected_to_be_missed(planted: tuple[list[View], np.ndarray]) -> None:
    views, truth = planted
    nodes = np.concatenate([labelled(truth, 10, 0), np.setdiff1d(np.arange(NODES), labelled(truth, 10, 0))[:5]])
    slots = np.concatenate([truth[nodes[:30]], np.arange(3, 8)])
    trust = Trust(LabelStack(views).fit_labels(nodes, slots, 8))
    assert trust.unseen == pytest.approx(5 / 35)
    assert trust.expected_accuracy().value < 1 - 5 / 35 + 1e-9


def test_folds_never_take_a_class_and_share_its_labels() -> None:
    slots = np.random.default_rng(0).integers(4, size=60)
    found = folds(slots)
    for c in range(4):
        counts = np.bincount(found[slots == c], minlength=5)
        assert np.ptp(counts) <= 1


def test_left_out_means_are_those_found_without_the_fold() -> None:
    random = np.random.default_rng(0)
    view = View("naq-plus", unit_rows(random.standard_normal((50, 8)).astype(np.float32)), True, True)
    nodes, slots = np.arange(12), np.repeat([0, 1], 6)
    found = class_means(view, nodes, slots, np.full(2, 0.5), np.ones(12))
    out = folds(slots) == 2
    anchors = sums(unit_rows(view.rows[nodes[~out]].astype(np.float64)), slots[~out], 2)
    means, _ = helped_means(anchors[None], view.rows[12:])
    scores = view.rows[nodes[out]] @ means[0].T / found.chosen[0]
    wanted = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.left_out[out], wanted, atol=1e-5)


def test_shares_are_those_of_labels_that_came_by_chance() -> None:
    np.testing.assert_allclose(class_shares(np.array([4, 4])), 0.5)
    np.testing.assert_allclose(class_shares(np.array([9, 0])), [0.95, 0.05])
