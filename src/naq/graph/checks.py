"""Validation of the arguments of :class:`naq.Graph`: each check returns clean arrays or raises a ``GraphError``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.errors import DataError, GraphError

SPARSE_BELOW = 0.1
"""Dense features with a smaller share of non-zeros than this are stored as CSR."""
CHANGES = ("self_loops_dropped", "duplicates_merged", "made_undirected")
"""What is counted of the changes to an adjacency."""


def clean_adjacency(adjacency: Any, nodes: int | None) -> tuple[sp.csr_array, dict[str, int]]:
    """Symmetric, loop-free, duplicate-free CSR with float32 ones, and how much was changed to get there."""
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int | np.integer)):
        raise GraphError(f"nodes is {nodes!r}; expected a whole number, e.g. nodes=3.")
    matrix = _sound(adjacency, "adjacency") if sp.issparse(adjacency) else _edges_to_matrix(adjacency, nodes)
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"adjacency has shape {matrix.shape}; expected a square matrix (n, n).")
    if nodes is not None and matrix.shape[0] != nodes:
        raise GraphError(f"adjacency has {matrix.shape[0]:,} rows but nodes={nodes:,}; leave nodes out.")
    n = matrix.shape[0]
    if n == 0:
        raise GraphError("the graph is empty (0 nodes); expected at least one node.")
    matrix = sp.coo_array(matrix)
    row, col = matrix.row.astype(np.int64), matrix.col.astype(np.int64)
    if len(row) and (min(row.min(), col.min()) < 0 or max(row.max(), col.max()) >= n):
        bad = int(np.flatnonzero((row < 0) | (col < 0) | (row >= n) | (col >= n))[0])
        raise GraphError(f"edge {bad} joins node {row[bad]} and node {col[bad]}, but the graph has nodes 0..{n - 1}.")
    weight = np.asarray(matrix.data)
    if len(weight) and weight.dtype.kind not in "biuf":
        raise GraphError(f"adjacency values have type {weight.dtype}; expected numbers.")
    if weight.dtype.kind == "f" and not np.isfinite(weight).all():
        raise GraphError("adjacency values hold NaN or infinity; expected finite numbers.")
    if len(weight) and ((weight != 0) & (weight != 1)).any():
        warnings.warn("edge weights other than 0 and 1 are not used: a non-zero entry is one edge.", stacklevel=4)
    present = weight != 0
    if not present.all():
        row, col = row[present], col[present]
    loops = row == col
    if loops.any():
        row, col = row[~loops], col[~loops]
    single = _sorted_unique(row * n + col)
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
    both = _sorted_unique(both)
    one_way = len(both) - one_way
    indices_type = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(both // n, minlength=n), out=indptr[1:])
    both %= n
    clean = sp.csr_array((np.ones(len(both), dtype=np.float32), both.astype(indices_type), indptr), shape=(n, n))
    return clean, dict(zip(CHANGES, (int(loops.sum()), int(duplicates), int(one_way))))


def _sorted_unique(keys: np.ndarray) -> np.ndarray:
    """As ``np.unique``, whose hash table is tens of times slower on millions of integers; ``keys`` is sorted in its place."""
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
            f"edge {bad} joins node {array[0, bad]} and node {array[1, bad]}, but the graph has nodes 0..{nodes - 1}; fix the edge list."
        )
    return sp.coo_array((np.ones(array.shape[1], dtype=np.int8), (array[0], array[1])), shape=(nodes, nodes))


def clean_features(features: Any, n: int) -> sp.csr_array | np.ndarray | None:
    """Float32 CSR without stored zeros, or a dense C-ordered float32 array."""
    if features is None:
        return None
    if sp.issparse(features):
        features = _sound(features, "features")
    else:
        try:
            features = np.asarray(features)
        except ValueError as error:
            raise GraphError(f"features are no table ({error}); give every node the same number of them.") from error
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
            f"features hold NaN, infinity or a value too large for float32 (row {where[0]}, column {where[1]}); replace it."
        )
    if sp.issparse(single):
        single.eliminate_zeros()
        return single
    if np.count_nonzero(single) < SPARSE_BELOW * single.size:
        return sp.csr_array(single)
    return np.ascontiguousarray(single)


def _sound(matrix: Any, what: str) -> Any:
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
    """Every label has a name, where there are names."""
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
