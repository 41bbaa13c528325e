"""One HTML page on a prediction: what to expect of it, how sure it is, and how far that can be trusted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from naq.classifier.confidence import measured
from naq.classifier.estimator import FewShotNodeClassifier
from naq_paper.experiments.views import BarView, LineView, Number, Series, TableView, TextView
from naq_paper.report.page import Answer, Section, ShortPage
from naq_paper.report.render import write_page

BINS = 10
"""Of the histogram of confidence, as in the reliability that ships."""
GROUP = 8
"""Labels in a group of the leave-one-out reliability, at least."""
GROUPS = 5
SURE = 0.9
LARGEST_SET = 6
"""Prediction sets of so many classes or more are counted together."""


def write_report(classifier: FewShotNodeClassifier, path: str | Path, level: float = 0.9, command: str = "") -> Path:
    """The page on the present labels, whole or not at all. ``command`` is shown as what makes it again."""
    return write_page(prediction_page(classifier, level, command), path)


def prediction_page(classifier: FewShotNodeClassifier, level: float, command: str) -> ShortPage:
    graph, labels, chances = classifier.graph_, classifier.labels_, classifier.predict_proba()
    free = np.delete(chances, labels.nodes, axis=0)
    expected = classifier.expected_accuracy()
    sizes = np.delete(classifier.prediction_sets(level=level), labels.nodes, axis=0).sum(axis=1)
    sure = free.max(axis=1)
    answers = [
        ("How many are right?", Answer(f"about {100 * expected.value:.0f} %", _interval_words(classifier))),
        (
            "How sure is it?",
            Answer(
                f"{100 * (sure >= SURE).mean():.0f} % of the nodes",
                f"have a class with a probability of at least {100 * SURE:.0f} %. The median probability is {100 * np.median(sure):.0f} %.",
            ),
        ),
        (
            "How many classes remain?",
            Answer(
                f"{sizes.mean():.1f} on average",
                f"in the sets that hold the class of about {100 * level:.0f} % of the nodes; {100 * (sizes == 1).mean():.0f} % of the sets have one class.",
            ),
        ),
        (
            "What was chosen?",
            Answer(
                classifier.method,
                f"on {graph.num_edges:,} edges and {graph.num_features:,} features. Why, is at the end of this page.",
            ),
        ),
    ]
    sections = [
        Section(
            "confidence",
            "Confidence",
            "How sure is it, and how often is such a confidence right?",
            views=[_histogram(sure), _reliability(classifier), TextView(_remarks(classifier), "caveat")],
        ),
        Section("sets", "Prediction sets", f"How many classes hold the true one for {100 * level:.0f} % of the nodes?", views=[_set_sizes(sizes, len(labels.classes))]),
        Section("classes", "Classes", "What was predicted, and from how many labels?", views=[_class_table(classifier)]),
        Section("choice", "Choice", "What was chosen, and why?", views=[TextView([classifier.explain_choice_])]),
    ]  # fmt: skip
    subtitle = f"{graph.num_nodes:,} nodes, {len(labels.nodes):,} labels in {len(labels.classes):,} classes"
    return ShortPage(f"Predictions for {graph.name}", subtitle, answers, sections, command)


def _interval_words(classifier: FewShotNodeClassifier) -> str:
    found = classifier.expected_accuracy()
    return (
        f"of the nodes without a label; {100 * found.low:.0f} to {100 * found.high:.0f} % in nine of ten cases, as measured on other graphs "
        "with as many labels."
    )


def _class_table(classifier: FewShotNodeClassifier) -> TableView:
    labels, final, chances = classifier.labels_, classifier.transduction_, classifier.predict_proba()
    lines: list[tuple[int, list[Any]]] = []
    for slot, name in enumerate(labels.classes.tolist()):
        members = np.flatnonzero(final == name)
        cells: list[Any] = [
            str(name),
            Number(float((labels.slots == slot).sum()), digits=0),
            Number(float(len(members)), digits=0),
            Number(100 * len(members) / len(final), digits=1),
            Number(100 * float(chances[members, slot].mean(dtype=np.float64)), digits=1) if len(members) else "–",
        ]
        lines.append((len(members), cells))
    lines.sort(key=lambda line: -line[0])
    columns = ["class", "labels", "nodes", "% of all nodes", "mean probability (%)"]
    note = ""
    if classifier.unknown:
        nowhere = sum(one is None for one in final)
        note = f"{nowhere:,} nodes ({100 * nowhere / len(final):.1f} %) are said to belong to none of the classes."
    return TableView("classes", "Classes", columns, [cells for _, cells in lines], note=note, sorted_by=2)


def _histogram(sure: np.ndarray) -> LineView:
    counts, edges = np.histogram(sure, BINS, (0.0, 1.0))
    middle = (100 * (edges[1:] + edges[:-1]) / 2).tolist()
    shares = Series("nodes", middle, (100 * counts / len(sure)).tolist())
    return LineView(
        "confidence", "Probability of the predicted class", "probability (%), in steps of 10", "nodes (%)", [shares]
    )


def _reliability(classifier: FewShotNodeClassifier) -> LineView:
    ideal = Series("exact probabilities", [0.0, 100.0], [0.0, 100.0])
    others = _elsewhere(classifier)
    series = [ideal, Series("other graphs", *_percent(others))]
    if groups := label_groups(classifier):
        series.append(Series("your labels, each left out", *_percent(groups)))
    return LineView(
        "reliability",
        "How often a probability is right",
        "probability of the predicted class (%)",
        "right (%)",
        series,
        note="Other graphs: the mean of five graphs with about as many labels per class; whiskers from the worst to the best of them. "
        "Your labels: each predicted from the others; whiskers hold the truth in 95 of 100 cases (Wilson).",
    )


def _elsewhere(classifier: FewShotNodeClassifier) -> list[list[float]]:
    """The reliability that ships, at the nearest number of labels per class."""
    shots = measured()["shots"]
    per_class = len(classifier.labels_.nodes) / len(classifier.classes_)
    nearest = min(range(len(shots)), key=lambda place: abs(math.log(shots[place] / per_class)))
    return [line for line in measured()["reliability"][nearest] if line is not None]


def label_groups(classifier: FewShotNodeClassifier) -> list[list[float]]:
    """Labels that are not the only one of their class, from the least to the most sure, in groups: mean probability, share that is right, and its interval."""
    chances = classifier.left_out()
    told = ~np.isnan(chances).any(axis=1)
    if told.sum() < GROUP:
        return []
    sure = chances[told].max(axis=1)
    hit = chances[told].argmax(axis=1) == classifier.labels_.slots[told]
    count = min(GROUPS, len(sure) // GROUP)
    order = np.argsort(sure, kind="stable")
    return [
        [float(sure[part].mean(dtype=np.float64)), float(hit[part].mean()), *wilson(int(hit[part].sum()), len(part))]
        for part in np.array_split(order, count)
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


def _percent(lines: list[list[float]]) -> tuple[list[float], list[float], list[float], list[float]]:
    """x, y, low and high of lines (probability, share that is right, low, high)."""
    sure, right, low, high = ([100 * one for one in column] for column in zip(*lines))
    return sure, right, low, high


def _remarks(classifier: FewShotNodeClassifier) -> list[str]:
    told = int((~np.isnan(classifier.left_out()).any(axis=1)).sum())
    first = (
        f"{told:,} labels could be left out, since their class has another; the temperature of the probabilities comes from them and from other graphs."
        if told
        else "Every class has one label, so the temperature of the probabilities is that of other graphs: a second label in some classes would test it."
    )
    return [first, "A node far from all labels can still have a high probability: it is that of the classes against each other, were one of them right."]  # fmt: skip


def _set_sizes(sizes: np.ndarray, classes: int) -> BarView:
    largest = str(LARGEST_SET) if classes <= LARGEST_SET else f"{LARGEST_SET} or more"
    names = [*(str(one) for one in range(1, LARGEST_SET)), largest]
    shares = [100 * float((np.minimum(sizes, LARGEST_SET) == one).mean()) for one in range(1, LARGEST_SET + 1)]
    last = max((place for place, share in enumerate(shares) if share > 0), default=0)
    return BarView("sets", "Classes in a set", "nodes (%)", [Series("nodes", names[: last + 1], shares[: last + 1])])
