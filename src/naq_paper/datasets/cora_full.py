"""Cora-Full from its public npz, as PyG's ``CitationFull`` gives it: binary features, no self-loops.

The archive also holds pickled dictionaries (titles, words); those members are never opened.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from naq.errors import DataError, GraphError, TaskError
from naq.files import read_npz
from naq.graph import Graph
from naq.io.npz import KEYS, csr_of
from naq.io.readers import Reader
from naq.tasks import ClassSplit


class CoraFullReader(Reader):
    name = "cora-full"

    def read(self, path: Path, name: str | None = None) -> Graph:
        return read_cora_full(path, name=name or "cora-full")

    def split(self, path: Path, graph: Graph) -> ClassSplit:
        return cora_full_split(graph)


def read_cora_full(path: str | Path, *, name: str = "cora-full") -> Graph:
    """The graph of ``path``; every stored entry is an edge and every positive word count becomes 1."""
    path = Path(path)
    arrays = read_npz(path, kind="Cora-Full file", only=KEYS)
    if "labels" not in arrays:
        raise DataError(f"{path} has no array labels; expected the npz of Cora-Full.")
    adjacency, words = csr_of(arrays, "adj", path), csr_of(arrays, "attr", path)
    adjacency.data = np.ones(adjacency.nnz, dtype=np.float32)
    words.sum_duplicates()
    words.data = np.where(words.data > 0, 1, words.data).astype(np.float32)
    try:
        return Graph(adjacency, words, arrays["labels"], name=name)
    except GraphError as error:
        raise DataError(f"{path}: {error}") from error


def cora_full_split(graph: Graph) -> ClassSplit:
    """The paper's split of Cora-Full: classes by first appearance, shuffled with seed 1212, 25 / 20 / 25."""
    labels = graph.require_labels("the class split of Cora-Full")
    classes, first = np.unique(labels, return_index=True)
    if len(classes) != 70:
        raise TaskError(f"graph {graph.name!r} has {len(classes)} classes; the split of Cora-Full is for its 70.")
    order = [int(c) for c in classes[np.argsort(first)]]
    random.Random(1212).shuffle(order)
    parts = (order[:25], order[25:45], order[45:])
    return ClassSplit(*(tuple(sorted(part)) for part in parts))
