r"""COSMIC: contrast a node with its own sub-graph, its class with the other classes, and both with mixtures of classes.

Wang, Tan, Liu, Li, Contrastive Meta-Learning for Few-shot Node Classification, https://arxiv.org/abs/2306.15154

The sub-graph of v is v and its 19 best nodes by personalised PageRank (:mod:`naq.learners.cosmic.pagerank`) with the
edges among them. One graph convolution inside it gives two views of v: its own row, and the mean over the sub-graph,

.. math::
    h_u = \frac{g_u}{|g_u|}, \quad g = \mathrm{PReLU}(\hat A_v X_v W + b), \qquad
    z_v = h_v, \quad s_v = \frac{1}{|V_v|} \sum_{u \in V_v} h_u

where :math:`\hat A_v` is normalised with the degrees inside the sub-graph. The 2M views f of M samples enter one
supervised contrastive loss, P(a) being the other views with the label of a:

.. math::
    \mathcal L = \frac{1}{2M} \sum_a \frac{-1}{|P(a)|} \sum_{p \in P(a)}
    \left[ f_a \cdot f_p / t - \log \sum_{b \ne a} \exp(f_a \cdot f_b / t) \right]

The samples are the supports of an episode: **no query is used**, as in the released step, so that with one shot COSMIC
on NaQ episodes tells random nodes apart, whichever neighbours they have. ``use_queries`` adds the kept queries under
the label of their support.

Mix-up adds classes between the classes (:mod:`naq.learners.cosmic.mixup`): as the paper describes it
(``mode="intended"``), as it is coded (``release``), or not at all (``none``).

Shapes: U = X W once for the m distinct nodes of a step, (m, hidden); gathered (M, 20, hidden); mixed features are mixed
rows of U, since X W is linear. Cost: U and its transpose for some 100 nodes, a batched 20 x 20 product, Adam over d x
hidden.

Example:
    >>> import naq
    >>> g = naq.load("debian")
    >>> r = naq.run(g, method="naq-feat/cosmic", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from naq.episodes import Episodes
from naq.errors import OptionError
from naq.files import cache_folder
from naq.learners.base import Learner
from naq.learners.cosmic.mixup import draw_extra, extra_pools, mix_extra, mix_pairs
from naq.learners.cosmic.pagerank import ppr_subgraphs
from naq.learners.cosmic.subgraphs import SubgraphEncoder
from naq.nn import GraphOperator
from naq.options import Value, option
from naq.random import stream

CACHE_FROM = 5_000
"""Graphs with fewer nodes get their sub-graphs faster than a file is read."""
SUBGRAPH = 20
"""Nodes of a sub-graph, its centre included."""
TEMPERATURE = 0.07
"""Of the contrastive loss."""


def contrastive_loss(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Supervised contrastive loss of (m, h) features, every label occurring twice at least."""
    own = torch.eye(len(features), dtype=torch.bool, device=features.device)
    logits = (features @ features.T / TEMPERATURE).masked_fill(own, -torch.inf)
    log_share = logits - logits.logsumexp(dim=1, keepdim=True)
    positive = (labels[:, None] == labels) & ~own
    return -(log_share.masked_fill(~positive, 0.0).sum(1) / positive.sum(1)).mean()


class Cosmic(Learner):
    """Contrastive meta-learning on sub-graphs.

    Shapes:
        - ``loss``: Episodes of one or more episodes -> scalar
    """

    name = "cosmic"
    summary = "contrast of nodes, their sub-graphs and mixtures"
    unfit: ClassVar[Mapping[str, str]] = {
        "g-umtra": "it contrasts a node with its own sub-graph and needs no queries, so queries made by "
        "augmentation have no place in its loss."
    }

    @dataclass(frozen=True)
    class Options(Learner.Options):
        hidden: int = option(1024, more_than=0)  # width of the vectors
        # the mix-up of the paper, that of its code, or none
        mode: str = option("intended", choices=("intended", "release", "none"))
        # kept queries join as positives of their support; the released step knows no queries, hence an error in release
        # mode
        use_queries: bool = option(False)
        lr: float = option(1e-3, more_than=0)  # Adam's learning rate

    options: Options

    encoder: SubgraphEncoder  # type: ignore[assignment]  # the base class names its own default

    @classmethod
    def ignores_queries(cls, options: Mapping[str, Value]) -> bool:
        return not options["use_queries"]

    def check_options(self) -> None:
        if self.options.mode == "release" and self.options.use_queries:
            raise OptionError(
                "mode=release of cosmic uses no queries, but use_queries is True; choose mode=intended, or leave "
                "use_queries out."
            )

    def build(self) -> None:
        self.operator = GraphOperator(self.graph, self.device)
        cache = cache_folder() if self.graph.num_nodes >= CACHE_FROM else None
        table = ppr_subgraphs(self.graph, SUBGRAPH, cache=cache, progress=self.progress)
        self.encoder = SubgraphEncoder(self.operator, table, self.options.hidden, seed=self.seed)
        self._pools = extra_pools(self.graph, self.base_labels) if self.options.mode == "release" else []

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        nodes, labels, owner = self._samples(episodes)
        random = stream(self.seed, "cosmic/mixup", update)
        extra = draw_extra(self._pools, random, len(episodes))
        batch = self.encoder.gather(np.concatenate([nodes, extra.ravel()]))
        own = torch.arange(len(nodes), device=self.device)
        z, s = self.encoder.views(batch[own])
        if self.options.mode != "none":
            shape = episodes.support.shape
            if self.options.mode == "release":
                mixed, mixed_labels, mixed_owner = mix_extra(batch, shape, random)
            else:
                mixed, mixed_labels, mixed_owner = mix_pairs(batch, s.detach(), shape, random)
            mixed_z, mixed_s = self.encoder.views(mixed)
            z, s = torch.cat([z, mixed_z]), torch.cat([s, mixed_s])
            labels, owner = np.concatenate([labels, mixed_labels]), np.concatenate([owner, mixed_owner])
        return torch.stack([self._contrast(z, s, labels, owner == t) for t in range(len(episodes))]).mean()

    def _contrast(self, z: torch.Tensor, s: torch.Tensor, labels: np.ndarray, chosen: np.ndarray) -> torch.Tensor:
        """Loss of one episode: of those samples that are its own."""
        where = torch.from_numpy(np.flatnonzero(chosen)).to(self.device)
        label = torch.from_numpy(labels[chosen]).to(self.device)
        features = torch.cat([z.index_select(0, where), s.index_select(0, where)])
        return contrastive_loss(features, label.repeat(2))

    def _samples(self, episodes: Episodes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Node, label and episode of every sample: the supports in their order, then the kept queries if they are
        used."""
        owner, label, _ = np.indices(episodes.support.shape).reshape(3, -1)
        nodes = episodes.support.ravel()
        if self.options.use_queries:
            more_owner, more_label, _ = np.nonzero(episodes.mask)
            nodes = np.concatenate([nodes, episodes.query[episodes.mask]])
            owner, label = np.concatenate([owner, more_owner]), np.concatenate([label, more_label])
        return nodes, label, owner
