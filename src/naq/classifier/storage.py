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
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(f"{path} is no classifier ({error!r}); save it again.") from error


def _made(kind: type[Kind], path: Path, tensors: dict[str, np.ndarray], facts: dict[str, Any], graph: Graph) -> Kind:
    if facts["graph"] != graph.without_labels().hash:
        raise DataError(
            f"{path} was fitted on another graph ({facts['name']!r}) than the one given ({graph.name!r}): edges or features "
            "differ; give that graph, or fit again."
        )
    classifier = kind(**facts["parameters"])
    maps = Maps(tensors["first"], tensors["mean"], tensors["second"], facts["trusted"]) if "first" in tensors else None
    classifier._keep(graph, tensors["vectors"], maps, facts["plan"])
    if facts["classes"] is not None:
        classifier._use(Labels(tensors["nodes"], np.array(facts["classes"]), tensors["slots"]))
    return classifier
