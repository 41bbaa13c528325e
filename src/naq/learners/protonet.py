r"""ProtoNet on graphs: classify a query by its distance to class means.

Snell, Swersky, Zemel, Prototypical Networks for Few-shot Learning, https://arxiv.org/abs/1703.05175

.. math::
    c_j = \frac1K \sum_{s \in S_j} z_s, \qquad
    \mathcal L = \frac{1}{NQ} \sum_q -\log \mathrm{softmax}_j\left(-|z_q - c_j|^2\right)_{y_q}

The distance is squared, as in the released code (the paper's text says Euclidean); the scale of the embedding acts as
an inverse temperature. Queries that are missing or dropped do not count.

Cost: one receptive field of N(K + Q) nodes forward and backward, and Adam over the d x 2 * latent first weight.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-feat/protonet", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from naq.episodes import Episodes
from naq.learners.base import Learner, encode_episodes, mean_by_episode, squared_distances
from naq.options import option


class ProtoNet(Learner):
    """Prototypical network over the two-layer GCN."""

    name = "protonet"
    summary = "distance to class means"

    @dataclass(frozen=True)
    class Options(Learner.Options):
        latent: int = option(256, more_than=0)  # width of the vectors; the hidden layer is twice as wide
        lr: float = option(1e-4, more_than=0)  # Adam's learning rate

    options: Options

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        support, *queries = encode_episodes(self, episodes, update)
        return prototype_loss(support.mean(dim=2), *queries)


def prototype_loss(
    prototypes: torch.Tensor, query: torch.Tensor, episode: torch.Tensor, slot: torch.Tensor
) -> torch.Tensor:
    """The loss of queries as :func:`~naq.learners.base.encode_episodes` gives them."""
    if not len(query):
        return prototypes.sum() * 0.0
    logits = -squared_distances(query, prototypes, episode)
    return mean_by_episode(F.cross_entropy(logits, slot, reduction="none"), episode, len(prototypes))
