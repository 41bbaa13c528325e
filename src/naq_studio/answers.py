"""What the labels say about every node, and what to label next: plain functions of labels and a fitted classifier."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from naq.errors import NaqError, OptionError
from naq_studio.board import Board, Said

if TYPE_CHECKING:
    from naq.classifier import ExpectedAccuracy, FewShotNodeClassifier, Labels

NOWHERE = -2
"""Instead of a class in :attr:`Answer.chosen`: the classifier says that the node belongs to none."""
QUEUE = 12
"""Nodes that are suggested at a time."""
MOST_POINTS = 24
"""Points of the curve that are computed again after a restart."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The prediction for every node under one version of the labels.

    Attributes:
        version: of the labels.
        ids: (classes,) numbers of the classes that have labels, or a name that counts.
        chances: (n, classes) float32, columns as ``ids``.
        chosen: (n,) int16 the number of the likeliest class, or :data:`NOWHERE`.
        sure: (n,) float32 its probability.
        expected: accuracy to expect of the nodes without a label; None where all have one.
        choice: one sentence on how it was made.
        notes: what else a person should know.
    """

    version: int
    ids: np.ndarray
    chances: np.ndarray
    chosen: np.ndarray
    sure: np.ndarray
    expected: ExpectedAccuracy | None
    choice: str
    notes: list[str]


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


def to_labels(said: Said) -> Labels:
    from naq.classifier import Labels

    return Labels.of(list(said.labels), list(said.labels.values()))


def name_classes(classifier: FewShotNodeClassifier, said: Said) -> tuple[list[str], str]:
    """Let names of classes count; which do, and a sentence on those that cannot."""
    text, names, problem = classifier.graph_.text, said.about, ""
    while text is not None and len(names) > 1:
        try:
            classifier.set_classes(names)
            return list(names), problem
        except NaqError as error:
            brought = [] if problem or text.class_names is None else text.class_names.tolist()
            names, problem = {name: "" for name, about in names.items() if name in brought and not about}, str(error)
    classifier.set_classes(None)
    return [], problem


def answer(classifier: FewShotNodeClassifier, said: Said, version: int) -> Answer | None:
    """The prediction, or None while fewer than two classes have labels or a name that counts."""
    named, problem = name_classes(classifier, said)
    chosen = to_labels(said)
    if len({*chosen.classes.tolist(), *named}) < 2:
        if problem:
            raise OptionError(problem)
        return None
    classifier.set_params(unknown=said.unknown)
    found = classifier.prediction(chosen)
    chances = found.probabilities
    ids = np.array([said.numbers[name] for name in found.labels.classes.tolist()], dtype=np.int64)
    best = chances.argmax(axis=1)
    numbers = ids[best].astype(np.int16)
    if found.nowhere is not None:
        numbers[found.nowhere] = NOWHERE
    return Answer(
        version,
        ids,
        chances,
        numbers,
        np.take_along_axis(chances, best[:, None], axis=1)[:, 0],
        found.expected if len(chosen.nodes) < len(chances) else None,
        classifier.explain(found),
        [*filter(None, [problem]), *(f"{one[0].upper()}{one[1:]}." for one in found.verdicts())],
    )


def suggestions(classifier: FewShotNodeClassifier, said: Said, gone: set[int]) -> list[int]:
    """Up to :data:`QUEUE` nodes to label next, without those that are labelled, skipped or said to belong to none."""
    other = copy.copy(classifier)  # which has no labels of its own: answers are given theirs
    other.set_params(unknown=False)
    named, _ = name_classes(other, said)
    if named or len(set(said.labels.values())) >= 2:
        other.set_labels(to_labels(said))
    rest = classifier.graph_.num_nodes - len(said.labels)
    wanted = min(rest, QUEUE + len(gone) - len(said.labels))
    try:
        found = other.suggest(wanted).tolist() if wanted else []
    except OptionError:
        found = []
    return [node for node in found if node not in gone][:QUEUE]


def past_points(classifier: FewShotNodeClassifier, board: Board) -> list[tuple[int, int, float, float, float]]:
    """Points of the curve for steps that were done before this start: (steps, labels, expected, low, high)."""
    other, past = copy.copy(classifier), Board()
    steps = list(board.done)
    wanted = set(np.unique(np.linspace(1, len(steps), MOST_POINTS).astype(int)).tolist()) if steps else set()
    points = []
    for position, changes in enumerate(steps, start=1):
        past.replay(changes)
        if position in wanted:
            said = replace(past.said(), unknown=False)
            found = answer(other, said, 0)
            if found is not None and found.expected is not None:
                at = found.expected
                points.append((position, len(said.labels), at.value, at.low, at.high))
    return points
