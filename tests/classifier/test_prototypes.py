"""Class means helped by nodes without a label, against slow loops, and left out in folds."""

from __future__ import annotations

import numpy as np
import pytest

from naq.classifier import prototypes as module
from naq.classifier.pool import log_softmax
from naq.classifier.prototypes import FOLDS, SAMPLE, centred_units, class_means, folds, helping_nodes
from naq.classifier.views import View
from naq.unit_rows import unit_rows

NODES, OWN = np.array([3, 9, 10, 40, 41, 52, 60, 77, 79]), np.array([0, 0, 2, 1, 1, 1, 1, 1, 1])
COUNTED, SHARES = OWN != 2, np.full(3, 1 / 3)


def view_of(n: int = 80, d: int = 6, seed: int = 0) -> View:
    units = centred_units(np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32))
    return View("naq-plus", units, True, True)


def slow_means(z: np.ndarray, nodes: np.ndarray, own: np.ndarray, weight: float, known: np.ndarray) -> np.ndarray:
    """Means of labels ``nodes``; no node of ``known`` helps."""
    z = z.astype(np.float64)
    anchors, helped = np.eye(3)[own].T @ z[nodes], 0 * z[:3]
    for _ in range(module.ROUNDS):
        now, total = unit_rows(anchors + weight * helped), 0 * z[:3]
        for q in set(range(len(z))) - set(known.tolist()):
            mass = np.exp(now @ z[q] / module.SHARPNESS)
            total += np.outer(mass / mass.sum(), z[q])
        helped = unit_rows(total)
    return unit_rows(anchors + weight * helped)


def left_cosines(z: np.ndarray, weight: float) -> np.ndarray:
    """(labels, classes) with the means that are found without the label's fold, or with all if it is the only one of its class."""
    left, fold = z[NODES] @ slow_means(z, NODES, OWN, weight, NODES).T, folds(OWN)
    for i in np.flatnonzero(COUNTED):
        rest = (fold != fold[i]) | ~COUNTED
        left[i] = slow_means(z, NODES[rest], OWN[rest], weight, NODES) @ z[NODES[i]]
    return np.asarray(left)


@pytest.mark.parametrize("weight", (0.0, 1.0, 3.0))
def test_means_left_out_cosines_and_temperature_are_the_formula(weight: float) -> None:
    view, tried = view_of(), module.TEMPERATURES
    expert, left = class_means(view, NODES, OWN, SHARES, COUNTED, weight), left_cosines(view.rows, weight)
    losses = np.array([-log_softmax(left / t)[np.arange(len(OWN)), OWN] * COUNTED for t in tried])
    total = losses.sum(axis=1) + np.log(tried / module.USUAL) ** 2 / (2 * module.SPREAD**2)
    t, others = tried[total.argmin()], tried[(total[:, None] - losses).argmin(axis=0)]
    np.testing.assert_allclose(expert.left_out, log_softmax(left / t), atol=1e-4)
    np.testing.assert_allclose(expert.unseen, log_softmax(left / others[:, None]), atol=1e-4)
    cosines = view.rows @ slow_means(view.rows, NODES, OWN, weight, NODES).T
    np.testing.assert_allclose(log_softmax(expert.scores(np.arange(80))), log_softmax(cosines / t), atol=1e-3)


def test_folds_leave_every_class_a_label() -> None:
    own = np.random.default_rng(1).permutation(np.repeat(np.arange(6), [2, 3, 5, 9, 20, 40]))
    for one in range(6):
        sizes = np.bincount(folds(own)[own == one], minlength=FOLDS)
        assert sizes.max() - sizes.min() <= 1 and sizes.max() < sizes.sum()


def test_a_left_out_label_may_be_of_any_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said about it does not change with the class that it was given, but for the one temperature of all."""
    view, nodes = view_of(300, 8), np.arange(24)
    monkeypatch.setattr(module, "folds", lambda index: nodes % FOLDS)
    for i in (0, 7, 23):
        own = [np.where(nodes == i, given, nodes % 3) for given in range(3)]
        logs = np.array([class_means(view, nodes, one, SHARES, nodes >= 0).left_out[i] for one in own])
        said = unit_rows(logs - logs.mean(axis=1, keepdims=True))
        np.testing.assert_allclose(said[1:], said[[0, 0]], atol=1e-4)


def test_what_is_beside_labels_counts_and_alone_knows_no_label() -> None:
    view, beside = view_of(), 2 * np.eye(3, 6)
    for alone in (False, True):
        expert = class_means(view, NODES, OWN, SHARES, COUNTED, 0.0, beside, alone=alone)
        means = beside if alone else beside + np.eye(3)[OWN].T @ view.rows[NODES]
        np.testing.assert_allclose(unit_rows(expert.weights.T), unit_rows(means), atol=1e-6)
    np.testing.assert_allclose(expert.left_out, log_softmax(expert.scores(NODES)), atol=1e-4)
    assert expert.seen == "names"


def test_many_nodes_help_by_a_sample_that_is_always_the_same() -> None:
    support = np.array([5, 7])
    assert helping_nodes(10, support).tolist() == [0, 1, 2, 3, 4, 6, 8, 9]
    many = helping_nodes(SAMPLE + 500, support)
    np.testing.assert_array_equal(many, helping_nodes(SAMPLE + 500, support))
    assert SAMPLE - 2 <= len(many) <= SAMPLE and not np.isin(support, many).any()
