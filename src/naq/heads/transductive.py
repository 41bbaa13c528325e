r"""Prototypes that the queries of the task refine: soft k-means, EM, and Sinkhorn's balance.

All start from the supports, give every query to the classes in shares u, and move the prototypes:

.. math:: p_c \propto \sum_{i \in \text{support of } c} \hat z_i + \sum_q u_{qc} \hat z_q

They differ in the shares. They see all queries of a task at once, so compare their numbers with those of other
transductive methods only.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from naq.heads.base import Head, task_slices
from naq.heads.prototype import all_nodes_mean, cosines, task_rows
from naq.options import option
from naq.tasks import Tasks

STEPS = 20
"""Alternations between rows and columns that bring the shares of :class:`BalancedHead` into balance."""


class RefinedHead(Head):
    """Prototypes, then rounds of :meth:`shares` and prototypes, then cosine.

    Shapes:
        - embedding: (nodes, d)
        - answer: (count, queries of a task) int64; ties to the lowest slot

    Cost: O(rounds way queries d) per task for all its queries, as batched products.
    """

    transductive = True

    @dataclass(frozen=True)
    class Options(Head.Options):
        rounds: int = option(10, at_least=0)  # of shares and prototypes; 0 is the prototype head
        temperature: float = option(1 / 15, more_than=0)  # T of the shares
        center: bool = option(True)  # subtract the mean of all rows of the embedding first

    options: Options

    @property
    def needs_all_nodes(self) -> bool:
        return bool(self.options.center)

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        rounds, temperature = self.options.rounds, self.options.temperature
        mean = all_nodes_mean(embedding, self.options.center)
        slots = np.empty(tasks.query.shape, dtype=np.int64)
        for part in task_slices(tasks, embedding.shape[1]):
            support, query = task_rows(embedding, mean, tasks, part)
            anchors = support.sum(axis=2)
            prototypes, prior = anchors, np.zeros((len(query), 1, tasks.way))
            for _ in range(rounds):
                share, prior = self.shares(cosines(query, prototypes) / temperature, prior)
                prototypes = anchors + share.swapaxes(1, 2) @ query
            slots[part] = (cosines(query, prototypes) / temperature + prior).argmax(axis=2)
        return slots

    @abstractmethod
    def shares(self, scores: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How much of each query every class gets in one round, and the logarithms of the classes' shares from then on.

        Shapes:
            - scores and the first answer: (tasks, queries, way)
            - prior and the second answer: (tasks, 1, way), zero at first
        """


class TransductiveHead(RefinedHead):
    r"""Soft k-means: :math:`u_{qc} = \mathrm{softmax}_c(\cos(\hat z_q, p_c) / T)`.

    Ren et al., Meta-Learning for Semi-Supervised Few-Shot Classification, https://arxiv.org/abs/1803.00676, with the
    task's own queries as the unlabelled examples.
    """

    name = "transductive"
    summary = "prototypes refined by the queries of the task: soft k-means"

    @dataclass(frozen=True)
    class Options(RefinedHead.Options):
        rounds: int = option(5, at_least=0)  # of soft k-means; 0 is the prototype head

    def shares(self, scores: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return softmax(scores, axis=-1), prior


class EMHead(RefinedHead):
    r"""EM: the shares of the classes are estimated instead of taken as equal. Fair with unbalanced queries.

    Dempster, Laird and Rubin, Maximum Likelihood from Incomplete Data via the EM Algorithm, J. R. Stat. Soc. B 39
    (1977), on unit vectors. Over the n queries of a task with N classes, :math:`\pi` uniform at first:

    .. math::
        u_{qc} = \mathrm{softmax}_c\!\left(\cos(\hat z_q, p_c) / T + \ln \pi_c\right), \qquad
        \pi_c = \frac{\sum_q u_{qc} + a}{n + a N}

    The answer is the most likely class, :math:`\arg\max_c \cos(\hat z_q, p_c) / T + \ln \pi_c`.
    """

    name = "em"
    summary = "prototypes and class shares refined by the queries of the task: EM, fair with unbalanced queries"

    @dataclass(frozen=True)
    class Options(RefinedHead.Options):
        # a, queries that every class is taken to have in addition to its own; without bound it is soft k-means
        prior: float = option(2.0, more_than=0)

    options: Options

    def shares(self, scores: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share, more = softmax(scores + prior, axis=-1), self.options.prior
        total = share.shape[1] + more * share.shape[2]
        return share, np.log((share.sum(axis=1, keepdims=True) + more) / total)


class BalancedHead(RefinedHead):
    r"""Sinkhorn's balance: every class gets the same mass of queries.

    Hu, Gripon and Pateux, Leveraging the Feature Distribution in Transfer-based Few-Shot Learning (PT-MAP),
    https://arxiv.org/abs/2006.03806, without its transform of the features; Cuturi, Sinkhorn Distances,
    https://arxiv.org/abs/1306.0895.

    .. math::
        u_{qc} = a_q \exp\!\left(\cos(\hat z_q, p_c) / T\right) b_c
        \quad\text{with}\quad \sum_c u_{qc} = 1, \; \sum_q u_{qc} = n / N

    It **knows that the queries are balanced**, which is wrong wherever classes are not equally frequent. There it loses
    much of its accuracy (Veilleux et al., Realistic Evaluation of Transductive Few-Shot Learning,
    https://arxiv.org/abs/2204.11181): compare it only with methods that have the same knowledge.
    """

    name = "balanced"
    knows_balance = True
    summary = "prototypes refined by the queries; knows that they are balanced, and is wrong where they are not"

    def shares(self, scores: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return balanced_shares(scores), prior


def balanced_shares(scores: np.ndarray) -> np.ndarray:
    """Shares ``a exp(scores) b`` with the same mass for every class, and rows that sum to one as far as ``STEPS``
    alternations bring them.

    Shapes:
        - scores: (tasks, queries, way)
        - answer: the same; columns sum to queries / way up to rounding
    """
    mass = scores.shape[1] / scores.shape[2]
    # Above the smallest numbers, so that at low temperatures no column is lost.
    share = np.exp(np.maximum(scores - scores.max(axis=2, keepdims=True), -600.0))
    for _ in range(STEPS):
        share /= share.sum(axis=2, keepdims=True)
        share *= mass / share.sum(axis=1, keepdims=True)
    return share
