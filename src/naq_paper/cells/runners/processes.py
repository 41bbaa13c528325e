"""``processes``: worker processes on this machine, each with its share of the cores.

If a worker ends, its cell fails and another takes its place; if this process ends, however suddenly, so do its workers. They are
started by ``multiprocessing`` (spawn), so a script that runs cells in processes needs ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from naq_paper.cells.runners.pool import WAIT, Order, PoolRunner, Slot, Worker, threads_of, worker_environment


class ProcessRunner(PoolRunner):
    def _start(self) -> Slot:
        return _ProcessSlot(threads_of(self.workers))

    def _wait(self) -> list[Slot]:
        slots = {slot.connection: slot for slot in self._slots}
        return [slots[connection] for connection in wait(list(slots), WAIT)]  # type: ignore[index]


class _ProcessSlot(Slot):
    def __init__(self, threads: int) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        handle, self._stderr = tempfile.mkstemp(prefix="naq-worker-")
        self._written = os.fdopen(handle, "rb")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self._stderr), daemon=True)
        with _environment(worker_environment(threads)):
            self.process.start()
        other.close()

    def send(self, order: Order) -> None:
        with suppress(OSError):  # if it has just ended, receive() says so
            self.connection.send(order)

    def receive(self) -> Iterator[tuple[str, Any]]:
        try:
            while self.connection.poll():
                yield self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            yield "exit", (f"signal {-code}" if code < 0 else f"exit status {code}", _last_line(self._written))

    def close(self) -> None:
        self.process.kill()  # records and checkpoints are written whole or not at all
        self.process.join()
        self.connection.close()
        self._written.close()
        Path(self._stderr).unlink(missing_ok=True)


def _serve(connection: Connection, stderr: str) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the runner decides what follows
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log = os.open(stderr, os.O_WRONLY | os.O_APPEND)
    Path(stderr).unlink()  # the runner has it open
    for output in (1, 2):
        os.dup2(log, output)
    worker = Worker()
    connection.send(("ready", None))
    with suppress(EOFError):
        while True:
            order = connection.recv()
            answer = worker.compute(order, lambda phase, facts: connection.send((phase, facts)))
            connection.send(("answer", answer))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Other environment variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _last_line(file: Any, size: int = 4096) -> str:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - size))
    lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
