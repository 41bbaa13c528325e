"""What the labels say about every node, and what to label next: plain functions of labels and a fitted classifier."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from naq.errors import NaqError, OptionError
from naq_studio.board import GivenLabels

if TYPE_CHECKING:
    from naq.classifier import DoubtfulLabel, ExpectedAccuracy, FewShotNodeClassifier

OUTSIDE = -2
"""Instead of a class in :attr:`VersionedPrediction.chosen`: the classifier says that the node belongs to none."""
QUEUE = 12
"""Nodes that are suggested at a time."""


@dataclass(frozen=True, eq=False)
class VersionedPrediction:
    """The prediction for every node under one version of the labels.

    Attributes:
        version: of the labels.
        ids: (classes,) numbers of the classes that have labels, or a name that counts.
        probabilities: (n, classes) float32, columns as ``ids``.
        chosen: (n,) int16 the number of the likeliest class, or :data:`OUTSIDE`.
        sure: (n,) float32 its probability.
        expected: accuracy to expect of the nodes without a label; None where all have one.
        choice: one sentence on how it was made.
        notes: what else a person should know.
        weights: the share of each view in the answer, in plain words, the largest first.
        expected_by_class: as ``expected``, of every class of ``ids``; None for one that no node is predicted for.
        doubtful: labels that all else contradicts, the most doubtful first.
    """

    version: int
    ids: np.ndarray
    probabilities: np.ndarray
    chosen: np.ndarray
    sure: np.ndarray
    expected: ExpectedAccuracy | None
    choice: str
    notes: list[str]
    weights: dict[str, float] = field(default_factory=dict)
    expected_by_class: list[ExpectedAccuracy | None] = field(default_factory=list)
    doubtful: list[DoubtfulLabel] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class SpotCheck:
    """Nodes whose predictions may become labels once some of them, drawn at random, were looked at.

    Attributes:
        version: of the labels that the predictions are of.
        nodes: all of them, ``drawn`` those to look at.
    """

    token: str
    version: int
    nodes: np.ndarray
    drawn: list[int]


def with_labels(
    classifier: FewShotNodeClassifier, given: GivenLabels, *, unknown: bool
) -> tuple[FewShotNodeClassifier | None, str]:
    """A copy with the labels, and with the names that count; None while fewer than two classes have either. And a
    sentence on names that cannot be read."""
    from naq.classifier import Labels

    other, labels = copy.copy(classifier), Labels.of(list(given.labels), list(given.labels.values()))
    named, problem = name_classes(other, given)
    if len({*labels.classes.tolist(), *named}) < 2:
        return None, problem
    return other.set_params(unknown=unknown).set_labels(labels), problem


def name_classes(classifier: FewShotNodeClassifier, given: GivenLabels) -> tuple[list[str], str]:
    """Let names of classes count; which do, and a sentence on those that cannot."""
    text, names, problem = classifier.graph_.text, given.about, ""
    while text is not None and len(names) > 1:
        try:
            classifier.set_classes(names)
            return list(names), problem
        except NaqError as error:
            brought = [] if problem or text.class_names is None else text.class_names.tolist()
            names, problem = {name: "" for name, about in names.items() if name in brought and not about}, str(error)
    return [], problem


def answer(classifier: FewShotNodeClassifier, given: GivenLabels, version: int) -> VersionedPrediction | None:
    """The prediction, or None while fewer than two classes have labels or a name that counts."""
    from naq.classifier.page import verdicts
    from naq.classifier.views import describe

    other, problem = with_labels(classifier, given, unknown=given.unknown)
    if other is None:
        if problem:
            raise OptionError(problem)
        return None
    found = other.prediction()
    ids = np.array([given.numbers[name] for name in found.labels.classes.tolist()], dtype=np.int64)
    numbers = ids[found.probabilities.argmax(axis=1)].astype(np.int16)
    if found.outside is not None:
        numbers[found.outside] = OUTSIDE
    expected = found.expected if len(found.free) else None
    notes = [*filter(None, [problem]), *(f"{one[0].upper()}{one[1:]}." for one in verdicts(found))]
    weights = {describe(view): weight for view, weight in found.view_weights().items()}
    said = expected, other.explain(found), notes, weights, found.expected_by_class(), found.doubtful_labels()
    return VersionedPrediction(version, ids, found.probabilities, numbers, found.probabilities.max(axis=1), *said)


def suggest(classifier: FewShotNodeClassifier, given: GivenLabels, gone: set[int]) -> list[int]:
    """Up to :data:`QUEUE` nodes to label next, without those that are labelled, skipped or said to belong to none."""
    other, _ = with_labels(classifier, given, unknown=False)
    rest = classifier.graph_.num_nodes - len(given.labels)
    wanted = min(rest, QUEUE + len(gone) - len(given.labels))
    try:
        found = (classifier if other is None else other).suggest(wanted).tolist() if wanted else []
    except OptionError:
        found = []
    return [node for node in found if node not in gone][:QUEUE]
