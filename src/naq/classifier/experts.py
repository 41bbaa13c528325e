r"""Experts: what one view of the graph says about the class of every node, and about every label without itself.

**Class means**, helped by the nodes without a label. With unit vectors :math:`\hat z` and w = ``unlabelled``,
:math:`m = 0` at first:

.. math::
    p_c = \sum_{i \text{ labelled } c} \hat z_i + w\, m_c, \qquad
    u_{qc} = \mathrm{softmax}_c\!\left(\cos(\hat z_q, p_c) / \tau\right), \qquad
    m_c \propto \sum_{q \text{ unlabelled}} u_{qc} \hat z_q, \quad |m_c| = 1

All nodes without a label together count as w labels of every class, however many they are. That is the difference from
soft k-means (:mod:`naq.heads.transductive`), where they outvote the labels. Log-probabilities are
:math:`\cos(\hat z_q, p_c) / T`. A fifth of the labels at a time is left out, never the only one of a class, and
everything is found again without it: a label draws nodes toward its class, which then speak for it. T has the least
log-loss of the labels left out, near ``USUAL_TEMPERATURE`` if they are few. Cost: O(6 rounds helpers d classes).

**Regularised linear discriminant**, left out exactly. With class means :math:`m_c` of the labelled rows, :math:`R`
these rows minus their class means, and shares :math:`\pi` of the classes:

.. math::
    A = R^T R + \lambda I, \qquad D_c(q) = (z_q - m_c)^T A^{-1} (z_q - m_c), \qquad
    \log p(c \mid q) = \log \pi_c - s\, D_c(q) + \mathrm{const}

Without label i of class c, with :math:`u = z_i - m_c`, :math:`g = n_c / (n_c - 1)` and :math:`t = u^T A^{-1} u`, mean
and scatter change by rank one, so that

.. math::
    D_{c,-i}(i) = \frac{g^2\, t}{1 - g t}, \qquad
    D_{k,-i}(i) = D_k(i) + \frac{g\, \left(u^T A^{-1} (z_i - m_k)\right)^2}{1 - g t} \quad (k \ne c)

is what solving again without i gives. A mean of few labels adds :math:`h / n_c` to the distances from it on average,
:math:`h = \mathrm{tr}(A^{-1} R^T R) / (m - C)`; the share ``offset`` of that is subtracted, so that classes with few
labels are not too far (without i, n_c is one less). :math:`\lambda` and the sharpness s have the least log-loss of the
labels left out. The only label of a class cannot be left out: its class would have no mean. :math:`A^{-1}` comes from
the eigenvectors of :math:`R R^T` or :math:`R^T R`, whichever is smaller.
Cost: O(m d min(m, d) + n d classes) for m labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from naq.classifier.views import View, thin_out
from naq.graph.operators import unit_rows
from naq.random import stream

MOST_TRIED = 1000  # labels that temperature, penalty and sharpness are chosen with at most

ROUNDS = 5
SHARE_TEMPERATURE = 1 / 15  # tau, as in the head ``transductive``
SAMPLE = 1 << 13  # nodes without a label that help at most, always the same ones
FOLDS = 5
HELPERS = 1024  # nodes that help when labels are left out
USUAL_TEMPERATURE, SPREAD = 0.12, 0.3  # the middle and the standard deviation of log T before any label is left out
TEMPERATURES = np.geomspace(0.03, 1.5, 40)

PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SHARPNESS = tuple(float(s) for s in np.geomspace(0.02, 1000, 17))
USUAL = 10.0  # the penalty if few labels can be left out, and the sharpness if none can
CAUTION = 0.1  # what a factor of e away from the usual penalty costs, in log-loss of one label
OFFSET = 0.5
"""Chosen over 0 and 1 on eight graphs: 1 gains twice as much in accuracy per class and loses as much in accuracy."""
FAR = 1e6  # the distance of a label from its class when it is the only one


@dataclass(frozen=True, eq=False)
class Expert:
    """Log-probabilities ``rows @ weights + offsets`` of a view, but for a constant of each node.

    Attributes:
        weights: (d, classes), ``offsets``: (classes,).
        leave_one_out: (labels, classes) log-probabilities of the labels, each without itself.
        unseen: (labels, classes) the same if the label had no part in what was chosen either (penalty, sharpness).
            Weights are learned from ``leave_one_out``, what an answer is worth from ``unseen``.
    """

    name: str
    view: View
    weights: np.ndarray
    offsets: np.ndarray
    leave_one_out: np.ndarray
    unseen: np.ndarray

    @property
    def source(self) -> str:
        """The name of its view, or ``names`` for the expert of the classes' names."""
        return self.name if self.name == "names" else self.view.name

    def scores(self, nodes: np.ndarray) -> np.ndarray:
        """(nodes, classes) float32 log-probabilities, but for a constant of each node."""
        rows = self.view.at(nodes)
        return np.asarray(rows @ self.weights.astype(np.float32) + self.offsets.astype(np.float32))

    def predicted(self, nodes: np.ndarray) -> np.ndarray:
        """(nodes,) the likeliest class of each."""
        return np.asarray(self.scores(nodes).argmax(axis=1))


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Logarithms of the softmax over the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def log_losses(scores: np.ndarray, class_index: np.ndarray) -> np.ndarray:
    """(labels,) minus the log-probability of each class."""
    return -log_softmax(scores)[np.arange(len(class_index)), class_index]


def add_by_class(rows: np.ndarray, class_index: np.ndarray, count: int) -> np.ndarray:
    """(classes, d) the rows of each class added up."""
    at = np.arange(len(class_index))
    return np.asarray(sp.csr_array((np.ones(len(at)), (class_index, at)), shape=(count, len(at))) @ rows)


def fit_class_means(
    view: View,
    nodes: np.ndarray,
    class_index: np.ndarray,
    shares: np.ndarray,
    counted: np.ndarray,
    unlabelled: float = 1.0,
    anchors: np.ndarray | None = None,
    names_only: bool = False,
) -> Expert:
    """The expert of class means on one view; other arguments as of :func:`fit_discriminant`.

    Args:
        anchors: (classes, d) what is added to the labels of each class (:mod:`naq.classifier.names`).
        names_only: whether only the anchors count, and no label.
    """
    units, count = view.rows, len(shares)
    known, fold = unit_rows(units[nodes].astype(np.float64)), assign_folds(class_index)
    helpers = units[helping_nodes(len(units), nodes)] if unlabelled > 0 else units[:0]
    total = np.zeros((1, count, units.shape[1])) if anchors is None else anchors[None].copy()
    if not names_only:
        total[0] += add_by_class(known, class_index, count)
    whole = refine_means(total, helpers, unlabelled)[0]
    left, tried = known @ whole.T, np.flatnonzero(counted)
    if len(tried) and not names_only:
        out = [tried[fold[tried] == k] for k in range(FOLDS)]
        without = total - np.stack([add_by_class(known[those], class_index[those], count) for those in out])
        for those, means in zip(out, refine_means(without, thin_out(helpers, HELPERS), unlabelled)):
            left[those] = known[those] @ means.T
    tried = thin_out(tried, MOST_TRIED)
    caution = np.log(TEMPERATURES / USUAL_TEMPERATURE) ** 2 / (2 * SPREAD**2)
    losses = np.array([log_losses(left[tried] / one, class_index[tried]) for one in TEMPERATURES])
    costs = losses.sum(axis=1) + caution
    chosen, unseen = float(TEMPERATURES[costs.argmin()]), left.copy()
    unseen[tried] /= TEMPERATURES[(costs[:, None] - losses).argmin(axis=0), None] / chosen
    name = "names" if names_only else f"class means of {view.name}"
    logs = log_softmax(left / chosen), log_softmax(unseen / chosen)
    return Expert(name, view, whole.T / chosen, np.zeros(count), *logs)


def refine_means(anchors: np.ndarray, helpers: np.ndarray, unlabelled: float) -> np.ndarray:
    """(fits, classes, d) class means of several fits at once, of length one.

    Shapes:
        - anchors: (fits, classes, d) the labelled rows of each class, added up
        - helpers: (nodes, d) unit rows without a label
    """
    helped = np.zeros_like(anchors)
    fits, count, width = anchors.shape
    for _ in range(ROUNDS if len(helpers) else 0):
        narrow = (unit_rows(anchors + unlabelled * helped) / SHARE_TEMPERATURE).reshape(-1, width).T
        shares = (helpers @ narrow.astype(np.float32)).reshape(len(helpers), fits, count)
        shares -= shares.max(axis=-1, keepdims=True)  # softmax in place: these arrays are the largest here
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=-1, keepdims=True)
        sums = shares.reshape(len(helpers), -1).T @ helpers
        helped = unit_rows(sums.astype(np.float64).reshape(fits, count, width))
    return np.asarray(unit_rows(anchors + unlabelled * helped))


def assign_folds(class_index: np.ndarray) -> np.ndarray:
    """(labels,) a fold for each label; the labels of a class are spread over as many folds as possible."""
    order = np.argsort(class_index, kind="stable")
    sizes = np.bincount(class_index)
    place = np.empty(len(class_index), dtype=np.int64)
    place[order] = np.arange(len(class_index)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return (place + class_index) % FOLDS


def helping_nodes(count: int, support: np.ndarray) -> np.ndarray:
    """Nodes without a label, ascending: all, or those of a sample of ``SAMPLE`` nodes."""
    drawn = np.arange(count)
    if count > SAMPLE:
        drawn = np.sort(stream(0, "classifier/helpers").permutation(count)[:SAMPLE])
    return drawn[~np.isin(drawn, support)]


class Scatter:
    """Labelled rows (labels, d), prepared for any penalty; ``class_index`` is (labels,) the class of each."""

    def __init__(self, rows: np.ndarray, class_index: np.ndarray, count: int, offset: float = OFFSET) -> None:
        self.known, self.class_index, self.offset = rows.astype(np.float64), class_index, offset
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
        """(some, classes) D of some labels, each without itself; infinite from the only label of a class to it."""
        shrunk = self.values / (self.values + penalty)
        known, known_in, own = self.known[some], self.known_in[some], self.class_index[some]
        toward = (known @ self.middle.T - (known_in * shrunk) @ self.middle_in.T) / penalty
        between = (self.middle @ self.middle.T - (self.middle_in * shrunk) @ self.middle_in.T) / penalty
        itself = ((known**2).sum(axis=1) - known_in**2 @ shrunk) / penalty
        at, fewer = np.arange(len(some)), np.maximum(self.sizes - 1, 1)[own]
        grow = np.where(self.sizes > 1, self.sizes / np.maximum(self.sizes - 1, 1), 0.0)[own]
        whole = itself[:, None] - 2 * toward + np.diag(between)
        across = itself[:, None] - toward - toward[at, own][:, None] + between[own]
        size = whole[at, own]
        left = whole + (grow / (1 - grow * size))[:, None] * across**2 - self._noise(shrunk) / self.sizes
        to_own = grow**2 * size / (1 - grow * size) - self._noise(shrunk) / fewer
        left[at, own] = np.where(grow > 0, to_own, np.inf)
        return left

    def _noise(self, shrunk: np.ndarray) -> float:
        return self.offset * float(shrunk.sum()) / max(len(self.known) - len(self.sizes), 1)


def scatter_axes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(r,) squared singular values above zero and (d, r) right singular vectors of rows (labels, d)."""
    wide = len(rows) < rows.shape[1]
    values, axes = np.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    kept = values > 1e-10 * max(values[-1], 1e-10)
    values, axes = values[kept], axes[:, kept]
    return values, (rows.T @ axes) / np.sqrt(values) if wide else axes


def fit_discriminant(
    view: View,
    nodes: np.ndarray,
    class_index: np.ndarray,
    shares: np.ndarray,
    counted: np.ndarray,
    offset: float = OFFSET,
) -> Expert:
    """The discriminant of one view.

    Args:
        nodes, class_index: (labels,) the labelled nodes and the class of each; then nodes that stand in for labels.
        shares: (classes,) of the classes among nodes.
        counted: of the labels, whether each can be left out: it is not the only one of its class.
    """
    found, prior = Scatter(view.at(nodes), class_index, len(shares), offset), np.log(shares)
    (penalty, sharp), without = _choose_setting(found, prior, counted)
    weights, offsets = found.linear(penalty)
    left = np.minimum(found.leave_one_out(penalty, np.arange(len(nodes))), FAR)
    logs = log_softmax(prior - sharp * left)[: len(counted)]
    unseen = logs.copy()
    for place, (other, other_sharp) in without.items():
        row = found.leave_one_out(other, np.array([place]))
        unseen[place] = log_softmax(prior - other_sharp * np.minimum(row, FAR))[0]
    return Expert(view.name, view, 2 * sharp * weights, prior - 2 * sharp * offsets, logs, unseen)


def _choose_setting(
    found: Scatter, prior: np.ndarray, counted: np.ndarray
) -> tuple[tuple[float, float], dict[int, tuple[float, float]]]:
    """Penalty and sharpness with the least log-loss of the labels left out; and for each label what the others alone
    choose, if that is something else."""
    tried = np.flatnonzero(counted)
    if not len(tried):
        return (USUAL, USUAL), {}
    tried = thin_out(tried, MOST_TRIED)
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
