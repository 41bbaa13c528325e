"""A class and a confidence for every node of a graph, from a few labels."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, TransformerTags

from naq.classifier.confidence import predict
from naq.classifier.frames import FrameOutput, as_graph, to_frame
from naq.classifier.labels import Labels, check_enough, to_labels
from naq.classifier.prediction import DoubtfulLabel, ExpectedAccuracy, Prediction
from naq.classifier.views import View, centred_units, describe, make_views, text_rows
from naq.device import checked_device
from naq.embedders.base import EMBEDDERS, Embedder
from naq.embedders.closed_form import ClosedForm
from naq.errors import NaqError, OptionError
from naq.graph import Graph
from naq.options import imported

if TYPE_CHECKING:
    from naq.classifier.extend import Extension
    from naq.classifier.names import ClassNames

MOST_PAIRED = 200_000
"""With more nodes, the closed form takes neighbours of a sample: millions of pairs are enough for their scatter."""
UNLIKE = -0.1
"""Edges that agree with the features by less (:mod:`naq.embedders.smoothing`) join unlike nodes."""

NO_LABELS = Labels.of([], [])  # what is set while only the classes have names


class NotFitted(NaqError, NotFittedError):
    """Something was asked of a classifier that has seen no graph, or no labels."""


class FewShotNodeClassifier(FrameOutput, ClassifierMixin, BaseEstimator):
    """Learns from a graph without labels, then names the class of every node from a few.

    ``fit`` makes vectors of the nodes and other views of the graph (:mod:`naq.classifier.views`), which takes seconds
    to minutes and reads no label. What each view is worth, and how sure an answer is, comes from labels that are left
    out (:mod:`naq.classifier.confidence`). Labels are given to ``fit``, to :meth:`set_labels` or to
    :meth:`add_labels`; ``predict`` and the methods like it answer for these, or for other labels that are given to
    them, which changes nothing. Labels are a mapping ``{node: class}`` with nodes by name or number; a Series of pandas
    whose index are nodes; a frame (pandas, Polars, Arrow) with the columns ``node`` and ``class``; one entry per node
    with None, NaN, -1 or "" if the class is not known; ``support=`` and ``labels=``; or a
    :class:`~naq.classifier.Labels`. Classes are strings or numbers, with any number of labels each.

    Args:
        method: a name of ``naq list methods`` that needs no labels and no episodes.
        unlabelled: how many labels of every class all nodes without a label count for together in class means.
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
    _form: ClosedForm | None = None
    _names: ClassNames | None = None
    _trusted: bool = True
    _smoothed: np.ndarray | None = None
    _agreement: float | None = None
    _extension: Extension | None = None
    _made_views: list[View] | None = None
    _last: tuple[Any, Prediction] | None = None
    _first: int = 0

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

    def fit(self, graph: Any, y: Any = None, classes: Any = None) -> Self:
        """Make the vectors of a ``Graph``, a ``Data`` of PyG or a graph of NetworkX; ``y`` are labels in any form, or
        None, and ``classes`` as of :meth:`set_classes`."""
        graph = as_graph(graph)
        self._check_parameters()
        labels = None if y is None else to_labels(graph, y)
        names = _class_names(graph, classes)  # so that errors come before anything takes long
        model, form, smoothed = self._model(graph), None, None
        if model.name == "naq-plus":
            form, smoothed = model.closed_form(MOST_PAIRED), model.smoothed()
            vectors = form.fit_transform(smoothed)
        else:
            from naq.run.embed import pretrain  # which may train

            vectors = pretrain(model).embed()
        self._keep(graph, vectors, form, getattr(model, "trusts_edges", True), model.plan())
        self._smoothed, self._agreement = as_rows(smoothed), getattr(model, "agreement", None)
        self._names = names
        self._labels = None if labels is None else self._enough(labels)
        _ = self.views_  # here, so that the first prediction need not wait for them
        return self

    def set_classes(self, classes: Any) -> Self:
        """Names of the classes, with or without labels: what the nodes' texts (``Graph.text``) say of each.

        Args:
            classes: names, ``{name: sentence that describes the class}``, or None for none. Classes of labels count in
                addition to these.
        """
        self._names = _class_names(self._graph(), classes)
        self._last = None
        return self

    def set_labels(self, given: Any = None, *, support: Any = None, labels: Any = None) -> Self:
        """Labels in place of those before."""
        self._labels = self._enough(to_labels(self._graph(), given, support, labels))
        return self

    def add_labels(self, given: Any = None, *, support: Any = None, labels: Any = None) -> Self:
        """More labels in addition to those set; a node that had another class changes it."""
        new, old = to_labels(self._graph(), given, support, labels), self._labels
        self._labels = self._enough(new if old is None else old.merged(new))
        return self

    def prediction(self, given: Any = None, *, support: Any = None, labels: Any = None) -> Prediction:
        """All that labels say about every node: those given, or those set."""
        graph = self._graph()
        own = given is None and support is None and labels is None
        chosen = self._enough(self.labels_ if own else to_labels(graph, given, support, labels))
        key = (chosen, self.unlabelled, self.unknown)
        if self._last is None or self._last[0] != key:
            self._check_parameters()
            all_named = chosen if self._names is None else chosen.with_classes(self._names.classes)
            views = self.views_  # before the agreement, which they find if the classifier was read from a file
            unlike = self._agreement is not None and self._agreement < UNLIKE
            options = {"unlabelled": self.unlabelled, "unknown": self.unknown, "unlike": unlike, "names": self._names}
            found = predict(views, all_named, **options)  # type: ignore[arg-type]
            self._last = key, replace(found, first=self._first, names=graph.names)
        return self._last[1]

    def predict(self, given: Any = None, *, support: Any = None, labels: Any = None, graph: Any = None) -> np.ndarray:
        """(n,) the class of every node; of objects with None if ``unknown`` nodes belong to no class.

        Args:
            given, support, labels: labels to answer for in place of those set.
            graph: the fitted graph with more nodes (:func:`~naq.classifier.with_nodes`); they are mapped without
                fitting again (:meth:`extend`).
        """
        return self._of(graph).prediction(given, support=support, labels=labels).predicted

    def predict_proba(self, given: Any = None, *, support: Any = None, labels: Any = None, graph: Any = None) -> Any:
        """(n, classes) float32: the probability of every class, were one of them the right one; a frame after
        :meth:`set_output`."""
        own = self._of(graph)
        found = own.prediction(given, support=support, labels=labels)
        return self._framed(own.graph_, found.probabilities, list(map(str, found.labels.classes)))

    def prediction_sets(
        self, given: Any = None, *, support: Any = None, labels: Any = None, level: float = 0.9
    ) -> np.ndarray:
        """(n, classes) bool: classes that together hold the true one for about ``level`` of the nodes."""
        return self.prediction(given, support=support, labels=labels).sets(level)

    def expected_accuracy(self, given: Any = None, *, support: Any = None, labels: Any = None) -> ExpectedAccuracy:
        """What share of the nodes without a label ``predict`` is expected to get right."""
        return self.prediction(given, support=support, labels=labels).expected

    def leave_one_out(self) -> np.ndarray:
        """(labels, classes) float32: the probabilities of every labelled node (``labels_``) as if it had no label; NaN
        for the only label of a class."""
        return self.prediction().leave_one_out

    def doubtful_labels(self) -> list[DoubtfulLabel]:
        """Labels (``labels_``) for which all else says another class, the most doubtful first."""
        return self.prediction().doubtful_labels()

    def score(self, given: Any, y: Any = None) -> float:  # type: ignore[override]
        """Accuracy on known classes: ``score(truth)`` or ``score(labels, truth)``, without nodes of used labels."""
        found = self.prediction(None if y is None else given)
        truth = to_labels(self._graph(), given if y is None else y)
        counted = ~np.isin(truth.nodes, found.labels.nodes)
        if not counted.any():
            raise OptionError("all nodes with a known class have a label that is used; give the classes of others.")
        return float((found.predicted[truth.nodes[counted]] == truth.values[counted]).mean())

    def transform(self, graph: Any = None) -> Any:
        """(n, d) the vectors; those of a graph with more nodes if one is given; a frame after :meth:`set_output`."""
        own = self._of(graph)
        return self._framed(own.graph_, own.vectors_, self.get_feature_names_out().tolist())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """(d,) names of the columns that ``transform`` gives."""
        self._graph()
        return np.array([f"{self.method}_{place}" for place in range(self.vectors_.shape[1])], dtype=object)

    def to_frame(self, level: float = 0.9) -> Any:
        """The table of ``naq predict`` for the set labels, as a frame of pandas, or a table of Arrow without it."""
        from naq.classifier.table import prediction_columns

        return to_frame(prediction_columns(self, level))

    def widget(self, **options: Any) -> Any:
        """The studio's map for a notebook (extra ``notebook``), ``naq_studio.widget.ClassifierMap``: ``.selection`` are
        the nodes inside a lasso, ``.label(name)`` gives them a class, ``.update()`` shows changed labels."""
        return imported("naq_studio.widget:ClassifierMap")(self, **options)

    def extend(self, graph: Graph, *, only_new: bool = False) -> FewShotNodeClassifier:
        """A classifier for a graph with more nodes and edges, with the same labels, without fitting again: its vectors
        are those of ``ClosedForm.transform``.

        Args:
            only_new: whether its tables, its page and the accuracy to expect are of the new nodes alone.
        """
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
        other._labels, other._first = self._labels, own.num_nodes if only_new else 0
        other._names = None if self._names is None else self._names.on(graph)
        return other

    def predict_new(self, rows: Any, edges: Any = None) -> np.ndarray:
        """(rows,) the class of nodes that come later, from a table with the columns of the graph's nodes.

        Args:
            rows, edges: as of :func:`~naq.classifier.with_rows`. Without edges, features alone decide: labelled nodes
                are then seen without theirs too, as new ones are.
        """
        from naq.classifier.extend import with_rows

        larger = with_rows(self._graph(), rows, edges)
        other = self.extend(larger if edges is not None else larger.without_edges())
        return other.predict()[self.graph_.num_nodes :]

    def suggest(self, k: int = 10) -> np.ndarray:
        """(k,) nodes whose labels would help most, the first first (:mod:`naq.classifier.suggest`)."""
        from naq.classifier.suggest import choose_nodes, doubt

        units, alone = self.views_[0].rows, self._graph().degrees == 0
        if self._labels is None and self._names is None:
            return choose_nodes(units, k, np.empty(0, dtype=np.int64), None, self.seed, alone)
        found = self.prediction()
        return choose_nodes(units, k, found.labels.nodes, doubt(found), self.seed, alone)

    def save(self, path: str | Path) -> Path:
        """One safetensors file: vectors, maps, labels and parameters; not the graph."""
        from naq.classifier import storage

        return storage.write_classifier(self, path)

    @classmethod
    def load(cls, path: str | Path, graph: Graph) -> Self:
        """What was saved; ``graph`` must have the content it was fitted on."""
        from naq.classifier import storage

        return storage.read_classifier(cls, path, graph)

    @property
    def labels_(self) -> Labels:
        self._graph()
        if self._labels is not None:
            return self._labels
        if self._names is None:
            raise NotFitted("there are no labels yet; give some, e.g. set_labels({node: class, ...}).")
        return NO_LABELS

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
            made_of = bool(graph.num_features), bool(graph.num_edges)
            vectors = [View(self.method, centred_units(self.vectors_), *made_of)]
            if self._smoothed is not None:
                vectors.append(View("smooth", centred_units(self._smoothed), *made_of))
            if graph.text is not None:
                vectors.append(View("texts", text_rows(graph), True, bool(graph.num_edges)))
            self._made_views, self._smoothed = make_views(graph.without_labels(), vectors, self.seed), None
        return self._made_views

    @property
    def explain_choice_(self) -> str:
        return self.explain(None if self._labels is None and self._names is None else self.prediction())

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
            count = int(found.has_other_labels.sum())
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
        checked_device(self.device)

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
        self._labels = self._extension = self._made_views = self._last = None
        self._smoothed = self._agreement = self._names = None
        self._first = 0

    def _graph(self) -> Graph:
        if not hasattr(self, "graph_"):
            raise NotFitted("this FewShotNodeClassifier has seen no graph; call fit(graph) first.")
        return self.graph_

    def _of(self, graph: Any) -> FewShotNodeClassifier:
        own = self._graph()
        return self if graph is None or graph is own else self.extend(as_graph(graph))

    def _enough(self, labels: Labels) -> Labels:
        """Labels of two classes, or of any once classes have names."""
        return check_enough(labels) if self._names is None else labels


def _class_names(graph: Graph, classes: Any) -> ClassNames | None:
    if classes is None:
        return None
    from naq.classifier.names import ClassNames

    return ClassNames.read(graph, classes)


def as_rows(vectors: Any) -> np.ndarray | None:
    """As an array of NumPy, whatever device they are on."""
    return None if vectors is None else np.asarray(vectors.cpu().numpy() if hasattr(vectors, "cpu") else vectors)
