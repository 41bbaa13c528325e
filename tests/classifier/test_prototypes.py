"""Class means helped by nodes without a label, against slow loops, and left out in folds."""

from __future__ import annotations

import numpy as np
import pytest

from naq.classifier import prototypes
from naq.classifier.pool import log_softmax
from naq.classifier.prototypes import (
    FOLDS,
    ROUNDS,
    SAMPLE,
    SHARPNESS,
    SPREAD,
    TEMPERATURES,
    USUAL,
    centred_units,
    class_means,
    folds,
    helping_nodes,
)
from naq.classifier.views import View

NODES, OWN = np.array([3, 9, 10, 40, 41, 52, 60, 77, 79]), np.array([0, 0, 2, 1, 1, 1, 1, 1, 1])
COUNTED = OWN != 2


def view_of(n: int = 80, d: int = 6, seed: int = 0) -> View:
    units = centred_units(np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32))
    return View("naq-plus", units, True, True)


def length_one(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)


def slow_means(units: np.ndarray, nodes: np.ndarray, own: np.ndarray, weight: float, known: np.ndarray) -> np.ndarray:
    """Means of labels ``nodes``; no node of ``known`` helps."""
    z = units.astype(np.float64)
    anchors = [sum(z[i] for i, c in zip(nodes, own) if c == one) for one in range(3)]
    helped = [np.zeros(z.shape[1]) for _ in anchors]
    for _ in range(ROUNDS):
        now = [length_one(a + weight * m) for a, m in zip(anchors, helped)]
        total = [np.zeros(z.shape[1]) for _ in anchors]
        for q in set(range(len(z))) - set(known.tolist()):
            mass = np.exp([z[q] @ p / SHARPNESS for p in now])
            for one, share in enumerate(mass / mass.sum()):
                total[one] += share * z[q]
        helped = [length_one(t) for t in total]
    return np.array([length_one(a + weight * m) for a, m in zip(anchors, helped)])


def left_cosines(units: np.ndarray, nodes: np.ndarray, own: np.ndarray, weight: float) -> np.ndarray:
    """(labels, classes) of labels with the means that are found without their fold; with all for the only one of a class."""
    left, fold = units[nodes] @ slow_means(units, nodes, own, weight, nodes).T, folds(own)
    for i in range(len(nodes)):
        if (own == own[i]).sum() > 1:
            rest = (fold != fold[i]) | ((own[:, None] == own).sum(axis=1) == 1)
            left[i] = units[nodes[i]] @ slow_means(units, nodes[rest], own[rest], weight, nodes).T
    return np.asarray(left)


@pytest.mark.parametrize("weight", (0.0, 1.0, 3.0))
def test_means_left_out_cosines_and_temperature_are_the_formula(weight: float) -> None:
    view, everyone = view_of(), np.arange(80)
    expert = class_means(view, NODES, OWN, np.full(3, 1 / 3), COUNTED, weight)
    left, place = left_cosines(view.rows, NODES, OWN, weight), np.arange(len(OWN))[COUNTED]
    losses = np.array([-log_softmax(left / t)[place, OWN[COUNTED]] for t in TEMPERATURES])
    total = losses.sum(axis=1) + np.log(TEMPERATURES / USUAL) ** 2 / (2 * SPREAD**2)
    t = TEMPERATURES[total.argmin()]
    np.testing.assert_allclose(expert.left_out, log_softmax(left / t), atol=1e-4)
    others = np.full(len(OWN), t)
    others[COUNTED] = TEMPERATURES[(total[:, None] - losses).argmin(axis=0)]
    np.testing.assert_allclose(expert.unseen, log_softmax(left / others[:, None]), atol=1e-4)
    cosines = view.rows @ slow_means(view.rows, NODES, OWN, weight, NODES).T
    np.testing.assert_allclose(log_softmax(expert.scores(everyone)), log_softmax(cosines / t), atol=1e-3)


def test_folds_leave_every_class_a_label() -> None:
    own = np.random.default_rng(1).permutation(np.repeat(np.arange(6), [2, 3, 5, 9, 20, 40]))
    found = folds(own)
    for one in range(6):
        sizes = np.bincount(found[own == one], minlength=FOLDS)
        assert sizes.max() - sizes.min() <= 1 and sizes.max() < sizes.sum()


def test_a_left_out_label_may_be_of_any_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said about it does not change with the class that it was given, but for the one temperature of all."""
    view, nodes = view_of(300, 8), np.arange(24)
    own = nodes % 3
    monkeypatch.setattr(prototypes, "folds", lambda index: nodes % FOLDS)
    for i in (0, 7, 23):
        said = []
        for given in range(3):
            own[i] = given
            logs = class_means(view, nodes, own, np.full(3, 1 / 3), np.ones(24, dtype=bool)).left_out[i]
            said.append(length_one(logs - logs.mean()))
        np.testing.assert_allclose(said[1:], [said[0]] * 2, atol=1e-4)
        own[i] = i % 3


def test_what_is_beside_labels_counts_and_alone_knows_no_label() -> None:
    view, beside = view_of(), 2 * np.eye(3, 6)
    given = view, NODES, OWN, np.full(3, 1 / 3), COUNTED, 0.0
    z = view.rows.astype(np.float64)
    for alone in (False, True):
        expert = class_means(*given, beside, alone=alone)
        means = [length_one(beside[c] + (0 if alone else z[NODES[c == OWN]].sum(axis=0))) for c in range(3)]
        directions = expert.weights / np.linalg.norm(expert.weights, axis=0)
        np.testing.assert_allclose(directions.T, means, atol=1e-6)
    logs = log_softmax(expert.scores(NODES))
    np.testing.assert_allclose(expert.left_out, logs, atol=1e-4)
    assert expert.seen == "names"


def test_many_nodes_help_by_a_sample_that_is_always_the_same() -> None:
    support = np.array([5, 7])
    assert helping_nodes(10, support).tolist() == [0, 1, 2, 3, 4, 6, 8, 9]
    many = helping_nodes(SAMPLE + 500, support)
    np.testing.assert_array_equal(many, helping_nodes(SAMPLE + 500, support))
    assert SAMPLE - 2 <= len(many) <= SAMPLE and not np.isin(support, many).any()
