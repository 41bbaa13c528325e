r"""What a cosine is worth: probabilities, the accuracy to expect and prediction sets, from the labels that are there.

.. math:: P(c \mid i) = \mathrm{softmax}_c\!\left(\cos(\hat z_i, p_c) / T\right)

T is that which makes the labels most likely, each classified without itself (leave-one-out), under a log-normal prior; a label that is
the only one of its class says nothing, and with one label in every class T is the prior's. The prior's centre is
``0.095 + 0.03 / k`` for k labels per class, its spread 0.1: what the best temperature was for ``naq-plus`` vectors on five graphs
(``benchmarks/calibration.py`` measures it again, leaving out the graph it is tried on).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naq.classifier.prototypes import Prototypes, softmax
from naq.errors import OptionError

PRIOR, PRIOR_FEW, SPREAD = 0.095, 0.03, 0.1
GRID = np.exp(np.linspace(np.log(0.01), np.log(1.0), 121))
"""Temperatures that are tried."""
ERRORS = {1: 0.17, 2: 0.17, 5: 0.06, 10: 0.05}
"""Nine of ten times the expected accuracy was within this of the truth, by labels per class (``benchmarks/calibration.py``)."""


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


def prior_temperature(per_class: float) -> float:
    """The centre of the prior with so many labels per class."""
    return PRIOR + PRIOR_FEW / per_class


def fitted_temperature(answer: Prototypes, slots: np.ndarray, centre: float | None = None) -> Temperature:
    """The most likely T of :data:`GRID` given the labels and the prior, whose centre depends on their number unless one is given."""
    if centre is None:
        centre = prior_temperature(len(slots) / answer.cosines.shape[1])
    told = ~answer.alone
    if not told.any():
        return Temperature(centre, "prior")
    scores, own = answer.left_out[told], slots[told]
    loss = np.array([_surprise(scores / t, own) for t in GRID])
    loss += (np.log(GRID) - np.log(centre)) ** 2 / (2 * SPREAD**2)
    return Temperature(float(GRID[loss.argmin()]), "leave-one-out")


def probabilities(cosines: np.ndarray, temperature: float) -> np.ndarray:
    """(nodes, classes) float32."""
    return softmax(cosines / np.float32(temperature))


def expected_accuracy(chances: np.ndarray, per_class: float) -> ExpectedAccuracy:
    """The mean of the highest probabilities; the interval is the error measured on other graphs at as many labels."""
    if not len(chances):
        raise OptionError("every node has a label, so there is no accuracy to expect; leave some without.")
    value = float(chances.max(axis=1).mean(dtype=np.float64))
    apart = float(np.interp(np.log(per_class), np.log(list(ERRORS)), list(ERRORS.values())))
    return ExpectedAccuracy(value, max(0.0, value - apart), min(1.0, value + apart))


def prediction_sets(chances: np.ndarray, level: float) -> np.ndarray:
    """(nodes, classes) bool: the likeliest class and all that are at least as likely as one threshold.

    The threshold is the highest that lets the sets hold ``level`` of all probability, over all nodes together: were the probabilities exact,
    a set would hold the true class of a node with that probability on average, and no smaller sets would.
    """
    if not 0 < level < 1:
        raise OptionError(f"level is {level!r}; expected a probability above 0 and below 1, e.g. 0.9.")
    ordered = np.sort(chances, axis=None)[::-1]
    enough = np.searchsorted(np.cumsum(ordered, dtype=np.float64), level * len(chances))
    sets = chances >= ordered[min(int(enough), ordered.size - 1)]
    sets[np.arange(len(chances)), chances.argmax(axis=1)] = True
    return sets


def _surprise(scores: np.ndarray, own: np.ndarray) -> float:
    """Minus the log-likelihood."""
    top = scores.max(axis=1)
    return float((top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - scores[np.arange(len(own)), own]).sum())
