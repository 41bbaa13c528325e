"""A class and a confidence for every node of a graph, from a few labels."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, TransformerTags

from naq.classifier.confidence import DoubtfulLabel, ExpectedAccuracy, Prediction, predict
from naq.classifier.labels import Labels, check_enough, to_labels
from naq.classifier.names import ClassNames, class_texts
from naq.classifier.prototypes import centred_units
from naq.classifier.views import View, describe, make_views
from naq.embedders.base import EMBEDDERS, Embedder
from naq.embedders.closed_form import ClosedForm
from naq.embedders.smoothing import smoothed
from naq.errors import NaqError, OptionError
from naq.graph import Graph

if TYPE_CHECKING:
    from naq.classifier.extend import Extension

MOST_PAIRED = 200_000
"""Of more nodes, the closed form seeks neighbours among a sample: millions of pairs are enough for their scatter."""
STEPS = 10  # of smoothing the texts
UNLIKE = -0.1
"""Edges that agree with the features by less (:mod:`naq.embedders.node_words`) join unlike nodes."""


class NotFitted(NaqError, NotFittedError):
    """Something was asked of a classifier that has seen no graph, or no labels."""


class FewShotNodeClassifier(ClassifierMixin, BaseEstimator):
    """Learns from a graph without labels, then names the class of every node from a few.

    ``fit`` makes vectors of the nodes and other views of the graph (:mod:`naq.classifier.views`), which takes seconds to
    minutes and reads no label. What each view is worth, and how sure an answer is, is told by labels that are left out
    (:mod:`naq.classifier.confidence`). Labels are given to ``fit``, to :meth:`set_labels` or to :meth:`add_labels`;
    ``predict`` and the methods like it answer for these, or for other labels that are given to them, which changes nothing. Labels are a mapping ``{node: class}`` with nodes by name or
    number, or one entry per node with None, NaN, -1 or "" if the class is not known, or ``support=`` and ``labels=``, or
    a :class:`~naq.classifier.Labels`. Classes are strings or numbers, with any number of labels each.

    Args:
        method: a name of ``naq list methods`` that needs no labels and no episodes.
        unlabelled: how many labels of every class all nodes without a label count for together in class means; 0 leaves
            them out.
        unknown: whether a node may belong to none of the classes; ``predict`` then says None for it. Nodes without a
            label then help no class (``unlabelled`` counts as 0).
        seed: of whatever the method draws.
        device: ``cpu`` or ``cuda``.
        options: of the method.

    Attributes:
        labels_: those that were set.
        classes_: (classes,) sorted.
        transduction_: (n,) the class of every node: of the labelled ones that which was given.
        n_features_in_: features of the graph.
        explain_choice_: one sentence on what was chosen and why.
        vectors_: (n, d) float32, those of :func:`naq.embed`; above 200,000 nodes their closed form is of a sample.
        views_: what was made of the graph, that of ``vectors_`` first.

    Example:
        >>> import naq
        >>> labels = {"bash": "shells", "vim": "editors"}
        >>> clf = naq.FewShotNodeClassifier().fit(naq.load("debian"), labels)  # doctest: +SKIP
        >>> clf.predict()  # doctest: +SKIP
    """

    graph_: Graph
    vectors_: np.ndarray
    _labels: Labels | None = None
    _given: Labels | None = None
    _form: ClosedForm | None = None
    _names: ClassNames | None = None
    _trusted: bool = True
    _smoothed: np.ndarray | None = None
    _agreement: float | None = None
    _extension: Extension | None = None
    _made_views: list[View] | None = None
    _last: tuple[Any, Prediction] | None = None

    def __init__(
        self,
        method: str = "naq-plus",
        *,
        unlabelled: float = 1.0,
        unknown: bool = False,
        seed: int = 0,
        device: str = "cpu",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.method, self.unlabelled, self.unknown = method, unlabelled, unknown
        self.seed, self.device, self.options = seed, device, options

    def fit(self, graph: Graph, y: Any = None, classes: Any = None) -> Self:
        """Make the vectors; ``y`` are labels in any of the forms, or None, and ``classes`` as of :meth:`set_classes`."""
        if not isinstance(graph, Graph):
            example = str(graph) if isinstance(graph, str | Path) else "debian"
            raise OptionError(f"graph is {type(graph).__name__}; expected a naq.Graph, e.g. naq.load({example!r}).")
        self._check_parameters()
        labels = None if y is None else to_labels(graph, y)
        named = None if classes is None else self._class_vectors(graph, classes)  # refused before anything takes long
        model, form, smoothed = self._model(graph), None, None
        if model.name == "naq-plus":
            form, smoothed = model.closed_form(MOST_PAIRED), model.smoothed()
            vectors = form.fit_transform(smoothed)
        else:
            from naq.run.embed import pretrained  # which may train

            vectors = pretrained(model).embed()
        self._keep(graph, vectors, form, getattr(model, "trusts_edges", True), model.plan())
        self._smoothed, self._agreement = as_rows(smoothed), getattr(model, "agreement", None)
        self._names = None if named is None else ClassNames.of(self._texts(), *named)
        self._labels = None if labels is None else self._enough(labels)
        _ = self.views_  # here, so that the first prediction need not wait for them
        return self

    def set_classes(self, classes: Any, text_encoder: str | Path | None = None) -> Self:
        """Names of the classes, before or beside labels: what the nodes' texts (``Graph.text``) say of each.

        Args:
            classes: names, ``{name: sentence that describes the class}``, or None for none; those of labels are classes
                as well, and get a name of their own only here.
            text_encoder: another place of the model that made the vectors of the texts.
        """
        named = None if classes is None else self._class_vectors(self._graph(), classes, text_encoder)
        self._names = None if named is None else ClassNames.of(self._texts(), *named)
        self._labels = None if self._labels is None or not len(self._labels.nodes) else self._labels
        self._last = None
        return self

    def set_labels(self, given: Any = None, *, support: Any = None, labels: Any = None) -> Self:
        """Labels in place of those before."""
        self._labels = self._enough(to_labels(self._graph(), given, support, labels))
        return self

    def add_labels(self, given: Any = None, *, support: Any = None, labels: Any = None) -> Self:
        """More labels in addition to those set; a node that had another class changes it."""
        new, kept = to_labels(self._graph(), given, support, labels), self._known_labels()
        self._labels = self._enough(new if kept is None else kept.merged(new))
        return self

    def prediction(self, given: Any = None, *, support: Any = None, labels: Any = None) -> Prediction:
        """All that labels say about every node: those given, or those set."""
        graph = self._graph()
        own = given is None and support is None and labels is None
        chosen = self.labels_ if own else self._enough(to_labels(graph, given, support, labels))
        key = (chosen, self.unlabelled, self.unknown)
        if self._last is None or self._last[0] != key:
            self._check_parameters()
            all_named = chosen if self._names is None else chosen.with_classes(self._names.classes)
            views = self.views_  # which find the agreement where the classifier was read from a file
            unlike = self._agreement is not None and self._agreement < UNLIKE
            asked: dict[str, Any] = {"unlabelled": self.unlabelled, "unknown": self.unknown, "unlike": unlike}
            self._last = key, predict(views, all_named, names=self._names, **asked)
        return self._last[1]

    def predict(
        self, given: Any = None, *, support: Any = None, labels: Any = None, graph: Graph | None = None
    ) -> np.ndarray:
        """(n,) the class of every node; of objects with None if ``unknown`` nodes belong to no class.

        Args:
            given, support, labels: labels to answer for in place of those set.
            graph: the fitted graph with more nodes (:func:`~naq.classifier.with_nodes`); they are mapped without
                fitting again (:meth:`extend`).
        """
        return self._of(graph)._asked(given, support, labels).predicted

    def predict_proba(
        self, given: Any = None, *, support: Any = None, labels: Any = None, graph: Graph | None = None
    ) -> np.ndarray:
        """(n, classes) float32: the probability of every class, were one of them the right one."""
        return self._of(graph)._asked(given, support, labels).probabilities

    def prediction_sets(
        self, given: Any = None, *, support: Any = None, labels: Any = None, level: float = 0.9
    ) -> np.ndarray:
        """(n, classes) bool: classes that together hold the true one for about ``level`` of the nodes."""
        return self._asked(given, support, labels).sets(level)

    def expected_accuracy(self, given: Any = None, *, support: Any = None, labels: Any = None) -> ExpectedAccuracy:
        """What share of the nodes without a label ``predict`` gets right, as far as can be known without their classes."""
        return self._asked(given, support, labels).expected

    def left_out(self) -> np.ndarray:
        """(labels, classes) float32: the probabilities of every labelled node (``labels_``) as if it had no label; NaN
        for the only label of a class."""
        return self.prediction().left_out

    def doubtful_labels(self) -> list[DoubtfulLabel]:
        """Labels (``labels_``) to which all else says another class, the most doubtful first."""
        return self.prediction().doubtful_labels()

    def score(self, given: Any, y: Any = None) -> float:  # type: ignore[override]
        """Accuracy on known classes: ``score(truth)``, or ``score(labels, truth)``; nodes whose label is used do not count."""
        found = self.prediction() if y is None else self._asked(given, None, None)
        truth = to_labels(self._graph(), given if y is None else y)
        counted = ~np.isin(truth.nodes, found.labels.nodes)
        if not counted.any():
            none = "no node has a true class beside those whose label is used"
            raise OptionError(f"{none}; give the classes of other nodes.")
        return float((found.predicted[truth.nodes[counted]] == truth.values[counted]).mean())

    def transform(self, graph: Graph | None = None) -> np.ndarray:
        """(n, d) the vectors; those of a graph with more nodes if one is given."""
        return self._of(graph).vectors_

    def extend(self, graph: Graph) -> FewShotNodeClassifier:
        """A classifier for a graph with more nodes and edges, with the same labels, without fitting again: its vectors
        are those of ``ClosedForm.transform``."""
        from naq.classifier.extend import Extension, check_extension

        own = self._graph()
        if self._form is None:
            advice = "fit the larger graph, or use method='naq-plus'"
            raise OptionError(f"{self.method} cannot map nodes that come later; {advice}.")
        check_extension(own, graph)
        if self._extension is None:
            self._extension = Extension.of(self._model(own), self._trusted)
        other = copy.copy(self)
        smoothed = self._extension.smoothed(graph)
        other._keep(graph, self._form.transform(smoothed), self._form, self._trusted, self._plan)
        other._smoothed, other._agreement = smoothed, self._agreement
        other._labels, other._given = self._labels, self._given
        if self._names is not None:
            other._names = ClassNames.of(other._texts(), self._names.classes, self._names.vectors)
        return other

    def suggest(self, k: int = 10) -> np.ndarray:
        """(k,) nodes whose labels would help most, the first first (:mod:`naq.classifier.suggest`)."""
        from naq.classifier.suggest import doubt, suggested

        units = self.views_[0].rows
        if self._known_labels() is None and self._names is None:
            return suggested(units, k, np.empty(0, dtype=np.int64), None, self.seed)
        found = self.prediction()
        return suggested(units, k, found.labels.nodes, doubt(found), self.seed)

    def save(self, path: str | Path) -> Path:
        """One safetensors file: vectors, maps, labels and parameters; not the graph."""
        from naq.classifier import storage

        return storage.save(self, path)

    @classmethod
    def load(cls, path: str | Path, graph: Graph) -> Self:
        """What was saved; ``graph`` must have the content it was fitted on."""
        from naq.classifier import storage

        return storage.load(cls, path, graph)

    @property
    def labels_(self) -> Labels:
        self._graph()
        if (labels := self._known_labels()) is None:
            if self._names is not None:
                self._labels = Labels.of([], [])
                return self._labels
            raise NotFitted("there are no labels yet; give some, e.g. set_labels({node: class, ...}).")
        return labels

    @property
    def classes_(self) -> np.ndarray:
        return self.prediction().labels.classes

    @property
    def transduction_(self) -> np.ndarray:
        return self.prediction().transduction.copy()

    @property
    def views_(self) -> list[View]:
        graph = self._graph()
        if self._made_views is None:
            if self._smoothed is None and self._form is not None:  # read from a file
                model = self._model(graph)
                self._smoothed, self._agreement = as_rows(model.smoothed()), model.agreement
            vectors = [View(self.method, centred_units(self.vectors_), bool(graph.num_features), bool(graph.num_edges))]
            if self._smoothed is not None:
                vectors.append(View("smooth", centred_units(self._smoothed), vectors[0].features, vectors[0].edges))
            if graph.text is not None:
                vectors.append(View("texts", self._texts(), True, bool(graph.num_edges)))
            self._made_views, self._smoothed = make_views(graph.without_labels(), vectors, self.seed), None
        return self._made_views

    @property
    def explain_choice_(self) -> str:
        return self.explain(self.prediction() if self._known_labels() is not None or self._names is not None else None)

    def explain(self, found: Prediction | None) -> str:
        """One sentence on what was chosen and why, for a prediction or before there is one."""
        graph = self._graph()
        size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges and {graph.num_features:,} features"
        parts = [f"{self.method} on {size}", *([self._plan] if self._plan else [])]
        if found is not None:
            counts = np.bincount(found.labels.class_index, minlength=len(found.labels.classes))
            each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
            many = f"{each} label{'' if each == '1' else 's'} in each of {len(counts)} classes"
            parts.append(many if self._names is None else f"{many if counts.any() else 'no label'}, and their names")
            parts.append(", ".join(f"{describe(name)} {100 * w:.0f} %" for name, w in found.view_weights().items()))
            count = int(found.told.sum())
            told = f"as {count:,} labels tell that were left out" if count else "since no label can be left out"
            parts[-1] = f"{parts[-1]} of the answer, {told}"
        return "; ".join(parts) + "."

    def __sklearn_tags__(self) -> Tags:
        """Input is a graph, not an array, which scikit-learn's tools and its checks read here."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "vectors_")

    def _check_parameters(self) -> None:
        value = self.unlabelled
        number = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
        if not number or value < 0:
            raise OptionError(f"unlabelled is {value!r}; expected a number of at least 0.")

    def _model(self, graph: Graph) -> Any:
        kind: type[Embedder] | None = EMBEDDERS.get(self.method)
        if kind is None:
            from naq.methods import get_method  # imports every method, to name the nearest

            kind = get_method(self.method).embedder
        if kind is None:
            trained = "which is trained on episodes; choose one of 'naq list methods' that is not."
            raise OptionError(f"method is {self.method!r}, {trained}")
        return kind(graph.without_labels(), seed=self.seed, device=self.device, **(self.options or {}))

    def _keep(self, graph: Graph, vectors: np.ndarray, form: ClosedForm | None, trusted: bool, plan: str) -> None:
        self.graph_, self.vectors_, self.n_features_in_ = graph, vectors, graph.num_features
        self._form, self._trusted, self._plan = form, trusted, plan
        self._labels = self._given = self._extension = self._made_views = self._last = None
        self._smoothed = self._agreement = self._names = None

    def _graph(self) -> Graph:
        if not hasattr(self, "graph_"):
            raise NotFitted("this FewShotNodeClassifier has seen no graph; call fit(graph) first.")
        return self.graph_

    def _of(self, graph: Graph | None) -> FewShotNodeClassifier:
        own = self._graph()
        return self if graph is None or graph is own else self.extend(graph)

    def _asked(self, given: Any, support: Any, labels: Any) -> Prediction:
        """The prediction; labels that were given are kept for whoever sets none, for one release."""
        found = self.prediction(given, support=support, labels=labels)
        self._given = found.labels if len(found.labels.nodes) else None
        return found

    def _enough(self, labels: Labels) -> Labels:
        """Labels of two classes, or of any once classes have names."""
        return check_enough(labels) if self._names is None else labels

    @staticmethod
    def _class_vectors(graph: Graph, classes: Any, model: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(classes,) names, sorted, and (classes, d) what the model of the nodes' text makes of them."""
        names, texts = class_texts(classes)
        if graph.text is None:
            raise OptionError(
                f"graph {graph.name!r} has no text vectors, so names of classes say nothing about its nodes; give "
                "--text-encoder if it keeps a column of text (Graph.with_text_encoder in Python), or give labels."
            )
        return names, graph.text.class_vectors(texts, model)

    def _texts(self) -> np.ndarray:
        """(n, d) what was read at the nodes, averaged with their surroundings; zero where nothing is known."""

        def make() -> np.ndarray:
            assert graph.text is not None
            start = graph.text.rows()
            rows = smoothed(graph.normalized_adjacency(), start, STEPS)
            return np.where(rows.any(axis=1, keepdims=True), centred_units(rows), np.float32(0))

        graph = self._graph()
        return graph.kept("classifier/texts", make)

    def _known_labels(self) -> Labels | None:
        """Those set or, for one release, those that ``predict`` was given."""
        if self._labels is None and self._given is not None:
            warnings.warn(
                "labels given to predict(labels) and the like will not be kept from the next release on; set them by "
                "fit(graph, labels) or set_labels(labels), or give them here too.",
                FutureWarning,
                stacklevel=3,
            )
            return self._given
        return self._labels


def as_rows(vectors: Any) -> np.ndarray | None:
    """NumPy's, whatever device they are on."""
    return None if vectors is None else np.asarray(vectors.cpu().numpy() if hasattr(vectors, "cpu") else vectors)
