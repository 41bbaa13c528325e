"""A training state in one safetensors file, written atomically: a killed run goes on from it to the same result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from naq.files import read_tensors, write_tensors


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
    """Put named tensors back; a ``ValueError`` where they are not of the shapes of the weights, which torch does not check."""
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


def with_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def strip_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    start = len(prefix) + 1
    return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(prefix + "/")}
