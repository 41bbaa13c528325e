"""The pool: its weights are the best ones, and the answer is their weighted sum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from candidate.pool import Linear, Outside, left_out_weights, log_softmax, pool_weights, pooled, surprise
from candidate.views import View, joined

EXPERTS, LABELS, CLASSES = 4, 30, 3


@pytest.fixture(scope="module")
def heard() -> tuple[np.ndarray, np.ndarray]:
    """Experts that know less and less, and the classes."""
    random = np.random.default_rng(3)
    slots = random.integers(CLASSES, size=LABELS)
    knows = np.array([2.0, 1.0, 0.3, 0.0])[:, None, None]
    return log_softmax(random.standard_normal((EXPERTS, LABELS, CLASSES)) + knows * np.eye(CLASSES)[slots]), slots


def loss(weights: np.ndarray, left: np.ndarray, slots: np.ndarray, prior: np.ndarray, trust: float) -> float:
    told = surprise(np.tensordot(weights, left, 1), slots, np.ones(len(slots)))
    return told + trust * float(((weights - prior) ** 2).sum())


@pytest.mark.parametrize("trust", [0.5, 4.0])
def test_weights_minimise_the_loss(heard: tuple[np.ndarray, np.ndarray], trust: float) -> None:
    left, slots = heard
    prior = np.array([0.7, 0.1, 0.1, 0.1])
    found = pool_weights(left, slots, np.ones(LABELS), prior, trust)
    wanted = minimize(
        lambda root: loss(root**2, left, slots, prior, trust), np.sqrt(prior), method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 20_000, "maxfev": 20_000},
    )  # fmt: skip
    np.testing.assert_allclose(found, wanted.x**2, atol=2e-3)
    assert found[0] > found[3]


def test_the_loss_is_convex(heard: tuple[np.ndarray, np.ndarray]) -> None:
    left, slots = heard
    random, prior = np.random.default_rng(0), np.full(EXPERTS, 0.2)
    for _ in range(100):
        one, two = random.uniform(0, 3, (2, EXPERTS))
        ends = (loss(one, left, slots, prior, 1.0) + loss(two, left, slots, prior, 1.0)) / 2
        assert loss((one + two) / 2, left, slots, prior, 1.0) <= ends + 1e-9


def test_without_a_label_that_counts_the_prior_decides(heard: tuple[np.ndarray, np.ndarray]) -> None:
    left, slots = heard
    prior = np.array([0.7, 0.1, 0.0, 0.2])
    np.testing.assert_array_equal(pool_weights(left, slots, np.zeros(LABELS), prior), prior)


def test_a_label_that_does_not_count_changes_nothing(heard: tuple[np.ndarray, np.ndarray]) -> None:
    left, slots = heard
    counted = (np.arange(LABELS) > 4).astype(float)
    prior = np.full(EXPERTS, 0.25)
    np.testing.assert_allclose(
        pool_weights(left, slots, counted, prior), pool_weights(left[:, 5:], slots[5:], np.ones(LABELS - 5), prior)
    )


def test_left_out_weights_are_near_those_found_without_the_label(heard: tuple[np.ndarray, np.ndarray]) -> None:
    left, slots = heard
    prior, counted = np.full(EXPERTS, 0.25), np.ones(LABELS)
    weights = pool_weights(left, slots, counted, prior, 4.0)
    found = left_out_weights(left, slots, counted, weights, 4.0)
    for i in range(LABELS):
        without = counted.copy()
        without[i] = 0.0
        again = pool_weights(left, slots, without, prior, 4.0)
        assert np.abs(found[i] - again).max() < 0.25 * np.abs(weights - again).max() + 0.01


def test_the_pool_reads_each_view_once_and_joins_outside_experts() -> None:
    random = np.random.default_rng(1)
    views = [View(f"v{d}", random.standard_normal((20, d)).astype(np.float32), True, True) for d in (5, 200)]
    views.append(joined(views))
    widths = (5, 200, views[2].at(np.arange(1)).shape[1])
    experts = [
        Linear(
            f"e{i}", view, random.standard_normal((d, CLASSES)), random.standard_normal(CLASSES), np.zeros((1, CLASSES))
        )
        for i, (view, d) in enumerate(zip([*views, views[0]], (*widths, 5)))
    ]
    names = Outside("names", log_softmax(random.standard_normal((20, CLASSES))).astype(np.float32))
    weights = np.array([0.3, 0.2, 0.6, 0.0, 0.4])
    wanted = sum(w * (e.view.at(np.arange(20)) @ e.weights + e.offsets) for w, e in zip(weights, experts))
    found = pooled(experts, [names], weights)
    np.testing.assert_allclose(found, log_softmax(wanted + 0.4 * names.scores), atol=2e-5)
