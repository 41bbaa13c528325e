"""What a training is at: the update, the history, the weights that were chosen, and the evaluation that is under way."""

from __future__ import annotations

import copy
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from naq.errors import DataError, TrainingError
from naq.files import set_aside
from naq.training import checkpoint as files
from naq.training.history import History, Selected, Trained, first_best
from naq.training.trainable import Trainable
from naq_scale.transfer import Transfer

CHECKPOINT_SECONDS = float(os.environ.get("NAQ_CHECKPOINT_SECONDS", "20"))
"""A checkpoint is written at the first evaluation after this long, and at the end and at Ctrl-C."""
Validate = Callable[[], "float | Callable[[], float]"]
"""Accuracy of the model as it is now; or, where that is still being computed, a function that waits for it: then the training goes on meanwhile."""
MAIN = ""
"""The name of the validation tasks whose choice the model ends with."""


@dataclass
class _Evaluation:
    """One that was begun: losses since the one before, accuracies or functions that wait for them, and the weights where the training goes on."""

    update: int
    losses: torch.Tensor | Transfer
    found: dict[str, float | Callable[[], float]] = field(default_factory=dict)
    weights: dict[str, torch.Tensor] | None = None


class TrainingState:
    """What a run needs to be resumed: the update, the history, weights, optimiser, and losses since the last evaluation."""

    def __init__(
        self,
        training: Trainable,
        sets: Mapping[str, Validate],
        patience: int | None,
        path: Path | None,
        key: str,
    ) -> None:
        self.training, self.sets, self.patience, self.path, self.key = training, sets, patience, path, key
        self.pending: _Evaluation | None = None
        self._at_the_beginning()
        self.started = self.saved = time.perf_counter()
        if path is not None and path.exists():
            self._restore(path)
        self.resumed_from = training.done(self.update)

    def _at_the_beginning(self) -> None:
        """Nothing is trained yet."""
        self.update, self.history = 0, History(also={name: [] for name in self.sets if name != MAIN})
        self.losses: list[torch.Tensor] = []
        self.best_weights: dict[str, dict[str, torch.Tensor]] = {}
        self.before = 0.0

    def _restore(self, path: Path) -> None:
        """Go on from the checkpoint; one that is damaged is set aside, and training starts from the beginning."""
        try:
            tensors, facts = files.load_state(path)
        except DataError as error:
            self._start_again(path, str(error))
            return
        if facts.get("key") != self.key:
            raise TrainingError(
                f"checkpoint {path} belongs to a run with other settings; choose another folder or delete it."
            )
        model, optimizer = self.training.model, self.training.optimizer
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        fresh = copy.deepcopy(optimizer.state_dict())
        try:
            model.load_state_dict(files.strip_prefix(tensors, "model"))
            files.restore_optimizer(optimizer, files.strip_prefix(tensors, "optimizer"))
            self.best_weights = {name: files.strip_prefix(tensors, f"best{name}") for name in self.sets}
            self.update, self.history, self.before = facts["update"], History(**facts["history"]), facts["seconds"]
            self.losses = [torch.tensor(float(loss)) for loss in facts["losses"]]
            self._check_restored()
        except (
            RuntimeError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
        ) as error:  # whole, but not of this code
            model.load_state_dict(weights)
            optimizer.load_state_dict(fresh)
            self._at_the_beginning()
            self._start_again(path, f"{path} does not fit the model ({error}).")

    def _check_restored(self) -> None:
        """A ``ValueError`` where the numbers cannot be of a training of this length."""
        history = self.history
        count = len(history.steps)
        lists = (history.loss, history.seconds, history.valid_accuracy, *history.also.values())
        if type(self.update) is not int or not 0 <= self.update <= self.training.updates:
            raise ValueError(f"it is at update {self.update!r}")
        if any(len(one) != count for one in lists) or set(history.also) != {name for name in self.sets if name != MAIN}:
            raise ValueError("its history has lists of other lengths")
        numbers = [self.before, *history.steps, *(value for one in lists for value in one)]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in numbers):
            raise ValueError("its history holds something else than numbers")
        shapes = {name: weight.shape for name, weight in self.training.model.state_dict().items()}
        found = [{name: weight.shape for name, weight in best.items()} for best in self.best_weights.values()]
        if any(one not in ({}, shapes) for one in found) or (count and {} in found):
            raise ValueError("its best weights are of another model")

    def _start_again(self, path: Path, reason: str) -> None:
        aside = set_aside(path)
        where = "it could not be moved" if aside is None else f"it is now {aside}"
        warnings.warn(f"{reason.rstrip('.')}; {where}, and training starts from the beginning.", stacklevel=2)

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def accuracies(self, name: str) -> list[float]:
        return self.history.valid_accuracy if name == MAIN else self.history.also[name]

    def out_of_patience(self) -> bool:
        return all(first_best(self.accuracies(name), self.patience)[1] for name in self.sets)

    def _checked(self, losses: torch.Tensor, update: int) -> float:
        """The mean of the losses before an update; an error names the first update whose loss is not finite."""
        values = losses.double()
        bad = torch.nonzero(~torch.isfinite(values))
        if len(bad):
            first = update - len(values) + int(bad[0])
            raise TrainingError(
                f"the loss of update {first} ({self.training.part(first)}) is not finite; "
                f"{self._advice()}; the last checkpoint is as it was before."
            )
        return float(values.mean())

    def _stacked(self) -> torch.Tensor:
        return torch.stack([loss.to(self.losses[-1].device) for loss in self.losses])

    def _advice(self) -> str:
        """What to try: the learning rates as they are now."""
        rates = [f"lr (now {self.training.optimizer.param_groups[0]['lr']:g})"]
        options = getattr(self.training.model, "options", {})
        if "inner_lr" in options:
            rates.append(f"inner_lr (now {options['inner_lr']:g})")
        return f"lower {' or '.join(rates)}, or check the scale of the features"

    def evaluate(self) -> None:
        """Begin an evaluation and record it, or, where it is still being computed, the one before."""
        losses = self._stacked()
        on_gpu = losses.device.type == "cuda"
        begun = _Evaluation(self.update, Transfer(losses) if on_gpu else losses)
        if not on_gpu:
            self._checked(losses, self.update)
        begun.found = {name: validate() for name, validate in self.sets.items()}
        if any(callable(found) for found in begun.found.values()):
            begun.weights = self._weights()
        self.losses = []
        self.settle()
        self.pending = begun
        if begun.weights is None:
            self.settle()

    def _weights(self) -> dict[str, torch.Tensor]:
        return {k: v.detach().clone() for k, v in self.training.model.state_dict().items()}

    def settle(self) -> None:
        """Record the evaluation that was begun; not one that was begun after patience had run out."""
        begun, self.pending = self.pending, None
        if begun is None or self.out_of_patience():
            return
        losses = begun.losses.result() if isinstance(begun.losses, Transfer) else begun.losses
        loss = self._checked(losses, begun.update)
        for name, answer in begun.found.items():
            accuracy = float(answer() if callable(answer) else answer)
            if math.isnan(accuracy):
                raise TrainingError("the validation accuracy is not a number; check the validation tasks.")
            found = self.accuracies(name)
            found.append(accuracy)
            if first_best(found, self.patience)[0] == len(found) - 1:
                self.best_weights[name] = self._weights() if begun.weights is None else begun.weights
        self.history.steps.append(self.training.done(begun.update))
        self.history.loss.append(loss)
        self.history.seconds.append(round(self.seconds, 3))

    def save(self, *, only_if_due: bool = False) -> None:
        if self.path is None or (only_if_due and time.perf_counter() - self.saved < CHECKPOINT_SECONDS):
            return
        self.settle()
        if self.losses:
            self._checked(self._stacked().cpu(), self.update)
        tensors = files.with_prefix(self.training.model.state_dict(), "model")
        for name, weights in self.best_weights.items():
            tensors |= files.with_prefix(weights, f"best{name}")
        tensors |= files.with_prefix(files.optimizer_tensors(self.training.optimizer), "optimizer")
        facts = {
            "key": self.key,
            "update": self.update,
            "history": asdict(self.history),
            "seconds": self.seconds,
            "losses": [float(loss) for loss in self.losses],
        }
        files.save_state(self.path, tensors, facts)
        self.saved = time.perf_counter()

    def facts(self) -> dict[str, Any]:
        accuracy = self.history.valid_accuracy
        return {
            "done": self.training.done(self.update),
            "total": self.training.done(self.training.updates),
            "unit": self.training.unit,
            "loss": self.history.loss[-1] if self.history.loss else None,
            "valid": accuracy[-1] if accuracy else None,
            "best": max(accuracy) if accuracy else None,
            "seconds": self.seconds,
        }

    def finish(self) -> Trained:
        self.training.model.load_state_dict(self.best_weights[MAIN])
        chosen = {}
        for name in self.sets:
            found = self.accuracies(name)
            best, _ = first_best(found, self.patience)
            chosen[name] = Selected(self.history.steps[best], found[best], self.best_weights[name])
        main = chosen.pop(MAIN)
        early = self.history.steps[-1] < self.training.done(self.training.updates)
        return Trained(self.history, main.step, main.valid, self.seconds, early, self.resumed_from, chosen)
