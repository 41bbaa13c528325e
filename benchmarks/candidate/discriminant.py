r"""Regularised linear discriminant of a view, left out exactly.

With :math:`m_c` the class means of the labelled rows, :math:`R` these rows minus their class means, and shares
:math:`\pi` of the classes:

.. math::
    A = R^T R + \lambda I, \qquad D_c(q) = (z_q - m_c)^T A^{-1} (z_q - m_c), \qquad
    \log p(c \mid q) = \log \pi_c - s\, D_c(q) + \mathrm{const}

Without label i of class c, with :math:`u = z_i - m_c`, :math:`g = n_c / (n_c - 1)` and :math:`t = u^T A^{-1} u`,
mean and scatter change by rank one, so that

.. math::
    D_{c,-i}(i) = \frac{g^2\, t}{1 - g t}, \qquad
    D_{k,-i}(i) = D_k(i) + \frac{g\, \big(u^T A^{-1} (z_i - m_k)\big)^2}{1 - g t} \quad (k \ne c)

is what solving again without i gives. A mean of few labels is off by itself, which adds :math:`h / n_c` to the
distances from it on average, :math:`h = \mathrm{tr}(A^{-1} R^T R) / (m - C)`; ``OFFSET`` of that is taken off, so
that classes with few labels are not too far (without i, n_c is one less). :math:`\lambda` and the sharpness s are
those with the least log-loss of the labels left out. The only label of a class cannot be left out: its class would
have no mean.

:math:`A^{-1}` comes from the eigenvectors of :math:`R R^T` or :math:`R^T R`, whichever is smaller: no matrix of
labels times labels where there are many. Cost: O(m d min(m, d) + n d classes) for m labels.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from candidate.pool import Linear, log_softmax, surprise
from candidate.views import View

PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SHARPNESS = tuple(float(s) for s in np.geomspace(0.02, 1000, 17))
USUAL = 10.0
"""The penalty where few labels can be left out."""
CAUTION = 0.1
"""What a factor of e away from the usual penalty costs, in log-loss of one label."""
OFFSET = 0.5
"""Chosen over 0 and 1 on eight graphs: 1 gains twice as much in accuracy per class and loses as much in accuracy."""
MOST_TRIED = 1000
"""Labels that penalty and sharpness are chosen with at most."""
FAR = 1e6
"""The distance of a label from its class when it is the only one."""


class Scatter:
    """What labelled rows (labels, d) of classes ``slots`` say, whatever the penalty."""

    def __init__(self, rows: np.ndarray, slots: np.ndarray, count: int) -> None:
        self.known, self.slots, self.sizes = rows.astype(np.float64), slots, np.bincount(slots, minlength=count)
        member = sp.csr_array((np.ones(len(slots)), (slots, np.arange(len(slots)))), shape=(count, len(slots)))
        self.middle = (member @ self.known) / self.sizes[:, None]
        self.values, self.axes = scatter_axes(self.known - self.middle[slots])
        self.known_in, self.middle_in = self.known @ self.axes, self.middle @ self.axes

    def linear(self, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """(d, classes) weights and (classes,) offsets: ``rows @ weights - offsets`` is -D / 2 but for a constant of
        each row.
        """
        shrunk = self.values / (self.values + penalty)
        weights = (self.middle.T - self.axes @ (shrunk[:, None] * self.middle_in.T)) / penalty
        offsets = np.einsum("cd,dc->c", self.middle, weights) - self._noise(shrunk) / self.sizes
        return weights, offsets / 2

    def left_out(self, penalty: float, some: np.ndarray) -> np.ndarray:
        """(some, classes) D of some labels, each without itself; infinite from the only label of a class to its
        class.
        """
        shrunk = self.values / (self.values + penalty)
        known, known_in, slots, sizes = self.known[some], self.known_in[some], self.slots[some], self.sizes
        toward = (known @ self.middle.T - (known_in * shrunk) @ self.middle_in.T) / penalty
        between = (self.middle @ self.middle.T - (self.middle_in * shrunk) @ self.middle_in.T) / penalty
        itself = ((known**2).sum(axis=1) - known_in**2 @ shrunk) / penalty
        at, fewer = np.arange(len(some)), np.maximum(sizes - 1, 1)[slots]
        grow = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)[slots]
        plain = itself[:, None] - 2 * toward + np.diag(between)
        across = itself[:, None] - toward - toward[at, slots][:, None] + between[slots]
        size = plain[at, slots]
        left = plain + (grow / (1 - grow * size))[:, None] * across**2 - self._noise(shrunk) / sizes
        own = grow**2 * size / (1 - grow * size) - self._noise(shrunk) / fewer
        left[at, slots] = np.where(grow > 0, own, np.inf)
        return left

    def _noise(self, shrunk: np.ndarray) -> float:
        return OFFSET * float(shrunk.sum()) / max(len(self.known) - len(self.sizes), 1)


def scatter_axes(apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(r,) squared singular values above zero and (d, r) right singular vectors of rows (labels, d)."""
    wide = len(apart) < apart.shape[1]
    values, axes = np.linalg.eigh(apart @ apart.T if wide else apart.T @ apart)
    kept = values > 1e-10 * max(values[-1], 1e-10)
    values, axes = values[kept], axes[:, kept]
    return values, (apart.T @ axes) / np.sqrt(values) if wide else axes


def discriminant(
    view: View,
    nodes: np.ndarray,
    slots: np.ndarray,
    shares: np.ndarray,
    counted: np.ndarray,
    before: Linear | None = None,
) -> Linear:
    """The expert of one view.

    Args:
        nodes, slots: (labels,) the labelled nodes and their classes.
        shares: (classes,) of the classes among nodes.
        counted: (labels,) how much each left-out label counts; 0 for the only label of a class.
        before: the same expert with nearly the same labels, whose penalty and sharpness are kept.
    """
    found, prior = Scatter(view.at(nodes), slots, len(shares)), np.log(shares)
    penalty, sharp = before.chosen if before is not None else _chosen(found, prior, counted)
    weights, offsets = found.linear(penalty)
    left = np.minimum(found.left_out(penalty, np.arange(len(nodes))), FAR)
    return Linear(
        view.name,
        view,
        2 * sharp * weights,
        prior - 2 * sharp * offsets,
        log_softmax(prior - sharp * left),
        (penalty, sharp),
    )


def _chosen(found: Scatter, prior: np.ndarray, counted: np.ndarray) -> tuple[float, float]:
    """Penalty and sharpness with the least log-loss of the labels left out."""
    told = np.flatnonzero(counted > 0)
    told = told[:: -(-len(told) // MOST_TRIED) or 1]
    best = (np.inf, USUAL, SHARPNESS[0])
    for penalty in PENALTIES:
        left, off = found.left_out(penalty, told), CAUTION * float(np.log(penalty / USUAL) ** 2)
        for sharp in SHARPNESS:
            loss = surprise(prior - sharp * left, found.slots[told], counted[told]) + off
            best = min(best, (loss, penalty, sharp))
    return best[1], best[2]
