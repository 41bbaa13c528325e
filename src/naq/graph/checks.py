"""Validation of the arguments of :class:`naq.Graph`: each check returns clean arrays or raises a ``GraphError``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.errors import DataError, GraphError

SPARSE_BELOW = 0.1
"""Dense features with a smaller share of non-zeros than this are stored as CSR."""
CHANGES = ("self_loops_dropped", "duplicates_merged", "made_undirected")
"""What is counted of the changes to an adjacency."""
KINDS = ("words", "numbers", "categories", "vectors")
"""Of features; numbers and vectors are dense."""
FEW = 32
"""Fewer dense columns than this are numbers, each with its own meaning; more are vectors."""
LIGHTEST, HEAVIEST = 1e-30, 1e30
"""Weights of edges: any sum of them is a float32."""


@dataclass(frozen=True)
class FeatureBlock:
    """Columns ``start`` up to ``stop`` of the features, of one of the :data:`KINDS`; ``title`` says where from."""

    kind: str
    start: int
    stop: int
    title: str = ""


def clean_adjacency(adjacency: Any, nodes: int | None, *, warn: bool = True) -> tuple[sp.csr_array, dict[str, int]]:
    """Symmetric, loop-free, duplicate-free CSR with float32 ones, and how much was changed to get there.

    Args:
        warn: whether weights are lost here.
    """
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int | np.integer)):
        raise GraphError(f"nodes is {nodes!r}; expected a whole number, e.g. nodes=3.")
    matrix = _check_format(adjacency, "adjacency") if sp.issparse(adjacency) else _edges_to_matrix(adjacency, nodes)
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"adjacency has shape {matrix.shape}; expected a square matrix (n, n).")
    if nodes is not None and matrix.shape[0] != nodes:
        raise GraphError(f"adjacency has {matrix.shape[0]:,} rows but nodes={nodes:,}; leave nodes out.")
    n = matrix.shape[0]
    if n == 0:
        raise GraphError("the graph is empty (0 nodes); expected at least one node.")
    matrix = sp.coo_array(matrix)
    row, col = matrix.row.astype(np.int64), matrix.col.astype(np.int64)
    weight = np.asarray(matrix.data)
    if len(weight) and weight.dtype.kind not in "biuf":
        raise GraphError(f"adjacency values have type {weight.dtype}; expected numbers.")
    if weight.dtype.kind == "f" and not np.isfinite(weight).all():
        raise GraphError("adjacency values hold NaN or infinity; expected finite numbers.")
    if warn and len(weight) and ((weight != 0) & (weight != 1)).any():
        text = "edge weights other than 0 and 1 are not used, a non-zero entry is one edge; give arcs= to keep them."
        warnings.warn(text, stacklevel=4)
    present = weight != 0
    if not present.all():
        row, col = row[present], col[present]
    loops = row == col
    if loops.any():
        row, col = row[~loops], col[~loops]
    single = _sort_unique(row * n + col)
    duplicates = len(row) - len(single)
    del matrix, weight, present, row, col  # a large graph needs the memory of its edges several times already
    both = np.empty(2 * len(single), dtype=np.int64)
    both[: len(single)] = single
    turned = both[len(single) :]
    np.remainder(single, n, out=turned)
    turned *= n
    turned += single // n
    one_way = len(single)
    del single, turned
    both = _sort_unique(both)
    one_way = len(both) - one_way
    indices_type = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(both // n, minlength=n), out=indptr[1:])
    both %= n
    clean = sp.csr_array((np.ones(len(both), dtype=np.float32), both.astype(indices_type), indptr), shape=(n, n))
    return clean, dict(zip(CHANGES, (int(loops.sum()), int(duplicates), int(one_way))))


def _sort_unique(keys: np.ndarray) -> np.ndarray:
    """As ``np.unique``, without its hash table; sorts ``keys`` in place."""
    keys.sort()
    new = keys[1:] != keys[:-1]
    return keys if new.all() else keys[np.concatenate([[True], new])]


def _edges_to_matrix(edges: Any, nodes: int | None) -> sp.coo_array:
    array = np.asarray(edges)
    if array.ndim != 2 or 2 not in array.shape:
        raise GraphError(
            f"adjacency is an array of shape {array.shape}; expected a scipy sparse matrix or an edge list (2, edges)."
        )
    if array.shape[0] != 2:
        array = array.T
    if nodes is None:
        raise GraphError("an edge list does not say how many nodes there are; give nodes=...")
    if int(nodes) <= 0:
        raise GraphError(f"the graph is empty (nodes={nodes}); expected at least one node.")
    if array.size and array.dtype.kind not in "iu":
        if array.dtype.kind != "f" or not np.isfinite(array).all() or (array != np.floor(array)).any():
            raise GraphError(f"edge list has type {array.dtype}; expected whole node numbers 0..{nodes - 1}.")
        array = array.astype(np.int64)
    if array.size and (array.min() < 0 or array.max() >= nodes):
        bad = int(np.flatnonzero(((array < 0) | (array >= nodes)).any(axis=0))[0])
        raise GraphError(
            f"edge {bad} joins nodes {array[0, bad]} and {array[1, bad]}, but the graph has nodes 0..{nodes - 1}."
        )
    return sp.coo_array((np.ones(array.shape[1], dtype=np.int8), (array[0], array[1])), shape=(nodes, nodes))


def arcs_of(ends: Any, weights: Any, nodes: int, *, directed: bool) -> sp.csr_array | None:
    """``Graph.arcs`` from edges as of :func:`edge_matrix`; None if no edge has a direction or a weight other than 1."""
    matrix = edge_matrix(ends, weights, nodes, directed=directed)
    trivial = bool((matrix.data == 1).all()) and is_symmetric(matrix)
    return None if trivial else matrix


def edge_matrix(ends: Any, weights: Any, nodes: int, *, directed: bool) -> sp.csr_array:
    """CSR (nodes, nodes) float32, its columns ascending, of edges.

    Args:
        ends: (2, edges) nodes from which and to which; self-loops are left out.
        weights: one per edge, those of equal edges are added up; None where all weigh 1, however often they are listed.
        directed: otherwise an edge goes both ways; weights listed for both ways are added up unless all are mirrored.
    """
    row, col = ends = np.asarray(ends)
    if ends.size and (ends.min() < 0 or ends.max() >= nodes):
        raise GraphError(f"edges join nodes {ends.min()} to {ends.max()}, but the graph has nodes 0..{nodes - 1}.")
    weight = np.ones(len(row)) if weights is None else np.asarray(weights)
    if weight.shape != row.shape or weight.dtype.kind not in "biuf":
        raise GraphError(f"weights have shape {weight.shape}, type {weight.dtype}; expected {len(row):,} numbers.")
    weight = weight.astype(np.float64)
    wrong = np.flatnonzero(~((weight >= LIGHTEST) & (weight <= HEAVIEST)))
    if len(wrong):
        e = wrong[0]
        raise GraphError(
            f"edge {e}, from node {row[e]} to node {col[e]}, has weight {weight[e]:g}; expected a number above 0, so "
            "leave the edge out or change its weight."
        )
    apart = row != col
    matrix = sp.csr_array((weight[apart], (row[apart], col[apart])), shape=(nodes, nodes))
    matrix.sum_duplicates()
    if weights is None:
        matrix.data[:] = 1
    matrix = matrix.astype(np.float32)
    if not directed:
        matrix = both_ways(matrix)
        if weights is None:
            matrix.data[:] = 1
    return matrix


def is_symmetric(matrix: sp.csr_array) -> bool:
    """Whether a CSR without duplicates, its columns ascending, equals its transpose."""
    turned = matrix.T.tocsr()
    parts = ("indptr", "indices", "data")
    return all(np.array_equal(getattr(matrix, part), getattr(turned, part)) for part in parts)


def both_ways(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix where it is symmetric, else the sum of it and its transpose."""
    return matrix if is_symmetric(matrix) else sp.csr_array(matrix + matrix.T)


def clean_arcs(arcs: Any, adjacency: sp.csr_array) -> sp.csr_array | None:
    """The weights of exactly the edges of the adjacency, see :func:`arcs_of`."""
    if arcs is None:
        return None
    if not sp.issparse(arcs) or arcs.shape != adjacency.shape:
        what = f"of shape {arcs.shape}" if hasattr(arcs, "shape") else f"a {type(arcs).__name__}"
        raise GraphError(f"arcs is {what}; expected a scipy sparse matrix {adjacency.shape} of weights.")
    given = sp.coo_array(_check_format(arcs, "arcs"))
    loops = np.flatnonzero(given.row == given.col)
    if len(loops):
        raise GraphError(f"arcs join node {given.row[loops[0]]} to itself; leave self-loops out.")
    made = arcs_of((given.row, given.col), given.data, len(adjacency.indptr) - 1, directed=True)
    pattern = clean_adjacency(given if made is None else made, None, warn=False)[0]
    if not all(np.array_equal(getattr(pattern, part), getattr(adjacency, part)) for part in ("indptr", "indices")):
        raise GraphError(
            f"arcs join {pattern.nnz // 2:,} pairs of nodes, and these are not the {adjacency.nnz // 2:,} edges of the "
            "adjacency; give both for the same edges."
        )
    return made


def clean_relations(relations: Mapping[str, Any], adjacency: sp.csr_array) -> dict[str, sp.csr_array]:
    """Edges by type, each CSR float32 of weights above 0 at some edges of the adjacency; see :func:`edge_matrix`."""
    found = {}
    for name, given in relations.items():
        if not isinstance(name, str) or not name:
            raise GraphError(f"relations hold the name {name!r}; expected text, e.g. 'cites'.")
        if not sp.issparse(given) or given.shape != adjacency.shape:
            raise GraphError(f"relation {name!r} is not a scipy sparse matrix {adjacency.shape}; make it one.")
        coo = sp.coo_array(_check_format(given, f"relation {name!r}"))
        if not coo.nnz:
            raise GraphError(f"relation {name!r} has no edges; leave it out.")
        matrix = edge_matrix((coo.row, coo.col), coo.data, adjacency.shape[0], directed=True)
        if (coo.row == coo.col).any() or matrix.multiply(adjacency).nnz < matrix.nnz:
            raise GraphError(f"relation {name!r} joins nodes that no edge of the adjacency joins; give both the same.")
        found[name] = matrix
    return found


def clean_blocks(blocks: Iterable[Any] | None, features: Any) -> tuple[FeatureBlock, ...] | None:
    """Blocks that cover the columns, from (kind, width), (kind, width, title) or blocks, in the order of columns."""
    if blocks is None:
        return None
    width, found = 0 if features is None else features.shape[1], list[FeatureBlock]()
    for given in blocks:
        start = found[-1].stop if found else 0
        if isinstance(given, FeatureBlock) and given.start == start:
            given = (given.kind, given.stop - given.start, given.title)
        if not isinstance(given, tuple | list) or len(given) not in (2, 3) or given[0] not in KINDS:
            raise GraphError(
                f"blocks hold {given!r}; expected a kind ({', '.join(KINDS)}) and how many columns it has."
            )
        if isinstance(given[1], bool) or not isinstance(given[1], int | np.integer) or given[1] < 1:
            raise GraphError(f"blocks hold {given!r}; expected a whole number of columns, at least 1.")
        found.append(FeatureBlock(given[0], start, start + int(given[1]), *map(str, given[2:])))
    if (found[-1].stop if found else 0) != width:
        raise GraphError(
            f"blocks have {found[-1].stop if found else 0:,} columns, the features {width:,}; make them equal."
        )
    return tuple(found) if found else None


def as_dense(matrix: sp.csr_array | np.ndarray) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def clean_features(features: Any, n: int) -> sp.csr_array | np.ndarray | None:
    """Float32 CSR without stored zeros, or a dense C-ordered float32 array."""
    if features is None:
        return None
    if sp.issparse(features):
        features = _check_format(features, "features")
    else:
        try:
            features = np.asarray(features)
        except ValueError as error:
            raise GraphError(f"features are not a table ({error}); give every node the same number of them.") from error
        if features.ndim != 2:
            raise GraphError(f"features have shape {features.shape}; expected two dimensions (nodes, features).")
    if features.shape[0] != n:
        raise GraphError(f"features have {features.shape[0]:,} rows but the graph has {n:,} nodes; give one per node.")
    if features.shape[1] == 0:
        return None
    if features.dtype.kind not in "biuf":
        raise GraphError(f"features have type {features.dtype}; expected numbers.")
    with np.errstate(over="ignore"):
        single = features.astype(np.float32)
    if sp.issparse(single):
        single = sp.csr_array(single)
        single.sum_duplicates()
    values = single.data if sp.issparse(single) else single
    if not np.isfinite(values).all():
        where = np.argwhere(~np.isfinite(values))[0]
        if sp.issparse(single):
            where = np.array([np.searchsorted(single.indptr, where[0], side="right") - 1, single.indices[where[0]]])
        raise GraphError(
            f"features are not finite in float32 (first in row {where[0]}, column {where[1]}); replace such values."
        )
    if sp.issparse(single):
        single.eliminate_zeros()
        return single
    if np.count_nonzero(single) < SPARSE_BELOW * single.size:
        return sp.csr_array(single)
    return np.ascontiguousarray(single)


def _check_format(matrix: Any, what: str) -> Any:
    """The matrix, once its index arrays are known to lie within its shape."""
    if hasattr(matrix, "check_format"):
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise GraphError(f"index arrays of {what} {matrix.shape} are damaged ({error}); make it again.") from error
    return matrix


def clean_labels(labels: Any, n: int) -> np.ndarray | None:
    """int64 labels, -1 for unknown."""
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.shape != (n,):
        raise GraphError(
            f"labels have shape {array.shape} but the graph has {n:,} nodes; give one each, -1 if unknown."
        )
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.floor(array)).any():
            raise GraphError("labels are not whole numbers; expected 0, 1, 2, ... and -1 where unknown.")
    elif array.dtype.kind not in "iu":
        raise GraphError(f"labels have type {array.dtype}; expected whole numbers (put names in class_names).")
    array = array.astype(np.int64, copy=not isinstance(array, np.memmap))
    if len(array) and array.min() < -1:
        raise GraphError(f"labels hold {array.min()}; expected 0, 1, 2, ... and -1 where unknown.")
    return array


def clean_names(names: Sequence[str] | np.ndarray | None, length: int | None, what: str) -> np.ndarray | None:
    """A NumPy string array of the expected length."""
    if names is None:
        return None
    array = np.asarray(names)
    if array.ndim != 1 or (length is not None and len(array) != length):
        raise GraphError(
            f"{what} has shape {array.shape}; expected {'names' if length is None else f'{length:,} names'}."
        )
    return array.astype(np.str_, copy=not isinstance(array, np.memmap))


def check_class_names(labels: np.ndarray | None, class_names: np.ndarray | None) -> None:
    """Every label has a name, if there are names."""
    if labels is not None and class_names is not None and labels.max() >= len(class_names):
        raise GraphError(f"label {labels.max()} has no name: class_names holds {len(class_names)}; name every class.")


def check_file(array: np.ndarray) -> None:
    """Raise ``DataError`` where the file of a memory-mapped array is shorter than the array."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return
    needed = array.offset + array.nbytes
    try:
        there = Path(array.filename).stat().st_size
    except OSError:  # removed: what is mapped stays readable
        return
    if there < needed:
        raise DataError(f"{array.filename} has {there:,} bytes, but had {needed:,} when it was opened; start again.")
