r"""What an answer is worth: probabilities, the accuracy to expect, prediction sets, verdicts and doubtful labels,
all from labels that are left out.

A label is left out of every expert and of the weights. With :math:`p_{-i}` what is then said about it, probabilities
are :math:`p^\theta`, where :math:`\theta` has the least log-loss of the labels left out. The expected accuracy a is
the mean of the highest probabilities, and as much more as labels left out are right more often than that (where they
are many), joined with the agreement of class means with the discriminant of the surroundings, two answers that err
for different reasons, which counts as ``AGREEMENT`` labels: the only thing that tells where no label can be left
out. :math:`\theta` is then set so that the mean confidence is a. The interval is :math:`a \pm 1.8 \sqrt{b (1 - b) /
(m + 4)}` for m labels that could be left out, :math:`b = (m a + 2) / (m + 4)`.

Labels that came without regard to class also tell what they have not met: as many nodes are of classes without a
label, or as good as that, as labels are the only one of their class (Good and Turing), and these count as wrong.

A prediction set holds the classes above one threshold, at which probabilities and left-out labels (``MASS`` labels'
worth of the former) say that it holds the true class as often as asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from candidate.pool import left_out_weights, log_softmax, pool_weights, surprise
from candidate.stack import LabelStack

AGREEMENT = 4.0
MASS = 20.0
RESIDUAL = 50.0
NARROW = 1.8
"""Half an interval in standard deviations: nine of ten were to lie inside on eight graphs, the normal distribution
has 1.64.
"""
SAMPLE = 2048
"""Nodes, and labels, from which means are taken."""
EXPONENTS = np.geomspace(0.05, 3, 60)
STEPS = 14
"""Halvings between the outer exponents."""


@dataclass(frozen=True)
class Expected:
    """A share of nodes that is expected to be right, and where it lies in nine of ten cases."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, labels: float) -> Expected:
        """The interval of a share that so many left-out labels tell."""
        share = (labels * value + 2) / (
            labels + 4
        )  # two more that are right and two that are wrong, as Agresti and Coull do
        spread = NARROW * float(np.sqrt(share * (1 - share) / (labels + 4)))
        return cls(value, max(0.0, value - spread), min(1.0, value + spread))


@dataclass(frozen=True)
class Doubt:
    """A label that all else contradicts: its place among the labels, the class that is meant instead, and how likely
    the given one is.
    """

    label: int
    instead: int
    own: float


class Trust:
    """What the answer of a :class:`~candidate.stack.LabelStack` is worth.

    Attributes:
        exponent: theta.
        left_out: (labels, classes) log-probabilities, at theta, of the labels without themselves.
        unseen: the share of nodes whose class has no label, or as good as none.
        told: (labels,) whether a label could be left out.
    """

    def __init__(self, stack: LabelStack) -> None:
        self.stack = stack
        self.told = ~stack.alone
        sizes = np.bincount(stack.slots, minlength=len(stack.shares))
        self.unseen = 0.0 if (sizes == sizes[0]).all() else float(stack.alone.mean())
        logs = stack.log_proba()
        free = np.setdiff1d(np.arange(len(logs)), stack.nodes)
        self._free = free if len(free) else np.arange(len(logs))
        self._some = self._free[:: -(-len(self._free) // SAMPLE)]
        left = np.log(np.maximum(stack.left_out(), 1e-300))
        found = logs[self._some].astype(np.float64)
        at = np.flatnonzero(self.told)[:: -(-int(self.told.sum()) // SAMPLE) or 1]
        losses = [surprise(e * left[at], stack.slots[at], np.ones(len(at))) + 0.5 * np.log(e) ** 2 for e in EXPONENTS]
        exponent, labels = float(EXPONENTS[int(np.argmin(losses))]), int(self.told.sum())
        chances = np.exp(log_softmax(exponent * found))
        value = float(chances.max(axis=1).mean()) + self._residual(
            np.exp(log_softmax(exponent * left)), chances.mean(axis=0)
        )
        agreed = self._agreement()
        if agreed is not None:
            value = (AGREEMENT * agreed + labels * value) / (AGREEMENT + labels)
        self.exponent = _exponent_of(found, value)
        self.left_out = log_softmax(self.exponent * left)
        self._value, self._labels = value * (1 - self.unseen), labels

    def _residual(self, left: np.ndarray, mass: np.ndarray) -> float:
        """By how much labels left out are right more often than their confidence says, as far as ``RESIDUAL``
        labels' worth of none lets it count.
        """
        if not self.told.any():
            return 0.0
        slots = self.stack.slots
        by_class = (
            mass / np.bincount(slots, minlength=len(mass))
            if len(np.unique(self.stack.shares)) == 1
            else np.ones(len(mass))
        )
        counts = by_class[slots] * self.told
        counts /= counts.sum()
        enough = 1 / float(counts @ counts)
        return float(counts @ ((left.argmax(axis=1) == slots) - left.max(axis=1))) * enough / (enough + RESIDUAL)

    def probabilities(self) -> np.ndarray:
        """(n, classes) float32."""
        return np.exp(log_softmax(np.float32(self.exponent) * self.stack.log_proba()))

    def expected_accuracy(self) -> Expected:
        """The share of the nodes without a label that the answer gets right."""
        return Expected.around(self._value, self._labels)

    def expected_by_class(self) -> list[Expected | None]:
        """For each class the share of the nodes named so that is right; None where no node is."""
        chances = self.probabilities()[self._free]
        named, sure = chances.argmax(axis=1), chances.max(axis=1)
        sizes = np.bincount(self.stack.slots, minlength=chances.shape[1])
        found: list[Expected | None] = []
        for slot, size in enumerate(sizes):
            those = sure[named == slot]
            value = float(those.mean(dtype=np.float64)) * (1 - self.unseen) if len(those) else 0.0
            found.append(Expected.around(value, float(size)) if len(those) else None)
        return found

    def prediction_sets(self, level: float = 0.9) -> np.ndarray:
        """(n, classes) bool: classes that together hold the true one for about ``level`` of the nodes."""
        chances = self.probabilities()
        sets = chances >= self._threshold(chances[self._some], level)
        sets[np.arange(len(sets)), chances.argmax(axis=1)] = True
        return sets

    def _threshold(self, chances: np.ndarray, level: float) -> float:
        """The highest probability from which on classes are held often enough."""
        ordered = np.sort(chances, axis=None)[::-1].astype(np.float64)
        mass = np.cumsum(ordered) / len(chances)
        left, slots = np.exp(self.left_out[self.told]), self.stack.slots[self.told]
        own = np.sort(np.maximum(left[np.arange(len(slots)), slots], np.where(left.argmax(axis=1) == slots, 1.0, 0.0)))
        held = len(own) - np.searchsorted(own, ordered)
        enough = (MASS * mass + held) / (MASS + len(own)) >= level
        return float(ordered[int(enough.argmax())]) if enough.any() else 0.0

    def no_better_than_guessing(self) -> bool:
        """Whether naming the largest class everywhere may be right as often."""
        return self.expected_accuracy().low <= float(self.stack.shares.max())

    def edges_do_not_help(self) -> bool:
        """Whether experts that read no edges say as much about the labels left out, within one standard error; False
        where there are no such experts.
        """
        alone = np.array([not expert.view.edges for expert in self.stack.experts], dtype=bool)
        if not alone.any() or self._labels < 2:
            return False
        slots, counted = self.stack.slots, self.told.astype(np.float64)
        heard = self.stack.evidence[: len(alone)][alone]
        weights = pool_weights(heard, slots, counted, np.full(len(heard), 1 / len(heard)))
        each = left_out_weights(heard, slots, counted, weights)
        bare = log_softmax(np.einsum("iv,vic->ic", each, heard))
        at = np.flatnonzero(self.told)
        gain = (self.left_out - bare)[at, slots[at]]
        return bool(gain.mean() <= gain.std() / np.sqrt(len(gain)))

    def doubtful_labels(self) -> list[Doubt]:
        """Labels to which another class is likelier once they are left out, the most doubtful first."""
        at = np.flatnonzero(self.told)
        logs, slots = self.left_out[at], self.stack.slots[at]
        own = logs[np.arange(len(at)), slots]
        order = np.argsort(own - logs.max(axis=1), kind="stable")
        best = logs.argmax(axis=1)
        return [Doubt(int(at[i]), int(best[i]), float(np.exp(own[i]))) for i in order if best[i] != slots[i]]

    def _agreement(self) -> float | None:
        """The share of nodes for which the first expert and the one of the surroundings (or of neighbours, or of
        features) name the same class.
        """
        experts = self.stack.experts
        others = {one.view.name: one for one in experts[1:]}
        second = next((others[name] for name in ("surroundings", "neighbours", "features") if name in others), None)
        if second is None or experts[0].view.name == second.view.name:
            return None
        one, two = (
            (expert.view.at(self._some) @ expert.weights + expert.offsets).argmax(axis=1)
            for expert in (experts[0], second)
        )
        return float((one == two).mean())


def _exponent_of(logs: np.ndarray, confidence: float) -> float:
    """theta at which the mean of the highest probabilities is ``confidence``, between 0.001 and 20."""
    low, high = np.log(0.001), np.log(20.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = np.exp(log_softmax(np.exp(middle) * logs)).max(axis=1).mean() < confidence
        low, high = (middle, high) if below else (low, middle)
    return float(np.exp((low + high) / 2))
