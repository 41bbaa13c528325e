r"""MAML on graphs (Meta-GNN): an initialisation from which few gradient steps on a support set solve a task.

Finn, Abbeel, Levine, Model-Agnostic Meta-Learning, https://arxiv.org/abs/1703.03400;
Zhou et al., Meta-GNN, https://arxiv.org/abs/1905.09718

.. math::
    \theta_s = \theta_{s-1} - a \nabla \mathrm{CE}(\theta_{s-1}; \text{support}), \qquad
    \mathcal L = \frac1T \sum_t \mathrm{CE}(\theta_S^{(t)}; \text{queries})

The model is the GCN and a linear head to ``way`` outputs; both are adapted and both are meta-learned. ``first`` order
takes the outer gradient at the adapted weights, as the released codes of NaQ and Meta-GNN do; ``second`` order
differentiates the inner steps. Tasks are tested by a head on the vectors of the meta-learned encoder, without an inner
loop, as in the paper.

With an encoder of the user's the same steps are taken by autograd, one task after the other.

Cost: the first layer of the receptive fields of all tasks once forward and once backward; inner steps work on Gram
matrices of the supports' neighbourhoods (:mod:`naq.learners.meta_batch`) and never touch the first weight. With a given
encoder: a pass over the graph, and its gradient, for each inner step of each task.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-diff/maml", episodes=1600)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from naq.episodes import Episodes
from naq.learners.base import Learner, kept_queries
from naq.learners.inner_loop import Weights, adapt, mean_by_task, movable, two_layers
from naq.learners.meta_batch import Side, TaskChunk, chunk_episodes
from naq.nn import Operator
from naq.options import option


class MAML(Learner):
    """A meta-learned initialisation of encoder and classifier."""

    name = "maml"
    summary = "an initialisation that adapts in a few steps"

    @dataclass(frozen=True)
    class Options(Learner.Options):
        latent: int = option(64, more_than=0)  # width of the vectors; the hidden layer is twice as wide
        lr: float = option(3e-3, more_than=0)  # Adam's learning rate of the initialisation
        inner_lr: float = option(0.01, more_than=0)  # of the adaptation to a support set
        inner_steps: int = option(10, more_than=0)  # of the adaptation
        meta_batch: int = option(16, more_than=0)  # tasks per update
        order: str = option("first", choices=("first", "second"))  # of the outer gradient

    options: Options

    def build(self) -> None:
        super().build()
        head = torch.empty(self.encoder.latent, self.way)
        self.head_weight = nn.Parameter(nn.init.xavier_uniform_(head, generator=self.generator("head")).to(self.device))
        self.head_bias = nn.Parameter(torch.zeros(self.way, device=self.device))
        o = self.options
        self.adaptation = InnerSteps(movable(self), o.inner_steps, o.inner_lr, second_order=o.order == "second")

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        self.require_way(episodes.way, "an episode")
        views = self.query_operators(episodes, update)
        if self.make_encoder is not None:
            encode = self.encode_in(update)
            each = [self._loss_of_passes(episodes[t : t + 1], views, encode) for t in range(len(episodes))]
            return torch.stack(each).mean()
        chunks = chunk_episodes(episodes, self.operator, views, self.encoder.weight1, width=self.adaptation.width)
        losses = [self._chunk_loss(chunk) for chunk in chunks]
        return torch.stack(losses).sum() / len(episodes)

    def _chunk_loss(self, chunk: TaskChunk) -> torch.Tensor:
        """Sum over the tasks of the mean loss of their queries after adaptation."""
        weights, shift = self.adaptation(chunk.support)
        first = chunk.query.moved(shift)
        return task_cross_entropy(two_layers(weights, first, chunk.query), chunk.query).sum()

    def _loss_of_passes(
        self, episode: Episodes, views: Sequence[Operator], encode: Callable[..., torch.Tensor]
    ) -> torch.Tensor:
        """Mean loss of the queries of one episode, by full passes of a given encoder; 0 without queries."""

        def logits(weights: Weights, nodes: np.ndarray, view: Operator) -> torch.Tensor:
            given = {name.removeprefix("encoder."): w for name, w in weights.items() if name.startswith("encoder.")}
            return encode(nodes, view, given) @ weights["head_weight"] + weights["head_bias"]

        o, second_order = self.options, self.options.order == "second"
        start: Weights = {name: weight for name, weight in self.named_parameters() if weight.requires_grad}
        weights = start
        support_slots = torch.arange(self.way, device=self.device).repeat_interleave(episode.shot)
        for _ in range(o.inner_steps):
            if not second_order:
                weights = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
            with torch.enable_grad():
                loss = F.cross_entropy(logits(weights, episode.support.ravel(), self.operator), support_slots)
            changes = torch.autograd.grad(
                loss, list(weights.values()), create_graph=second_order, allow_unused=True, materialize_grads=True
            )
            weights = {name: weight - o.inner_lr * change for (name, weight), change in zip(weights.items(), changes)}
        if not second_order:
            weights = {name: start[name] + (weight - start[name]).detach() for name, weight in weights.items()}
        _, slots, columns = kept_queries(episode, self.device)
        nodes = episode.query[episode.mask]
        total = torch.stack([weight.sum() for weight in weights.values()]).sum() * 0.0
        for number, view in enumerate(views):
            mine = np.flatnonzero(columns == number) if len(views) > 1 else np.arange(len(nodes))
            if len(mine):
                wanted = slots[torch.from_numpy(mine).to(self.device)]
                found = F.cross_entropy(logits(weights, nodes[mine], view), wanted, reduction="sum")
                total = total + found / len(nodes)
        return total


class InnerSteps:
    """The inner steps on the supports of a chunk of tasks, by autograd.

    A device that has something faster puts a subclass in its place, as ``learner.adaptation``.

    Args:
        parameters: the weights to start from, without the first one of the encoder.
        steps, lr: of the adaptation.
        second_order: keep the derivative of the steps.
    """

    def __init__(
        self, parameters: Mapping[str, torch.Tensor], steps: int, lr: float, *, second_order: bool = False
    ) -> None:
        self.parameters, self.steps, self.lr, self.second_order = dict(parameters), steps, lr, second_order

    def width(self, rows: int) -> int:
        """First-layer rows that the supports of a chunk are filled up to, given those of the largest."""
        return rows

    def __call__(self, support: Side) -> tuple[Weights, torch.Tensor]:
        """The weights after the steps and the shift of the first layer, see :func:`~naq.learners.inner_loop.adapt`."""

        def loss(weights: Weights, first: torch.Tensor) -> torch.Tensor:
            return task_cross_entropy(two_layers(weights, first, support), support).sum()

        steps, lr, second_order = self.steps, self.lr, self.second_order
        return adapt(self.parameters, support, loss, steps=steps, lr=lr, second_order=second_order)[1]


def task_cross_entropy(logits: torch.Tensor, side: Side) -> torch.Tensor:
    """(t,) mean cross-entropy of each task's own rows; 0 for a task without any."""
    each = F.cross_entropy(logits.flatten(0, 1), side.slot.flatten(), reduction="none")
    return mean_by_task(each, side)
