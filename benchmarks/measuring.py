"""What benchmarks share: folders, the machine, time and memory of a command, tables and their places in a page."""

from __future__ import annotations

import multiprocessing
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"
DATA = Path(os.environ.get("NAQ_SHARED_DATA") or ROOT.parent / "shared" / "data")
"""The folder of the graphs that are not bundled."""
EVERY = 0.05
"""Seconds between two looks at the memory of a command."""


def write_between(page: Path, mark: str, text: str) -> None:
    """Put ``text`` between ``<!-- mark:begin -->`` and ``<!-- mark:end -->``, which the page has once each."""
    content, begin, end = page.read_text(encoding="utf-8"), f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    if content.count(begin) != 1 or content.count(end) != 1:
        raise SystemExit(f"{page} needs {begin} and {end} once each.")
    before, rest = content.split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], rule: str = "") -> str:
    """A table; ``rule`` is the line below its head, if it is not one of plain dashes."""
    rule = rule or "| " + " | ".join(["---"] * len(head)) + " |"
    head_line, *lines = ("| " + " | ".join(row) + " |" for row in [head, *rows])
    return "\n".join([head_line, rule, *lines])


def machine() -> dict[str, Any]:
    """Processor, cores, memory, versions and load."""
    import torch

    facts = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in facts if "model name" in line]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gibibytes": round(memory, 1),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def anonymous_bytes(process: int | str = "self") -> int:
    """Memory that a process holds itself, without pages of files; 0 if the process is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def processes_below(process: int) -> list[int]:
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
class Cost:
    """What a command took, with all that it started.

    Attributes:
        seconds, cpu_seconds: of the clock and of all processors.
        gigabytes: the largest anonymous memory at one moment; pages of files are not counted.
        status: how the command ended, 0 if well.
        errors: the end of what it wrote, if it did not end well.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    gigabytes: float = 0.0
    status: int = 0
    errors: str = ""


def run_measured(command: Sequence[str | Path], log: Path, cwd: Path | None = None) -> Cost:
    """Run a command and measure it; its output goes to ``log``."""
    began, cost = time.perf_counter(), Cost()
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT, cwd=cwd)
        try:
            while True:
                held = sum(map(anonymous_bytes, processes_below(process.pid)))
                cost.gigabytes = max(cost.gigabytes, held / 1e9)
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    break
                time.sleep(EVERY)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    cost.seconds, cost.cpu_seconds = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    cost.status = process.returncode = os.waitstatus_to_exitcode(status)
    cost.errors = "\n".join(log.read_text(errors="replace").splitlines()[-6:]) if cost.status else ""
    return cost


def in_new_process(task: Callable[..., Any], *arguments: Any) -> Any:
    """What the task returns, computed in a process whose memory is then its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def naq_command(*words: str | Path) -> list[str | Path]:
    """``naq ...`` with the Python that runs this benchmark."""
    return [sys.executable, "-m", "naq", *words]
