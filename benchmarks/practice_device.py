"""``naq reproduce practice`` on a machine that is lent for minutes: the most important cells first, each kept at once.

    PYTHONPATH=src python benchmarks/practice_device.py --data FOLDER --out FOLDER --seconds 380 [--workers 15]
    PYTHONPATH=src python benchmarks/practice_device.py --data FOLDER --out FOLDER --skip records.jsonl    # what is left
    PYTHONPATH=src python benchmarks/practice_device.py --data FOLDER --store runs/practice records.jsonl  # as results

A worker is a process on one core (``--workers 0``: this one, for libraries whose threads end with a fork). Every finished
cell is a line of ``records.jsonl`` in the folder. ``--store`` files them as ``naq reproduce`` does, with a request per
graph for the methods that have all their draws.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")  # may be used after a fork

import naq_paper.cells.datasets as datasets
from naq.errors import MissingDependency
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.records import Record
from naq_paper.cells.runners import record_of
from naq_paper.cells.store import Store
from naq_paper.experiments.analyses.practice import DRAWS, OTHERS, OURS, SHOTS, SLOW, Practice
from naq_paper.experiments.folder import Requests
from naq_paper.experiments.request import Request
from naq_paper.measurements import Context
from naq_paper.measurements.practice import practice_cell, warm_up
from naq_paper.peers import PEERS

LARGEST_FIRST = ("debian", "coauthor-cs", "amazon-computers", "blogcatalog", "minesweeper", "actor", "payments", "citeseer", "cora")  # fmt: skip
FIRST = ("naq-plus", "gcn", "sage", "hops-logistic", "smooth-logistic", "tfidf-logistic", "ssgc", "sgc")
LAST = ("boosting", "self-training", "poisson-neighbors", "correct-and-smooth")
TOO_LONG = {"debian": ("boosting", "self-training")}
"""Methods that some graphs are not compared with, for the time they take."""


def methods(graph: str) -> list[str]:
    return [name for name in (*OURS, *OTHERS) if name not in TOO_LONG.get(graph, ())]


def ordered(graphs: Sequence[str], draws: int) -> list[Cell]:
    """The first half of the draws before the second, in each the methods by importance, of a method the largest graph first."""
    parts = [range(draws // 2), range(draws // 2, draws)] if draws > 1 else [range(draws)]
    middle = [name for name in (*OURS, *OTHERS) if name not in (*FIRST, *LAST)]
    tiers = [(part, some) for part in parts for some in (FIRST, middle)] + [(part, LAST) for part in parts]
    return [
        practice_cell(graph, name, shots=SHOTS, seed=seed)
        for part, some in tiers
        for graph in graphs
        for seed in part
        for name in some
        if name in methods(graph) and seed < SLOW.get(name, draws)
    ]


def work(core: int, cells: Sequence[Cell], taken: Any, found: Any, cache: DatasetCache, until: float) -> None:
    """The next cell that nobody has taken, until there is none."""
    import torch

    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    while time.time() < until:
        with taken.get_lock():
            place = taken.value
            taken.value += 1
        if place >= len(cells):
            break
        found.put(record_of(cells[place], identify(cells[place], cache), Context(cache, cache=None)).to_json())
    found.put(None)


def compute(cells: Sequence[Cell], cache: DatasetCache, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    until = given.started + given.seconds
    if not given.workers:
        for cell in cells:
            if time.time() < until:
                yield record_of(cell, identify(cell, cache), Context(cache, cache=None)).to_json()
        return
    fork = multiprocessing.get_context("fork")
    found, taken = fork.Queue(), fork.Value("i", 0)
    cores = sorted(os.sched_getaffinity(0))
    workers = [
        fork.Process(target=work, args=(cores[n % len(cores)], cells, taken, found, cache, until))
        for n in range(given.workers)
    ]
    for one in workers:
        one.start()
    running = len(workers)
    while running and time.time() < until:
        try:
            record = found.get(timeout=0.5)
        except Empty:
            continue
        if record is None:
            running -= 1
        else:
            yield record
    for one in workers:
        one.kill()


def load_all(graphs: Sequence[str], data: Path) -> DatasetCache:
    datasets.KEPT = 99
    cache = DatasetCache({graph: str(data / f"{graph.replace('-', '_')}.npz") for graph in graphs if graph != "debian"})
    for graph in graphs:
        cache.data_hash(graph)
    return cache


def keep(files: Sequence[str], folder: str, cache: DatasetCache, graphs: Sequence[str]) -> None:
    """File the records, and for every graph a request with the draws that are whole of our classifier and the methods that have them."""
    store = Store(folder)
    store.prepare()
    done: dict[tuple[str, str], set[int]] = {}
    for line in (line for file in files for line in Path(file).read_text().splitlines()):
        record = Record.from_json(json.loads(line))
        if record.cell.config["peer"] not in PEERS:
            continue
        if record.done:
            same = replace(record, identity=identify(record.cell, cache))
            if same.identity.data.partition(".")[0] != record.identity.data.partition(".")[0]:
                raise SystemExit(f"{record.cell.title} was computed on another graph.")
            store.put(same)
            done.setdefault((record.cell.config["dataset"], record.cell.config["peer"]), set()).add(
                record.cell.config["seed"]
            )
        else:
            print(record.cell.title, record.error)
    requests = []
    for graph in graphs:
        counts = {name: next(n for n in range(99) if n not in done.get((graph, name), ())) for name in methods(graph)}
        whole = counts[OURS[0]]
        needed = {name: min(whole, SLOW.get(name, whole)) for name in counts}
        kept = tuple(name for name in counts if counts[name] >= needed[name])
        print(graph, whole, "draws; not:", {name: n for name, n in counts.items() if name not in kept})
        if whole:
            requests.append(Request("practice", (graph,), seeds=whole, shots=SHOTS, methods=kept))
    Requests(requests, cache.paths).save(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="records to file, with --store")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--store", default="")
    parser.add_argument("--skip", nargs="*", default=[], help="records that are there")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--graphs", default=",".join(LARGEST_FIRST))
    parser.add_argument("--peers", default="")
    parser.add_argument("--workers", type=int, default=15)
    given = parser.parse_args()
    given.started = time.time()
    graphs = [name for name in LARGEST_FIRST if name in given.graphs.split(",")]
    cache = load_all(graphs, given.data)
    if given.store:
        keep(given.files, given.store, cache, [g for g in Practice.datasets if g in graphs])
        return 0
    lines = [json.loads(line) for file in given.skip for line in Path(file).read_text().splitlines()]
    known = {Cell(line["measurement"], line["config"]) for line in lines if line["result"]}
    wanted = [name for name in given.peers.split(",") if name] or list(PEERS)
    cells = [c for c in ordered(graphs, given.draws) if c not in known and c.config["peer"] in wanted]
    for name in wanted:
        try:
            warm_up(PEERS[name])  # compiled once, for all workers
        except MissingDependency as error:
            print(f"{name} is left out: {error}", flush=True)
            cells = [cell for cell in cells if cell.config["peer"] != name]
    print(f"{len(cells)} cells, {time.time() - given.started:.0f} s", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    done = 0
    with (given.out / "records.jsonl").open("a") as file:
        for record in compute(cells, cache, given):
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
            done += 1
            said = record["error"] or f"{record['seconds']:.1f} s"
            print(
                f"{time.time() - given.started:.0f} {record['config']['dataset']} {record['config']['peer']} {said}",
                flush=True,
            )
    print(f"{done} of {len(cells)} cells are done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
