"""A training state in one safetensors file, written atomically: a killed run goes on from it to the same result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from naq.errors import TrainingError
from naq.files import write_atomically


def save_state(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors, and facts as JSON in the header."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"facts": json.dumps(dict(facts), allow_nan=False)}
    write_atomically(path, lambda temporary: save_file(flat, temporary, metadata=header))


def load_state(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What :func:`save_state` wrote."""
    try:
        with safe_open(path, framework="pt") as archive:
            facts = json.loads((archive.metadata() or {}).get("facts", "{}"))
            return {name: archive.get_tensor(name) for name in archive.keys()}, facts  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise TrainingError(f"checkpoint {path} is damaged ({error}); delete it to start again.") from error


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimiser's state as named tensors; numbers become tensors."""
    flat: dict[str, torch.Tensor] = {}
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            flat[f"{index}/{name}"] = value if torch.is_tensor(value) else torch.tensor(float(value))
    return flat


def restore_optimizer(optimizer: torch.optim.Optimizer, flat: Mapping[str, torch.Tensor]) -> None:
    """Put named tensors back."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in flat.items():
        index, name = key.split("/", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def with_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def strip_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    start = len(prefix) + 1
    return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(prefix + "/")}
