r"""Class means of a few labels, helped by the nodes without one, and left out in folds.

With unit vectors :math:`\hat z`, and m = 0 at first:

.. math::
    p_c = \sum_{i \text{ labelled } c} \hat z_i + m_c, \qquad
    u_{qc} = \mathrm{softmax}_c\!\left(\cos(\hat z_q, p_c) / \tau\right), \qquad
    m_c \propto \sum_{q \text{ unlabelled}} u_{qc} \hat z_q, \quad |m_c| = 1

All nodes without a label together count as one label of every class: much beside one label, little beside ten. The
log-probabilities are :math:`\cos(\hat z_q, p_c) / T`.

Left out is a fifth of the labels at a time, never the only one of a class, and everything is found again without it:
a label draws nodes toward its class, which then speak for it. T is that with the least log-loss of the labels left
out, near ``USUAL`` where they are few.

Cost: O(6 rounds helpers d classes).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from candidate.pool import Linear, log_softmax, surprise
from candidate.views import View
from naq.random import stream
from naq.unit_rows import unit_rows

ROUNDS = 5
SHARPNESS = 1 / 15
"""The temperature tau of the shares."""
SAMPLE = 1 << 13
"""Nodes without a label that help: of more, so many are drawn, always the same."""
FOLDS = 5
HELPERS = 2048
"""Nodes that help when labels are left out."""
USUAL, SPREAD = 0.12, 0.3
"""The middle and the standard deviation of log T before any label is left out."""
TEMPERATURES = tuple(float(t) for t in np.geomspace(0.03, 1.5, 40))
MOST_TRIED = 1000
"""Labels that T is chosen with at most."""


def class_means(
    view: View,
    nodes: np.ndarray,
    slots: np.ndarray,
    shares: np.ndarray,
    counted: np.ndarray,
    before: Linear | None = None,
) -> Linear:
    """The expert of class means on one view; arguments as of :func:`~candidate.discriminant.discriminant`."""
    units, count = view.rows, len(shares)
    known, fold = unit_rows(units[nodes].astype(np.float64)), folds(slots)
    helpers = helping_nodes(len(units), nodes)
    everyone = sums(known, slots, count)[None]
    whole, helped = helped_means(everyone, units[helpers], before.state[0] if before else None)
    left, apart = known @ whole[0].T, np.empty(0)
    told = np.flatnonzero(counted > 0)
    if len(told):
        out = [told[fold[told] == k] for k in range(FOLDS)]
        without = everyone - np.stack([sums(known[those], slots[those], count) for those in out])
        some = units[helpers[:: -(-len(helpers) // HELPERS)]] if len(helpers) else units[:0]
        means, apart = helped_means(without, some, before.state[1] if before else None)
        for those, of_fold in zip(out, means):
            left[those] = known[those] @ of_fold.T
    if before is not None:
        chosen = before.chosen[0]
    else:
        tried = told[:: -(-len(told) // MOST_TRIED) or 1]
        chosen = min(
            TEMPERATURES,
            key=lambda t: (
                surprise(left[tried] / t, slots[tried], counted[tried]) + np.log(t / USUAL) ** 2 / (2 * SPREAD**2)
            ),
        )
    return Linear(
        f"class means of {view.name}",
        view,
        whole[0].T / chosen,
        np.zeros(count),
        log_softmax(left / chosen),
        (chosen,),
        (helped, apart),
    )


def sums(known: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
    """(classes, d) the rows of each class added up."""
    at = np.arange(len(slots))
    return np.asarray(sp.csr_array((np.ones(len(slots)), (slots, at)), shape=(count, len(slots))) @ known)


def helped_means(
    anchors: np.ndarray, helpers: np.ndarray, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(fits, classes, d) class means of several fits at once, of length one, and the m they were helped by.

    Shapes:
        - anchors: (fits, classes, d) the labelled rows of each class, added up
        - helpers: (nodes, d) unit rows without a label
        - start: (fits, classes, d) m of nearly the same labels, from which one round is enough
    """
    warm = start is not None and start.shape == anchors.shape
    helped = start if start is not None and warm else np.zeros_like(anchors)
    fits, count, width = anchors.shape
    for _ in range((1 if warm else ROUNDS) if len(helpers) else 0):
        narrow = (unit_rows(anchors + helped) / SHARPNESS).reshape(-1, width).T.astype(np.float32)
        chances = np.exp(log_softmax((helpers @ narrow).reshape(len(helpers), fits, count))).reshape(len(helpers), -1)
        helped = unit_rows((chances.T @ helpers).astype(np.float64).reshape(fits, count, width))
    return unit_rows(anchors + helped), helped


def folds(slots: np.ndarray) -> np.ndarray:
    """(labels,) a fold for each label, so that no fold has much more of a class than others; one label of each class
    at most where a class has few.
    """
    order = np.argsort(slots, kind="stable")
    sizes = np.bincount(slots)
    place = np.empty(len(slots), dtype=np.int64)
    place[order] = np.arange(len(slots)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return (place + slots) % FOLDS


def helping_nodes(count: int, nodes: np.ndarray) -> np.ndarray:
    """Nodes without a label, ascending: all, or ``SAMPLE`` of them and of the labelled."""
    drawn = np.arange(count)
    if count > SAMPLE:
        drawn = np.sort(stream(0, "classifier/helpers").permutation(count)[:SAMPLE])
    return drawn[~np.isin(drawn, nodes)]
