"""``processes``: worker processes on this machine, each with its share of the cores.

A worker is an interpreter of its own that talks in JSON lines. If it dies, its cell fails and another takes its place; if this
process dies, however suddenly, its workers die with it.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import naq
from naq.errors import DataError, NaqError
from naq.experiments.machine import available_cores
from naq.experiments.runners.base import Outcome, Pending, Planned, Runner, Setup
from naq.experiments.runners.compute import Computed, death, lost_record
from naq.experiments.store import Store
from naq.experiments.works.base import Tell
from naq.threads import prepare_process

GRACE = 3.0
"""Seconds a worker has to end before it is killed."""
HELD = 2
"""Datasets that a worker keeps loaded."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class ProcessRunner(Runner):
    """Args:
    workers: processes that compute at the same time.
    """

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._crew: list[_Worker] = []

    def _compute(self, pending: Pending, store: Store, setup: Setup, tell: Tell, outcome: Outcome) -> None:
        while len(pending) or any(worker.planned for worker in self._crew):
            self._hire(len(pending))
            for worker in self._crew:
                if worker.ready and worker.planned is None and (planned := pending.next(worker.holds)) is not None:
                    worker.give(planned, store, setup)
            for worker, message in self._hear():
                if message is None:
                    self._bury(worker, pending, tell, outcome)
                elif message["say"] == "finished":
                    self._finish(worker, message, pending, tell, outcome)
                elif message["say"] != "ready":
                    tell(message.pop("say"), message)

    def _hire(self, wanted: int) -> None:
        idle = sum(worker.planned is None for worker in self._crew)
        threads = max(1, available_cores() // self.workers)
        for _ in range(min(wanted - idle, self.workers - len(self._crew))):
            self._crew.append(_Worker(threads))

    def _hear(self) -> list[tuple[_Worker, dict[str, Any] | None]]:
        """What the workers said since the last time; None when one died."""
        with selectors.DefaultSelector() as selector:
            for worker in self._crew:
                selector.register(worker.output, selectors.EVENT_READ, worker)
            found = [key.data for key, _ in selector.select(timeout=1.0)]
        return [(worker, message) for worker in found for message in worker.hear()]

    def _finish(
        self, worker: _Worker, message: Mapping[str, Any], pending: Pending, tell: Tell, outcome: Outcome
    ) -> None:
        planned = worker.planned
        assert planned is not None
        worker.planned = None
        if message["state"] == "stuck":
            raise DataError(message["error"])
        computed = Computed(message["state"], message["seconds"], message["error"])
        self._settle(planned, computed, pending, tell, outcome)

    def _bury(self, worker: _Worker, pending: Pending, tell: Tell, outcome: Outcome) -> None:
        """A worker has died: its cell fails, unless its record was filed before."""
        self._crew.remove(worker)
        how, words = worker.end()
        if not worker.ready:
            raise NaqError(f"a worker process cannot start ({how}): {words or 'it said nothing'}.")
        planned, store = worker.planned, worker.store
        if planned is None or store is None:
            return
        if store.get(planned.key) is None:
            seconds = time.monotonic() - worker.since
            record = lost_record(planned.cell, planned.identity, death(how, words), seconds)
            store.put(record)
            computed = Computed.of(record)
        else:
            computed = Computed("done", time.monotonic() - worker.since)
        store.claims.clear(planned.key)
        self._settle(planned, computed, pending, tell, outcome)

    def close(self) -> None:
        crew, self._crew = self._crew, []
        for worker in crew:
            worker.dismiss()
        until = time.monotonic() + GRACE
        for worker in crew:
            worker.end(max(0.0, until - time.monotonic()))
            if worker.planned is not None and worker.store is not None:
                worker.store.claims.clear(worker.planned.key)


class _Worker:
    """One worker process, seen from the runner."""

    def __init__(self, threads: int) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "naq.experiments.runners.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=_environment(threads),
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout.fileno()
        self.ready = False
        self.planned: Planned | None = None
        self.store: Store | None = None
        self.since = 0.0
        self.holds: list[str | None] = []
        self._rest = b""

    def give(self, planned: Planned, store: Store, setup: Setup) -> None:
        order = {
            "store": str(store.folder.resolve()),
            **setup.to_json(),
            "work": planned.cell.work,
            "config": dict(planned.cell.config),
            "expected": asdict(planned.identity),
        }
        self.planned, self.store, self.since = planned, store, time.monotonic()
        if planned.dataset is not None and planned.dataset not in self.holds:
            self.holds = [*self.holds, planned.dataset][-HELD:]
        assert self.process.stdin is not None
        with suppress(OSError):  # if it has just died, that is heard next
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def hear(self) -> list[dict[str, Any] | None]:
        """Whole messages that have arrived; None stands for its end."""
        arrived = os.read(self.output, 1 << 16)
        *lines, self._rest = (self._rest + arrived).split(b"\n")
        messages: list[dict[str, Any] | None] = [json.loads(line) for line in lines]
        self.ready = self.ready or bool(messages)
        return messages if arrived else [*messages, None]

    def dismiss(self) -> None:
        """Ask it to end: at once if it computes, else because there are no more orders."""
        if self.planned is not None or not self.ready:
            self.process.terminate()
        self._close_input()

    def end(self, patience: float = GRACE) -> tuple[str, str]:
        """Wait for its end, enforce it if need be; how it ended, and its last words."""
        self._close_input()
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        words = _last_line(self._words)
        self._words.close()
        return (f"signal {-code}" if code < 0 else f"exit status {code}"), words

    def _close_input(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # an order that it did not live to read
            self.process.stdin.close()


def _environment(threads: int) -> dict[str, str]:
    """The worker finds this very package, and takes its share of the cores."""
    paths = [str(Path(naq.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        **dict.fromkeys(THREADS, str(threads)),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    prepare_process(environment)
    return environment


def _last_line(file: Any, size: int = 4096) -> str:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - size))
    lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
