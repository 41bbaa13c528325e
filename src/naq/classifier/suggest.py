"""What to label next: nodes in the middle of clusters, then also nodes between two classes.

Without labels: k-means of the unit vectors into k clusters, of each the medoid, the node nearest to the centre; large
clusters first. With labels, every second node is instead the most doubtful one among the medoids of finer clusters, so
that it represents others: its two likeliest classes are near each other and the experts disagree about it. At least k
clusters hold no label.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import rankdata

from naq.classifier.prediction import Prediction
from naq.errors import OptionError
from naq.neighbors.clusters import assign, kmeans
from naq.options import check_whole
from naq.random import stream

FINER = 4  # clusters among whose medoids small margins are sought, per cluster of the first kind
MOST_CLUSTERS = 512  # or as many as nodes are asked for: more would take long


def find_medoids(units: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(clusters,) the node nearest to each centre, largest clusters first, and (n,) the cluster of every node."""
    rows = torch.from_numpy(np.ascontiguousarray(units))
    middle = kmeans(rows, torch.from_numpy(_spread_out(units, count, seed)))
    home = assign(rows, middle, 1)[:, 0].numpy()
    near = np.einsum("nd,nd->n", units, middle.numpy()[home])
    order = np.lexsort((np.arange(len(near)), -near, home))
    first = np.flatnonzero(np.concatenate([[True], home[order][1:] != home[order][:-1]]))
    nodes, clusters = order[first], home[order][first]
    by_size = np.argsort(-np.bincount(home, minlength=count)[clusters], kind="stable")
    place = np.full(count, -1)
    place[clusters[by_size]] = np.arange(len(by_size))
    return nodes[by_size], place[home]


def _spread_out(units: np.ndarray, count: int, seed: int) -> np.ndarray:
    """(count, d) rows to start k-means from, drawn by distance (k-means++, Arthur and Vassilvitskii 2007)."""
    random = stream(seed, "classifier/medoids")
    chosen = [int(random.integers(len(units)))]
    apart = np.full(len(units), np.inf)
    while len(chosen) < count:
        apart = np.minimum(apart, np.maximum(1.0 - units @ units[chosen[-1]], 0.0))
        apart[chosen] = 0.0
        total = np.cumsum(apart, dtype=np.float64)
        if total[-1] > 0:
            drawn = int(np.searchsorted(total, random.random() * total[-1], side="right"))
            chosen.append(min(drawn, len(units) - 1))
        else:  # all others are where a chosen one is
            chosen.append(int(np.setdiff1d(np.arange(len(units)), chosen)[0]))
    return units[chosen].copy()


def doubt(found: Prediction) -> np.ndarray:
    """(n,) the larger, the smaller the margin between the two likeliest classes and the less the experts agree."""
    top = np.partition(found.probabilities, -2, axis=1)
    return rankdata(top[:, -2] - top[:, -1]) + rankdata(found.disagreement())


def choose_nodes(
    units: np.ndarray, k: int, labelled: np.ndarray, doubtful: np.ndarray | None, seed: int,
    alone: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """(k,) nodes without a label, the most useful first; ``doubtful`` (n,) is None without labels.

    Of these, nodes that are ``alone`` (n,), without an edge, come last: their labels tell nothing of neighbours."""
    k = check_whole("k", k)
    free = np.ones(len(units), dtype=bool)
    free[labelled] = False
    if k > free.sum():
        raise OptionError(f"k is {k}, but only {int(free.sum()):,} nodes have no label; lower k.")
    count = min(len(units), max(k, min(MOST_CLUSTERS, k + len(labelled))))
    nodes, home = find_medoids(units, count, seed)
    empty = np.ones(len(nodes), dtype=bool)
    empty[home[labelled]] = False
    order = np.concatenate([nodes[empty], nodes[~empty]])
    central: list[int] = order[free[order]].tolist()
    unsure: list[int] = []
    if doubtful is not None:
        finer, _ = find_medoids(units, min(len(units), max(k, min(MOST_CLUSTERS, FINER * count))), seed)
        order = np.argsort(-doubtful[finer], kind="stable")
        unsure = finer[order][free[finer[order]]].tolist()
    chosen = np.array(alternate(central, unsure, np.flatnonzero(free).tolist(), k), dtype=np.int64)
    return chosen if alone is None else chosen[np.argsort(alone[chosen], kind="stable")]


def alternate(one: list[int], two: list[int], rest: list[int], k: int) -> list[int]:
    """k different nodes, in turn from both lists; from the rest where they are too short."""
    chosen: dict[int, None] = {}
    turns = [iter(one), iter(two)]
    while len(chosen) < k and turns:
        for turn in list(turns):
            if (node := next((x for x in turn if x not in chosen), None)) is None:
                turns.remove(turn)
            else:
                chosen[node] = None
    return list(dict.fromkeys([*chosen, *rest]))[:k]
