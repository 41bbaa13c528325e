r"""All experts on all views, from the first label to the thousandth.

Experts are class means on ``naq-plus`` and ``smooth`` (:mod:`candidate.means`), a discriminant on every view
(:mod:`candidate.discriminant`) and whatever comes from outside. Labels that are left out decide what each is
worth (:mod:`candidate.pool`). While no label can be left out, class means decide.

Cost: one eigenproblem of the size of the labels or of a view's columns per view, then O(n d classes) once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from candidate.discriminant import discriminant
from candidate.means import class_means
from candidate.pool import Linear, Outside, left_out_weights, log_softmax, pool_weights, pooled
from candidate.views import View

MEANS = {"naq-plus": 0.7, "smooth": 0.1}
"""Views on which class means are taken, and their weights before any label is left out."""
OTHERS = 0.1
"""The weight of each other expert before any label is left out."""
MOST_WEIGHED = 2000
"""Labels from which weights are learned at most."""


class LabelStack:
    """Probabilities of all classes for all nodes from labelled ones.

    Args:
        views: of :func:`candidate.views.make_views`.
        outside: experts that used no labels.

    Attributes:
        nodes, slots: (labels,) the labelled nodes and the place of the class of each.
        shares: (classes,) of the classes among nodes, as far as the labels tell.
        alone: (labels,) whether a label is the only one of its class.
        evidence: (experts and outside, labels, classes) log-probabilities of the labels, each left out.
        experts: one :class:`~candidate.pool.Linear` each; ``strengths``: (experts and outside,) their weights.
    """

    nodes: np.ndarray
    slots: np.ndarray
    shares: np.ndarray
    alone: np.ndarray
    experts: list[Linear]
    evidence: np.ndarray
    strengths: np.ndarray
    _chosen_with: int

    def __init__(self, views: Sequence[View], outside: Sequence[Outside] = ()) -> None:
        self.views, self.outside = list(views), list(outside)

    def fit_labels(self, nodes: np.ndarray, slots: np.ndarray, classes: int) -> LabelStack:
        """Learn from labelled ``nodes``, (labels,) with the class 0 .. classes - 1 of each in ``slots``; every class
        at least once.
        """
        return self._fit(np.asarray(nodes, dtype=np.int64), np.asarray(slots, dtype=np.int64), classes, None)

    def update(self, node: int, slot: int) -> LabelStack:
        """Learn one more label, or another class for a labelled node, from where the last fit ended.

        What left-out labels chose (penalties, temperatures) is kept until there are a tenth more labels; a new class
        is learned anew.
        """
        kept = self.nodes != node
        nodes, slots = np.append(self.nodes[kept], node), np.append(self.slots[kept], slot)
        classes = len(self.shares)
        same = slot < classes and len(np.unique(slots)) == classes and len(nodes) < 1.1 * self._chosen_with
        before = self.experts if same and not self.alone.all() else None
        return self._fit(nodes, slots, max(classes, slot + 1), before)

    def _fit(self, nodes: np.ndarray, slots: np.ndarray, classes: int, before: list[Linear] | None) -> LabelStack:
        self.nodes, self.slots = nodes, slots
        sizes = np.bincount(slots, minlength=classes)
        self.shares, self.alone = class_shares(sizes), sizes[slots] == 1
        counted = np.where(self.alone, 0.0, 1.0)
        makers = [(class_means, view) for view in self.views if view.name in MEANS]
        makers += [(discriminant, view) for view in self.views if view.name != "smooth"]
        last: Sequence[Linear | None] = before or [None] * len(makers)
        self.experts = [make(view, nodes, slots, self.shares, counted, one) for (make, view), one in zip(makers, last)]
        silent = self.alone.all() and any(make is class_means for make, _ in makers)
        prior = [MEANS[view.name] if make is class_means else 0.0 if silent else OTHERS for make, view in makers]
        self.evidence = np.stack(
            [e.left_out for e in self.experts] + [log_softmax(o.scores[nodes]) for o in self.outside]
        )
        some = slice(None, None, -(-len(nodes) // MOST_WEIGHED))
        self.strengths = pool_weights(
            self.evidence[:, some],
            slots[some],
            counted[some],
            np.array(prior + [o.prior for o in self.outside]),
            start=self.strengths if before else None,
        )
        self._chosen_with = self._chosen_with if before else len(nodes)
        self._logs: np.ndarray | None = None
        return self

    def log_proba(self) -> np.ndarray:
        """(n, classes) float32."""
        if self._logs is None:
            self._logs = pooled(self.experts, self.outside, self.strengths)
        return self._logs

    def predict_proba(self) -> np.ndarray:
        """(n, classes) float32."""
        return np.exp(self.log_proba())

    def left_out(self) -> np.ndarray:
        """(labels, classes) float64 probabilities of the labels, each without itself; that of a class with one label
        says nothing (``alone``).
        """
        counted = np.where(self.alone, 0.0, 1.0)
        strengths = left_out_weights(self.evidence, self.slots, counted, self.strengths)
        return np.exp(log_softmax(np.einsum("iv,vic->ic", strengths, self.evidence)))

    @property
    def weights(self) -> dict[str, float]:
        """The share of each expert in the answer."""
        total = max(float(self.strengths.sum()), 1e-12)
        names = [one.name for one in self.experts] + [one.name for one in self.outside]
        return {name: float(weight) / total for name, weight in zip(names, self.strengths)}


def class_shares(sizes: np.ndarray) -> np.ndarray:
    """(classes,) of the classes among nodes: equal where all have as many labels, which is a choice and says
    nothing; else those of the labels, half a label added to each.
    """
    if (sizes == sizes[0]).all():
        return np.full(len(sizes), 1 / len(sizes))
    return np.asarray((sizes + 0.5) / (sizes + 0.5).sum())
