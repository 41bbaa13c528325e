r"""Nearest class mean by cosine.

Snell, Swersky and Zemel, Prototypical Networks for Few-shot Learning, https://arxiv.org/abs/1703.05175; with the centring of
Wang, Chao, Weinberger and van der Maaten, SimpleShot, https://arxiv.org/abs/1911.04623, here on the mean of all nodes.

.. math::
    \hat z_i = \frac{z_i - \bar z}{\lVert z_i - \bar z \rVert}, \qquad
    p_c = \frac{1}{K} \sum_{i \in \text{support of } c} \hat z_i, \qquad
    \hat y_q = \arg\max_c \cos(\hat z_q, p_c)
"""

from __future__ import annotations

import numpy as np

from naq.heads.base import Head, flag, register_head, task_chunks
from naq.tasks import Tasks

RESOLUTION = 1e-12
"""A row closer to the mean than this, relative to both, counts as the mean itself: what is left is rounding."""


@register_head
class PrototypeHead(Head):
    """Class means of the supports, answered by cosine.

    Args:
        center: subtract the mean of all rows of the embedding first.

    Shapes:
        - embedding: (nodes, d); rows that are zero (after centring) stay zero and have cosine 0 to everything
        - answer: (count, way * queries) int64; ties to the lowest slot

    Cost: O(way queries d) per task, as one batched product.

    Example:
        >>> from naq.heads import evaluate
        >>> result = evaluate(embedding, tasks, "prototype")  # doctest: +SKIP
    """

    name = "prototype"

    def __init__(self, *, center: bool = True) -> None:
        self.center = self.needs_all_nodes = flag("center", center)
        super().__init__(center=self.center)

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        mean = all_nodes_mean(embedding, self.center)
        slots = np.empty(tasks.query.shape, dtype=np.int64)
        for part in task_chunks(tasks, embedding.shape[1]):
            support, query = unit_rows(embedding, mean, tasks, part)
            slots[part] = cosines(query, support.mean(axis=2)).argmax(axis=2)
        return slots


def all_nodes_mean(embedding: np.ndarray, center: bool) -> np.ndarray:
    """(d,) mean of all rows in float64, or zeros without centring."""
    return embedding.mean(axis=0, dtype=np.float64) if center else np.zeros(embedding.shape[1])


def unit_rows(embedding: np.ndarray, mean: np.ndarray, tasks: Tasks, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Centred rows of length one: support (tasks, way, shot, d) and query (tasks, way * queries, d)."""
    support = _unit(embedding[tasks.support[part]], mean)
    return support.reshape(-1, tasks.way, tasks.shot, len(mean)), _unit(embedding[tasks.query[part]], mean)


def cosines(query: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
    """(tasks, queries, way) of unit queries (tasks, queries, d) and prototypes (tasks, way, d) of any length."""
    return query @ normalized(prototypes).swapaxes(1, 2)


def normalized(vectors: np.ndarray) -> np.ndarray:
    """The vectors at length one; zero vectors stay zero."""
    norm = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, norm, out=np.zeros_like(vectors), where=norm > 0)


def _unit(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    floor = RESOLUTION * np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), np.linalg.norm(mean))
    rows -= mean
    norm = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > floor)
