"""How long the whole set of analyses takes on this machine, without running all of it.

    python benchmarks/overnight.py [--workers 1] [--out runs/overnight]

Cells of the standard budget on the bundled graph fall into kinds that cost about the same: a measurement and a method, with or without a perturbed
graph, with episodes of a size. One cell of each kind is computed as ``naq reproduce analyses`` with so many workers
would, with a part of its episodes or epochs; the seconds of its training are scaled up to all of them. The estimate is the
sum over kinds of the number of cells times that, divided by the workers: an upper bound, as if no training stopped early. It
resumes: finished cells are kept in the folder.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import naq
from naq.files import write_json
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.machine import machine
from naq_paper.cells.runners import Setup, make_runner
from naq_paper.cells.store import Store
from naq_paper.experiments.datasets import experiments_of, facts_of
from naq_paper.experiments.experiment import cells_of, expand
from naq_paper.experiments.request import Request

HERE = Path(__file__).resolve().parent
SIZES = (60, 115, 160, 260)
"""Nodes of an episode that cells of one kind have at most: 5-way, 10-way, 30 queries, 20-way; more is a kind of its own."""
NOISE = ("structure-noise", "feature-noise")
EPISODES, EPOCHS = 160, 5
"""Of a sample."""


def kind_of(cell: Cell) -> str:
    """Cells of the same kind cost about the same."""
    config = cell.config
    parts = [cell.measurement if "method" not in config else str(config["method"])]
    if cell.measurement == "tail-map":
        parts.append("map")
    perturbation = (config.get("perturbation") or {}).get("name")
    if perturbation in NOISE or (perturbation == "imbalance" and config["method"] == "naq-diff/protonet"):
        parts.append("perturbed graph")
    episode = config.get("episode") or {}
    if "queries" in episode:
        nodes = (episode["way"] or config["way"]) * (1 + episode["queries"])
        parts.append(next((f"{size} nodes" for size in SIZES if nodes <= size), "many nodes"))
    return ", ".join(parts)


def shortened(cell: Cell) -> tuple[Cell, float]:
    """The cell with a part of its training, and how many times that part the whole is."""
    config = dict(cell.config)
    if "episodes" in config:
        times = config["episodes"] / EPISODES
        return Cell(cell.measurement, {**config, "episodes": EPISODES}), times
    if "epochs" in (options := config.get("options", {})):
        times = options["epochs"] / EPOCHS
        return Cell(cell.measurement, {**config, "options": {**options, "epochs": EPOCHS}}), times
    return cell, 1.0


def dearest(cells: list[Cell]) -> Cell:
    """The cell of a kind that costs most: the whole graph in epochs, else the last: the strongest perturbation, the most queries."""
    whole = [
        cell for cell in cells if not cell.config.get("perturbation") and "epochs" in cell.config.get("options", {})
    ]
    return whole[0] if whole else cells[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/overnight"))
    given = parser.parse_args()
    dataset_cache = DatasetCache()
    facts = {"debian": facts_of("debian", dataset_cache)}
    requests = [Request(name, ("debian",), facts=facts) for name in experiments_of("analyses")]
    cells = cells_of(study for request in requests for study in expand(request, lambda cell: None))
    kinds: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        kinds[kind_of(cell)].append(cell)
    store, setup = Store(given.out), Setup()
    samples = {kind: shortened(dearest(found)) for kind, found in kinds.items()}

    def listener(phase: str, said: Mapping[str, Any]) -> None:
        if phase == "finished":
            print(f"{said['cell']}: {said['error'] or format(said['seconds'], '.1f') + ' s'}", flush=True)

    with make_runner("processes" if given.workers > 1 else "local", given.workers) as runner:
        runner.run([cell for cell, _ in samples.values()], store, setup, listener)
    rows: list[dict[str, Any]] = []
    for kind, found in kinds.items():
        cell, times = samples[kind]
        record = store.get(identify(cell, dataset_cache).key(cell))
        if record is None or record.result is None:
            raise SystemExit(f"no cell of kind {kind!r} finished; run this again.")
        parts = record.result.get("seconds")
        # a map keeps no parts: all of it is scaled, which is too much for the picture and right for the training
        training = parts.get("train", 0.0) if isinstance(parts, dict) else record.seconds if times > 1 else 0.0
        seconds = record.seconds + (times - 1) * training
        rows.append(
            {"kind": kind, "cells": len(found), "seconds": round(seconds, 1), "total": round(len(found) * seconds, 1)}
        )
    rows.sort(key=lambda row: -row["total"])
    total = sum(row["total"] for row in rows)
    hours = total / given.workers / 3600
    print(f"\n{'kind':44} cells  s each   total min")
    for row in rows:
        print(f"{row['kind']:44} {row['cells']:5} {row['seconds']:7.1f} {row['total'] / 60:9.1f}")
    print(f"{len(cells)} cells, {total / 3600:.1f} h in one process, {hours:.1f} h with {given.workers} workers")
    write_json(
        HERE / "results" / "overnight.json",
        {
            "naq": naq.__version__,
            "machine": machine(),
            "workers": given.workers,
            "cells": len(cells),
            "hours": round(hours, 2),
            "kinds": rows,
        },
    )


if __name__ == "__main__":
    main()
