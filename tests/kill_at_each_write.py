"""Kills a computation at every write it makes, before and after the file gets its name, and lets it go on: a program of its own.

    python tests/kill_at_each_write.py run|cells|import|reproduce|shards|studio FOLDER [EVERY]

Each kill is a process of its own that ends as by ``kill -9``; a write to the studio's journal is cut in half first. Then another process computes the rest.
Prints JSON: kills, what differed from a computation that nobody disturbed, and what was computed twice: a record of a cell that was written again, or more
updates of a training than lie between two checkpoints.
"""

from __future__ import annotations

import collections
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # nothing to lose in a fork
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parent))

from interrupted_work import WORK

BETWEEN = {"run": 8, "reproduce": 16}
"""Updates between two checkpoints of the works that train."""


class Counted:
    """Writes are counted; at one of them the process ends. Finished files and updates are noted in ``log``."""

    def __init__(self, at: int | None, log: Path) -> None:
        self.at, self.count = at, 0
        self.sync, self.replace, self.write = os.fsync, Path.replace, os.write
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.fsync, os.write = self._sync, self._write
        Path.replace = lambda source, target: self._replace(source, target)  # type: ignore[assignment, method-assign]
        from naq.learners.base import Learner

        step = Learner.step

        def counted(model: Any, *given: Any) -> Any:
            self.write(self.log, b"update\n")
            return step(model, *given)

        Learner.step = counted  # type: ignore[method-assign]

    def _point(self) -> None:
        self.count += 1
        if self.count == self.at:
            os._exit(9)

    def _sync(self, handle: int) -> None:
        self.sync(handle)
        self._point()

    def _write(self, handle: int, content: Any) -> int:
        if Path(f"/proc/self/fd/{handle}").readlink().name.endswith(".studio.csv"):
            self.count += 1
            if self.count == self.at:
                self.write(handle, bytes(content)[: len(content) // 2])
                os._exit(9)
        return self.write(handle, content)

    def _replace(self, source: Path, target: Path) -> Path:
        result = self.replace(source, target)
        if Path(target).parent.name == "cells":
            self.write(self.log, f"{Path(target).name}\n".encode())
        self._point()
        return result


def in_child(work: Callable[[Path], Any], folder: Path, at: int | None) -> tuple[int, Any, int]:
    """Exit code, result and writes of the work in a process of its own."""
    answer, log = folder.with_suffix(".json"), folder.with_suffix(".log")
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            warnings.simplefilter("ignore")
            counted = Counted(at, log)
            result = work(folder)
            answer.write_text(json.dumps([result, counted.count]))
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    result, count = json.loads(answer.read_text()) if code == 0 else (None, 0)
    return code, result, count


def done(folder: Path) -> collections.Counter[str]:
    """How often each cell was finished, and the updates, in all processes that worked on the folder."""
    return collections.Counter(folder.with_suffix(".log").read_text().split())


def main() -> None:
    kind, place, every = sys.argv[1], Path(sys.argv[2]), int((*sys.argv, "1")[3])
    import naq.cli.main
    import naq.cli.reproducing
    import naq.data
    import naq.experiments.analyses.label_noise
    import naq.grid.measurements.empty
    import naq.grid.runners
    import naq.protocol.runs  # every child has them then
    import report_folders

    _ = naq, report_folders
    code, expected, count = in_child(WORK[kind], place / "whole", None)
    assert code == 0
    whole = done(place / "whole")
    kills, wrong, twice = 0, [], []
    for at in range(1, count + 1, every):
        folder = place / f"killed-{at}"
        code, _, _ = in_child(WORK[kind], folder, at)
        kills += code == 9
        code, found, _ = in_child(WORK[kind], folder, None)
        if code != 0 or found != expected:
            wrong.append([at, code, found])
        again = done(folder) - whole
        if again.pop("update", 0) > BETWEEN.get(kind, 0) or again:
            twice.append([at, dict(again)])
    print(json.dumps({"kind": kind, "points": count, "kills": kills, "wrong": wrong, "twice": twice}))


if __name__ == "__main__":
    main()
