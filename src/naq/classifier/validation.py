"""How well a classifier does on the labels one has: each fold hides some of them and predicts them from the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from naq.classifier.estimator import FewShotNodeClassifier
from naq.classifier.frames import to_frame
from naq.classifier.labels import Labels, check_enough, to_labels
from naq.errors import OptionError, warn
from naq.options import check_whole
from naq.random import stream

SMALLEST = 1e-7  # probability in a logarithm: about what float32 can tell from 0 next to 1


@dataclass(frozen=True)
class Interval:
    """A figure, and an interval that holds it in 95 of 100 cases were the labels drawn at random."""

    value: float
    low: float
    high: float

    @classmethod
    def of_classes(cls, hits: list[np.ndarray]) -> Interval:
        """The mean over classes of the share of hits: two right and two wrong in all added to its middle (Agresti,
        Coull), one of each to a class's variance (without these, classes of few labels have none)."""
        sizes, right = np.array([len(one) for one in hits]), np.array([one.sum() for one in hits])
        counts, likely = sizes + 4 / len(hits), (right + 1) / (sizes + 2)
        middle, value = float(((right + 2 / len(hits)) / counts).mean()), float((right / sizes).mean())
        spread = 1.96 * float(np.sqrt((likely * (1 - likely) / counts).sum())) / len(hits)
        return cls(value, max(0.0, min(value, middle - spread)), min(1.0, max(value, middle + spread)))

    @classmethod
    def of_mean(cls, values: np.ndarray) -> Interval:
        spread = 1.96 * float(values.std(ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else np.inf
        return cls(float(values.mean()), float(values.mean() - spread), float(values.mean() + spread))

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """What was said of labels that were hidden.

    Attributes:
        labels: L labels in C classes.
        probabilities: (repeats, L, C) of the classes for each label while it was hidden; NaN for the only label of a
            class, which is never hidden.
    """

    labels: Labels
    probabilities: np.ndarray

    @property
    def hidden(self) -> np.ndarray:
        """(L,) bool, true of labels that are not the only one of their class."""
        return ~np.isnan(self.probabilities[0, :, 0])

    @property
    def hits(self) -> np.ndarray:
        """(hidden labels,) in what share of the repetitions each was right."""
        own = self.labels.class_index[self.hidden]
        return np.asarray((self.probabilities[:, self.hidden].argmax(axis=2) == own).mean(axis=0))

    @property
    def accuracy(self) -> Interval:
        return Interval.of_classes([self.hits])

    @property
    def macro_accuracy(self) -> Interval:
        """The mean of the accuracies of the classes that have two labels or more."""
        own = self.labels.class_index[self.hidden]
        return Interval.of_classes([self.hits[own == place] for place in np.unique(own)])

    @property
    def log_loss(self) -> Interval:
        """The mean of -log(probability of the right class)."""
        own = self.labels.class_index[self.hidden]
        right = self.probabilities[:, self.hidden][:, np.arange(len(own)), own]
        return Interval.of_mean(-np.log(np.maximum(right, SMALLEST)).mean(axis=0, dtype=np.float64))

    @property
    def overconfidence(self) -> Interval:
        """Calibration, the mean probability of the predicted class minus the accuracy; 0 if probabilities are right."""
        sure = self.probabilities[:, self.hidden].max(axis=2).mean(axis=0, dtype=np.float64)
        return Interval.of_mean(sure - self.hits)

    def by_class(self) -> dict[Any, Interval | None]:
        """The accuracy of every class; None for one that has a single label."""
        own, classes = self.labels.class_index[self.hidden], self.labels.classes.tolist()
        parts = [self.hits[own == place] for place in range(len(classes))]
        return {name: Interval.of_classes([part]) if len(part) else None for name, part in zip(classes, parts)}

    def to_frame(self) -> Any:
        """A row per figure, and per class its accuracy, as a frame of pandas, or a table of Arrow without it."""
        names = ("accuracy", "macro_accuracy", "log_loss", "overconfidence")
        rows: list[tuple[str, Interval | None, int]] = [(n, getattr(self, n), int(self.hidden.sum())) for n in names]
        sizes = np.bincount(self.labels.class_index, minlength=len(self.labels.classes)).tolist()
        rows += [(str(name), one, size) for (name, one), size in zip(self.by_class().items(), sizes)]
        ends = {
            end: [None if one is None else getattr(one, end) for _, one, _ in rows] for end in ("value", "low", "high")
        }
        return to_frame({"figure": [name for name, _, _ in rows], **ends, "labels": [count for _, _, count in rows]})

    def __str__(self) -> str:
        figures = f"accuracy {self.accuracy}, macro accuracy {self.macro_accuracy}, log-loss {self.log_loss}"
        lines = [f"{figures}, overconfidence {self.overconfidence}, of {self.hidden.sum():,} labels"]
        return "\n".join(
            [*lines, *(f"{name}: {one or 'one label, never hidden'}" for name, one in self.by_class().items())]
        )


def cross_validate(
    graph: Any, labels: Any, *, folds: int = 5, repeats: int = 1, seed: int = 0, classes: Any = None, **options: Any
) -> CrossValidation:
    """Accuracy, macro accuracy, log-loss, calibration and accuracy of every class on labels that are hidden in turn.

    The vectors are made once, since they read no label; every fold is a prediction from the labels of the others.
    Folds are stratified: the labels of a class are spread over them evenly. The only label of a class is never hidden.

    Args:
        graph: as of ``FewShotNodeClassifier.fit``, or a classifier that was fitted, whose own labels are not read.
        labels: in any form that ``fit`` takes.
        folds: at least 2; more than the labels means that each is hidden alone.
        repeats: how often the labels are divided anew.
        seed: of the division, and of the classifier.
        classes: names of the classes, as of ``fit``.
        options: of ``FewShotNodeClassifier``, e.g. ``method``.

    Example:
        >>> naq.cross_validate(graph, labels, folds=10).accuracy  # doctest: +SKIP
        Interval(value=0.87, low=0.8, high=0.92)
    """
    folds, repeats = check_whole("folds", folds, 2), check_whole("repeats", repeats)
    fitted = isinstance(graph, FewShotNodeClassifier)
    if fitted and (options or classes is not None):
        raise OptionError(f"options {sorted(options) or ['classes']} came with a fitted classifier; give them to it.")
    model = graph if fitted else FewShotNodeClassifier(seed=seed, **options).fit(graph, classes=classes)
    chosen = check_enough(to_labels(model._graph(), labels))
    own, sizes = chosen.class_index, np.bincount(chosen.class_index, minlength=len(chosen.classes))
    hidden = np.flatnonzero(sizes[own] > 1)
    if not len(hidden):
        raise OptionError("labels are one of each class, so none can be hidden; give two or more of a class.")
    if (sizes == 1).any():
        names = ", ".join(map(repr, chosen.classes[sizes == 1].tolist()[:5]))
        warn(f"of the classes {names} there is one label: it is never hidden, so nothing is known of their accuracy")
    found = np.full((repeats, len(own), len(sizes)), np.nan, dtype=np.float32)
    for repeat in range(repeats):
        mixed = stream(seed, "classifier/folds", repeat).permutation(hidden)
        fold = np.full(len(own), -1)
        fold[mixed[np.argsort(own[mixed], kind="stable")]] = np.arange(len(hidden)) % folds
        for part in range(min(folds, len(hidden))):
            rest = Labels.of(chosen.nodes[fold != part], chosen.values[fold != part].tolist())
            said = model.prediction(rest)
            place = np.searchsorted(said.labels.classes, chosen.classes)
            found[repeat, fold == part] = said.probabilities[chosen.nodes[fold == part]][:, place]
    return CrossValidation(chosen, found)
