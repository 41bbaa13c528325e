"""Experts and their pool against slow forms: class means in loops, the discriminant solved again without each label."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from naq.classifier import experts as module
from naq.classifier.confidence import BLOCK, Pool, in_blocks, leave_one_out_weights, pool_weights
from naq.classifier.experts import (
    CAUTION,
    FOLDS,
    OFFSET,
    PENALTIES,
    SAMPLE,
    SHARPNESS,
    USUAL,
    Expert,
    Scatter,
    assign_folds,
    fit_class_means,
    fit_discriminant,
    helping_nodes,
    log_losses,
    log_softmax,
)
from naq.classifier.labels import Labels
from naq.classifier.views import View, centred_units, join
from naq.graph.operators import unit_rows

NODES, OWN = np.array([3, 9, 10, 40, 41, 52, 60, 77, 79]), np.array([0, 0, 2, 1, 1, 1, 1, 1, 1])
COUNTED, SHARES = OWN != 2, np.full(3, 1 / 3)


def view_of(n: int = 80, d: int = 6) -> View:
    units = centred_units(np.random.default_rng(0).standard_normal((n, d)).astype(np.float32))
    return View("naq-plus", units, True, True)


def slow_means(z: np.ndarray, nodes: np.ndarray, own: np.ndarray, weight: float) -> np.ndarray:
    """Means of the labels of ``nodes``, helped by all nodes but ``NODES``."""
    z = z.astype(np.float64)
    anchors, helped = np.eye(3)[own].T @ z[nodes], 0 * z[:3]
    for _ in range(module.ROUNDS):
        now, total = unit_rows(anchors + weight * helped), 0 * z[:3]
        for q in set(range(len(z))) - set(NODES.tolist()):
            mass = np.exp(now @ z[q] / module.SHARE_TEMPERATURE)
            total += np.outer(mass / mass.sum(), z[q])
        helped = unit_rows(total)
    return unit_rows(anchors + weight * helped)


@pytest.mark.parametrize("weight", (0.0, 1.0, 3.0))
def test_class_means_left_out_cosines_and_temperature_are_the_formula(weight: float) -> None:
    view, tried, fold = view_of(), module.TEMPERATURES, assign_folds(OWN)
    expert, z = fit_class_means(view, NODES, OWN, SHARES, COUNTED, weight), view.rows
    left = z[NODES] @ slow_means(z, NODES, OWN, weight).T
    for i in np.flatnonzero(COUNTED):  # without the label's fold; the only label of a class stays
        rest = (fold != fold[i]) | ~COUNTED
        left[i] = slow_means(z, NODES[rest], OWN[rest], weight) @ z[NODES[i]]
    losses = np.array([-log_softmax(left / t)[np.arange(len(OWN)), OWN] * COUNTED for t in tried])
    total = losses.sum(axis=1) + np.log(tried / module.USUAL_TEMPERATURE) ** 2 / (2 * module.SPREAD**2)
    t, others = tried[total.argmin()], tried[(total[:, None] - losses).argmin(axis=0)]
    np.testing.assert_allclose(expert.leave_one_out, log_softmax(left / t), atol=1e-4)
    np.testing.assert_allclose(expert.unseen, log_softmax(left / others[:, None]), atol=1e-4)
    cosines = z @ slow_means(z, NODES, OWN, weight).T
    np.testing.assert_allclose(log_softmax(expert.scores(np.arange(80))), log_softmax(cosines / t), atol=1e-3)


@pytest.mark.parametrize("names_only", (False, True))
def test_anchors_are_added_to_labels_or_stand_alone(names_only: bool) -> None:
    view, anchors = view_of(), 2 * np.eye(3, 6)
    expert = fit_class_means(view, NODES, OWN, SHARES, COUNTED, 0.0, anchors, names_only)
    means = anchors if names_only else anchors + np.eye(3)[OWN].T @ view.rows[NODES]
    np.testing.assert_allclose(unit_rows(expert.weights.T), unit_rows(means), atol=1e-6)
    if names_only:
        np.testing.assert_allclose(expert.leave_one_out, log_softmax(expert.scores(NODES)), atol=1e-4)
    assert (expert.source == "names") == names_only


def test_folds_spread_every_class_and_helpers_are_a_fixed_sample_without_labels() -> None:
    own = np.random.default_rng(1).permutation(np.repeat(np.arange(6), [2, 3, 5, 9, 20, 40]))
    for one in range(6):
        sizes = np.bincount(assign_folds(own)[own == one], minlength=FOLDS)
        assert sizes.max() - sizes.min() <= 1 and sizes.max() < sizes.sum()
    support = np.array([5, 7])
    assert helping_nodes(10, support).tolist() == [0, 1, 2, 3, 4, 6, 8, 9]
    many = helping_nodes(SAMPLE + 500, support)
    np.testing.assert_array_equal(many, helping_nodes(SAMPLE + 500, support))
    assert SAMPLE - 2 <= len(many) <= SAMPLE and not np.isin(support, many).any()


def sample(labels: int, width: int, tell: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows and their classes, of which each has two at least."""
    random = np.random.default_rng([labels, width])
    own = np.concatenate([np.tile(np.arange(3), 2), random.integers(3, size=labels - 6)])
    rows = random.standard_normal((labels, width)) + tell * random.standard_normal((3, width))[own]
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


SHAPES = pytest.mark.parametrize(("labels", "width"), [(12, 40), (40, 6), (20, 20)])


@SHAPES
def test_leaving_out_is_solving_without_the_label(labels: int, width: int) -> None:
    rows, own = sample(labels, width)
    everyone, some = np.arange(labels), np.array([3, 1, 7])
    found, shifted = (Scatter(rows, own, 3, offset) for offset in (0.0, 0.5))
    others = unit_rows(np.random.default_rng(0).standard_normal((9, width)))
    for penalty in (0.1, 1.0, 30.0):
        left = found.leave_one_out(penalty, everyone)
        np.testing.assert_allclose(left, without(rows, own, penalty), rtol=1e-6)
        np.testing.assert_allclose(found.leave_one_out(penalty, some), left[some], rtol=1e-9)
        off, sizes = left - shifted.leave_one_out(penalty, everyone), np.bincount(own) - np.eye(3)[own]
        np.testing.assert_allclose(off * sizes, off[0, 0] * sizes[0, 0], rtol=1e-5)  # a class is one smaller without i
        weights, offsets = Scatter(rows, own, 3).linear(penalty)
        linear, wanted = 2 * (others @ weights - offsets), -distances(rows, own, penalty, others, OFFSET)
        np.testing.assert_allclose(log_softmax(linear), log_softmax(wanted), rtol=1e-6, atol=1e-8)


@SHAPES
def test_the_discriminant_has_the_least_loss_and_unseen_labels_no_say(labels: int, width: int) -> None:
    """Penalty and sharpness by slow loops over all of them; ``unseen`` by those that the other labels choose."""
    rows, own = sample(labels, width, tell=0.3)
    shares, everyone = np.array([0.5, 0.3, 0.2]), np.arange(labels)
    expert = fit_discriminant(View("x", rows, True, True), everyone, own, shares, everyone >= 0, offset=0.0)
    settings = [(penalty, sharp) for penalty in PENALTIES for sharp in SHARPNESS]
    left = {penalty: without(rows, own, penalty) for penalty in PENALTIES}
    logs = [log_softmax(np.log(shares) - sharp * left[penalty]) for penalty, sharp in settings]
    losses = -np.array([one[everyone, own] for one in logs])
    caution = CAUTION * np.log([penalty / USUAL for penalty, _ in settings]) ** 2
    best = (losses.sum(axis=1) + caution).argmin()
    np.testing.assert_allclose(expert.leave_one_out, logs[best], atol=1e-5)
    others = [(np.delete(losses, i, axis=1).sum(axis=1) + caution).argmin() for i in range(labels)]
    np.testing.assert_allclose(expert.unseen, [logs[one][i] for i, one in enumerate(others)], atol=1e-5)
    assert labels == 20 or set(others) > {best}
    penalty, sharp = settings[best]
    linear, wanted = rows @ expert.weights + expert.offsets, -sharp * distances(rows, own, penalty, rows)
    np.testing.assert_allclose(log_softmax(linear), log_softmax(np.log(shares) + wanted), atol=1e-4)


@pytest.mark.parametrize("expert", ("class means", "discriminant"))
def test_a_left_out_label_does_not_peek_at_its_class(expert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said about it is the same whatever class it was given, but for the one temperature of all."""
    view, nodes, said = view_of(300, 8), np.arange(24), []
    monkeypatch.setattr(module, "assign_folds", lambda index: nodes % FOLDS)
    for i in (0, 7, 23):
        own = [np.where(nodes == i, given, nodes % 3) for given in range(3)]
        if expert == "discriminant":
            said = [Scatter(view.rows[nodes], one, 3, 0.0).leave_one_out(1.0, np.array([i]))[0] for one in own]
        else:
            logs = np.array([fit_class_means(view, nodes, one, SHARES, nodes >= 0).leave_one_out[i] for one in own])
            said = unit_rows(logs - logs.mean(axis=1, keepdims=True))
        np.testing.assert_allclose(said[1:], [said[0]] * 2, rtol=1e-6, atol=1e-4)


def test_the_only_label_of_a_class_is_infinitely_far_when_it_is_left_out() -> None:
    rows, own = sample(12, 5)
    own[own == 2] = 0
    own[3] = 2
    found = Scatter(rows, own, 3).leave_one_out(1.0, np.arange(12))
    assert np.isinf(found[3, 2]) and np.isfinite(found).sum() == found.size - 1


EXPERTS, LABELS = 4, 30


@pytest.fixture(scope="module")
def heard() -> tuple[np.ndarray, np.ndarray]:
    """What experts who know less and less say about labels, and the classes of these."""
    random = np.random.default_rng(3)
    own = random.integers(3, size=LABELS)
    knows = np.array([2.0, 1.0, 0.3, -1.0])[:, None, None]
    return log_softmax(random.standard_normal((EXPERTS, LABELS, 3)) + knows * np.eye(3)[own]), own


def loss(weights: np.ndarray, left: np.ndarray, own: np.ndarray, prior: np.ndarray, trust: float) -> float:
    return log_losses(np.tensordot(weights, left, 1), own).sum() + trust * float(((weights - prior) ** 2).sum())


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


def test_leave_one_out_weights_are_near_those_found_without_the_label(heard: tuple[np.ndarray, np.ndarray]) -> None:
    left, own = heard
    prior, counted = np.full(EXPERTS, 0.25), np.arange(LABELS) != 4
    weights = pool_weights(left[:, counted], own[counted], prior, 4.0)
    found = leave_one_out_weights(left, own, counted, weights, 4.0)
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
    heads = [random.standard_normal((view.at(everyone[:1]).shape[1], 3)) / 9 for view in views]
    none = np.zeros((1, 3))
    experts = [Expert("", *one, random.standard_normal(3), none, none) for one in zip(views, heads)]
    weights = np.array([0.3, 0.2, 0.6, 0.0])
    wanted = sum(w * (e.view.at(everyone).astype(float) @ e.weights + e.offsets) for w, e in zip(weights, experts))
    pool = Pool(Labels.of([0], [0]), experts, weights, 1.0, none, None, none[0], 0.0, None)
    found = np.empty((2, len(everyone), 3), dtype=np.float32)
    for place, threads in enumerate((1, 3)):
        with ThreadPoolExecutor(threads) as some:
            in_blocks(some, len(everyone), lambda part, at=place: np.copyto(found[at, part], pool.logs(part)))
    np.testing.assert_allclose(found[0], log_softmax(wanted), atol=1e-4)
    np.testing.assert_array_equal(*found)
