r"""Nearest class mean by cosine.

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

from naq.heads.base import Head, task_chunks
from naq.options import option
from naq.tasks import Tasks
from naq.unit_rows import unit_rows

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
        for part in task_chunks(tasks, embedding.shape[1]):
            support, query = centred_rows(embedding, mean, tasks, part)
            slots[part] = cosines(query, support.mean(axis=2)).argmax(axis=2)
        return slots


def all_nodes_mean(embedding: np.ndarray, center: bool) -> np.ndarray:
    """(d,) mean of all rows in float64, or zeros without centring."""
    return embedding.mean(axis=0, dtype=np.float64) if center else np.zeros(embedding.shape[1])


def centred_rows(embedding: np.ndarray, mean: np.ndarray, tasks: Tasks, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Rows minus ``mean``, of length one: support (tasks, way, shot, d) and query (tasks, way * queries, d)."""
    support, query = (centred(embedding[ids[part]], mean) for ids in (tasks.support, tasks.query))
    return support.reshape(-1, tasks.way, tasks.shot, len(mean)), query


def cosines(query: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
    """(tasks, queries, way) of unit queries (tasks, queries, d) and prototypes (tasks, way, d) of any length."""
    return query @ unit_rows(prototypes).swapaxes(1, 2)


def centred(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Rows (..., d) minus ``mean``, of length one in float64; zero where nothing but rounding is left."""
    rows = rows.astype(np.float64)
    floor = RESOLUTION * np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), np.linalg.norm(mean))
    return unit_rows(rows - mean, floor)
