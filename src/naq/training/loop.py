"""One loop for everything that is trained in steps."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from naq.embedders import TrainedEmbedder
from naq.episodes import Episodes
from naq.errors import OptionError, TrainingError
from naq.learners import Learner
from naq.memory import keep_pages
from naq.training import checkpoint as files
from naq.training.interrupt import CleanInterrupt

CHECKPOINT_SECONDS = float(os.environ.get("NAQ_CHECKPOINT_SECONDS", "20"))
"""A checkpoint is written at the first evaluation after this long, and at the end and at Ctrl-C."""


class Trainable(Protocol):
    """What the loop needs: weights, an optimiser, and steps that depend on nothing but them and their number."""

    optimizer: torch.optim.Optimizer
    updates: int
    unit: str
    """What is counted: ``episodes`` or ``epochs``."""

    @property
    def model(self) -> nn.Module: ...

    def step(self, update: int) -> torch.Tensor: ...

    def done(self, updates: int) -> int:
        """Episodes or epochs behind so many updates."""

    def updates_between(self, count: int) -> int:
        """Updates that so many episodes or epochs take, at least one."""

    def part(self, update: int) -> str:
        """The episodes or the epoch of an update, in words."""


class EpisodeTraining:
    """A learner and its episodes as steps: update u takes the u-th batch."""

    def __init__(self, learner: Learner, episodes: Episodes) -> None:
        self.model = learner
        self.optimizer = learner.optimizer()
        self.episodes = episodes
        self.unit = "episodes"
        self.episodes_per_update = learner.episodes_per_update
        self.updates = len(episodes) // self.episodes_per_update
        if self.updates == 0:
            raise OptionError(
                f"{len(episodes)} episodes are fewer than one update of {learner.name} takes ({self.episodes_per_update}); ask for more."
            )

    def step(self, update: int) -> torch.Tensor:
        batch = self.episodes[update * self.episodes_per_update : (update + 1) * self.episodes_per_update]
        return self.model.step(batch, update, self.optimizer)

    def done(self, updates: int) -> int:
        return updates * self.episodes_per_update

    def updates_between(self, count: int) -> int:
        return max(1, round(count / self.episodes_per_update))

    def part(self, update: int) -> str:
        return f"episodes {self.done(update)} to {self.done(update + 1) - 1}"


class EpochTraining:
    """An embedder that is trained, as steps: an epoch is one or more updates."""

    def __init__(self, embedder: TrainedEmbedder) -> None:
        if embedder.keeps_pages:
            keep_pages()
        self.model = embedder
        self.optimizer = embedder.optimizer()
        self.unit = "epochs"
        self.updates = embedder.updates

    def step(self, update: int) -> torch.Tensor:
        return self.model.step(update, self.optimizer)

    def done(self, updates: int) -> int:
        return updates // self.model.updates_per_epoch

    def updates_between(self, count: int) -> int:
        return count * self.model.updates_per_epoch

    def part(self, update: int) -> str:
        return f"epoch {self.done(update)}"


@dataclass(frozen=True)
class Schedule:
    """When to evaluate and when to stop.

    Args:
        evaluate_every: episodes (or epochs) between two evaluations (the paper: 160 of 16,000, so 100 evaluations).
        patience: stop after this many evaluations without a new best; None trains to the end, as the paper does.
    """

    evaluate_every: int = 160
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.evaluate_every < 1:
            raise OptionError(f"evaluate_every is {self.evaluate_every}; expected at least 1.")
        if self.patience is not None and self.patience < 1:
            raise OptionError(f"patience is {self.patience}; expected at least 1 evaluation, or none.")


@dataclass
class History:
    """One entry per evaluation; ``episodes`` counts epochs where there are no episodes."""

    episodes: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    valid_accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> int:
        """Index of the first best validation accuracy."""
        return max(range(len(self.valid_accuracy)), key=lambda i: (self.valid_accuracy[i], -i))


@dataclass(frozen=True)
class Trained:
    """What :func:`fit` hands back; the model holds the weights of the first best validation accuracy."""

    history: History
    best_episodes: int
    best_valid: float
    seconds: float
    stopped_early: bool
    resumed_from: int


Report = Callable[[dict[str, Any]], None]


def fit(
    training: Trainable,
    validate: Callable[[], float],
    schedule: Schedule,
    *,
    checkpoint: Path | None = None,
    key: str = "",
    report: Report | None = None,
) -> Trained:
    """Train, evaluate every so many episodes, and end with the weights of the first best validation accuracy.

    Args:
        validate: accuracy of the model as it is now, on validation tasks.
        checkpoint: where to keep the state; if it is there, training goes on from it.
        key: identifies the run; a checkpoint of another is refused.
        report: called after every update with episodes, total, loss, valid and seconds.

    Raises:
        KeyboardInterrupt: after Ctrl-C, once the state is saved.
        TrainingError: on a loss that is not finite; the last checkpoint stays.
    """
    state = _State(training, checkpoint, key)
    every = training.updates_between(schedule.evaluate_every)
    with CleanInterrupt() as interrupt:
        while state.update < training.updates and not state.out_of_patience(schedule.patience):
            state.losses.append(training.step(state.update))
            state.update += 1
            if state.update % every == 0 or state.update == training.updates:
                state.evaluate(validate)
                state.save(only_if_due=True)
            if report is not None:
                report(state.facts())
            if interrupt.asked:
                state.save()
                raise KeyboardInterrupt
        early = state.update < training.updates
        state.save()
    return state.finish(early)


class _State:
    """Everything that a resumed run needs, and nothing else."""

    def __init__(self, training: Trainable, path: Path | None, key: str) -> None:
        self.training, self.path, self.key = training, path, key
        self.update, self.history = 0, History()
        self.losses: list[torch.Tensor] = []
        self.best_weights: dict[str, torch.Tensor] = {}
        self.before = 0.0
        self.started = self.saved = time.perf_counter()
        if path is not None and path.exists():
            self._restore(path)
        self.resumed_from = training.done(self.update)

    def _restore(self, path: Path) -> None:
        tensors, facts = files.load_state(path)
        if facts.get("key") != self.key:
            raise TrainingError(
                f"checkpoint {path} belongs to a run with other settings; choose another folder or delete it."
            )
        self.training.model.load_state_dict(files.strip_prefix(tensors, "model"))
        files.restore_optimizer(self.training.optimizer, files.strip_prefix(tensors, "optimizer"))
        self.best_weights = files.strip_prefix(tensors, "best")
        self.update, self.history, self.before = (
            facts["update"],
            History(**facts["history"]),
            facts["seconds"],
        )
        self.losses = [torch.tensor(loss) for loss in facts["losses"]]

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def out_of_patience(self, patience: int | None) -> bool:
        done = len(self.history.valid_accuracy)
        return patience is not None and done > 0 and done - 1 - self.history.best >= patience

    def _mean_loss(self) -> float:
        """The mean since the last evaluation; an error names the first update whose loss is not finite."""
        values = torch.stack([loss.double().cpu() for loss in self.losses])
        bad = torch.nonzero(~torch.isfinite(values))
        if len(bad):
            first = self.update - len(values) + int(bad[0])
            raise TrainingError(
                f"the loss of update {first} ({self.training.part(first)}) is not finite; "
                f"{self._advice()}; the last checkpoint is as it was before."
            )
        return float(values.mean())

    def _advice(self) -> str:
        """What to try: the learning rates as they are now."""
        rates = [f"lr (now {self.training.optimizer.param_groups[0]['lr']:g})"]
        options = getattr(self.training.model, "options", {})
        if "inner_lr" in options:
            rates.append(f"inner_lr (now {options['inner_lr']:g})")
        return f"lower {' or '.join(rates)}, or check the scale of the features"

    def evaluate(self, validate: Callable[[], float]) -> None:
        loss = self._mean_loss()
        accuracy = float(validate())
        if math.isnan(accuracy):
            raise TrainingError("the validation accuracy is not a number; check the validation tasks.")
        self.history.episodes.append(self.training.done(self.update))
        self.history.loss.append(loss)
        self.history.valid_accuracy.append(accuracy)
        self.history.seconds.append(round(self.seconds, 3))
        self.losses = []
        if self.history.best == len(self.history.valid_accuracy) - 1:
            self.best_weights = {k: v.detach().clone() for k, v in self.training.model.state_dict().items()}

    def save(self, *, only_if_due: bool = False) -> None:
        if self.path is None or (only_if_due and time.perf_counter() - self.saved < CHECKPOINT_SECONDS):
            return
        if self.losses:
            self._mean_loss()
        tensors = files.with_prefix(self.training.model.state_dict(), "model")
        tensors |= files.with_prefix(self.best_weights, "best")
        tensors |= files.with_prefix(files.optimizer_tensors(self.training.optimizer), "optimizer")
        facts = {
            "key": self.key,
            "update": self.update,
            "history": asdict(self.history),
            "seconds": self.seconds,
        }
        facts["losses"] = [float(loss) for loss in self.losses]
        files.save_state(self.path, tensors, facts)
        self.saved = time.perf_counter()

    def facts(self) -> dict[str, Any]:
        accuracy = self.history.valid_accuracy
        return {
            "episodes": self.training.done(self.update),
            "total": self.training.done(self.training.updates),
            "unit": self.training.unit,
            "loss": self.history.loss[-1] if self.history.loss else None,
            "valid": accuracy[-1] if accuracy else None,
            "best": max(accuracy) if accuracy else None,
            "seconds": self.seconds,
        }

    def finish(self, early: bool) -> Trained:
        self.training.model.load_state_dict(self.best_weights)
        best = self.history.best
        return Trained(
            self.history,
            self.history.episodes[best],
            self.history.valid_accuracy[best],
            self.seconds,
            early,
            self.resumed_from,
        )
