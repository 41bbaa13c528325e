"""The logistic head against scikit-learn on fixed tasks of a real graph: mean accuracy, difference, agreement, time.

    python benchmarks/probe_against_sklearn.py GRAPH.npz TASKS.npz --python OTHER/bin/python

``--python`` names an interpreter with the scikit-learn to compare with (1.1 for the paper's numbers); without it only this
package's side runs. Both sides get the same float32 rows.

Features: ``counts`` (the graph's own), ``smooth`` (TF-IDF, SVD, ten smoothing steps, unit rows), ``centred`` (the same minus its mean)
and ``gcn`` (an untrained GCN, not negative).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from naq.graph import Graph
from naq.heads import HEADS, LogisticHead, evaluate
from naq.io import load
from naq.nn import GCN, GraphOperator
from naq.tasks import Tasks

WORKER = Path(__file__).with_name("sklearn_probe.py")


def smooth(graph: Graph, width: int = 256, steps: int = 10, own: float = 0.15) -> np.ndarray:
    """The training-free embedding: TF-IDF, truncated SVD, smoothing that keeps a share of the own vector, unit rows."""
    words = TfidfTransformer(sublinear_tf=True).fit_transform(sp.csr_matrix(graph.require_features("smooth")))
    start = normalize(TruncatedSVD(width, random_state=0).fit_transform(words))
    vectors = start
    for _ in range(steps):
        vectors = (1 - own) * (graph.normalized_adjacency() @ vectors) + own * start
    return normalize(vectors).astype(np.float32)


def features(graph: Graph, names: list[str]) -> Iterator[tuple[str, np.ndarray | sp.csr_array]]:
    if "counts" in names:
        yield "counts", graph.require_features("counts")
    if "smooth" in names or "centred" in names:
        vectors = smooth(graph)
        if "smooth" in names:
            yield "smooth", vectors
        if "centred" in names:
            yield "centred", vectors - vectors.mean(axis=0)
    if "gcn" in names:
        yield "gcn", GCN(GraphOperator(graph), seed=0).encode_all().numpy()


def on_task_rows(matrix: np.ndarray | sp.csr_array, tasks: Tasks) -> tuple[np.ndarray, Tasks]:
    """The rows the tasks use, dense, and the tasks in their numbers."""
    nodes = tasks.nodes()
    new_id = np.zeros(matrix.shape[0], dtype=np.int64)
    new_id[nodes] = np.arange(len(nodes))
    rows = matrix[nodes]
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return dense.astype(np.float32), tasks.relabelled(new_id)


def other_side(python: str, rows: np.ndarray, tasks: Tasks) -> tuple[np.ndarray, np.ndarray, str]:
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(given, rows=rows, support=tasks.support, query=tasks.query, way=tasks.way, shot=tasks.shot)
        one_thread = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        subprocess.run([python, str(WORKER), str(given), str(answer)], check=True, env=one_thread)
        with np.load(answer) as found:
            return found["slots"], found["iterations"], str(found["version"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph")
    parser.add_argument("tasks")
    parser.add_argument("--python", help="interpreter with the scikit-learn to compare with")
    parser.add_argument("--way", type=int, default=5)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--count", type=int, default=500, help="use the first COUNT tasks")
    parser.add_argument("--features", nargs="+", default=["counts", "smooth", "centred", "gcn"])
    given = parser.parse_args()
    graph = load(given.graph)
    for title, matrix in features(graph, given.features):
        for shot in given.shots:
            tasks = Tasks.load(given.tasks, way=given.way, shot=shot).take(given.count)
            rows, there = on_task_rows(matrix, tasks)
            LogisticHead().solve(rows, there.take(1))
            began = time.perf_counter()
            ours = LogisticHead().solve(rows, there)
            seconds = time.perf_counter() - began
            line = f"{title:8} {evaluate(rows, there)}, {seconds:.2f} s, {ours.iterations.mean():.1f} iterations"
            if given.python:
                began = time.perf_counter()
                slots, iterations, version = other_side(given.python, rows, there)
                right, theirs = ours.slots == tasks.query_slots, slots == tasks.query_slots
                line += (
                    f" | scikit-learn {version}: {100 * theirs.mean():.2f} %, {time.perf_counter() - began:.1f} s, "
                    f"{iterations.mean():.1f} iterations | difference {100 * (right.mean() - theirs.mean()):+.3f} points, "
                    f"same answer {100 * (slots == ours.slots).mean():.2f} %"
                )
            print(line, flush=True)
            if isinstance(matrix, np.ndarray):
                for head in sorted(set(HEADS) - {"logistic"}):
                    print(f"{title:8} {evaluate(matrix, tasks, head)}", flush=True)


if __name__ == "__main__":
    main()
