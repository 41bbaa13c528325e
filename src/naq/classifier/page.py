"""One HTML page on a prediction: what to expect of it, how sure it is, and how far that can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from naq.classifier.confidence import ExpectedAccuracy, Prediction
from naq.classifier.estimator import FewShotNodeClassifier
from naq.classifier.views import describe
from naq.errors import plain
from naq.files import write_atomically
from naq.graph import Graph

TEMPLATES = Path(__file__).with_name("templates")
BINS = 10  # of the histogram of confidence
GROUP, GROUPS = 8, 5  # labels in a group of the leave-one-out reliability at least, and groups at most
SURE = 0.9
EXAMPLES = 5  # nodes of a class
MOST_DOUBTED = 10  # labels that are listed as doubtful
LARGEST_SET = 6  # prediction sets of so many classes or more are counted together
Points = list[tuple[float, float, float, float]]
"""Probability, share that is right, and the interval of the share; all from 0 to 1."""


@dataclass(frozen=True)
class ClassRow:
    """A class: how many labels and predicted nodes it has, their share, mean probability and expected accuracy."""

    name: Any
    labels: int
    nodes: int
    share: float
    probability: float | None
    expected: ExpectedAccuracy | None


@dataclass(frozen=True)
class Page:
    """What the template shows.

    Attributes:
        answers: (question, answer in short, answer in a sentence).
        histogram: (probability in %, share of the nodes), in ten steps.
        weights: (view in plain words, its share of the answer).
        reliability: by name, how often a probability is right.
        doubtful: (node, given class, its probability, class that is meant instead, its probability).
        sets: (classes in a set, share of the nodes).
        more: what the caller adds: ``picture`` (a data address), ``examples`` in place of :func:`examples`,
            ``curve`` (labels, expected accuracy), ``code``, ``written``.
    """

    title: str
    subtitle: str
    level: float
    answers: list[tuple[str, str, str]]
    weights: list[tuple[str, float]]
    histogram: list[tuple[str, float]]
    reliability: dict[str, Points]
    sets: list[tuple[str, float]]
    classes: list[ClassRow]
    nowhere: int
    doubtful: list[tuple[str, Any, float, Any, float]]
    remarks: list[str]
    choice: str
    command: str
    more: Mapping[str, Any]

    def html(self) -> str:
        """The page as one file that loads nothing."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        loader = FileSystemLoader(TEMPLATES)
        environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        return environment.get_template("page.html").render(page=self, more=self.more)


def write_report(classifier: FewShotNodeClassifier, path: str | Path, level: float = 0.9, command: str = "") -> Path:
    """The page on the set labels, whole or not at all. ``command`` is shown as what makes it again."""
    html = prediction_page(classifier, level, command).html()
    return write_atomically(path, lambda temporary: temporary.write_text(html, "utf-8", "replace"))


def prediction_page(
    classifier: FewShotNodeClassifier,
    level: float = 0.9,
    command: str = "",
    *,
    title: str = "",
    more: Mapping[str, Any] | None = None,
) -> Page:
    """What is to be said about the prediction for the set labels."""
    graph, found = classifier.graph_, classifier.prediction()
    labels = found.labels
    free = np.setdiff1d(np.arange(graph.num_nodes), labels.nodes)
    right = ("all that were given", "Every node has a label, so there is no accuracy to expect.")
    if len(free):
        expected = found.expected
        right = (
            f"about {100 * expected.value:.0f} %",
            f"of the nodes without a label; {100 * expected.low:.0f} to {100 * expected.high:.0f} % in nine of ten cases.",
        )
    else:
        free = labels.nodes
    sizes, sure = found.sets(level)[free].sum(axis=1), found.probabilities[free].max(axis=1)
    answers = [
        ("How many are right?", *right),
        (
            "How sure is it?",
            f"{100 * (sure >= SURE).mean():.0f} % of the nodes",
            f"have a class with a probability of at least {100 * SURE:.0f} %. The median probability is "
            f"{100 * np.median(sure):.0f} %.",
        ),
        (
            "How many classes remain?",
            f"{sizes.mean():.1f} on average",
            f"in the sets that hold the class of about {100 * level:.0f} % of the nodes; "
            f"{100 * (sizes == 1).mean():.0f} % of the sets have one class.",
        ),
        (
            "What decides?",
            describe(next(iter(found.view_weights()), classifier.method)),
            f"more than any other view of {graph.num_edges:,} edges and {graph.num_features:,} features.",
        ),
    ]
    weights = [(describe(name), weight) for name, weight in found.view_weights().items()]
    doubtful = [
        (graph.title_of(one.node), one.given, one.given_probability, one.instead, one.instead_probability)
        for one in found.doubtful_labels()[:MOST_DOUBTED]
    ]
    counts = np.histogram(sure, BINS, (0.0, 1.0))[0]
    return Page(
        title or f"Predictions for {graph.name}",
        f"{graph.num_nodes:,} nodes, {len(labels.nodes):,} labels in {len(labels.classes):,} classes",
        level,
        answers,
        weights,
        [(f"{100 * (place + 0.5) / BINS:.0f}", count / len(sure)) for place, count in enumerate(counts.tolist())],
        reliability(found),
        set_sizes(sizes, len(labels.classes)),
        sorted(class_rows(found), key=lambda row: -row.nodes),
        0 if found.nowhere is None else int(found.nowhere.sum()),
        doubtful,
        _remarks(found),
        classifier.explain(found),
        command,
        dict.fromkeys(("picture", "curve", "code", "written"))
        | {"examples": examples(graph, found)}
        | dict(more or {}),
    )


def examples(graph: Graph, found: Prediction) -> dict[Any, dict[str, Any]]:
    """For every class some nodes that have its label, and the surest of those that have none."""
    labels, free, shown = found.labels, found.free, {}
    named, sure = found.probabilities[free].argmax(axis=1), found.probabilities[free].max(axis=1)
    for place, name in enumerate(labels.classes.tolist()):
        own, members = labels.nodes[labels.class_index == place], np.flatnonzero(named == place)
        likely = free[members[np.argsort(-sure[members], kind="stable")]]
        given, best = ([plain(graph.title_of(node), 60) for node in some[:EXAMPLES].tolist()] for some in (own, likely))
        shown[name] = {"colour": None, "given": given, "likely": best}
    return shown


def class_rows(found: Prediction) -> list[ClassRow]:
    """Every class, in the order of ``labels.classes``."""
    labels, final, rows = found.labels, found.transduction, []
    for place, (name, expected) in enumerate(zip(labels.classes.tolist(), found.expected_by_class())):
        members = np.flatnonzero(final == name)
        sure = float(found.probabilities[members, place].mean(dtype=np.float64)) if len(members) else None
        given = int((labels.class_index == place).sum())
        rows.append(ClassRow(name, given, len(members), len(members) / len(final), sure, expected))
    return rows


def reliability(found: Prediction) -> dict[str, Points]:
    """How often a probability is right for the labels at hand, each left out; empty if these are too few."""
    groups = label_groups(found)
    return {"your labels, each left out": groups} if groups else {}


def label_groups(found: Prediction) -> Points:
    """Labels that are not the only one of their class, from the least to the most sure, in groups."""
    told = found.told
    if told.sum() < GROUP:
        return []
    sure = found.left_out[told].max(axis=1)
    hit = found.left_out[told].argmax(axis=1) == found.labels.class_index[told]
    count = min(GROUPS, len(sure) // GROUP)
    return [
        (float(sure[part].mean(dtype=np.float64)), float(hit[part].mean()), *wilson(int(hit[part].sum()), len(part)))
        for part in np.array_split(np.argsort(sure, kind="stable"), count)
    ]


def wilson(hits: int, count: int, deviations: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (E. B. Wilson, JASA 22, 1927).

    >>> [round(one, 3) for one in wilson(8, 10)]
    [0.49, 0.943]
    """
    square = deviations**2
    middle = (hits + square / 2) / (count + square)
    reach = deviations * math.sqrt(hits * (count - hits) / count + square / 4) / (count + square)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def set_sizes(sizes: np.ndarray, classes: int) -> list[tuple[str, float]]:
    """The share of the sets with 1, 2, ... classes, up to the largest that occurs."""
    largest = str(LARGEST_SET) if classes <= LARGEST_SET else f"{LARGEST_SET} or more"
    names = [*(str(one) for one in range(1, LARGEST_SET)), largest]
    shares = [float((np.minimum(sizes, LARGEST_SET) == one).mean()) for one in range(1, LARGEST_SET + 1)]
    last = max((place for place, share in enumerate(shares) if share > 0), default=0)
    return list(zip(names[: last + 1], shares))


def _remarks(found: Prediction) -> list[str]:
    told = int(found.told.sum())
    none = "Every class has one label, so none" if len(found.labels.nodes) else "There is no label, so nothing"
    first = (
        f"{told:,} labels could be left out, since their class has another; weights, probabilities and the accuracy to "
        "expect come from them."
        if told
        else f"{none} can be left out; what to expect is told by how far two views agree. Two labels in some classes would "
        "test it."
    )
    return [
        first,
        *(f"{one[0].upper()}{one[1:]}." for one in found.verdicts()),
        "A node far from all labels can still have a high probability: it is that of the classes against each other, "
        "were one of them right.",
    ]
