r"""Experts together: a logarithmic opinion pool whose weights are learned from labels that are left out.

.. math::
    p(c \mid q) \propto \exp \sum_v w_v \log p_v(c \mid q), \qquad
    w = \arg\min_{w \ge 0} \; -\sum_i \log p_{-i}(y_i \mid i) \;+\; \lambda\, |w - w^0|^2

:math:`\log p_{v,-i}` is what expert v says about label i without it. The loss is convex in w. While no label can be
left out, w is the prior :math:`w^0`. An expert need not come from labels: any log-probabilities of all nodes do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from naq.classifier.views import View

TRUST = 2.0  # lambda: how many labels the prior weighs
ROUNDS = 100
BLOCK = 1 << 11  # rows of a thread at a time


@dataclass(frozen=True, eq=False)
class Expert:
    """Log-probabilities ``rows @ weights + offsets`` of a view, but for a constant of each node.

    Attributes:
        weights: (d, classes), ``offsets``: (classes,).
        left_out: (labels, classes) log-probabilities of the labels, each without itself.
        unseen: (labels, classes) the same where the label had no part in what was chosen either (penalty, sharpness).
            Weights are learned from ``left_out``, which tells more; what an answer is worth from ``unseen``, which
            promises nothing too much.
    """

    name: str
    view: View
    weights: np.ndarray
    offsets: np.ndarray
    left_out: np.ndarray
    unseen: np.ndarray

    @property
    def seen(self) -> str:
        """The name of what it goes by: its view, or the names of the classes."""
        return self.name if self.name == "names" else self.view.name

    def scores(self, nodes: np.ndarray) -> np.ndarray:
        """(nodes, classes) float32 log-probabilities, but for a constant of each node."""
        rows = self.view.at(nodes)
        return np.asarray(rows @ self.weights.astype(np.float32) + self.offsets.astype(np.float32))

    def predicted(self, nodes: np.ndarray) -> np.ndarray:
        """(nodes,) the likeliest class of each."""
        return np.asarray(self.scores(nodes).argmax(axis=1))


def pool_weights(left_out: np.ndarray, class_index: np.ndarray, prior: np.ndarray, trust: float = TRUST) -> np.ndarray:
    """(experts,) weights of at least 0, near the prior.

    Shapes:
        - left_out: (experts, labels, classes) log-probabilities
        - class_index: (labels,) the class of each label
    """
    if not len(class_index):
        return prior.copy()
    place = np.arange(len(class_index))
    own = left_out[:, place, class_index].sum(axis=1)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        joint = log_softmax(np.tensordot(weights, left_out, 1))
        off = weights - prior
        value = -joint[place, class_index].sum() + trust * off @ off
        expected = np.einsum("vic,ic->v", left_out, np.exp(joint))
        return float(value), expected - own + 2 * trust * off

    bounds = [(0.0, None)] * len(prior)
    found = minimize(loss, prior, jac=True, bounds=bounds, options={"maxiter": ROUNDS})
    return np.asarray(found.x, dtype=np.float64)


def left_out_weights(
    left_out: np.ndarray, class_index: np.ndarray, counted: np.ndarray, weights: np.ndarray, trust: float = TRUST
) -> np.ndarray:
    """(labels, experts) the weights that each label would find without itself, by one Newton step from ``weights``.

    Weights that are zero stay zero. ``counted`` (labels,) says which labels the weights were learned from; other shapes
    as of :func:`pool_weights`.
    """
    mass = np.exp(log_softmax(np.tensordot(weights, left_out, 1)))
    expected = np.einsum("vic,ic->iv", left_out, mass)
    slope = (expected - left_out[:, np.arange(len(class_index)), class_index].T) * counted[:, None]
    used = weights > 0
    apart = (left_out - expected.T[:, :, None])[used]
    curve = np.einsum("vic,ic,wic->vw", apart, mass * counted[:, None], apart, optimize=True)
    found = np.tile(weights, (len(class_index), 1))
    found[:, used] += slope[:, used] @ np.linalg.inv(curve + 2 * trust * np.eye(used.sum()))
    return np.maximum(found, 0.0)


def pooled(experts: Sequence[Expert], weights: np.ndarray, pool: Executor) -> np.ndarray:
    """(n, classes) float32 log-probabilities of the pool.

    Experts are added up before they see a node, so that each view is read once.
    """
    of_view: dict[int, tuple[View, np.ndarray]] = {}
    offsets = np.zeros_like(experts[0].offsets)
    for weight, expert in zip(weights, experts):
        if weight > 0:
            offsets = offsets + weight * expert.offsets
            for view, part in expert.view.spread(weight * expert.weights):
                before = of_view.get(id(view))
                of_view[id(view)] = (view, part if before is None else before[1] + part)
    asked = [(view.rows, part.astype(np.float32)) for view, part in of_view.values()]
    total = np.empty((len(experts[0].view.rows), len(offsets)), dtype=np.float32)

    def fill(part: slice) -> None:
        scores = np.tile(offsets.astype(np.float32), (len(total[part]), 1))
        for rows, columns in asked:
            scores += rows[part] @ columns
        total[part] = log_softmax(scores)

    in_blocks(pool, len(total), fill)
    return total


def in_blocks(pool: Executor, count: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` for every block of rows; blocks, and so bits, are the same for any number of threads."""
    for done in [pool.submit(work, slice(start, start + BLOCK)) for start in range(0, count, BLOCK)]:
        done.result()


def add_by_class(rows: np.ndarray, class_index: np.ndarray, count: int) -> np.ndarray:
    """(classes, d) the rows of each class added up."""
    at = np.arange(len(class_index))
    return np.asarray(sp.csr_array((np.ones(len(at)), (class_index, at)), shape=(count, len(at))) @ rows)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Logarithms of shares over the last axis."""
    apart = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(apart - np.log(np.exp(apart).sum(axis=-1, keepdims=True)))


def log_loss(scores: np.ndarray, class_index: np.ndarray) -> float:
    """Minus the log-likelihood of the classes."""
    return float(log_losses(scores, class_index).sum())


def log_losses(scores: np.ndarray, class_index: np.ndarray) -> np.ndarray:
    """(labels,) minus the log-probability of each class."""
    return -log_softmax(scores)[np.arange(len(class_index)), class_index]
