"""What a run leaves behind: numbers, how they were made, and the vectors."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from naq import __version__
from naq.errors import MissingDependency
from naq.heads import Evaluation
from naq.run.config import RunConfig
from naq.training import History

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of one run.

    Attributes:
        config: what was run.
        data: what it was run on: hashes of the ``graph`` and of the ``tasks``, and of ``base_labels`` if they were
            given; the ``features`` that were read; of a neighbour ``table`` that was given, a hash and how it was made.
        evaluations: one per head on the same test tasks; ``accuracy``, ``ci95`` and ``per_task`` are those of
            ``config.head``, which also chose the checkpoint. ``em/dirichlet`` and the like: the same tasks with
            Dirichlet(2) queries, see :func:`naq.tasks.dirichlet_queries`; they never choose anything.
        baseline: the same for the ``smooth`` baseline.
        model: the learner with its chosen weights, or the embedder; None in a result that was read.
        per_seed: the results of each seed, where several were asked for; the accuracies are then over seeds.
    """

    config: RunConfig
    data: Mapping[str, Any]
    evaluations: Mapping[str, Evaluation]
    baseline: Mapping[str, Evaluation]
    facts: Mapping[str, Any]
    seconds: Mapping[str, float]
    history: History | None = None
    embedding: np.ndarray | None = field(default=None, repr=False)
    model: Any = field(default=None, repr=False)
    per_seed: tuple[Result, ...] = field(default=(), repr=False)

    @property
    def main(self) -> Evaluation:
        return self.evaluations[self.config.head]

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
        seeds = f", {len(self.per_seed)} seeds" if self.per_seed else ""
        return f"{self.config.method} on {self.config.dataset}: {self.main}{seeds}"

    def to_frame(self) -> pd.DataFrame:
        """A frame of pandas: a row for each seed and head, and for the baseline under each head."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependency('to_frame() needs pandas: pip install "naq[paper]".') from error
        from naq.run.evaluate import BASELINE

        rows: list[dict[str, Any]] = []
        for one in self.per_seed or (self,):
            seed, dataset = one.config.seed, one.config.dataset
            for method, found in ((one.config.method, one.evaluations), (BASELINE, one.baseline)):
                rows += [
                    {"dataset": dataset, "method": method, "seed": seed, "head": name, "way": e.way, "shot": e.shot,
                     "tasks": len(e), "accuracy": e.accuracy, "ci95": e.ci95}
                    for name, e in found.items()
                ]  # fmt: skip
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """Everything but the embedding and the model; of several seeds also ``seeds``, and ``per_seed`` all of each."""
        found: dict[str, Any] = {
            "config": self.config.to_json(),
            "data": dict(self.data),
            "facts": dict(self.facts),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "evaluations": {name: one.to_json() for name, one in self.evaluations.items()},
            "baseline": {name: one.to_json() for name, one in self.baseline.items()},
            "history": None if self.history is None else self.history.to_json(),
        }
        if self.per_seed:
            seeds = [one.config.seed for one in self.per_seed]
            found |= {"seeds": seeds, "per_seed": [one.to_json() for one in self.per_seed]}
            del found["config"]["seed"]
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any], config: RunConfig | None = None) -> Result:
        """The inverse of :meth:`to_json`.

        ``config`` is known to be that of the data: with heads that have no registered name, for one.
        """
        of_seeds = zip(data.get("seeds", ()), data.get("per_seed", ()))
        each = tuple(cls.from_json(one, config and replace(config, seed=seed)) for seed, one in of_seeds)
        parts = (data["evaluations"], data["baseline"])
        evaluations, baseline = ({name: Evaluation.from_json(e) for name, e in part.items()} for part in parts)
        return cls(
            config or (each[0].config if each else RunConfig.from_json(data["config"])),
            data["data"],
            evaluations,
            baseline,
            data["facts"],
            data["seconds"],
            None if data["history"] is None else History(**data["history"]),
            per_seed=each,
        )


def versions() -> dict[str, str]:
    """Versions that a number may depend on."""
    import numba
    import numpy
    import scipy
    import torch

    return {
        "naq": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }
