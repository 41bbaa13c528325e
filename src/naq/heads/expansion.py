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

from naq.heads import base
from naq.heads.base import Head, task_chunks
from naq.heads.prototype import all_nodes_mean, centred, centred_rows, cosines
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

    Example:
        >>> from naq.heads import evaluate
        >>> result = evaluate(embedding, tasks, "expansion", k=20)  # doctest: +SKIP
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
    rows = centred(embedding[nodes], mean)
    step = max(1, base.CHUNK_BYTES // (8 * (k + 1) * len(mean)))
    ids, cosine = nearest_nodes(embedding, mean, nodes, k)
    weight = np.maximum(cosine, 0.0) ** POWER
    for start in range(0, len(nodes), step):
        some = slice(start, start + step)
        rows[some] += np.einsum("sk,skd->sd", weight[some], centred(embedding[ids[some]], mean))
    return rows


def nearest_nodes(embedding: np.ndarray, mean: np.ndarray, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and cosines (s, min(k, n - 1)) of the nodes nearest to each of ``nodes`` but itself, the nearest first.

    Cosines are compared as float32 and ties go to the lowest id, so that equal rows tie whatever the last bits of their
    products. A product in float32 finds the pairs that may count, the cosines of these are then computed in float64.
    """
    n, k = len(embedding), min(k, len(embedding) - 1)
    rows = centred(embedding[nodes], mean)
    ids, best = np.zeros((len(nodes), 0), dtype=np.int64), np.zeros((len(nodes), 0))
    step = max(k + 1, base.CHUNK_BYTES // (16 * max(len(nodes), len(mean))))
    blocks = max(1, n // step) if k else 0
    for first in range(blocks):
        # Spread over all nodes: where ids follow classes, few pairs of later blocks count.
        block = np.arange(first, n, blocks)
        last = (best[:, -1:], ids[:, -1:]) if first else None
        row, column, cosine = _pairs(rows, nodes, centred(embedding[block], mean), block, last, k)
        row = np.concatenate([np.repeat(np.arange(len(nodes)), ids.shape[1]), row])
        cosine, there = np.concatenate([best.ravel(), cosine]), np.concatenate([ids.ravel(), block[column]])
        order = np.lexsort([there, -cosine.astype(np.float32), row])
        kept = order[np.searchsorted(row[order], np.arange(len(nodes)))[:, None] + np.arange(k)]
        ids, best = there[kept], cosine[kept]
    return ids, best


def _pairs(
    rows: np.ndarray,
    nodes: np.ndarray,
    others: np.ndarray,
    block: np.ndarray,
    last: tuple[np.ndarray, np.ndarray] | None,
    k: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, column and cosine of pairs of ``nodes`` with a ``block`` of others, among them all that may be of the k
    nearest.

    Args:
        rows, others: unit vectors of both.
        last: (s, 1) cosine and id of the k-th nearest so far; None in the first block, of which then the k nearest
            count.
    """
    own = np.flatnonzero(np.isin(nodes, block))
    own_column = np.searchsorted(block, nodes[own])

    def product(kind: type[np.floating]) -> np.ndarray:
        found = rows.astype(kind) @ others.astype(kind).T
        found[own, own_column] = -np.inf
        return found

    def lowest(found: np.ndarray) -> np.ndarray:
        return np.partition(found, -k, axis=1)[:, [-k]]

    # A float32 product of unit vectors is off by at most (d + 2) 2^-24, in whatever order it is summed; twice, for both
    # sides.
    margin = 2 * (rows.shape[1] + 2) * 2.0**-24
    near = product(np.float32)
    row, column = np.nonzero(near >= ((lowest(near) if last is None else last[0]) - margin).astype(np.float32))
    if len(row) > near.size // 16:  # many equal rows: cheaper, and less memory, by a product in float64
        cosine = product(np.float64)
        compared = cosine.astype(np.float32)
        floor = lowest(compared) if last is None else last[0].astype(np.float32)
        counts = (compared > floor) | ((compared == floor) & (True if last is None else block < last[1]))
        row, column = np.nonzero(counts)
        return row, column, cosine[row, column]
    cosine = np.empty(len(row))
    step = max(1, base.CHUNK_BYTES // (16 * rows.shape[1]))
    for start in range(0, len(row), step):
        some = slice(start, start + step)
        cosine[some] = np.einsum("pd,pd->p", rows[row[some]], others[column[some]])
    return row, column, cosine
