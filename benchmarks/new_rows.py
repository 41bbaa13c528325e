"""Nodes that come later as rows of a table (docs/classifier.md): right as often as nodes of the graph?

``python benchmarks/new_rows.py FOLDER`` with FOLDER as for ``naq reproduce practice --data``. Features are written as
the tables that they may have come from (words in a column of text; of payments, numbers and kinds), a tenth of the
nodes is left out of both tables, and what is left is imported; five labels in every class.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import naq

GRAPHS = ("cora", "citeseer", "payments")
DRAWS = range(200, 205)


def table_of(graph: naq.Graph) -> dict[str, np.ndarray]:
    found: dict[str, Any] = {"id": np.char.add("n", np.arange(graph.num_nodes).astype(str))}
    if graph.name == "payments":
        rows = graph.features.toarray()
        found |= {f"number {name}": column for name, column in zip("abc", rows[:, :3].T)}
        return found | {f"kind {i}": np.where(column > 0, "yes", "no") for i, column in enumerate(rows[:, 3:].T)}
    counts = sp.csr_array(graph.features)
    words = np.repeat(np.char.add("w", counts.indices.astype(str)), np.maximum(1, counts.data.astype(int)))
    times = np.add.reduceat(np.append(np.maximum(1, counts.data.astype(int)), 0), counts.indptr[:-1])
    times[np.diff(counts.indptr) == 0] = 0
    return found | {"words": np.array([" ".join(part) for part in np.split(words, np.cumsum(times)[:-1])])}


def accuracies(graph: naq.Graph, draw: int) -> tuple[float, float, float]:
    """In %, of the nodes that come later: as nodes of the graph, as rows with edges, as rows alone."""
    random, truth, n = np.random.default_rng(draw), graph.labels, graph.num_nodes
    late = np.zeros(n, dtype=bool)
    late[random.permutation(n)[: n // 10]] = True
    given = [random.permutation(np.flatnonzero((truth == c) & ~late))[:5] for c in range(truth.max() + 1)]
    table, ends = table_of(graph), np.stack(sp.triu(graph.adjacency).nonzero())
    labels = {str(table["id"][node]): int(truth[node]) for node in np.concatenate(given)}
    new = late[ends].any(axis=0)
    edges = [dict(zip(("source", "target"), table["id"][ends[:, part]])) for part in (~new, new)]
    old, rows = ({name: cells[part] for name, cells in table.items()} for part in (~late, late))
    both = {name: np.concatenate([edges[0][name], edges[1][name]]) for name in edges[0]}
    whole = naq.FewShotNodeClassifier().fit(naq.from_tables(both, table), labels).predict()[late]
    classifier = naq.FewShotNodeClassifier().fit(naq.from_tables(edges[0], old), labels)
    found = (whole, classifier.predict_new(rows, edges[1]), classifier.predict_new(rows))
    return tuple(100 * float((one == truth[late]).mean()) for one in found)  # type: ignore[return-value]


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # words that the graph does not know
    print("| graph | as nodes of the graph | as new rows with edges | difference | as new rows alone |")
    print("|---|---|---|---|---|")
    for name in GRAPHS:
        graph = naq.load(folder / f"{name}.npz")
        found = np.array([accuracies(graph, draw) for draw in DRAWS])
        apart = found[:, 1] - found[:, 0]
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        one, two, alone = found.mean(axis=0)
        print(f"| {name} | {one:.1f} | {two:.1f} | {apart.mean():+.1f} ± {error:.1f} | {alone:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    main(parser.parse_args().folder)
