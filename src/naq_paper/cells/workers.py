"""Cells in worker processes of this machine, each with its share of the cores.

Every worker is a ``concurrent.futures.ProcessPoolExecutor`` of one process: if the process ends, only its executor is
broken, the cell that it computed fails and another worker is started. If this process ends, however suddenly, so do its
workers. They are started by ``spawn``, so a script that runs cells in processes needs ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from naq.errors import DataError, Listener, NaqError
from naq.threads import available_cores, limit_threads, worker_environment
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.datasets import KEPT, DatasetCache, identify
from naq_paper.cells.records import Record
from naq_paper.cells.runners import Pending, Planned, Runner, Throttled, engines, new_record, record_of, sentence_of
from naq_paper.measurements import Context

WAIT = 0.2  # seconds after which the progress of workers is passed on


@dataclass(frozen=True, eq=False)
class Order:
    """What a worker is given: the cell, the identity it is expected to find, and where files are."""

    cell: Cell
    title: str
    identity: Identity
    scratch: str
    lock: str
    paths: Mapping[str, str]
    cache: str | None


class Changed(DataError):
    """A worker does not find the data that the runner found."""


class Worker:
    """Computes orders in its own process; datasets stay loaded between them."""

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            limit_threads(threads)
        self._dataset_cache = DatasetCache()

    def compute(self, order: Order, listener: Listener = lambda phase, facts: None) -> Record:
        """The record; raises ``Changed``, or what loading the data raises."""
        if self._dataset_cache.paths != order.paths:
            self._dataset_cache = DatasetCache(order.paths)
        if identify(order.cell, self._dataset_cache) != order.identity:
            raise Changed("the code or the data changed while the cells were running; start again.")
        # the store's folder for checkpoints if this machine sees the lock
        seen = Path(order.lock).exists()
        with nullcontext(order.scratch) if seen else tempfile.TemporaryDirectory(prefix="naq-") as scratch:
            context = Context(self._dataset_cache, Path(scratch), order.cache, Throttled(listener, order.title))
            return record_of(order.cell, order.identity, context)


class Slot:
    """A worker as the runner sees it: ``planned`` is its cell, None while it is idle; ``loaded`` are its datasets."""

    started: Future[Any]  # done once the worker can compute
    how = "its machine is gone, or memory ran out there"

    def __init__(self) -> None:
        self.planned: Planned | None = None
        self.future: Future[Record] | None = None
        self.since = 0.0
        self.loaded: list[str | None] = []

    @abstractmethod
    def submit(self, order: Order) -> Future[Record]:
        """Pass an order on to the worker."""

    def progress(self) -> Iterator[tuple[str, Any]]:
        """Phases and facts that the worker has reported since the last call."""
        return iter(())

    @abstractmethod
    def close(self) -> None:
        """End the worker, whatever it does."""


class PoolRunner(Runner):
    """``workers`` cells are computed at the same time; ``lost`` is what a worker that ended raises."""

    lost: type[BaseException] = BrokenProcessPool

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._slots: list[Any] = []

    @abstractmethod
    def _start(self) -> Slot:
        """Start a worker."""

    def _compute(self, pending: Pending) -> None:
        while True:
            self._assign(pending)
            busy = [slot for slot in self._slots if slot.planned is not None]
            if not busy:
                return
            wait([slot.future for slot in busy], WAIT, FIRST_COMPLETED)
            for slot in busy:
                for phase, facts in slot.progress():
                    pending.listener(phase, facts)
                if slot.future.done():
                    self._settle(slot, pending)

    def _assign(self, pending: Pending) -> None:
        """Every idle worker is given a cell; workers are started while there are more cells."""
        while len(pending):
            idle = next((slot for slot in self._slots if slot.planned is None), None)
            if idle is None and len(self._slots) == self.workers:
                return
            planned = pending.next(() if idle is None else idle.loaded)
            if planned is None:
                return
            if idle is None:
                self._slots.append(idle := self._start())
            idle.planned, idle.since = planned, time.monotonic()
            if planned.dataset is not None and planned.dataset not in idle.loaded:
                idle.loaded = [*idle.loaded, planned.dataset][-KEPT:]
            store, setup = pending.store, pending.setup
            scratch, lock = (str(p.resolve()) for p in (store.scratch(planned.key), store.lock_file(planned.key)))
            order = Order(planned.cell, planned.title, planned.identity, scratch, lock, dict(setup.paths), setup.cache)
            idle.future = idle.submit(order)

    def _settle(self, slot: Slot, pending: Pending) -> None:
        """Store the record of a ready worker; if its process has ended, its cell fails and the worker is dropped."""
        planned, future, slot.planned = slot.planned, slot.future, None
        assert planned is not None and future is not None
        try:
            pending.finish(planned, future.result())
        except self.lost:
            self._slots.remove(slot)
            slot.close()
            if slot.started.exception() is not None:
                raise NaqError("a worker process cannot start; the engine local needs none.") from None
            error = (
                f"the worker process died ({slot.how}) while it computed this cell; if memory ran out, use fewer "
                "workers, then retry the failed cells."
            )
            seconds = time.monotonic() - slot.since
            pending.finish(planned, new_record(planned.cell, planned.identity, None, error, seconds), keep=True)
        except Changed:
            raise
        except Exception as error:
            pending.settle(planned, "failed", error=sentence_of(error))

    def close(self) -> None:
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.close()


class ProcessRunner(PoolRunner):
    """Worker processes; each sees one of the ``devices``, GPUs by their names, as its ``cuda``."""

    def __init__(self, workers: int, devices: Sequence[str] = ()) -> None:
        super().__init__(workers)
        self.devices = devices

    def _start(self) -> Slot:
        taken = [slot.device for slot in self._slots]
        return _ProcessSlot(threads_of(self.workers), min(self.devices, key=taken.count, default=""))


class _ProcessSlot(Slot):
    def __init__(self, threads: int, device: str = "") -> None:
        super().__init__()
        self.device = device
        context = multiprocessing.get_context("spawn")
        self._reports, writer = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(1, context, _begin, (writer, threads, visible_device(device)))
        others = set(multiprocessing.active_children())
        with engines.environment_of_workers(threads):
            self.started = self._executor.submit(os.getpid)
        (self.process,) = set(multiprocessing.active_children()) - others
        writer.close()

    @property
    def how(self) -> str:  # type: ignore[override]
        code = self.process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def submit(self, order: Order) -> Future[Record]:
        return self._executor.submit(_compute, order)

    def progress(self) -> Iterator[tuple[str, Any]]:
        with suppress(EOFError, OSError):
            while self._reports.poll():
                yield self._reports.recv()

    def close(self) -> None:
        self.process.kill()  # records and checkpoints are written whole or not at all
        self.process.join()
        self._executor.shutdown(cancel_futures=True)
        self._reports.close()


def threads_of(workers: int) -> int:
    """The share of the cores of each worker."""
    return max(1, available_cores() // workers)


def visible_device(device: str) -> str:
    """``CUDA_VISIBLE_DEVICES`` of a process that sees this GPU alone, e.g. ``cuda:1``; nothing for no device."""
    number = device.rpartition(":")[2]
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return shown.split(",")[int(number)].strip() if number and shown else number


_worker: Worker
_reports: Connection


def _begin(reports: Connection, threads: int, visible: str) -> None:
    """What a worker process does first."""
    global _worker, _reports
    if visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    engines.prepare_worker()
    for output in (1, 2):  # the terminal shows progress
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    _worker, _reports = Worker(threads), reports


def _compute(order: Order) -> Record:
    return _worker.compute(order, lambda phase, facts: _reports.send((phase, facts)))


CORES = 1  # that a worker reserves of a cluster, and the threads that it computes with there


class RayRunner(PoolRunner):
    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._ray = engines.import_ray()
        self.lost = self._ray.exceptions.RayActorError
        self._address = os.environ.get("RAY_ADDRESS")
        self._connected = False
        if self._address is not None and not self._ray.is_initialized():
            engines.check_cluster(self._address)

    def _start(self) -> Slot:
        if not self._ray.is_initialized():
            engines.connect(self._ray, self.workers, self._address)
            self._connected = True
        own_cluster = self._connected and self._address is None
        threads = threads_of(self.workers) if own_cluster else CORES
        gpus = min(1.0, self._ray.cluster_resources().get("GPU", 0.0) / self.workers)
        environment = {"env_vars": worker_environment(threads)}
        kind = self._ray.remote(Worker).options(num_cpus=CORES, num_gpus=gpus, max_restarts=0, runtime_env=environment)
        return _RaySlot(self._ray, kind.remote(threads))

    def close(self) -> None:
        super().close()
        if self._connected:
            self._ray.shutdown()
            self._connected = False


class _RaySlot(Slot):
    def __init__(self, ray: Any, actor: Any) -> None:
        super().__init__()
        self._ray, self.actor = ray, actor
        self.started = actor.__ray_ready__.remote().future()

    def submit(self, order: Order) -> Future[Record]:
        return self.actor.compute.remote(order).future()  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._ray.is_initialized():
            self._ray.kill(self.actor)
