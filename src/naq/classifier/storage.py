"""A fitted classifier in one safetensors file, with JSON in its header; nothing is ever unpickled."""

from __future__ import annotations

import copy
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import naq
from naq.errors import DataError, NaqError, OptionError
from naq.files import cache_folder, read_tensors, write_tensors
from naq.graph import Graph

if TYPE_CHECKING:
    from naq.classifier.estimator import FewShotNodeClassifier
    from naq.classifier.labels import Labels

    Kind = TypeVar("Kind", bound=FewShotNodeClassifier)

FORMAT = "naq-classifier-3"
CLASSIFIER, VERSION = "classifier.safetensors", 1
"""Of the cache: the file, and a number that is raised when the classifier's vectors or its file change."""
MAPS = ("center", "first", "mean", "second")


def kept_folder(graph: Graph, method: str, seed: int) -> Path | None:
    """Where the cache keeps what was made of a graph; its content without labels, the method and the version are in its
    name. None for a user without a home."""
    key = f"{graph.without_labels().hash}/{method}/{seed}/{naq.__version__}/{VERSION}"
    folder = cache_folder()
    return None if folder is None else folder / "studio" / hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


def fit_kept(classifier: Kind, graph: Graph, labels: Any = None, classes: Any = None) -> Kind:
    """``classifier.fit``, or the same from the cache, where it is kept; on the CPU, without options of the method."""
    folder = kept_folder(graph, classifier.method, classifier.seed)
    if folder is None or classifier.device != "cpu" or classifier.options:
        return classifier.fit(graph, labels, classes)
    with suppress(DataError):
        found = read_classifier(type(classifier), folder / CLASSIFIER, graph)
        found.set_params(**classifier.get_params()).set_classes(classes)
        return found if labels is None else found.set_labels(labels)
    bare = copy.copy(classifier.fit(graph, labels, classes))
    bare._labels = bare._names = None
    with suppress(NaqError, OSError):  # a folder that cannot be written costs a fit at the next time
        write_classifier(bare, folder / CLASSIFIER)
    return classifier


def write_classifier(classifier: FewShotNodeClassifier, path: str | Path) -> Path:
    """Written whole or not at all. The graph is not in it, only a hash of its content without labels."""
    graph, form, labels = classifier._graph(), classifier._form, classifier._labels
    labels, names = None if labels is None or not len(labels.nodes) else labels, classifier._names
    tensors = {"vectors": np.ascontiguousarray(classifier.vectors_)}
    facts: dict[str, Any] = {
        "format": FORMAT,
        "parameters": classifier.get_params(),
        "graph": graph.without_labels().hash,
        "name": graph.name,
        "plan": classifier._plan,
        "agreement": classifier._agreement,
        "classes": None if labels is None else labels.classes.tolist(),
    }
    if form is not None:
        found = zip(MAPS, (form.center, *form.maps))
        tensors |= {name: array for name, array in found if array is not None}
        facts["trusted"] = classifier._trusted
    if labels is not None:
        tensors |= {"nodes": labels.nodes, "class_index": labels.class_index}
    if names is not None:
        facts["names"], tensors["name_vectors"] = names.classes.tolist(), np.ascontiguousarray(names.vectors)
    write_tensors(path, tensors, facts)
    return Path(path)


def read_classifier(kind: type[Kind], path: str | Path, graph: Graph) -> Kind:
    """What :func:`write_classifier` wrote, for the graph it was fitted on."""
    tensors, facts = read_tensors(path, "classifier")
    if facts.get("format") != FORMAT:
        raise DataError(
            f"{path} holds {facts.get('format')!r}; expected {FORMAT}: fit the classifier again, and save it."
        )
    try:
        return _build(kind, Path(path), tensors, facts, graph)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(f"{path} is not a classifier ({error!r}); save it again.") from error


def _build(kind: type[Kind], path: Path, tensors: dict[str, np.ndarray], facts: dict[str, Any], graph: Graph) -> Kind:
    if facts["graph"] != graph.without_labels().hash:
        other = f"{path} was fitted on another graph ({facts['name']!r}) than the one given ({graph.name!r})"
        raise DataError(f"{other}: edges or features differ; give that graph, or fit again.")
    classifier, vectors = kind(**facts["parameters"]), _floats(tensors, "vectors", (graph.num_nodes, None), path)
    form, d = None, vectors.shape[1]
    if "trusted" in facts:
        shapes = zip(MAPS, ((d,), (d, d), (d,), (d, d)))
        center, *maps = (_floats(tensors, name, shape, path) if name in tensors else None for name, shape in shapes)
        if center is None:
            raise KeyError("center")
        form = classifier._model(graph).closed_form()
        form.center, form.maps = center, (maps[0], maps[1], maps[2])
    classifier._keep(graph, vectors, form, bool(facts.get("trusted", True)), str(facts["plan"]))
    classifier._agreement = facts.get("agreement")
    if "names" in facts:
        from naq.classifier.names import ClassNames  # not at the top: the studio names its folder before torch is there

        names = facts["names"]
        if graph.text is None or not all(isinstance(one, str) for one in names) or names != sorted(set(names)):
            raise DataError(f"{path}: names of classes are {str(names)[:80]}; expected those of a graph with text.")
        vectors = _floats(tensors, "name_vectors", (len(names), graph.text.vectors.shape[1]), path)
        classifier._names = ClassNames.of(graph, np.array(names), vectors)
    if facts["classes"] is not None:
        classifier._labels = _labels(tensors, facts["classes"], classifier, path)
    return classifier


def _floats(tensors: dict[str, np.ndarray], name: str, shape: tuple[int | None, ...], path: Path) -> np.ndarray:
    array = tensors[name]
    fits = array.ndim == len(shape) and all(side in (None, own) for side, own in zip(shape, array.shape))
    if not fits or array.dtype != np.float32 or not np.isfinite(array).all():
        form = f"shape {array.shape} and type {array.dtype}"
        raise DataError(f"{path}: {name} has {form}; it is not a classifier of this graph.")
    return array


def _labels(tensors: dict[str, np.ndarray], classes: Any, classifier: FewShotNodeClassifier, path: Path) -> Labels:
    from naq.classifier.labels import Labels, to_labels

    kinds = {type(name) for name in classes} if isinstance(classes, list) else set()
    if len(kinds) != 1 or not kinds <= {str, int, float, bool} or len(set(classes)) != len(classes):
        raise DataError(f"{path}: the classes are {str(classes)[:80]}; expected different names or numbers.")
    try:
        labels = Labels(tensors["nodes"], np.array(classes), tensors["class_index"])
        return classifier._enough(to_labels(classifier.graph_, labels))
    except OptionError as error:
        raise DataError(f"{path}: {error} Save it again.") from error
