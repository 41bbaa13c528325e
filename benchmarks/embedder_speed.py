"""Time per epoch, memory and growth of the methods that train without episodes; how fast VNT answers. One command, one page.

    python benchmarks/embedder_speed.py                  all methods
    python benchmarks/embedder_speed.py bgrl vnt         some of them

Every measurement is a process of its own, so that its peak memory is its own. Growth: the graph beside a copy of itself,
so that nodes, edges and non-zeros double and nothing else does. Graphs other than the bundled one are looked for in
``$NAQ_SHARED_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import naq
import naq.training

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("NAQ_SHARED_DATA") or HERE.parents[1] / "shared" / "data")
RESULTS = HERE / "results" / "embedder_speed.json"
PAGE = HERE.parent / "docs" / "embedders.md"
METHODS = ("bgrl", "sugrl", "afgrl", "vnt", "cola")
GRAPHS = {"coauthor_cs": str(DATA / "coauthor_cs.npz"), "debian": "debian"}
COPIES = (1, 2)
EPOCHS = 5
"""Timed epochs; the first of a process is not among them: compiling belongs to no epoch."""


def copies_of(graph: naq.Graph, count: int) -> naq.Graph:
    """The graph so many times side by side."""
    adjacency = sp.block_diag([graph.adjacency] * count, format="csr")
    stack = np.vstack if isinstance(graph.features, np.ndarray) else lambda parts: sp.vstack(parts, format="csr")
    return naq.Graph(adjacency, stack([graph.features] * count), name=f"{graph.name} x {count}")


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(method: str, graph: str, copies: int) -> dict[str, Any]:
    """One training of a few epochs in this process."""
    from naq.graph import weighted
    from naq.methods import get_method

    read = weighted(naq.load(GRAPHS[graph]), "auto").without_labels()
    read = copies_of(read, copies) if copies > 1 else read
    loaded = peak_gb()
    kind = get_method(method).embedder
    start = time.perf_counter()
    model = kind(read, epochs=EPOCHS + 1)  # type: ignore[misc]
    prepared = time.perf_counter() - start
    training, seconds = naq.training.EpochTraining(model), []
    for update in range(model.updates):
        start = time.perf_counter()
        training.step(update).item()
        seconds.append(time.perf_counter() - start)
    model.embed()
    per_epoch = np.array(seconds).reshape(EPOCHS + 1, -1).sum(axis=1)[1:]
    return {
        "method": method, "graph": graph, "copies": copies, "nodes": read.num_nodes, "edges": read.num_edges,
        "seconds_per_epoch": round(float(np.mean(per_epoch)), 3), "best_epoch": round(float(per_epoch.min()), 3), "prepare_seconds": round(prepared, 2),
        "peak_gb": round(peak_gb(), 2), "loaded_gb": round(loaded, 2), "estimate_gb": round(model.needs(model.batch) / 1e9, 2), "plan": model.plan(),
    }  # fmt: skip


def answers(graph: str) -> dict[str, Any]:
    """VNT's answers to the 50 validation and 500 test tasks, 5-way 1-shot, tuned in one batch; the backbone is untrained, which costs the same."""
    from naq.graph import weighted
    from naq.io import tasks_path
    from naq.methods import get_method

    read = weighted(naq.load(GRAPHS[graph]), "auto").without_labels()
    model = get_method("vnt").embedder(read, epochs=0)  # type: ignore[misc]
    parts = [naq.Tasks.load(tasks_path(GRAPHS[graph]), way=5, shot=1, part=part) for part in ("valid", "test")]
    tasks = naq.Tasks(*(np.concatenate([getattr(p, a) for p in parts]) for a in ("support", "query")), way=5, shot=1)
    model.solve(tasks.take(5))
    start = time.perf_counter()
    model.solve(tasks)
    return {"method": "vnt", "graph": graph, "tasks": len(tasks), "seconds": round(time.perf_counter() - start, 1)}


def in_process(*words: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, "--one", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found), flush=True)
    return found


def page(rows: list[dict[str, Any]], solved: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    lines = [
        "# What training without episodes costs", "",
        "Made by `python benchmarks/embedder_speed.py`; nothing here is typed by hand. How accurate they are: [reproduction.md](reproduction.md).", "",
        f"Mean of {EPOCHS} epochs after a first one that is not counted, each measurement in a process of its own, {os.cpu_count()} cores without a GPU. Peak memory is the whole process: Python and its "
        "libraries take 0.4 to 0.5 GB of it. `estimate` is what the method thinks a training takes before it begins; by it, it decides between the whole graph and batches.", "",
        "| method | graph | nodes | edges | seconds per epoch | peak GB | estimate GB | preparing, s |", "|---|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for r in rows:
        if r["copies"] == 1:
            lines.append(
                f"| {r['method']} | {r['graph']} | {r['nodes']:,} | {r['edges']:,} | {r['seconds_per_epoch']:.2f} | {r['peak_gb']:.2f} | {r['estimate_gb']:.2f} | {r['prepare_seconds']:.1f} |"
            )
    lines += ["", "## Growth", "", "Seconds per epoch on coauthor_cs and on two copies of it side by side: twice the nodes, edges and non-zeros. Linear cost is a ratio of 2.", ""]  # fmt: skip
    lines += ["| method | once | twice | ratio |", "|---|---:|---:|---:|"]
    for method in dict.fromkeys(r["method"] for r in rows):
        times = {
            r["copies"]: r["seconds_per_epoch"] for r in rows if r["method"] == method and r["graph"] == "coauthor_cs"
        }
        if all(c in times for c in COPIES):
            lines.append(f"| {method} | {times[1]:.2f} | {times[2]:.2f} | {times[2] / times[1]:.2f} |")
    lines += ["", "AFGRL compares every node with every other in blocks, so that this part of a whole-graph epoch grows with the square of the nodes; with batches (`--set batch=1024`) a node is compared with the nodes of its sampled piece only, which bounds the cost per node.", ""]  # fmt: skip
    lines += ["## VNT's answers", ""]
    lines += [
        f"- {s['graph']}: {s['tasks']} tasks, 5-way 1-shot, tuned in one batch and answered in {s['seconds']:.1f} s."
        for s in solved
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help=f"some of {', '.join(METHODS)}; all by default")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        what, *words = given.methods
        found = answers(words[0]) if what == "answers" else measure(what, words[0], int(words[1]))
        print(json.dumps(found))
        return
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": [], "answers": []}
    for method in given.methods or METHODS:
        kept["rows"] = [r for r in kept["rows"] if r["method"] != method]
        kept["rows"] += [in_process(method, "coauthor_cs", str(c)) for c in COPIES] + [
            in_process(method, "debian", "1")
        ]
    if not given.methods or "vnt" in given.methods:
        kept["answers"] = [in_process("answers", graph) for graph in GRAPHS]
    kept["rows"].sort(key=lambda r: METHODS.index(r["method"]))
    kept["machine"] = {"cores": os.cpu_count(), "machine": platform.machine()}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(page(kept["rows"], kept["answers"]))
    print(f"Written: {PAGE} and {RESULTS}")


if __name__ == "__main__":
    main()
