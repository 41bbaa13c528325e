r"""ProtoNet on graphs: classify a query by its distance to class means.

Snell, Swersky, Zemel, Prototypical Networks for Few-shot Learning, https://arxiv.org/abs/1703.05175

.. math::
    c_j = \frac1K \sum_{s \in S_j} z_s, \qquad
    \mathcal L = \frac{1}{NQ} \sum_q -\log \mathrm{softmax}_j\left(-|z_q - c_j|^2\right)_{y_q}

The distance is squared, as in the released code (the paper's text says Euclidean); the scale of the embedding acts as an
inverse temperature. Queries that are missing or dropped do not count.

Cost: one receptive field of N(K + Q) nodes forward and backward, and Adam over the d x 2 * latent first weight.

Example:
    >>> import naq
    >>> g = naq.load("debian")
    >>> r = naq.run(g, method="naq-feat/protonet", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from naq.episodes import Episodes
from naq.learners.base import Learner, register_learner
from naq.options import Value


@register_learner
class ProtoNet(Learner):
    """Prototypical network over the two-layer GCN.

    Options:
        latent: width of the vectors (256; the hidden layer is twice as wide).
        lr: Adam's learning rate (1e-4).

    Shapes:
        - ``loss``: Episodes of one or more episodes -> scalar
    """

    name = "protonet"
    summary = "distance to class means"
    defaults: ClassVar[Mapping[str, Value]] = {"latent": 256, "lr": 1e-4}

    def loss(self, episodes: Episodes) -> torch.Tensor:
        count, way = len(episodes), episodes.way
        nodes, place = np.unique(
            np.concatenate([episodes.support.ravel(), episodes.query[episodes.mask]]), return_inverse=True
        )
        vectors = self.encode(nodes)[torch.from_numpy(place).to(self.encoder.operator.device)]
        supports = episodes.support.size
        prototypes = vectors[:supports].view(count, way, episodes.shot, -1).mean(dim=2)
        if supports == len(vectors):
            return vectors.sum() * 0.0
        episode, slot, _ = (torch.from_numpy(a).to(vectors.device) for a in np.nonzero(episodes.mask))
        logits = -squared_distances(vectors[supports:], prototypes, episode)
        each = F.cross_entropy(logits, slot, reduction="none")
        kept = torch.bincount(episode, minlength=count)
        total = torch.zeros(count, device=each.device).index_add_(0, episode, each)
        return (total / kept.clamp(min=1)).mean()


def squared_distances(queries: torch.Tensor, prototypes: torch.Tensor, episode: torch.Tensor) -> torch.Tensor:
    """(queries, way) squared distances of each query to the prototypes of its own episode."""
    if len(prototypes) == 1:
        dots = queries @ prototypes[0].T
    else:
        dots = torch.einsum("qd,qwd->qw", queries, prototypes[episode])
    return queries.pow(2).sum(1, keepdim=True) + prototypes.pow(2).sum(2)[episode] - 2 * dots
