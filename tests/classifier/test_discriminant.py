"""The discriminant: leaving out in closed form and solving again without the label, narrow and wide."""

from __future__ import annotations

import numpy as np
import pytest

from naq.classifier import discriminant as module
from naq.classifier.discriminant import CAUTION, PENALTIES, SHARPNESS, USUAL, Scatter, discriminant
from naq.classifier.pool import log_softmax
from naq.classifier.views import View
from naq.unit_rows import unit_rows


def sample(labels: int, width: int, classes: int = 3, tell: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([labels, width])
    own = np.concatenate([np.tile(np.arange(classes), 2), random.integers(classes, size=labels - 2 * classes)])
    rows = random.standard_normal((labels, width)) + tell * random.standard_normal((classes, width))[own]
    return unit_rows(rows).astype(np.float32), own


def distances(rows: np.ndarray, own: np.ndarray, penalty: float, of: np.ndarray, offset: float = 0.0) -> np.ndarray:
    """(of, classes) D by definition, less ``offset`` of what means of few labels are off by."""
    known = rows.astype(np.float64)
    middle = np.stack([known[own == c].mean(axis=0) for c in range(own.max() + 1)])
    apart = known - middle[own]
    inverse = np.linalg.inv(apart.T @ apart + penalty * np.eye(known.shape[1]))
    off = of.astype(np.float64)[:, None] - middle
    noise = np.trace(inverse @ apart.T @ apart) / (len(own) - len(middle)) / np.bincount(own)
    return np.einsum("ncd,de,nce->nc", off, inverse, off) - offset * noise


def without(rows: np.ndarray, own: np.ndarray, penalty: float) -> np.ndarray:
    """(labels, classes) D of every label, solved again without it."""
    rest = [np.arange(len(own)) != i for i in range(len(own))]
    return np.stack([distances(rows[r], own[r], penalty, rows[[i]])[0] for i, r in enumerate(rest)])


@pytest.mark.parametrize(("labels", "width"), [(12, 40), (40, 6), (20, 20)])
def test_leaving_out_is_solving_without_the_label(labels: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, own = sample(labels, width)
    monkeypatch.setattr(module, "OFFSET", 0.0)
    found = Scatter(rows, own, 3)
    for penalty in (0.1, 1.0, 30.0):
        left = found.leave_one_out(penalty, np.arange(labels))
        np.testing.assert_allclose(left, without(rows, own, penalty), rtol=1e-6)
        monkeypatch.setattr(module, "OFFSET", 0.5)
        off, sizes = left - found.leave_one_out(penalty, np.arange(labels)), np.bincount(own) - np.eye(3)[own]
        np.testing.assert_allclose(off * sizes, off[0, 0] * sizes[0, 0], rtol=1e-5)  # a class is one smaller without i
        monkeypatch.setattr(module, "OFFSET", 0.0)
        some = np.array([3, 1, 7])
        np.testing.assert_allclose(found.leave_one_out(penalty, some), left[some], rtol=1e-9)


def test_a_left_out_label_may_be_of_any_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said about it does not change with the class that it was given."""
    monkeypatch.setattr(module, "OFFSET", 0.0)
    rows, own = sample(30, 50)
    for i in (0, 7, 19):
        said = []
        for given in range(3):
            own[i] = given
            said.append(Scatter(rows, own, 3).leave_one_out(1.0, np.array([i]))[0])
        np.testing.assert_allclose(said[1:], [said[0]] * 2, rtol=1e-6)


@pytest.mark.parametrize(("labels", "width"), [(12, 40), (40, 6)])
def test_weights_and_offsets_give_the_distances(labels: int, width: int) -> None:
    rows, own = sample(labels, width)
    others = unit_rows(np.random.default_rng(0).standard_normal((9, width)))
    for penalty in (0.1, 1.0):
        weights, offsets = Scatter(rows, own, 3).linear(penalty)
        found, wanted = 2 * (others @ weights - offsets), -distances(rows, own, penalty, others, module.OFFSET)
        np.testing.assert_allclose(log_softmax(found), log_softmax(wanted), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("labels", "width"), [(15, 40), (40, 6)])
def test_the_expert_has_the_least_loss_and_unseen_labels_no_say(
    labels: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Penalty and sharpness by slow loops over all of them; ``unseen`` by those that the other labels choose."""
    monkeypatch.setattr(module, "OFFSET", 0.0)
    rows, own = sample(labels, width, tell=0.3)
    shares = np.array([0.5, 0.3, 0.2])
    expert = discriminant(View("x", rows, True, True), np.arange(labels), own, shares, np.ones(labels, bool))
    settings = [(penalty, sharp) for penalty in PENALTIES for sharp in SHARPNESS]
    left = {penalty: without(rows, own, penalty) for penalty in PENALTIES}
    logs = [log_softmax(np.log(shares) - sharp * left[penalty]) for penalty, sharp in settings]
    losses = -np.array([one[np.arange(labels), own] for one in logs])
    caution = CAUTION * np.log([penalty / USUAL for penalty, _ in settings]) ** 2
    best = (losses.sum(axis=1) + caution).argmin()
    np.testing.assert_allclose(expert.left_out, logs[best], atol=1e-5)
    others = [(np.delete(losses, i, axis=1).sum(axis=1) + caution).argmin() for i in range(labels)]
    np.testing.assert_allclose(expert.unseen, [logs[one][i] for i, one in enumerate(others)], atol=1e-5)
    assert set(others) > {best}


def test_the_only_label_of_a_class_is_infinitely_far_when_it_is_left_out() -> None:
    rows, own = sample(12, 5)
    own[own == 2] = 0
    own[3] = 2
    found = Scatter(rows, own, 3).leave_one_out(1.0, np.arange(12))
    assert np.isinf(found[3, 2]) and np.isfinite(found).sum() == found.size - 1
