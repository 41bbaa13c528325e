r"""GLITTER: each task gets its own graph, and the network is adapted on it.

Wang, Chen, Li, Graph Few-shot Learning with Task-specific Structures, https://arxiv.org/abs/2210.12130

A task's graph W holds the nodes within two hops of its own and, if ``k_keep`` is set, learned edges
(:mod:`~naq.learners.glitter.task_graphs`). On it

.. math::
    Z = W\, \mathrm{dropout}(\mathrm{ReLU}(W X W_1 + b_1))\, W_2 + b_2, \qquad \text{answers} = Z C + c

The inner loop moves *all* tensors by plain gradient steps on the support set, first order, with dropout:

.. math::
    \mathcal L_{in} = \mathrm{CE}(\text{support}) + 0.2\, \mathcal L_{con} + 0.2\, \mathcal L_{mi}

* :math:`\mathcal L_{con} = \frac1K \sum_i \mathrm{InfoNCE}(Z_i, Z_{i+1 \bmod K})` between the N supports of shot i and
  those of the next, cosine, temperature 0.1, the same class as positive; for K = 1 a set is contrasted with itself.
* :math:`\mathcal L_{mi} = \sum_c P_c \log P_c - \frac1m \sum_q \sum_c p_{qc} \log p_{qc}` with
  :math:`P_c = \sum_q p_{qc}`, where :math:`p_{qc}` is the share of class c in what query q receives from supports over
  two and three steps through other nodes: :math:`F = M B + M^2 B`. A query that receives nothing has
  :math:`p = 1/N`. Without learned edges it depends on no weight and is not computed.

The outer loss with the adapted weights and without dropout is CE(queries) + 0.2 :math:`\mathcal L_{con}`; its
gradient at the adapted weights moves the initial ones. Tasks are solved by the same inner loop and the adapted
classifier, without a head. A task's graph is built around its queries too, hence ``transductive``.

Dropout is drawn in an order of nodes by features, degree and neighbours, and tasks to be solved share one stream per
inner step: neither numbering nor the other tasks change a task's answers.

Departures: the release keeps entries *above the largest* of a row, i.e. none: ``k_keep=0``. Logarithms are of at least
1e-12; columns are scaled by :func:`~naq.learners.glitter.task_graphs.min_max`; initial tensors are uniform in
:math:`\pm 1 / \sqrt{\text{outputs}}`; training queries are those of the episodes (the release: 1 per class).

Cost: at ``k_keep=0`` the features of the two-hop neighbourhood V are read once forward and once backward, and inner
steps work on Gram matrices (:mod:`naq.learners.meta_batch`). With learned edges each inner step reads these features
and ``|V|`` distances for each row of W that is needed.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-diff/glitter", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from naq.episodes import Episodes
from naq.learners.base import Learner, uniform
from naq.learners.glitter.task_graphs import Draw, LearnedTask, PlainTasks, RowOperator
from naq.learners.inner_loop import Weights, adapt
from naq.learners.meta_batch import chunk_episodes
from naq.nn.rows import multiply, sparse_product, take_rows
from naq.options import option
from naq.random import stream
from naq.tasks import Tasks

CONTRAST, INFLUENCE = 0.2, 0.2
"""Weights of L_con and L_mi."""
TEMPERATURE = 0.1
"""Of L_con."""


class Glitter(Learner):
    """Task-specific graphs and first-order adaptation of a small GCN.

    Shapes:
        - ``solve``: Tasks -> (count, way * queries) int64
        - ``encode``: nodes (m,) -> (m, hidden): the encoder before any adaptation, on the graph without learned edges
    """

    name = "glitter"
    summary = "adapts to a graph of the task's own"
    own_encoder = (
        "it reads a weighted graph of each task's own, which its inner loop changes, through its first products."
    )
    solves_tasks = True
    transductive = True
    unfit: ClassVar[Mapping[str, str]] = {
        "g-umtra": "a support and its query are the same node there, so neither a task's graph nor the influence "
        "between them means anything."
    }
    BLOCK = 8192
    """Nodes whose features are taken at once."""

    @dataclass(frozen=True)
    class Options(Learner.Options):
        hidden: int = option(16, more_than=0)  # width of both layers, and of each projection
        lr: float = option(0.005, more_than=0)  # Adam's learning rate
        weight_decay: float = option(5e-4, at_least=0)  # Adam's
        inner_lr: float = option(0.1, more_than=0)  # of the inner loop
        inner_steps: int = option(0, at_least=0)  # 0 means 20 steps if 10-way, else 5, as released
        dropout: float = option(0.5, at_least=0, below=1)  # share of first-layer values dropped in the inner loop
        # learned edges per node: at least as strong as the k-th (0: none, as released)
        k_keep: int = option(0, at_least=0)
        # of the features, per column; none as released for ogbn-arxiv
        scale: str = option("minmax", choices=("minmax", "none"))

    options: Options

    def build(self) -> None:
        """The last row of ``first`` is its bias; its columns are the encoder's, then those of both projections."""
        self.hidden, self.k_keep = self.options.hidden, self.options.k_keep
        self.steps = self.options.inner_steps or (20 if self.way == 10 else 5)
        self.space = RowOperator(self.graph, self.options.scale, self.device)
        h = self.hidden
        self.first = self._draw_weights("first", (self.space.width, 3 * h if self.k_keep else h), h)
        self.second = self._draw_weights("second", (h, h), h)
        self.second_bias = self._draw_weights("second_bias", (1, h), h)
        self.classifier = self._draw_weights("classifier", (h, self.way), self.way)
        self.classifier_bias = self._draw_weights("classifier_bias", (1, self.way), self.way)

    def _draw_weights(self, purpose: str, shape: tuple[int, int], outputs: int) -> nn.Parameter:
        return uniform(shape, outputs, self.generator(f"weights/{purpose}"), self.device)

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        self.require_way(episodes.way, "the set of episodes")
        self.graph.known_nodes(episodes.support)
        self.graph.known_nodes(episodes.query[episodes.mask])
        losses = [
            self._outer_loss(view, episodes.mask[view.tasks], f"train/{update}") for view in self._views(episodes)
        ]
        return torch.cat(losses).mean()

    def _views(self, episodes: Episodes) -> Iterator[PlainTasks | LearnedTask]:
        """The graphs of all episodes, as many at once as there can be."""
        if not self.k_keep:
            for chunk in chunk_episodes(episodes, self.space, [self.space], self.first):
                yield PlainTasks(self.space, chunk)
            return
        query = np.where(episodes.mask, episodes.query, -1)
        for task, support in enumerate(episodes.support):
            yield LearnedTask(self.space, task, support, query[task].ravel(), self.first, self.k_keep)

    def _outer_loss(self, view: PlainTasks | LearnedTask, mask: np.ndarray, purpose: str) -> torch.Tensor:
        """(tasks,) CE(queries) + L_con at the adapted weights; its gradient goes to the initial ones."""
        vectors, logits = self._adapt(view, purpose)
        kept = torch.from_numpy(mask).to(self.device).flatten(1)
        supports = vectors.shape[1] - kept.shape[1]
        loss = (self._entropy(logits[:, supports:]) * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)
        return loss + CONTRAST * contrastive(vectors[:, :supports], self.way)

    def _entropy(self, logits: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of class-major answers: (tasks, m, way) -> (tasks, m)."""
        slots = torch.arange(self.way, device=self.device).repeat_interleave(logits.shape[1] // self.way)
        return F.cross_entropy(logits.transpose(1, 2), slots.expand(len(logits), -1), reduction="none")

    def _adapt(self, view: PlainTasks | LearnedTask, purpose: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors and answers of supports, then queries, by the weights that the inner loop gives."""
        draws = (self._draw(purpose, step) for step in range(self.steps))

        def support_loss(weights: Weights, first: torch.Tensor) -> torch.Tensor:
            gathered, received = view.inner(first, next(draws))
            vectors, logits = self._head(gathered, weights)
            loss = (self._entropy(logits).mean(dim=1) + CONTRAST * contrastive(vectors, self.way)).sum()
            return loss if received is None else loss + INFLUENCE * mutual_information(received)

        start = {name: value for name, value in self.named_parameters() if name != "first"}
        _, (weights, shift) = adapt(
            start, view.support, support_loss, steps=self.steps, lr=self.options.inner_lr, second_order=False
        )
        return self._head(view.outer(shift), weights)

    def _head(self, gathered: torch.Tensor, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
        vectors = gathered @ weights["second"] + weights["second_bias"]
        return vectors, vectors @ weights["classifier"] + weights["classifier_bias"]

    def _draw(self, purpose: str, step: int) -> Draw | None:
        """Dropout factors of one inner step."""
        share = self.options.dropout
        if share == 0:
            return None

        def draw(places: torch.Tensor) -> torch.Tensor:
            shape = int(places.max()) + 1, self.hidden
            drawn = stream(self.seed, f"{self.name}/dropout/{purpose}", step).random(shape)
            factors = (drawn >= share).astype(np.float32) / np.float32(1 - share)
            return torch.from_numpy(factors).to(self.device)[places]

        return draw

    @torch.no_grad()
    def solve(self, tasks: Tasks) -> np.ndarray:
        """(count, way * queries) slots: each task by its own inner loop."""
        self.require_way(tasks.way, "the task set")
        self.graph.known_nodes(tasks.nodes())
        support, query = (part.reshape(len(tasks), self.way, -1) for part in (tasks.support, tasks.query))
        found = np.empty(tasks.query.shape, dtype=np.int64)
        for view in self._views(Episodes(support, query, np.ones(query.shape, dtype=bool))):
            _, logits = self._adapt(view, "solve")
            found[view.tasks] = logits[:, tasks.support.shape[1] :].argmax(dim=2).cpu().numpy()
        return found

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """Vectors of some nodes before any adaptation, on the graph without learned edges."""
        rows, around = self.space.field(self.graph.known_nodes(nodes).ravel())
        hidden = torch.relu(self.space.first_layer(around, self.first[:, : self.hidden]))
        return sparse_product(rows, hidden) @ self.second + self.second_bias

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """As :meth:`encode` for all nodes."""
        nodes = np.arange(self.graph.num_nodes)
        blocks = np.split(nodes, range(self.BLOCK, len(nodes), self.BLOCK))
        inputs = torch.cat([self.space.inputs(block, self.first[:, : self.hidden]) for block in blocks])
        edges = take_rows(self.space.adjacency, nodes)
        return multiply(edges, torch.relu(multiply(edges, inputs))) @ self.second + self.second_bias


def contrastive(vectors: torch.Tensor, way: int) -> torch.Tensor:
    """InfoNCE between the supports of each shot and those of the next: (tasks, way * shot, h) -> (tasks,)."""
    shots = F.normalize(vectors, dim=2).unflatten(1, (way, -1)).transpose(1, 2)
    likeness = shots @ shots.roll(-1, dims=1).transpose(2, 3) / TEMPERATURE
    return -torch.log_softmax(likeness, dim=3).diagonal(dim1=2, dim2=3).mean(dim=(1, 2))


def mutual_information(received: torch.Tensor) -> torch.Tensor:
    """L_mi of what each query receives from each class: (queries, way) -> scalar; 0 without queries."""
    if not len(received):
        return received.sum()
    total = received.sum(dim=1, keepdim=True)
    share = torch.where(total > 0, received / total.clamp(min=torch.finfo(total.dtype).tiny), 1.0 / received.shape[1])
    classes = share.sum(dim=0)
    return (classes * classes.clamp(min=1e-12).log()).sum() - (share * share.clamp(min=1e-12).log()).sum(dim=1).mean()
