"""What ranking skewed numbers is worth (docs/import.md): tables of numbers of real graphs, imported with and without.

``python benchmarks/skewed.py FOLDER`` with FOLDER as for ``naq reproduce practice --data``. Other than payments, whose
numbers are its own, graphs get numbers that were counted: degrees, neighbours' degrees, triangles, words, rare words,
and how often words of twelve groups occur, on a scale of amounts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import naq
from naq.io.tables import columns

GRAPHS = ("payments", "cora", "actor", "amazon_computers", "coauthor_cs")
DRAWS = range(100, 108)  # others than those that docs/classifier.md reports


def numbers(graph: naq.Graph) -> dict[str, np.ndarray]:
    """Columns of a table of nodes."""
    if graph.name == "payments":
        rows = graph.features.toarray()
        found = {f"number {name}": column for name, column in zip("abc", rows[:, :3].T)}
        return found | {
            f"kind {name}": np.where(column > 0, "yes", "no") for name, column in zip("abcdefghijkl", rows[:, 3:].T)
        }
    edges, words = graph.adjacency, sp.csr_array(graph.features)
    group = np.random.default_rng(1).integers(0, 12, words.shape[1])
    sums = np.stack([words[:, group == k].sum(axis=1) for k in range(12)], axis=1)
    amounts = np.expm1(np.minimum(sums / np.maximum(sums.std(axis=0), 1e-9), 6))
    rare = (words != 0) @ (1 / np.maximum(words.mean(axis=0), 1e-9))
    found = {"degree": graph.degrees, "near": edges @ graph.degrees, "triangles": (edges @ edges * edges).sum(axis=1)}
    found |= {"words": np.diff(words.indptr), "rare": rare}
    return found | {f"amount {name}": column for name, column in zip("abcdefghijkl", amounts.T)}


def accuracy(graph: naq.Graph, truth: np.ndarray, each: int) -> float:
    classifier, right = naq.FewShotNodeClassifier().fit(graph), []
    for draw in DRAWS:
        random = np.random.default_rng(draw)
        nodes = [random.permutation(np.flatnonzero(truth == c))[:each] for c in range(truth.max() + 1)]
        given = np.concatenate(nodes)
        found = classifier.predict(support=given, labels=truth[given])
        rest = np.setdiff1d(np.flatnonzero(truth >= 0), given)
        right.append((found[rest] == truth[rest]).mean())
    return 100 * float(np.mean(right))


def main(folder: Path) -> None:
    print("| graph | columns by rank | 5 labels, as they are | by rank | 20 labels, as they are | by rank |")
    print("|---|---|---|---|---|---|")
    for name in GRAPHS:
        graph = naq.load(folder / f"{name}.npz")
        rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.adjacency.indptr))
        edges, nodes = {"source": rows, "target": graph.adjacency.indices}, {"id": np.arange(graph.num_nodes)}
        cells, ranked = [], 0
        for heavy in (np.inf, 9.0):
            columns.HEAVY = heavy
            made, report = naq.io.import_tables(edges, nodes | numbers(graph))
            ranked = sum("by rank" in feature.note for feature in report.features)
            cells.append([accuracy(made, graph.labels, each) for each in (5, 20)])
        shown = " | ".join(f"{one:.1f} | {two:.1f}" for one, two in zip(*cells))
        print(f"| {name} | {ranked} of {len(report.features)} | {shown} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    main(parser.parse_args().folder)
