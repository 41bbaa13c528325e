"""What neighbours by features cost as the graph grows: an approximate table, beside the exact one where that is short.

    python benchmarks/feature_scale.py                                 0.1 and 1 million nodes
    python benchmarks/feature_scale.py --nodes 10000000 --only words   ten million: hours, and 16 GB of memory
    python benchmarks/feature_scale.py --page                          the table of docs/scale.md from the results

Features: ``words``, 2,000 words around 20 classes (``naq.io.generate``), memory-mapped; ``zipf``, 20 of 10,000 words with Zipf's frequencies
at random, which have no clusters; ``numbers``, 64 dense columns around 20 centres with a decaying spectrum. Top-10 by cosine, one thread, seconds of the processor.
Exact seconds are those of 1,000 rows, times as many as there are. Results: benchmarks/results/feature_scale.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from generate import generate
from marked_page import write_between
from naq import Graph, feature_neighbors, load
from naq.files import write_json
from naq.neighbors.feature_exact import block_topk, inverted_index_topk
from neighbor_scale import made_up_vectors, made_up_words, slope

RESULTS = Path(__file__).resolve().parent / "results" / "feature_scale.json"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- features:begin -->", "<!-- features:end -->"
KINDS = {
    "words": "2,000 words around 20 classes",
    "zipf": "20 of 10,000 words at random",
    "numbers": "64 dense numbers",
}
ROWS = 1000
"""Of an exact table that are timed; the rest follows."""


def graph_of(kind: str, nodes: int, folder: str) -> Graph:
    if kind == "words":
        return load(generate(Path(folder) / "graph", nodes, 2 * nodes, features=2000, sparse=True))
    features = made_up_words(nodes) if kind == "zipf" else made_up_vectors(nodes)
    return Graph(np.array([[0], [1]]), features, nodes=nodes)


def measured(kind: str, nodes: int, exact: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        small = graph_of(kind, 2000, str(Path(folder) / "small"))
        feature_neighbors(small, 10, search="approximate")  # compiles
        graph = graph_of(kind, nodes, folder)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        cpu, wall = time.process_time(), time.perf_counter()
        table = feature_neighbors(graph, 10, search="approximate")
        found = {
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "wall_seconds": round(time.perf_counter() - wall, 1),
            "recall": round(table.info["recall"], 4),
            "recall_with_ties": round(table.info["recall_with_ties"], 4),
            "before_mb": before,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "load": round(os.getloadavg()[0], 1),
        }
        if exact:
            found["exact_cpu_seconds"] = round(exact_seconds(graph, nodes), 1)
    return found


def exact_seconds(graph: Graph, nodes: int) -> float:
    """Of the whole table, from ``ROWS`` rows in its middle."""
    features = graph.require_features("a benchmark")

    def seconds(rows: tuple[int, int]) -> float:
        begin = time.process_time()
        if isinstance(features, np.ndarray):
            block_topk(features, 10, "cosine", "cpu", None, seeds=rows)
        else:
            inverted_index_topk(features, 10, "cosine", None, rows)
        return time.process_time() - begin

    seconds((0, 1))  # compiles
    setup = seconds((0, 1))
    return setup + (seconds((nodes // 2, nodes // 2 + ROWS)) - setup) / ROWS * nodes


def write_page() -> None:
    results = json.loads(RESULTS.read_text())
    lines = [
        "| features | nodes | CPU seconds | exact, CPU seconds | recall | with ties | peak MB | load |",
        "|---|---|---|---|---|---|---|---|",
    ]
    steep = []
    for kind, title in KINDS.items():
        rows = {int(nodes): row for nodes, row in results.get(kind, {}).items()}
        for nodes, row in sorted(rows.items()):
            exact = f"{row['exact_cpu_seconds']:,.0f}" if "exact_cpu_seconds" in row else ""
            lines.append(
                f"| {title} | {nodes:,} | {row['cpu_seconds']:,.1f} | {exact} | {row['recall']:.3f} | {row['recall_with_ties']:.3f} | {row['peak_mb']:,} | {row['load']} |"
            )
        if len(rows) > 1:
            steep.append(f"{title} {slope({nodes: row['cpu_seconds'] for nodes, row in rows.items()}):.2f}")
    grows = f" Slope of the seconds on log-log axes: {'; '.join(steep)}." if steep else ""
    lines += ["", f"Exact seconds follow from {ROWS:,} rows.{grows}"]
    write_between(PAGE, BEGIN, END, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--only", choices=tuple(KINDS))
    parser.add_argument("--no-exact", action="store_true", help="leave the exact table out")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        write_page()
        return
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for kind in (given.only,) if given.only else KINDS:
        for nodes in given.nodes:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                row = pool.submit(measured, kind, nodes, not given.no_exact).result()
            found.setdefault(kind, {})[str(nodes)] = row
            print(kind, nodes, json.dumps(row), flush=True)
            write_json(RESULTS, found)


if __name__ == "__main__":
    main()
