r"""COLA: an encoder that knows a node among others by the nodes a slower copy of itself finds similar.

Liu et al., Graph Contrastive Learning Meets Graph Meta Learning: A Unified Method for Few-shot Node Tasks,
https://arxiv.org/abs/2309.10376

.. math::
    z^1 = \frac{h(f(G_1))}{|\cdot|}, \quad z^2 = \frac{g(G_2)}{|\cdot|}, \quad z^3 = \frac{g(G_3)}{|\cdot|}, \qquad
    S_q = \text{the K nodes } s \text{ with the largest } z^2_q \cdot z^3_s, \quad c_q = \frac1K \sum_{s \in S_q} z^3_s
.. math::
    \ell_q = \log \sum_{q' \in T} \sum_{s \in S_{q'}} e^{z^1_q \cdot z^3_s / \tau} - z^1_q \cdot c_q / \tau,
    \qquad g \leftarrow m g + (1 - m) f

A task T is N random nodes; the loss is the mean over the nodes of all tasks of an update, and over the two roles that
views 2 and 3 can take. Three views of the graph per update: undirected edges dropped, feature columns zeroed. f and g
are [graph convolution, batch normalisation, ReLU, dropout] and a plain convolution; h is a linear layer; no gradient
reaches g. The vectors are those of f, before h, on the graph as it is.

Departures: an epoch is one update on the whole graph (the released code counts n / (N * tasks) updates as one), or one
pass over the nodes in batches. Both directions of an edge go together, and nodes similar to a node of a batch are
looked for in its piece. As released, a node may be among its own similar ones.

Cost: three passes over edges and non-zeros of X per update, and tasks * N products with all vectors, in blocks; memory
about n (12 * hidden + 10 * latent) numbers.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="cola")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from naq.errors import OptionError
from naq.options import Value, option
from naq_paper.rivals.convolutions import BLOCK, Convolutions, draw_view, follow, linear, teacher_of, warm_cosine
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.trained import TrainedEmbedder

MOMENTUM = 0.9
"""Of the slow copy, throughout."""
BLOCK_NUMBERS = 1 << 22
"""Similarities held at a time, 16 MB; one row of them at least."""


class COLA(TrainedEmbedder):
    """Contrast by tasks that it draws itself.

    Shapes:
        - ``loss``: a piece -> scalar
        - ``encode_all``: (n, latent)
    """

    name = "cola"
    summary = "nodes told apart by similar nodes that a slower copy finds"

    # Tasks are drawn by id under all options: nothing may be learned from them.
    deterministic_options: ClassVar[Mapping[str, Value]] = {"lr": 1e-12, "dropout": 0.0} | {
        f"drop_edge{i}": 0.0 for i in (1, 2, 3)
    }

    @dataclass(frozen=True)
    class Options(TrainedEmbedder.Options):
        hidden: int = option(256, more_than=0)  # width of the hidden layer
        latent: int = option(128, more_than=0)  # width of the vectors
        way: int = option(5, at_least=2)  # N nodes of a task
        shot: int = option(5, at_least=1)  # K similar nodes of each
        tasks: int = option(20, at_least=1)  # per update; 20 to 100 as released
        temperature: float = option(1.0, more_than=0)  # 0.7 for Cora-Full
        # strengths of the three views
        drop_feature1: float = option(0.2, at_least=0, below=1)
        drop_feature2: float = option(0.1, at_least=0, below=1)
        drop_feature3: float = option(0.1, at_least=0, below=1)
        drop_edge1: float = option(0.3, at_least=0, below=1)
        drop_edge2: float = option(0.2, at_least=0, below=1)
        drop_edge3: float = option(0.2, at_least=0, below=1)
        dropout: float = option(0.1, at_least=0, below=1)  # of the hidden layer
        lr: float = option(5e-4, more_than=0)  # Adam's; it falls to 0 by half a cosine
        weight_decay: float = option(1e-5, at_least=0)  # Adam's
        # of running statistics, 0 for automatic: 0.99 on whole graphs, 0.1 with batches. Released: 0.01.
        bn_momentum: float = option(0.0, at_least=0, below=1)
        epochs: int = option(200, at_least=0)
        fanout: int = option(10, at_least=1)  # see TrainedEmbedder

    options: Options

    def build(self) -> None:
        sizes = (self.graph.num_features, self.options.hidden, self.options.latent)
        self.online = Convolutions(
            sizes, generator=self.generator("encoder"), device=self.device, momentum=self.options.bn_momentum or 0.99,
            activation="relu", last="linear", dropout=self.options.dropout,
        )  # fmt: skip
        self.target = teacher_of(self.online)
        self.head = linear(sizes[2], sizes[2], generator=self.generator("head"), device=self.device)

    def planned(self) -> None:
        super().planned()
        fewest = self.graph.num_nodes // self.updates_per_epoch
        needed = max(self.options.way, self.options.shot)
        if fewest < needed:
            raise OptionError(
                f"a task of cola with way {self.options.way} and shot {self.options.shot} needs {needed} nodes, but "
                f"{'batches have' if self.batch else f'graph {self.graph.name!r} has'} {fewest}; give a smaller way or "
                "shot, or a larger batch."
            )

    def step_bytes(self, nodes: float, edges: float, entries: float) -> float:
        hidden, latent = self.options.hidden, self.options.latent
        return 4 * nodes * (12 * hidden + 10 * latent) + 60 * edges + 16 * entries

    def rate(self, update: int) -> float:
        return warm_cosine(self.options.lr, update, self.updates, 0)

    def loss(self, piece: Piece, update: int) -> torch.Tensor:
        queries = self.queries(piece.seeds, update)
        seen = self._encode_view(self.online, 1, piece, update)
        anchors = F.normalize(self.head(seen.index_select(0, queries.ravel())), dim=1).view(*queries.shape, -1)
        with torch.no_grad():
            keys = [F.normalize(self._encode_view(self.target, view, piece, update), dim=1) for view in (2, 3)]
        losses = []
        for one, other in ((0, 1), (1, 0)):
            support = most_similar(keys[one][queries.ravel()], keys[other], self.options.shot)
            losses.append(self.task_loss(anchors, keys[other][support].view(*queries.shape, support.shape[1], -1)))
        return torch.stack(losses).mean()

    def queries(self, nodes: int, update: int) -> torch.Tensor:
        """(tasks, way) of the first nodes of a piece, no node twice in a task, nor in two if there are enough."""
        generator = self.generator("queries", update)
        tasks, way = self.options.tasks, self.options.way
        at_once = nodes // way
        rounds = [torch.randperm(nodes, generator=generator)[: at_once * way] for _ in range(-(-tasks // at_once))]
        return torch.cat(rounds)[: tasks * way].view(tasks, way).to(self.device)

    def task_loss(self, anchors: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
        """Mean over queries (tasks, way, width) given their support (tasks, way, shot, width)."""
        temperature = self.options.temperature
        logits = anchors @ support.flatten(1, 2).transpose(1, 2) / temperature
        own = (anchors * support.mean(dim=2)).sum(dim=2) / temperature
        return (logits.logsumexp(dim=2) - own).mean()

    def _encode_view(self, encoder: nn.Module, view: int, piece: Piece, update: int) -> torch.Tensor:
        return encoder(piece, *draw_view(self, piece, view, update), self.generator(f"dropout{view}", update))

    def after_step(self, update: int) -> None:
        follow(self.target, self.online, MOMENTUM)

    def encode_all(self) -> torch.Tensor:
        return self.online.encode_all(self.operator, BLOCK if self.batch else 0)


@torch.no_grad()
def most_similar(queries: torch.Tensor, keys: torch.Tensor, count: int, *, held: int = BLOCK_NUMBERS) -> torch.Tensor:
    """(q, count) rows of ``keys`` (n, width) with the largest inner products with each of the queries (q, width), the
    largest first; ``held`` products at a time."""
    found = torch.empty(len(queries), count, dtype=torch.int64, device=queries.device)
    size = max(1, held // len(keys))
    for start in range(0, len(queries), size):
        rows = slice(start, start + size)
        found[rows] = (queries[rows] @ keys.T).topk(count, dim=1).indices
    return found
