r"""What labels say about every node, and what a cosine is worth: probabilities, expected accuracy, prediction sets.

.. math:: P(c \mid i) = \mathrm{softmax}_c\!\left(\cos(\hat z_i, p_c) / T\right)

T is that which makes the labels most likely, each classified without itself (leave-one-out), under a log-normal prior. A label
counts by the share of all nodes that its class seems to have: what is asked is how many *nodes* are right, and a large class is often the harder one. A label that
is the only one of its class says nothing, and with one label in every class T is the prior's.

What the labels cannot say was measured on labelled graphs, by the number of labels per class, and ships in ``measured.json``: the centre of the prior,
how far the true accuracy is from the mean probability, and how much wider prediction sets must be than the probabilities
say. ``benchmarks/calibration.py`` measures it, each graph with what the *other* graphs gave.

With ``unknown``, a node is said to belong to none of the classes if its cosine to the nearest class mean is below a
threshold, which is found without labels: halfway between two that err on different sides. The higher divides the nodes'
cosines into two groups with the least spread within them (Otsu, IEEE Trans. SMC 9, 1979). The lower best parts the
nodes' highest cosines from their second highest: to a node whose class is not named, the nearest mean is as near as the
second nearest is to others. Both take for granted that there are such nodes. ``docs/classifier.md`` has the errors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from naq.classifier.labels import Labels
from naq.classifier.prototypes import Prototypes, probabilities, solve
from naq.errors import OptionError

SPREAD = 0.07  # standard deviation of log T under the prior
GRID = np.exp(np.linspace(np.log(0.01), np.log(1.0), 121))  # temperatures that are tried
COARSE = 8  # first every so manieth of them, then those around the best
BINS = 256  # of the histograms that thresholds for unknown nodes are read from
SHARES = 1 << 12  # nodes that the shares of the classes are taken from: of more, about so many at equal distances


@dataclass(frozen=True)
class Temperature:
    """T, and where it is from: ``leave-one-out``, ``prior`` or ``given``."""

    value: float
    origin: str


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The share of the nodes without a label that is expected to be right, and where it lies in nine of ten cases."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} % in nine of ten cases)"


@dataclass(frozen=True, eq=False)
class Prediction:
    """What some labels say about every node.

    Attributes:
        labels: with L labels in C classes.
        probabilities: (n, C) float32, of every class, were one of them the right one.
        left_out: (L, C) float32, those of the labelled nodes, each without its own label; NaN for the only one of a
            class.
        temperature: of the probabilities.
        nowhere: (n,) bool, which nodes belong to no class; None unless that was asked.
        bare: whether the graph lacks features or edges.
    """

    labels: Labels
    probabilities: np.ndarray
    left_out: np.ndarray
    temperature: Temperature
    nowhere: np.ndarray | None
    bare: bool
    _sets: dict[float, np.ndarray] = field(default_factory=dict)

    @property
    def predicted(self) -> np.ndarray:
        """(n,) the likeliest class of every node; of objects, with None for nodes that belong to no class."""
        names = self.labels.classes[self.probabilities.argmax(axis=1)]
        if self.nowhere is not None:
            names = names.astype(object)
            names[self.nowhere] = None
        return names

    @cached_property
    def transduction(self) -> np.ndarray:
        """(n,) ``predicted``, but for the labelled nodes, which have the class that was given."""
        chosen = self.predicted
        chosen[self.labels.nodes] = self.labels.values
        return chosen

    @cached_property
    def expected(self) -> ExpectedAccuracy:
        """What share of the nodes without a label is right, as far as can be known without their classes."""
        free = np.delete(self.probabilities, self.labels.nodes, axis=0)
        return expected_accuracy(free, self.labels.per_class, self.bare)

    def sets(self, level: float) -> np.ndarray:
        """(n, C) bool: classes that together hold the true one for about ``level`` of the nodes."""
        if level not in self._sets:
            self._sets[level] = prediction_sets(self.probabilities, level, self.labels.per_class)
        return self._sets[level]


def predict(
    units: np.ndarray, labels: Labels, *, unlabelled: float, temperature: float | None, unknown: bool, bare: bool
) -> Prediction:
    """From the nodes' vectors of length one (n, d); the other arguments are those of the classifier."""
    solved = solve(units, labels.nodes, labels.slots, len(labels.classes), 0.0 if unknown else float(unlabelled))
    given = None if temperature is None else Temperature(float(temperature), "given")
    found = given or fitted_temperature(solved, labels.slots)
    left_out = probabilities(solved.left_out, found.value)
    left_out[solved.alone] = np.nan
    nowhere = belongs_nowhere(solved.cosines, labels.nodes) if unknown else None
    return Prediction(labels, probabilities(solved.cosines, found.value), left_out, found, nowhere, bare)


@cache
def measured() -> dict[str, Any]:
    """What ships: lists with one entry for each number of labels in ``shots``."""
    return json.loads((Path(__file__).parent / "measured.json").read_text(encoding="utf-8"))


def shipped(name: str, per_class: float) -> np.ndarray:
    """A value of :func:`measured` at so many labels per class: between two of the measured numbers by their logarithms, beyond them the nearest."""
    at, values = np.log(measured()["shots"]), np.array(measured()[name], dtype=np.float64)
    return np.array([np.interp(np.log(per_class), at, one) for one in values.reshape(len(at), -1).T])


def prior_temperature(per_class: float) -> float:
    """The centre of the prior with so many labels per class."""
    return float(shipped("temperature", per_class)[0])


def fitted_temperature(answer: Prototypes, slots: np.ndarray, centre: float | None = None) -> Temperature:
    """The most likely T of :data:`GRID` given the labels and the prior, whose centre depends on their number unless one is given."""
    if centre is None:
        centre = prior_temperature(len(slots) / answer.cosines.shape[1])
    told = ~answer.alone
    if not told.any():
        return Temperature(centre, "prior")
    scores, own = answer.left_out[told], slots[told]
    share = class_shares(answer.cosines, centre)[own]
    weights = share * len(own) / share.sum()

    def loss(place: int) -> float:
        off = (np.log(GRID[place]) - np.log(centre)) ** 2 / (2 * SPREAD**2)
        sharp = scores / GRID[place]
        top = sharp.max(axis=1)
        surprise = top + np.log(np.exp(sharp - top[:, None]).sum(axis=1)) - sharp[np.arange(len(own)), own]
        return float(weights @ surprise + off)

    best = min(range(0, len(GRID), COARSE), key=loss)
    around = range(max(0, best - COARSE + 1), min(len(GRID), best + COARSE))
    return Temperature(float(GRID[min(around, key=loss)]), "leave-one-out")


def class_shares(cosines: np.ndarray, temperature: float) -> np.ndarray:
    """(classes,) float64: the mean probability of every class."""
    some = cosines[:: max(1, len(cosines) // SHARES)]
    return probabilities(some, temperature).mean(axis=0, dtype=np.float64)


def expected_accuracy(chances: np.ndarray, per_class: float, bare: bool = False) -> ExpectedAccuracy:
    """The mean of the highest probabilities; the interval is the error measured on other graphs at as many labels, which is
    larger where a graph lacks features or edges (``bare``)."""
    if not len(chances):
        raise OptionError("every node has a label, so there is no accuracy to expect; leave some without.")
    value = float(chances.max(axis=1).mean(dtype=np.float64))
    below, above = shipped("bare_interval" if bare else "interval", per_class)
    return ExpectedAccuracy(value, max(0.0, value + float(below)), min(1.0, value + float(above)))


def prediction_sets(chances: np.ndarray, level: float, per_class: float) -> np.ndarray:
    """(nodes, classes) bool: the likeliest class and all that are at least as likely as one threshold: the highest that
    lets the sets hold :func:`widened` of all probability, over all nodes together."""
    if not 0 < level < 1:
        raise OptionError(f"level is {level!r}; expected a probability above 0 and below 1, e.g. 0.9.")
    held = widened(level, float(shipped("sets", per_class)[0]))
    sets = chances >= set_thresholds(chances, [held])[0]
    sets[np.arange(len(chances)), chances.argmax(axis=1)] = True
    return sets


def widened(level: float, factor: float) -> float:
    """The probability that sets must hold so that they hold the true class with probability ``level``: its log-odds times a factor.

    >>> round(widened(0.9, 1.0), 3), round(widened(0.9, 1.3), 3)
    (0.9, 0.946)
    """
    return float(1 / (1 + ((1 - level) / level) ** factor))


def set_thresholds(chances: np.ndarray, levels: Sequence[float]) -> list[float]:
    """For each level the highest probability such that all that are as high add up to this part of all."""
    ordered = np.sort(chances, axis=None)[::-1]
    enough = np.searchsorted(np.cumsum(ordered, dtype=np.float64), np.asarray(levels) * len(chances))
    return [float(one) for one in ordered[np.minimum(enough, ordered.size - 1)]]


def belongs_nowhere(cosines: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """(n,) bool from cosines (n, classes); never a labelled node."""
    second, nearest = np.partition(cosines, -2, axis=1)[:, -2:].T
    apart = nearest < (otsu_threshold(nearest) + parting_threshold(second, nearest)) / 2
    apart[labelled] = False
    return apart


def otsu_threshold(values: np.ndarray) -> float:
    """The edge of a histogram's bins below and above which values spread least."""
    counts, edges = np.histogram(values, BINS)
    middle = (edges[1:] + edges[:-1]) / 2
    below, total = np.cumsum(counts).astype(np.float64), np.cumsum(counts * middle)
    above = below[-1] - below
    between = (total[-1] * below / below[-1] - total) ** 2 / np.maximum(below * above, 1.0)
    return float(edges[1:][between.argmax()])


def parting_threshold(low: np.ndarray, high: np.ndarray) -> float:
    """The edge of a histogram's bins with the fewest of ``low`` from it on and of ``high`` below it, together."""
    edges = np.histogram_bin_edges(np.concatenate([low, high]), BINS)
    under_low, under_high = (np.cumsum(np.histogram(values, edges)[0]) for values in (low, high))
    return float(edges[1:][(under_low - under_high).argmax()])
