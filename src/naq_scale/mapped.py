"""A graph in a folder of memory-mapped arrays: for graphs larger than memory, and to open any graph at once.

``adj_indptr, adj_indices`` is the adjacency as CSR: both directions of every edge, columns ascending, no self-loop, no
duplicate. Features are ``attr_indptr, attr_indices[, attr_data]`` or a dense ``attr``; ``labels``, ``class_names``,
``names``, ``vocab``, blocks, arcs, relations, text, table and recipe as in the graph npz. What is checked when:

- opening a folder: the manifest by its checksum; size, shape and type of every array file; labels; and one pass over
  the index arrays (in range, ascending, no loop), since compiled code trusts them. Feature values and names of a large
  folder are not read; one of up to :data:`VERIFIED` bytes is checked as with ``verify=True``.
- ``verify=True``: also the checksum of every array, that edges go in both directions, and that feature values are
  finite.
"""

from __future__ import annotations

import ctypes
import signal
from functools import cache
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
import scipy.sparse as sp
from numba import njit, prange

from naq.errors import DataError, GraphError
from naq.files import is_text
from naq.graph import Graph
from naq.io.npz import (
    ARCS,
    BLOCKS,
    MOST_COLUMNS,
    RECIPE,
    RELATIONS,
    TABLE,
    TEXT,
    check_label_array,
    check_strings,
    kept_arrays,
    relation_names,
    split_relations,
    stated_blocks,
)
from naq.io.npz import with_kept as with_text_and_table
from naq.io.readers import Reader
from naq.random import mixed
from naq_scale.array_folder import MANIFEST, check_sums, new_folder, open_arrays, read_manifest

FORMAT, VERSION = "naq-graph", 1
_NAMES = ("class_names", "names", "vocab")
_SPARSE = ("adj_indptr", "adj_indices", "attr_indptr", "attr_indices", "attr_data")
ARRAYS = frozenset({*_SPARSE, "attr", "labels", *_NAMES, *BLOCKS, *ARCS, *RELATIONS, *TEXT, *TABLE, RECIPE})
ROWS = 1 << 16
"""Rows that one piece of a scan goes through, and entries that are checked at once."""
VERIFIED = 1 << 28
"""Bytes of arrays that are compared with their checksums whenever a folder is opened."""
FACTS = frozenset({"name", "nodes", "edges", "features"})


class FolderReader(Reader):
    """A folder of memory-mapped arrays."""

    name = "mapped"
    expects = "a graph folder (naq import --mmap)"

    def fits(self, path: Path) -> bool:
        return path.is_dir() and (path / MANIFEST).is_file()

    def read(self, path: Path, name: str | None = None) -> Graph:
        return open_graph(path, name=name)

    def read_verified(self, path: Path) -> Graph:
        return open_graph(path, verify=True)


def save_mapped(path: str | Path, graph: Graph) -> Path:
    """Write a graph as a folder; reading it back gives the same content hash and names."""
    with new_folder(path, FORMAT, VERSION) as writer:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        writer.facts |= {"name": graph.name, **sizes}
        writer.put("adj_indptr", graph.adjacency.indptr, index_type(graph.adjacency.nnz))
        writer.put("adj_indices", graph.adjacency.indices, index_type(graph.num_nodes))
        if isinstance(graph.features, np.ndarray):
            writer.put("attr", graph.features, np.float32)
        elif graph.features is not None:
            writer.put("attr_indptr", graph.features.indptr, index_type(graph.features.nnz))
            writer.put("attr_indices", graph.features.indices, np.int32)
            writer.put("attr_data", graph.features.data, np.float32)
        for key, array in kept_arrays(graph).items():
            writer.put(key, array)
        for key in ("labels", *_NAMES):
            if getattr(graph, key) is not None:
                writer.put(key, getattr(graph, key))
    return Path(path)


def index_type(largest: int) -> type:
    """The smaller type that holds numbers up to ``largest``."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


def open_graph(path: str | Path, *, name: str | None = None, verify: bool = False) -> Graph:
    """The graph of a folder on memory-mapped arrays; the module says what is checked."""
    path = Path(path)
    manifest = read_manifest(path, FORMAT, VERSION, FACTS)
    arrays = open_arrays(path, manifest, ARRAYS)
    verify = verify or sum(array.nbytes for array in arrays.values()) <= VERIFIED
    for key in ("adj_indptr", "adj_indices"):
        if key not in arrays:
            raise DataError(f"{path} has no array {key}; expected adj_indptr and adj_indices.")
    n = max(0, len(arrays["adj_indptr"]) - 1)
    if n == 0:
        raise DataError(f"{path}: the graph is empty (0 nodes); expected at least one node.")
    adjacency = _csr(arrays, "adj", (n, n), path)
    features = _features(arrays, manifest, n, path)
    arcs = _csr(arrays, "arc", (n, n), path) if "arc_indptr" in arrays else None
    kinds = relation_names(arrays, path)
    typed = None if kinds is None else _csr(arrays, "rel", (len(kinds) * n, n), path)
    if verify:
        check_sums(path, manifest)
        _verify(adjacency, features, path)
        for key, matrix in (("arc_data", arcs), ("rel_data", typed)):
            if matrix is not None and not (np.isfinite(matrix.data) & (matrix.data > 0)).all():
                raise DataError(f"{path}: {key} holds a weight that is not above 0; make the folder again.")
        own = arrays.get("names", np.empty(0))
        if not all(is_text(own[start : start + ROWS]) for start in range(0, len(own), ROWS)):
            raise DataError(f"{path}: names holds bytes that are not text; make the folder again.")
    names: dict[str, Any] = {
        key: check_strings(arrays[key], key, path) if key != "names" else _text(arrays[key], path)
        for key in _NAMES
        if key in arrays
    }
    say_lost_pages()
    try:
        graph = Graph.on_clean_arrays(
            adjacency,
            features,
            check_label_array(arrays.get("labels"), str(path)),
            **names,
            blocks=stated_blocks(arrays, path),
            arcs=arcs,
            relations=None if typed is None or kinds is None else split_relations(typed, kinds),
            name=name or str(manifest.get("name") or path.name),
            operator_class="naq_scale.streamed:StreamedOperator",
        )
        return with_text_and_table(graph, arrays, path)
    except GraphError as error:
        raise DataError(f"{path}: {error}") from error


def _features(arrays: dict[str, np.ndarray], manifest: dict[str, Any], n: int, path: Path) -> Any:
    if "attr" in arrays:
        dense = arrays["attr"]
        if "attr_indptr" in arrays:
            raise DataError(f"{path} has both dense attr and sparse attr_* features; keep one of them.")
        if dense.ndim != 2 or len(dense) != n or dense.dtype != np.float32:
            raise DataError(f"{path}: attr has shape {dense.shape} and type {dense.dtype}; expected ({n}, d) float32.")
        return dense
    if "attr_indptr" not in arrays:
        return None
    width = manifest.get("features")
    if not isinstance(width, int) or not 0 < width <= MOST_COLUMNS:
        raise DataError(f"{path / MANIFEST}: features is {width!r}; expected the number of columns.")
    return _csr(arrays, "attr", (n, width), path)


def _csr(arrays: dict[str, np.ndarray], prefix: str, shape: tuple[int, int], path: Path) -> sp.csr_array:
    """A CSR matrix on the mapped arrays, its index arrays read through once."""
    indptr, indices = arrays[f"{prefix}_indptr"], arrays.get(f"{prefix}_indices", np.empty(0, dtype=np.int32))
    count, start, damaged = len(indices), f"{path}: {prefix}", "the folder is damaged"
    for key, array in (("indptr", indptr), ("indices", indices)):
        if array.ndim != 1 or array.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
            raise DataError(f"{start}_{key} has shape {array.shape} and type {array.dtype}; expected whole numbers.")
    if len(indptr) != shape[0] + 1:
        raise DataError(f"{start}_indptr has {len(indptr):,} entries; expected {shape[0] + 1:,}.")
    step = 1 << 22
    falls = (bool((np.diff(indptr[i : i + step + 1]) < 0).any()) for i in range(0, len(indptr), step))
    if indptr[0] != 0 or indptr[-1] != count or any(falls):
        raise DataError(f"{start}_indptr must start at 0, never fall and end at {count:,}; {damaged}.")
    bad = first_bad_row(indptr, indices, shape[1], prefix != "attr", -(-shape[0] // ROWS))
    if bad >= 0:
        loop = " without itself" if prefix != "attr" else ""
        expected = f"an ascending list within 0..{shape[1] - 1}{loop}"
        raise DataError(f"{path}: row {bad} of {prefix}_indices is not {expected}; {damaged}.")
    data: np.ndarray = arrays.get(f"{prefix}_data", np.broadcast_to(np.float32(1), count))
    if data.shape != indices.shape or data.dtype != np.float32:
        raise DataError(f"{start}_data has shape {data.shape} and type {data.dtype}; expected {count:,} float32.")
    matrix = sp.csr_array(shape, dtype=np.float32)  # the constructor would copy these arrays to one common type
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _verify(adjacency: sp.csr_array, features: Any, path: Path) -> None:
    if one_way(adjacency.indptr, adjacency.indices, -(-adjacency.shape[0] // ROWS)):
        raise DataError(f"{path}: some edges are there in one direction only; make the folder again.")
    values = np.empty(0) if features is None else features if isinstance(features, np.ndarray) else features.data
    for start in range(0, len(values), ROWS):
        if not np.isfinite(values[start : start + ROWS]).all():
            raise DataError(f"{path}: features hold NaN or infinity; replace them and make the folder again.")


def _text(array: np.ndarray, path: Path) -> np.ndarray:
    if array.ndim != 1 or array.dtype.kind != "U":
        raise DataError(f"{path}: names have shape {array.shape} and type {array.dtype}; expected one text per node.")
    return array


@njit(cache=True, parallel=True)
def first_bad_row(indptr: Any, indices: Any, columns: Any, square: Any, pieces: Any) -> Any:
    """The first row that falls, leaves 0..columns - 1 or, in a ``square`` matrix, holds its own number; -1 if none."""
    rows = len(indptr) - 1
    found = np.full(pieces, rows, dtype=np.int64)
    for piece in prange(pieces):
        for r in range(piece * ROWS, min(rows, (piece + 1) * ROWS)):
            last, sound = np.int64(-1), True
            for e in range(indptr[r], indptr[r + 1]):
                column = np.int64(indices[e])
                sound &= (column > last) & ((not square) | (column != r))
                last = column
            if not sound or last >= columns:
                found[piece] = r
                break
    first = found.min() if pieces else rows
    return -1 if first == rows else first


@njit(cache=True, parallel=True)
def one_way(indptr: Any, indices: Any, pieces: Any) -> Any:
    """Whether hashes of the edges above the diagonal and of those below have different sums."""
    rows = len(indptr) - 1
    sums = np.zeros(pieces, dtype=np.uint64)
    for piece in prange(pieces):
        for r in range(piece * ROWS, min(rows, (piece + 1) * ROWS)):
            for e in range(indptr[r], indptr[r + 1]):
                column = np.int64(indices[e])
                low, high = (r, column) if r < column else (column, r)
                bits = mixed(np.uint64(low) * np.uint64(rows) + np.uint64(high) + np.uint64(1))
                sums[piece] += bits if r == low else ~bits + np.uint64(1)
    return sums.sum() != np.uint64(0)


SENTENCE = (
    b"naq: a file of the graph was cut or cannot be read any more while the program read it; "
    b"make the folder again and start again.\n"
)
_TEXT = ctypes.create_string_buffer(SENTENCE)


@cache
def say_lost_pages() -> object:
    """From now on write the sentence and end with exit code 2 at SIGBUS: a file that was cut, or a disk that fails.

    No Python code may run in such a handler, since the interrupted thread may hold any lock: it is compiled, calls the
    system alone, and lives as long as the process.
    """
    numbers = cast(Any, numba.types)
    write = numbers.ExternalFunction("write", numbers.intp(numbers.int32, numbers.intp, numbers.intp))
    leave = numbers.ExternalFunction("_exit", numbers.void(numbers.int32))
    address, length = ctypes.addressof(_TEXT), len(SENTENCE)

    @numba.cfunc(numbers.void(numbers.int32))
    def handler(number: int) -> None:
        write(2, address, length)
        leave(2)

    system = ctypes.CDLL(None)
    system.signal.argtypes, system.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    system.signal(signal.SIGBUS, handler.address)
    return handler
