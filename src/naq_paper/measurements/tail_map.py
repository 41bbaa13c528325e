"""``tail-map``: the vectors that a trained method gives the nodes of the smallest classes: a t-SNE map and two numbers.

Silhouette and k-NN purity are of the vectors themselves, as they are and with rows of unit length, not of the map.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from naq.errors import DataError
from naq.graph import Graph
from naq.graph.operators import unit_rows
from naq.random import stream
from naq_paper.cells.cell import Cell
from naq_paper.measurements import Context, finite_or_none
from naq_paper.measurements.train import train_cell, train_run

SHOWN = {"classes": 10, "perplexity": 30.0, "knn": 5, "points": 2_000, "tsne_seed": 0}
"""What this measurement adds to the configuration of a train cell: the smallest classes that are shown, of t-SNE, the
neighbours whose classes are counted, and the most nodes, to which more are thinned out by a seeded draw."""
BLOCK = 512  # rows of distances held at once


def tail_map_cell(dataset: str, method: str, **training: Any) -> Cell:
    """The cell of one map; ``training`` are arguments of :func:`naq_paper.measurements.train.train_cell`."""
    return train_cell(dataset, method, measurement="tail-map", more=SHOWN, **training)


def tail_map(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Coordinates ``x`` and ``y`` of ``points`` nodes, ``group`` (position in ``classes``) of each, and the numbers.

    ``silhouette`` and ``purity`` of the vectors, ``unit_silhouette`` and ``unit_purity`` with rows of unit length;
    ``chance_purity`` is that of labels assigned at random. Null where a number is not defined: one class, or one node
    per class.
    """
    graph = context.perturbed(config).graph
    seed = int(config["tsne_seed"])
    classes, sizes = smallest_classes(graph, int(config["classes"]))
    nodes = np.flatnonzero(np.isin(_labels(graph), classes))
    if len(nodes) > int(config["points"]):
        nodes = np.sort(stream(seed, "tail-map/points").choice(nodes, size=int(config["points"]), replace=False))
    result = train_run({name: value for name, value in config.items() if name not in SHOWN}, context)
    if result.embedding is None:
        raise DataError(f"the run of {config['method']} kept no vectors; remove its scratch folder and run it again.")
    vectors = np.asarray(result.embedding[nodes], dtype=np.float64)
    if not np.isfinite(vectors).all():
        raise DataError(f"{config['method']} gave vectors that are not finite; lower its learning rate.")
    context.listener("map", {"points": len(nodes)})
    group = np.searchsorted(np.sort(classes), _labels(graph)[nodes])
    group = np.argsort(classes, kind="stable")[group]
    unit, knn = unit_rows(vectors), int(config["knn"])
    place = tsne(vectors, float(config["perplexity"]), seed)
    return {
        "silhouette": silhouette(vectors, group), "purity": purity(vectors, group, knn),
        "unit_silhouette": silhouette(unit, group), "unit_purity": purity(unit, group, knn),
        "chance_purity": chance_purity(group), "nodes": int(sizes.sum()), "points": len(nodes),
        "classes": classes.tolist(), "class_sizes": sizes.tolist(),
        "class_names": [str(c if graph.class_names is None else graph.class_names[c]) for c in classes],
        "x": place[:, 0].tolist(), "y": place[:, 1].tolist(), "group": group.tolist(), "node": nodes.tolist(),
    }  # fmt: skip


def smallest_classes(graph: Graph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and sizes of the ``count`` smallest classes, smallest first, ties to the lower id."""
    labels = _labels(graph)
    classes, sizes = np.unique(labels[labels >= 0], return_counts=True)
    order = np.argsort(sizes, kind="stable")[:count]
    return classes[order], sizes[order]


def _labels(graph: Graph) -> np.ndarray:
    return graph.require_labels("a map of its smallest classes")


def silhouette(vectors: np.ndarray, group: np.ndarray) -> float | None:
    """Mean silhouette by Euclidean distance; None unless there are two groups or more, and fewer than nodes."""
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(group)) < len(group):
        return None
    return finite_or_none(silhouette_score(vectors, group))


def purity(vectors: np.ndarray, group: np.ndarray, k: int, *, block: int = BLOCK) -> float | None:
    """Share of a node's ``k`` nearest others that are of its group, mean over nodes; ties go to the lowest position."""
    from scipy.spatial.distance import cdist

    n = len(vectors)
    k = min(k, n - 1)
    if k < 1:
        return None
    agree = 0
    for start in range(0, n, block):
        rows = np.arange(start, min(n, start + block))
        distances = cdist(vectors[rows], vectors, "sqeuclidean")
        distances[np.arange(len(rows)), rows] = np.inf
        near = np.argsort(distances, axis=1, kind="stable")[:, :k]
        agree += int((group[near] == group[rows, None]).sum())
    return agree / (n * k)


def chance_purity(group: np.ndarray) -> float | None:
    """The expected purity of groups assigned at random."""
    sizes, n = np.bincount(group), len(group)
    return float((sizes * (sizes - 1)).sum() / (n * (n - 1))) if n > 1 else None


def tsne(vectors: np.ndarray, perplexity: float, seed: int) -> np.ndarray:
    """(n, 2) coordinates, rounded to three decimals; zeros where all vectors are the same."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    n, d = vectors.shape
    moved = vectors - vectors.mean(axis=0)
    scale = float(np.abs(moved).max(initial=0.0))
    if n < 2 or scale <= 1e-12 * float(np.abs(vectors).max()):
        return np.zeros((n, 2))
    if d < 2:
        moved = np.pad(moved, ((0, 0), (0, 2 - d)))
    # Its squared distances are float32: neither tiny nor huge vectors may leave their range.
    moved /= scale
    model = TSNE(2, init="pca", perplexity=min(perplexity, (n - 1) / 3), random_state=seed)
    # Its sums depend on the number of threads, and a map is chaotic: one thread gives one picture on every number of
    # cores.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        place = model.fit_transform(moved)
    return np.round(place.astype(np.float64), 3)
