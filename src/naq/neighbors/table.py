"""The table type, its file and its cache."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import DataError, OptionError
from naq.files import read_npz, write_npz
from naq.graph import Graph
from naq.options import check_whole


@dataclass(frozen=True, eq=False)
class NeighborTable:
    """The ``k`` nearest nodes of every node, best first; -1 (score 0) where there is none.

    Shapes:
        - ``ids``: (n, k) int32 or int64
        - ``scores``: (n, k) float32, larger is nearer
    """

    ids: np.ndarray
    scores: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids, scores = np.asarray(self.ids), np.asarray(self.scores, dtype=np.float32)
        if ids.ndim != 2 or ids.shape != scores.shape or ids.dtype.kind not in "iu":
            raise DataError(
                f"ids {ids.shape} and scores {scores.shape} are no neighbour table; expected two arrays (nodes, k)."
            )
        if ids.size and (int(ids.min()) < -1 or int(ids.max()) >= len(ids)):
            raise DataError(f"the table names node {ids.max()}, but it has nodes 0..{len(ids) - 1}.")
        for name, array in (("ids", ids), ("scores", scores)):
            array = np.ascontiguousarray(array)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def num_nodes(self) -> int:
        return int(self.ids.shape[0])

    @property
    def k(self) -> int:
        return int(self.ids.shape[1])

    @property
    def counts(self) -> np.ndarray:
        """(n,) how many neighbours each node has in the table."""
        return (self.ids >= 0).sum(axis=1)

    def __repr__(self) -> str:
        return f"NeighborTable(nodes={self.num_nodes:,}, k={self.k}, {self.info.get('kind', 'custom')})"

    def first(self, k: int) -> NeighborTable:
        """The table of the ``k`` best."""
        if not 1 <= k <= self.k:
            raise OptionError(
                f"the first {k} neighbours were asked for, but the table holds {self.k} per node; make it with k={k}."
            )
        return NeighborTable(self.ids[:, :k], self.scores[:, :k], {**self.info, "k": k})

    def save(self, path: str | Path) -> Path:
        """Write ids, scores and how they were made."""
        text = json.dumps(dict(self.info), sort_keys=True)
        return write_npz(path, {"ids": self.ids, "scores": self.scores, "info": np.array(text)})

    @classmethod
    def load(cls, path: str | Path) -> NeighborTable:
        """Read a table written by :meth:`save`."""
        arrays = read_npz(path, kind="neighbour table")
        if not {"ids", "scores", "info"} <= set(arrays):
            raise DataError(
                f"{path} is no neighbour table; expected arrays ids, scores and info, found {sorted(arrays)}."
            )
        try:
            info = json.loads(str(arrays["info"]))
        except json.JSONDecodeError as error:
            raise DataError(f"{path} has a damaged description ({error}); make the table again.") from error
        return cls(arrays["ids"], arrays["scores"], info)


def check_k(graph: Graph, k: int) -> int:
    """``k`` as an int, or an error where the graph has fewer other nodes."""
    k = check_whole("k", k)
    if k >= graph.num_nodes:
        raise OptionError(
            f"k is {k}, but graph {graph.name!r} has {graph.num_nodes:,} nodes, so a node has {graph.num_nodes - 1:,} others at most; lower k."
        )
    return k


def cache_folder() -> Path:
    """``$NAQ_CACHE``, or ``naq`` in the user's cache folder."""
    given = os.environ.get("NAQ_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "naq"


def cached(
    graph: Graph,
    info: Mapping[str, Any],
    cache: str | Path | None,
    make: Callable[[], NeighborTable],
    *,
    reads_features: bool,
) -> NeighborTable:
    """The table for this graph and ``info`` from ``cache``, or made and put there. None: no cache.

    Args:
        reads_features: whether the table depends on features; if not, one table serves all graphs of this structure.
    """
    if cache is None:
        return make()
    text = json.dumps(dict(info), sort_keys=True)
    content = graph.without_labels().hash if reads_features else graph.structure_hash
    name = hashlib.blake2b(f"{content}|{text}".encode(), digest_size=12).hexdigest()
    path = Path(cache) / "tables" / f"{name}.npz"
    if path.exists():
        try:
            table = NeighborTable.load(path)
            if table.num_nodes == graph.num_nodes and table.k == info["k"] and dict(info).items() <= table.info.items():
                return table
        except DataError:
            path.unlink(missing_ok=True)
    table = make()
    table.save(path)
    return table
