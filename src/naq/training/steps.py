"""What is trained in steps: a learner with its episodes, or a model with its epochs."""

from __future__ import annotations

import os
from typing import Any, Protocol

import torch
from torch import nn

from naq.episodes import Episodes
from naq.errors import OptionError
from naq.learners import Learner
from naq.memory import keep_pages
from naq.plugins import imported


class Steps(Protocol):
    """What the loop needs: weights, an optimiser, and steps that depend on nothing but them and their number."""

    optimizer: torch.optim.Optimizer
    updates: int
    unit: str
    """What is counted: ``episodes`` or ``epochs``."""

    @property
    def model(self) -> nn.Module: ...

    def step(self, update: int) -> torch.Tensor: ...

    def done(self, updates: int) -> int:
        """Episodes or epochs behind so many updates."""

    def updates_between(self, count: int) -> int:
        """Updates that so many episodes or epochs take, at least one."""

    def part(self, update: int) -> str:
        """The episodes or the epoch of an update, in words."""


class EpisodeTraining:
    """A learner and its episodes as steps: update u takes the u-th batch."""

    def __init__(self, learner: Learner, episodes: Episodes) -> None:
        self.model = learner
        self.optimizer = learner.optimizer()
        self.episodes = episodes
        self.unit = "episodes"
        self.episodes_per_update = learner.episodes_per_update
        self.updates = len(episodes) // self.episodes_per_update
        if self.updates == 0:
            raise OptionError(
                f"{len(episodes)} episodes are fewer than one update of {learner.name} takes "
                f"({self.episodes_per_update}); ask for more."
            )

    def step(self, update: int) -> torch.Tensor:
        batch = self.episodes[update * self.episodes_per_update : (update + 1) * self.episodes_per_update]
        return self.model.step(batch, update, self.optimizer)

    def done(self, updates: int) -> int:
        return updates * self.episodes_per_update

    def updates_between(self, count: int) -> int:
        return max(1, round(count / self.episodes_per_update))

    def part(self, update: int) -> str:
        return f"episodes {self.done(update)} to {self.done(update + 1) - 1}"


def episode_training(learner: Learner, episodes: Episodes) -> EpisodeTraining:
    """The learner's episodes as steps; on a GPU as recorded kernels, unless ``NAQ_CUDA_GRAPHS=0``."""
    if learner.device.type == "cuda" and os.environ.get("NAQ_CUDA_GRAPHS", "1") != "0":
        recorded: EpisodeTraining | None = imported("naq_scale.cuda_graphs:recorded_training")(learner, episodes)
        if recorded is not None:
            return recorded
    return EpisodeTraining(learner, episodes)


class EpochTraining:
    """A model that is trained in epochs, as steps: an epoch is one or more updates.

    Args:
        model: with ``optimizer()``, ``step(update, optimizer)``, ``updates``, ``updates_per_epoch`` and ``keeps_pages``.
    """

    def __init__(self, model: Any) -> None:
        if model.keeps_pages:
            keep_pages()
        self.model = model
        self.optimizer = model.optimizer()
        self.unit = "epochs"
        self.updates = model.updates

    def step(self, update: int) -> torch.Tensor:
        loss: torch.Tensor = self.model.step(update, self.optimizer)
        return loss

    def done(self, updates: int) -> int:
        return int(updates // self.model.updates_per_epoch)

    def updates_between(self, count: int) -> int:
        return int(count * self.model.updates_per_epoch)

    def part(self, update: int) -> str:
        return f"epoch {self.done(update)}"
