"""What every episode-free method is: vectors for all nodes of a graph without labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from naq import registry
from naq.graph import Graph
from naq.options import Value, merge_options

EMBEDDERS: dict[str, type[Embedder]] = {}


def register_embedder(cls: type[Embedder]) -> type[Embedder]:
    """Make an embedder known by its ``name``."""
    return registry.add(EMBEDDERS, cls, "an embedder")


class Embedder(ABC):
    """Vectors for all nodes; it is handed a graph without labels.

    Args:
        graph: structure and features.
        seed: of whatever it draws.
        device: where the arithmetic runs.
        options: overrides of ``defaults``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    defaults: ClassVar[Mapping[str, Value]]
    inductive: ClassVar[bool] = False
    weighs_features: ClassVar[bool] = False
    """Whether it weights features itself and is therefore handed them raw."""
    solves_tasks: ClassVar[bool] = False

    def __init__(self, graph: Graph, *, seed: int = 0, device: str | torch.device = "cpu", **options: Any) -> None:
        self.options = merge_options(self.name, self.defaults, options)
        self.graph = graph.without_labels()
        self.seed = seed
        self.device = torch.device(device)

    @abstractmethod
    def embed(self) -> np.ndarray:
        """(n, d) float32."""
