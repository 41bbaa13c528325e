"""How long the whole set of analyses takes on this machine, without running all of it.

    python benchmarks/overnight.py [--workers 2] [--out runs/overnight]

Cells of the standard budget on the bundled graph fall into kinds that cost about the same: a work and a method, with or without a changed
graph, with small or large episodes. One cell of each kind is computed as ``naq reproduce analyses --workers 2`` would, so early
stops are real; the time of a kind is the number of its cells times that. The sum over kinds, divided by the workers, is the
estimate. It resumes: finished cells are kept in the folder.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import naq  # first: it sets how threads wait
from naq.experiments.asking import Ask
from naq.experiments.bench import Bench
from naq.experiments.cells import Cell
from naq.experiments.code import identify
from naq.experiments.machine import machine
from naq.experiments.reproduction import cells_of, facts_of, names_of
from naq.experiments.runners import Setup, make_runner
from naq.experiments.store import Store
from naq.files import write_json

HERE = Path(__file__).resolve().parent
LARGE = 110
"""Nodes of an episode above which it counts as large: a 10-way episode of ten queries has 110."""
NOISE = ("structure-noise", "feature-noise")


def kind_of(cell: Cell) -> str:
    """Cells of the same kind cost about the same."""
    config = cell.config
    parts = [cell.work if "method" not in config else str(config["method"])]
    if cell.work == "tail-map":
        parts.append("map")
    change = (config.get("change") or {}).get("name")
    if change in NOISE or (change == "imbalance" and config["method"] == "naq-diff/protonet"):
        parts.append("changed graph")
    episode = config.get("episode") or {}
    if "queries" in episode and (episode["way"] or config["way"]) * (1 + episode["queries"]) > LARGE:
        parts.append("large episodes")
    return ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/overnight"))
    given = parser.parse_args()
    bench = Bench()
    facts = {"debian": facts_of("debian", bench)}
    cells = cells_of([Ask(name, ("debian",), facts=facts) for name in names_of("analyses")], lambda cell: None)
    kinds: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        kinds[kind_of(cell)].append(cell)
    store, setup = Store(given.out), Setup()
    samples = {kind: found[-1] for kind, found in kinds.items()}  # the last one: the strongest change, the most queries
    with make_runner("processes", given.workers) as runner:
        runner.run(
            list(samples.values()),
            store,
            setup,
            lambda phase, said: phase == "finished" and print(said["cell"], f"{said['seconds']:.1f} s", flush=True),
        )
    rows = []
    for kind, found in kinds.items():
        record = store.get(identify(samples[kind], bench).key(samples[kind]))
        if record is None:
            raise SystemExit(f"no cell of kind {kind!r} finished; run this again.")
        rows.append(
            {
                "kind": kind,
                "cells": len(found),
                "seconds": round(record.seconds, 1),
                "total": round(len(found) * record.seconds, 1),
            }
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
