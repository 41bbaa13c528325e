"""What approximate neighbours cost as the graph grows: our search, faiss-cpu (dense) and pynndescent (sparse), one
thread.

    python benchmarks/neighbor_scale.py                                         our search at 0.1 and 1 million rows
    python benchmarks/neighbor_scale.py --search faiss --rows vectors --setting 24
    python benchmarks/neighbor_scale.py --search pynndescent --rows words zipf --setting 30
    python benchmarks/neighbor_scale.py --page                                  the table of docs/scale.md

Rows: ``vectors``, 64 dense numbers around 20 centres with a decaying spectrum; ``words``, 2,000 words around 20 classes
(``benchmarks/generate.py``); ``zipf``, 20 of 10,000 words with Zipf's frequencies, which have no clusters. Top 10 by
cosine. Seconds are of the processor, after a small search has compiled; recall is the share of the exact neighbours of
512 rows. Exact seconds are those of 1,000 rows, times as many as there are. Results:
benchmarks/results/neighbor_scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from generate import generate
from measuring import DOCS, RESULTS, in_new_process, markdown, write_between
from naq import Graph, feature_neighbors, load, vector_neighbors
from naq.files import write_json
from naq_scale.recall import recall, true_rows

FILE = RESULTS / "neighbor_scale.json"
K, TIMED = 10, 1000
KINDS = {
    "vectors": "64 dense numbers",
    "words": "2,000 words around 20 classes",
    "zipf": "20 of 10,000 words at random",
}


def made_up_vectors(nodes: int, width: int = 64, classes: int = 20) -> np.ndarray:
    """Classes and noise, both with the spectrum 1, 1/2, 1/3, ... of an SVD."""
    random = np.random.default_rng(0)
    spectrum = 1.0 / np.sqrt(np.arange(1, width + 1))
    centres = random.standard_normal((classes, width)) * spectrum
    noise = random.standard_normal((nodes, width), dtype=np.float32) * spectrum.astype(np.float32)
    return (centres[random.integers(0, classes, nodes)] + noise).astype(np.float32)


def made_up_words(nodes: int, words: int = 10_000, each: int = 20) -> sp.csr_array:
    random = np.random.default_rng(0)
    ends = np.cumsum(1.0 / np.arange(10, words + 10))
    columns = np.searchsorted(ends / ends[-1], random.random(nodes * each)).clip(max=words - 1)
    rows = np.repeat(np.arange(nodes), each)
    return sp.csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(nodes, words))


def made_up(kind: str, nodes: int, folder: str) -> Any:
    if kind == "vectors":
        return made_up_vectors(nodes)
    if kind == "zipf":
        return made_up_words(nodes)
    return load(generate(Path(folder) / f"{nodes}", nodes, 2 * nodes, features=2000, sparse=True)).features


def own_search(rows: Any, setting: int) -> np.ndarray:
    if isinstance(rows, np.ndarray):
        return vector_neighbors(rows, K, exact=False).ids
    return feature_neighbors(Graph(np.array([[0], [1]]), rows, nodes=rows.shape[0]), K, search="approximate").ids


def faiss(rows: np.ndarray, setting: int) -> np.ndarray:
    """Inverted lists, four times sqrt(n), of which ``setting`` are probed."""
    import faiss as library

    library.omp_set_num_threads(1)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    lists, width = round(4 * len(unit) ** 0.5), unit.shape[1]
    index = library.IndexIVFFlat(library.IndexFlatIP(width), width, lists, library.METRIC_INNER_PRODUCT)
    index.nprobe = setting
    index.train(unit[np.random.default_rng(0).permutation(len(unit))[: 40 * lists]])
    index.add(unit)
    return without_self(index.search(unit, K + 1)[1])


def pynndescent(rows: Any, setting: int) -> np.ndarray:
    """``setting`` neighbours kept."""
    from pynndescent import NNDescent

    index = NNDescent(sp.csr_matrix(rows), metric="cosine", n_neighbors=setting, n_jobs=1, random_state=0)
    return without_self(index.neighbor_graph[0])


def without_self(ids: np.ndarray) -> np.ndarray:
    own = ids == np.arange(len(ids))[:, None]
    own[~own.any(axis=1), -1] = True
    return np.take_along_axis(ids, np.argsort(own, axis=1, kind="stable"), axis=1)[:, :K]


SEARCHES = {"naq": own_search, "faiss": faiss, "pynndescent": pynndescent}


def measured(kind: str, nodes: int, search: str, setting: int, exact: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        SEARCHES[search](made_up(kind, 3000, folder), setting)  # compiles
        rows = made_up(kind, nodes, folder)
        begin = time.process_time()
        ids = SEARCHES[search](rows, setting)
        found: dict[str, Any] = {
            "cpu_seconds": round(time.process_time() - begin, 1),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
        sample = np.sort(np.random.default_rng(1).choice(nodes, 512, replace=False))
        found["recall"] = round(recall(ids[sample], true_rows(rows, sample, K, "cosine")[0]), 4)
        if exact:
            begin = time.process_time()
            true_rows(rows, np.arange(1), K, "cosine")
            setup = time.process_time() - begin
            begin = time.process_time()
            true_rows(rows, np.arange(nodes // 2, nodes // 2 + TIMED), K, "cosine")
            each = (time.process_time() - begin - setup) / TIMED
            found["exact_cpu_seconds"] = round(setup + each * nodes, 1)
    return found


def write_page() -> None:
    found, lines = json.loads(FILE.read_text()), []
    for kind, title in KINDS.items():
        for nodes, searches in found[kind].items():
            for search, row in searches.items():
                exact = f"{row['exact_cpu_seconds']:,.0f}" if "exact_cpu_seconds" in row else ""
                cost = [f"{row['cpu_seconds']:,.1f}", exact, f"{row['recall']:.3f}", f"{row['peak_mb']:,}"]
                lines.append([title, f"{int(nodes):,}", search, *cost])
    head = ["rows", "nodes", "search", "CPU seconds", "exact", "recall", "peak MB"]
    write_between(DOCS / "scale.md", "neighbours", markdown(head, lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rows", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--search", choices=tuple(SEARCHES), default="naq")
    parser.add_argument(
        "--setting", type=int, default=0, help="lists that faiss probes, or neighbours pynndescent keeps"
    )
    parser.add_argument("--exact", action="store_true", help="time 1,000 rows of the exact table too")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        write_page()
        return
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    found: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    name = f"{given.search} {given.setting}" if given.setting else given.search
    for kind in given.rows:
        for nodes in given.nodes:
            row = in_new_process(measured, kind, nodes, given.search, given.setting, given.exact)
            found.setdefault(kind, {}).setdefault(str(nodes), {})[name] = row
            print(kind, nodes, name, json.dumps(row), flush=True)
            write_json(FILE, found)


if __name__ == "__main__":
    main()
