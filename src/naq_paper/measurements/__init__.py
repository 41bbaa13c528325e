"""A measurement: a named function from a cell's configuration to its result, and what the builders of cells share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naq.errors import Listener, OptionError
from naq.options import Registry, did_you_mean
from naq.random import key
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache
from naq_paper.perturbations import Perturbed


@dataclass(frozen=True, eq=False)
class Context:
    """What a measurement may use in addition to its configuration; none of it may change the result."""

    dataset_cache: DatasetCache
    scratch: Path | None = None  # a folder of the cell's own for checkpoints, removed when it is done
    cache: str | Path | None = ""  # folder for neighbour tables, "" is the user's, None keeps none
    listener: Listener = lambda phase, facts: None

    def perturbed(self, config: Mapping[str, Any]) -> Perturbed:
        """The dataset of a configuration under its perturbation."""
        return self.dataset_cache.perturbed(str(config["dataset"]), config.get("perturbation"))


Compute = Callable[[Mapping[str, Any], Context], dict[str, Any]]
"""A measurement: returns JSON values and raises ``NaqError`` for what cannot be done."""

MEASUREMENTS: Registry[Compute] = Registry(
    "a measurement",
    {
        "class-similarity": "naq_paper.measurements.class_similarity:class_similarity",
        "empty": "naq_paper.measurements:empty",
        "overlap": "naq_paper.measurements.overlap:overlap",
        "practice": "naq_paper.measurements.practice:practice",
        "tail-map": "naq_paper.measurements.tail_map:tail_map",
        "times": "naq_paper.measurements.times:times",
        "train": "naq_paper.measurements.train:train",
    },
)


def perform(cell: Cell, context: Context) -> dict[str, Any]:
    """The result of a cell."""
    return MEASUREMENTS.find(cell.measurement)(cell.config, context)


def empty(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Sleep ``seconds``, then return ``number``, or fail with ``error``: measures and tests the overhead of runners."""
    time.sleep(float(config.get("seconds", 0.0)))
    if config.get("error"):
        raise OptionError(str(config["error"]))
    return {"number": config.get("number", 0)}


def dataset_cell(measurement: str, dataset: str, config: Mapping[str, Any]) -> Cell:
    """The cell of a measurement on a dataset as it is."""
    return Cell(measurement, {"dataset": dataset, "perturbation": None, **config})


def check_choice(name: str, value: str, known: Collection[str]) -> None:
    """Raise one sentence with the nearest names where an argument is none of them."""
    if value not in known:
        raise OptionError(f"{name} is {value!r}; {did_you_mean(str(value), known)}")


def finite_or_none(value: float) -> float | None:
    """The value as JSON has it: null where it is not finite."""
    return float(value) if math.isfinite(value) else None


def validate_seed(seed: int) -> None:
    """Validate the seed."""
    key(seed, "check")
