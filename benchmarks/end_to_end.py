"""From Parquet parts to a class for every node: ``naq predict`` in a process of its own, by stages.

    python benchmarks/end_to_end.py --folder FOLDER [--nodes 300000 1000000] [--engine processes --workers 2]
    python benchmarks/end_to_end.py --folder FOLDER --side-by-side     # vectors of a list of edges, next to pycleora
    python benchmarks/end_to_end.py --folder FOLDER --debian     # the bundled graph from CSV, and naq run
    python benchmarks/end_to_end.py --page     # the tables and the plot of docs/scale.md from the results

The graph has 10 edges per node, power-law degrees, 64 columns and 10 classes, 100 labels of each. Neither its features
nor its edges alone tell the classes. Parts are written once (``--folder`` keeps them: 5 GB at ten million nodes) and
not counted. Of every stage: seconds, CPU seconds and the largest anonymous memory of all its processes; pages of files
can be dropped, and are not counted. On a machine that others use, compare CPU seconds. Up to 200,000 nodes the
classifier of graphs in memory answers, so its stages are others.

``--side-by-side``: vectors of 64 columns of a graph without features, 2 million nodes and 5 million edges in a file of
pairs that both read: pycleora (``embed_fast``, 4 iterations) and smoothing of random vectors as often, by turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from generate import PIECE, ROWS, draw_classes, draw_pairs
from measuring import (
    DOCS,
    RESULTS,
    anonymous_bytes,
    in_new_process,
    machine,
    markdown,
    naq_command,
    processes_below,
    run_measured,
    write_between,
)
from naq import load
from naq.classifier.views import LARGE
from naq.files import write_json
from naq.random import stream

CLASSES, COLUMNS, LABELS = 10, 64, 100
WITHIN, NOISE = 0.4, 6.0
"""Share of edges that stay in a class on purpose, and the spread of features as a multiple of that of the centres."""
ROWS_OF_PART, EVERY = 1 << 20, 0.05
"""Rows of a file at most; seconds between two looks at the processes."""
RESULT = RESULTS / "end_to_end.json"


def write_parts(folder: Path, nodes: int) -> None:
    """Parts of nodes (a random id, 64 columns) and of edges, labels.csv, and classes.npy with the truth."""
    labels, members, bounds = draw_classes(nodes, CLASSES, 0)
    ids = np.unique(stream(0, "parts/ids").integers(1, 1 << 62, nodes + 1000))
    ids = stream(0, "parts/order").permutation(ids)[:nodes]
    centres = stream(0, "parts/centres").standard_normal((CLASSES, COLUMNS), dtype=np.float32)
    (folder / "nodes").mkdir(parents=True)
    (folder / "edges").mkdir()
    for number, start in enumerate(range(0, nodes, ROWS_OF_PART)):
        own = slice(start, min(nodes, start + ROWS_OF_PART))
        rows = stream(0, "parts/noise", start).standard_normal((own.stop - start, COLUMNS), dtype=np.float32)
        rows = np.float32(NOISE) * rows + centres[labels[own]]
        table = pa.table({"id": ids[own], **{f"value_{k:02d}": rows[:, k] for k in range(COLUMNS)}})
        pq.write_table(table, folder / "nodes" / f"part-{number:05d}.parquet", row_group_size=ROWS)
    for number, (one, two) in enumerate(draw_pairs(members, bounds, 10 * nodes, 2.5, WITHIN, 0)):
        table = pa.table({"source": ids[one], "target": ids[two]})
        pq.write_table(table, folder / "edges" / f"part-{number:05d}.parquet", row_group_size=PIECE // 4)
    draw = stream(0, "parts/labels")
    some = np.concatenate([draw.choice(np.flatnonzero(labels == c), LABELS, replace=False) for c in range(CLASSES)])
    lines = [f"{ids[node]},class-{labels[node]}\n" for node in some]
    (folder / "labels.csv").write_text("node,class\n" + "".join(lines))
    np.save(folder / "classes.npy", labels.astype(np.int8))


def watch(command: Sequence[str | Path], log: Path) -> tuple[int, list[tuple[float, float, float]]]:
    """Run a command: its exit code, and (time, CPU seconds, bytes) of it and all that it started, again and again."""
    seen, used = [], dict[int, float]()
    tick = os.sysconf("SC_CLK_TCK")
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                alive = processes_below(process.pid)
                for one in alive:
                    try:
                        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
                    except (FileNotFoundError, ProcessLookupError):
                        continue
                    used[one] = (int(fields[11]) + int(fields[12])) / tick
                seen.append((time.time(), sum(used.values()), float(sum(map(anonymous_bytes, alive)))))
                time.sleep(EVERY)
        except BaseException:
            process.terminate()
            raise
    return process.returncode, seen


def measure(folder: Path, nodes: int, engine: Sequence[str], device: str) -> dict[str, Any]:
    """Predict once, from nothing."""
    parts, out = folder / f"parts-{nodes}", folder / f"predictions-{nodes}"
    if not (parts / "classes.npy").exists():
        shutil.rmtree(parts, ignore_errors=True)
        write_parts(parts, nodes)
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(f"{out}.shards", ignore_errors=True)
    before, began = os.getloadavg()[0], time.time()
    options = ["--labels", parts / "labels.csv", "--out", out, "--device", device, *engine]
    status, seen = watch(naq_command("predict", parts, *options), folder / f"predict-{nodes}.log")
    if status:
        raise SystemExit((folder / f"predict-{nodes}.log").read_text()[-2000:])
    times, cpu, held = np.array(seen).T
    summary = json.loads((out / "_summary.json").read_text())
    stages = {}
    for one in summary["stages"]:
        low, high = one["began"], one["began"] + one["seconds"]
        inside = (times >= low) & (times <= high)
        spent = float(np.interp(high, times, cpu) - np.interp(low, times, cpu))
        most = held[inside].max() if inside.any() else np.interp(high, times, held)
        stages[one["stage"]] = {
            "seconds": round(one["seconds"], 2), "cpu_seconds": round(spent, 2), "gigabytes": round(most / 1e9, 3)
        }  # fmt: skip
    whole = {
        "seconds": round(times[-1] - began, 1),
        "cpu_seconds": round(cpu[-1], 1),
        "gigabytes": round(held.max() / 1e9, 2),
    }
    truth, right = np.load(parts / "classes.npy"), 0
    for start, table in _predictions(out):
        found = np.array(
            [int(name.rpartition("-")[2]) for name in table["class"].combine_chunks().dictionary.to_pylist()]
        )
        codes = table["class"].combine_chunks().indices.to_numpy()
        right += int(((found[codes] == truth[start : start + len(table)]) & ~table["given"].to_numpy()).sum())
    accuracy = right / (nodes - CLASSES * LABELS)
    return {
        "nodes": nodes, "engine": " ".join(engine) or "one process", "device": device, **machine(),
        "load_average": [round(before, 1), round(os.getloadavg()[0], 1)], "whole": whole, "stages": stages,
        "accuracy": round(accuracy, 4), "expected": round(summary["expected_accuracy"]["value"], 4),
        "views": summary["views"],
    }  # fmt: skip


def _predictions(out: Path) -> Any:
    start = 0
    for file in sorted(out.glob("*.parquet")):
        table = pq.read_table(file)
        yield start, table
        start += len(table)


def side_by_side(folder: Path, nodes: int = 2_000_000, edges: int = 5_000_000, turns: int = 2) -> dict[str, Any]:
    """Seconds of both from one file of edges, each in a process of its own, which has compiled what it compiles."""
    from importlib.metadata import version

    for name, count in (("road", nodes), ("small", 1000)):
        ends = stream(0, "road").integers(0, count, (2, edges * count // nodes))
        (folder / f"{name}.txt").write_text("".join(f"{a} {b}\n" for a, b in ends.T.tolist()))
    found: dict[str, list[dict[str, float]]] = {"naq": [], "pycleora": []}
    for _ in range(turns):
        for name, runs in found.items():
            runs.append(in_new_process(vectors_of_file, name, str(folder)))
            print(name, runs[-1], flush=True)
    return {"nodes": nodes, "edges": edges, **machine(), "version": version("pycleora"), "runs": found}


def vectors_of_file(name: str, folder: str) -> dict[str, float]:
    for file in ("small", "road"):
        clock, cpu = time.perf_counter(), time.process_time()
        {"naq": our_vectors, "pycleora": their_vectors}[name](Path(folder, f"{file}.txt"))
    spent = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}
    return {key: round(value, 2) for key, value in spent.items()}


def our_vectors(file: Path) -> np.ndarray:
    from naq.io import Choice, load_tables
    from naq_scale.blocks.smoothing import smooth_tile
    from naq_scale.lanes import line_aligned

    graph = load_tables(file, None, Choice(header=False)).graph
    rows = line_aligned((graph.num_nodes, COLUMNS))
    rows[:] = stream(0, "start").standard_normal(rows.shape, dtype=np.float32)
    return smooth_tile(graph, (rows, line_aligned(rows.shape), line_aligned(rows.shape)), 4)


def their_vectors(file: Path) -> np.ndarray:
    import pycleora

    matrix = pycleora.SparseMatrix.from_files([str(file)], "complex::reflexive::node")
    found: np.ndarray = matrix.embed_fast(COLUMNS, 4)
    return found


def debian(folder: Path) -> dict[str, Any]:
    """Processor and other seconds of ``naq predict`` from CSV files, and of ``naq run``, on the bundled graph."""
    graph = load("debian")
    assert graph.names is not None and graph.vocab is not None and graph.labels is not None
    rows, columns = graph.features.nonzero()
    words = [
        " ".join(part) for part in np.split(graph.vocab[columns], np.searchsorted(rows, range(1, len(graph.names))))
    ]
    known = np.concatenate([np.flatnonzero(graph.labels == c)[:10] for c in range(graph.num_classes)])
    one, two = graph.adjacency.nonzero()
    tables: dict[str, dict[str, Any]] = {
        "nodes": {"id": graph.names, "text": words},
        "edges": {"source": graph.names[one[one < two]], "target": graph.names[two[one < two]]},
        "labels": {"node": graph.names[known], "class": np.asarray(graph.class_names)[graph.labels[known]]},
    }
    for name, table in tables.items():
        csv.write_csv(pa.table(table), folder / f"{name}.csv")
    files = [folder / "edges.csv", "--nodes", folder / "nodes.csv", "--labels", folder / "labels.csv"]
    commands = {
        "naq predict, from CSV": ["predict", *files, "--no-cache", "--out", folder / "predicted.csv"],
        "naq run debian, 800 episodes": [
            "run",
            "debian",
            "--episodes",
            800,
            "--set",
            "features=auto",
            "--set",
            "lr=3e-4",
        ],
    }
    found: dict[str, Any] = dict(machine())
    shutil.rmtree(folder / "runs", ignore_errors=True)  # a run would be resumed
    for name, words_of_it in commands.items():
        cost = run_measured(naq_command(*words_of_it), folder / "debian.log", cwd=folder)
        if cost.status:
            raise SystemExit(cost.errors)
        found[name] = {key: round(getattr(cost, key), 2) for key in ("seconds", "cpu_seconds", "gigabytes")}
    return found


def draw(results: list[dict[str, Any]]) -> None:
    """CPU seconds and memory of each stage over nodes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    for axes, key, title in zip(figure.subplots(1, 2), ("cpu_seconds", "gigabytes"), ("CPU seconds", "memory, GB")):
        for name in stages_of(results):
            own = [row for row in results if name in row["stages"]]
            values = [max(row["stages"][name][key], 0.01) for row in own]
            axes.loglog([row["nodes"] for row in own], values, "o-", ms=4, label=name)
        axes.set(xlabel="nodes", ylabel=title)
        axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(DOCS / "predict.png", dpi=110)


def stages_of(results: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in results[::-1] for name in row["stages"]))


def page(known: dict[str, Any]) -> str:
    """A row per stage, a column per size, and the slope over the sizes that have it; then what else was measured."""
    own = sorted((row for row in known["runs"] if row["engine"] == "one process"), key=lambda row: row["nodes"])
    draw(own)
    rows = []
    for name in [*stages_of(own), "together"]:
        found = [row["whole"] if name == "together" else row["stages"].get(name) for row in own]
        pairs = [(row["nodes"], one) for row, one in zip(own, found) if one and row["nodes"] > LARGE]
        there = [(nodes, max(one["cpu_seconds"], 0.01)) for nodes, one in pairs]
        slope = np.polyfit(*np.log(there).T, 1)[0] if len(there) > 1 and name != "together" else float("nan")
        rows.append([name, *map(shown, found), "" if np.isnan(slope) else f"{slope:.2f}"])
    table = markdown(["stage", *(f"{row['nodes'] / 1e6:g} M nodes" for row in own), "slope"], rows)
    facts = [
        f"{row['nodes'] / 1e6:g} M: {100 * row['accuracy']:.1f} % right, {100 * row['expected']:.1f} % expected, load "
        f"{row['load_average'][0]} to {row['load_average'][1]}"
        for row in own
    ]
    last = f"{own[-1]['cores']} cores, {own[-1]['memory_gibibytes']:g} GiB, {own[-1]['threads']} thread(s)."
    parts = [
        table,
        f"Seconds (CPU seconds), memory in GB; slope of CPU seconds over nodes on log-log axes, above 0.2 M. {last}",
    ]
    parts += ["; ".join(facts) + ".", "![CPU seconds and memory of each stage of naq predict over nodes](predict.png)"]
    if given := known.get("side by side"):
        cells = [
            [name, *(f"{one['seconds']} ({one['cpu_seconds']})" for one in runs)]
            for name, runs in given["runs"].items()
        ]
        what = f"{given['nodes']:,} nodes and {given['edges']:,} edges, file to vectors; pycleora {given['version']}"
        parts += [markdown(["", *(f"turn {k + 1}" for k in range(len(cells[0]) - 1))], cells)]
        parts += [f"Seconds (CPU seconds): {what}, {given['threads']} thread(s), load {given['load_average']}."]
    if given := known.get("debian"):
        cells = [[name, shown(one)] for name, one in given.items() if isinstance(one, dict)]
        parts += [
            markdown(["the bundled graph", ""], cells),
            f"Seconds (CPU seconds), GB; load {given['load_average']}.",
        ]
    return "\n\n".join(parts)


def shown(cost: dict[str, float] | None) -> str:
    if cost is None:
        return "–"
    return f"{cost['seconds']:,.1f} ({cost['cpu_seconds']:,.1f}), {cost['gigabytes']:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the parts and predictions are kept")
    parser.add_argument("--nodes", type=int, nargs="+", default=[300_000, 1_000_000])
    parser.add_argument("--engine", default="local")
    parser.add_argument("--workers", default="2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--side-by-side", action="store_true")
    parser.add_argument("--debian", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {"runs": []}
    if given.page:
        write_between(DOCS / "scale.md", "end-to-end", page(known))
        return
    if given.folder is None:
        parser.error("--folder is missing: it keeps the parts and the predictions.")
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.side_by_side:
        known["side by side"] = side_by_side(given.folder)
    elif given.debian:
        known["debian"] = debian(given.folder)
    else:
        engine = [] if given.engine == "local" else ["--engine", given.engine, "--workers", given.workers]
        for nodes in given.nodes:
            row = measure(given.folder.resolve(), nodes, engine, given.device)
            same = [one for one in known["runs"] if all(one[key] == row[key] for key in ("nodes", "engine", "device"))]
            known["runs"] = [one for one in known["runs"] if one not in same] + [row]
            print(json.dumps(row, indent=1), flush=True)
            write_json(RESULT, known)
    write_json(RESULT, known)


if __name__ == "__main__":
    sys.exit(main())
