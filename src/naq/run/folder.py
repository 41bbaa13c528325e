"""A run's folder: what is asked, how far it got, what came out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from torch import nn

from naq.errors import DataError, Listener, OptionError, plain
from naq.files import (
    checksum_of,
    checksum_of_arrays,
    read_sealed,
    set_aside,
    write_atomically,
    write_sealed,
    write_tensors,
)
from naq.run.config import RunConfig
from naq.run.result import Result
from naq.threads import arithmetic

FORMAT = 2
"""2 has checksums; what earlier versions wrote has none and is read too."""
FACTS = "{}"
WEIGHTS, EMBEDDING = "weights.safetensors", "embedding.safetensors"
TENSORS = {WEIGHTS, EMBEDDING}
"""Files that ``metrics.json`` may name; a damaged one is moved, and nothing outside the folder ever is."""


class RunFolder(contextlib.AbstractContextManager["RunFolder"]):
    """``config.json``, ``checkpoint.safetensors`` while training; then ``metrics.json``, ``weights.safetensors``,
    ``embedding.safetensors`` and ``curve.png``. It is complete once ``metrics.json`` and its tensors are whole.

    ``config.json`` holds the ``config``, the ``data`` and the ``arithmetic`` the run was begun with. A folder of
    another config or other data is refused, as is one in use. A damaged file is moved to ``damaged/`` and made again.

    As a context manager: after an error that left nothing to resume from, the folder is as it was before.

    Attributes:
        arithmetic: that the run which is resumed was begun with; empty if none is.
    """

    def __init__(self, path: str | Path, config: RunConfig, data: Mapping[str, Any], listener: Listener) -> None:
        self.path, self.listener = Path(path), listener
        self._config = config
        self._now = {"config": config.to_json(), "data": dict(data)}
        self.arithmetic: Mapping[str, Any] = {}
        self._made = self._make()
        self._lock = self._locked()
        try:
            self._new = self._begin()
        except BaseException:
            self._leave()
            raise

    def _make(self) -> bool:
        """Whether the folder was not there before."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise OptionError(f"out is {self.path}, which is a file; give a folder.")
            new = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            if isinstance(error, OptionError):
                raise
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"cannot write {self.path}: {reason}; choose another folder with --out.") from error
        if not os.access(self.path, os.W_OK):
            raise DataError(f"{self.path} cannot be written to; choose another folder with --out.")
        return new

    def _locked(self) -> FileLock:
        """The lock of the folder, released by the operating system however this process ends."""
        file = self.path / ".lock"
        while True:
            lock = FileLock(file, thread_local=False)
            try:
                lock.acquire(timeout=0)
                if os.fstat(lock._context.lock_file_fd or -1).st_ino == file.stat().st_ino:
                    return lock
            except FileNotFoundError:  # its last user has just removed the file
                self.path.mkdir(parents=True, exist_ok=True)
            except Timeout as error:
                raise OptionError(f"another run is using {self.path} now; choose another folder with --out.") from error
            except OSError as error:
                raise DataError(f"cannot lock {file}: {error.strerror or error}; choose another folder.") from error
            lock.release()

    def _begin(self) -> bool:
        """Whether this run is the first here."""
        file = self.path / "config.json"
        if file.exists():
            try:
                kept = read_sealed(file, FORMAT)
            except DataError as error:
                self._put_aside(file, str(error))
            else:
                if differing := _differing(kept, self._now):
                    raise OptionError(
                        f"{self.path} holds a run with another {', '.join(differing)}; choose another --out."
                    )
                if self.checkpoint.exists() and isinstance(found := kept.get("arithmetic"), Mapping):
                    self.arithmetic = found
                return False
        write_sealed(file, {"format": FORMAT, **self._now, "arithmetic": arithmetic()})
        return True

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    def finished(self) -> Result | None:
        """The result, if the run is complete."""
        file = self.path / "metrics.json"
        if not file.exists():
            return None
        try:
            data = read_sealed(file, FORMAT)
            if differing := _differing(data, self._now):
                raise DataError(f"{file} is of a run with another {', '.join(differing)}.")
            result = Result.from_json(data, self._config)
            str(result), result.to_json()  # what is there can be shown
            files = dict(data.get("files", {}))
            if other := sorted(set(files) - TENSORS):
                raise DataError(f"{file} names {other[0]!r}, which is no file of a run.")
        except (DataError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            self._put_aside(
                file, str(error) if isinstance(error, DataError) else f"{file} holds no result ({error!r})."
            )
            return None
        if not all((self.path / name).exists() for name in files):
            return None  # it was stopped between the numbers and the tensors
        for name, checksum in files.items():
            try:
                if checksum_of(self.path / name, "file of tensors") != checksum:
                    raise DataError(f"{self.path / name} is damaged: it does not fit the checksum in metrics.json.")
            except DataError as error:
                self._put_aside(self.path / name, str(error))
                return None
        with contextlib.suppress(OSError):  # it was killed after the last tensor
            self.checkpoint.unlink(missing_ok=True)
        return result

    def _put_aside(self, file: Path, reason: str) -> None:
        aside = set_aside(file)
        where = "it could not be moved" if aside is None else f"it is now {aside}"
        self.listener("warning", {"text": f"{reason.rstrip('.')}; {where}, and is made again."})

    def write(self, result: Result, model: nn.Module | None) -> None:
        """Write the result: the numbers first, then the tensors, the picture last; the checkpoint is removed."""
        tensors: dict[str, dict[str, np.ndarray]] = {}
        if model is not None:
            weights = {name: value.detach().cpu().contiguous().numpy() for name, value in model.state_dict().items()}
            tensors[WEIGHTS] = weights
        if result.embedding is not None:
            tensors[EMBEDDING] = {"embedding": result.embedding}
        files = {name: checksum_of_arrays(FACTS, arrays) for name, arrays in tensors.items()}
        write_sealed(self.path / "metrics.json", {"format": FORMAT, **result.to_json(), "files": files})
        for name, arrays in tensors.items():
            write_tensors(self.path / name, arrays, {})
        self.checkpoint.unlink(missing_ok=True)
        if result.history is not None:
            self._draw(result)

    def _draw(self, result: Result) -> None:
        try:
            write_atomically(self.path / "curve.png", lambda path: draw_curve(result, path))
        except Exception as error:  # a picture is never worth a result
            self.listener("warning", {"text": f"the picture curve.png could not be drawn ({error})."})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        left = self.checkpoint.exists() or (self.path / "metrics.json").exists()
        if error is not None and self._new and not left:
            with contextlib.suppress(OSError):
                (self.path / "config.json").unlink(missing_ok=True)
        self._leave()

    def _leave(self) -> None:
        with contextlib.suppress(OSError):
            (self.path / ".lock").unlink(missing_ok=True)
            if self._made:
                self.path.rmdir()  # only where nothing is in it
        self._lock.release()


def arithmetic_of(checkpoint: Path) -> Mapping[str, Any]:
    """The arithmetic that a training was begun with, from a file next to its checkpoint; empty if it begins now."""
    file = checkpoint.with_suffix(".arithmetic.json")
    if not checkpoint.exists():
        write_sealed(file, {"format": FORMAT, "arithmetic": arithmetic()})
        return {}
    try:
        found = read_sealed(file, FORMAT).get("arithmetic")
    except DataError:  # a checkpoint of an earlier version
        return {}
    return found if isinstance(found, Mapping) else {}


def _differing(kept: Mapping[str, Any], now: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of what is not the same in both, of the configuration and of the data."""
    found: set[str] = set()
    for part, values in now.items():
        others = kept.get(part)
        others = others if isinstance(others, Mapping) else {}
        found |= {name for name in {**others, **values} if others.get(name) != values.get(name)}
    return sorted(found)


def arithmetic_warning(begun: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """A sentence if a run goes on under other arithmetic than it was begun with, else nothing."""
    other = [f"{name} {begun.get(name)} -> {now[name]}" for name in now if begun and begun.get(name) != now[name]]
    return f"resumed under other arithmetic ({', '.join(other)}): the last digits may differ." if other else ""


def draw_curve(result: Result, path: Path) -> None:
    """A picture of the training: validation accuracy, loss, the selected checkpoint and its test accuracy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    history, config, unit = result.history, result.config, result.facts["unit"]
    assert history is not None
    figure = Figure(figsize=(7.6, 4.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    losses = axes.twinx()
    accuracy = [100 * value for value in history.valid_accuracy]
    tasks = "label-free" if config.select == "clusters" else "validation"
    curves = (
        (axes, accuracy, "-", "#2563a8", f"accuracy on {tasks} tasks, %"),
        (losses, history.loss, "--", "#d97706", "training loss"),
    )
    for side, values, line, color, title in curves:
        side.plot(history.steps, values, linestyle=line, color=color, linewidth=1.5)
        side.set_ylabel(title, color=color)
        side.tick_params(axis="y", labelcolor=color)
        side.spines["top"].set_visible(False)
    best = history.steps.index(result.facts["best_step"])
    chosen = f"selected: {history.steps[best]:,} {unit}"
    axes.plot(history.steps[best], accuracy[best], "o", color="#2563a8", markersize=9, label=chosen)
    axes.legend(loc="lower right", frameon=False)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    axes.set_xlabel(f"training {unit}")
    losses.set_ylim(bottom=0)
    figure.suptitle(
        f"{config.method} on {plain(config.dataset, 60)}, {config.way}-way {config.shot}-shot: "
        f"{100 * result.accuracy:.2f} ± {100 * result.ci95:.2f} % on test tasks ({config.head})",
        fontsize=10.5,
        parse_math=False,  # a name may hold dollars
    )
    figure.savefig(path, format="png")
