r"""Supports joined by their nearest nodes of the whole graph, then nearest class mean by cosine.

Chum, Philbin, Sivic, Isard and Zisserman, Total Recall: Automatic Query Expansion, ICCV 2007, with the weights of
Radenović, Tolias and Chum, Fine-tuning CNN Image Retrieval with No Human Annotation, https://arxiv.org/abs/1711.02512,
here on supports:

.. math::
    e_s = \hat z_s + \sum_{j \in \mathrm{kNN}(s)} \max(0, \cos(\hat z_s, \hat z_j))^{3} \, \hat z_j, \qquad
    p_c \propto \sum_{s \in \text{support of } c} e_s, \qquad
    \hat y_q = \arg\max_c \cos(\hat z_q, p_c)

The nearest are taken among all nodes but s, without a look at which of them are queries: every query is answered alone,
and the answer is the same whatever the other queries of its task are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from naq.heads import base
from naq.heads.base import Head, task_chunks
from naq.heads.prototype import all_nodes_mean, centred, centred_rows, cosines
from naq.neighbors.topk import Best
from naq.options import option
from naq.tasks import Tasks

POWER = 3
"""Of the cosine: a neighbour's weight."""


class ExpansionHead(Head):
    """Class means of the supports and of the nodes nearest to each, answered by cosine.

    Shapes:
        - embedding: (nodes, d); rows that are zero (after centring) have no neighbours and are nobody's
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
        expanded = _expanded(embedding, mean, nodes, self.options.k)
        slots = np.empty(tasks.query.shape, dtype=np.int64)
        for part in task_chunks(tasks, embedding.shape[1]):
            _, query = centred_rows(embedding, mean, tasks, part)
            slots[part] = cosines(query, expanded[place[part]].sum(axis=2)).argmax(axis=2)
        return slots


def _expanded(embedding: np.ndarray, mean: np.ndarray, nodes: np.ndarray, k: int) -> np.ndarray:
    """(s, d) unit rows of ``nodes``, each with its weighted nearest added."""
    rows, ids = centred(embedding[nodes], mean), nearest_nodes(embedding, mean, nodes, k)
    step = max(1, base.CHUNK_BYTES // (8 * (k + 1) * len(mean)))
    for start in range(0, len(nodes), step):
        some = slice(start, start + step)
        near = centred(embedding[ids[some]], mean)
        weight = np.maximum(np.einsum("sd,skd->sk", rows[some], near), 0.0) ** POWER
        rows[some] += np.einsum("sk,skd->sd", weight, near)
    return rows


def nearest_nodes(embedding: np.ndarray, mean: np.ndarray, nodes: np.ndarray, k: int) -> np.ndarray:
    """(s, min(k, n - 1)) the nodes nearest to each of ``nodes`` but itself, the nearest first.

    Cosines of float64 are compared as float32 and ties go to the lowest id: equal rows tie whatever their last bits.
    """
    n, k = len(embedding), min(k, len(embedding) - 1)
    if k == 0:
        return np.zeros((len(nodes), 0), dtype=np.int64)
    rows, places = centred(embedding[nodes], mean), torch.arange(len(nodes))
    best, step = Best(len(nodes), k, torch.device("cpu")), max(1, base.CHUNK_BYTES // (16 * max(len(nodes), len(mean))))
    for start in range(0, n, step):
        near = torch.from_numpy((rows @ centred(embedding[start : start + step], mean).T).astype(np.float32))
        own = np.flatnonzero((nodes >= start) & (nodes < start + step))
        near[own, nodes[own] - start] = -torch.inf
        # Owners are places in ``nodes``, and no candidate has such a number.
        best.offer(near, places, torch.arange(start, start + near.shape[1]) + len(nodes))
    return best.arrays()[0].astype(np.int64) - len(nodes)
