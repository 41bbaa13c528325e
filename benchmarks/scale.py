"""Time and memory of each stage on generated graphs of 0.1, 1 and 10 million nodes, 10 edges per node, memory-mapped.

    python benchmarks/scale.py [--nodes 100000 1000000 10000000] [--sparse] [--folder FOLDER]
    python benchmarks/scale.py --page      # docs/scale.png and the table of docs/scale.md from the results
    python benchmarks/scale.py --fetches   # the floor under smoothing: rows of 64 numbers in random order, added up

Every size runs in a separate process with one thread: open, rows of the diffusion table, naq-plus in its stages (64
columns), training episodes of ProtoNet with whole neighbourhoods (20) and with at most 32 neighbours of a node (1,000),
500 tasks. Of the diffusion table 2,000 rows are computed; the whole follows, since rows are independent. Memory is
anonymous: pages of mapped files can be dropped. On a machine that others use, compare CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from generate import generate
from measuring import DOCS, RESULTS, anonymous_bytes, machine, markdown, write_between
from naq.episodes import Episodes
from naq.files import write_json
from naq.heads import evaluate
from naq.io import load
from naq.learners import LEARNERS
from naq.neighbors.diffusion import TOLERANCE, push_arrays
from naq.neighbors.push import push_topk
from naq.tasks import sample_tasks
from naq_scale.blocks import BlockArray, RowPasses, closed_form, smooth_tiles, start_tiles
from naq_scale.blocks.shards import InThisProcess
from naq_scale.lanes import add_rows, line_aligned
from naq_scale.recall import recall, true_rows

WORDS, COLUMNS, CAP, TASKS, ROWS, STEPS = 2000, 64, 32, 500, 2000, 10
TRAINING = {"20 episodes": (20, 0), "1,000 episodes, capped": (1000, CAP)}
"""Episodes and the cap on hubs."""
DIFFUSION = f"diffusion, {ROWS:,} rows"
TABLE = f"diffusion table, from {ROWS:,} rows"
STAGES = (
    "generate", "open", "verify", TABLE, "words", "smoothing", "neighbours", "closed form", *TRAINING, "evaluation",
)  # fmt: skip
BLOCK = 1 << 16
"""Rows at a time."""


class Stopwatch:
    """Seconds, CPU seconds and peak memory of named stages."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float]] = {}
        self.peak, self.running = 0, True
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self.running:
            self.peak = max(self.peak, anonymous_bytes())
            time.sleep(0.02)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.peak = anonymous_bytes()
        began, cpu = time.perf_counter(), time.process_time()
        yield
        seconds, cpu = round(time.perf_counter() - began, 2), round(time.process_time() - cpu, 2)
        gigabytes = round(max(self.peak, anonymous_bytes()) / 1e9, 3)
        self.rows[name] = {"seconds": seconds, "cpu_seconds": cpu, "gigabytes": gigabytes}


def measure(folder: Path, nodes: int, sparse: bool) -> dict[str, Any]:
    """All stages of one size."""
    watch, place = Stopwatch(), folder / "graph"
    with watch.stage("generate"):
        generate(place, nodes, 10 * nodes, features=WORDS if sparse else COLUMNS, sparse=sparse)
    with watch.stage("open"):
        graph = load(place)
    with watch.stage("verify"):
        load(place, verify=True)
    facts: dict[str, Any] = {
        "nodes": nodes, "edges": graph.num_edges, "sparse": sparse, "largest_degree": int(graph.degrees.max()),
        "disk_gigabytes": round(sum(file.stat().st_size for file in place.iterdir()) / 1e9, 2),
    }  # fmt: skip
    with watch.stage("diffusion, start"):
        arrays = push_arrays(graph, True)
    with watch.stage(DIFFUSION):
        parts = np.linspace(0, nodes - ROWS // 10, 10).astype(int)
        visits = [push_topk(*arrays, 20, 0.1, TOLERANCE, None, (part, part + ROWS // 10))[3] for part in parts]
    facts["edge_visits"] = round(float(np.mean(visits)))
    del arrays
    bare = graph.without_labels()
    shards = InThisProcess(bare, folder)
    with watch.stage("words"):
        start = start_tiles(bare, COLUMNS, 0, shards, block=BLOCK, tile=None)
    with watch.stage("smoothing"):
        tiles, agreement = smooth_tiles(start, bare, shards, steps=STEPS, agreement=True, block=BLOCK)
    facts |= {"tile": start.grid[0][0].shape[1], "agreement": round(agreement, 3)}
    centred = RowPasses(shards, tiles, BLOCK).center().center().compute()
    del start, tiles
    with watch.stage("neighbours"):
        pairs = closed_form.near_pairs(centred, 10, "nearest", 0, BLOCK, shards)
    with watch.stage("closed form"):
        form = closed_form.remove_scatter(RowPasses(shards, centred, BLOCK), pairs, shrink=0.5, power=1.75)
        vectors = form.grid[0][0]
    # Episodes of nearest vectors: a table of all nodes is another stage, see Neighbours in docs/scale.md.
    wanted = np.sort(np.random.default_rng(0).choice(nodes, 500, replace=False))
    ids, _ = closed_form.neighbors_of_sample(BlockArray([[vectors]]), wanted, 10, 0, BLOCK, shards)
    facts["recall"] = recall(ids[:64], true_rows(vectors, wanted[:64], 10, "cosine")[0])
    most = max(count for count, _ in TRAINING.values())
    draws = np.random.default_rng(1).permuted(np.tile(np.arange(500), (most, 1)), axis=1)[:, :5]
    episodes = Episodes(wanted[draws][:, :, None], ids[draws], np.ones((most, 5, 10), dtype=bool), {})
    for name, (count, cap) in TRAINING.items():
        capped = {"hub_cap": cap} if cap else {}
        model = LEARNERS["protonet-capped" if cap else "protonet"](graph, way=5, **capped)
        optimizer = model.optimizer()
        model.step(episodes[:1], 0, optimizer)
        with watch.stage(name):
            for number in range(count):
                model.step(episodes[number : number + 1], number, optimizer)
        del model, optimizer
    tasks = sample_tasks(graph, way=5, shot=1, queries=8, count=TASKS, seed=0)
    with watch.stage("evaluation"):
        facts["accuracy"] = round(evaluate(vectors, tasks, "prototype").accuracy, 4)
    watch.running = False
    return facts | {"stages": watch.rows}


def row_fetches(nodes: int, fetches: int = 4_000_000) -> dict[str, float]:
    """CPU nanoseconds to fetch a row by the loop of smoothing, on one long list of random rows; the best of three."""
    rows, total = line_aligned((nodes, COLUMNS)), np.zeros(COLUMNS, dtype=np.float32)
    rows[:] = 1
    indices = np.random.default_rng(0).integers(0, nodes, fetches).astype(np.int32)
    add_rows(rows.reshape(-1), COLUMNS, indices, 0, 10, total, 0)  # compiles
    times = [time.process_time()]
    for _ in range(3):
        add_rows(rows.reshape(-1), COLUMNS, indices, 0, fetches, total, 0)
        times.append(time.process_time())
    each = 1e9 * float(np.diff(times).min()) / fetches
    bandwidth = round(4 * COLUMNS / each, 1)
    return {"nanoseconds": round(each, 1), "gigabytes_per_second": bandwidth, "load": round(os.getloadavg()[0], 1)}


def with_table(row: dict[str, Any]) -> dict[str, Any]:
    """A size, with the whole diffusion table as a stage: its start and as many rows as there are nodes."""
    start, some = row["stages"]["diffusion, start"], row["stages"][DIFFUSION]
    table = {key: round(start[key] + row["nodes"] / ROWS * some[key], 1) for key in ("seconds", "cpu_seconds")}
    table["gigabytes"] = max(start["gigabytes"], some["gigabytes"])
    return {**row, "stages": {**row["stages"], TABLE: table}}


def slope(rows: list[dict[str, Any]], stage: str) -> float:
    """Of a stage's CPU seconds over nodes on log-log axes, by least squares."""
    seconds = [max(row["stages"][stage]["cpu_seconds"], 1e-3) for row in rows if stage in row["stages"]]
    nodes = [row["nodes"] for row in rows if stage in row["stages"]]
    return float(np.polyfit(np.log(nodes), np.log(seconds), 1)[0]) if len(nodes) > 1 else float("nan")


def page_of(rows: list[dict[str, Any]]) -> str:
    """The table of one kind of features, a column per size."""
    what = f"{WORDS:,} words, sparse" if rows[0]["sparse"] else f"{COLUMNS} dense features"
    sizes = [f"{row['nodes'] / 1e6:g} M" for row in rows]
    lines = []
    for stage in STAGES:
        cells = [row["stages"].get(stage) for row in rows]
        form = "{cpu_seconds:,.1f} ({seconds:,.1f}), {gigabytes:.2f}"
        shown = [form.format(**cell) if cell else "not run" for cell in cells]
        lines.append([stage, *shown, f"{slope(rows, stage):.2f}"])
    heads = ["stage", *(f"{size} nodes" for size in sizes), "slope"]
    notes = {
        "On disk": ("disk_gigabytes", "{} GB"), "Largest degree": ("largest_degree", "{:,}"),
        "Edge visits per row of the diffusion table": ("edge_visits", "{:,}"),
        "Share of the true neighbours found": ("recall", "{:.3f}"),
        "Accuracy of 500 5-way 1-shot tasks": ("accuracy", "{:.1%}"),
    }  # fmt: skip
    loads = ", ".join(f"{size} {row['load_average']}" for size, row in zip(sizes, rows))
    said = [f"{t}: " + ", ".join(form.format(row[key]) for row in rows) + "." for t, (key, form) in notes.items()]
    title = (
        f"**{what}**, 10 edges per node: CPU seconds (seconds) and memory in GB; slope of CPU seconds over nodes on "
    )
    table = markdown(heads, lines, "|---|" + "---|" * (len(rows) + 1))
    return f"{title}log-log axes.\n\n{table}\n\nLoad average: {loads} on {rows[0]['cores']} cores. {' '.join(said)}"


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    for axes, key, title in zip(figure.subplots(1, 2), ("cpu_seconds", "gigabytes"), ("CPU seconds", "memory, GB")):
        for number, stage in enumerate(STAGES):
            there = [row for row in rows if stage in row["stages"]]
            line = "o-" if number < 10 else "s--"  # there are ten colours
            values = [row["stages"][stage][key] for row in there]
            axes.loglog([row["nodes"] for row in there], values, line, ms=4, label=stage)
        axes.set(xlabel="nodes", ylabel=title)
        axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(DOCS / "scale.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--folder", type=Path, help="where graphs and vectors go for a while")
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.json")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--fetches", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        before = os.getloadavg()[0]
        measure(given.folder / "small", 3000, given.sparse)  # compiles and loads
        facts = measure(given.folder / "run", given.nodes[0], given.sparse)
        load = [round(before, 1), round(os.getloadavg()[0], 1)]
        (given.folder / "facts.json").write_text(json.dumps({**machine(), **facts, "load_average": load}))
        return
    if given.fetches:
        write_json(RESULTS / "row_fetches.json", {nodes: row_fetches(nodes) for nodes in given.nodes})
        return
    known = json.loads(given.out.read_text()) if given.out.exists() else []
    if given.page:
        kinds = [[with_table(row) for row in known if row["sparse"] is kind] for kind in (True, False)]
        write_between(DOCS / "scale.md", "scale", "\n\n".join(page_of(rows) for rows in kinds if rows))
        draw(next(rows for rows in kinds if rows))
        return
    for nodes in given.nodes:
        with tempfile.TemporaryDirectory(dir=given.folder) as name:
            command = [sys.executable, __file__, "--worker", "--nodes", str(nodes), "--folder", name]
            one = {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "NUMBA", "OPENBLAS")}
            subprocess.run([*command, *["--sparse"] * given.sparse], check=True, env={**os.environ, **one})
            facts = json.loads(Path(name, "facts.json").read_text())
        known = [row for row in known if (row["nodes"], row["sparse"]) != (nodes, given.sparse)] + [facts]
        known.sort(key=lambda row: (row["sparse"], row["nodes"]))
        given.out.write_text(json.dumps(known, indent=1) + "\n")
        print(json.dumps(facts, indent=1), flush=True)


if __name__ == "__main__":
    main()
