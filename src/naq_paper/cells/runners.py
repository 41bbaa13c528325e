"""Runners: compute the cells that a store lacks, in this process, in worker processes or on a Ray cluster."""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from naq.errors import Listener, NaqError
from naq.files import NO_SPACE
from naq.options import imported
from naq_paper.cells.cell import Cell, Identity, titles
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.records import Record, machine
from naq_paper.cells.store import Store
from naq_paper.measurements import MEASUREMENTS, Context, perform

engines: Any = imported("naq_scale.engines")
THROTTLE = 0.2  # seconds between two messages of progress in the same phase


def record_of(cell: Cell, identity: Identity, context: Context) -> Record:
    """Perform the measurement; whatever goes wrong becomes the error of the record."""
    started = time.perf_counter()
    result, error = None, None
    try:
        made = perform(cell, context)
        if not isinstance(made, dict):
            raise TypeError(f"the measurement returned {type(made).__name__} instead of a dict")
        result = json.loads(json.dumps(made, allow_nan=False))  # as it is read from a file
    except KeyboardInterrupt:
        raise
    except BaseException as caught:  # also SystemExit and the panics of compiled libraries
        error = sentence_of(caught)
    seconds = time.perf_counter() - started
    release_gpu_memory()
    return new_record(cell, identity, result, error, seconds)


def release_gpu_memory() -> None:
    """Return GPU memory that torch keeps of a finished cell: workers side by side share one GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()  # tensors in reference cycles are in use until then
        torch.cuda.empty_cache()


def new_record(
    cell: Cell, identity: Identity, result: dict[str, Any] | None, error: str | None, seconds: float
) -> Record:
    """A record of this machine and moment."""
    made_on = machine(str(cell.config.get("device", "cpu")))
    return Record(cell, identity, result, error, seconds, made_on, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def sentence_of(error: BaseException) -> str:
    """The message of a ``NaqError``; of any other error its type, message and place in the code."""
    text = " ".join(str(error).split())
    if isinstance(error, NaqError):
        return text
    place = ""
    if frames := traceback.extract_tb(error.__traceback__):
        # the end of the path: which file it is, not where it is installed
        file = Path(frames[-1].filename).as_posix()
        mark = next((mark for mark in ("/site-packages/", "/src/") if mark in file), "/")
        file = file.rpartition(mark)[2]
        place = f" ({file}, line {frames[-1].lineno}, in {frames[-1].name})"
    return f"{type(error).__name__}: {text[:500] or 'no message'}{place}"


class Throttled:
    """Passes on the progress of a measurement, once in ``pause`` seconds and phase; warnings always."""

    def __init__(self, listener: Listener, title: str, pause: float = THROTTLE) -> None:
        self.listener, self.title, self.pause = listener, title, pause
        self._phase, self._at = "", 0.0

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if phase == "warning" or phase != self._phase or now - self._at >= self.pause:
            self._phase, self._at = phase, now
            self.listener("progress", {"cell": self.title, "phase": phase, "facts": dict(facts)})


def make_runner(engine: str = "local", workers: int = 1, devices: Sequence[str] = ()) -> Runner:
    """The runner of that name (:data:`naq_scale.engines.ENGINES`); ``workers`` cells are computed at a time, by
    processes on these GPUs in turn.

    Ray joins the cluster that ``RAY_ADDRESS`` names, else one is started on this machine.
    """
    engines.check_engine(engine, workers, None)
    if engine == "local":
        return LocalRunner()
    from naq_paper.cells.workers import ProcessRunner, RayRunner

    return ProcessRunner(workers, devices) if engine == "processes" else RayRunner(workers)


@dataclass(frozen=True)
class Setup:
    """How cells are computed; none of it changes a result."""

    paths: Mapping[str, str] = field(default_factory=dict)  # of datasets, see DatasetCache
    cache: str | None = ""  # folder for neighbour tables, "" is the user's, None keeps none
    retry: bool = False  # compute again what failed in an earlier run; otherwise it is left alone


@dataclass(frozen=True)
class Failure:
    cell: Cell
    sentence: str


@dataclass
class Outcome:
    """What became of the cells."""

    done: list[Cell] = field(default_factory=list)
    skipped: list[Cell] = field(default_factory=list)  # finished before, or by another process meanwhile
    failed: list[Failure] = field(default_factory=list)
    left: list[Failure] = field(default_factory=list)  # failed in an earlier run and were left alone
    busy: list[Cell] = field(default_factory=list)  # another process computes them
    stopped: bool = False  # Ctrl-C ended the run before all was done

    @property
    def complete(self) -> bool:
        """Every requested cell has its result."""
        return not (self.failed or self.left or self.busy or self.stopped)


class Planned:
    """A cell that is to be computed, with the identity that this process gave it and a title that no other has."""

    def __init__(self, cell: Cell, identity: Identity, title: str = "") -> None:
        self.cell, self.identity, self.key, self.title = cell, identity, identity.key(cell), title or cell.title
        self.dataset: str | None = cell.config.get("dataset")


class Pending:
    """Hands out cells in order, each under its lock; cells of other processes come again after the others."""

    def __init__(self, store: Store, setup: Setup, outcome: Outcome, listener: Listener) -> None:
        self.store, self.setup, self.listener = store, setup, listener
        self._outcome, self._settled = outcome, False
        self.todo: list[Planned] = []
        self._busy: list[Planned] = []
        self._locks: dict[str, FileLock] = {}

    def __len__(self) -> int:
        """Cells that can be handed out now."""
        return len(self.todo) or (len(self._busy) if self._settled else 0)

    def next(self, loaded: Collection[str | None] = (), look_ahead: int = 64) -> Planned | None:
        """A cell to compute, locked until it is finished; None if there is none at the moment.

        A cell of a dataset that the worker has ``loaded`` comes first, because loading takes long.
        """
        while self:
            if not self.todo:  # only after another cell was settled is it worth trying the busy ones again
                self.todo, self._busy, self._settled = self._busy, [], False
            near = self.todo[:look_ahead] if loaded else []
            planned = self.todo.pop(next((i for i, each in enumerate(near) if each.dataset in loaded), 0))
            if self._lock(planned):
                self.listener("begun", {"cell": planned.title, "key": planned.key})
                return planned
        return None

    def finish(self, planned: Planned, record: Record, *, keep: bool = False) -> None:
        """Store the record of a cell; its checkpoints are removed unless memory ran out or they are to be kept.

        A failure for lack of space on the disk is reported but not stored: the same command goes on later.
        """
        error = record.error or ""
        if NO_SPACE not in error:
            self.store.put(record)
            if not keep and not any(words in error for words in ("MemoryError", "out of memory", "allocate memory")):
                self.store.discard(planned.key)
        self.settle(planned, "done" if record.done else "failed", record.seconds, record.error)

    def settle(self, planned: Planned, state: str, seconds: float = 0.0, error: str | None = None) -> None:
        """Note what became of a cell, and unlock it."""
        if state == "failed":
            self._outcome.failed.append(Failure(planned.cell, error or ""))
        else:
            (self._outcome.done if state == "done" else self._outcome.skipped).append(planned.cell)
        self._settled = True
        self._unlock(planned.key)
        facts = {"cell": planned.title, "key": planned.key}
        self.listener("finished", {**facts, "state": state, "seconds": seconds, "error": error})

    def close(self) -> None:
        """Unlock what was not finished; what other processes have not finished meanwhile counts as busy."""
        for key in list(self._locks):
            self._unlock(key)
        for planned in self._busy:
            found = self.store.get(planned.key)
            (self._outcome.busy if found is None else self._outcome.skipped).append(planned.cell)

    def _lock(self, planned: Planned) -> bool:
        """Whether the cell is to be computed now; otherwise it is busy or settled."""
        key = planned.key
        lock = self.store.lock(key)
        if lock is None:
            self._busy.append(planned)
            return False
        self._locks[key] = lock
        # another process may have finished it since the run was planned
        if self.store.get(key) is not None:
            self.settle(planned, "skipped")
        elif not self.setup.retry and (failed := self.store.failure(key)) is not None:
            self.settle(planned, "failed", failed.seconds, failed.error)
        else:
            return True
        return False

    def _unlock(self, key: str) -> None:
        if key in self._locks:
            self.store.unlock(key, self._locks.pop(key))


class Runner(ABC):
    """Computes the cells that a store lacks; as a context manager its workers stay for the next :meth:`run`."""

    def __init__(self) -> None:
        self._dataset_cache = DatasetCache()

    def run(
        self, cells: Sequence[Cell], store: Store, setup: Setup | None = None, listener: Listener | None = None
    ) -> Outcome:
        """Compute what is missing and return what became of every cell.

        The listener is called, in this process, with ``plan`` (cells, todo, skipped, left), ``begun`` (cell, key),
        ``progress`` (cell, phase, facts) and ``finished`` (cell, key, state, seconds, error).

        Ctrl-C ends the run: what is finished is stored, what is running can resume from its checkpoint another time.
        """
        setup, listener = setup or Setup(), listener or (lambda phase, facts: None)
        outcome, cells = Outcome(), list(dict.fromkeys(cells))
        pending = Pending(store, setup, outcome, listener)
        store.prepare()
        try:
            store.sweep()
            pending.todo += self._plan(cells, store, setup, outcome)
            facts = {"todo": len(pending), "skipped": len(outcome.skipped), "left": len(outcome.left)}
            listener("plan", {"cells": len(cells), **facts})
            if len(pending):
                self._compute(pending)
        except KeyboardInterrupt:
            outcome.stopped = True
            self.close()
        except BaseException:
            self.close()
            raise
        finally:
            pending.close()
        return outcome

    def close(self) -> None:  # noqa: B027
        """End the workers."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def _compute(self, pending: Pending) -> None:
        """Take cells from ``pending`` until there are none, and finish each."""

    def dataset_cache(self, setup: Setup) -> DatasetCache:
        """The datasets of this process."""
        if self._dataset_cache.paths != dict(setup.paths):
            self._dataset_cache = DatasetCache(setup.paths)
        return self._dataset_cache

    def _plan(self, cells: Sequence[Cell], store: Store, setup: Setup, outcome: Outcome) -> Iterator[Planned]:
        """Yields what has to be computed; the others go to the outcome."""
        for cell, title in zip(cells, titles(cells)):
            try:
                MEASUREMENTS.find(cell.measurement)
                planned = Planned(cell, identify(cell, self.dataset_cache(setup)), title)
            except Exception as error:
                outcome.failed.append(Failure(cell, sentence_of(error)))
                continue
            if store.get(planned.key) is not None:
                outcome.skipped.append(cell)
            elif not setup.retry and (failed := store.failure(planned.key)) is not None:
                outcome.left.append(Failure(cell, str(failed.error)))
            else:
                yield planned


class LocalRunner(Runner):
    """The cells in this process, one after the other."""

    def _compute(self, pending: Pending) -> None:
        datasets, cache = self.dataset_cache(pending.setup), pending.setup.cache
        while (planned := pending.next()) is not None:
            progress = Throttled(pending.listener, planned.title)
            context = Context(datasets, pending.store.scratch(planned.key), cache, progress)
            pending.finish(planned, record_of(planned.cell, planned.identity, context))
