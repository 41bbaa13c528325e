"""Cora-Full from its public npz, as PyG's ``CitationFull`` gives it: binary features, no self-loops.

The archive also holds pickled dictionaries (titles, words); those members are never opened.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from naq.errors import DataError, GraphError
from naq.files import read_npz
from naq.graph import Graph
from naq.io.npz import KEYS, csr_of
from naq.io.readers import Reader


class CoraFullReader(Reader):
    name = "cora-full"

    def read(self, path: Path, name: str | None = None) -> Graph:
        return read_cora_full(path, name=name or "cora-full")


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
