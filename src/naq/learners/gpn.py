r"""GPN: class means in which better connected supports may weigh more.

Ding, Wang, Li, Shu, Liu, Liu, Graph Prototypical Networks for Few-shot Learning on Attributed Networks,
https://arxiv.org/abs/2006.12582

With vectors z of one two-layer GCN, scores r of a second one (the valuator) and degrees d:

.. math::
    w_v = \frac{\sigma(\log(d_v + 1)\, r_v)}{\sum_{u \in S_j} \sigma(\log(d_u + 1)\, r_u)}, \qquad
    c_j = \sum_{v \in S_j} w_v z_v, \qquad
    \mathcal L = \frac{1}{NQ} \sum_q -\log \mathrm{softmax}_j\left(-|z_q - c_j|^2\right)_{y_q}

Both networks are d -> 2 latent -> latent with dropout on the hidden layer. The vectors end linearly, the valuator in a
ReLU and a linear layer to one number, as in the authors' code (which differs from the paper's text).

**In 1-shot episodes, as NaQ's are, w is 1 whatever the scores: the valuator gets no gradient and GPN is a ProtoNet with
dropout and a linear last layer.** It is not run then.

Departures: w is a softmax of :math:`\log \sigma`, the same number without an underflow; the authors take log d, which
is :math:`-\infty` for a node without neighbours. Dropout belongs to (update, node, unit); a head reads the vectors
without it.

Cost: as ProtoNet at the same width; from 2 shots on, the receptive field of the supports a second time.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-feat/gpn", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
import torch.nn.functional as F

from naq.episodes import Episodes
from naq.learners.base import Learner, encode_episodes, uniform
from naq.learners.node_draws import NodeDropout, node_names
from naq.learners.protonet import prototype_loss
from naq.nn import GCN, GraphOperator, Operator
from naq.nn.gcn import Between
from naq.options import option
from naq.random import word


class GPN(Learner):
    """Prototypical network with weighted supports.

    Shapes:
        - ``importance``: supports (count, way, shot) -> (count, way, shot), each class summing to 1
    """

    name = "gpn"
    summary = "distance to class means weighted by node importance"

    @dataclass(frozen=True)
    class Options(Learner.Options):
        # width of the vectors (the authors' code: 16); the hidden layer is twice as wide
        latent: int = option(64, more_than=0)
        lr: float = option(0.005, more_than=0)  # Adam's learning rate
        weight_decay: float = option(5e-4, at_least=0)  # Adam's
        dropout: float = option(0.5, at_least=0, below=1)  # share of hidden values dropped in training

    options: Options

    def build(self) -> None:
        self.operator = GraphOperator(self.graph, self.device)
        latent = self.options.latent
        self.encoder = self.given_encoder() or self._network("encoder", activate=False)
        self.valuator = self._network("valuator", activate=True)
        generator = self.generator("score")
        self.score_weight = uniform((latent,), latent, generator, self.device)
        self.score_bias = uniform((1,), latent, generator, self.device)
        self._log_degrees = torch.from_numpy(np.log1p(self.graph.degrees.astype(np.float32))).to(self.device)
        self._names = node_names(self.graph) if self.options.dropout else None

    def _network(self, purpose: str, *, activate: bool) -> GCN:
        """A GCN with the initial weights of the authors' code."""
        network = GCN(self.operator, self.options.latent, seed=self.seed, activate=activate)
        generator = self.generator(f"weights/{purpose}")
        with torch.no_grad():
            for tensor in (network.weight1, network.bias1, network.weight2, network.bias2):
                tensor.copy_(uniform(tuple(tensor.shape), tensor.shape[-1], generator, self.device))
        return network

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        support, *queries = encode_episodes(self, episodes, update)
        prototypes = support.mean(dim=2)
        if episodes.shot > 1:
            prototypes = (self.importance(episodes.support, update)[..., None] * support).sum(dim=2)
        return prototype_loss(prototypes, *queries)

    def encode_in(self, update: int) -> Callable[..., torch.Tensor]:
        if self.make_encoder is not None:  # drops what it drops itself
            return super().encode_in(update)
        passes = count()  # each view of the graph under g-UMTRA is a pass with other draws

        def encode(nodes: np.ndarray, view: Operator) -> torch.Tensor:
            return self.encoder.encode(nodes, view, between=self.dropout(f"encoder/{next(passes)}", update))

        return encode

    def importance(self, support: np.ndarray, update: int | None = None) -> torch.Tensor:
        """Weight of each support within its class; with the dropout of ``update``, or without any."""
        nodes, place = np.unique(support, return_inverse=True)
        between = None if update is None else self.dropout("valuator", update)
        scores = self.valuator.encode(nodes, between=between) @ self.score_weight + self.score_bias
        scaled = self._log_degrees[torch.from_numpy(nodes).to(self.device)] * scores
        return torch.softmax(
            F.logsigmoid(scaled)[torch.from_numpy(place.reshape(support.shape)).to(self.device)], dim=2
        )

    def dropout(self, purpose: str, update: int) -> Between | None:
        """What drops hidden values in this update; None if nothing is dropped."""
        if self._names is None:
            return None
        drop = NodeDropout(self._names, self.options.dropout, word(self.seed, f"{self.name}/dropout/{purpose}", update))

        def between(nodes: np.ndarray, hidden: torch.Tensor) -> torch.Tensor:
            return hidden * torch.from_numpy(drop.dense(nodes, hidden.shape[1])).to(hidden.device)

        return between
