r"""Prototypes refined by the queries of the task: soft k-means that starts from the supports.

Ren et al., Meta-Learning for Semi-Supervised Few-Shot Classification, https://arxiv.org/abs/1803.00676, with the task's own
queries as the unlabelled examples.

.. math::
    r_{qc} = \mathrm{softmax}_c\!\left(\cos(\hat z_q, p_c) / T\right), \qquad
    p_c \propto \sum_{i \in \text{support of } c} \hat z_i + \sum_q r_{qc} \hat z_q

It sees all queries of a task at once, so its numbers stand beside those of other transductive methods only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from naq.heads.base import Head, task_chunks
from naq.heads.prototype import all_nodes_mean, centred_rows, cosines
from naq.options import Value
from naq.tasks import Tasks


class TransductiveHead(Head):
    """Prototypes, then rounds of soft k-means over the queries, then cosine.

    Args:
        rounds: of soft k-means; 0 is the prototype head.
        temperature: T of the responsibilities.
        center: subtract the mean of all rows of the embedding first.

    Shapes:
        - embedding: (nodes, d)
        - answer: (count, way * queries) int64; ties to the lowest slot

    Cost: O(rounds way^2 queries d) per task, as batched products.

    Example:
        >>> from naq.heads import evaluate
        >>> result = evaluate(embedding, tasks, "transductive", rounds=5)  # doctest: +SKIP
    """

    name = "transductive"
    transductive = True
    summary = "prototypes refined by the queries of the task: soft k-means"
    defaults: ClassVar[Mapping[str, Value]] = {"rounds": 5, "temperature": 1 / 15, "center": True}

    def check_options(self) -> None:
        self.require_positive("temperature")
        self.require_at_least("rounds", 0)

    @property
    def needs_all_nodes(self) -> bool:
        return bool(self.options["center"])

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        rounds, temperature = int(self.options["rounds"]), float(self.options["temperature"])
        mean = all_nodes_mean(embedding, bool(self.options["center"]))
        slots = np.empty(tasks.query.shape, dtype=np.int64)
        for part in task_chunks(tasks, embedding.shape[1]):
            support, query = centred_rows(embedding, mean, tasks, part)
            anchors = support.sum(axis=2)
            prototypes, prior = anchors, np.zeros((len(query), 1, tasks.way))
            for _ in range(rounds):
                share, prior = self.shares(cosines(query, prototypes) / temperature, prior)
                prototypes = anchors + share.swapaxes(1, 2) @ query
            slots[part] = (cosines(query, prototypes) / temperature + prior).argmax(axis=2)
        return slots

    def shares(self, scores: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How much of each query every class gets in one round, and the logarithms of the classes' shares from then on.

        Shapes:
            - scores and the first answer: (tasks, queries, way)
            - prior and the second answer: (tasks, 1, way), zero at first
        """
        return softmax(scores), prior


def softmax(scores: np.ndarray) -> np.ndarray:
    """Shares over the last axis."""
    mass = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return mass / mass.sum(axis=-1, keepdims=True)
