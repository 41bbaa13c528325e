"""What the labels say about every node, and what to label next: plain functions of labels and a fitted classifier."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from naq.errors import OptionError
from naq_studio.board import NONE, Board

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
        ids: (classes,) numbers of the classes that have labels.
        chances: (n, classes) float32, columns as ``ids``.
        chosen: (n,) int16 the number of the likeliest class, or :data:`NOWHERE`.
        sure: (n,) float32 its probability.
        expected: accuracy to expect of the nodes without a label; None where all have one.
        choice: one sentence on how it was made.
    """

    version: int
    ids: np.ndarray
    chances: np.ndarray
    chosen: np.ndarray
    sure: np.ndarray
    expected: ExpectedAccuracy | None
    choice: str


def answer(classifier: FewShotNodeClassifier, labels: Mapping[int, int], unknown: bool, version: int) -> Answer | None:
    """The prediction, or None while fewer than two classes have labels."""
    chosen = _labelled(labels)
    if len(chosen.classes) < 2:
        return None
    classifier.set_params(unknown=unknown)
    found = classifier.prediction(chosen)
    chances, ids = found.probabilities, np.asarray(chosen.classes, dtype=np.int64)
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
    )


def suggestions(classifier: FewShotNodeClassifier, labels: Mapping[int, int], left_out: set[int]) -> list[int]:
    """Up to :data:`QUEUE` nodes to label next, without those that are labelled, skipped or said to belong to none."""
    other = copy.copy(classifier)  # which has no labels of its own: answers are given theirs
    chosen = _labelled(labels)
    other.set_params(unknown=False)
    if len(chosen.classes) >= 2:
        other.set_labels(chosen)
    gone = left_out | set(labels)
    rest = classifier.graph_.num_nodes - len(chosen.nodes)
    wanted = min(rest, QUEUE + len(gone) - len(chosen.nodes))
    try:
        found = other.suggest(wanted).tolist() if wanted else []
    except OptionError:
        found = []
    return [node for node in found if node not in gone][:QUEUE]


def past_points(classifier: FewShotNodeClassifier, board: Board) -> list[tuple[int, int, float, float, float]]:
    """Points of the curve for steps that were done before this start: (steps, labels, expected, low, high)."""
    other = copy.copy(classifier)
    labels: dict[int, int] = {}
    steps = list(board.done)
    wanted = set(np.unique(np.linspace(1, len(steps), MOST_POINTS).astype(int)).tolist()) if steps else set()
    points = []
    for position, changes in enumerate(steps, start=1):
        for (kind, node), _, after in changes:
            if kind == "node":
                labels.pop(node, None)
                if after is not None:
                    labels[node] = after
        if position in wanted:
            found = answer(other, labels, False, 0)
            if found is not None and found.expected is not None:
                count = sum(number != NONE for number in labels.values())
                points.append((position, count, found.expected.value, found.expected.low, found.expected.high))
    return points


def _labelled(labels: Mapping[int, int]) -> Labels:
    """The numbers of classes by node, without those that belong to none."""
    from naq.classifier import Labels

    pairs = [(node, number) for node, number in labels.items() if number != NONE]
    return Labels.of([node for node, _ in pairs], [number for _, number in pairs])
