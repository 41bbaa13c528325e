"""Whether a method reads labels that it may not: it is handed them all, twice, and must not notice that they changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import methods_under_test as suite
import naq
from naq.io import save_graph
from naq.methods import Method

UPDATES = 2


class StickyGraph(naq.Graph):
    """A graph that keeps its labels, whoever takes them away, and says where more of them are: the file it comes from."""

    def _with(self, **changed: Any) -> naq.Graph:
        other = object.__new__(StickyGraph)
        sticky = ("labels", "class_names", "source")
        vars(other).update(vars(self) | {name: value for name, value in changed.items() if name not in sticky})
        return other

    def with_features(self, features: Any) -> naq.Graph:
        return sticky(self, features, self.labels, self.source)


def sticky(graph: naq.Graph, features: Any, labels: np.ndarray, source: str | None) -> StickyGraph:
    titles = [f"class of {np.count_nonzero(labels == c)} nodes" for c in range(labels.max() + 1)]
    return StickyGraph(graph.adjacency, features, labels, class_names=titles, name=graph.name, source=source)


def check_no_label_peeking(method: Method, folder: Path) -> None:
    """Losses, weights, vectors and answers are the same to the bit, whatever the labels are that the method may not read.

    Those are the labels of validation and test classes and of unlabelled nodes, and all labels for a method that is not supervised.
    Nothing strips the graphs. What a supervised method may read is given beside them: labels of base classes, and episodes.
    """
    plain = suite.community_graph()
    labels = np.where(np.arange(plain.num_nodes) % 10 == 3, -1, plain.labels)
    allowed = np.isin(labels, suite.SPLIT.base) & method.reads_base_labels
    random = np.random.default_rng(1)
    shuffled, drawn = labels.copy(), labels.copy()
    shuffled[~allowed] = random.permutation(labels[~allowed])
    drawn[~allowed] = random.integers(-1, 9, int((~allowed).sum()))
    seen = plain.with_labels(np.where(allowed, labels, -1)) if method.reads_base_labels else plain.without_labels()
    traces = []
    for number, given in enumerate((labels, shuffled, drawn)):
        path = folder / f"{number}.npz"
        graph = sticky(plain, plain.features, given, str(path))
        save_graph(path, graph)
        traces.append(trace(method, graph, seen))
    for other in traces[1:]:
        assert traces[0].keys() == other.keys()
        for name, value in traces[0].items():
            assert np.array_equal(value, other[name]), f"{name} of {method.name} depend on labels that it may not read"


def trace(method: Method, graph: naq.Graph, seen: naq.Graph) -> dict[str, np.ndarray]:
    """What a few updates give on ``graph``; ``seen`` has the labels that the method may read."""
    options = suite.options_for(method)
    if method.learner is None:
        model = method.embedder(graph, **options)
    else:
        model = method.learner(graph, way=2, base_labels=seen.labels, **options)
    if not method.trains:
        return {"vectors": model.embed()}
    optimizer = model.optimizer()
    if method.learner is None:
        losses = [float(model.step(update, optimizer)) for update in range(UPDATES)]
    else:
        episodes, size = suite.draw(method, seen, 0, UPDATES), model.episodes_per_update
        losses = [float(model.step(episodes[u * size : (u + 1) * size], u, optimizer)) for u in range(UPDATES)]
    nodes = np.arange(0, graph.num_nodes, 7)
    with torch.no_grad():
        out = {
            "losses": np.array(losses),
            "vectors": model.encode_all().numpy(),
            "vectors of some nodes": model.encode(nodes).numpy(),
        }
    if model.solves_tasks or model.also_solves:
        tasks = naq.sample_tasks(suite.community_graph(), way=2, shot=1, queries=3, count=2, classes=suite.SPLIT.test)
        out["answers"] = model.solve(tasks)
    return out | {f"weights {name}": value.numpy() for name, value in model.state_dict().items()}
