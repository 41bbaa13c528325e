"""Cells in worker processes of this machine, each with its share of the cores.

Every worker is a ``concurrent.futures.ProcessPoolExecutor`` of one process: if the process ends, only its executor is
broken, the cell that it computed fails and another worker is started. If this process ends, however suddenly, so do its
workers. They are started by ``spawn``, so a script that runs cells in processes needs ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from naq.errors import DataError, MissingDependency, NaqError
from naq.progress import Listener
from naq.threads import available_cores, limit_threads, worker_environment
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.datasets import KEPT, DatasetCache, identify
from naq_paper.cells.records import Record
from naq_paper.cells.runners import Pending, Planned, Runner, Throttled, new_record, record_of, sentence_of
from naq_paper.measurements import Context

WAIT = 0.2  # seconds after which the progress of workers is passed on


@dataclass(frozen=True, eq=False)
class Order:
    """What a worker is given: the cell, the identity it is expected to find, and where files are."""

    cell: Cell
    identity: Identity
    scratch: str
    lock: str
    paths: Mapping[str, str]
    cache: str | None


class Changed(DataError):
    """A worker does not find the data that the runner found."""


class Worker:
    """Computes orders in a process of its own; datasets stay loaded between them."""

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
            context = Context(self._dataset_cache, Path(scratch), order.cache, Throttled(listener, order.cell.title))
            return record_of(order.cell, order.identity, context)


class Slot:
    """A worker as the runner sees it: ``planned`` is the cell that it computes, None while it is idle; ``loaded`` are its datasets."""

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
            order = Order(planned.cell, planned.identity, scratch, lock, dict(setup.paths), setup.cache)
            idle.future = idle.submit(order)

    def _settle(self, slot: Slot, pending: Pending) -> None:
        """Store the record of a worker that is ready; if its process has ended, its cell fails and the worker is dropped."""
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
                f"the worker process died ({slot.how}) while it computed this cell; if memory ran out, use fewer workers, "
                "then retry the failed cells."
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
    def _start(self) -> Slot:
        return _ProcessSlot(threads_of(self.workers))


class _ProcessSlot(Slot):
    def __init__(self, threads: int) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        self._reports, writer = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(1, context, _begin, (writer, threads))
        others, environment = set(multiprocessing.active_children()), dict(os.environ)
        os.environ.update(worker_environment(threads))
        try:
            self.started = self._executor.submit(os.getpid)
        finally:
            os.environ.clear()
            os.environ.update(environment)
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


_worker: Worker
_reports: Connection


def _begin(reports: Connection, threads: int) -> None:
    """What a worker process does first."""
    global _worker, _reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the runner decides what follows
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for output in (1, 2):  # the terminal shows progress
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    _worker, _reports = Worker(threads), reports


def _compute(order: Order) -> Record:
    return _worker.compute(order, lambda phase, facts: _reports.send((phase, facts)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""No usage statistics are sent, and no warning on machines without an accelerator."""
ANSWER = 5.0  # seconds in which a cluster has to answer
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What opens a gRPC connection, which a server answers at once. Ray itself waits for minutes if nobody answers."""
CORES = 1  # that a worker reserves of a cluster, and the threads that it computes with there


class RayRunner(PoolRunner):
    def __init__(self, workers: int, address: str | None = None) -> None:
        super().__init__(workers)
        self._ray = import_ray()
        self.lost = self._ray.exceptions.RayActorError
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._connected = False
        if self._address is not None and not self._ray.is_initialized():
            check_answers(self._address)

    def _connect(self) -> None:
        options: dict[str, Any] = {"address": self._address}
        if self._address is None:
            options = {"address": "local", "num_cpus": self.workers, "include_dashboard": False}
        try:
            self._ray.init(**options, logging_level=logging.ERROR, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = self._address or "this machine"
            raise NaqError(f"the Ray cluster at {where} cannot be used: {sentence_of(error)}") from error
        self._connected = True

    def _start(self) -> Slot:
        if not self._ray.is_initialized():
            self._connect()
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


def check_answers(address: str) -> None:
    """Raises ``NaqError`` if no gRPC server answers at ``host:port`` or ``ray://host:port``; Ray checks other addresses."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER) as there:
            there.settimeout(ANSWER)
            there.sendall(GREETING)
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not there.recv(1):
                raise OSError("what listens there speaks no gRPC")
    except OSError as error:
        silent = isinstance(error, TimeoutError)
        why = f"nothing came within {ANSWER:g} s" if silent else error.strerror or error
        advice = "start one with 'ray start --head', or leave the address out"
        raise NaqError(f"no Ray cluster answers at {address} ({why}); {advice}.") from error


def import_ray() -> Any:
    """Ray, or the line that installs it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingDependency(
            'the engine ray needs Ray, which is not installed: pip install "naq[ray]", or choose the engine processes.'
        ) from error
    return ray
