r"""G-Meta: prototypes inside a MAML loop, every node represented by its local sub-graph.

Huang and Zitnik, Graph Meta Learning via Local Subgraphs, https://arxiv.org/abs/2006.07889

With outputs :math:`o_v \in \mathbb R^N` of a two-layer GCN on the sub-graph of v (:mod:`naq.nn.local`), read at its
centre and followed by a linear layer:

.. math::
    \ell(Q, c) = -\frac{1}{|Q|} \sum_{q \in Q} \log \mathrm{softmax}_j\left(-|o_q - c_j|^2\right)_{y_q}, \qquad
    \theta_s = \theta_{s-1} - a \nabla \ell(S; c(\theta_{s-1})), \qquad
    \mathcal L = \ell(Q(\theta_S), c(\theta_{S-1}))

Prototypes of the outer loss are one step older than the queries' weights, as released; the gradient flows through both.
In a 1-shot task the inner loss pushes prototypes apart. First order.

A loss that is not finite stops the run with a message; the released code skips such updates.

Cost: features of all sub-graphs of an update times the first weight once forward and once backward; inner steps as in
:mod:`naq.learners.meta_batch`.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-feat/gmeta", episodes=1600)  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from naq.episodes import Episodes
from naq.learners.base import Learner
from naq.learners.inner_loop import Weights, adapt, mean_by_task, movable, two_layers
from naq.learners.meta_batch import Side, TaskChunk, chunk_episodes
from naq.nn import GCN, AugmentedOperator, GraphOperator, LocalOperator
from naq.options import option

BLOCK = 2048
"""Centres encoded at once."""


class GMeta(Learner):
    """Prototypes of local sub-graphs, adapted to each task."""

    name = "gmeta"
    summary = "adapted prototypes of local sub-graphs"
    own_encoder = (
        "every node is read in a sub-graph of its own, at each inner step, through products of the first weight; "
        "take maml or protonet."
    )

    @dataclass(frozen=True)
    class Options(Learner.Options):
        latent: int = option(64, more_than=0)  # width of both layers and of the vectors
        lr: float = option(1e-3, more_than=0)  # Adam's learning rate of the initialisation
        inner_lr: float = option(0.01, more_than=0)  # of the adaptation to a support set
        inner_steps: int = option(10, more_than=0)  # of the adaptation
        meta_batch: int = option(16, more_than=0)  # tasks per update
        sample_nodes: int = option(1000, at_least=0)  # nodes of a sub-graph next to its centre; 0 for all
        # vectors for a head: the centre's row before the linear layer, or after it
        readout: str = option("hidden", choices=("hidden", "output"))
        # computed on sub-graphs, as in training, or on the whole graph with its own degrees (cheaper)
        embed: str = option("subgraph", choices=("subgraph", "graph"))

    options: Options

    def build(self) -> None:
        self.operator = GraphOperator(self.graph, self.device, self_loops=False)
        self.local = self._local(self.operator)
        latent = self.options.latent
        self.encoder = GCN(self.operator, latent, seed=self.seed, hidden=latent)
        head = nn.init.kaiming_normal_(torch.empty(self.way, latent), generator=self.generator("head")).T.contiguous()
        self.head_weight = nn.Parameter(head.to(self.device))
        self.head_bias = nn.Parameter(torch.zeros(self.way, device=self.device))

    def _local(self, operator: GraphOperator | AugmentedOperator) -> LocalOperator:
        return LocalOperator(operator, limit=self.options.sample_nodes, seed=self.seed)

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        self.require_way(episodes.way, "an episode")
        views = self.query_operators(episodes, update)
        local = [self.local] if views == [self.operator] else [self._local(view) for view in views]
        chunks = chunk_episodes(episodes, self.local, local, self.encoder.weight1)
        return torch.stack([self._chunk_loss(chunk, episodes.shot) for chunk in chunks]).sum() / len(episodes)

    def _chunk_loss(self, chunk: TaskChunk, shot: int) -> torch.Tensor:
        """Sum over the tasks of the mean loss of their queries after adaptation."""

        def prototypes(weights: Weights, first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            outputs = two_layers(weights, first, chunk.support)
            return outputs, outputs.view(len(chunk), self.way, shot, -1).mean(dim=2)

        def support_loss(weights: Weights, first: torch.Tensor) -> torch.Tensor:
            return task_prototype_loss(*prototypes(weights, first), chunk.support).sum()

        before, after = adapt(
            movable(self), chunk.support, support_loss, steps=self.options.inner_steps, lr=self.options.inner_lr,
            second_order=False,
        )  # fmt: skip
        weights, shift = before
        _, centres = prototypes(weights, chunk.support.moved(shift))
        weights, shift = after
        queries = two_layers(weights, chunk.query.moved(shift), chunk.query)
        return task_prototype_loss(queries, centres, chunk.query).sum()

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """Vectors of some nodes, each read in its own sub-graph unless ``embed`` is ``graph``."""
        vectors = self.encoder.encode(nodes, self.local if self.options.embed == "subgraph" else None)
        return vectors if self.options.readout == "hidden" else vectors @ self.head_weight + self.head_bias

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes, in blocks."""
        n = self.graph.num_nodes
        return torch.cat([self.encode(np.arange(i, min(n, i + BLOCK))) for i in range(0, n, BLOCK)])


def task_prototype_loss(outputs: torch.Tensor, prototypes: torch.Tensor, side: Side) -> torch.Tensor:
    """(t,) mean loss of each task's own rows against its prototypes (t, way, d); 0 for a task without any."""
    distances = (outputs[:, :, None] - prototypes[:, None]).pow(2).sum(dim=3)
    each = F.cross_entropy(-distances.flatten(0, 1), side.slot.flatten(), reduction="none")
    return mean_by_task(each, side)
