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

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from naq.episodes import Episodes
from naq.learners.base import Learner
from naq.learners.episode_vectors import encode_episodes, mean_by_episode, squared_distances
from naq.nn import Operator
from naq.options import Value
from naq_scale.streamed import StreamedOperator


class ProtoNet(Learner):
    """Prototypical network over the two-layer GCN.

    Options:
        latent: width of the vectors (256; the hidden layer is twice as wide).
        lr: Adam's learning rate (1e-4).
        hub_cap: neighbours of a node that a training step reads at most, drawn anew in every step and weighted so that their sum has the right mean
            (:mod:`naq_scale.streamed`); 0, the default, reads all. Tasks are always solved with all.

    Shapes:
        - ``loss``: Episodes of one or more episodes -> scalar
    """

    name = "protonet"
    summary = "distance to class means"
    _streamed: StreamedOperator | None = None
    defaults: ClassVar[Mapping[str, Value]] = {"latent": 256, "lr": 1e-4, "hub_cap": 0}
    switches = frozenset({"hub_cap"})

    def check_options(self) -> None:
        super().check_options()
        self.require_at_least("hub_cap", 0)

    def _encode(self, update: int) -> Callable[[np.ndarray, Operator], torch.Tensor] | None:
        """Reads hubs by a sample of their neighbours, where that is asked for."""
        cap = int(self.options["hub_cap"])
        if not cap:
            return None
        if self._streamed is None:
            own = self.operator
            self._streamed = own if isinstance(own, StreamedOperator) else StreamedOperator(self.graph, self.device)
        capped = self._streamed.capped(cap, self.seed, update)
        return lambda nodes, view: self.encoder.encode(nodes, capped if view is self.operator else view)

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        support, query, episode, slot = encode_episodes(self, episodes, update, self._encode(update))
        prototypes = support.mean(dim=2)
        if not len(query):
            return support.sum() * 0.0
        logits = -squared_distances(query, prototypes, episode)
        return mean_by_episode(F.cross_entropy(logits, slot, reduction="none"), episode, len(episodes))

    def reads_padded(self, episodes: Episodes) -> bool:
        return not self.options["hub_cap"] and episodes.info.get("kind") != "g-umtra"

    def padded_loss(
        self, inputs: torch.Tensor, pool: torch.Tensor, share: torch.Tensor, way: int, shot: int
    ) -> torch.Tensor:
        loss: torch.Tensor = _PrototypeLoss.apply(self.encoder.encode_padded(inputs, pool), share, way, shot)
        return loss


class _PrototypeLoss(torch.autograd.Function):
    r"""ProtoNet's loss of one episode from its vectors, with the gradient in closed form: a third of the kernels that autograd starts.

    With :math:`e = \mathrm{diag}(w)(p - \mathrm{onehot})`, p the softmax, w the share of each query and Z the prototypes, the gradient of the queries is
    :math:`2 e Z` and that of the prototypes :math:`2 (e^\top Q - \mathrm{diag}(e^\top 1) Z)`; what :math:`|z_q|^2` adds to all classes cancels.
    """

    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor, share: torch.Tensor, way: int, shot: int) -> torch.Tensor:
        support, query = vectors[: way * shot].view(way, shot, -1), vectors[way * shot :]
        prototypes = support[:, 0] if shot == 1 else support.mean(dim=1)
        logits = torch.addmm(-prototypes.pow(2).sum(1), query, prototypes.T, alpha=2)
        scores = F.log_softmax(logits, dim=1)
        own, shares = scores.view(way, -1, way).diagonal(dim1=0, dim2=2), share.view(way, -1).T
        error = scores.exp().mul_(share[:, None])
        error.view(way, -1, way).diagonal(dim1=0, dim2=2).sub_(shares)
        gradient = torch.empty_like(vectors)
        torch.addmm(query, error, prototypes, beta=0, alpha=2, out=gradient[way * shot :])
        of_prototypes = torch.addmm(prototypes * error.sum(0)[:, None], error.T, query, beta=-2, alpha=2)
        gradient[: way * shot].view(way, shot, -1).copy_((of_prototypes / shot)[:, None])
        ctx.save_for_backward(gradient)
        return -(own * shares).sum()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return ctx.saved_tensors[0] * grad, None, None, None
