"""Kills a computation at every change it makes to its folder, and lets it go on: a program of its own.

    python tests/kill_at_each_write.py FOLDER run reproduce:7 shards studio cells import predict embed   # :7 is at every seventh

Changes: before a file is opened to be written, before and after it gets its name (of files and of folders, also where two are exchanged), after it is on the disk, before one is
removed, cut or given a mode. Each kill is a process of its own that ends as by ``kill -9``; a write to the studio's journal is cut in half first. Then another process computes the rest.
Prints a line of JSON each: kills, what differed from a computation that nobody disturbed, and what was computed twice: a record of a cell that was written again, or more
updates of a training than lie between two checkpoints. Also how many limits on the size of a file (``ulimit -f``), which cut a write in its middle as a full
disk does, ended in one sentence.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # nothing to lose in a fork
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    os.environ["NUMBA_THREADING_LAYER"] = "workqueue"  # GNU's OpenMP ends a forked process that uses it
sys.path.insert(0, str(Path(__file__).parent))

from interrupted_work import WORK
from naq.errors import NaqError

LIMITS = (1, 100, 700, 3000)
"""Bytes of a file at most, one after the other; a table in shards has files between."""
BETWEEN = {"run": 8, "reproduce": 16}
"""Updates between two checkpoints of the works that train."""


CHANGES = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink"}


def before_changes(folder: Path, then: Callable[[], object]) -> None:
    """Call ``then`` before every change to what is in the folder, as Python's audit events tell; it stays so in this process."""
    start = f"{folder}{os.sep}"

    def heard(event: str, given: tuple[Any, ...]) -> None:
        reads = event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        names = [os.fspath(one) for one in given[:2] if isinstance(one, str | os.PathLike)]
        if event in CHANGES and not reads and any(name.startswith(start) for name in names):
            then()

    sys.addaudithook(heard)


def die_at(number: int, folder: Path) -> None:
    """End this process before that change."""
    count = itertools.count(1)
    before_changes(folder, lambda: next(count) == number and os._exit(9))


class Counted:
    """Changes are counted; at one of them the process ends. Finished files and updates are noted in ``log``."""

    def __init__(self, at: int | None, log: Path, folder: Path) -> None:
        self.at, self.count = at, 0
        before_changes(folder, self._point)
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
        if Path(target).parent.name == "cells" and "unpacked" not in Path(target).parts:
            self.write(self.log, f"{Path(target).name}\n".encode())
        self._point()
        return result


def in_child(
    work: Callable[[Path], Any], folder: Path, at: int | None = None, limit: int | None = None
) -> tuple[int, Any, int]:
    """Exit code, result and writes of the work in a process of its own; 2 for an error in one sentence."""
    answer, log = folder.with_suffix(".json"), folder.with_suffix(".log")
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            warnings.simplefilter("ignore")
            counted = Counted(at, log, folder)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            result = work(folder)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            answer.write_text(json.dumps([result, counted.count]))
            os._exit(0)
        except NaqError as error:
            os._exit(2 if "too large" in str(error) else 1)
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


def disturbed(kind: str, place: Path, every: int) -> dict[str, Any]:
    place.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        WORK[kind](place / "first")  # what is imported and compiled now, every child has
    code, expected, count = in_child(WORK[kind], place / "whole")
    assert code == 0
    whole = done(place / "whole")
    kills, wrong, twice, full = 0, [], [], 0
    for at in range(1, count + 1, every):
        folder = place / f"killed-{at}"
        code, _, _ = in_child(WORK[kind], folder, at)
        kills += code == 9
        code, found, _ = in_child(WORK[kind], folder)
        if code != 0 or found != expected:
            wrong.append([at, code, found])
        again = done(folder) - whole
        if again.pop("update", 0) > BETWEEN.get(kind, 0) or again:
            twice.append([at, dict(again)])
    for limit in LIMITS if every == 1 else LIMITS[1:3]:
        folder = place / f"full-{limit}"
        first, _, _ = in_child(WORK[kind], folder, limit=limit)
        full += first == 2
        code, found, _ = in_child(WORK[kind], folder)
        if first not in (0, 2) or code != 0 or found != expected:
            wrong.append([f"at most {limit} bytes", first, code, found])
    return {"kind": kind, "points": count, "kills": kills, "wrong": wrong, "twice": twice, "full": full}


def main() -> None:
    for word in sys.argv[2:]:
        kind, _, every = word.partition(":")
        print(json.dumps(disturbed(kind, Path(sys.argv[1]) / kind, int(every or 1))), flush=True)


if __name__ == "__main__":
    main()
