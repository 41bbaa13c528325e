"""What a run leaves behind: numbers, how they were made, and the vectors."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from naq import __version__
from naq.heads import Evaluation
from naq.training import History


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of one run.

    ``evaluations`` holds one entry per head on the same test tasks; ``accuracy``, ``ci95`` and ``per_task`` are those of
    the head the run was asked for, which also chose the checkpoint. ``reference`` is the training-free line on the same tasks.
    ``also`` and ``also_reference`` hold the same for tasks of other shots, keyed by the shot.
    """

    config: Mapping[str, Any]
    evaluations: Mapping[str, Evaluation]
    reference: Mapping[str, Evaluation]
    facts: Mapping[str, Any]
    seconds: Mapping[str, float]
    history: History | None = None
    embedding: np.ndarray | None = field(default=None, repr=False)
    also: Mapping[str, Mapping[str, Evaluation]] = field(default_factory=dict)
    also_reference: Mapping[str, Mapping[str, Evaluation]] = field(default_factory=dict)

    @property
    def main(self) -> Evaluation:
        return self.evaluations[self.config["head"]]

    @property
    def accuracy(self) -> float:
        return self.main.accuracy

    @property
    def ci95(self) -> float:
        return self.main.ci95

    @property
    def per_task(self) -> np.ndarray:
        return self.main.per_task

    def __str__(self) -> str:
        return f"{self.config['method']} on {self.config['dataset']}: {self.main}"

    def to_json(self) -> dict[str, Any]:
        """Everything but the embedding."""
        return {
            "config": dict(self.config),
            "facts": dict(self.facts),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "evaluations": _to_json(self.evaluations),
            "reference": _to_json(self.reference),
            "also": {shot: _to_json(found) for shot, found in self.also.items()},
            "also_reference": {shot: _to_json(found) for shot, found in self.also_reference.items()},
            "history": None if self.history is None else vars(self.history),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """The inverse of :meth:`to_json`."""
        return cls(
            data["config"],
            _from_json(data["evaluations"]),
            _from_json(data["reference"]),
            data["facts"],
            data["seconds"],
            None if data["history"] is None else History(**data["history"]),
            also={shot: _from_json(found) for shot, found in data.get("also", {}).items()},
            also_reference={shot: _from_json(found) for shot, found in data.get("also_reference", {}).items()},
        )


def _to_json(evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    return {name: e.to_json() for name, e in evaluations.items()}


def _from_json(data: Mapping[str, Any]) -> dict[str, Evaluation]:
    return {name: Evaluation.from_json(e) for name, e in data.items()}


def versions() -> dict[str, str]:
    """Versions that a number may depend on."""
    import numba
    import scipy
    import torch

    return {
        "naq": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }
