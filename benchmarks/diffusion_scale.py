"""What a diffusion table costs as the graph grows: the push now, and the push before its boundary had a budget.

    python benchmarks/diffusion_scale.py                     every graph, from a sample of the rows
    python benchmarks/diffusion_scale.py --seeds 0 --only sparse --skip before      a whole table

Graphs with power-law degrees: 20, 50 and 100 thousand nodes with 25 edges each (top-100), and 117,659 nodes with 174,582 edges (top-20).
Each figure comes from a process of its own. Rows are a sample spread over all nodes, from which the whole table is extrapolated; seconds
of the processor are counted, so that others on the machine disturb little, and wall-clock seconds beside them. The earlier push is read
from the repository's history. How many of the first ten are right is measured against a push with tolerance 1e-8 on a few rows.
Results: benchmarks/results/diffusion_scale.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import resource
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np

from naq import Graph, load
from naq.files import write_json
from naq.neighbors import push
from naq.neighbors.diffusion import push_arrays

RESULTS = Path(__file__).resolve().parent / "results" / "diffusion_scale.json"
BEFORE = "99bb3fc"
"""The commit whose push is compared."""
GRAPHS = {
    "20k": (20_000, 500_000, 100),
    "50k": (50_000, 1_250_000, 100),
    "100k": (100_000, 2_500_000, 100),
    "sparse": (117_659, 174_582, 20),
}
"""Nodes, edges, neighbours per node."""


def power_law(nodes: int, edges: int, exponent: float = 2.5, seed: int = 0) -> Graph:
    """A graph whose expected degrees follow a power law; so many edges are drawn, repeats and loops among them."""
    random = np.random.default_rng(seed)
    ends = np.cumsum((np.arange(nodes) + 10.0) ** (-1 / (exponent - 1)))
    drawn = np.minimum(np.searchsorted(ends / ends[-1], random.random((2, edges))), nodes - 1)
    return Graph(random.permutation(nodes)[drawn], nodes=nodes, name=f"power-law-{nodes}")


def earlier_push() -> ModuleType:
    """The push of the commit ``BEFORE``."""
    root = Path(__file__).resolve().parent.parent
    text = subprocess.run(
        ["git", "show", f"{BEFORE}:src/naq/neighbors/push.py"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "earlier_push.py"
        path.write_text(text.replace("cache=True, ", "").replace("cache=True", ""))
        spec = importlib.util.spec_from_file_location("earlier_push", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def measure(name: str, which: str, seeds: int) -> dict[str, Any]:
    """Seconds and memory of the rows of so many nodes (0: all), in this process."""
    nodes, edges, k = GRAPHS[name]
    indptr, indices, others, twin = push_arrays(power_law(nodes, edges), self_loops=True)
    same = {"twin": twin} if which == "now" else {}
    topk = (push if which == "now" else earlier_push()).push_topk
    there = np.flatnonzero(others)
    few = np.zeros_like(others)
    few[there[:: max(1, len(there) // 20)]] = 2  # of no size: compiles
    topk(indptr, indices, few, k=k, alpha=0.1, tolerance=0.5, **same)
    chosen = there if seeds == 0 else there[np.linspace(0, len(there) - 1, seeds).astype(int)]
    asked = np.zeros_like(others)
    asked[chosen] = others[chosen]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    found = topk(indptr, indices, asked, k=k, alpha=0.1, tolerance=1e-4, **same)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    share = len(chosen) / len(there)
    result = {
        "rows": len(chosen),
        "cpu_ms_per_row": round(1e3 * cpu / len(chosen), 4),
        "table_cpu_seconds": round(cpu / share, 1),
        "table_wall_seconds": round(wall / share, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "peak_mb_before_push": before // 1024,
        "threads": numba.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
    }
    return result | ({"visits_per_row": round(float(found[3][chosen].mean()))} if which == "now" else {})


def right_of_ten(name: str, which: str, rows: int) -> float:
    """The share of the first ten neighbours that belong there, ties allowed; ``name`` may be a graph file."""
    graph = power_law(*GRAPHS[name][:2]) if name in GRAPHS else load(name)
    indptr, indices, others, twin = push_arrays(graph, self_loops=True)
    there = np.flatnonzero(others > 10)
    chosen = there[np.linspace(0, len(there) - 1, rows).astype(int)]
    asked = np.zeros_like(others)
    asked[chosen] = others[chosen]
    true_ids, true_scores = (part[chosen] for part in push.push_topk(indptr, indices, asked, twin, 60, 0.1, 1e-8)[:2])
    same = {"twin": twin} if which == "now" else {}
    topk = (push if which == "now" else earlier_push()).push_topk
    ids = topk(indptr, indices, asked, k=10, alpha=0.1, tolerance=1e-4, **same)[0][chosen]
    right = 0
    for found, near, scores in zip(ids, true_ids, true_scores):
        score_of = dict(zip(near.tolist(), scores.tolist()))
        right += sum(score_of.get(int(each), 0.0) >= scores[9] * (1 - 1e-5) for each in found)
    return round(right / ids.size, 4)


def alone(task: Any, *arguments: Any) -> Any:
    """The task in a process of its own: what it takes of memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--quality", type=int, default=40, help="rows whose first ten are checked; 0: none")
    parser.add_argument("--only", nargs="*", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--skip", choices=("before", "now"))
    parser.add_argument("--graph", nargs="*", default=[], help="graph files whose first ten are checked too")
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.only:
        entry = found.setdefault(name, dict(zip(("nodes", "edges", "k"), GRAPHS[name])))
        for which in ("before", "now"):
            if which == given.skip:
                continue
            place = "whole" if given.seeds == 0 else "sample"
            entry.setdefault(which, {})[place] = alone(measure, name, which, given.seeds)
            if given.quality:
                entry[which]["right_of_ten"] = alone(right_of_ten, name, which, given.quality)
            print(name, which, json.dumps(entry[which]), flush=True)
        write_json(RESULTS, found)
    for path in given.graph:
        shares = {which: alone(right_of_ten, path, which, given.quality) for which in ("before", "now")}
        found.setdefault("right_of_ten", {})[Path(path).stem] = shares
        print(path, shares, flush=True)
        write_json(RESULTS, found)
    sizes = [name for name in ("20k", "50k", "100k") if "sample" in found.get(name, {}).get("now", {})]
    if len(sizes) == 3:
        x = np.log([found[name]["nodes"] for name in sizes])
        for which in ("before", "now"):
            if all("sample" in found[name].get(which, {}) for name in sizes):
                y = np.log([found[name][which]["sample"]["table_cpu_seconds"] for name in sizes])
                found.setdefault("slope", {})[which] = round(float(np.polyfit(x, y, 1)[0]), 2)
        write_json(RESULTS, found)
        print("slope on log-log axes:", found["slope"])


if __name__ == "__main__":
    main()
