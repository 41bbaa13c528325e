r"""COSMIC: contrast a node with its own sub-graph, its class with the other classes, and both with mixtures of classes.

Wang, Tan, Liu, Li, Contrastive Meta-Learning for Few-shot Node Classification, https://arxiv.org/abs/2306.15154

The sub-graph of v is v and its 19 best nodes by personalised PageRank (:mod:`naq.neighbors.power`) with the
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

Mix-up adds classes between the classes of an episode:

- ``mode="intended"``, as the paper describes it (:func:`mix_pairs`): N pairs of different classes (one where N = 2),
  each a new class; shot k of one class is mixed with shot k of the other, features and adjacency, matched by rank, with
  :math:`\lambda \sim \mathrm{Beta}(10\,\sigma(-\cos(c_i, c_j)), 1)` per sub-graph, c the mean s of a class.
- ``release``, as it is coded (:func:`mix_extra`): 25 extra nodes, five of each of five base classes (under NaQ 25
  random nodes); the i-th support is mixed into the features of the i-th extra node with one
  :math:`\lambda \sim \mathrm{Beta}(10\,\sigma(-1), 1)` per row, absent rows being zero; the adjacency is the extra
  node's; once the supports are used up the last mixture is repeated. Labels are 5 to 9 whatever N is. The released code
  also draws from validation and test classes; here extra nodes come from base classes only.
- ``none``.

Cost: X W for some 100 distinct nodes of a step and its transpose, a batched 20 x 20 product, Adam over d x hidden.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-feat/cosmic", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from naq.episodes import Episodes
from naq.errors import OptionError
from naq.files import cache_folder
from naq.graph import Graph
from naq.learners.base import Learner
from naq.learners.cosmic.subgraphs import SubgraphEncoder, Subgraphs
from naq.neighbors.power import ppr_subgraphs
from naq.nn import GraphOperator
from naq.options import Value, option
from naq.random import stream

CACHE_FROM = 5_000
"""Fewer nodes are not worth a file of their sub-graphs."""
SUBGRAPH = 20
"""Nodes of a sub-graph, its centre included."""
TEMPERATURE = 0.07
"""Of the contrastive loss."""
SPREAD = 10.0
"""Factor of the similarity in the Beta distribution of a mixture."""
EXTRA = 5
"""The release mixes in five classes of five nodes, labelled 5 to 9, whatever the episode is."""

Mixed = tuple[Subgraphs, np.ndarray, np.ndarray]
"""Mixed sub-graphs, their labels, and the episodes they belong to."""


def contrastive_loss(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Supervised contrastive loss of (m, h) features, every label occurring twice at least."""
    own = torch.eye(len(features), dtype=torch.bool, device=features.device)
    logits = (features @ features.T / TEMPERATURE).masked_fill(own, -torch.inf)
    log_share = logits - logits.logsumexp(dim=1, keepdim=True)
    positive = (labels[:, None] == labels) & ~own
    return -(log_share.masked_fill(~positive, 0.0).sum(1) / positive.sum(1)).mean()


class Cosmic(Learner):
    """Contrastive meta-learning on sub-graphs."""

    name = "cosmic"
    summary = "contrast of nodes, their sub-graphs and mixtures"
    own_encoder = "it reads dense sub-graphs of 20 nodes, and mixtures of them that are in no graph."
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


def beta_draws(uniform: np.ndarray, shape: torch.Tensor) -> torch.Tensor:
    """Draws of Beta(shape, 1) by its inverse distribution function: smooth in ``shape``, and always one number each."""
    return torch.from_numpy(uniform).to(shape.device, shape.dtype).pow(1.0 / shape)


def mix_pairs(batch: Subgraphs, pooled: torch.Tensor, shape: tuple[int, ...], random: np.random.Generator) -> Mixed:
    """As the paper means it: class after class of a random ring, so that no pair occurs twice.

    Args:
        batch: begins with the supports of all episodes in their order.
        pooled: the vectors s of them, constant.
        shape: (episodes, way, shot).
    """
    count, way, shot = shape
    device = pooled.device
    pairs = way if way > 2 else 1
    ring = np.stack([random.permutation(way) for _ in range(count)])
    uniform = random.random((count, pairs, shot))
    place = np.arange(count * way * shot).reshape(count, way, shot)
    rows = np.arange(count)[:, None]
    one, two = (torch.from_numpy(place[rows, np.roll(ring, -k, axis=1)[:, :pairs]]).to(device) for k in (0, 1))
    classes = pooled[: count * way * shot].view(count, way, shot, -1).mean(2).view(count * way, -1)
    first, second = (classes[p[:, :, 0].reshape(-1) // shot] for p in (one, two))
    likeness = F.cosine_similarity(first, second).view(count, pairs, 1)
    share = beta_draws(uniform, SPREAD * torch.sigmoid(-likeness)).reshape(-1, 1, 1)
    a, b = batch[one.reshape(-1)], batch[two.reshape(-1)]
    mixed = Subgraphs(
        share * a.inputs + (1 - share) * b.inputs, share * a.edges + (1 - share) * b.edges, a.present | b.present
    )
    owner, label, _ = np.indices((count, pairs, shot)).reshape(3, -1)
    return mixed, way + label, owner


def mix_extra(batch: Subgraphs, shape: tuple[int, ...], random: np.random.Generator) -> Mixed:
    """As it is coded.

    Args:
        batch: the supports of all episodes in their order, then the extra nodes of :func:`draw_extra`.
        shape: (episodes, way, shot).
    """
    count, way, shot = shape
    device = batch.inputs.device
    samples, extras = way * shot, EXTRA * EXTRA
    uniform = random.random((count, min(samples, extras), batch.present.shape[1]))
    last = np.minimum(np.arange(extras), samples - 1)
    episode = np.arange(count)[:, None]
    supports, others = episode * samples + last, count * samples + episode * extras + last
    own = count * samples + np.arange(count * extras)
    i, j, own_rows = (torch.from_numpy(p.ravel()).to(device) for p in (supports, others, own))
    beta = torch.full((), SPREAD, device=device) * torch.sigmoid(-torch.ones((), device=device))
    share = beta_draws(uniform[:, last].reshape(count * extras, -1, 1), beta)
    mixed = Subgraphs(
        share * batch[i].inputs + (1 - share) * batch[j].inputs,
        batch[own_rows].edges,
        torch.ones_like(batch[own_rows].present),
    )
    owner, label, _ = np.indices((count, EXTRA, EXTRA)).reshape(3, -1)
    return mixed, EXTRA + label, owner


def extra_pools(graph: Graph, base_labels: np.ndarray | None) -> list[np.ndarray]:
    """What the release draws extra nodes from: the nodes of each base class, or one pool of all nodes if there are
    no labels.

    Nodes are ordered by a random projection of their features, so that the draw does not depend on how they are
    numbered.
    """
    features = graph.require_features("an encoder")
    key = features @ stream(0, "cosmic/order").random(graph.num_features)
    order = np.lexsort((graph.degrees, key))
    if base_labels is None or not (base_labels >= 0).any():
        if graph.num_nodes < EXTRA * EXTRA:
            raise OptionError(
                f"mode=release of cosmic draws {EXTRA * EXTRA} nodes, but graph {graph.name!r} has "
                f"{graph.num_nodes}; choose mode=intended."
            )
        return [order]
    labels = base_labels[order]
    pools = [order[labels == c] for c in np.unique(labels[labels >= 0])]
    pools = [pool for pool in pools if len(pool) >= EXTRA]
    if len(pools) < EXTRA:
        raise OptionError(
            f"mode=release of cosmic draws {EXTRA} nodes of each of {EXTRA} base classes, but only {len(pools)} "
            "classes have as many; choose mode=intended."
        )
    return pools


def draw_extra(pools: Sequence[np.ndarray], random: np.random.Generator, count: int) -> np.ndarray:
    """(count, 25) extra nodes of the release, class by class; (count, 0) without pools."""
    if not pools:
        return np.empty((count, 0), dtype=np.int64)
    if len(pools) == 1:
        return np.stack([random.choice(pools[0], EXTRA * EXTRA, replace=False) for _ in range(count)])
    chosen = [random.choice(len(pools), EXTRA, replace=False) for _ in range(count)]
    return np.stack(
        [np.concatenate([random.choice(pools[c], EXTRA, replace=False) for c in classes]) for classes in chosen]
    )
