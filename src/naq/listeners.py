"""Listeners of runs: what a run says as it goes on, and trackers that keep it.

A listener is called as ``listener(phase, facts)``; ``docs/researchers.md`` has every phase with its facts. Those here
write configuration, curves and accuracies to a tracker of experiments::

    naq.run("debian", "naq-feat/protonet", listener=naq.listeners.TensorBoard("runs/one"))

One of them is good for one run, or for the runs of several seeds one after the other.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from naq.errors import MissingDependency
from naq.options import imported


class Tracker(ABC):
    """A listener that writes a run to a tracker: a subclass begins, writes numbers at a step, and ends."""

    begun = False

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "config":
            if self.begun:  # a run that was stopped
                self.end()
            self.step, self.begun = 0, True
            self.begin(facts["config"])
        elif phase == "train" and facts["evaluated"]:
            self.step = facts["done"]
            self.write({"train/loss": facts["loss"], "valid/accuracy": facts["valid"]}, self.step)
        elif phase == "result":
            heads = {f"test/accuracy/{head}": value for head, value in facts["heads"].items()}
            self.write({"test/accuracy": facts["accuracy"], "test/ci95": facts["ci95"], **heads}, self.step)
            self.end()
            self.begun = False

    @abstractmethod
    def begin(self, config: Mapping[str, Any]) -> None:
        """A run with this configuration begins."""

    @abstractmethod
    def write(self, numbers: Mapping[str, float], step: int) -> None:
        """Numbers by name after ``step`` episodes or epochs."""

    @abstractmethod
    def end(self) -> None:
        """All of the run is written."""


class TensorBoard(Tracker):
    """Event files in ``folder/NAME-seed0``, ...; without a ``name`` it is the time and a random number."""

    def __init__(self, folder: str, name: str = "") -> None:
        self.folder, self.name = folder, name or f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self.module = _library("torch.utils.tensorboard", "tensorboard")

    def begin(self, config: Mapping[str, Any]) -> None:
        self.writer = self.module.SummaryWriter(f"{self.folder}/{self.name}-seed{config['seed']}")
        rows = "".join(f"| {name} | {value} |\n" for name, value in config.items())
        self.writer.add_text("config", f"| setting | value |\n| --- | --- |\n{rows}")

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def end(self) -> None:
        self.writer.close()


class WandB(Tracker):
    """A run of Weights & Biases; ``options`` are those of ``wandb.init``, ``project`` for one."""

    def __init__(self, **options: Any) -> None:
        self.module, self.options = _library("wandb", "wandb"), options

    def begin(self, config: Mapping[str, Any]) -> None:
        self.run = self.module.init(**self.options, config=dict(config))

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        self.run.log(dict(numbers), step=step)

    def end(self) -> None:
        self.run.finish()


class MLflow(Tracker):
    """A run of MLflow; ``options`` are those of ``mlflow.start_run``, ``run_name`` for one."""

    def __init__(self, **options: Any) -> None:
        self.module, self.options = _library("mlflow", "mlflow"), options

    def begin(self, config: Mapping[str, Any]) -> None:
        self.module.start_run(**self.options)
        self.module.log_params({name: str(value)[:500] for name, value in config.items()})

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        self.module.log_metrics(dict(numbers), step=step)

    def end(self) -> None:
        self.module.end_run()


def _library(module: str, package: str) -> Any:
    try:
        return imported(module)
    except ImportError as error:
        raise MissingDependency(f"this listener needs {package}: pip install {package}.") from error
