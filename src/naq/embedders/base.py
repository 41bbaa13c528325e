"""Base class of methods that need no episodes: vectors for all nodes of a graph without labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    import torch

from naq.device import check_widths, checked_device
from naq.graph import Graph
from naq.options import Configurable, Registry, imported

EMBEDDERS: Registry[type[Embedder]] = Registry(
    "an embedder",
    {
        "afgrl": "naq_paper.rivals.afgrl:AFGRL",
        "bgrl": "naq_paper.rivals.bgrl:BGRL",
        "cola": "naq_paper.rivals.cola:COLA",
        "naq-plus": "naq.embedders.closed_form:NaqPlus",
        "naq-plus/sugrl": "naq_paper.rivals.sugrl:NaqPlusSugrl",
        "smooth": "naq.embedders.smooth:Smooth",
        "sugrl": "naq_paper.rivals.sugrl:SUGRL",
        "untrained": "naq.embedders.untrained:Untrained",
        "vnt": "naq_paper.rivals.vnt:VNT",
    },
    group="naq.methods",
    accepts=lambda item: isinstance(item, type) and issubclass(item, Embedder),
)


class Embedder(Configurable, ABC):
    """Vectors for all nodes; it is handed a graph without labels.

    Args:
        graph: structure and features.
        seed: of whatever it draws.
        device: where the arithmetic runs.
        options: overrides of ``defaults``.
    """

    inductive: ClassVar[bool] = False
    """Whether its encoder applies to nodes it has not seen."""
    weighs_features: ClassVar[bool] = False
    """Whether it weights features itself and is therefore handed them raw."""
    trains: ClassVar[bool] = False
    """Whether it is trained, in epochs, before its vectors are of use."""
    solves_tasks: ClassVar[bool] = False
    """Whether it solves tasks itself, without a head."""

    def __init__(self, graph: Graph, *, seed: int = 0, device: str | torch.device = "cpu", **options: Any) -> None:
        self.graph = graph.without_labels()
        self.configure(options)
        check_widths(graph, dict(self.options))
        self.seed = seed
        self.device = checked_device(device)

    @abstractmethod
    def embed(self) -> np.ndarray:
        """(n, d) float32."""

    def embed_to(self, path: str | Path | None, **how: Any) -> np.ndarray:
        """(n, d) float32 as a memory-mapped .npy file, made in blocks; a file without a name if ``path`` is None.

        ``how`` are the arguments of :func:`naq_scale.blocks.embed_to`; OptionError for a method that cannot do it.
        """
        vectors: np.ndarray = imported("naq_scale.blocks:embed_to")(self, path, **how)
        return vectors

    def plan(self) -> str:
        """One line on what was decided about this graph and why, for the report; empty if nothing was."""
        return ""
