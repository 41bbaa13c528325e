r"""``class-similarity``: how similar the classes of a node and of its nearest nodes are, and the shape of the neighbour
table.

With :math:`a_c` the mean raw feature of class c, the similarity of nodes i and j is :math:`\cos(a_{y_i}, a_{y_j})`, and
1 where they share a class. Reported is the mean over labelled nodes i and their k nearest that are labelled; tail rows
keep the i of the smallest classes. Labels are read for analysis only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.episodes.episodes import check_counts
from naq.graph import Graph
from naq_paper.cells.cell import Cell
from naq_paper.measurements import Context, dataset_cell
from naq_paper.measurements.tables import completed_table, short_share, table_config

TAILS = (10, 20, 50, 80, 100)
"""Percents of the classes, smallest first."""


def class_similarity_cell(dataset: str, *, kind: str = "naq-feat", k: int = 10, **table: Any) -> Cell:
    """The cell of class-level similarity over the k nearest.

    ``table`` describes the neighbours, see :func:`~naq_paper.measurements.tables.table_config`. Centroids are of raw
    features whatever they are found by. With ``fill="none"`` a node without k neighbours counts those it has.
    """
    check_counts(k=k)
    config = {"k": int(k), "tails": list(TAILS), **table_config(kind, **table)}
    return dataset_cell("class-similarity", dataset, config)


def class_similarity(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``similarity_percent`` and ``same_class_share`` over all nodes and per tail; ``in_degrees`` describes the table.

    Null where no labelled node has a labelled neighbour.
    """
    graph = context.perturbed(config).graph
    labels = graph.require_labels("class-level similarity")
    classes, sizes = np.unique(labels[labels >= 0], return_counts=True)
    cosines = class_cosines(graph, classes)
    table, filled = completed_table(graph, config, int(config["k"]), context)
    place = np.where(labels >= 0, np.searchsorted(classes, labels), -1)
    by_class = _sums_by_class(place, table.ids, cosines)
    smallest = np.argsort(sizes, kind="stable")
    tails = []
    for percent in config["tails"]:
        chosen = smallest[: -(-int(percent) * len(classes) // 100)]
        counts = {"percent": int(percent), "classes": len(chosen), "nodes": int(sizes[chosen].sum())}
        tails.append({**counts, **_means(by_class[chosen])})
    return {
        **_means(by_class), "tails": tails, "classes": len(classes), "nodes": graph.num_nodes,
        "short_nodes": short_share(table, filled), "in_degrees": in_degrees(table.ids), "table": dict(table.info),
    }  # fmt: skip


def class_cosines(graph: Graph, classes: np.ndarray) -> np.ndarray:
    """(C, C) cosine of the classes' mean raw features, 1 on the diagonal; 0 for a mean of all zeros."""
    features, labels = graph.require_features("class centroids"), graph.require_labels("class centroids")
    nodes = np.flatnonzero(labels >= 0)
    places = np.searchsorted(classes, labels[nodes]), nodes
    members = sp.csr_array((np.ones(len(nodes)), places), shape=(len(classes), graph.num_nodes))
    # A sum points where the mean does.
    sums = members @ features
    centroids = np.asarray(sums if isinstance(sums, np.ndarray) else sums.toarray(), dtype=np.float64)
    norms = np.linalg.norm(centroids, axis=1, keepdims=True)
    centroids = np.divide(centroids, norms, out=np.zeros_like(centroids), where=norms > 0)
    cosines = centroids @ centroids.T
    np.fill_diagonal(cosines, 1.0)
    return cosines


def _sums_by_class(place: np.ndarray, ids: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """(C, 3) per class of the node: pairs with a labelled neighbour, their summed similarity, those of one class."""
    totals = np.zeros((len(cosines), 3))
    for column in ids.T:
        pairs = np.flatnonzero((column >= 0) & (place >= 0) & (place[column] >= 0))
        own, other = place[pairs], place[column[pairs]]
        for part, weights in enumerate((None, cosines[own, other], own == other)):
            totals[:, part] += np.bincount(own, weights=weights, minlength=len(cosines))
    return totals


def _means(by_class: np.ndarray) -> dict[str, Any]:
    pairs, cosines, same = by_class.sum(axis=0).tolist()
    return {
        "pairs": int(pairs),
        "similarity_percent": 100.0 * cosines / pairs if pairs else None,
        "same_class_share": same / pairs if pairs else None,
    }


def in_degrees(ids: np.ndarray) -> dict[str, Any]:
    """How evenly nodes are chosen as neighbours: hubs make a long tail of in-degrees.

    ``skewness`` is the third standardised moment, ``gini`` is 0 where all are chosen equally often and near 1 where few
    are chosen; both null where they are not defined.
    """
    degrees = np.bincount(ids[ids >= 0], minlength=len(ids)).astype(np.float64)
    apart, n = degrees - degrees.mean(), len(degrees)
    spread, total = float((apart**2).mean()), float(degrees.sum())
    ranks = 2.0 * np.arange(1, n + 1) - n - 1
    return {
        "skewness": float((apart**3).mean()) / spread**1.5 if spread > 0 else None,
        "largest": int(degrees.max()),
        "never_chosen": float((degrees == 0).mean()),
        "gini": float((ranks * np.sort(degrees)).sum()) / (n * total) if total else None,
    }
