r"""Class means of a few labels, helped by the nodes without one.

With unit vectors :math:`\hat z` and w = ``unlabelled``, :math:`m = 0` at first:

.. math::
    p_c = \sum_{i \text{ labelled } c} \hat z_i + w\, m_c, \qquad
    u_{qc} = \mathrm{softmax}_c\!\left(\cos(\hat z_q, p_c) / \tau\right), \qquad
    m_c \propto \sum_{q \text{ unlabelled}} u_{qc} \hat z_q, \quad |m_c| = 1

All nodes without a label together count as w labels of every class, however many they are: much beside one label, little beside ten.
That is the difference from soft k-means (:mod:`naq.heads.transductive`), where they outvote the labels. w = 0 is the
prototype head; w = 1 is the default, chosen over 0, 2, 3, soft k-means and EM with other draws of labels than those reported.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from naq.random import stream
from naq.threads import available_cores, one_blas_thread
from naq.unit_rows import unit_rows

ROUNDS = 5
SHARPNESS = 1 / 15  # the temperature tau of the shares, as in the head ``transductive``
SAMPLE = 1 << 13  # nodes without a label that help: of more, so many are drawn, always the same
BLOCK = 1 << 11  # rows of a thread at a time; sums are added in the blocks' order: the number of threads changes no bit

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class Prototypes:
    """What the labels say about every node.

    Attributes:
        cosines: (nodes, classes) float32.
        left_out: (labels, classes) float64: the cosines of the labelled nodes, that to its own class without the node itself.
        alone: (labels,) whether the label is the only one of its class.
    """

    cosines: np.ndarray
    left_out: np.ndarray
    alone: np.ndarray


def centred_units(vectors: np.ndarray) -> np.ndarray:
    """(n, d) float32: rows minus the mean of all, of length one; rows within rounding of the mean become zero."""
    apart = vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
    return unit_rows(np.asarray(apart, dtype=np.float32), 1e-6)


def solve(units: np.ndarray, support: np.ndarray, slots: np.ndarray, count: int, unlabelled: float) -> Prototypes:
    """Prototypes of ``count`` classes from labelled nodes, and the cosines of every node to them.

    Shapes:
        - units: (nodes, d) float32, rows of length one or zero
        - support, slots: (labels,) nodes and the class of each, 0..count - 1, every class at least once

    Cost: O((rounds ``SAMPLE`` + nodes) d classes).
    """
    with one_blas_thread(), ThreadPoolExecutor(available_cores()) as pool:  # one BLAS thread for each of the pool
        own_rows = units[support].astype(np.float64)
        of_class = np.zeros((count, len(support)))
        of_class[slots, np.arange(len(support))] = 1.0
        anchors = of_class @ own_rows
        helped = np.zeros_like(anchors)
        helpers = units[helping_nodes(len(units), support)] if unlabelled > 0 else units[:0]
        for _ in range(ROUNDS if len(helpers) else 0):
            helped = unit_rows(_shared_sums(pool, helpers, unit_rows(anchors + unlabelled * helped)))
        prototypes = unit_rows(anchors + unlabelled * helped)
        cosines = np.empty((len(units), count), dtype=np.float32)
        narrow = prototypes.T.astype(np.float32)
        _in_blocks(pool, len(units), lambda part: np.matmul(units[part], narrow, out=cosines[part]))
        left_out = own_rows @ prototypes.T
    without = unit_rows(anchors[slots] - own_rows + unlabelled * helped[slots])
    left_out[np.arange(len(support)), slots] = np.einsum("id,id->i", without, own_rows)
    return Prototypes(cosines, left_out, np.bincount(slots, minlength=count)[slots] == 1)


def probabilities(cosines: np.ndarray, temperature: float) -> np.ndarray:
    """(nodes, classes) float32, ``softmax(cosines / temperature)``."""
    chances = np.empty(cosines.shape, dtype=np.float32)

    def fill(part: slice) -> None:
        chances[part] = softmax(cosines[part] / np.float32(temperature))

    with ThreadPoolExecutor(available_cores()) as pool:
        _in_blocks(pool, len(cosines), fill)
    return chances


def _shared_sums(pool: Executor, helpers: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
    """(classes, d) float64: the sum of the helpers, each counted for every class by its share."""
    narrow = (prototypes.T / SHARPNESS).astype(np.float32)
    parts = _in_blocks(pool, len(helpers), lambda part: softmax(helpers[part] @ narrow).T @ helpers[part])
    return np.asarray(np.sum(parts, axis=0, dtype=np.float64))


def _in_blocks(pool: Executor, count: int, work: Callable[[slice], Part]) -> list[Part]:
    """What ``work`` gives for each block of rows, in their order, computed by the pool."""
    return list(pool.map(work, [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]))


def softmax(scores: np.ndarray) -> np.ndarray:
    """Shares over the last axis."""
    mass = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return mass / mass.sum(axis=-1, keepdims=True)


def helping_nodes(count: int, support: np.ndarray) -> np.ndarray:
    """Nodes without a label, ascending: all, or ``SAMPLE`` of them and of the labelled."""
    drawn = np.arange(count)
    if count > SAMPLE:
        drawn = np.sort(stream(0, "classifier/helpers").permutation(count)[:SAMPLE])
    return drawn[~np.isin(drawn, support)]
