"""Kills a computation at every write it makes, before and after the file gets its name, and lets it go on: a program of its own.

    python tests/kill_at_each_write.py run|cells|import FOLDER [EVERY]

Each kill is a process of its own that ends as by ``kill -9``; then another one computes the rest. Prints JSON: kills, and what differed from
a computation that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # nothing to lose in a fork
sys.path.insert(0, str(Path(__file__).parent))

import damaged_files as files
from naq.files import writing


class Counted:
    """Writes are counted; at one of them the process ends."""

    def __init__(self, at: int | None) -> None:
        self.at, self.count = at, 0
        self.sync, self.replace = os.fsync, Path.replace
        os.fsync = self._sync
        Path.replace = lambda source, target: self._replace(source, target)  # type: ignore[assignment, method-assign]

    def _point(self) -> None:
        self.count += 1
        if self.count == self.at:
            os._exit(9)

    def _sync(self, handle: int) -> None:
        self.sync(handle)
        self._point()

    def _replace(self, source: Path, target: Path) -> Path:
        result = self.replace(source, target)
        self._point()
        return result


def run(folder: Path) -> Any:
    """One training with checkpoints, and what it left."""
    from naq.protocol import run as train
    from naq.training import loop

    loop.CHECKPOINT_SECONDS = 0.0
    options = {"options": {"latent": 8}, "episode": {"queries": 3}, "cache": folder / "cache", "baseline": False}
    found = train(
        files._labelled(), "naq-feat/protonet", way=2, episodes=32, evaluate_every=8, out=folder / "run", **options
    )
    names = {p.name for p in (folder / "run").iterdir() if not p.name.startswith(".")}
    left = sorted(names - {"curve.png", "damaged"})  # a picture is nothing to lose
    return [found.accuracy, [e.accuracy for e in found.evaluations.values()], found.facts["best_step"], left]


def cells(folder: Path) -> Any:
    """A few cells, their records, the pack of them."""
    from naq.experiments.folder import pack_folder
    from naq.grid.cells import Cell
    from naq.grid.runners import make_runner
    from naq.grid.store import Store

    store = Store(folder / "results")
    wanted = [Cell("empty", {"number": number}) for number in range(5)]
    with make_runner("local", 1) as runner:
        outcome = runner.run(wanted, store)
    files._make_requests(folder / "results")
    pack_folder(folder / "results", folder / "p.zip")
    kept = [record.to_json() for record in store.records()]
    return [
        outcome.complete,
        [[r["key"], r["result"]] for r in kept],
        files._read_pack(folder / "p.zip") != "",
        store.set_aside,
    ]


def import_tables(folder: Path) -> Any:
    """Two tables to a graph file."""
    from naq.data import import_tables as read
    from naq.data import load, save_graph

    folder.mkdir(parents=True, exist_ok=True)
    save_graph(folder / "g.npz", read(*files._tables(folder))[0])
    return load(folder / "g.npz").hash


WORK: dict[str, Callable[[Path], Any]] = {"run": run, "cells": cells, "import": import_tables}


def in_child(work: Callable[[Path], Any], folder: Path, at: int | None) -> tuple[int, Any, int]:
    """Exit code, result and writes of the work in a process of its own."""
    answer = folder.with_suffix(".json")
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            warnings.simplefilter("ignore")
            counted = Counted(at)
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


def main() -> None:
    kind, place, every = sys.argv[1], Path(sys.argv[2]), int((*sys.argv, "1")[3])
    import naq.data
    import naq.experiments.analyses.label_noise
    import naq.grid.measurements.empty
    import naq.grid.runners
    import naq.protocol.runs  # every child has them then
    import report_folders

    _ = naq, writing, report_folders
    code, expected, count = in_child(WORK[kind], place / "whole", None)
    assert code == 0
    kills, wrong = 0, []
    for at in range(1, count + 1, every):
        folder = place / f"killed-{at}"
        code, _, _ = in_child(WORK[kind], folder, at)
        kills += code == 9
        code, found, _ = in_child(WORK[kind], folder, None)
        if code != 0 or found != expected:
            wrong.append([at, code, found])
    print(json.dumps({"kind": kind, "points": count, "kills": kills, "wrong": wrong}))


if __name__ == "__main__":
    main()
