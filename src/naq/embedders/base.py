"""Base class of methods that need no episodes: vectors for all nodes of a graph without labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from naq.device import checked_device
from naq.errors import OptionError
from naq.graph import Graph
from naq.memory import check_widths
from naq.options import Configurable
from naq.plugins import Registry

BLOCK_ROWS = 1 << 16
"""Rows of an embedding that are held at once where it is made in blocks."""

EMBEDDERS: Registry[type[Embedder]] = Registry(
    "an embedder",
    {
        "afgrl": "naq_paper.rivals.afgrl:AFGRL",
        "bgrl": "naq_paper.rivals.bgrl:BGRL",
        "cola": "naq_paper.rivals.cola:COLA",
        "naq-plus": "naq.embedders.naq_plus:NaqPlus",
        "naq-plus/sugrl": "naq_paper.rivals.naq_plus_sugrl:NaqPlusSugrl",
        "smooth": "naq.embedders.smooth:Smooth",
        "sugrl": "naq_paper.rivals.sugrl:SUGRL",
        "untrained": "naq.embedders.untrained:Untrained",
        "vnt": "naq_paper.rivals.vnt:VNT",
    },
    group="naq.methods",
    accepts=lambda item: isinstance(item, type) and issubclass(item, Embedder),
)
register_embedder = EMBEDDERS.register


class Embedder(Configurable, ABC):
    """Vectors for all nodes; it is handed a graph without labels.

    Args:
        graph: structure and features.
        seed: of whatever it draws.
        device: where the arithmetic runs.
        options: overrides of ``defaults``.
    """

    trains: ClassVar[bool] = False
    """Whether it is trained, in epochs."""
    inductive: ClassVar[bool] = False
    weighs_features: ClassVar[bool] = False
    """Whether it weights features itself and is therefore handed them raw."""
    solves_tasks: ClassVar[bool] = False

    def __init__(self, graph: Graph, *, seed: int = 0, device: str | torch.device = "cpu", **options: Any) -> None:
        self.graph = graph.without_labels()
        self.configure(options)
        check_widths(graph, dict(self.options))
        self.seed = seed
        self.device = checked_device(device)

    @abstractmethod
    def embed(self) -> np.ndarray:
        """(n, d) float32."""

    def embed_to(self, path: str | Path | None, *, block: int = BLOCK_ROWS, tile: int | None = None) -> np.ndarray:
        """(n, d) float32 as a memory-mapped .npy file, made in blocks; a file without a name where ``path`` is None.

        Args:
            block: rows held at once.
            tile: columns that are smoothed at once; None decides by the memory that is free. Neither changes the numbers but for their last bits.
        """
        raise OptionError(
            f"{self.name} does not work in blocks; use naq-plus or smooth, or load the graph from an npz file into memory."
        )

    def plan(self) -> str:
        """One line on what was decided about this graph and why, for the report; empty where nothing was."""
        return ""
