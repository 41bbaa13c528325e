"""A fitted classifier in one safetensors file, with JSON in its header; nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from naq.classifier.closed_form import Maps
from naq.classifier.labels import Labels
from naq.errors import DataError
from naq.files import read_tensors, write_tensors
from naq.graph import Graph

if TYPE_CHECKING:
    from naq.classifier.estimator import FewShotNodeClassifier

    Kind = TypeVar("Kind", bound=FewShotNodeClassifier)

FORMAT = "naq-classifier-1"


def save(classifier: FewShotNodeClassifier, path: str | Path) -> Path:
    """Written whole or not at all. The graph is not in it, only a hash of its content without labels."""
    graph = classifier._graph()
    tensors = {"vectors": np.ascontiguousarray(classifier.vectors_)}
    maps = classifier._maps
    facts: dict[str, Any] = {
        "format": FORMAT,
        "parameters": classifier.get_params(),
        "graph": graph.without_labels().hash,
        "name": graph.name,
        "plan": classifier._plan,
        "classes": None,
    }
    if maps is not None:
        tensors |= {"first": maps.first, "mean": maps.mean, "second": maps.second}
        facts["trusted"] = maps.trusted
    if (labels := getattr(classifier, "labels_", None)) is not None:
        facts["classes"] = labels.classes.tolist()
        tensors |= {"nodes": labels.nodes, "slots": labels.slots}
    write_tensors(path, tensors, facts)
    return Path(path)


def load(kind: type[Kind], path: str | Path, graph: Graph) -> Kind:
    """What :func:`save` wrote, for the graph it was fitted on."""
    tensors, facts = read_tensors(path, "classifier")
    if facts.get("format") != FORMAT:
        raise DataError(
            f"{path} holds {facts.get('format')!r}; expected {FORMAT}, which FewShotNodeClassifier.save writes."
        )
    try:
        return _made(kind, Path(path), tensors, facts, graph)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(f"{path} is no classifier ({error!r}); save it again.") from error


def _made(kind: type[Kind], path: Path, tensors: dict[str, np.ndarray], facts: dict[str, Any], graph: Graph) -> Kind:
    if facts["graph"] != graph.without_labels().hash:
        raise DataError(
            f"{path} was fitted on another graph ({facts['name']!r}) than the one given ({graph.name!r}): edges or features "
            "differ; give that graph, or fit again."
        )
    classifier = kind(**facts["parameters"])
    vectors = _floats(tensors, "vectors", (graph.num_nodes, None), path)
    maps, width = None, vectors.shape[1]
    if "first" in tensors:
        first, second = (_floats(tensors, name, (width, width), path) for name in ("first", "second"))
        maps = Maps(first, _floats(tensors, "mean", (width,), path), second, bool(facts["trusted"]))
    classifier._keep(graph, vectors, maps, str(facts["plan"]))
    if facts["classes"] is not None:
        classifier._use(_labels(tensors, facts["classes"], graph, path))
    return classifier


def _floats(tensors: dict[str, np.ndarray], name: str, shape: tuple[int | None, ...], path: Path) -> np.ndarray:
    array = tensors[name]
    fits = array.ndim == len(shape) and all(side in (None, own) for side, own in zip(shape, array.shape))
    if not fits or array.dtype != np.float32 or not np.isfinite(array).all():
        raise DataError(
            f"{path}: {name} has shape {array.shape} and type {array.dtype}; it is no classifier of this graph."
        )
    return array


def _labels(tensors: dict[str, np.ndarray], classes: Any, graph: Graph, path: Path) -> Labels:
    nodes, slots = tensors["nodes"], tensors["slots"]
    kinds = {type(name) for name in classes} if isinstance(classes, list) else set()
    if len(kinds) != 1 or not kinds <= {str, int, float, bool} or len(set(classes)) != len(classes):
        raise DataError(f"{path}: the classes are {str(classes)[:80]}; expected different names or numbers.")
    for array, most in ((nodes, graph.num_nodes), (slots, len(classes))):
        if array.ndim != 1 or array.dtype != np.int64 or len(array) != len(nodes) or not len(array):
            raise DataError(f"{path}: the labels have shape {array.shape} and type {array.dtype}; save it again.")
        if array.min() < 0 or array.max() >= most:
            raise DataError(f"{path}: a label names {array.max():,} of {most:,}; save it again.")
    if (np.diff(nodes) <= 0).any():
        raise DataError(f"{path}: the labelled nodes are not in ascending order; save it again.")
    return Labels(nodes, np.array(classes), slots)
