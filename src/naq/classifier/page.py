"""One HTML page on a prediction: what to expect of it, how sure it is, and how far that can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from naq.classifier.confidence import edges_do_not_help
from naq.classifier.estimator import FewShotNodeClassifier
from naq.classifier.map import COLOURS, GROUNDS, draw_map, name_places, principal_places
from naq.classifier.prediction import DoubtfulLabel, ExpectedAccuracy, Prediction
from naq.classifier.table import LONGEST_TEXT, columns_of_classes, supporting_words
from naq.classifier.views import describe
from naq.errors import plain
from naq.files import write_atomically

TEMPLATES = Path(__file__).with_name("templates")
BINS = 10  # of the histogram of confidence
GROUP, GROUPS = 8, 5  # labels in a group of the leave-one-out reliability at least, and groups at most
EXAMPLES = 5  # nodes of a class
MOST_DOUBTED = 10  # labels that are listed as doubtful
LEAST_SURE = 12  # nodes that are listed as such
LARGEST_SET = 6  # prediction sets of this many classes or more are counted together


@dataclass(frozen=True)
class ClassRow:
    """A class: how many labels and predicted nodes it has, their share, mean probability and expected accuracy."""

    name: Any
    labels: int
    nodes: int
    share: float
    probability: float | None
    expected: ExpectedAccuracy | None


class PredictionPage:
    """What the template shows of the prediction for the set labels.

    Args:
        level: of the prediction sets.
        command: what makes the page again.
        more: what the caller adds: ``places`` (n, 2) of the nodes, ``colours`` (by class, in ``COLOURS``), ``curve``
            (labels, expected accuracy), ``code``, ``written``.

    Attributes:
        sure: (free nodes,) the probability of the predicted class; of all nodes if every one has a label.
        set_sizes: (the same nodes,) how many classes their prediction sets have.
    """

    def __init__(
        self,
        classifier: FewShotNodeClassifier,
        level: float = 0.9,
        command: str = "",
        *,
        title: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph, self.found = classifier.graph_, classifier.prediction()
        self.title, self.level, self.command = title or f"Predictions for {self.graph.name}", level, command
        self.choice = classifier.explain(self.found)
        self.more: dict[str, Any] = dict.fromkeys(("places", "colours", "curve", "code", "written")) | dict(more or {})
        given, names = self.more["places"], self.found.labels.classes.tolist()
        self.places = principal_places(classifier.views_[0].rows) if given is None else given
        by_size = {row.name: place % len(COLOURS) for place, row in enumerate(self.classes)}
        self.colour = [(self.more["colours"] or by_size).get(name, by_size[name]) for name in names]
        self.swatches = {name: COLOURS[colour] for name, colour in zip(names, self.colour)}
        nodes = self.found.free if len(self.found.free) else self.found.labels.nodes
        self.sure = self.found.probabilities[nodes].max(axis=1)
        self.set_sizes = self.found.sets(level)[nodes].sum(axis=1)

    def html(self) -> str:
        """The page as one file that loads nothing."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        loader = FileSystemLoader(TEMPLATES)
        environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        return environment.get_template("page.html").render(page=self, found=self.found, more=self.more)

    def pictures(self) -> dict[str, str]:
        """The map by theme, as PNG in a data address."""
        return {theme: draw_map(self.found, self.places, self.colour, theme) for theme in GROUNDS}

    def names(self) -> list[tuple[str, float, float]]:
        return name_places(self.found, self.places)

    @property
    def median(self) -> float:
        return float(np.median(self.sure))

    @property
    def guessing(self) -> str:
        """What is said first where the prediction may be worth nothing."""
        return next((f"{one[0].upper()}{one[1:]}." for one in verdicts(self.found) if "naming the largest" in one), "")

    def least_sure(self) -> list[dict[str, Any]]:
        """Of nodes without a label those with the least probability of their class, with name, text and words."""
        found, free = self.found, self.found.free
        nodes = free[np.argsort(self.sure, kind="stable")[:LEAST_SURE]] if len(free) else free
        (chosen, second), classes = found.two_likeliest, found.labels.classes.tolist()
        words = supporting_words(self.graph, chosen, len(classes))
        return [
            {
                "name": plain(self.graph.title_of(node), 60),
                "text": plain(self.graph.text_of(node), LONGEST_TEXT),
                "words": words[node][0],
                "either": [
                    (classes[one], float(found.probabilities[node, one])) for one in (chosen[node], second[node])
                ],
            }
            for node in nodes.tolist()
        ]

    def speaks_for(self) -> dict[Any, list[str]]:
        """Words and columns of every class, the clearest first."""
        classes = self.found.labels.classes.tolist()
        return dict(zip(classes, columns_of_classes(self.graph, self.found.two_likeliest[0], len(classes))))

    @property
    def weights(self) -> list[tuple[str, float]]:
        """(view in plain words, its share of the answer)."""
        return [(describe(name), weight) for name, weight in self.found.view_weights().items()]

    @property
    def classes(self) -> list[ClassRow]:
        return sorted(class_rows(self.found), key=lambda row: -row.nodes)

    @property
    def histogram(self) -> list[tuple[str, float]]:
        """(probability in %, share of the nodes), in ten steps."""
        counts = np.histogram(self.sure, BINS, (0.0, 1.0))[0].tolist()
        return [(f"{100 * (place + 0.5) / BINS:.0f}", count / len(self.sure)) for place, count in enumerate(counts)]

    @property
    def sets(self) -> list[tuple[str, float]]:
        """(classes in a set, share of the nodes), up to the largest that occurs."""
        sizes = np.minimum(self.set_sizes, LARGEST_SET)
        shares = (np.bincount(sizes, minlength=2)[1:] / len(sizes)).tolist()
        names = [str(size) for size in range(1, len(shares) + 1)]
        if len(shares) == LARGEST_SET < len(self.found.labels.classes):
            names[-1] += " or more"
        return list(zip(names, shares))

    @property
    def reliability(self) -> list[tuple[float, float, float, float]]:
        """Of labels that are not the only one of their class, from the least to the most sure, in groups: the mean
        probability, the share that is right and its interval (Wilson)."""
        usable = self.found.has_other_labels
        if usable.sum() < 2 * GROUP:  # one group would be one dot
            return []
        left = self.found.leave_one_out[usable]
        sure, hit = left.max(axis=1), left.argmax(axis=1) == self.found.labels.class_index[usable]
        groups, points = np.array_split(np.argsort(sure, kind="stable"), min(GROUPS, len(sure) // GROUP)), []
        for part in groups:
            interval = binomtest(int(hit[part].sum()), len(part)).proportion_ci(method="wilson")
            share, middle = float(hit[part].mean()), float(sure[part].mean(dtype=np.float64))
            points.append((middle, share, float(interval.low), float(interval.high)))
        return points

    @property
    def remarks(self) -> list[str]:
        given, count = len(self.found.labels.nodes), int(self.found.has_other_labels.sum())
        if count:
            first = f"Of the labels, {count:,} could be left out; what is said here comes from them."
        else:
            none = "Every class has one label, so none" if given else "There is no label, so nothing"
            first = f"{none} can be left out; the accuracy to expect is the agreement of two views."
        high = "A node far from all labels can still have a high probability: it compares the classes with each other."
        return [first, *(f"{one[0].upper()}{one[1:]}." for one in verdicts(self.found)), high]

    def doubtful(self) -> list[DoubtfulLabel]:
        return self.found.doubtful_labels()[:MOST_DOUBTED]

    def examples(self) -> dict[Any, tuple[list[str], list[str]]]:
        """For every class some nodes that have its label, and the surest of those that have none."""
        labels, free, shown = self.found.labels, self.found.free, {}
        some = self.found.probabilities[free]
        named, sure = some.argmax(axis=1), some.max(axis=1)
        for place, name in enumerate(labels.classes.tolist()):
            members = np.flatnonzero(named == place)
            likely = free[members[np.argsort(-sure[members], kind="stable")]]
            both = labels.nodes[labels.class_index == place], likely
            given, best = ([plain(self.graph.title_of(i), 60) for i in nodes[:EXAMPLES].tolist()] for nodes in both)
            shown[name] = given, best
        return shown


def write_report(classifier: FewShotNodeClassifier, path: str | Path, level: float = 0.9, command: str = "") -> Path:
    """The page on the set labels, whole or not at all. ``command`` is shown as what makes it again."""
    html = PredictionPage(classifier, level, command).html()
    return write_atomically(path, lambda temporary: temporary.write_text(html, "utf-8", "replace"))


def class_rows(found: Prediction) -> list[ClassRow]:
    """Every class, in the order of ``labels.classes``; nodes are those from ``found.first`` on."""
    labels, final, rows = found.labels, found.transduction[found.first :], []
    for place, (name, expected) in enumerate(zip(labels.classes.tolist(), found.expected_by_class())):
        members = np.flatnonzero(final == name)
        sure = float(found.probabilities[found.first + members, place].mean(dtype=np.float64)) if len(members) else None
        given = int((labels.class_index == place).sum())
        rows.append(ClassRow(name, given, len(members), len(members) / len(final), sure, expected))
    return rows


def verdicts(found: Prediction) -> list[str]:
    """What a person should know next to the accuracy to expect, each as the start of a sentence."""
    said, some = [], len(found.labels.nodes) > 0
    if found.no_better_than_guessing():
        known = "the labels tell" if some else "two views agree"
        said.append(f"as far as {known}, this may be no better than naming the largest class everywhere")
    if edges_do_not_help(found):
        said.append("a model on the features alone would do as well: the edges do not help")
    if found.trusted is not None and not some:
        said.append("no label tells yet whether the names mean what the texts say: label a few nodes to know")
    elif found.trusted is not None and found.trusted < 0.5:
        said.append("the names of the classes say nothing about the nodes, as far as the labels tell")
    if len(np.unique(found.shares)) == 1:
        why = "they have equally many labels" if some else "there is no label"
        said.append(f"all classes are taken to be equally large, since {why}")
    else:
        said.append("classes are taken to be as large as their numbers of labels")
    if found.unmet > 0:
        said.append(f"about {100 * found.unmet:.0f} % of the nodes may be of classes without a label")
    return said
