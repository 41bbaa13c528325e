"""One cell, from its configuration to its record, and what goes wrong on the way."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from naq.errors import NaqError
from naq.files import NO_SPACE
from naq.progress import Listener
from naq.run.versions import machine
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.records import Record
from naq_paper.measurements import Context, perform

THROTTLE = 0.2
"""Seconds between two messages of progress in the same phase."""


def record_of(cell: Cell, identity: Identity, context: Context) -> Record:
    """Perform the measurement; whatever goes wrong becomes the error of the record."""
    started = time.perf_counter()
    result, error = None, None
    try:
        result = _as_json(perform(cell, context))
    except KeyboardInterrupt:
        raise
    except BaseException as caught:  # also SystemExit and the panics of compiled libraries
        error = sentence_of(caught)
    seconds = time.perf_counter() - started
    release_gpu_memory()
    return _record(cell, identity, result, error, seconds)


def release_gpu_memory() -> None:
    """Return GPU memory that torch keeps of a finished cell: workers side by side share one GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()  # tensors in reference cycles are in use until then
        torch.cuda.empty_cache()


def lost_record(cell: Cell, identity: Identity, how: str, seconds: float) -> Record:
    """The record of a cell whose worker process ended."""
    error = (
        f"the worker process died ({how}) while it computed this cell; if memory ran out, use fewer workers, "
        "then retry the failed cells."
    )
    return _record(cell, identity, None, error, seconds)


def _record(cell: Cell, identity: Identity, result: dict[str, Any] | None, error: str | None, seconds: float) -> Record:
    made_on = machine(str(cell.config.get("device", "cpu")))
    return Record(cell, identity, result, error, seconds, made_on, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def out_of_memory(record: Record) -> bool:
    """Whether it failed for lack of memory: its checkpoints stay, it may resume elsewhere or later."""
    return any(words in (record.error or "") for words in ("MemoryError", "out of memory", "allocate memory"))


def disk_full(record: Record) -> bool:
    """Whether it failed because it could not write: nothing is known of the cell then, and the next run computes it."""
    return NO_SPACE in (record.error or "")


def sentence_of(error: BaseException, longest: int = 500) -> str:
    """The message of a ``NaqError``; of any other error its type, message and place in the code."""
    text = " ".join(str(error).split())
    if isinstance(error, NaqError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({_module(frames[-1].filename)}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {text[:longest] or 'no message'}{place}"


class Throttled:
    """Passes the progress of a measurement on as ``progress`` of its cell, not too often; warnings always."""

    def __init__(self, listener: Listener, title: str) -> None:
        self.listener, self.title = listener, title
        self._phase, self._at = "", 0.0

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if phase == "warning" or phase != self._phase or now - self._at >= THROTTLE:
            self._phase, self._at = phase, now
            self.listener("progress", {"cell": self.title, "phase": phase, "facts": dict(facts)})


def _as_json(result: Any) -> dict[str, Any]:
    """The result as it is read from a file; raises ``ValueError`` for NaN."""
    if not isinstance(result, dict):
        raise TypeError(f"the measurement returned {type(result).__name__} instead of a dict")
    return json.loads(json.dumps(result, allow_nan=False))


def _module(filename: str) -> str:
    """The end of a path: which file it is, not where it is installed."""
    parts = Path(filename).parts
    for mark in ("site-packages", "src"):
        if mark in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(mark) :])
    return os.path.basename(filename)  # noqa: PTH119
