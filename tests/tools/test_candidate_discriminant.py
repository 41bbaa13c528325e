"""The discriminant: leaving out in closed form and leaving out, narrow and wide."""

import numpy as np
import pytest

from candidate.discriminant import OFFSET, Scatter, discriminant
from candidate.pool import log_softmax
from candidate.views import View
from naq.unit_rows import unit_rows

PENALTIES = (0.1, 1.0)


def sample(labels: int, width: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([labels, width])
    slots = np.concatenate(
        [np.arange(classes), np.arange(classes), random.integers(classes, size=labels - 2 * classes)]
    )
    rows = random.standard_normal((labels, width)) + 2 * random.standard_normal((classes, width))[slots]
    return unit_rows(rows).astype(np.float32), slots


def by_definition(rows: np.ndarray, slots: np.ndarray, penalty: float, of: np.ndarray, free: int) -> np.ndarray:
    """(of, classes) distances from the formula."""
    known = rows.astype(np.float64)
    middle = np.stack([known[slots == c].mean(axis=0) for c in range(slots.max() + 1)])
    apart = known - middle[slots]
    inverse = np.linalg.inv(apart.T @ apart + penalty * np.eye(known.shape[1]))
    off = of.astype(np.float64)[:, None] - middle
    noise = OFFSET * np.trace(inverse @ apart.T @ apart) / free / np.bincount(slots)
    return np.einsum("ncd,de,nce->nc", off, inverse, off) - noise


@pytest.mark.parametrize(("labels", "width"), [(12, 40), (40, 6), (20, 20)])
def test_leaving_out_is_solving_without_the_label(labels: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, slots = sample(labels, width)
    monkeypatch.setattr("candidate.discriminant.OFFSET", 0.0)
    monkeypatch.setitem(globals(), "OFFSET", 0.0)
    found = Scatter(rows, slots, 3)
    for penalty in PENALTIES:
        for i in range(labels):
            rest = np.arange(labels) != i
            wanted = by_definition(rows[rest], slots[rest], penalty, rows[[i]], 1)[0]
            np.testing.assert_allclose(found.left_out(penalty, np.array([i]))[0], wanted, rtol=1e-6)


@pytest.mark.parametrize(("labels", "width"), [(12, 40), (40, 6)])
def test_weights_and_offsets_give_the_distances(labels: int, width: int) -> None:
    rows, slots = sample(labels, width)
    others = unit_rows(np.random.default_rng(0).standard_normal((9, width)))
    found = Scatter(rows, slots, 3)
    for penalty in PENALTIES:
        weights, offsets = found.linear(penalty)
        scores = 2 * (others @ weights - offsets)
        wanted = -by_definition(rows, slots, penalty, others, labels - 3)
        np.testing.assert_allclose(log_softmax(scores), log_softmax(wanted), rtol=1e-6, atol=1e-8)


def test_columns_of_zeros_change_nothing() -> None:
    """The same labels are solved by labels where rows are wide, and by columns where they are narrow."""
    rows, slots = sample(30, 8)
    wide = np.concatenate([rows, np.zeros((30, 60), np.float32)], axis=1)
    given = np.arange(30), slots, np.full(3, 1 / 3), np.ones(30)
    one, two = (discriminant(View("x", x, True, True), *given) for x in (rows, wide))
    np.testing.assert_allclose(one.weights, two.weights[:8], atol=1e-7)
    np.testing.assert_allclose(one.offsets, two.offsets, atol=1e-7)
    np.testing.assert_allclose(one.left_out, two.left_out, atol=1e-7)


def test_the_only_label_of_a_class_is_infinitely_far_when_it_is_left_out() -> None:
    rows, slots = sample(12, 5)
    slots[slots == 2] = 0
    slots[3] = 2
    found = Scatter(rows, slots, 3).left_out(1.0, np.arange(12))
    assert np.isinf(found[3, 2]) and np.isfinite(found).sum() == found.size - 1


def test_one_label_in_every_class_is_the_nearest_mean() -> None:
    rows, _ = sample(12, 5)
    head = discriminant(View("x", rows, True, True), np.arange(3), np.arange(3), np.full(3, 1 / 3), np.zeros(3))
    assert ((rows @ head.weights + head.offsets).argmax(axis=1) == (rows @ rows[:3].T).argmax(axis=1)).all()


def test_a_column_that_tells_the_class_alone_is_followed() -> None:
    """The scatter of the labels vanishes along it."""
    rows, slots = sample(30, 8)
    rows[:, 0] = slots
    head = discriminant(View("x", rows, True, False), np.arange(30), slots, np.full(3, 1 / 3), np.ones(30))
    assert (head.left_out.argmax(axis=1) == slots).all()
