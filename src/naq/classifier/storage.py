"""A fitted classifier in one safetensors file, with JSON in its header; nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from naq.classifier.closed_form import Maps
from naq.classifier.labels import Labels
from naq.errors import DataError
from naq.files import write_atomically
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
    header = json.dumps(facts, allow_nan=False)
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    stored = {"facts": header, "checksum": _checksum(header, tensors)}
    return write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata=stored))


def load(kind: type[Kind], path: str | Path, graph: Graph) -> Kind:
    """What :func:`save` wrote, for the graph it was fitted on."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist; expected a file that FewShotNodeClassifier.save wrote.")
    try:
        with safe_open(path, framework="numpy") as archive:
            stored = archive.metadata() or {}
            tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        header = stored.get("facts", "{}")
        facts = json.loads(header)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable classifier ({error}); save it again.") from error
    if facts.get("format") != FORMAT:
        raise DataError(
            f"{path} holds {facts.get('format')!r}; expected {FORMAT}, which FewShotNodeClassifier.save writes."
        )
    if stored.get("checksum") != _checksum(header, tensors):
        raise DataError(f"{path} is damaged: its content has another checksum than when it was saved; save it again.")
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


def _checksum(header: str, tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(header.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name}:{tensors[name].dtype}:{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()
