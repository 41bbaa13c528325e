r"""Experts together: a logarithmic opinion pool whose weights are learned from labels that are left out.

.. math::
    p(c \mid q) \propto \exp \sum_v w_v \log p_v(c \mid q), \qquad
    w = \arg\min_{w \ge 0} \; -\sum_i a_i \log p_{-i}(y_i \mid i) \;+\; \lambda\, |w - w^0|^2

:math:`\log p_{v,-i}` is what expert v says about label i without it, :math:`a_i` how much the label counts. The loss
is convex in w. Without a label that counts, w is the prior :math:`w^0`. An expert need not come from this package:
any log-probabilities for all nodes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from candidate.views import View

TRUST = 2.0
"""lambda: how many labels the prior weighs."""
ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Linear:
    """An expert whose log-probabilities are ``rows @ weights + offsets``, but for a constant of each node.

    Attributes:
        name: of the expert; ``view``: whose rows it reads.
        weights: (d, classes), ``offsets``: (classes,).
        left_out: (labels, classes) log-probabilities of the labels, each without itself.
        chosen: what was chosen by the labels left out; ``state``: (fits, classes, d) what the next fit may start from.
    """

    name: str
    view: View
    weights: np.ndarray
    offsets: np.ndarray
    left_out: np.ndarray
    chosen: tuple[float, ...] = ()
    state: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True, eq=False)
class Outside:
    """An expert that used none of the labels, as names of classes do: (n, classes) log-probabilities."""

    name: str
    scores: np.ndarray
    prior: float = 0.4


def pool_weights(
    left_out: np.ndarray,
    slots: np.ndarray,
    counted: np.ndarray,
    prior: np.ndarray,
    trust: float = TRUST,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """(experts,) weights of at least 0; ``start`` is where they are sought from, the prior unless it is given.

    Shapes:
        - left_out: (experts, labels, classes) log-probabilities
        - slots, counted: (labels,) the class of each label and how much it counts
    """
    told = np.flatnonzero(counted > 0)
    if not len(told):
        return prior.copy()
    heard, share, place = left_out[:, told], counted[told], np.arange(len(told))
    own = heard[:, place, slots[told]]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        joint = log_softmax(np.tensordot(weights, heard, 1))
        off = weights - prior
        value = -share @ joint[place, slots[told]] + trust * off @ off
        expected = np.einsum("vic,ic->vi", heard, np.exp(joint))
        return float(value), (expected - own) @ share + 2 * trust * off

    found = minimize(
        loss,
        prior if start is None else start,
        jac=True,
        bounds=[(0.0, None)] * len(prior),
        options={"maxiter": ROUNDS},
    )
    return np.asarray(found.x, dtype=np.float64)


def left_out_weights(
    left_out: np.ndarray, slots: np.ndarray, counted: np.ndarray, weights: np.ndarray, trust: float = TRUST
) -> np.ndarray:
    """(labels, experts) the weights that each label would find without itself, by one Newton step from ``weights``;
    shapes as of :func:`pool_weights`.

    Weights that are zero stay zero.
    """
    chances = np.exp(log_softmax(np.tensordot(weights, left_out, 1)))
    expected = np.einsum("vic,ic->iv", left_out, chances)
    slope = (expected - left_out[:, np.arange(len(slots)), slots].T) * counted[:, None]
    used = weights > 0
    apart = (left_out - expected.T[:, :, None])[used]
    curve = np.einsum("vic,ic,wic->vw", apart, chances * counted[:, None], apart) + 2 * trust * np.eye(used.sum())
    found = np.tile(weights, (len(slots), 1))
    found[:, used] += slope[:, used] @ np.linalg.inv(curve)
    return np.maximum(found, 0.0)


def pooled(experts: Sequence[Linear], outside: Sequence[Outside], weights: np.ndarray) -> np.ndarray:
    """(n, classes) float32 log-probabilities of the pool; weights are those of ``experts``, then those of ``outside``.

    Experts are added up before they see a node, so that each view is read once.
    """
    of_view: dict[str, tuple[View, np.ndarray]] = {}
    offsets = np.zeros_like(experts[0].offsets)
    for weight, expert in zip(weights, experts):
        if weight > 0:
            offsets = offsets + weight * expert.offsets
            for view, part in expert.view.spread(weight * expert.weights):
                before = of_view.get(view.name)
                of_view[view.name] = (view, part if before is None else before[1] + part)
    total = np.tile(offsets.astype(np.float32), (len(experts[0].view.rows), 1))
    for view, part in of_view.values():
        total += view.rows @ part.astype(np.float32)
    for weight, other in zip(weights[len(experts) :], outside):
        if weight > 0:
            total += np.float32(weight) * other.scores
    return log_softmax(total)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Logarithms of shares over the last axis."""
    apart = scores - scores.max(axis=-1, keepdims=True)
    return apart - np.log(np.exp(apart).sum(axis=-1, keepdims=True))


def surprise(scores: np.ndarray, slots: np.ndarray, counted: np.ndarray) -> float:
    """Minus the log-likelihood of the classes, each label as often as it counts."""
    return -float(counted @ log_softmax(scores)[np.arange(len(slots)), slots]) if len(slots) else 0.0
