"""Dense graphs, also the augmented ones of g-UMTRA by one decision per edge, and episodes to read on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch

from graphs import random_graph
from naq.episodes import Episodes, supervised_episodes, umtra_episodes
from naq.learners import Learner
from naq.nn import GCN, AugmentedOperator, GraphOperator
from naq.nn.augment import _kept

CASES = ("one shot", "three shots", "missing queries", "augmented", "augmented, two shots")


def episodes_of(case: str) -> Episodes:
    """A few 3-way episodes on ``random_graph()``; with missing queries one of them has none."""
    if case.startswith("augmented"):
        return augmented_episodes(60, shot=2 if "two" in case else 1)
    shot = 1 if case == "one shot" else 3
    drawn = supervised_episodes(random_graph().labels, range(3), way=3, shot=shot, queries=4, count=3)
    if case != "missing queries":
        return drawn
    mask = drawn.mask.copy()
    mask[0, :, 2:], mask[1], mask[2, 0, 0] = False, False, False
    return Episodes(drawn.support, np.where(mask, drawn.query, -1), mask)


def augmented_episodes(nodes: int, *, shot: int = 1, drop_edge: float = 0.4, drop_feature: float = 0.3) -> Episodes:
    """Three 3-way episodes with two query columns, each on its own view.

    With more than one shot the queries are other nodes than the supports and some are missing, all of the second
    episode among them; :func:`naq.umtra_episodes` draws one shot only.
    """
    plain = umtra_episodes(nodes, way=3, views=2, count=3, drop_edge=drop_edge, drop_feature=drop_feature)
    if shot == 1:
        return plain
    random = np.random.default_rng(shot)
    ids = np.stack([random.permutation(nodes)[: 3 * (shot + 2)] for _ in range(3)]).reshape(3, 3, shot + 2)
    mask = random.random((3, 3, 2)) < 0.7
    mask[1] = False
    return Episodes(ids[:, :, :shot], np.where(mask, ids[:, :, shot:], -1), mask, plain.info)


def thinned(view: AugmentedOperator) -> np.ndarray:
    """The whole A' by one decision per undirected edge."""
    n = view.graph.num_nodes
    out = np.zeros((n, n))
    coo = sp.coo_array(view.graph.adjacency)
    for u, v in zip(coo.row.tolist(), coo.col.tolist()):
        if u < v and _kept(u, v, view._keys, view.drop_edge):
            out[u, v] = out[v, u] = 1.0
    return out


def masked(view: AugmentedOperator) -> np.ndarray:
    """The whole X'."""
    features = view.graph.features
    whole = features if isinstance(features, np.ndarray) else features.toarray()
    return whole * view.columns


def normalised(adjacency: np.ndarray) -> np.ndarray:
    """D^-1/2 (A + I) D^-1/2."""
    looped = adjacency + np.eye(len(adjacency))
    scale = 1 / np.sqrt(looped.sum(1))
    return scale[:, None] * looped * scale


def two_layers(
    gcn: GCN, adjacency: np.ndarray, features: np.ndarray, between: Callable[[torch.Tensor], torch.Tensor] = torch.relu
) -> torch.Tensor:
    """A_hat between(A_hat X W1 + b1) W2 + b2 of the whole graph in double precision, with gradients of the weights."""
    a_hat, x = torch.from_numpy(normalised(adjacency)), torch.tensor(features).double()
    hidden = between(a_hat @ x @ gcn.weight1.double() + gcn.bias1)
    return a_hat @ hidden @ gcn.weight2.double() + gcn.bias2


def dense_graphs(learner: Learner, episodes: Episodes, update: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(A, X) that supports are read on, then (A', X') of each query column.

    Under g-UMTRA one thinning per update and column, else the graph itself.
    """
    graph = learner.graph
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    own = (graph.adjacency.toarray().astype(np.float64), features)
    if episodes.info.get("kind") != "g-umtra":
        return [own] * (1 + episodes.queries)
    drops = {name: float(episodes.info[name]) for name in ("drop_edge", "drop_feature")}
    views = [
        AugmentedOperator(GraphOperator(graph), **drops, seed=learner.seed, index=(update, column))
        for column in range(episodes.queries)
    ]
    return [own, *((thinned(view), masked(view)) for view in views)]
