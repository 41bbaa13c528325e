"""The one training loop: steps, evaluation, early stop, checkpoint, resume."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from naq.device import keep_pages
from naq.episodes import Episodes
from naq.errors import OptionError, TrainingError
from naq.learners import Learner
from naq.options import imported
from naq.training.checkpoint import History, Steps, TrainingState, finite_losses, resume_training, save_training

CHECKPOINT_SECONDS = float(os.environ.get("NAQ_CHECKPOINT_SECONDS", "20"))
"""A checkpoint is written at the first evaluation after this long, and at the end and at Ctrl-C."""


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


@dataclass(frozen=True)
class Trained:
    """What :func:`fit` returns; the model holds the weights of the first best validation accuracy.

    Attributes:
        best_step: episodes or epochs that those weights were trained in.
    """

    history: History
    best_step: int
    best_valid: float
    seconds: float
    stopped_early: bool


def first_best(accuracies: Sequence[float], patience: int | None = None) -> tuple[int, bool]:
    """Index of the first best accuracy that was found before patience ran out, and whether it ran out.

    >>> first_best([0.5, 0.7, 0.6, 0.7]), first_best([0.5, 0.4, 0.4, 0.9], patience=2)
    ((1, False), (0, True))
    """
    best = 0
    for place, accuracy in enumerate(accuracies):
        if accuracy > accuracies[best]:
            best = place
        elif patience is not None and place - best >= patience:
            return best, True
    return best, False


def fit(
    steps: Steps, validate: Callable[[], float], schedule: Schedule, *, checkpoint: Path | None = None, key: str = "",
    record_losses: bool = False, report: Callable[[dict[str, Any]], None] | None = None,
) -> Trained:  # fmt: skip
    """Train and evaluate in turn; end with the weights of the first best validation accuracy.

    Args:
        steps: a model, its optimiser, and updates that depend on nothing but them and their number.
        validate: accuracy of the model as it is now, on validation tasks.
        checkpoint: file of the training state; if it exists, training resumes from it.
        key: identifies the run; a checkpoint with another key is an error.
        record_losses: keep the loss of every update in the history; they come to the host at evaluations, as without.
        report: called after every update with done, total, unit, loss, valid, best, seconds and evaluated.

    Raises:
        KeyboardInterrupt: after Ctrl-C, once the state is saved.
        TrainingError: on a loss that is not finite; the last checkpoint stays.
    """
    began = saved = time.perf_counter()
    state = TrainingState() if checkpoint is None else resume_training(checkpoint, key, steps)
    before, history, every = state.seconds, state.history, steps.updates_between(schedule.evaluate_every)
    with clean_interrupt() as asked:
        while state.update < steps.updates and not first_best(history.valid_accuracy, schedule.patience)[1]:
            state.losses.append(steps.step(state.update))
            state.update += 1
            state.seconds = before + time.perf_counter() - began
            if state.update % every == 0 or state.update == steps.updates:
                losses = finite_losses(state.losses, state.update, steps)
                accuracy = float(validate())
                if math.isnan(accuracy):
                    raise TrainingError("the validation accuracy is not a number; check the validation tasks.")
                state.seconds = before + time.perf_counter() - began
                history.steps.append(steps.done(state.update))
                history.loss.append(float(losses.mean()))
                history.losses += losses.tolist() if record_losses else []
                history.valid_accuracy.append(accuracy)
                history.seconds.append(round(state.seconds, 3))
                state.losses = []
                if first_best(history.valid_accuracy, schedule.patience)[0] == len(history.steps) - 1:
                    state.best_weights = {k: v.detach().clone() for k, v in steps.model.state_dict().items()}
            if report is not None:
                valid = history.valid_accuracy
                report({
                    "done": steps.done(state.update), "total": steps.done(steps.updates), "unit": steps.unit,
                    "loss": history.loss[-1] if valid else None, "valid": valid[-1] if valid else None,
                    "best": max(valid) if valid else None, "seconds": state.seconds,
                    "evaluated": not state.losses,
                })  # fmt: skip
            due = not state.losses and time.perf_counter() - saved >= CHECKPOINT_SECONDS
            if checkpoint is not None and (due or asked):
                save_training(checkpoint, key, steps, state)
                saved = time.perf_counter()
            if asked:
                raise KeyboardInterrupt
    if checkpoint is not None:
        save_training(checkpoint, key, steps, state)
    steps.model.load_state_dict(state.best_weights)
    best, _ = first_best(history.valid_accuracy, schedule.patience)
    return Trained(
        history, best_step=history.steps[best], best_valid=history.valid_accuracy[best],
        seconds=before + time.perf_counter() - began, stopped_early=history.steps[-1] < steps.done(steps.updates),
    )  # fmt: skip


class EpisodeTraining:
    """A learner and its episodes as steps: update u takes the u-th batch."""

    def __init__(self, learner: Learner, episodes: Episodes) -> None:
        if learner.device.type == "cpu":
            keep_pages()
        self.model = learner
        self.optimizer = learner.optimizer()
        self.episodes = episodes
        self.unit = "episodes"
        self.episodes_per_update = learner.episodes_per_update
        self.updates = len(episodes) // self.episodes_per_update
        if self.updates == 0:
            raise OptionError(
                f"{len(episodes)} episodes are fewer than one update of {learner.name} takes "
                f"({self.episodes_per_update}); ask for more."
            )

    def step(self, update: int) -> torch.Tensor:
        batch = self.episodes[update * self.episodes_per_update : (update + 1) * self.episodes_per_update]
        return self.model.step(batch, update, self.optimizer)

    def done(self, updates: int) -> int:
        return updates * self.episodes_per_update

    def updates_between(self, count: int) -> int:
        return max(1, round(count / self.episodes_per_update))


def episode_training(learner: Learner, episodes: Episodes) -> EpisodeTraining:
    """The learner's episodes as steps; on a GPU as recorded kernels, unless ``NAQ_CUDA_GRAPHS=0``."""
    if learner.device.type == "cuda" and os.environ.get("NAQ_CUDA_GRAPHS", "1") != "0":
        recorded: EpisodeTraining | None = imported("naq_scale.cuda_graphs:recorded_training")(learner, episodes)
        if recorded is not None:
            return recorded
    return EpisodeTraining(learner, episodes)


class EpochTraining:
    """A model that is trained in epochs, as steps: an epoch is one or more updates.

    Args:
        model: with ``optimizer()``, ``step(update, optimizer)``, ``updates``, ``updates_per_epoch``, ``keeps_pages``.
    """

    def __init__(self, model: Any) -> None:
        if model.keeps_pages:
            keep_pages()
        self.model = model
        self.optimizer = model.optimizer()
        self.unit = "epochs"
        self.updates = model.updates

    def step(self, update: int) -> torch.Tensor:
        loss: torch.Tensor = self.model.step(update, self.optimizer)
        return loss

    def done(self, updates: int) -> int:
        return int(updates // self.model.updates_per_epoch)

    def updates_between(self, count: int) -> int:
        return int(count * self.model.updates_per_epoch)


@contextmanager
def clean_interrupt() -> Iterator[list[int]]:
    """While active, the first Ctrl-C or SIGTERM is only listed in the value; a second Ctrl-C interrupts at once."""
    asked: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
