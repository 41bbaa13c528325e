"""Operators derived from an adjacency (degrees, normalised adjacency, components), sparse tensors, and pieces of a randomised SVD."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit

from naq.random import stream

if TYPE_CHECKING:
    import torch


def degrees(adjacency: sp.csr_array) -> np.ndarray:
    """Number of neighbours of each node, int64."""
    return np.diff(adjacency.indptr).astype(np.int64)


def normalized_adjacency(adjacency: sp.csr_array, *, self_loops: bool = True, dtype: type = np.float32) -> sp.csr_array:
    r"""Symmetric normalisation, computed in float64 and then rounded to ``dtype``.

    With self-loops :math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}` where :math:`\tilde D` are the row sums of
    :math:`A + I`; without, :math:`D^{-1/2} A D^{-1/2}` with zero rows for isolated nodes.
    """
    n = adjacency.shape[0]
    matrix = adjacency.astype(np.float64)
    if self_loops:
        matrix = (matrix + sp.eye_array(n, format="csr")).tocsr()
    degree = np.diff(matrix.indptr).astype(np.float64)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros(n), where=degree > 0)
    matrix.sort_indices()
    rows = np.repeat(scale, np.diff(matrix.indptr))
    values = (rows * scale[matrix.indices]).astype(dtype)
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def structure(adjacency: sp.csr_array, *, self_loops: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """indptr (n + 1,) int64 and indices int32 of the adjacency, ascending in every row, with a loop at every node where they are wanted."""
    indptr, indices = adjacency.indptr.astype(np.int64), np.asarray(adjacency.indices, dtype=np.int32)
    if not self_loops:
        return indptr, indices
    looped = np.empty(len(indices) + len(indptr) - 1, dtype=np.int32)  # by NumPy, which asks the system for large pages
    _with_loops(indptr, indices, looped)
    return indptr + np.arange(len(indptr)), looped


@njit(cache=True)
def _with_loops(indptr: Any, indices: Any, out: Any) -> None:
    """Every node among its neighbours, in its place."""
    n = len(indptr) - 1
    end = 0
    for u in range(n):
        e = indptr[u]
        while e < indptr[u + 1] and indices[e] < u:
            out[end] = indices[e]
            end, e = end + 1, e + 1
        out[end] = u
        end += 1
        while e < indptr[u + 1]:
            out[end] = indices[e]
            end, e = end + 1, e + 1


def components(adjacency: sp.csr_array) -> np.ndarray:
    """Component number of each node, components numbered by their lowest node.

    SciPy's function makes copies of the adjacency with a number of eight bytes for every entry; a mapped graph may be larger than memory.
    """
    return _components(adjacency.indptr, adjacency.indices)


@njit(cache=True)
def _components(indptr: Any, indices: Any) -> Any:
    """A search from every node that none before has reached."""
    n = len(indptr) - 1
    label = np.full(n, -1, dtype=np.int64)
    waiting = np.empty(n, dtype=np.int32)
    count = 0
    for start in range(n):
        if label[start] >= 0:
            continue
        label[start], waiting[0], length = count, start, 1
        while length > 0:
            length -= 1
            u = waiting[length]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if label[v] < 0:
                    label[v] = count
                    waiting[length] = v
                    length += 1
        count += 1
    return label


def csr_tensor(indptr: Any, indices: Any, data: Any, shape: tuple[int, ...], device: Any, dtype: Any) -> torch.Tensor:
    """A CSR tensor on ``device`` from NumPy arrays that are known to be sound."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        rows, columns = (torch.tensor(index, dtype=torch.int64, device=device) for index in (indptr, indices))
        values = torch.tensor(data, dtype=dtype, device=device)
        return torch.sparse_csr_tensor(rows, columns, values, size=shape, check_invariants=False)


def svd_start(shape: tuple[int, int], dim: int, seed: int, oversample: int) -> np.ndarray:
    """(columns, at most dim + oversample) the random vectors a randomised SVD starts from."""
    width = min(dim + oversample, *shape)
    return stream(seed, "smooth/svd").standard_normal((shape[1], width)).astype(np.float32)


def svd_basis(matrix: Any, basis: np.ndarray, iterations: int) -> np.ndarray:
    """(columns, width) orthonormal, near the leading right vectors; ``matrix`` is a NumPy or SciPy array, ``basis`` of :func:`svd_start`."""
    turned = matrix.T.tocsr() if sp.issparse(matrix) else matrix.T
    for _ in range(iterations):
        basis = scipy.linalg.qr(turned @ (matrix @ basis), mode="economic", check_finite=False)[0]
    return basis


def svd_rotation(gram: np.ndarray, basis: np.ndarray, dim: int) -> np.ndarray:
    """(width, dim) to the leading right vectors, each with a positive largest entry."""
    # The small eigenproblem of (matrix basis)^T (matrix basis) is symmetric in the rows of the matrix.
    _, rotation = np.linalg.eigh(gram)
    rotation = rotation[:, ::-1][:, :dim]
    right = basis @ rotation
    signs = np.sign(right[np.abs(right).argmax(axis=0), np.arange(right.shape[1])])
    return rotation * np.where(signs == 0, 1, signs)
