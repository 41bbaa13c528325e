"""What every meta-learner is: a loss on episodes, an encoder to keep, an optimiser."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from naq.encoders import GCN, GraphOperator
from naq.episodes import Episodes
from naq.errors import OptionError
from naq.graph import Graph
from naq.options import Value, merge_options

LEARNERS: dict[str, type[Learner]] = {}


def register_learner(cls: type[Learner]) -> type[Learner]:
    """Make a learner known by its ``name``."""
    if cls.name in LEARNERS:
        raise OptionError(f"a learner named {cls.name!r} is registered already; choose another name.")
    LEARNERS[cls.name] = cls
    return cls


class Learner(nn.Module, ABC):
    """A model trained on episodes.

    A subclass names itself, lists its options with their defaults, and gives :meth:`loss`. The base class brings the
    encoder, Adam and one gradient step per batch of ``episodes_per_update`` episodes.

    Args:
        graph: without labels under NaQ; with the labels of base classes only when supervised.
        way: classes per episode.
        seed: of the initial weights and of whatever the learner draws.
        device: where the arithmetic runs.
        options: overrides of ``defaults``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    defaults: ClassVar[Mapping[str, Value]]
    episodes_per_update: ClassVar[int] = 1
    inductive: ClassVar[bool] = True
    solves_tasks: ClassVar[bool] = False

    def __init__(
        self, graph: Graph, *, way: int, seed: int = 0, device: str | torch.device = "cpu", **options: Any
    ) -> None:
        super().__init__()
        self.options = merge_options(self.name, self.defaults, options)
        self.way = way
        self.seed = seed
        self.encoder = GCN(GraphOperator(graph, device), int(self.options["latent"]), seed=seed)

    @abstractmethod
    def loss(self, episodes: Episodes) -> torch.Tensor:
        """Mean loss over these episodes: a scalar with a gradient."""

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam without weight decay at the learner's ``lr``, as every method of the paper."""
        return torch.optim.Adam(self.parameters(), lr=float(self.options["lr"]), fused=True)

    def step(self, episodes: Episodes, update: int, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        """One update; the loss, detached. ``update`` keys whatever is drawn, so that a resumed run draws the same."""
        optimizer.zero_grad(set_to_none=True)
        loss = self.loss(episodes)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """Vectors of some nodes for a head."""
        return self.encoder.encode(nodes)

    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes for a head."""
        return self.encoder.encode_all()
