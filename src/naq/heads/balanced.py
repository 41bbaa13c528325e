r"""Prototypes refined by the queries of the task, told that every class has equally many of them: Sinkhorn's balance.

Hu, Gripon and Pateux, Leveraging the Feature Distribution in Transfer-based Few-Shot Learning (PT-MAP),
https://arxiv.org/abs/2006.03806, without its transform of the features; Cuturi, Sinkhorn Distances, https://arxiv.org/abs/1306.0895.

.. math::
    u_{qc} = a_q \exp\!\left(\cos(\hat z_q, p_c) / T\right) b_c
    \quad\text{with}\quad \sum_c u_{qc} = 1, \; \sum_q u_{qc} = n / N, \qquad
    p_c \propto \sum_{i \in \text{support of } c} \hat z_i + \sum_q u_{qc} \hat z_q

It **knows that the queries are balanced**, which no query says: an assumption about how tasks are drawn, true of the usual test
tasks and wrong wherever classes are not equally frequent. There it loses much of its accuracy (Veilleux et al., Realistic
Evaluation of Transductive Few-Shot Learning, https://arxiv.org/abs/2204.11181), so it is never a default, and its numbers stand
beside those of methods with the same knowledge only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from naq.heads.transductive import TransductiveHead
from naq.options import Value

STEPS = 20
"""Alternations between rows and columns that bring the shares into balance."""


class BalancedHead(TransductiveHead):
    """Prototypes, then rounds in which every class gets the same mass of queries, then cosine.

    Args:
        rounds: of shares and prototypes; 0 is the prototype head.
        temperature: T of the shares.
        center: subtract the mean of all rows of the embedding first.

    Shapes:
        - embedding: (nodes, d)
        - answer: (count, queries of a task) int64; ties to the lowest slot

    Cost: O(rounds way queries (d + STEPS)) per task for all its queries, as batched products.

    Example:
        >>> from naq.heads import evaluate
        >>> result = evaluate(embedding, tasks, "balanced")  # doctest: +SKIP
    """

    name = "balanced"
    knows_balance = True
    summary = "prototypes refined by the queries; knows that they are balanced, and is wrong where they are not"
    defaults: ClassVar[Mapping[str, Value]] = {"rounds": 10, "temperature": 1 / 15, "center": True}

    def shares(self, scores: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return balanced_shares(scores), prior


def balanced_shares(scores: np.ndarray) -> np.ndarray:
    """Shares ``a exp(scores) b`` with the same mass for every class, and rows that sum to one as far as ``STEPS`` alternations bring them.

    Shapes:
        - scores: (tasks, queries, way)
        - answer: the same; columns sum to queries / way up to rounding
    """
    mass = scores.shape[1] / scores.shape[2]
    # Above the smallest numbers, so that at low temperatures no column is lost: what follows never makes one smaller than that.
    share = np.exp(np.maximum(scores - scores.max(axis=2, keepdims=True), -600.0))
    for _ in range(STEPS):
        share /= share.sum(axis=2, keepdims=True)
        share *= mass / share.sum(axis=1, keepdims=True)
    return share
