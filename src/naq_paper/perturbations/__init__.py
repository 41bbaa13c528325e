"""A perturbation: the same dataset with fewer labels, with noise, or with other class sizes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from naq.graph import Graph
from naq.options import Configurable, Value, merge_options
from naq.plugins import Registry
from naq.tasks import ClassSplit

PERTURBATIONS: Registry[type[Perturbation]] = Registry(
    "a perturbation",
    {
        "feature-noise": "naq_paper.perturbations.features:FeatureNoise",
        "imbalance": "naq_paper.perturbations.imbalance:Imbalance",
        "label-noise": "naq_paper.perturbations.labels:LabelNoise",
        "label-scarcity": "naq_paper.perturbations.labels:LabelScarcity",
        "naq-plus-features": "naq_paper.perturbations.features:NaqPlusFeatures",
        "structure-noise": "naq_paper.perturbations.structure_noise:StructureNoise",
    },
)
register_perturbation = PERTURBATIONS.register


@dataclass(frozen=True, eq=False)
class Perturbed:
    """What a run is given instead of the dataset."""

    graph: Graph  # with true labels: tasks are made from them
    base_labels: np.ndarray | None = None  # (n,) what a supervised method may read, -1: nothing; None: as they are
    split: ClassSplit | None = None  # classes, where the perturbation removes some; None: as they were
    redraw: bool = False  # whether nodes were removed, so that tasks have to be drawn anew
    facts: Mapping[str, Any] = field(default_factory=dict)  # what was done, for the report; JSON values


class Perturbation(Configurable, ABC):
    """Changes a dataset before a run. A subclass names itself, lists its ``Options``, and gives :meth:`apply`."""

    def __init__(self, **options: Any) -> None:
        self.configure(options)

    @abstractmethod
    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        """What a run is given; everything random is drawn from ``naq.random.stream`` of ``seed``."""


def resolve_perturbation(given: Mapping[str, Any] | None) -> dict[str, Value] | None:
    """``{"name": ..., options..., "seed": 0}`` with every option written out and checked; None stays None."""
    if given is None:
        return None
    perturbation, seed = _made(given)
    return {"name": perturbation.name, **perturbation.options, "seed": seed}


def apply_perturbation(graph: Graph, split: ClassSplit, given: Mapping[str, Any]) -> Perturbed:
    """Apply the perturbation that ``{"name": ..., ...}`` describes."""
    perturbation, seed = _made(given)
    return perturbation.apply(graph, split, seed)


def _made(given: Mapping[str, Any]) -> tuple[Perturbation, int]:
    kind = PERTURBATIONS.find(str(given.get("name", "")))
    seed = merge_options(kind.name, {"seed": 0}, {"seed": given.get("seed", 0)})["seed"]
    return kind(**{name: value for name, value in given.items() if name not in ("name", "seed")}), int(seed)


def ceil_of(share: float, count: int) -> int:
    """The ceiling of ``share * count`` for the share as it is written: 0.07 of 100 are 7, though 0.07 * 100 > 7."""
    return math.ceil(round(share * count, 9))


def floor_of(share: float, count: int) -> int:
    """The floor of ``share * count`` for the share as it is written: 0.29 of 100 are 29."""
    return math.floor(round(share * count, 9))
