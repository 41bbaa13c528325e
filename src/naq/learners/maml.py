r"""MAML on graphs (Meta-GNN): an initialisation from which few gradient steps on a support set solve a task.

Finn, Abbeel, Levine, Model-Agnostic Meta-Learning, https://arxiv.org/abs/1703.03400;
Zhou et al., Meta-GNN, https://arxiv.org/abs/1905.09718

.. math::
    \theta_s = \theta_{s-1} - a \nabla \mathrm{CE}(\theta_{s-1}; \text{support}), \qquad
    \mathcal L = \frac1T \sum_t \mathrm{CE}(\theta_S^{(t)}; \text{queries})

The model is the GCN and a linear head to ``way`` outputs; both are adapted and both are meta-learned. ``first`` order takes the
outer gradient at the adapted weights, as the released codes of NaQ and Meta-GNN do; ``second`` order differentiates the inner steps.
Tasks are tested by a head on the vectors of the meta-learned encoder, without an inner loop, as in the paper.

Cost: the first layer of the receptive fields of all tasks once forward and once backward; inner steps work on Gram matrices of
the supports' neighbourhoods (:mod:`naq.learners.meta_batch`) and never touch the first weight.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-diff/maml", episodes=1600)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from naq.episodes import Episodes
from naq.learners.base import Learner
from naq.learners.inner_loop import Weights, adapt, mean_by_task, movable, two_layers
from naq.learners.meta_batch import Side, TaskChunk, task_chunks
from naq.options import Value
from naq_scale.recorded import RecordedSteps, recording


class MAML(Learner):
    """A meta-learned initialisation of encoder and classifier.

    Options:
        latent: width of the vectors (64; the hidden layer is twice as wide).
        lr: Adam's learning rate of the initialisation (3e-3).
        inner_lr, inner_steps: of the adaptation to a support set (0.01, 10).
        meta_batch: tasks per update (16).
        order: ``first`` or ``second``.

    Shapes:
        - ``loss``: Episodes of one or more episodes -> scalar
    """

    name = "maml"
    summary = "an initialisation that adapts in a few steps"
    _recorded: RecordedSteps | None = None
    defaults: ClassVar[Mapping[str, Value]] = {
        "latent": 64, "lr": 3e-3, "inner_lr": 0.01, "inner_steps": 10, "meta_batch": 16, "order": "first",
    }  # fmt: skip

    def build(self) -> None:
        super().build()
        head = torch.empty(int(self.options["latent"]), self.way)
        self.head_weight = nn.Parameter(nn.init.xavier_uniform_(head, generator=self.generator("head")).to(self.device))
        self.head_bias = nn.Parameter(torch.zeros(self.way, device=self.device))

    def check_options(self) -> None:
        super().check_options()
        self.require_positive("inner_lr", "inner_steps")
        self.require_choice("order", ("first", "second"))

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        self.require_way(episodes.way, "an episode")
        views = self.query_operators(episodes, update)
        few = recording(self.device)
        chunks = task_chunks(episodes, self.operator, views, self.encoder.weight1, few_widths=few)
        losses = [self._chunk_loss(chunk) for chunk in chunks]
        return torch.stack(losses).sum() / len(episodes)

    def _chunk_loss(self, chunk: TaskChunk) -> torch.Tensor:
        """Sum over the tasks of the mean loss of their queries after adaptation."""

        def support_loss(weights: Weights, first: torch.Tensor) -> torch.Tensor:
            return task_cross_entropy(two_layers(weights, first, chunk.support), chunk.support).sum()

        steps, lr = int(self.options["inner_steps"]), float(self.options["inner_lr"])
        first_order = self.options["order"] == "first"
        if first_order and recording(self.device) and isinstance(chunk.support.gram, torch.Tensor):
            if self._recorded is None:
                self._recorded = RecordedSteps(movable(self), way=self.way, steps=steps, lr=lr)
            weights, shift = self._recorded(chunk.support)
        else:
            _, (weights, shift) = adapt(
                movable(self), chunk.support, support_loss, steps=steps, lr=lr, second_order=not first_order
            )
        first = chunk.query.moved(shift)
        return task_cross_entropy(two_layers(weights, first, chunk.query), chunk.query).sum()


def task_cross_entropy(logits: torch.Tensor, side: Side) -> torch.Tensor:
    """(t,) mean cross-entropy of each task's own rows; 0 for a task without any."""
    each = F.cross_entropy(logits.flatten(0, 1), side.slot.flatten(), reduction="none")
    return mean_by_task(each, side)
