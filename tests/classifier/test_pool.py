"""The pool: its weights are the best ones, and the answer is their weighted sum."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from naq.classifier.pool import BLOCK, Expert, left_out_weights, log_loss, log_softmax, pool_weights, pooled
from naq.classifier.views import View, join

EXPERTS, LABELS, CLASSES = 4, 30, 3


@pytest.fixture(scope="module")
def heard() -> tuple[np.ndarray, np.ndarray]:
    """What experts who know less and less say about labels, and the classes of these."""
    random = np.random.default_rng(3)
    own = random.integers(CLASSES, size=LABELS)
    knows = np.array([2.0, 1.0, 0.3, -1.0])[:, None, None]
    return log_softmax(random.standard_normal((EXPERTS, LABELS, CLASSES)) + knows * np.eye(CLASSES)[own]), own


def loss(weights: np.ndarray, left: np.ndarray, own: np.ndarray, prior: np.ndarray, trust: float) -> float:
    return log_loss(np.tensordot(weights, left, 1), own) + trust * float(((weights - prior) ** 2).sum())


@pytest.mark.parametrize("trust", [0.01, 0.5, 4.0])
@pytest.mark.parametrize("labels", [0, 1, 4, LABELS])
def test_weights_are_where_the_loss_is_least(heard: tuple[np.ndarray, np.ndarray], trust: float, labels: int) -> None:
    """Karush, Kuhn, Tucker: no slope along a weight above zero, none that falls into the allowed side at zero. The loss
    is convex, so that there is no other such place."""
    prior, random = np.array([0.7, 0.1, 0.1, 0.1]), np.random.default_rng(labels)
    rest = heard[0][:, :labels], heard[1][:labels], prior, trust
    found = pool_weights(*rest)
    slope = np.array([loss(found + s, *rest) - loss(found - s, *rest) for s in 1e-5 * np.eye(EXPERTS)]) / 2e-5
    assert (found >= 0).all() and (slope > -0.01).all() and (np.abs(slope[found > 1e-9]) < 0.01).all()
    assert labels or (found == prior).all()
    assert labels < LABELS or (found[:2].min() > found[3] == 0 and slope[3] > 0.1)
    for one, two in random.uniform(0, 3, (50, 2, EXPERTS)):
        assert loss((one + two) / 2, *rest) <= (loss(one, *rest) + loss(two, *rest)) / 2 + 1e-9
        assert loss(found, *rest) <= loss(one, *rest) + 1e-6


def test_left_out_weights_are_near_those_found_without_the_label(heard: tuple[np.ndarray, np.ndarray]) -> None:
    left, own = heard
    prior, counted = np.full(EXPERTS, 0.25), np.arange(LABELS) != 4
    weights = pool_weights(left[:, counted], own[counted], prior, 4.0)
    found = left_out_weights(left, own, counted, weights, 4.0)
    np.testing.assert_allclose(found[4], weights)  # it had no part in them
    for i in np.flatnonzero(counted):
        rest = counted & (np.arange(LABELS) != i)
        again = pool_weights(left[:, rest], own[rest], prior, 4.0)
        assert np.abs(found[i] - again).max() < 0.25 * np.abs(weights - again).max() + 0.01
    assert np.abs(found - weights).max() > 0.05 and (found >= 0).all()


def test_the_pool_is_the_weighted_sum_for_any_number_of_threads() -> None:
    random, everyone = np.random.default_rng(1), np.arange(2 * BLOCK + 77)
    views = [View("", random.standard_normal((len(everyone), d)).astype(np.float32), True, True) for d in (5, 200)]
    views += [join(views), views[0]]
    heads = [random.standard_normal((view.at(everyone[:1]).shape[1], CLASSES)) / 9 for view in views]
    none = np.zeros((1, CLASSES))
    experts = [Expert("", *one, random.standard_normal(CLASSES), none, none) for one in zip(views, heads)]
    weights = np.array([0.3, 0.2, 0.6, 0.0])
    wanted = sum(w * (e.view.at(everyone).astype(float) @ e.weights + e.offsets) for w, e in zip(weights, experts))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(3) as three:
        found = [pooled(experts, weights, pool) for pool in (one, three)]
    np.testing.assert_allclose(found[0], log_softmax(wanted), atol=1e-4)
    np.testing.assert_array_equal(*found)
