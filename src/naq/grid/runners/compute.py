"""One cell, from its claim to its record: what every runner does."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from naq.errors import DataError, NaqError
from naq.grid.cells import Cell, Identity
from naq.grid.datasets import DatasetCache
from naq.grid.fingerprint import identify
from naq.grid.measurements import Context, perform
from naq.grid.records import Record
from naq.grid.store import Store
from naq.progress import Listener
from naq.protocol.machine import machine

THROTTLE = 0.2
"""Seconds between two messages of progress in the same phase."""
CHANGED = "the code or the data changed while the cells were running; start again."
LONGEST = 500
"""Characters of an error's message that are kept."""


@dataclass(frozen=True)
class Computed:
    """What became of a cell: ``done`` or ``failed`` now, ``skipped`` because it was, ``busy`` with another process."""

    state: str
    seconds: float = 0.0
    error: str | None = None

    @classmethod
    def of(cls, record: Record) -> Computed:
        return cls("done" if record.done else "failed", record.seconds, record.error)


def compute_cell(
    cell: Cell,
    store: Store,
    dataset_cache: DatasetCache,
    cache: str | Path | None = "",
    listener: Listener | None = None,
    *,
    retry: bool = False,
    expected: Identity | None = None,
) -> Computed:
    """Compute a cell and file its record, unless that was done or another process is at it.

    Args:
        retry: an earlier failure does not count.
        expected: what whoever handed out the cell found it to belong to.

    Only what every further cell would meet leaves this function as an exception: a store that cannot be written to, other code or
    data than expected; and Ctrl-C.
    """
    listener = listener or (lambda phase, facts: None)
    try:
        identity = identify(cell, dataset_cache)
    except Exception as error:
        return Computed("failed", error=sentence_of(error))
    if expected is not None and identity != expected:
        raise DataError(CHANGED)
    key = identity.key(cell)
    if (known := known_outcome(store, key, retry=retry)) is not None:
        return known
    claim = store.claims.take(key)
    if claim is None:
        return Computed("busy")
    with claim:
        # another process may have finished it between the look and the claim
        if (known := known_outcome(store, key, retry=retry)) is not None:
            return known
        listener("begun", {"cell": cell.title, "key": key})
        record = record_of(cell, identity, dataset_cache, store.scratch(key), cache, Throttled(listener, cell.title))
        store.put(record)
        if not out_of_memory(record):
            store.discard(key)
    return Computed.of(record)


def known_outcome(store: Store, key: str, *, retry: bool) -> Computed | None:
    """What the store knows of a cell."""
    if store.get(key) is not None:
        return Computed("skipped")
    failed = None if retry else store.failure(key)
    return None if failed is None else Computed.of(failed)


def record_of(
    cell: Cell,
    identity: Identity,
    dataset_cache: DatasetCache,
    scratch: Path,
    cache: str | Path | None,
    listener: Listener,
) -> Record:
    """Perform the work; whatever goes wrong becomes the error of the record."""
    started = time.perf_counter()
    result, error = None, None
    try:
        result = _as_json(perform(cell, Context(dataset_cache, scratch, cache, listener)))
    except KeyboardInterrupt:
        raise
    except BaseException as caught:  # also SystemExit and the panics of compiled libraries
        error = sentence_of(caught)
    seconds = time.perf_counter() - started
    return Record(cell, identity, result, error, seconds, _machine_of(cell), utc_now())


def lost_record(cell: Cell, identity: Identity, sentence: str, seconds: float) -> Record:
    """The record of a cell whose process died."""
    return Record(cell, identity, None, sentence, seconds, _machine_of(cell), utc_now())


def death(how: str, last_words: str = "") -> str:
    """The sentence for a worker that died while it computed a cell."""
    reason = f"; it last wrote: {last_words}" if last_words else ""
    return (
        f"the worker process died ({how}) while it computed this cell{reason}; if memory ran out, use fewer workers, "
        "then retry the failed cells."
    )


def out_of_memory(record: Record) -> bool:
    """Whether it failed for want of memory: its checkpoints stay, for elsewhere or another time it may go on."""
    return any(words in (record.error or "") for words in ("MemoryError", "out of memory", "allocate memory"))


def sentence_of(error: BaseException) -> str:
    """A user's error says what to do; any other is named, with the place it came from."""
    text = " ".join(str(error).split())
    if isinstance(error, NaqError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({_module(frames[-1].filename)}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {text[:LONGEST] or 'no message'}{place}"


def utc_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Throttled:
    """Progress of a measurement, told as ``progress`` of its cell and not too often."""

    def __init__(self, listener: Listener, title: str) -> None:
        self.listener, self.title = listener, title
        self._phase, self._at = "", 0.0

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if phase != self._phase or now - self._at >= THROTTLE:
            self._phase, self._at = phase, now
            self.listener("progress", {"cell": self.title, "phase": phase, "facts": dict(facts)})


def _as_json(result: Any) -> dict[str, Any]:
    """The result as a file will give it back; a number that is none is refused."""
    if not isinstance(result, dict):
        raise TypeError(f"the measurement returned {type(result).__name__} instead of a dict")
    return json.loads(json.dumps(result, allow_nan=False))


def _machine_of(cell: Cell) -> dict[str, Any]:
    return machine(str(cell.config.get("device", "cpu")))


def _module(filename: str) -> str:
    """The end of a path that says which file it is, not where it is installed."""
    parts = Path(filename).parts
    for mark in ("site-packages", "src"):
        if mark in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(mark) :])
    return os.path.basename(filename)  # noqa: PTH119
