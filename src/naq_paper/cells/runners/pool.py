"""What runners with several workers share: hand out cells to workers, wait, store the records that come back.

Workers need not see the store: this process holds the locks and stores the records.
"""

from __future__ import annotations

import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naq.errors import DataError, NaqError
from naq.progress import Listener
from naq.threads import SETTINGS, available_cores, limit_threads, prepare_process
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.datasets import KEPT, DatasetCache
from naq_paper.cells.fingerprint import identify
from naq_paper.cells.records import Record
from naq_paper.cells.runners.base import Runner, Setup
from naq_paper.cells.runners.computing import Throttled, failed_record, record_of, sentence_of, worker_exit
from naq_paper.cells.runners.pending import Pending, Planned
from naq_paper.measurements import MEASUREMENTS, Context

WAIT = 1.0
"""Seconds to wait for an answer before the workers are looked at again."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
CHANGED = "the code or the data changed while the cells were running; start again."


@dataclass(frozen=True, eq=False)
class Order:
    """What a worker is given: the cell, the identity it is expected to find, and where files are."""

    cell: Cell
    identity: Identity
    scratch: str
    lock: str
    paths: Mapping[str, str]
    cache: str | None
    arrays: Path | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a worker returns: a record; or why there is none, and whether the cause is that code or data changed."""

    record: Record | None = None
    error: str = ""
    changed: bool = False


class Worker:
    """Computes orders in a process of its own; datasets stay loaded between them."""

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            limit_threads(threads)
        len(MEASUREMENTS)  # imports them now, not in the time of the first cell
        self._dataset_cache = DatasetCache()

    def compute(self, order: Order, listener: Listener = lambda phase, facts: None) -> Answer:
        if self._dataset_cache.paths != order.paths:
            self._dataset_cache = DatasetCache(order.paths)
        try:
            identity = identify(order.cell, self._dataset_cache)
        except Exception as error:
            return Answer(error=sentence_of(error))
        if identity != order.identity:
            return Answer(changed=True)
        with _scratch(order) as scratch:
            progress = Throttled(listener, order.cell.title)
            context = Context(self._dataset_cache, scratch, order.cache, progress, order.arrays)
            return Answer(record_of(order.cell, identity, context))


@contextmanager
def _scratch(order: Order) -> Iterator[Path]:
    """The store's folder for checkpoints where this machine sees the lock, else a temporary one."""
    if Path(order.lock).exists():
        yield Path(order.scratch)
    else:
        with tempfile.TemporaryDirectory(prefix="naq-") as folder:
            yield Path(folder)


class Slot(ABC):
    """A worker, seen from the runner.

    Attributes:
        ready: it has started.
        planned: what it computes at the moment, since when.
        held: datasets that it has loaded.
    """

    def __init__(self) -> None:
        self.ready, self.since = False, 0.0
        self.planned: Planned | None = None
        self.held: list[str | None] = []

    @abstractmethod
    def send(self, order: Order) -> None:
        """Pass an order on to the worker."""

    @abstractmethod
    def receive(self) -> Iterable[tuple[str, Any]]:
        """What came from the worker: ``ready``, ``progress`` (facts), ``answer`` (Answer) or ``exit`` (how, last line of stderr)."""

    @abstractmethod
    def close(self) -> None:
        """End the worker."""


class PoolRunner(Runner):
    """Args:
    workers: cells that are computed at the same time.
    """

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._slots: list[Any] = []

    @abstractmethod
    def _start(self) -> Slot:
        """Start a worker."""

    @abstractmethod
    def _wait(self) -> Iterable[Slot]:
        """Wait at most ``WAIT`` seconds for workers from which something can be received."""

    def _compute(self, pending: Pending, setup: Setup) -> None:
        while len(pending) or any(slot.planned for slot in self._slots):
            idle = sum(slot.planned is None for slot in self._slots)
            for _ in range(min(len(pending) - idle, self.workers - len(self._slots))):
                self._slots.append(self._start())
            for slot in self._slots:
                if slot.ready and slot.planned is None and (planned := pending.next(slot.held)) is not None:
                    self._assign(slot, planned, pending, setup)
            for slot in self._wait():
                for what, content in slot.receive():
                    if what == "ready":
                        slot.ready = True
                    elif what == "progress":
                        pending.listener("progress", content)
                    elif what == "answer":
                        self._on_answer(slot, content, pending)
                    else:
                        self._on_exit(slot, pending, *content)

    def _assign(self, slot: Slot, planned: Planned, pending: Pending, setup: Setup) -> None:
        slot.planned, slot.since = planned, time.monotonic()
        if planned.dataset is not None and planned.dataset not in slot.held:
            slot.held = [*slot.held, planned.dataset][-KEPT:]
        scratch, lock = (
            p.resolve() for p in (pending.store.scratch(planned.key), pending.store.lock_file(planned.key))
        )
        files = str(scratch), str(lock), dict(setup.paths), setup.cache, setup.arrays_folder
        slot.send(Order(planned.cell, planned.identity, *files))

    def _on_answer(self, slot: Slot, answer: Answer, pending: Pending) -> None:
        planned, slot.planned = slot.planned, None
        assert planned is not None
        if answer.changed:
            raise DataError(CHANGED)
        if answer.record is None:
            pending.settle(planned, "failed", error=answer.error)
        else:
            pending.finish(planned, answer.record)

    def _on_exit(self, slot: Slot, pending: Pending, how: str, stderr: str) -> None:
        """A worker has ended: its cell fails, and another worker takes its place."""
        self._slots.remove(slot)
        slot.close()
        if not slot.ready:
            raise NaqError(f"a worker process cannot start ({how}): {stderr or 'it wrote nothing'}.")
        if slot.planned is not None:
            cell, identity = slot.planned.cell, slot.planned.identity
            record = failed_record(cell, identity, worker_exit(how, stderr), time.monotonic() - slot.since)
            pending.finish(slot.planned, record, keep=True)

    def close(self) -> None:
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.close()


def threads_of(workers: int) -> int:
    """The share of the cores of each worker."""
    return max(1, available_cores() // workers)


def worker_environment(threads: int | None) -> dict[str, str]:
    """Environment variables of a worker beside those of this process."""
    environment = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    prepare_process(environment)
    return environment if threads is None else {**environment, **dict.fromkeys(THREADS, str(threads))}
