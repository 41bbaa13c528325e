"""What is derived from a graph: normalised adjacency, components, weighted features, steps of a randomised SVD."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit

from naq.errors import OptionError
from naq.graph.checks import FEW, FeatureBlock
from naq.random import stream

if TYPE_CHECKING:
    import torch

    from naq.graph.graph import Graph

WEIGHTINGS = {
    "raw": "as they are, as in the paper",
    "binary": "1 where a feature is present",
    "tfidf": "words weighted by rarity, rows of equal length",
}
"""What methods may read of features in place of the raw values."""


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
    """indptr (n + 1,) int64 and indices int32 of the adjacency, ascending in every row, loops if wanted."""
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

    SciPy's function copies the adjacency with eight bytes for every entry; a mapped graph may be larger than memory.
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
    """(columns, width) orthonormal, near the leading right vectors of a NumPy or SciPy array; see :func:`svd_start`."""
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


def tfidf(features: sp.csr_array, idf: np.ndarray | None = None) -> sp.csr_array:
    """(1 + log count) times smoothed inverse document frequency, unit rows; ``idf`` if these are some rows of many."""
    n = features.shape[0]
    if idf is None:
        idf = idf_of(np.bincount(features.indices, minlength=features.shape[1]), n)
    counts = np.maximum(features.data.astype(np.float64), np.finfo(np.float32).tiny)
    values = np.where(counts > 1.0, 1.0 + np.log(np.maximum(counts, 1.0)), counts) * idf[features.indices]
    rows = np.repeat(np.arange(n), np.diff(features.indptr))
    norms = np.sqrt(np.bincount(rows, weights=values**2, minlength=n))
    values /= norms[rows]
    return sp.csr_array((values.astype(np.float32), features.indices, features.indptr), shape=features.shape)


def idf_of(frequency: np.ndarray, n: int) -> np.ndarray:
    """Smoothed inverse document frequency of words that ``frequency`` of ``n`` nodes have."""
    return np.log((1 + n) / (1 + frequency)) + 1.0


def usual_blocks(features: sp.csr_array | np.ndarray | None) -> tuple[FeatureBlock, ...]:
    """What features of one kind are taken for where nobody says it."""
    if features is None:
        return ()
    width = int(features.shape[1])
    return (FeatureBlock("words" if is_counted(features) else "numbers" if width < FEW else "vectors", 0, width),)


def is_counted(features: sp.csr_array | np.ndarray | None) -> bool:
    """Whether features are sparse and non-negative, as counts of words are."""
    return features is not None and not isinstance(features, np.ndarray) and bool((features.data >= 0).all())


def check_weighting(weighting: str) -> str:
    """The name, once it is known to be ``auto`` or a weighting."""
    if weighting != "auto" and weighting not in WEIGHTINGS:
        raise OptionError(f"features is {weighting!r}; expected auto or one of {', '.join(WEIGHTINGS)}.")
    return weighting


def resolve(graph: Graph, weighting: str) -> str:
    """``auto`` is ``tfidf`` for sparse, non-negative features and ``raw`` for all others; any other name is itself."""
    if check_weighting(weighting) == "auto":
        return "tfidf" if is_counted(graph.features) else "raw"
    return weighting


def weighted(graph: Graph, weighting: str) -> Graph:
    """The same graph with its features weighted anew; labels and names stay.

    ``tfidf`` rows all have the length :math:`\\sqrt m`, with m the mean number of non-zeros of a row: the scale of
    binary features, so that learning rates keep their meaning. It needs sparse, non-negative features.
    ``auto`` chooses as :func:`resolve` says. The graph keeps the result, so that a second call costs nothing.
    """
    weighting = resolve(graph, weighting)
    return graph if weighting == "raw" else graph.kept(f"weighted/{weighting}", lambda: _weight(graph, weighting))


def _weight(graph: Graph, weighting: str) -> Graph:
    features = graph.require_features(f"features={weighting!r}")
    if weighting == "binary":
        return graph.with_features((features != 0).astype(np.float32))
    if isinstance(features, np.ndarray) or not is_counted(graph.features):
        raise OptionError(f"features='tfidf' needs sparse, non-negative features; use 'raw' for graph {graph.name!r}.")
    return graph.with_features(tfidf(features) * np.float32(np.sqrt(features.nnz / features.shape[0])))


def unit_rows(vectors: np.ndarray, floor: float | np.ndarray = 0.0) -> np.ndarray:
    """Vectors divided by their length; one that is no longer than ``floor`` becomes zero.

    Shapes:
        - vectors: (..., d) floats; lengths are summed in float64, the answer has the type of ``vectors``
        - floor: a number or (..., 1)

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    length = np.sqrt(np.einsum("...j,...j->...", vectors, vectors, dtype=np.float64))[..., None]
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > floor)
