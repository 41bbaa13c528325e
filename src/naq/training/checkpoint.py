"""A training state in one safetensors file, written atomically: a killed run goes on from it to the same result."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from naq.errors import DataError, TrainingError, warn
from naq.files import read_tensors, set_aside, write_tensors


class Steps(Protocol):
    """What the loop needs: weights, an optimiser, and steps that depend on nothing but them and their number."""

    optimizer: torch.optim.Optimizer
    updates: int
    unit: str
    """What is counted: ``episodes`` or ``epochs``."""

    @property
    def model(self) -> nn.Module: ...

    def step(self, update: int) -> torch.Tensor:
        """One update; its loss, detached."""

    def done(self, updates: int) -> int:
        """Episodes or epochs that a number of updates took."""

    def updates_between(self, count: int) -> int:
        """Updates that a number of episodes or epochs take, at least one."""


@dataclass
class History:
    """One entry per evaluation.

    Attributes:
        steps: episodes or epochs trained so far, whichever the model is trained in.
        loss: mean training loss since the evaluation before.
        valid_accuracy: on validation tasks.
        seconds: of training and evaluation so far, over all resumed parts.
        losses: of every update, where :func:`~naq.training.fit` records them.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    valid_accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, list[Any]]:
        return {name: values for name, values in asdict(self).items() if values or name != "losses"}


@dataclass
class TrainingState:
    """What a training needs to be resumed, in addition to weights and optimiser.

    Attributes:
        update: updates done.
        losses: of the updates since the last evaluation.
        best_weights: of the first best validation accuracy so far.
        seconds: of training so far, over all resumed parts.
    """

    update: int = 0
    history: History = field(default_factory=History)
    losses: list[torch.Tensor] = field(default_factory=list)
    best_weights: dict[str, torch.Tensor] = field(default_factory=dict)
    seconds: float = 0.0


def save_training(path: Path, key: str, steps: Steps, state: TrainingState) -> None:
    """Write the state and the key of its run; a ``TrainingError`` for a loss that is not finite."""
    if state.losses:
        finite_losses(state.losses, state.update, steps)
    optimizer = {
        f"{index}/{name}": value if torch.is_tensor(value) else torch.tensor(float(value))
        for index, values in steps.optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }
    parts = {"model": steps.model.state_dict(), "best": state.best_weights, "optimizer": optimizer}
    tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
    facts = {"key": key, "update": state.update, "history": state.history.to_json(), "seconds": state.seconds}
    save_state(path, tensors, {**facts, "losses": [float(loss) for loss in state.losses]})


def resume_training(path: Path, key: str, steps: Steps) -> TrainingState:
    """The state in a file, its weights put into the model and the optimiser; a fresh one if there is no file.

    A damaged file is set aside with a warning, and training starts from the beginning; a ``TrainingError`` for a file
    with another key.
    """
    if not path.exists():
        return TrainingState()
    try:
        tensors, facts = load_state(path)
    except DataError as error:
        return _start_again(path, str(error))
    if facts.get("key") != key:
        raise TrainingError(
            f"checkpoint {path} belongs to a run with other settings; choose another folder or delete it."
        )
    model, optimizer = steps.model, steps.optimizer
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    fresh = copy.deepcopy(optimizer.state_dict())
    try:
        parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
        for title, value in tensors.items():
            part, _, name = title.partition("/")
            parts[part][name] = value
        model.load_state_dict(parts["model"])
        _restore_optimizer(optimizer, parts["optimizer"])
        losses = [torch.tensor(float(loss)) for loss in facts["losses"]]
        history = History(**facts["history"])
        state = TrainingState(facts["update"], history, losses, parts["best"], facts["seconds"])
        _check(state, steps)
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        model.load_state_dict(weights)
        optimizer.load_state_dict(fresh)
        return _start_again(path, f"{path} does not fit the model ({error}).")
    return state


def finite_losses(losses: list[torch.Tensor], update: int, steps: Steps) -> torch.Tensor:
    """The losses before an update, sent to the host at once; an error names the first that is not finite."""
    values = torch.stack([loss.to(losses[-1].device) for loss in losses]).double().cpu()
    bad = torch.nonzero(~torch.isfinite(values))
    if len(bad):
        first = update - len(values) + int(bad[0])
        rates = [f"lr (now {steps.optimizer.param_groups[0]['lr']:g})"]
        inner = getattr(getattr(steps.model, "options", None), "inner_lr", None)
        if inner is not None:
            rates.append(f"inner_lr (now {inner:g})")
        raise TrainingError(
            f"the loss of update {first}, after {steps.done(first)} {steps.unit}, is not finite; lower "
            f"{' or '.join(rates)}, or check the scale of the features; the last checkpoint is as it was before."
        )
    return values


def _check(state: TrainingState, steps: Steps) -> None:
    """A ``ValueError`` if the numbers cannot be of a training of this length."""
    losses = state.history.losses
    lists = [values for name, values in asdict(state.history).items() if name != "losses"]
    count = len(state.history.steps)
    if type(state.update) is not int or not 0 <= state.update <= steps.updates:
        raise ValueError(f"it is at update {state.update!r}")
    if any(len(one) != count for one in lists) or len(losses) > state.update:
        raise ValueError("its history has lists of other lengths")
    numbers = [state.seconds, *losses, *(value for one in lists for value in one)]
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in numbers):
        raise ValueError("its history holds something else than numbers")
    shapes = {name: weight.shape for name, weight in steps.model.state_dict().items()}
    best = {name: weight.shape for name, weight in state.best_weights.items()}
    if best not in ({}, shapes) or (count and not best):
        raise ValueError("its best weights are of another model")


def _start_again(path: Path, reason: str) -> TrainingState:
    aside = set_aside(path)
    where = "it could not be moved" if aside is None else f"it is now {aside}"
    warn(f"{reason.rstrip('.')}; {where}, and training starts from the beginning.", stacklevel=2)
    return TrainingState()


def _restore_optimizer(optimizer: torch.optim.Optimizer, flat: Mapping[str, torch.Tensor]) -> None:
    """Put tensors by ``weight/name`` back; a ``ValueError`` if they do not have the shapes of the weights, which torch
    does not check."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for key, value in flat.items():
        index, _, name = key.partition("/")
        if not index.isascii() or not index.isdigit() or int(index) >= len(weights) or not name:
            raise ValueError(f"the optimiser has no state {key!r}")
        if value.shape != (() if name == "step" else weights[int(index)].shape) or not value.is_floating_point():
            raise ValueError(f"the optimiser's state {key!r} has shape {tuple(value.shape)} and type {value.dtype}")
        state.setdefault(int(index), {})[name] = value
    if len({frozenset(names) for names in state.values()}) > 1:
        raise ValueError("the optimiser's states have different names")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def save_state(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors, and facts as JSON in the header."""
    write_tensors(path, {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}, facts)


def load_state(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What :func:`save_state` wrote, once its checksum fits; a ``DataError`` otherwise."""
    arrays, facts = read_tensors(path, "checkpoint")
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, facts
