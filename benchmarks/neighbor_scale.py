"""What neighbours by vectors and by sparse features cost as the graph grows.

    python benchmarks/neighbor_scale.py                       0.1, 0.3 and 1 million nodes
    python benchmarks/neighbor_scale.py --nodes 3000000 --only vectors
    python benchmarks/neighbor_scale.py --nodes 100000 300000 --only faiss       the same vectors by faiss-cpu, which is not a dependency
    python benchmarks/neighbor_scale.py --page                the table of docs/scale.md from the results

Vectors: 64 numbers with a decaying spectrum around 20 class centres, as spread out as the classes are, searched approximately, with the recall that the table states.
Sparse features: 20 words of 10,000 with Zipf's frequencies per node, through the inverted index; a range of rows is timed and the whole table
extrapolated. One thread; seconds are of the processor. Results: benchmarks/results/neighbor_scale.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from marked_page import write_between
from naq.files import write_json
from naq.neighbors.feature_exact import inverted_index_topk
from naq.neighbors.vectors import vector_neighbors

RESULTS = Path(__file__).resolve().parent / "results" / "neighbor_scale.json"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- vectors:begin -->", "<!-- vectors:end -->"
WIDTH, CLASSES = 64, 20
WORDS, PER_NODE = 10_000, 20
ROWS = 1000


def made_up_vectors(nodes: int) -> np.ndarray:
    """Classes and noise, both with the spectrum 1, 1/2, 1/3, ... of an SVD."""
    random = np.random.default_rng(0)
    spectrum = 1.0 / np.sqrt(np.arange(1, WIDTH + 1))
    centres = random.standard_normal((CLASSES, WIDTH)) * spectrum
    noise = random.standard_normal((nodes, WIDTH), dtype=np.float32) * spectrum.astype(np.float32)
    return (centres[random.integers(0, CLASSES, nodes)] + noise).astype(np.float32)


def made_up_words(nodes: int) -> sp.csr_array:
    random = np.random.default_rng(0)
    ends = np.cumsum(1.0 / np.arange(10, WORDS + 10))
    columns = np.searchsorted(ends / ends[-1], random.random(nodes * PER_NODE)).clip(max=WORDS - 1)
    rows = np.repeat(np.arange(nodes), PER_NODE)
    return sp.csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(nodes, WORDS))


def vectors(nodes: int) -> dict[str, Any]:
    given = made_up_vectors(nodes)
    vector_neighbors(given[:3000], 10, exact=False)  # compiles
    cpu, wall = time.process_time(), time.perf_counter()
    table = vector_neighbors(given, 10, exact=False)
    return {
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "recall": round(table.info["recall"], 4),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": round(os.getloadavg()[0], 1),
    }


def faiss(nodes: int) -> dict[str, Any]:
    """Its inverted lists, 24 of sqrt(n), and its HNSW graph with 16 links, each row asking for its 11 nearest, itself among them."""
    import faiss as library

    library.omp_set_num_threads(1)
    given = made_up_vectors(nodes)
    given /= np.linalg.norm(given, axis=1, keepdims=True)
    sample = np.random.default_rng(1).choice(nodes, 512, replace=False)
    flat = library.IndexFlatIP(WIDTH)
    flat.add(given)
    true, found = flat.search(given[sample], 11)[1], {}
    lists = round(nodes**0.5)
    inverted = library.IndexIVFFlat(library.IndexFlatIP(WIDTH), WIDTH, lists, library.METRIC_INNER_PRODUCT)
    inverted.nprobe = 24
    graph = library.IndexHNSWFlat(WIDTH, 16, library.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction, graph.hnsw.efSearch = 60, 64
    for name, index in (("IVF", inverted), ("HNSW", graph)):
        begin = time.process_time()
        if not index.is_trained:
            index.train(given[np.random.default_rng(0).choice(nodes, 40 * lists, replace=False)])
        index.add(given)
        ids = index.search(given, 11)[1]
        found[name] = {
            "cpu_seconds": round(time.process_time() - begin, 1),
            "recall": round(float((ids[sample][:, :, None] == true[:, None, :]).any(axis=1).mean()), 4),
            "load": round(os.getloadavg()[0], 1),
        }
    return found


def words(nodes: int) -> dict[str, Any]:
    features = made_up_words(nodes)
    inverted_index_topk(features[:500], 10, "cosine", None)  # compiles
    begin = time.process_time()
    inverted_index_topk(features, 10, "cosine", None, (0, 1))
    setup = time.process_time() - begin
    begin = time.process_time()
    inverted_index_topk(features, 10, "cosine", None, (nodes // 2, nodes // 2 + ROWS))
    each = (time.process_time() - begin - setup) / ROWS
    return {
        "cpu_ms_per_row": round(1e3 * each, 3),
        "table_cpu_seconds": round(setup + each * nodes, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": round(os.getloadavg()[0], 1),
    }


def slope(costs: dict[int, float]) -> float:
    """Of seconds over nodes on log-log axes, by least squares."""
    return float(np.polyfit(np.log(list(costs)), np.log(list(costs.values())), 1)[0])


def write_page() -> None:
    results = json.loads(RESULTS.read_text())
    rows = {int(nodes): row for nodes, row in results["vectors"].items()}
    lines = ["| nodes | CPU seconds | recall | peak MB | load |", "|---|---|---|---|---|"]
    lines += [
        f"| {nodes:,} | {row['cpu_seconds']:,.1f} | {row['recall']:.4f} | {row['peak_mb']:,} | {row['load']} |"
        for nodes, row in sorted(rows.items())
    ]
    steep = slope({nodes: row["cpu_seconds"] for nodes, row in rows.items()})
    others = [
        f"{int(nodes):,} nodes {name} {row['cpu_seconds']:,.1f} s, recall {row['recall']:.4f} (load {row['load']})"
        for nodes, both in results["faiss"].items()
        for name, row in both.items()
    ]
    lines += [
        "",
        f"Slope of the seconds on log-log axes: {steep:.2f}. faiss-cpu on the same vectors: {'; '.join(others)}.",
    ]
    write_between(PAGE, BEGIN, END, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--only", choices=("vectors", "words", "faiss"))
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        write_page()
        return
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for task in (vectors, words, faiss):
        name = task.__name__
        for nodes in given.nodes if given.only == name or (given.only is None and name != "faiss") else ():
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                found.setdefault(name, {})[str(nodes)] = pool.submit(task, nodes).result()
            print(name, nodes, json.dumps(found[name][str(nodes)]), flush=True)
            write_json(RESULTS, found)


if __name__ == "__main__":
    main()
