r"""Prototypes and class shares refined together by the queries of the task: EM.

Dempster, Laird and Rubin, Maximum Likelihood from Incomplete Data via the EM Algorithm, J. R. Stat. Soc. B 39 (1977), on unit
vectors: the responsibilities of soft k-means (Ren et al., https://arxiv.org/abs/1803.00676) with the shares of the classes
estimated instead of taken as equal. Over the n queries of a task with N classes, :math:`\pi` uniform at first:

.. math::
    u_{qc} = \mathrm{softmax}_c\!\left(\cos(\hat z_q, p_c) / T + \ln \pi_c\right), \qquad
    \pi_c = \frac{\sum_q u_{qc} + a}{n + a N}, \qquad
    p_c \propto \sum_{i \in \text{support of } c} \hat z_i + \sum_q u_{qc} \hat z_q

The answer is the most likely class, :math:`\arg\max_c \cos(\hat z_q, p_c) / T + \ln \pi_c`. It does not assume that classes have
equally many queries. It sees all queries of a task at once, so its numbers stand beside those of other transductive methods only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from naq.heads.transductive import TransductiveHead, softmax
from naq.options import Value


class EMHead(TransductiveHead):
    """Prototypes, then rounds of EM over the queries: class shares and prototypes.

    Args:
        rounds: of EM; 0 is the prototype head.
        temperature: T of the responsibilities.
        prior: a, the queries that every class is taken to have beside those it is given; without bound it is soft k-means.
        center: subtract the mean of all rows of the embedding first.

    Shapes:
        - embedding: (nodes, d)
        - answer: (count, queries of a task) int64; ties to the lowest slot

    Cost: O(rounds way queries d) per task for all its queries, as batched products.

    Example:
        >>> from naq.heads import evaluate
        >>> result = evaluate(embedding, tasks, "em", rounds=10)  # doctest: +SKIP
    """

    name = "em"
    summary = "prototypes and class shares refined by the queries of the task: EM, fair with unbalanced queries"
    defaults: ClassVar[Mapping[str, Value]] = {"rounds": 10, "temperature": 1 / 15, "prior": 2.0, "center": True}

    def check_options(self) -> None:
        super().check_options()
        self.require_positive("prior")

    def shares(self, scores: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share, more = softmax(scores + prior), float(self.options["prior"])
        total = share.shape[1] + more * share.shape[2]
        return share, np.log((share.sum(axis=1, keepdims=True) + more) / total)
