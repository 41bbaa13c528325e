"""A worker process: reads orders as JSON lines, computes them, and says how it goes in JSON lines.

``python -m naq.grid.runners.worker PARENT`` is started by :mod:`naq.grid.runners.processes` only.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

from naq.errors import NaqError
from naq.grid.cells import Cell, Identity
from naq.grid.datasets import DatasetCache
from naq.grid.runners.compute import compute_cell
from naq.grid.store import Store

PR_SET_PDEATHSIG = 1


class Worker:
    """Computes one order after the other; stores and graphs stay open between them."""

    def __init__(self) -> None:
        # the works may print: what they print goes where errors go, and only this object writes to the runner
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._orders: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._busy = False
        self._store: Store | None = None
        self._bench: DatasetCache | None = None

    def serve(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        self._say("ready")
        while (line := self._orders.get()) is not None:
            self._busy = True
            answer = self._compute(json.loads(line))
            self._busy = False
            self._say("finished", **answer)

    def release(self) -> None:
        if self._store is not None:
            self._store.claims.release_all()

    def _compute(self, order: Mapping[str, Any]) -> dict[str, Any]:
        store, dataset_cache = self._store_at(order["store"]), self._bench_of(order["paths"])
        try:
            computed = compute_cell(
                Cell(order["measurement"], order["config"]),
                store,
                dataset_cache,
                order["cache"],
                lambda phase, facts: self._say(phase, **facts),
                retry=order["retry"],
                expected=Identity(**order["expected"]),
            )
        except NaqError as error:  # no other cell would fare better
            return {"state": "stuck", "error": str(error)}
        return vars(computed)

    def _store_at(self, folder: str) -> Store:
        if self._store is None or str(self._store.folder) != folder:
            self._store = Store(folder)
        return self._store

    def _bench_of(self, paths: Mapping[str, str]) -> DatasetCache:
        if self._bench is None or self._bench.paths != dict(paths):
            self._bench = DatasetCache(paths)
        return self._bench

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            self._orders.put(line)
        self._orders.put(None)
        if self._busy:
            os._exit(1)  # the runner is gone: nobody wants this cell any more

    def _say(self, what: str, **facts: Any) -> None:
        try:
            self._out.write(json.dumps({"say": what, **facts}, default=str) + "\n")
            self._out.flush()
        except OSError:
            os._exit(1)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; elsewhere than on Linux the end of the input does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before it could be asked for
        os._exit(1)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the runner decides what follows
    signal.signal(signal.SIGTERM, _stop)
    end_with(int(sys.argv[1]))
    worker = Worker()
    try:
        worker.serve()
    except KeyboardInterrupt:
        pass
    finally:
        worker.release()
    sys.stdout.flush()
    os._exit(0)  # thread pools of libraries may take seconds to end


if __name__ == "__main__":
    main()
