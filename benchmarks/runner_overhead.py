"""What running cells costs, and what killing the runner loses.

    python benchmarks/runner_overhead.py                    all engines
    python benchmarks/runner_overhead.py --only processes --kills 5

For each engine: the start of its workers; 1,000 empty cells scheduled and stored; cells that sleep a second, against the time they
sleep; and a runner killed with signal 9 at random moments while it computes 200 cells of 20 ms, its whole process group and the runner alone by
turns. Results: benchmarks/results/runner_overhead.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naq.files import write_json
from naq_paper.cells.cell import Cell
from naq_paper.cells.runners import ENGINES, make_runner
from naq_paper.cells.store import Store

RESULTS = Path(__file__).resolve().parent / "results" / "runner_overhead.json"
WORKERS = 2
EMPTY = 1000
SLEEPERS, NAP = 20, 1.0
KILLED, BRIEF = 200, 0.02


def cells_of(count: int, seconds: float, first: int = 0) -> list[Cell]:
    return [Cell("empty", {"number": first + number, "seconds": seconds}) for number in range(count)]


def overhead(engine: str) -> dict[str, float]:
    """Seconds of start, of the empty cells, and of the sleeping ones over what they sleep."""
    at_once = 1 if engine == "local" else WORKERS
    with tempfile.TemporaryDirectory() as folder, make_runner(engine, WORKERS) as runner:
        store = Store(folder)

        def seconds(cells: list[Cell]) -> float:
            started = time.perf_counter()
            outcome = runner.run(cells, store)
            assert len(outcome.done) == len(cells), outcome.failed[:1]
            return time.perf_counter() - started

        start = seconds(cells_of(2 * WORKERS, 0.1, first=-100)) - 0.2 * WORKERS / at_once
        empty = seconds(cells_of(EMPTY, 0.0))
        wall = seconds(cells_of(SLEEPERS, NAP, first=EMPTY))
        started = time.perf_counter()
        read = sum(1 for _ in store.records())
        reading = time.perf_counter() - started
        assert read == EMPTY + SLEEPERS + 2 * WORKERS
    ideal = SLEEPERS * NAP / at_once
    return {
        "start_seconds": round(start, 2),
        "empty_seconds": round(empty, 2),
        "overhead_percent": round(100 * (wall / ideal - 1), 2),
        "read_seconds": round(reading, 2),
    }


def run_and_log(engine: str, folder: str, log: str) -> None:
    """A runner that is going to be killed; it writes down what it begins and what it reports as finished."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def listener(phase: str, facts: Mapping[str, Any]) -> None:
        assert not facts.get("error"), facts["error"]
        os.write(file, f"{phase} {facts.get('key', '-')}\n".encode())

    with make_runner(engine, WORKERS) as runner:
        runner.run(cells_of(KILLED, BRIEF), Store(folder), listener=listener)


def kill_repeatedly(engine: str, kills: int) -> dict[str, int]:
    """Kills at random moments, then a last run: what is lost, damaged, or computed twice."""
    moments = random.Random(0)
    # so long that the kills spread over all cells
    span = 2 * KILLED * BRIEF / kills / (1 if engine == "local" else WORKERS)
    with tempfile.TemporaryDirectory() as folder:
        log, store = Path(folder) / "log", Store(Path(folder) / "results")
        for turn in range(kills):
            _kill_once(engine, store, log, moments.uniform(0, span), group=turn % 2 == 0)
        lines = log.read_text().splitlines()
        finished = [line.split()[1] for line in lines if line.startswith("finished")]
        kept = {record.key for record in store.records()}
        before = len(kept)
        last = make_runner("local").run(cells_of(KILLED, BRIEF), store)
        begun = Counter(line.split()[1] for line in lines if line.startswith("begun"))
        return {
            "kills": kills,
            "reported_finished": len(set(finished)),
            "kept": before,
            "lost": len(set(finished) - kept),
            "damaged": len(store.set_aside),
            "begun_again_after_a_kill": sum(times - 1 for times in begun.values()),
            "begun_again_after_finished": sum(_begun_after(lines, key) for key in set(finished)),
            "complete_in_the_end": int(last.complete and len(last.skipped) == before),
        }


def _kill_once(engine: str, store: Store, log: Path, moment: float, *, group: bool) -> None:
    """Start a runner, wait until it has finished its first cell, wait a moment, kill it."""
    seen = log.read_text().count("finished") if log.exists() else 0
    child = subprocess.Popen(
        [sys.executable, __file__, "--child", engine, str(store.folder), str(log)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    while child.poll() is None and (not log.exists() or log.read_text().count("finished") == seen):
        time.sleep(0.002)
    time.sleep(moment)
    if child.poll() is None:
        (os.killpg if group else os.kill)(child.pid, signal.SIGKILL)
    child.wait()


def _begun_after(lines: list[str], key: str) -> bool:
    return f"begun {key}" in lines[lines.index(f"finished {key}") :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_and_log(*given.child)
        return
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for engine in given.only:
        found[engine] = {
            "workers": 1 if engine == "local" else WORKERS,
            **overhead(engine),
            **kill_repeatedly(engine, given.kills),
        }
        write_json(RESULTS, found)
    names = [name for name in ENGINES if name in found]
    print(f"{'':28}" + "".join(f"{name:>12}" for name in names))
    for figure in found[names[0]]:
        print(f"{figure.replace('_', ' '):28}" + "".join(f"{found[name].get(figure, ''):>12}" for name in names))


if __name__ == "__main__":
    main()
