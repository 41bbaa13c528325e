"""The graph file: npz without pickle, checked in full before anything compiled sees its index arrays."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq import device
from naq.errors import DataError, GraphError
from naq.files import is_text, parse_json, read_npz, write_npz
from naq.graph import Graph
from naq.io.readers import Reader
from naq.text import NodeTable, SentenceVectors

_SPARSE = ("indptr", "indices", "shape", "data")
_NAMES = ("class_names", "names", "vocab")
BLOCKS = ("attr_blocks", "attr_ends", "attr_titles")
ARCS = ("arc_indptr", "arc_indices", "arc_data")
RELATIONS = ("rel_names", "rel_indptr", "rel_indices", "rel_data")
TEXT = ("text_vectors", "text_facts", "text_axes", "text_origin", "text_classes", "text_class_rows")
TABLE = ("table_columns", "table_uses", "table_content", "table_ends")
RECIPE = "recipe"
KEYS = frozenset(
    {f"{m}_{part}" for m in ("adj", "attr") for part in _SPARSE}
    | {"attr", "labels", *_NAMES, *BLOCKS, *ARCS, *RELATIONS, *TEXT, *TABLE, RECIPE}
)
"""Every array the graph file may hold; others in the same archive are never opened."""

MOST_COLUMNS = 2**31 - 1
COPIES = 6
"""Memory that checking a graph takes, as a multiple of its arrays: 64-bit indices, edges in both directions."""
BYTES_PER_COLUMN = 128
"""What anything that reads features takes for each column at least: counts, weights and their gradients."""
MOST_CLASSES = 1_000_000


class NpzReader(Reader):
    """Our own format, see docs/formats.md."""

    name = "npz"
    expects = "a graph npz"

    def fits(self, path: Path) -> bool:
        return path.suffix == ".npz"

    def read(self, path: Path, name: str | None = None) -> Graph:
        return read_graph(path, name=name)


def read_graph(path: str | Path, *, name: str | None = None) -> Graph:
    """The graph of an npz file, called ``name`` or after the file.

    Keys: ``adj_indptr, adj_indices, adj_shape [, adj_data]``, ``attr_indptr, attr_indices, attr_shape [, attr_data]``
    or dense ``attr``, ``labels``, ``class_names``, ``names``, ``vocab``; ``attr_blocks, attr_ends [, attr_titles]``;
    ``arc_indptr, arc_indices, arc_data``; :data:`RELATIONS`, :data:`TEXT`, :data:`TABLE`, :data:`RECIPE`. Only the
    first three are needed.
    """
    path = Path(path)
    arrays = read_npz(path, kind="graph file", only=KEYS)
    if "adj_indptr" not in arrays and path.name.endswith(".tasks.npz"):
        raise DataError(f"{path} is a task file; give the graph file it belongs to, without .tasks in its name.")
    held = sum(array.nbytes for array in arrays.values())
    device.require(COPIES * held, f"the graph of {path}", "use a larger machine", DataError)
    adjacency = csr_of(arrays, "adj", path)
    if adjacency.shape[0] != adjacency.shape[1]:
        raise DataError(f"{path}: adj_shape is {adjacency.shape}; expected a square (n, n).")
    names: dict[str, Any] = {key: check_strings(arrays[key], key, path) for key in _NAMES if key in arrays}
    arcs = None
    if any(key in arrays for key in ARCS):
        if "arc_data" not in arrays:
            raise DataError(f"{path} has arc_* but no arc_data; expected {', '.join(ARCS)}.")
        arcs = csr_of(arrays | {"arc_shape": arrays["adj_shape"]}, "arc", path)
    names |= {"blocks": stated_blocks(arrays, path), "arcs": arcs}
    if (kinds := relation_names(arrays, path)) is not None:
        shape = np.array([len(kinds) * adjacency.shape[0], adjacency.shape[0]])
        names["relations"] = split_relations(csr_of(arrays | {"rel_shape": shape}, "rel", path), kinds)
    sparse = any(f"attr_{part}" in arrays for part in _SPARSE)
    if "attr" in arrays and sparse:
        raise DataError(f"{path} has both dense attr and sparse attr_* features; keep one of them.")
    features = csr_of(arrays, "attr", path) if sparse else arrays.get("attr")
    try:
        labels = check_label_array(arrays.get("labels"), str(path))
        graph = Graph(adjacency, features, labels, **names, name=name or path.stem)
        return with_kept(graph, arrays, path)
    except GraphError as error:
        raise DataError(f"{path}: {error}") from error


def save_graph(path: str | Path, graph: Graph, *, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a graph: reading it back gives the same content hash and names, equal graphs give equal bytes."""
    adjacency, shape = graph.adjacency, np.array([graph.num_nodes] * 2, dtype=np.int64)
    arrays = {"adj_indptr": _narrow(adjacency.indptr), "adj_indices": _narrow(adjacency.indices), "adj_shape": shape}
    if isinstance(graph.features, np.ndarray):
        arrays["attr"] = graph.features
    elif graph.features is not None:
        arrays["attr_indptr"] = _narrow(graph.features.indptr)
        arrays["attr_indices"] = _narrow(graph.features.indices)
        arrays["attr_shape"] = np.array(graph.features.shape, dtype=np.int64)
        if (graph.features.data != 1).any():
            arrays["attr_data"] = _compact(graph.features.data)
    arrays |= kept_arrays(graph)
    for key in ("labels", *_NAMES):
        value = getattr(graph, key)
        if value is not None:
            arrays[key] = value.astype(np.int32) if key == "labels" and value.max() < 2**31 else value
    return write_npz(path, arrays, compression=compression)


def kept_arrays(graph: Graph) -> dict[str, np.ndarray]:
    """What files hold of stated blocks, directions, weights and types of edges, text and the table of nodes."""
    arrays: dict[str, np.ndarray] = {}
    if graph.stated_blocks:
        arrays["attr_blocks"] = np.array([block.kind for block in graph.stated_blocks])
        arrays["attr_ends"] = np.array([block.stop for block in graph.stated_blocks], dtype=np.int64)
        if any(block.title for block in graph.stated_blocks):
            arrays["attr_titles"] = np.array([block.title for block in graph.stated_blocks])
    if graph.arcs is not None:
        arrays |= {"arc_indptr": _narrow(graph.arcs.indptr), "arc_indices": _narrow(graph.arcs.indices)}
        arrays["arc_data"] = graph.arcs.data
    if graph.relations:
        stacked = sp.csr_array(sp.vstack(list(graph.relations.values())))
        values = (np.array(list(graph.relations)), _narrow(stacked.indptr), _narrow(stacked.indices), stacked.data)
        arrays |= dict(zip(RELATIONS, values))
    if (text := graph.text) is not None:
        facts = np.array([text.model, "features" if text.in_features else "aside"])
        held = (text.vectors, facts, text.axes, text.origin, text.class_names, text.class_rows)
        arrays |= {key: value for key, value in zip(TEXT, held) if value is not None}
    if graph.table is not None:
        table = graph.table
        arrays |= dict(zip(TABLE, (table.columns, table.uses, table.content, _narrow(table.ends))))
    if graph.recipe is not None:
        arrays[RECIPE] = np.frombuffer(json.dumps(graph.recipe, allow_nan=False).encode(), dtype=np.uint8)
    return arrays


def with_kept(graph: Graph, arrays: Mapping[str, np.ndarray], path: Path) -> Graph:
    """The graph with the text, the table and the recipe that its file holds."""
    if RECIPE in arrays:
        try:
            recipe = parse_json(arrays[RECIPE].tobytes())
        except ValueError as error:
            raise DataError(f"{path}: the recipe of its columns is not JSON ({error}); the file is damaged.") from error
        graph = graph.with_recipe(recipe)
    held = {key: arrays[key] for key in (*TEXT, *TABLE) if key in arrays}
    held |= {key: check_strings(value, key, path) for key, value in held.items() if value.dtype.kind == "U"}
    for group, needed in ((TEXT, TEXT[:2]), (TABLE, TABLE)):
        if any(key in held for key in group) and (lost := [key for key in needed if key not in held]):
            raise DataError(f"{path} has no array {lost[0]} next to others of its kind; the file is damaged.")
    if TABLE[0] in held:
        graph = graph.with_table(NodeTable(*(held[key] for key in TABLE)))
    if TEXT[0] not in held:
        return graph
    facts, others = held[TEXT[1]], [held.get(key) for key in TEXT[2:]]
    if facts.dtype.kind != "U" or facts.shape != (2,) or facts[1] not in ("features", "aside"):
        raise DataError(f"{path}: text_facts are not a model and one of features and aside; the file is damaged.")
    return graph.with_text(SentenceVectors(held[TEXT[0]], str(facts[0]), bool(facts[1] == "features"), *others))


def relation_names(arrays: Mapping[str, np.ndarray], path: Path) -> list[str] | None:
    """The names of the relations that follow each other in ``rel_*``; None if there are none."""
    if not any(key in arrays for key in RELATIONS):
        return None
    if lost := [key for key in RELATIONS if key not in arrays]:
        raise DataError(f"{path} has no array {lost[0]} next to others of its kind; the file is damaged.")
    names = check_strings(arrays["rel_names"], "rel_names", path).ravel().tolist()
    if not names or len(set(names)) < len(names):
        raise DataError(f"{path}: rel_names holds {str(names)[:80]}; expected names that differ.")
    return names


def split_relations(stacked: sp.csr_array, names: Sequence[str]) -> dict[str, sp.csr_array]:
    """The relations whose rows follow each other; columns and weights stay where they are."""
    found, n = {}, stacked.shape[1]
    for place, name in enumerate(names):
        rows = stacked.indptr[place * n : (place + 1) * n + 1]
        matrix = sp.csr_array((n, n), dtype=stacked.dtype)  # the constructor would copy arrays to one common type
        matrix.data, matrix.indices = (part[rows[0] : rows[-1]] for part in (stacked.data, stacked.indices))
        matrix.indptr, found[name] = rows - rows[0], matrix
    return found


def csr_of(arrays: Mapping[str, np.ndarray], prefix: str, path: Path) -> sp.csr_array:
    """The CSR matrix stored as ``{prefix}_indptr`` and so on.

    SciPy crashes on wrong index arrays, so all is checked before it sees them.
    """
    missing = [f"{prefix}_{part}" for part in _SPARSE[:3] if f"{prefix}_{part}" not in arrays]
    if missing:
        raise DataError(f"{path} has no array {missing[0]}; expected {prefix}_indptr, _indices and _shape.")
    rows, columns = _shape(arrays[f"{prefix}_shape"], f"{path}: {prefix}_shape")
    indptr = _whole(arrays[f"{prefix}_indptr"], f"{path}: {prefix}_indptr")
    indices = _whole(arrays[f"{prefix}_indices"], f"{path}: {prefix}_indices")
    if len(indptr) != rows + 1:
        raise DataError(
            f"{path}: {prefix}_indptr has {len(indptr):,} entries; expected {rows + 1:,} for {rows:,} rows."
        )
    device.require(BYTES_PER_COLUMN * columns, f"{path}: {prefix}_shape ({rows}, {columns})", "lower it", DataError)
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        end = f"{len(indices):,}, the length of {prefix}_indices"
        raise DataError(f"{path}: {prefix}_indptr must start at 0, never fall and end at {end}.")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        bad = int(indices[(indices < 0) | (indices >= columns)][0])
        raise DataError(f"{path}: {prefix}_indices holds {bad}; expected 0..{columns - 1}.")
    data = arrays.get(f"{prefix}_data", np.ones(len(indices), dtype=np.float32))
    if data.shape != indices.shape or data.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: {prefix}_data has shape {data.shape} and type {data.dtype}; expected {len(indices):,} numbers."
        )
    return sp.csr_array((data.astype(data.dtype.newbyteorder("=")), indices, indptr), shape=(rows, columns))


def check_label_array(labels: np.ndarray | None, title: str) -> np.ndarray | None:
    """The labels, unless one is so large that counting classes would take all memory."""
    if labels is not None and labels.size and labels.dtype.kind in "iuf" and labels.max() >= MOST_CLASSES:
        raise DataError(f"{title}: a label is {labels.max():.0f}; number the classes from 0, below {MOST_CLASSES:,}.")
    return labels


def _whole(array: np.ndarray, title: str) -> np.ndarray:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{title} has shape {array.shape} and type {array.dtype}; expected one row of whole numbers.")
    if array.dtype.kind == "u" and len(array) and int(array.max()) >= 2**63:
        raise DataError(f"{title} holds {int(array.max())}, which is too large for an index.")
    return array.astype(np.int64)


def _shape(array: np.ndarray, title: str) -> tuple[int, int]:
    if array.shape != (2,) or array.dtype.kind not in "iu":
        raise DataError(f"{title} has shape {array.shape} and type {array.dtype}; expected two whole numbers.")
    rows, columns = int(array[0]), int(array[1])
    if rows < 0 or not 0 <= columns <= MOST_COLUMNS:
        raise DataError(f"{title} is ({rows}, {columns}); expected sizes from 0 to {MOST_COLUMNS:,}.")
    return rows, columns


def stated_blocks(arrays: Mapping[str, np.ndarray], path: Path) -> list[tuple[str, int, str]] | None:
    if not any(key in arrays for key in BLOCKS):
        return None
    if "attr_blocks" not in arrays or "attr_ends" not in arrays:
        raise DataError(f"{path} has only some of the arrays of blocks; expected attr_blocks and attr_ends.")
    kinds = check_strings(arrays["attr_blocks"], "attr_blocks", path)
    ends = _whole(arrays["attr_ends"], f"{path}: attr_ends")
    titles = check_strings(arrays.get("attr_titles", np.full(len(ends), "")), "attr_titles", path)
    if not kinds.shape == ends.shape == titles.shape:
        raise DataError(f"{path}: attr_blocks, attr_ends and attr_titles differ in length; the file is damaged.")
    return list(zip(kinds.tolist(), np.diff(ends, prepend=0).tolist(), titles.tolist()))


def check_strings(array: np.ndarray, key: str, path: Path) -> np.ndarray:
    if array.dtype.kind != "U":
        raise DataError(f"{path}: {key} has type {array.dtype}; expected text.")
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))
    if not is_text(array):
        raise DataError(f"{path}: {key} holds bytes that are not text; the file is damaged.")
    return array


def _narrow(index: np.ndarray) -> np.ndarray:
    return index.astype(np.int32 if not len(index) or index.max() < 2**31 else np.int64)


def _compact(values: np.ndarray) -> np.ndarray:
    """The smallest of uint8, uint16 and float32 that holds every value exactly."""
    for kind in (np.uint8, np.uint16):
        if values.min() >= 0 and values.max() <= np.iinfo(kind).max and (values == np.floor(values)).all():
            return values.astype(kind)
    return values
