r"""Nearest class mean by cosine, also with each support joined by its nearest nodes of the whole graph.

Snell, Swersky and Zemel, Prototypical Networks for Few-shot Learning, https://arxiv.org/abs/1703.05175; with the
centring of Wang, Chao, Weinberger and van der Maaten, SimpleShot, https://arxiv.org/abs/1911.04623, here on the mean of
all nodes.

.. math::
    \hat z_i = \frac{z_i - \bar z}{\lVert z_i - \bar z \rVert}, \qquad
    p_c = \frac{1}{K} \sum_{i \in \text{support of } c} \hat z_i, \qquad
    \hat y_q = \arg\max_c \cos(\hat z_q, p_c)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from naq.graph.operators import unit_rows
from naq.heads.base import CHUNK_BYTES, Head, task_slices
from naq.neighbors.topk import Best
from naq.options import option
from naq.tasks import Tasks

RESOLUTION = 1e-12
"""A row closer to the mean than this, relative to both, counts as the mean itself: what is left is rounding."""


class PrototypeHead(Head):
    """Class means of the supports, answered by cosine.

    Shapes:
        - embedding: (nodes, d); rows that are zero (after centring) stay zero and have cosine 0 to everything
        - answer: (count, way * queries) int64; ties to the lowest slot

    Cost: O(way queries d) per task, as one batched product.
    """

    name = "prototype"
    summary = "nearest class mean by cosine, after subtracting the mean of all nodes"

    @dataclass(frozen=True)
    class Options(Head.Options):
        center: bool = option(True)  # subtract the mean of all rows of the embedding first

    options: Options

    @property
    def needs_all_nodes(self) -> bool:
        return self.options.center

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        mean = all_nodes_mean(embedding, self.options.center)
        slots = np.empty(tasks.query.shape, dtype=np.int64)
        for part in task_slices(tasks, embedding.shape[1]):
            support, query = task_rows(embedding, mean, tasks, part)
            slots[part] = cosines(query, support.mean(axis=2)).argmax(axis=2)
        return slots


def all_nodes_mean(embedding: np.ndarray, center: bool) -> np.ndarray:
    """(d,) mean of all rows in float64, or zeros without centring."""
    return embedding.mean(axis=0, dtype=np.float64) if center else np.zeros(embedding.shape[1])


def task_rows(embedding: np.ndarray, mean: np.ndarray, tasks: Tasks, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Rows minus ``mean``, of length one: support (tasks, way, shot, d) and query (tasks, way * queries, d)."""
    support, query = (center_rows(embedding[ids[part]], mean) for ids in (tasks.support, tasks.query))
    return support.reshape(-1, tasks.way, tasks.shot, len(mean)), query


def cosines(query: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
    """(tasks, queries, way) of unit queries (tasks, queries, d) and prototypes (tasks, way, d) of any length."""
    return query @ unit_rows(prototypes).swapaxes(1, 2)


def center_rows(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Rows (..., d) minus ``mean``, of length one in float64; zero where nothing but rounding is left."""
    rows = rows.astype(np.float64)
    floor = RESOLUTION * np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), np.linalg.norm(mean))
    return unit_rows(rows - mean, floor)


POWER = 3
"""Of the cosine: a neighbour's weight."""


class ExpansionHead(Head):
    r"""Supports joined by their nearest nodes of the whole graph, then nearest class mean by cosine.

    Chum, Philbin, Sivic, Isard and Zisserman, Total Recall: Automatic Query Expansion, ICCV 2007, with the weights of
    Radenović, Tolias and Chum, Fine-tuning CNN Image Retrieval with No Human Annotation,
    https://arxiv.org/abs/1711.02512, here on supports:

    .. math::
        e_s = \hat z_s + \sum_{j \in \mathrm{kNN}(s)} \max(0, \cos(\hat z_s, \hat z_j))^{3} \, \hat z_j, \qquad
        p_c \propto \sum_{s \in \text{support of } c} e_s, \qquad
        \hat y_q = \arg\max_c \cos(\hat z_q, p_c)

    The nearest are taken among all nodes but s, queries or not: every query is answered alone, and its answer does not
    depend on the other queries of its task.

    Shapes:
        - embedding: (nodes, d); rows that are zero (after centring) have no neighbours and are no neighbours
        - answer: (count, queries of a task) int64; ties to the lowest slot

    Cost: O(s nodes d) for the s distinct supports of the task set, in blocks of nodes; then that of the prototype head.
    """

    name = "expansion"
    reported = False  # O(supports n d): as much as all the others together
    summary = "nearest class mean by cosine, each support joined by its 20 nearest nodes"

    @dataclass(frozen=True)
    class Options(Head.Options):
        k: int = option(20, at_least=0)  # nearest nodes that join a support
        center: bool = option(True)  # subtract the mean of all rows of the embedding first

    options: Options

    @property
    def needs_all_nodes(self) -> bool:
        return True

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        mean = all_nodes_mean(embedding, self.options.center)
        nodes, place = np.unique(tasks.support, return_inverse=True)
        place = place.reshape(len(tasks), tasks.way, tasks.shot)
        expanded = _expand(embedding, mean, nodes, self.options.k)
        slots = np.empty(tasks.query.shape, dtype=np.int64)
        for part in task_slices(tasks, embedding.shape[1]):
            _, query = task_rows(embedding, mean, tasks, part)
            slots[part] = cosines(query, expanded[place[part]].sum(axis=2)).argmax(axis=2)
        return slots


def _expand(embedding: np.ndarray, mean: np.ndarray, nodes: np.ndarray, k: int) -> np.ndarray:
    """(s, d) unit rows of ``nodes``, each with its weighted nearest added."""
    rows, ids = center_rows(embedding[nodes], mean), nearest_nodes(embedding, mean, nodes, k)
    step = max(1, CHUNK_BYTES // (8 * (k + 1) * len(mean)))
    for start in range(0, len(nodes), step):
        some = slice(start, start + step)
        near = center_rows(embedding[ids[some]], mean)
        weight = np.maximum(np.einsum("sd,skd->sk", rows[some], near), 0.0) ** POWER
        rows[some] += np.einsum("sk,skd->sd", weight, near)
    return rows


def nearest_nodes(
    embedding: np.ndarray, mean: np.ndarray, nodes: np.ndarray, k: int, chunk_bytes: int = CHUNK_BYTES
) -> np.ndarray:
    """(s, min(k, n - 1)) the nodes nearest to each of ``nodes`` but itself, the nearest first.

    Cosines of float64 are compared as float32 and ties go to the lowest id: equal rows tie whatever their last bits.
    """
    n, k = len(embedding), min(k, len(embedding) - 1)
    if k == 0:
        return np.zeros((len(nodes), 0), dtype=np.int64)
    rows, places = center_rows(embedding[nodes], mean), torch.arange(len(nodes))
    best, step = Best(len(nodes), k, torch.device("cpu")), max(1, chunk_bytes // (16 * max(len(nodes), len(mean))))
    for start in range(0, n, step):
        near = torch.from_numpy((rows @ center_rows(embedding[start : start + step], mean).T).astype(np.float32))
        own = np.flatnonzero((nodes >= start) & (nodes < start + step))
        near[own, nodes[own] - start] = -torch.inf
        # Owners are places in ``nodes``, and no candidate has such a number.
        best.offer(near, places, torch.arange(start, start + near.shape[1]) + len(nodes))
    return best.arrays()[0].astype(np.int64) - len(nodes)
