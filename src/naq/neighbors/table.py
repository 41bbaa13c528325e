"""The table type, its file and its cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from naq.device import require
from naq.errors import DataError, OptionError, warn
from naq.files import parse_json, read_npz, write_npz
from naq.graph import Graph
from naq.options import check_whole
from naq.random import stream

LARGE = 1 << 26
"""Bytes of an array above which a table is not compressed."""
CACHE_FORMAT = 2
"""Files of the first format have no checksum; they are not looked for."""
FILLS = ("none", "lowest", "random", "feature")


@dataclass(frozen=True, eq=False)
class NeighborTable:
    """The ``k`` nearest nodes of every node, best first; -1 (score 0) for no neighbour.

    ``info`` says how it was made. Its ``graph`` is a hash of what was read of the graph: the structure, with the
    features if they were read (``content_hash``).

    Shapes:
        - ``ids``: (n, k) int32 or int64
        - ``scores``: (n, k) float32, larger is nearer
    """

    ids: np.ndarray
    scores: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids, scores = np.asarray(self.ids), np.asarray(self.scores)
        if scores.dtype.kind not in "biuf":
            raise DataError(f"scores have type {scores.dtype}; expected numbers.")
        scores = scores.astype(np.float32, copy=False)
        if ids.ndim != 2 or ids.shape != scores.shape or ids.dtype.kind not in "iu":
            raise DataError(f"ids {ids.shape} and scores {scores.shape} are not a neighbour table; expected (n, k).")
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

    @property
    def hash(self) -> str:
        """A hash of the neighbours, whatever type their numbers have; scores and ``info`` do not count."""
        digest = hashlib.blake2b(f"{self.ids.shape}".encode(), digest_size=16)
        for start in range(0, self.num_nodes, 1 << 16):
            digest.update(np.ascontiguousarray(self.ids[start : start + (1 << 16)], dtype="<i8").data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"NeighborTable(nodes={self.num_nodes:,}, k={self.k}, {self.info.get('kind', 'custom')})"

    def first(self, k: int) -> NeighborTable:
        """The table of the ``k`` best."""
        if not 1 <= k <= self.k:
            raise OptionError(f"k is {k}, but the table holds {self.k} neighbours; make it with k={k}.")
        return NeighborTable(self.ids[:, :k], self.scores[:, :k], {**self.info, "k": k})

    def save(self, path: str | Path) -> Path:
        """Write ids, scores and how they were made."""
        compression = zipfile.ZIP_STORED if self.ids.nbytes >= LARGE else zipfile.ZIP_DEFLATED
        return write_npz(path, self._arrays(), compression=compression)

    def _arrays(self) -> dict[str, np.ndarray]:
        text = json.dumps(dict(self.info), sort_keys=True)
        return {"ids": self.ids, "scores": self.scores, "info": np.array(text)}

    @classmethod
    def load(cls, path: str | Path) -> NeighborTable:
        """Read a table written by :meth:`save`, or by another program: ``info`` may be missing."""
        arrays = read_npz(path, kind="neighbour table")
        return cls._from({"info": np.array("{}"), **arrays}, path)

    @classmethod
    def _from(cls, arrays: Mapping[str, np.ndarray], path: str | Path) -> NeighborTable:
        if not {"ids", "scores", "info"} <= set(arrays):
            found = [name for name in arrays if name != "info" or arrays[name].size > 2]
            raise DataError(f"{path} is not a neighbour table; expected arrays ids and scores, found {sorted(found)}.")
        return cls(arrays["ids"], arrays["scores"], description(arrays["info"], path))


def content_hash(graph: Graph, *, reads_features: bool) -> str:
    """A hash of what a table is made from; labels never count."""
    return graph.without_labels().hash if reads_features else graph.structure_hash


def description(text: np.ndarray, path: str | Path) -> dict[str, Any]:
    """How a table or episodes were made, from the ``info`` of their file."""
    try:
        if text.shape != () or text.dtype.kind != "U":
            raise ValueError("it is not text")
        info = parse_json(str(text))
        if not isinstance(info, dict):
            raise ValueError("it is not a JSON object")
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path} has a damaged description ({error}); make it again.") from error
    return info


def check_k(graph: Graph, k: int) -> int:
    """``k`` as an int, or an error where the graph has fewer other nodes."""
    k = check_whole("k", k)
    if k >= graph.num_nodes:
        raise OptionError(
            f"k is {k}, but graph {graph.name!r} has {graph.num_nodes:,} nodes, so a node has {graph.num_nodes - 1:,} "
            "others at most; lower k."
        )
    require(12.0 * k * graph.num_nodes, f"a table of {k:,} neighbours for each of {graph.num_nodes:,} nodes", "lower k")
    return k


def cached(
    graph: Graph, info: Mapping[str, Any], cache: str | Path | None, make: Callable[[], NeighborTable], *,
    reads_features: bool,
) -> NeighborTable:  # fmt: skip
    """The table for this graph and ``info`` from ``cache``, or made and put there. None: no cache.

    Args:
        reads_features: whether the table depends on features; if not, one table serves all graphs of this structure.
    """
    graph.check_files()
    if cache is None:
        table = make()
        graph.check_files()
        return table
    text = json.dumps(dict(info), sort_keys=True)
    content = content_hash(graph, reads_features=reads_features)
    name = hashlib.blake2b(f"{CACHE_FORMAT}|{content}|{text}".encode(), digest_size=12).hexdigest()
    path = Path(cache) / "tables" / f"{name}.npz"
    try:
        if path.exists():
            table = _of_cache(path, name)
            if table.num_nodes == graph.num_nodes and table.k == info["k"] and dict(info).items() <= table.info.items():
                return table
    except (DataError, OSError) as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        warn(f"a neighbour table of the cache is not used and is made again: {error}", stacklevel=2)
    table = make()
    graph.check_files()
    try:
        write_npz(path, {**table._arrays(), "key": np.array(name)})
    except (DataError, OSError) as error:
        warn(f"the neighbour table is not kept in the cache: {error}", stacklevel=2)
    return table


def _of_cache(path: Path, name: str) -> NeighborTable:
    """The table of a cache file, once its checksums fit and it says of itself that it belongs there."""
    arrays = read_npz(path, kind="neighbour table", ours=True)
    if str(arrays.get("key")) != name:
        raise DataError(f"{path} holds the table of another graph or of other options.")
    return NeighborTable._from(arrays, path)


def check_fill(fill: str, allowed: tuple[str, ...] = FILLS) -> str:
    if fill not in allowed:
        raise OptionError(f"fill is {fill!r}; expected one of {', '.join(allowed)}.")
    return fill


def fill_table(
    table: NeighborTable, fill: str, *, seed: int = 0, feature_ids: Callable[[], np.ndarray] | None = None,
    graph: Graph | None = None,
) -> NeighborTable:  # fmt: skip
    """The table with its short rows completed; filled entries have score 0.

    - ``none``: leave -1;
    - ``lowest``: the lowest node ids that the row does not hold yet. As the released code, whose diagonal is a zero
      like any other, the node itself may be among them;
    - ``random``: other nodes, drawn from a stream of the node's own;
    - ``feature``: the node's nearest by features, in their order.

    Args:
        graph: that the table was made from; a hash of what was read of it joins ``info``.
    """
    info = {**table.info, "fill": fill} | ({"seed": seed} if fill == "random" else {})
    if graph is not None:
        info["graph"] = content_hash(graph, reads_features=info.get("kind") == "feature" or fill == "feature")
    short = np.flatnonzero((table.ids < 0).any(axis=1)) if fill != "none" else np.empty(0, dtype=np.int64)
    ids, (n, k) = table.ids.copy() if len(short) else table.ids, table.ids.shape
    near = feature_ids() if fill == "feature" and feature_ids is not None and len(short) else ids
    for i in short.tolist():
        row = [j for j in ids[i].tolist() if j >= 0]
        taken = set(row) if fill == "lowest" else {*row, i}
        for j in range(n) if fill == "lowest" else _others(n, k, seed, i) if fill == "random" else near[i].tolist():
            if len(row) == k:
                break
            if j >= 0 and j not in taken:
                taken.add(j)
                row.append(j)
        ids[i, : len(row)] = row
    return NeighborTable(ids, table.scores, info)


def _others(n: int, k: int, seed: int, node: int) -> Iterator[int]:
    """Nodes in random order; on large graphs with repeats, without end."""
    random = stream(seed, "neighbors/fill", node)
    if n <= 4 * k + 64:
        yield from random.permutation(n).tolist()
    while n > 4 * k + 64:
        yield from random.integers(0, n, size=64).tolist()
