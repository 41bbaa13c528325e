"""Ten million nodes from files to accuracies: every step as a person does it, a ``naq`` command in a process of its own.

    python benchmarks/end_to_end.py --folder FOLDER [--nodes 10000000] [--only import neighbors ...] [--out benchmarks/results/end_to_end.json]
    python benchmarks/end_to_end.py --page      # the table of docs/scale.md from the results

The material is a generated graph of 10 edges per node and 2,000 words, written as the files that people have: ``edges.csv``, and ``nodes.parquet`` with an id, a class and a text. Then it is imported, the
diffusion table is made in shards, vectors are made, and two methods are trained or made and tested. Recorded for each step: seconds, CPU seconds of all its processes, the largest memory they hold themselves at one
moment (pages of files can be dropped and are not counted), the load average, and what it left on disk or reached.

``--folder`` keeps the material and what steps leave, 40 GB at ten million nodes. Started again, steps that are finished are not repeated, and one that was stopped begins anew or, where the command itself resumes, goes
on: its seconds are then those of all attempts. A step that fails is recorded with what it said, and tried again the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marked_page import write_between
from watched_process import Taken, naq_command, watched

RESULTS = Path(__file__).parent / "results" / "end_to_end.json"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- end-to-end:begin -->", "<!-- end-to-end:end -->"
WORDS, COLUMNS, NEIGHBORS, SHARDS, EPISODES, CAP = 2000, 64, 20, 128, 1000, 32
ROWS = 1 << 17
"""Nodes whose texts are written at once."""


@dataclass(frozen=True)
class Step:
    """A command, what it needs and what it leaves.

    Attributes:
        words: of the command, in the work folder.
        leaves: a file or folder; removed before the step begins anew, unless ``resumes``.
        reached: facts beside time and memory, of what it left.
    """

    name: str
    words: tuple[str, ...]
    needs: tuple[str, ...]
    leaves: str
    resumes: bool = False
    reached: Callable[[Path], dict[str, Any]] = lambda path: {}
    counted: bool = True
    naq: bool = True


def steps_of(nodes: int) -> list[Step]:
    """All steps, in their order."""
    columns = ("--source", "source", "--target", "target", "--id", "id", "--label", "class", "--text", "words")
    made = ("--nodes", str(nodes), "--edges", str(10 * nodes), "--features", str(WORDS), "--sparse")
    diffusion = ("--by", "diffusion", "-k", str(NEIGHBORS))
    shards = ("--engine", "processes", "--workers", "2", "--shards", str(SHARDS))
    train = ("--episodes", str(EPISODES), "--evaluate-every", str(EPISODES), "--set", f"hub_cap={CAP}", "--no-baseline")
    return [
        Step("generate", ("generate", *made, "--out", "graph"), (), "graph", counted=False),
        Step("files", ("--files",), ("graph",), "nodes.parquet", counted=False, naq=False),
        Step("import", ("import", "edges.csv", "--nodes", "nodes.parquet", "--mmap", "--out", "mine", *columns),
             ("edges.csv", "nodes.parquet"), "mine"),
        Step("neighbors", ("neighbors", "mine", *diffusion, *shards, "--out", "table.npz"), ("mine",), "table.npz", True),
        Step("embed", ("embed", "mine", "--out", "vectors.npy", "--set", f"dim={COLUMNS}"), ("mine",), "vectors.npy"),
        Step("naq-diff", ("run", "mine", "--method", "naq-diff/protonet-capped", "--table", "table.npz", *train, "--out", "run-diff"),
             ("mine", "table.npz"), "run-diff", True, accuracy),
        Step("naq-plus", ("run", "mine", "--method", "naq-plus", "--set", f"dim={COLUMNS}", "--no-baseline", "--out", "run-plus"),
             ("mine",), "run-plus", True, accuracy),
    ]  # fmt: skip


SHOWN = {
    "import": "import of edges.csv and nodes.parquet",
    "neighbors": f"diffusion table of {NEIGHBORS} neighbours, {SHARDS} shards on 2 processes",
    "embed": f"vectors of {COLUMNS} columns (naq-plus)",
    "naq-diff": f"naq-diff/protonet-capped: {EPISODES:,} episodes from the table, 550 tasks",
    "naq-plus": "naq-plus: vectors, 550 tasks",
}


def accuracy(folder: Path) -> dict[str, Any]:
    """Of the test tasks of a finished run by prototypes, of the baseline on the same, and the seconds of its parts."""
    result = json.loads((folder / "metrics.json").read_text())
    main, smooth = result["evaluations"]["prototype"], result["baseline"].get("prototype", {})
    return {
        "accuracy": main["accuracy"],
        "ci95": main["ci95"],
        "baseline": smooth.get("accuracy"),
        "parts": result["seconds"],
    }


def write_files(folder: Path) -> None:
    """edges.csv and nodes.parquet of the folder's graph, in blocks."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from import_speed import write_edges_of
    from naq.io import load

    graph = load(folder / "graph")
    assert graph.labels is not None and graph.class_names is not None
    write_edges_of(graph, folder / "edges.csv")
    indptr, indices, counts = graph.features.indptr, graph.features.indices, graph.features.data  # type: ignore[union-attr]
    vocabulary, classes = pa.array([f"word{word:04d}" for word in range(WORDS)]), pa.array(graph.class_names.tolist())
    schema = pa.schema([("id", pa.int64()), ("class", pa.string()), ("words", pa.string())])
    partial = folder / "nodes.partial"
    with pq.ParquetWriter(partial, schema, use_dictionary=["class"]) as writer:
        for first in range(0, graph.num_nodes, ROWS):
            ends = np.asarray(indptr[first : first + ROWS + 1], dtype=np.int64)
            often = np.asarray(counts[ends[0] : ends[-1]]).astype(np.int64)
            said = vocabulary.take(pa.array(np.repeat(indices[ends[0] : ends[-1]], often)))
            bounds = np.concatenate([[0], np.cumsum(often)])[ends - ends[0]].astype(np.int32)
            texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), said), " ")
            numbers = pa.array(np.arange(first, first + len(texts)))
            named = classes.take(pa.array(np.asarray(graph.labels[first : first + len(texts)])))
            writer.write_table(pa.table([numbers, named, texts], schema=schema))
    partial.rename(folder / "nodes.parquet")


class Record:
    """What is known of every step, in a file of the work folder that is written whole."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "steps.json"
        self.steps: dict[str, dict[str, Any]] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def put(self, name: str, facts: dict[str, Any]) -> None:
        self.steps[name] = facts
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.steps, indent=1))
        partial.replace(self.path)


def take(step: Step, folder: Path, record: Record) -> None:
    """Run a step unless it is finished; what it takes is kept while it runs, for an attempt that is stopped."""
    before = record.steps.get(step.name, {})
    if before.get("state") == "done" and (folder / step.leaves).exists():
        return
    missing = [name for name in step.needs if not (folder / name).exists()]
    if missing:
        record.put(step.name, {"state": "failed", "errors": f"there is no {missing[0]}", "attempts": 0})
        return
    if not step.resumes or before.get("state") == "done":
        before = {}
        remove(folder / step.leaves)
    load = round(os.getloadavg()[0], 1)

    def facts(taken: Taken, state: str) -> dict[str, Any]:
        return {
            "state": state,
            "seconds": round(before.get("seconds", 0) + taken.seconds, 1),
            "cpu_seconds": round(before.get("cpu_seconds", 0) + taken.cpu_seconds, 1),
            "gigabytes": round(max(before.get("gigabytes", 0), taken.gigabytes), 3),
            "attempts": before.get("attempts", 0) + 1,
            "load_average": [load, round(os.getloadavg()[0], 1)],
        }

    print(f"{step.name} ...", flush=True)
    own = [sys.executable, str(Path(__file__).resolve())]
    command = naq_command(*step.words) if step.naq else [*own, *step.words, "--folder", "."]
    record.put(step.name, facts(Taken(), "running"))
    taken = watched(
        command, folder / f"{step.name}.log", lambda so_far: record.put(step.name, facts(so_far, "running")), cwd=folder
    )
    found = facts(taken, "done" if taken.status == 0 else "failed")
    if taken.status == 0:
        found |= {"disk_gigabytes": round(size_of(folder / step.leaves) / 1e9, 3), **step.reached(folder / step.leaves)}
    else:
        found["errors"] = taken.errors
        print(taken.errors, file=sys.stderr, flush=True)
    record.put(step.name, found)
    print(
        f"{step.name:10} {found['state']}: {found['seconds']:,.1f} s, {found['cpu_seconds']:,.1f} CPU s, {found['gigabytes']:.2f} GB",
        flush=True,
    )


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Bytes of a file or of all files of a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def row_of(nodes: int, record: Record) -> dict[str, Any]:
    """What the results hold of one size."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    known = {step.name: record.steps[step.name] for step in steps_of(nodes) if step.name in record.steps}
    return {"nodes": nodes, "cores": os.cpu_count(), "memory_gibibytes": round(memory, 1), "steps": known}


def write_results(row: dict[str, Any], out: Path) -> None:
    known = json.loads(out.read_text()) if out.exists() else []
    known = [other for other in known if other["nodes"] != row["nodes"]] + [row]
    out.write_text(json.dumps(sorted(known, key=lambda one: one["nodes"]), indent=1) + "\n")


def write_page(results: list[dict[str, Any]], page: Path = PAGE) -> None:
    """The table of docs/scale.md: the largest size in detail, all sizes beside."""
    rows = [row for row in results if any(name in row["steps"] for name in SHOWN)]
    sizes = [f"{row['nodes'] / 1e6:g} M nodes" for row in rows]
    lines = ["| step | " + " | ".join(sizes) + " |", "|---|" + "---|" * len(rows)]
    for name, title in SHOWN.items():
        lines.append(f"| {title} | " + " | ".join(_cell(row["steps"].get(name)) for row in rows) + " |")
    loads = []
    for size, row in zip(sizes, rows):
        seen = [load for name in SHOWN if name in row["steps"] for load in row["steps"][name].get("load_average", [])]
        loads.append(f"{size} {min(seen)} to {max(seen)}" if seen else f"{size} not recorded")
    machine = f"{rows[-1]['cores']} cores and {rows[-1]['memory_gibibytes']:g} GiB"
    lines += ["", f"Seconds (CPU seconds), memory in GB, accuracy of 500 test tasks. {machine}; load average: {', '.join(loads)}."]  # fmt: skip
    write_between(page, BEGIN, END, "\n".join(lines))


def _cell(step: dict[str, Any] | None) -> str:
    if step is None or step["state"] == "running":
        return "not run"
    if step["state"] == "failed":
        return "failed"
    shown = f"{step['seconds']:,.0f} ({step['cpu_seconds']:,.0f}), {step['gigabytes']:.2f}"
    shown += f", {step['accuracy']:.1%}" if "accuracy" in step else ""
    return shown + (f", in {step['attempts']} attempts" if step.get("attempts", 1) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [step.name for step in steps_of(1)]
    parser.add_argument("--folder", type=Path, help="where the material and all that steps leave is kept")
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="+", choices=names, help="these steps; by default all")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--files", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.page:
        write_page(json.loads(given.out.read_text()))
        return
    if given.folder is None:
        parser.error("--folder is missing: it keeps the material and what steps leave.")
    if given.files:
        write_files(given.folder)
        return
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    sizes = folder / "nodes.json"
    if sizes.exists() and json.loads(sizes.read_text()) != given.nodes:
        parser.error(
            f"--folder {given.folder} holds the steps of {json.loads(sizes.read_text()):,} nodes; give another."
        )
    sizes.write_text(json.dumps(given.nodes))
    record = Record(folder)
    for step in steps_of(given.nodes):
        if given.only is None or step.name in given.only:
            take(step, folder, record)
            write_results(row_of(given.nodes, record), given.out)
    failed = [name for name, facts in record.steps.items() if facts["state"] == "failed"]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; what they said is in {given.folder}/*.log")


if __name__ == "__main__":
    main()
