"""What a command takes: seconds, CPU seconds and memory of its process and of all that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLED_EVERY = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


def anonymous_bytes(process: int | str = "self") -> int:
    """Memory that a process holds itself, without pages of files; 0 for one that is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in lines:
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    if not any(line.startswith("State:\tZ") for line in lines) and process == "self":
        raise RuntimeError("/proc/self/status has no RssAnon; this benchmark needs Linux.")
    return 0


def tree_of(process: int) -> list[int]:
    """A process and all that it started, children of children too."""
    found, left = [], [process]
    while left:
        found.append(left.pop())
        for task in Path(f"/proc/{found[-1]}/task").glob("*/children"):
            try:
                left += map(int, task.read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


@dataclass
class Taken:
    """What a command took.

    Attributes:
        seconds, cpu_seconds: of the clock, and of all processors that the tree of processes kept busy.
        gigabytes: the largest anonymous memory of the tree at one moment; pages of files are not counted.
        status: how the command ended, 0 if well.
        errors: the end of what it wrote to stderr.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    gigabytes: float = 0.0
    status: int | None = None
    errors: str = ""


def watched(
    command: Sequence[str | Path],
    log: Path,
    keep: Callable[[Taken], None] = lambda taken: None,
    *,
    cwd: Path | None = None,
    every: float = 5.0,
) -> Taken:
    """Run a command and watch it; its output goes to ``log``. ``keep`` is handed what it took so far, now and then.

    CPU seconds are those the kernel adds up for a process and the children it waited for, at the end; until then those of the processes that are there.
    """
    began, taken, due = time.perf_counter(), Taken(), time.perf_counter() + every
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT, cwd=cwd)
        try:
            while True:
                there = tree_of(process.pid)
                taken.gigabytes = max(taken.gigabytes, sum(map(anonymous_bytes, there)) / 1e9)
                taken.seconds = time.perf_counter() - began
                if time.perf_counter() > due:
                    taken.cpu_seconds = max(taken.cpu_seconds, sum(map(_busy_seconds, there)))
                    keep(taken)
                    due = time.perf_counter() + every
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    taken.status = process.returncode = os.waitstatus_to_exitcode(status)
                    taken.cpu_seconds = max(taken.cpu_seconds, usage.ru_utime + usage.ru_stime)
                    break
                time.sleep(SAMPLED_EVERY)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    taken.seconds = time.perf_counter() - began
    taken.errors = "\n".join(log.read_text(errors="replace").splitlines()[-6:]) if taken.status else ""
    return taken


def _busy_seconds(process: int) -> float:
    """CPU seconds of a process and of the children it waited for."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def naq_command(*words: str | Path) -> list[str | Path]:
    """``naq ...`` with the Python that runs this benchmark."""
    return [sys.executable, "-m", "naq", *words]
