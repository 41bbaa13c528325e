"""Time and memory of each stage on generated graphs of 0.1, 1 and 10 million nodes, 10 edges per node, memory-mapped.

    python benchmarks/scale.py [--nodes 100000 1000000 10000000] [--sparse] [--folder FOLDER] [--out benchmarks/results/scale.json]
    python benchmarks/scale.py --sparse --diffusion                # only the two stages of the diffusion table, beside what the results have of the others
    python benchmarks/scale.py --sparse --smoothing                # the same for smoothing; graph and words are made again, but only smoothing is recorded
    python benchmarks/scale.py --page      # docs/scale.png and the tables of docs/scale.md from the results

Every size runs in a process of its own: generate, open, rows of the diffusion table, naq-plus in its stages (64 columns), training episodes of ProtoNet without (20) and with (1,000) a cap on hubs,
500 tasks. Of the diffusion table 2,000 rows are computed, spread over all nodes; what the whole would take follows, since rows are independent. Recorded are seconds, CPU seconds, the largest anonymous memory (what the program holds; pages of mapped files can be dropped) and the load average. On a machine that others use, CPU seconds are what to
compare; one thread, so that none are spent waiting for another. A size that is measured again replaces the earlier one.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marked_page import write_between
from watched_process import anonymous_bytes

ROOT = Path(__file__).parents[1]
RESULTS, PAGE, PICTURE = (
    Path(__file__).parent / "results" / "scale.json",
    ROOT / "docs" / "scale.md",
    ROOT / "docs" / "scale.png",
)
FETCHES = Path(__file__).parent / "results" / "row_fetches.json"
BEGIN, END = "<!-- scale:begin -->", "<!-- scale:end -->"
WORDS, COLUMNS, CAP, TASKS, ROWS, STEPS = 2000, 64, 32, 500, 2000, 10
TRAINING = {"20 episodes": (20, 0), "1,000 episodes, capped": (1000, CAP)}
"""Episodes and the cap on hubs."""
DIFFUSION = f"diffusion, {ROWS:,} rows"
TABLE = f"diffusion table, from {ROWS:,} rows"
STAGES = (
    "generate", "open", "verify", TABLE, "words", "smoothing", "neighbours", "closed form", *TRAINING, "evaluation",
)  # fmt: skip


class Stopwatch:
    """Seconds, CPU seconds and peak memory of named stages."""

    def __init__(self, keep: Callable[[dict[str, Any]], None] = lambda rows: None) -> None:
        self.rows: dict[str, dict[str, float]] = {}
        self.keep = keep
        self._peak, self.running = 0, True
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self.running:
            self._peak = max(self._peak, anonymous_bytes())
            time.sleep(0.02)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._peak = anonymous_bytes()
        began, cpu = time.perf_counter(), time.process_time()
        yield
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        peak = max(self._peak, anonymous_bytes())
        self.rows[name] = {
            "seconds": round(seconds, 2),
            "cpu_seconds": round(cpu, 2),
            "gigabytes": round(peak / 1e9, 3),
        }
        print(f"  {name:18} {seconds:9.1f} s {cpu:9.1f} CPU s {peak / 1e9:7.2f} GB", flush=True)
        self.keep(self.rows)


def warm_up(folder: Path, sparse: bool) -> None:
    """Compile and load everything that is timed, on a small graph, what is for large ones too."""
    from naq_scale.blocks import smoothing

    usual = smoothing.LARGE, smoothing.GAIN
    smoothing.LARGE, smoothing.GAIN = 0, -1.0
    measure(folder / "small", 3000, sparse, None, {})
    smoothing.LARGE, smoothing.GAIN = usual


def measure(
    folder: Path, nodes: int, sparse: bool, watch: Stopwatch | None, facts: dict[str, Any], only: str = ""
) -> None:
    """All stages, or those up to the ``only`` one; ``facts`` is added to. None as ``watch`` times nothing."""
    import torch

    from generate import generate
    from naq.episodes import Episodes
    from naq.heads import evaluate
    from naq.io import load
    from naq.learners import LEARNERS
    from naq.neighbors.diffusion import TOLERANCE, push_arrays
    from naq.neighbors.feature_exact import recall, true_rows
    from naq.neighbors.push import push_topk
    from naq.tasks import sample_tasks
    from naq_scale.blocks import Pieces, RowPasses, closed_form, narrow_start, smoothed_tiles
    from naq_scale.blocks.shards import InThisProcess

    quiet = watch is None
    watch = Stopwatch() if watch is None else watch
    if quiet:
        globals()["print"] = lambda *_, **__: None
    folder.mkdir(parents=True, exist_ok=True)
    place, features = folder / "graph", WORDS if sparse else COLUMNS
    with watch.stage("generate"):
        generate(place, nodes, 10 * nodes, features=features, sparse=sparse)
    facts["disk_gigabytes"] = round(sum(file.stat().st_size for file in place.iterdir()) / 1e9, 2)
    with watch.stage("open"):
        graph = load(place)
    with watch.stage("verify"):
        load(place, verify=True)
    facts |= {"nodes": graph.num_nodes, "edges": graph.num_edges, "largest_degree": int(graph.degrees.max())}
    with watch.stage("diffusion, start"):
        arrays = push_arrays(graph, True)
    with watch.stage(DIFFUSION):
        parts = np.linspace(0, nodes - ROWS // 10, 10).astype(int)
        visits = [push_topk(*arrays, 20, 0.1, TOLERANCE, None, (part, part + ROWS // 10))[3] for part in parts]
    facts["edge_visits"] = round(float(np.mean(visits)))
    del arrays
    if only == "diffusion":
        return
    block = 1 << 16
    bare = graph.without_labels()
    parts = InThisProcess(bare, folder)
    with watch.stage("words"):
        start = narrow_start(bare, COLUMNS, 0, parts, block=block, tile=None)
    facts["tile"] = start.grid[0][0].shape[1]
    with watch.stage("smoothing"):
        tiles, agreement = smoothed_tiles(start, bare, parts, steps=STEPS, agreement=True, block=block)
    facts["agreement"] = round(agreement, 3)
    if only == "smoothing":
        return
    centred = RowPasses(parts, tiles, block).centred().centred().kept()
    del start, tiles
    with watch.stage("neighbours"):
        pairs = closed_form.near_pairs(centred, 10, "nearest", 0, block, parts)
    with watch.stage("closed form"):
        vectors = closed_form.without_scatter(RowPasses(parts, centred, block), pairs, shrink=0.5, power=1.75).grid[0][
            0
        ]
    # Episodes of nearest vectors: a table of all nodes is another stage, see Neighbours in docs/scale.md.
    wanted = np.sort(np.random.default_rng(0).choice(nodes, 500, replace=False))
    ids, _ = closed_form.sampled_neighbors(Pieces([[vectors]]), wanted, 10, 0, block, parts)
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
            for number in range(3 if quiet else count):
                model.step(episodes[number : number + 1], number, optimizer)
        del model, optimizer
    tasks = sample_tasks(graph, way=5, shot=1, queries=8, count=TASKS, seed=0)
    with watch.stage("evaluation"):
        facts["accuracy"] = round(evaluate(vectors, tasks, "prototype").accuracy, 4)
    facts["torch_threads"] = torch.get_num_threads()
    if quiet:
        watch.running = False
        del globals()["print"]


def worker(nodes: int, sparse: bool, folder: Path, only: str) -> None:
    """All stages of one size; the file of facts grows with every stage, so that a run that is stopped leaves those it finished."""
    warm_up(folder, sparse)
    before, facts = os.getloadavg(), {"nodes": nodes, "edges": 10 * nodes, "sparse": sparse, "cores": os.cpu_count()}

    def keep(rows: dict[str, Any]) -> None:
        load = [round(before[0], 1), round(os.getloadavg()[0], 1)]
        (folder / "facts.json").write_text(json.dumps(facts | {"load_average": load, "stages": rows}))

    watch = Stopwatch(keep)
    measure(folder / "run", nodes, sparse, watch, facts, only)
    keep(watch.rows)


def with_table(row: dict[str, Any]) -> dict[str, Any]:
    """What a size took, with the whole diffusion table as a stage: its start and as many rows as there are nodes."""
    stages = row["stages"]
    if DIFFUSION not in stages:
        return row
    start, some = stages["diffusion, start"], stages[DIFFUSION]
    times = row["nodes"] / ROWS
    table = {key: round(start[key] + times * some[key], 1) for key in ("seconds", "cpu_seconds")}
    return {**row, "stages": {**stages, TABLE: table | {"gigabytes": max(start["gigabytes"], some["gigabytes"])}}}


def merged(facts: dict[str, Any], known: list[dict[str, Any]], only: str) -> dict[str, Any]:
    """What is known of the size, with the stage that was measured again, and the load average beside it."""
    there = next((row for row in known if (row["nodes"], row["sparse"]) == (facts["nodes"], facts["sparse"])), {})
    new = {stage: row for stage, row in facts["stages"].items() if stage.startswith(only)}
    again = {"edge_visits": facts["edge_visits"]} if only == "diffusion" else {"smoothing_tile": facts["tile"]}
    load = {"load_averages": {**there.get("load_averages", {}), only: facts["load_average"]}}
    return {**facts, **there, **again, **load, "stages": {**there.get("stages", facts["stages"]), **new}}


def slopes(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Of a stage's ``key`` over nodes on log-log axes, by least squares."""
    found = {}
    for stage in STAGES:
        there = [row for row in rows if stage in row["stages"]]
        if len(there) > 1:
            x = np.log([row["nodes"] for row in there])
            y = np.log([max(row["stages"][stage][key], 1e-3) for row in there])
            found[stage] = round(float(np.polyfit(x, y, 1)[0]), 2)
    return found


def _listed(title: str, rows: list[dict[str, Any]], key: str, shape: str) -> str:
    return f"{title}: " + ", ".join(shape.format(row[key]) if key in row else "not run" for row in rows) + ". "


def billion(results: list[dict[str, Any]]) -> list[str]:
    """What a billion nodes would take: the largest measured graph's cost per node, a hundred or a thousand times as often."""
    spent = ("generate", "open", "words", "smoothing", "neighbours", "closed form")
    whole = (row for row in results if row["sparse"] and set(spent) <= set(row["stages"]))
    largest = max(whole, key=lambda row: row["nodes"])
    times, n = 1e9 / largest["nodes"], 1e9
    hours = {stage: largest["stages"][stage]["cpu_seconds"] * times / 3600 for stage in spent}
    disk = largest["disk_gigabytes"] * times
    return [
        "",
        f"**A billion nodes and ten billion edges**, from the cost per node at {largest['nodes'] / 1e6:g} million: " + ", ".join(f"{stage} {hours[stage]:.1f}" for stage in spent)
        + f" core hours, {sum(hours[stage] for stage in spent):.0f} together. The graph takes {disk:,.0f} GB on disk, {COLUMNS} columns of vectors {4 * n * COLUMNS / 1e9:,.0f} GB and twice that while they are made. "
        f"Memory: degrees, their roots and sums of the agreement {36 * n / 1e9:.0f} GB and {12 * n / 1e9:.0f} GB per column of a tile, so a machine with 64 GB smooths one or two columns at a time and reads the {4 * 20 * n / 1e9:.0f} GB of edges "
        f"{11 * COLUMNS // 2} to {11 * COLUMNS} times: at 2 GB/s {11 * COLUMNS // 2 * 80 / 2 / 3600:.1f} to {11 * COLUMNS * 80 / 2 / 3600:.1f} hours of reading, more than the arithmetic on 16 cores. With 256 GB it is {12 * COLUMNS * n / 1e9 / 220:.0f} tiles. "
        "This is an extrapolation; nothing of this size was run.",
    ]  # fmt: skip


def floor(rows: list[dict[str, Any]]) -> list[str]:
    """Smoothing beside the time of fetching as many rows in random order, which benchmarks/row_fetches.py measures."""
    fetched = json.loads(FETCHES.read_text())
    there = [row for row in rows if str(row["nodes"]) in fetched and "smoothing" in row["stages"]]
    lines = [
        "",
        f"**Smoothing and the floor under it**: {STEPS} steps and the agreement read the row of every entry of the adjacency {STEPS + 1} times. CPU nanoseconds per row that is read, all of the stage included, "
        "beside those of a loop that fetches such rows in random order and does nothing else (`benchmarks/row_fetches.py`):",
        "",
        "| nodes | rows, MB | columns of a tile | smoothing, ns | load | random fetch, ns | GB/s | load |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in there:
        each = 1e9 * row["stages"]["smoothing"]["cpu_seconds"] / ((STEPS + 1) * 2 * row["edges"])
        least = fetched[str(row["nodes"])]
        load = row.get("load_averages", {}).get("smoothing", row["load_average"])
        lines.append(
            f"| {row['nodes'] / 1e6:g} M | {4 * COLUMNS * row['nodes'] / 1e6:,.0f} | {row.get('smoothing_tile', row['tile'])} | {each:.1f} | {load[0]} to {load[1]} | {least['nanoseconds']:.1f} | {least['gigabytes_per_second']:.1f} | {least['load']} |"
        )
    x = np.log([row["nodes"] for row in there])
    y = np.log([row["nodes"] * fetched[str(row["nodes"])]["nanoseconds"] for row in there])
    return [*lines, "", f"Slope of the seconds of the random fetches over nodes: {np.polyfit(x, y, 1)[0]:.2f}."]


def write_page() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = [with_table(row) for row in json.loads(RESULTS.read_text())]
    lines, figure = [], plt.figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for kind in (True, False):
        rows = sorted((row for row in results if row["sparse"] is kind), key=lambda row: row["nodes"])
        if not rows:
            continue
        what = f"{WORDS:,} words, sparse" if kind else f"{COLUMNS} dense features"
        sizes = [f"{row['nodes'] / 1e6:g} M" for row in rows]
        lines += [
            "",
            f"**{what}**, 10 edges per node: CPU seconds (seconds) and memory in GB; slope of CPU seconds over nodes on log-log axes.",
            "",
        ]
        lines += [
            "| stage | " + " | ".join(f"{size} nodes" for size in sizes) + " | slope |",
            "|---|" + "---|" * (len(rows) + 1),
        ]
        steep = slopes(rows, "cpu_seconds") if len(rows) > 1 else {}
        for stage in STAGES:
            cells = [row["stages"].get(stage) for row in rows]
            shown = [
                f"{c['cpu_seconds']:,.1f} ({c['seconds']:,.1f}), {c['gigabytes']:.2f}" if c else "not run"
                for c in cells
            ]
            lines.append(f"| {stage} | " + " | ".join(shown) + f" | {steep.get(stage, float('nan')):.2f} |")
        lines += [
            "",
            "Load average when it began and ended: " + ", ".join(f"{size} {row['load_average']}" for size, row in zip(sizes, rows)) + f" on {rows[0]['cores']} cores; of smoothing, measured later, " + ", ".join(f"{row.get('load_averages', {}).get('smoothing', row['load_average'])}" for row in rows) + ". "
            + _listed("On disk", rows, "disk_gigabytes", "{} GB") + _listed("Largest degree", rows, "largest_degree", "{:,}")
            + _listed("Edge visits per row of the diffusion table", rows, "edge_visits", "{:,}") + _listed("Share of the true neighbours found", rows, "recall", "{:.3f}") + _listed("Accuracy of 500 5-way 1-shot tasks", rows, "accuracy", "{:.1%}"),
        ]  # fmt: skip
        if kind or not any(row["sparse"] for row in results):
            for number, stage in enumerate(STAGES):
                there = [row for row in rows if stage in row["stages"]]
                x, line = [row["nodes"] for row in there], "o-" if number < 10 else "s--"  # there are ten colours
                left.loglog(x, [row["stages"][stage]["cpu_seconds"] for row in there], line, ms=4, label=stage)
                right.loglog(x, [row["stages"][stage]["gigabytes"] for row in there], line, ms=4, label=stage)
    lines += floor([row for row in results if row["sparse"]])
    lines += billion(results)
    left.set(xlabel="nodes", ylabel="CPU seconds")
    right.set(xlabel="nodes", ylabel="memory, GB")
    right.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(PICTURE, dpi=110)
    write_between(PAGE, BEGIN, END, "\n".join(lines).strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--folder", type=Path, help="where graphs and vectors go for a while")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--diffusion",
        dest="only",
        action="store_const",
        const="diffusion",
        help="only the stages of the diffusion table",
    )
    parser.add_argument("--smoothing", dest="only", action="store_const", const="smoothing", help="only smoothing")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.page:
        write_page()
        return
    if given.worker:
        worker(given.nodes[0], given.sparse, given.folder, given.only or "")
        return
    for nodes in given.nodes:
        with tempfile.TemporaryDirectory(dir=given.folder) as name:
            print(f"{nodes:,} nodes", flush=True)
            command = [sys.executable, __file__, "--worker", "--nodes", str(nodes), "--folder", name]
            one = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            flags = ["--sparse"] * given.sparse + [f"--{given.only}"] * bool(given.only)
            subprocess.run([*command, *flags], check=False, env={**os.environ, **one})
            facts = json.loads(Path(name, "facts.json").read_text())
        known = json.loads(given.out.read_text()) if given.out.exists() else []
        if given.only:
            facts = merged(facts, known, given.only)
        known = [row for row in known if (row["nodes"], row["sparse"]) != (nodes, given.sparse)] + [facts]
        known.sort(key=lambda row: (row["sparse"], row["nodes"]))
        given.out.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
