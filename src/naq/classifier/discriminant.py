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
    D_{k,-i}(i) = D_k(i) + \frac{g\, \left(u^T A^{-1} (z_i - m_k)\right)^2}{1 - g t} \quad (k \ne c)

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

from naq.classifier.pool import Expert, add_by_class, log_losses, log_softmax
from naq.classifier.views import View

PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SHARPNESS = tuple(float(s) for s in np.geomspace(0.02, 1000, 17))
USUAL = 10.0  # the penalty where few labels can be left out, and the sharpness where none can
CAUTION = 0.1  # what a factor of e away from the usual penalty costs, in log-loss of one label
OFFSET = 0.5
"""Chosen over 0 and 1 on eight graphs: 1 gains twice as much in accuracy per class and loses as much in accuracy."""
MOST_TRIED = 1000  # labels that penalty and sharpness are chosen with at most
FAR = 1e6  # the distance of a label from its class when it is the only one


class Scatter:
    """What labelled rows (labels, d) say, whatever the penalty; ``class_index`` is (labels,) the class of each."""

    def __init__(self, rows: np.ndarray, class_index: np.ndarray, count: int) -> None:
        self.known, self.class_index = rows.astype(np.float64), class_index
        self.sizes = np.bincount(class_index, minlength=count)
        self.middle = add_by_class(self.known, class_index, count) / self.sizes[:, None]
        self.values, self.axes = scatter_axes(self.known - self.middle[class_index])
        self.known_in, self.middle_in = self.known @ self.axes, self.middle @ self.axes

    def linear(self, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """(d, classes) and (classes,): ``rows @ weights - offsets`` is -D / 2 but for a constant of each row."""
        shrunk = self.values / (self.values + penalty)
        weights = (self.middle.T - self.axes @ (shrunk[:, None] * self.middle_in.T)) / penalty
        offsets = np.einsum("cd,dc->c", self.middle, weights) - self._noise(shrunk) / self.sizes
        return weights, offsets / 2

    def leave_one_out(self, penalty: float, some: np.ndarray) -> np.ndarray:
        """(some, classes) D of some labels, each without itself; infinite from the only label of a class to its class."""
        shrunk = self.values / (self.values + penalty)
        known, known_in, own = self.known[some], self.known_in[some], self.class_index[some]
        toward = (known @ self.middle.T - (known_in * shrunk) @ self.middle_in.T) / penalty
        between = (self.middle @ self.middle.T - (self.middle_in * shrunk) @ self.middle_in.T) / penalty
        itself = ((known**2).sum(axis=1) - known_in**2 @ shrunk) / penalty
        at, fewer = np.arange(len(some)), np.maximum(self.sizes - 1, 1)[own]
        grow = np.where(self.sizes > 1, self.sizes / np.maximum(self.sizes - 1, 1), 0.0)[own]
        plain = itself[:, None] - 2 * toward + np.diag(between)
        across = itself[:, None] - toward - toward[at, own][:, None] + between[own]
        size = plain[at, own]
        left = plain + (grow / (1 - grow * size))[:, None] * across**2 - self._noise(shrunk) / self.sizes
        alone = grow**2 * size / (1 - grow * size) - self._noise(shrunk) / fewer
        left[at, own] = np.where(grow > 0, alone, np.inf)
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
    view: View, nodes: np.ndarray, class_index: np.ndarray, shares: np.ndarray, counted: np.ndarray
) -> Expert:
    """The expert of one view.

    Args:
        nodes, class_index: (labels,) the labelled nodes and the class of each; after the labels, nodes that stand in for some.
        shares: (classes,) of the classes among nodes.
        counted: of the labels, whether each can be left out: it is not the only one of its class.
    """
    found, prior = Scatter(view.at(nodes), class_index, len(shares)), np.log(shares)
    (penalty, sharp), without = _chosen(found, prior, counted)
    weights, offsets = found.linear(penalty)
    left = np.minimum(found.leave_one_out(penalty, np.arange(len(nodes))), FAR)
    logs = log_softmax(prior - sharp * left)[: len(counted)]
    unseen = logs.copy()
    for place, (other, other_sharp) in without.items():
        alone = found.leave_one_out(other, np.array([place]))
        unseen[place] = log_softmax(prior - other_sharp * np.minimum(alone, FAR))[0]
    return Expert(view.name, view, 2 * sharp * weights, prior - 2 * sharp * offsets, logs, unseen)


def _chosen(
    found: Scatter, prior: np.ndarray, counted: np.ndarray
) -> tuple[tuple[float, float], dict[int, tuple[float, float]]]:
    """Penalty and sharpness with the least log-loss of the labels left out; and of each label for which the others alone
    choose otherwise, what they choose."""
    tried = np.flatnonzero(counted)
    if not len(tried):
        return (USUAL, USUAL), {}
    tried = tried[:: -(-len(tried) // MOST_TRIED)]
    settings, losses, cautions = [], [], []
    for penalty in PENALTIES:
        left = found.leave_one_out(penalty, tried)
        for sharp in SHARPNESS:
            settings.append((penalty, sharp))
            losses.append(log_losses(prior - sharp * left, found.class_index[tried]))
            cautions.append(CAUTION * float(np.log(penalty / USUAL) ** 2))
    each = np.array(losses)
    total = each.sum(axis=1) + cautions
    best = int(total.argmin())
    others = (total[:, None] - each).argmin(axis=0)
    return settings[best], {int(tried[i]): settings[one] for i, one in enumerate(others.tolist()) if one != best}
