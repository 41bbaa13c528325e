"""A run's folder: what is asked, how far it got, what came out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from naq.errors import DataError, OptionError
from naq.files import read_json, write_atomically, write_json
from naq.protocol.config import RunConfig
from naq.protocol.result import Result
from naq.threads import arithmetic


class RunFolder:
    """``config.json``, ``checkpoint.safetensors`` while training; then ``metrics.json``, ``weights.safetensors``,
    ``embedding.safetensors`` and ``curve.png``. ``metrics.json`` is written last: where it is, the run is complete.

    ``config.json`` holds the ``config``, the ``data`` and the ``arithmetic`` the run was begun with; a folder with another config or other
    data is refused.

    Attributes:
        begun_with: the arithmetic of the run that is resumed, empty where none is.
    """

    def __init__(self, path: str | Path, config: RunConfig, data: Mapping[str, Any]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise OptionError(f"out is {self.path}, which is a file; give a folder.")
        file = self.path / "config.json"
        self._new = not file.exists()
        now = {"config": config.to_json(), "data": dict(data)}
        self.begun_with: Mapping[str, Any] = {}
        if self._new:
            write_json(file, {**now, "arithmetic": arithmetic()})
        else:
            kept = read_json(file)
            if differing := _differing(kept, now):
                raise OptionError(
                    f"{self.path} holds a run with another {', '.join(differing)}; choose another folder with --out, or delete it."
                )
            if self.checkpoint.exists():
                self.begun_with = kept.get("arithmetic", {})
        if not os.access(self.path, os.W_OK):
            raise DataError(f"{self.path} cannot be written to; choose another folder with --out.")

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    def finished(self) -> Result | None:
        """The result, if the run is complete."""
        file = self.path / "metrics.json"
        return Result.from_json(read_json(file)) if file.exists() else None

    def forget(self) -> None:
        """Leave nothing behind of a run that never began: a corrected one may take the same folder."""
        if self._new and not self.checkpoint.exists():
            (self.path / "config.json").unlink(missing_ok=True)
            if not any(self.path.iterdir()):
                self.path.rmdir()

    def write(self, result: Result, model: nn.Module | None) -> None:
        """Everything a finished run leaves; the checkpoint goes."""
        if model is not None:
            _save(
                self.path / "weights.safetensors",
                {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()},
            )
        if result.embedding is not None:
            _save(self.path / "embedding.safetensors", {"embedding": torch.from_numpy(result.embedding)})
        if result.history is not None:
            from naq.protocol.curve import draw_curve

            write_atomically(self.path / "curve.png", lambda p: draw_curve(result, p))
        write_json(self.path / "metrics.json", result.to_json())
        self.checkpoint.unlink(missing_ok=True)


def _differing(kept: Mapping[str, Any], now: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of what is not the same in both, of the configuration and of the data."""
    found: set[str] = set()
    for part, values in now.items():
        others = kept.get(part)
        others = others if isinstance(others, Mapping) else {}
        found |= {name for name in {**others, **values} if others.get(name) != values.get(name)}
    return sorted(found)


def _save(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    write_atomically(path, lambda temporary: save_file(tensors, temporary))
