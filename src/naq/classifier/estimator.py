"""A class and a confidence for every node of a graph, from a few labels."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, TransformerTags

from naq.classifier import storage
from naq.classifier.closed_form import Extension, Maps, fitted
from naq.classifier.confidence import (
    ExpectedAccuracy,
    Temperature,
    expected_accuracy,
    fitted_temperature,
    prediction_sets,
)
from naq.classifier.growing import check_grown
from naq.classifier.labels import Labels, check_enough, to_labels
from naq.classifier.prototypes import centred_units, probabilities, solve
from naq.classifier.suggestion import suggested
from naq.classifier.unknown import NOBODY, belongs_nowhere
from naq.embedders.naq_plus import NaqPlus
from naq.errors import NaqError, OptionError
from naq.graph import Graph
from naq.methods import get_method
from naq.run.embed import pretrained


class NotFitted(NaqError, NotFittedError):
    """Something was asked of a classifier that has seen no graph, or no labels."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What the present labels say.

    Attributes:
        chances: (n, classes) float32 probabilities.
        left_out: (labels, classes) float32, those of the labelled nodes, each without its own label; NaN where it is the only one of its class.
        nowhere: (n,) bool, who belongs to no class.
    """

    chances: np.ndarray
    left_out: np.ndarray
    temperature: Temperature
    nowhere: np.ndarray


class FewShotNodeClassifier(ClassifierMixin, BaseEstimator):
    """Learns from a graph without labels, then names the class of every node from a few.

    ``fit`` makes vectors of the nodes, which takes seconds to minutes and reads no label. Labels come with ``fit``, with :meth:`add_labels`, or
    with ``predict`` and the other methods that take them; labels that are given to one of these replace those before. They are a
    mapping ``{node: class}`` with nodes by name or number, or one entry per node with None, NaN, -1 or "" where the class is not known, or
    ``support=`` and ``labels=``. Classes are strings or numbers, with any number of labels each.

    Args:
        method: a name of ``naq list methods`` that needs no labels and no episodes.
        unlabelled: how many labels of every class all nodes without a label count for together; 0 leaves them out.
        temperature: of the probabilities; None finds it from the labels (:mod:`naq.classifier.confidence`).
        unknown: whether a node may belong to none of the classes; ``predict`` then says None for it. Nodes without a label then help no
            class (``unlabelled`` counts as 0).
        seed: of whatever the method draws.
        device: ``cpu`` or ``cuda``.
        options: of the method.

    Attributes:
        classes_: (classes,) sorted.
        transduction_: (n,) the class of every node: of the labelled ones that which was given.
        n_features_in_: features of the graph.
        explain_choice_: one sentence on what was chosen and why.
        vectors_: (n, d) float32.
        temperature_: T and where it is from.

    Example:
        >>> import naq
        >>> clf = naq.FewShotNodeClassifier().fit(naq.load("debian"))  # doctest: +SKIP
        >>> clf.predict({"bash": "shells", "vim": "editors"})  # doctest: +SKIP
    """

    labels_: Labels
    graph_: Graph
    _extension: Extension | None
    _units: np.ndarray | None
    _last: tuple[Any, Answer] | None

    def __init__(
        self,
        method: str = "naq-plus",
        *,
        unlabelled: float = 1.0,
        temperature: float | None = None,
        unknown: bool = False,
        seed: int = 0,
        device: str = "cpu",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.unlabelled = unlabelled
        self.temperature = temperature
        self.unknown = unknown
        self.seed = seed
        self.device = device
        self.options = options

    def fit(self, graph: Graph, y: Any = None) -> Self:
        """Make the vectors; ``y`` are labels in any of the forms, or None."""
        if not isinstance(graph, Graph):
            example = str(graph) if isinstance(graph, str | Path) else "debian"
            raise OptionError(f"graph is {type(graph).__name__}; expected a naq.Graph, e.g. naq.load({example!r}).")
        self._check_parameters()
        labels = None if y is None else check_enough(to_labels(graph, y))
        model = self._model(graph)
        maps: Maps | None = None
        if isinstance(model, NaqPlus):
            vectors, maps = fitted(model)
        else:
            if model.trains:
                pretrained(model)
            vectors = model.embed()
        self._keep(graph, vectors, maps, model.plan())
        self._unit_vectors()  # here, so that the first prediction need not wait for them
        if labels is not None:
            self._use(labels)
        return self

    def add_labels(self, given: Any = None, *, support: Any = None, labels: Any = None) -> Self:
        """More labels beside those that are there; a node that had another class changes it."""
        new = to_labels(self._graph(), given, support, labels)
        kept = getattr(self, "labels_", None)
        self._use(check_enough(new if kept is None else kept.merged(new)))
        return self

    def predict(
        self, given: Any = None, *, support: Any = None, labels: Any = None, graph: Graph | None = None
    ) -> np.ndarray:
        """(n,) the class of every node; of objects with None where ``unknown`` nodes belong to no class.

        Args:
            graph: the fitted graph with more nodes (:func:`~naq.classifier.with_nodes`); they are mapped without fitting again (:meth:`extend`).
        """
        if graph is not None and graph is not self._graph():
            return self.extend(graph).predict(given, support=support, labels=labels)
        answer = self._answer(given, support, labels)
        names = self.classes_[answer.chances.argmax(axis=1)]
        if not self.unknown:
            return names
        names = names.astype(object)
        names[answer.nowhere] = NOBODY
        return names

    def predict_proba(
        self, given: Any = None, *, support: Any = None, labels: Any = None, graph: Graph | None = None
    ) -> np.ndarray:
        """(n, classes) float32: the probability of every class, were one of them the right one."""
        if graph is not None and graph is not self._graph():
            return self.extend(graph).predict_proba(given, support=support, labels=labels)
        return self._answer(given, support, labels).chances

    def prediction_sets(
        self, given: Any = None, *, support: Any = None, labels: Any = None, level: float = 0.9
    ) -> np.ndarray:
        """(n, classes) bool: classes that together hold the true one for about ``level`` of the nodes."""
        return prediction_sets(self._answer(given, support, labels).chances, level, self._per_class())

    def expected_accuracy(self, given: Any = None, *, support: Any = None, labels: Any = None) -> ExpectedAccuracy:
        """What share of the nodes without a label ``predict`` gets right, as far as can be known without their classes."""
        chances = self._answer(given, support, labels).chances
        free = np.delete(chances, self.labels_.nodes, axis=0)
        return expected_accuracy(free, self._per_class(), not (self.graph_.num_features and self.graph_.num_edges))

    def left_out(self) -> np.ndarray:
        """(labels, classes) float32: the probabilities of every labelled node (``labels_``) as if it had no label; NaN for the only label of a class."""
        return self._answer(None, None, None).left_out

    def score(self, given: Any, y: Any = None) -> float:  # type: ignore[override]
        """Accuracy on known classes: ``score(truth)``, or ``score(labels, truth)``; nodes whose label is used do not count."""
        if y is not None:
            self._answer(given, None, None)
        truth = to_labels(self._graph(), given if y is None else y)
        predicted = self.predict()
        counted = ~np.isin(truth.nodes, self.labels_.nodes)
        if not counted.any():
            raise OptionError(
                "no node has a true class beside those whose label is used; give the classes of other nodes."
            )
        return float((predicted[truth.nodes[counted]] == truth.values[counted]).mean())

    def transform(self, graph: Graph | None = None) -> np.ndarray:
        """(n, d) the vectors; those of a graph with more nodes where one is given."""
        own = self._graph()
        return self.vectors_ if graph is None or graph is own else self.extend(graph).vectors_

    def extend(self, graph: Graph) -> FewShotNodeClassifier:
        """A classifier for a graph with more nodes and edges, with the same labels, without fitting again: the maps that were fitted are applied to it."""
        own = self._graph()
        if self._maps is None:
            raise OptionError(
                f"{self.method} cannot map nodes that come later; fit the larger graph, or use method='naq-plus'."
            )
        check_grown(own, graph)
        if self._extension is None:
            model = self._model(own)
            assert isinstance(model, NaqPlus)
            self._extension = Extension.of(own.without_labels(), model, self._maps)
        other = copy.copy(self)
        other._keep(graph, self._extension.apply(graph), self._maps, self._plan)
        if (labels := getattr(self, "labels_", None)) is not None:
            other._use(labels)
        return other

    def suggest(self, k: int = 10) -> np.ndarray:
        """(k,) nodes whose labels would help most, the first first (:mod:`naq.classifier.suggestion`)."""
        self._graph()
        labels = getattr(self, "labels_", None)
        if labels is None:
            return suggested(self._unit_vectors(), k, np.empty(0, dtype=np.int64), None, self.seed)
        return suggested(self._unit_vectors(), k, labels.nodes, self._answer(None, None, None).chances, self.seed)

    def save(self, path: str | Path) -> Path:
        """One safetensors file: vectors, maps, labels and parameters; not the graph."""
        return storage.save(self, path)

    @classmethod
    def load(cls, path: str | Path, graph: Graph) -> Self:
        """What was saved; ``graph`` must have the content it was fitted on."""
        return storage.load(cls, path, graph)

    @property
    def transduction_(self) -> np.ndarray:
        chosen = self.predict()
        chosen[self.labels_.nodes] = self.labels_.values
        return chosen

    @property
    def explain_choice_(self) -> str:
        graph = self._graph()
        parts = [
            f"{self.method} on {graph.num_nodes:,} nodes, {graph.num_edges:,} edges and {graph.num_features:,} features"
        ]
        if self._plan:
            parts.append(self._plan)
        if (labels := getattr(self, "labels_", None)) is not None:
            counts = np.bincount(labels.slots)
            each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
            parts.append(
                f"class means of {each} label{'' if each == '1' else 's'} in each of {len(labels.classes)} classes"
            )
            parts.append(
                "all other nodes count as "
                + (f"{self.unlabelled:g} more of each" if self.unlabelled and not self.unknown else "none")
            )
            found = self.temperature_
            why = {
                "prior": "that of other graphs, since no class has two labels",
                "leave-one-out": "found by leaving out one label at a time",
                "given": "as asked",
            }[found.origin]
            parts.append(f"temperature {found.value:.3f}, {why}")
        return "; ".join(parts) + "."

    @property
    def temperature_(self) -> Temperature:
        return self._answer(None, None, None).temperature

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
        for name, least in (("unlabelled", 0.0), ("temperature", None)):
            value = getattr(self, name)
            if value is None and least is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
            if not number or value < 0 or (least is None and value == 0):
                raise OptionError(
                    f"{name} is {value!r}; expected a number {'of at least 0' if least is not None else 'above 0, or None'}."
                )

    def _model(self, graph: Graph) -> Any:
        found = get_method(self.method)
        if found.embedder is None:
            raise OptionError(
                f"method is {self.method!r}, which is trained on episodes; choose one of 'naq list methods' that is not."
            )
        return found.embedder(graph.without_labels(), seed=self.seed, device=self.device, **(self.options or {}))

    def _keep(self, graph: Graph, vectors: np.ndarray, maps: Maps | None, plan: str) -> None:
        for stale in ("labels_", "classes_"):
            if hasattr(self, stale):
                delattr(self, stale)
        self.graph_, self.vectors_, self.n_features_in_ = graph, vectors, graph.num_features
        self._maps, self._plan = maps, plan
        self._extension = self._units = self._last = None

    def _use(self, labels: Labels) -> None:
        self.labels_, self.classes_ = labels, labels.classes
        self._last = None

    def _graph(self) -> Graph:
        if not hasattr(self, "graph_"):
            raise NotFitted("this FewShotNodeClassifier has seen no graph; call fit(graph) first.")
        return self.graph_

    def _per_class(self) -> float:
        return len(self.labels_.nodes) / len(self.classes_)

    def _unit_vectors(self) -> np.ndarray:
        if self._units is None:
            self._units = centred_units(self.vectors_)
        return self._units

    def _answer(self, given: Any, support: Any, labels: Any) -> Answer:
        graph = self._graph()
        if given is not None or support is not None or labels is not None:
            self._use(check_enough(to_labels(graph, given, support, labels)))
        if not hasattr(self, "labels_"):
            raise NotFitted("there are no labels yet; give some, e.g. predict({node: class, ...}).")
        settings = (self.unlabelled, self.temperature, self.unknown)
        if self._last is not None and self._last[0] == settings:
            return self._last[1]
        self._check_parameters()
        chosen, units = self.labels_, self._unit_vectors()
        weight = 0.0 if self.unknown else float(self.unlabelled)
        solved = solve(units, chosen.nodes, chosen.slots, len(chosen.classes), weight)
        found = fitted_temperature(solved, chosen.slots)
        if self.temperature is not None:
            found = Temperature(float(self.temperature), "given")
        nowhere = np.zeros(len(units), dtype=bool)
        if self.unknown:
            nowhere = belongs_nowhere(solved.cosines, chosen.nodes)
        left_out = probabilities(solved.left_out, found.value)
        left_out[solved.alone] = np.nan
        answer = Answer(probabilities(solved.cosines, found.value), left_out, found, nowhere)
        self._last = (settings, answer)
        return answer
