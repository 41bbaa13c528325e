"""Base class of methods that need no episodes: vectors for all nodes of a graph without labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch

from naq.encoders.widths import check_widths
from naq.graph import Graph
from naq.options import Configurable
from naq.registry import Registry

EMBEDDERS: Registry[type[Embedder]] = Registry("an embedder", "naq.embedders")
register_embedder = EMBEDDERS.register


class Embedder(Configurable, ABC):
    """Vectors for all nodes; it is handed a graph without labels.

    Args:
        graph: structure and features.
        seed: of whatever it draws.
        device: where the arithmetic runs.
        options: overrides of ``defaults``.
    """

    inductive: ClassVar[bool] = False
    weighs_features: ClassVar[bool] = False
    """Whether it weights features itself and is therefore handed them raw."""
    solves_tasks: ClassVar[bool] = False

    def __init__(self, graph: Graph, *, seed: int = 0, device: str | torch.device = "cpu", **options: Any) -> None:
        self.graph = graph.without_labels()
        self.configure(options)
        check_widths(graph, self.options)
        self.seed = seed
        self.device = torch.device(device)

    @abstractmethod
    def embed(self) -> np.ndarray:
        """(n, d) float32."""

    def plan(self) -> str:
        """One line on what was decided about this graph and why, for the report; empty where nothing was."""
        return ""
