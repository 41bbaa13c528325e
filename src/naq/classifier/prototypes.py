r"""Class means of a few labels, helped by the nodes without one, and left out in folds.

With unit vectors :math:`\hat z` and w = ``unlabelled``, :math:`m = 0` at first:

.. math::
    p_c = \sum_{i \text{ labelled } c} \hat z_i + w\, m_c, \qquad
    u_{qc} = \mathrm{softmax}_c\!\left(\cos(\hat z_q, p_c) / \tau\right), \qquad
    m_c \propto \sum_{q \text{ unlabelled}} u_{qc} \hat z_q, \quad |m_c| = 1

All nodes without a label together count as w labels of every class, however many they are: much beside one label,
little beside ten. That is the difference from soft k-means (:mod:`naq.heads.transductive`), where they outvote the
labels. Log-probabilities are :math:`\cos(\hat z_q, p_c) / T`.

Left out is a fifth of the labels at a time, never the only one of a class, and everything is found again without it:
a label draws nodes toward its class, which then speak for it. T is that with the least log-loss of the labels left
out, near ``USUAL`` where they are few.

Cost: O(6 rounds helpers d classes).
"""

from __future__ import annotations

import numpy as np

from naq.classifier.pool import Expert, add_by_class, log_losses, log_softmax
from naq.classifier.views import View
from naq.random import stream
from naq.unit_rows import unit_rows

ROUNDS = 5
SHARPNESS = 1 / 15  # the temperature tau of the shares, as in the head ``transductive``
SAMPLE = 1 << 13  # nodes without a label that help: of more, so many are drawn, always the same
FOLDS = 5
HELPERS = 1024  # nodes that help when labels are left out
USUAL, SPREAD = 0.12, 0.3  # the middle and the standard deviation of log T before any label is left out
TEMPERATURES = np.geomspace(0.03, 1.5, 40)
MOST_TRIED = 1000  # labels that T is chosen with at most


def centred_units(vectors: np.ndarray) -> np.ndarray:
    """(n, d) float32: rows minus the mean of all, of length one; rows within rounding of the mean become zero."""
    apart = vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
    return unit_rows(np.asarray(apart, dtype=np.float32), 1e-6)


def class_means(
    view: View,
    nodes: np.ndarray,
    class_index: np.ndarray,
    shares: np.ndarray,
    counted: np.ndarray,
    unlabelled: float = 1.0,
    beside: np.ndarray | None = None,
    alone: bool = False,
) -> Expert:
    """The expert of class means on one view; other arguments as of :func:`~naq.classifier.discriminant.discriminant`.

    Args:
        beside: (classes, d) what else counts for each class (:mod:`naq.classifier.names`); ``alone``: and no label does.
    """
    units, count = view.rows, len(shares)
    known, fold = unit_rows(units[nodes].astype(np.float64)), folds(class_index)
    helpers = units[helping_nodes(len(units), nodes)] if unlabelled > 0 else units[:0]
    everyone = np.zeros((1, count, units.shape[1])) if beside is None else beside[None].copy()
    if not alone:
        everyone[0] += add_by_class(known, class_index, count)
    whole = helped_means(everyone, helpers, unlabelled)[0]
    left, tried = known @ whole.T, np.flatnonzero(counted)
    if len(tried) and not alone:
        out = [tried[fold[tried] == k] for k in range(FOLDS)]
        without = everyone - np.stack([add_by_class(known[those], class_index[those], count) for those in out])
        some = helpers[:: -(-len(helpers) // HELPERS) or 1]
        for those, means in zip(out, helped_means(without, some, unlabelled)):
            left[those] = known[those] @ means.T
    tried = tried[:: -(-len(tried) // MOST_TRIED) or 1]
    caution = np.log(TEMPERATURES / USUAL) ** 2 / (2 * SPREAD**2)
    losses = np.array([log_losses(left[tried] / one, class_index[tried]) for one in TEMPERATURES])
    total = losses.sum(axis=1) + caution
    chosen, unseen = float(TEMPERATURES[total.argmin()]), left.copy()
    unseen[tried] /= TEMPERATURES[(total[:, None] - losses).argmin(axis=0), None] / chosen
    name = "names" if alone else f"class means of {view.name}"
    return Expert(
        name, view, whole.T / chosen, np.zeros(count), log_softmax(left / chosen), log_softmax(unseen / chosen)
    )


def helped_means(anchors: np.ndarray, helpers: np.ndarray, unlabelled: float) -> np.ndarray:
    """(fits, classes, d) class means of several fits at once, of length one.

    Shapes:
        - anchors: (fits, classes, d) the labelled rows of each class, added up
        - helpers: (nodes, d) unit rows without a label
    """
    helped = np.zeros_like(anchors)
    fits, count, width = anchors.shape
    for _ in range(ROUNDS if len(helpers) else 0):
        narrow = (unit_rows(anchors + unlabelled * helped) / SHARPNESS).reshape(-1, width).T.astype(np.float32)
        mass = (helpers @ narrow).reshape(len(helpers), fits, count)
        mass -= mass.max(axis=-1, keepdims=True)
        np.exp(mass, out=mass)
        mass /= mass.sum(axis=-1, keepdims=True)
        sums = mass.reshape(len(helpers), -1).T @ helpers
        helped = unit_rows(sums.astype(np.float64).reshape(fits, count, width))
    return np.asarray(unit_rows(anchors + unlabelled * helped))


def folds(class_index: np.ndarray) -> np.ndarray:
    """(labels,) a fold for each label; the labels of a class are spread over as many folds as they can be."""
    order = np.argsort(class_index, kind="stable")
    sizes = np.bincount(class_index)
    place = np.empty(len(class_index), dtype=np.int64)
    place[order] = np.arange(len(class_index)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return (place + class_index) % FOLDS


def helping_nodes(count: int, support: np.ndarray) -> np.ndarray:
    """Nodes without a label, ascending: all, or ``SAMPLE`` of them and of the labelled."""
    drawn = np.arange(count)
    if count > SAMPLE:
        drawn = np.sort(stream(0, "classifier/helpers").permutation(count)[:SAMPLE])
    return drawn[~np.isin(drawn, support)]
