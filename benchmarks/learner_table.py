"""All learners under all ways to make episodes, and the methods without episodes, on two graphs: one command that resumes, one page.

    python benchmarks/learner_table.py                 train what is missing, then write docs/learners.md
    python benchmarks/learner_table.py --workers 2     the same in two processes (also beside each other on other machines)
    python benchmarks/learner_table.py --page          write the page from what is there
    python benchmarks/learner_table.py --only debian naq-feat --device cuda --minutes 9

A cell is one training. For every graph, learner and kind of episodes up to three candidate settings are trained with seed 0; the
one with the best accuracy on validation tasks (1-shot) is trained with seeds 1 and 2 as well. Under NaQ one training serves 1-shot and
5-shot tasks; supervised episodes have the shot of the tasks, so the 5-shot column is a training of its own with the setting chosen
for 1-shot. Test tasks choose nothing. Finished cells are kept in benchmarks/results/cells, one JSON file each, and packed into
results/learner_cells.json.xz with the page, so that a fresh clone starts from them (delete both to compute all anew); a cell that was
interrupted goes on from its checkpoint. Other graphs than the bundled one are looked for in ``$NAQ_SHARED_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import naq  # first: it sets how threads wait
from naq.experiments.tuning import CANDIDATES as ALL_CANDIDATES

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("NAQ_SHARED_DATA") or HERE.parents[1] / "shared" / "data")
CELLS = HERE / "results" / "cells"
RUNS = HERE / "results" / "runs" / "learners"
ARCHIVE = HERE / "results" / "learner_cells.json.xz"
SUMMARY = HERE / "results" / "learner_table.json"
PAGE = HERE.parent / "docs" / "learners.md"
KINDS = ("naq-feat", "naq-diff", "supervised")
DATASETS = {"debian": "debian", "coauthor_cs": str(DATA / "coauthor_cs.npz")}
SCHEDULE = {"episodes": 3200, "evaluate_every": 160, "patience": 5}
SEEDS = (0, 1, 2)
LEARNERS = ("protonet", "maml", "gmeta", "tent", "glitter", "cosmic", "gpn", "teg")
CANDIDATES = {name: ALL_CANDIDATES[name] for name in LEARNERS}
RIVALS = {name: candidates for name, candidates in ALL_CANDIDATES.items() if name not in LEARNERS}
"""Candidates of the methods without episodes."""
EPOCHS = {"bgrl": 300, "sugrl": 300, "afgrl": 150, "cola": 200}
"""How long they train at most, where that is not their default; validation and patience are their own."""
UNTRAINED = ({"latent": 64}, {"latent": 128}, {"latent": 256})


@dataclass(frozen=True)
class Cell:
    """One training, or one embedding without any."""

    dataset: str
    method: str
    options: dict[str, Any] = field(hash=False)
    shot: int = 1
    seed: int = 0

    @property
    def key(self) -> str:
        settings = "_".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.options.items()
        )
        return (
            f"{self.dataset}~{self.method.replace('/', '-')}~{settings or 'defaults'}~{self.shot}shot~seed{self.seed}"
        )

    @property
    def file(self) -> Path:
        return CELLS / f"{self.key}.json"

    def result(self) -> dict[str, Any] | None:
        """What was found, if it is there and was found under this schedule."""
        if not self.file.exists():
            return None
        found = json.loads(self.file.read_text())
        trained = "/" not in self.method or all(found["config"][name] == value for name, value in SCHEDULE.items())
        return found if trained else None


def kinds_of(name: str) -> tuple[str, ...]:
    """The names a candidate's row is run under: one per kind of episodes, or its own."""
    return (name,) if name in RIVALS else tuple(f"{kind}/{name}" for kind in KINDS)


def groups(only: list[str]) -> Iterator[tuple[str, str]]:
    """(dataset, method) pairs, cheap ones first."""
    parts = [{*DATASETS} & {*only}, {*KINDS} & {*only}, {*CANDIDATES, *RIVALS} & {*only}]
    for name in (*CANDIDATES, *RIVALS):
        for dataset in DATASETS:
            for method in kinds_of(name):
                words = {dataset, *method.split("/")}
                if all(not part or part & words for part in parts):
                    yield dataset, method


def candidates(dataset: str, method: str) -> list[Cell]:
    return [Cell(dataset, method, options) for options in {**CANDIDATES, **RIVALS}[method.split("/")[-1]]]


def chosen(dataset: str, method: str) -> Cell | None:
    """The candidate with the best validation accuracy, the first of equals; None while one is missing."""
    tried = candidates(dataset, method)
    found = [cell.result() for cell in tried]
    if any(result is None for result in found):
        return None
    return tried[max(range(len(tried)), key=lambda i: (found[i]["facts"]["valid_accuracy"], -i))]  # type: ignore[index]


def final_cells(dataset: str, method: str, shot: int) -> list[Cell]:
    """The cells behind a row of the table, one per seed; empty while the setting is not chosen."""
    best = chosen(dataset, method)
    if best is None:
        return []
    trained = shot if method.startswith("supervised") else 1
    return [Cell(dataset, method, best.options, trained, seed) for seed in SEEDS]


def untrained_cells(dataset: str) -> list[Cell]:
    return [Cell(dataset, "untrained", options, 1, seed) for options in UNTRAINED for seed in SEEDS]


def missing(only: list[str]) -> list[Cell]:
    """Cells that can be computed now: candidates first, then further seeds and shots of what is chosen."""
    found: dict[str, Cell] = {}
    wanted = list(groups(only))
    for dataset, method in wanted:
        for cell in candidates(dataset, method):
            found[cell.key] = cell
    for dataset, method in wanted:
        for shot in (1, 5):
            for cell in final_cells(dataset, method, shot):
                found[cell.key] = cell
    for dataset in dict.fromkeys(dataset for dataset, _ in wanted):
        for cell in untrained_cells(dataset):
            found[cell.key] = cell
    return [cell for cell in found.values() if cell.result() is None]


class Claim:
    """A cell belongs to one process of this machine at a time; a claim of a dead process is taken over."""

    def __init__(self, cell: Cell) -> None:
        self.path = CELLS / f"{cell.key}.claim"
        self.held = self._take() or (self._stale() and self._take())

    def _take(self) -> bool:
        try:
            with self.path.open("x") as file:
                file.write(str(os.getpid()))
            return True
        except FileExistsError:
            return False

    def _stale(self) -> bool:
        try:
            os.kill(int(self.path.read_text() or -1), 0)
            return False
        except FileNotFoundError:
            return True
        except (ProcessLookupError, ValueError, PermissionError):
            self.path.unlink(missing_ok=True)
            return True

    def release(self) -> None:
        self.path.unlink(missing_ok=True)


def pack() -> None:
    """All finished cells in one file."""
    from naq.files import write_atomically

    cells = {file.name: json.loads(file.read_text()) for file in sorted(CELLS.glob("*.json"))}
    text = json.dumps(cells, separators=(",", ":")).encode()
    write_atomically(ARCHIVE, lambda path: path.write_bytes(lzma.compress(text, preset=9)))


def unpack() -> None:
    """Cells of the packed file that are not here yet."""
    CELLS.mkdir(parents=True, exist_ok=True)
    if ARCHIVE.exists():
        for name, found in json.loads(lzma.decompress(ARCHIVE.read_bytes())).items():
            if not (CELLS / name).exists():
                (CELLS / name).write_text(json.dumps(found))


_graphs: dict[str, naq.Graph] = {}


def graph_of(dataset: str) -> naq.Graph:
    if dataset not in _graphs:
        _graphs.clear()
        _graphs[dataset] = naq.load(DATASETS[dataset])
    return _graphs[dataset]


def compute(cell: Cell, device: str) -> None:
    """Train and test one cell; its file is written last."""
    from naq.data import tasks_path
    from naq.files import write_json

    folder = RUNS / cell.key
    start = time.perf_counter()
    result = naq.run(
        graph_of(cell.dataset), cell.method, shot=cell.shot, also_shots=() if cell.shot == 5 else (5,), seed=cell.seed, tasks=tasks_path(DATASETS[cell.dataset]),
        device=device, out=folder, options=cell.options, **(SCHEDULE if "/" in cell.method else {"epochs": EPOCHS.get(cell.method)}),
    )  # fmt: skip
    data = result.to_json()
    data["cell"] = asdict(cell)
    data["machine"] = device if device == "cpu" else "cuda"
    data["wall_seconds"] = round(time.perf_counter() - start, 1)
    write_json(cell.file, data)
    shutil.rmtree(folder, ignore_errors=True)
    line = f"{cell.key}: {100 * result.accuracy:.2f} %, valid {100 * result.facts.get('valid_accuracy', float('nan')):.2f} %"
    print(
        f"{line}, {result.facts.get('episodes_trained', 0)} {result.facts.get('unit', 'episodes')}, {data['wall_seconds']:.0f} s",
        flush=True,
    )


def warm(only: list[str]) -> None:
    """Neighbour tables into the cache, so that workers do not each make their own."""
    from naq.graph import weighted
    from naq.neighbors.subgraphs import ppr_subgraphs
    from naq.neighbors.table import cache_folder

    for dataset in {cell.dataset: None for cell in missing(only)}:
        graph = weighted(graph_of(dataset), "auto").without_labels()
        naq.feature_neighbors(graph, 10, cache=cache_folder())
        naq.diffusion_neighbors(graph, 10, cache=cache_folder())
        ppr_subgraphs(graph, 20, cache=cache_folder())


def work(only: list[str], device: str, minutes: float | None) -> None:
    """Compute what is missing and unclaimed until nothing is left or the time is over."""
    started = time.perf_counter()
    CELLS.mkdir(parents=True, exist_ok=True)
    failed: set[str] = set()
    while True:
        left = [cell for cell in missing(only) if cell.key not in failed]
        if not left:
            return
        # Stay with the graph that is loaded: another one costs seconds.
        left.sort(key=lambda cell: cell.dataset not in _graphs)
        busy = True
        for cell in left:
            if minutes is not None and time.perf_counter() - started > 60 * minutes:
                return
            claim = Claim(cell)
            if not claim.held:
                continue
            try:
                if cell.result() is None:
                    compute(cell, device)
            except naq.errors.NaqError as error:
                failed.add(cell.key)
                print(f"{cell.key}: {error}", file=sys.stderr, flush=True)
            finally:
                claim.release()
            busy = False
            break
        if busy:
            time.sleep(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="datasets, kinds of episodes, learners")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None, help="begin no cell after so long")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--page", action="store_true", help="write the page only")
    given = parser.parse_args()
    unpack()
    if not given.page:
        again = [sys.executable, __file__, "--device", given.device, "--only", *given.only]
        again += ["--minutes", str(given.minutes)] if given.minutes is not None else []
        if given.workers > 1:
            warm(given.only)
        others = [subprocess.Popen([*again, "--worker"]) for _ in range(given.workers - 1)]
        try:
            work(given.only, given.device, given.minutes)
            for other in others:
                other.wait()
        except KeyboardInterrupt:
            print("Stopped; finished cells stay, and the same command goes on.", file=sys.stderr)
            raise SystemExit(130) from None
        if given.worker:
            return
    from learner_page import write_page

    write_page()
    pack()
    print(f"Written: {PAGE} and {SUMMARY} ({platform.machine()})")


if __name__ == "__main__":
    main()
