"""What labels say about every node: classes, probabilities, sets, the accuracy to expect, doubtful labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from naq.classifier.experts import Expert
from naq.classifier.frames import to_frame
from naq.classifier.labels import Labels
from naq.classifier.views import thin_out
from naq.errors import OptionError

MASS = 20.0  # labels that the probabilities count as when the threshold of sets is chosen
NARROW = 1.8
"""Half an interval in standard deviations: nine of ten lay inside on eight graphs (normal distribution: 1.64)."""
FLOOR = 0.01
"""The standard deviation that no number of labels takes away: without it, 81 % of the intervals of 200 labels in every
class held on seven graphs, with it 93 %."""
SAMPLE = 2048  # nodes from which thresholds are taken


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The share of the nodes without a label that is expected to be right, with an interval for nine of ten cases."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, labels: float) -> ExpectedAccuracy:
        """The interval of a share known from left-out labels, two right and two wrong added (Agresti, Coull)."""
        value = min(max(value, 0.0), 1.0)
        share = (labels * value + 2) / (labels + 4)
        spread = NARROW * float(np.sqrt(share * (1 - share) / (labels + 4) + FLOOR**2))
        return cls(value, max(0.0, value - spread), min(1.0, value + spread))

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} % in nine of ten cases)"


@dataclass(frozen=True)
class DoubtfulLabel:
    """A label for which, once it is left out, another class is likelier: that class, and how likely each is."""

    node: int
    given: Any
    instead: Any
    given_probability: float
    instead_probability: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """What some labels say about every node; how it is made is in :mod:`naq.classifier.confidence`.

    Attributes:
        labels: L labels in C classes.
        probabilities: (n, C) float32, of every class, were one of them the right one.
        leave_one_out: (L, C) float32, those of the labelled nodes, each without its own label; NaN for the only one
            of a class.
        outside: (n,) bool, which nodes belong to none of the classes; None unless requested.
        experts: those that were asked, ``weights``: (experts,) how much each counts.
        trusted: how likely names of the classes mean anything (:func:`naq.classifier.names.trust`); None without
            names.
        shares: (C,) of the classes among nodes, as they were taken to be.
        unmet: the share of the nodes that may be of classes without a label.
        first: what is said of many nodes is said of those from this one on.
        names: (n,) of the nodes, or None.
    """

    labels: Labels
    probabilities: np.ndarray
    leave_one_out: np.ndarray
    outside: np.ndarray | None
    experts: list[Expert]
    weights: np.ndarray
    trusted: float | None
    shares: np.ndarray
    unmet: float
    _expected: ExpectedAccuracy | None
    first: int = 0
    names: np.ndarray | None = None
    _sets: dict[float, np.ndarray] = field(default_factory=dict)

    @property
    def predicted(self) -> np.ndarray:
        """(n,) the likeliest class of every node; of objects, with None for nodes that belong to no class."""
        names = self.labels.classes[self.probabilities.argmax(axis=1)]
        if self.outside is not None:
            names = names.astype(object)
            names[self.outside] = None
        return names

    @cached_property
    def transduction(self) -> np.ndarray:
        """(n,) ``predicted``, but for the labelled nodes, which have the class that was given."""
        chosen = self.predicted
        chosen[self.labels.nodes] = self.labels.values
        return chosen

    @cached_property
    def has_other_labels(self) -> np.ndarray:
        """(L,) whether a label could be left out: it is not the only one of its class."""
        return ~np.isnan(self.leave_one_out[:, 0])

    @cached_property
    def unlabelled(self) -> np.ndarray:
        """Nodes without a label."""
        return np.delete(np.arange(len(self.probabilities)), self.labels.nodes)

    @property
    def free(self) -> np.ndarray:
        """Nodes without a label, from the ``first`` on."""
        return self.unlabelled[np.searchsorted(self.unlabelled, self.first) :]

    @property
    def expected(self) -> ExpectedAccuracy:
        """What share of the nodes without a label is right, as far as can be known without their classes."""
        if self._expected is None:
            raise OptionError("every node has a label, so there is no accuracy to expect; leave some without.")
        if not self.first:
            return self._expected
        sure = self.probabilities.max(axis=1)  # by how much these are surer than all
        more = float(sure[self.free].mean() - sure[self.unlabelled].mean())
        ends = (self._expected.value, self._expected.low, self._expected.high)
        return ExpectedAccuracy(*(min(max(one + more, 0.0), 1.0) for one in ends))

    def expected_by_class(self) -> list[ExpectedAccuracy | None]:
        """For each class the share of its predictions for nodes without a label that is right; None if none."""
        some = self.probabilities[self.free]
        named, sure = some.argmax(axis=1), some.max(axis=1)
        sizes = np.bincount(self.labels.class_index, minlength=len(self.labels.classes))
        those = (sure[named == place] for place in range(len(sizes)))
        values = [float(one.mean(dtype=np.float64)) * (1 - self.unmet) if len(one) else None for one in those]
        return [None if v is None else ExpectedAccuracy.around(v, float(size)) for v, size in zip(values, sizes)]

    def view_weights(self) -> dict[str, float]:
        """The share of each view in the answer, the largest first; those that count less than 1 % are left out."""
        total: dict[str, float] = {}
        for expert, weight in zip(self.experts, self.weights):
            total[expert.source] = total.get(expert.source, 0.0) + float(weight)
        all_of_it = sum(total.values()) or 1.0
        found = {name: weight / all_of_it for name, weight in total.items() if weight > 0.01 * all_of_it}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def sets(self, level: float) -> np.ndarray:
        """(n, C) bool: classes that together hold the true one for about ``level`` of the nodes."""
        if not 0 < level < 1:
            raise OptionError(f"level is {level!r}; expected a probability above 0 and below 1, e.g. 0.9.")
        if level not in self._sets:
            found = self.probabilities >= self._threshold(level)
            found[np.arange(len(found)), self.probabilities.argmax(axis=1)] = True
            self._sets[level] = found
        return self._sets[level]

    def _threshold(self, level: float) -> float:
        """The highest probability above which enough classes are held."""
        some = self.probabilities[thin_out(self.unlabelled, SAMPLE)] if len(self.unlabelled) else self.probabilities
        ordered = np.sort(some, axis=None)[::-1].astype(np.float64)
        mass = np.cumsum(ordered) / len(some)
        counted = self.has_other_labels
        left, own = self.leave_one_out[counted], self.labels.class_index[counted]
        held_from = np.where(left.argmax(axis=1) == own, 1.0, left[np.arange(len(own)), own])
        held = len(own) - np.searchsorted(np.sort(held_from), ordered)
        enough = (MASS * mass + held) / (MASS + len(own)) >= level
        return float(ordered[int(enough.argmax())]) if enough.any() else 0.0

    @cached_property
    def two_likeliest(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) the place of each node's class, and of the likeliest other one; of labelled nodes the class is given."""
        order = np.argsort(-self.probabilities, axis=1, kind="stable")[:, :2]
        chosen = order[:, 0].copy()
        chosen[self.labels.nodes] = self.labels.class_index
        return chosen, np.where(order[:, 0] == chosen, order[:, 1], order[:, 0])

    def columns(self, level: float = 0.9) -> dict[str, Any]:
        """By name a list or an array of one entry per node; ``prediction_set`` holds lists, the likeliest class first.

        ``class`` is None for a node that belongs to none of the classes. A labelled node has the class that was given,
        with its probability as ``predict_proba`` says it.
        """
        (chosen, second), everyone = self.two_likeliest, np.arange(len(self.probabilities))
        classes, sets = self.labels.classes.tolist(), []
        for row, held in zip(self.probabilities, self.sets(level)):
            likely = np.flatnonzero(held)
            sets.append([classes[place] for place in likely[np.argsort(-row[likely], kind="stable")].tolist()])
        return {
            "node": everyone,
            "class": self.transduction.tolist(),
            "probability": self.probabilities[everyone, chosen],
            "runner_up": self.labels.classes[second],
            "runner_up_probability": self.probabilities[everyone, second],
            "prediction_set": sets,
            "given": np.isin(everyone, self.labels.nodes),
        }

    def to_frame(self, level: float = 0.9) -> Any:
        """:meth:`columns` as a frame of pandas, or a table of Arrow without it; nodes by name if they have names."""
        return to_frame(self.columns(level) | ({} if self.names is None else {"node": self.names}))

    def doubtful_labels(self) -> list[DoubtfulLabel]:
        """Labels to which another class is likelier once they are left out, the most doubtful first."""
        own = self.labels.class_index
        given = self.leave_one_out[np.arange(len(own)), own]
        best = np.where(self.has_other_labels, np.nan_to_num(self.leave_one_out).argmax(axis=1), own)
        most = self.leave_one_out[np.arange(len(own)), best]
        classes, nodes = self.labels.classes.tolist(), self.labels.nodes.tolist()
        doubted = np.flatnonzero(best != own)
        order = doubted[np.argsort(np.log(np.maximum(given[doubted], 1e-30)) - np.log(most[doubted]), kind="stable")]
        return [
            DoubtfulLabel(nodes[i], classes[own[i]], classes[best[i]], float(given[i]), float(most[i])) for i in order
        ]

    def disagreement(self) -> np.ndarray:
        """(n,) how far the experts that count are from agreeing, each with its weight: 0 if all name the same class."""
        count = np.zeros((len(self.probabilities), len(self.labels.classes)), dtype=np.float32)
        everyone = np.arange(len(count))
        for expert, weight in zip(self.experts, self.weights / max(self.weights.sum(), 1e-12)):
            if weight > 0.01:
                count[everyone, expert.predicted(everyone)] += weight
        return np.asarray(1 - count.max(axis=1))

    def deciding_views(self, chosen: np.ndarray, second: np.ndarray) -> list[str]:
        """(n,) the view that speaks most for the class ``chosen`` (n,) against ``second`` (n,), by name."""
        names = list(self.view_weights()) or [self.experts[0].source]
        everyone = np.arange(len(chosen))
        total = np.zeros((len(names), len(chosen)), dtype=np.float32)
        for expert, weight in zip(self.experts, self.weights):
            if weight > 0 and expert.source in names:
                scores = expert.scores(everyone)
                total[names.index(expert.source)] += weight * (scores[everyone, chosen] - scores[everyone, second])
        return [names[place] for place in total.argmax(axis=0).tolist()]

    def no_better_than_guessing(self) -> bool:
        """Whether naming the largest class everywhere may be right as often."""
        return self._expected is not None and self._expected.low <= float(self.shares.max())
