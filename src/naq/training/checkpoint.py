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

    def step(self, update: int) -> torch.Tensor: ...

    def done(self, updates: int) -> int:
        """Episodes or epochs behind so many updates."""

    def updates_between(self, count: int) -> int:
        """Updates that so many episodes or epochs take, at least one."""

    def part(self, update: int) -> str:
        """The episodes or the epoch of an update, in words."""


@dataclass
class History:
    """One entry per evaluation.

    Attributes:
        steps: episodes or epochs trained so far, whichever the model is trained in.
        loss: mean training loss since the evaluation before.
        valid_accuracy: on validation tasks.
        seconds: of training and evaluation so far, over all resumed parts.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    valid_accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass
class TrainingState:
    """What a training needs to be resumed, beside weights and optimiser.

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


def save(path: Path | None, key: str, steps: Steps, state: TrainingState) -> None:
    """Write the state, with the run it belongs to; nothing without a path, or with a loss that is not finite."""
    if path is None:
        return
    if state.losses:
        mean_loss(state.losses, state.update, steps)
    tensors = _with_prefix(steps.model.state_dict(), "model") | _with_prefix(state.best_weights, "best")
    tensors |= _with_prefix(optimizer_tensors(steps.optimizer), "optimizer")
    facts = {
        "key": key,
        "update": state.update,
        "history": asdict(state.history),
        "seconds": state.seconds,
        "losses": [float(loss) for loss in state.losses],
    }
    save_state(path, tensors, facts)


def restore(path: Path, key: str, steps: Steps) -> TrainingState:
    """The state in a file, its weights put into the model and the optimiser; a fresh one if there is no file.

    A damaged file is set aside with a warning, and training starts from the beginning.
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
        model.load_state_dict(_of_prefix(tensors, "model"))
        restore_optimizer(optimizer, _of_prefix(tensors, "optimizer"))
        losses = [torch.tensor(float(loss)) for loss in facts["losses"]]
        history = History(**facts["history"])
        state = TrainingState(facts["update"], history, losses, _of_prefix(tensors, "best"), facts["seconds"])
        _check(state, steps)
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        model.load_state_dict(weights)
        optimizer.load_state_dict(fresh)
        return _start_again(path, f"{path} does not fit the model ({error}).")
    return state


def mean_loss(losses: list[torch.Tensor], update: int, steps: Steps) -> float:
    """The mean of the losses before an update; an error names the first update whose loss is not finite."""
    values = torch.stack([loss.to(losses[-1].device) for loss in losses]).double().cpu()
    bad = torch.nonzero(~torch.isfinite(values))
    if len(bad):
        first = update - len(values) + int(bad[0])
        rates = [f"lr (now {steps.optimizer.param_groups[0]['lr']:g})"]
        inner = getattr(getattr(steps.model, "options", None), "inner_lr", None)
        if inner is not None:
            rates.append(f"inner_lr (now {inner:g})")
        raise TrainingError(
            f"the loss of update {first} ({steps.part(first)}) is not finite; lower {' or '.join(rates)}, "
            "or check the scale of the features; the last checkpoint is as it was before."
        )
    return float(values.mean())


def _check(state: TrainingState, steps: Steps) -> None:
    """A ``ValueError`` if the numbers cannot be of a training of this length."""
    lists = list(asdict(state.history).values())
    count = len(state.history.steps)
    if type(state.update) is not int or not 0 <= state.update <= steps.updates:
        raise ValueError(f"it is at update {state.update!r}")
    if any(len(one) != count for one in lists):
        raise ValueError("its history has lists of other lengths")
    numbers = [state.seconds, *(value for one in lists for value in one)]
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


def save_state(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors, and facts as JSON in the header."""
    write_tensors(path, {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}, facts)


def load_state(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What :func:`save_state` wrote, once its checksum fits; a ``DataError`` otherwise."""
    arrays, facts = read_tensors(path, "checkpoint")
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, facts


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimiser's state as named tensors; numbers become tensors."""
    flat: dict[str, torch.Tensor] = {}
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            flat[f"{index}/{name}"] = value if torch.is_tensor(value) else torch.tensor(float(value))
    return flat


def restore_optimizer(optimizer: torch.optim.Optimizer, flat: Mapping[str, torch.Tensor]) -> None:
    """Put named tensors back; a ``ValueError`` if they are not of the shapes of the weights, which torch does not check."""
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


def _with_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _of_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    start = len(prefix) + 1
    return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(prefix + "/")}
