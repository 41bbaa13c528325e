"""Sparse operators derived from an adjacency: degrees, normalised adjacency, connected components."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


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


def components(adjacency: sp.csr_array) -> np.ndarray:
    """Component number of each node, components numbered by their lowest node."""
    return connected_components(adjacency, directed=False)[1].astype(np.int64)
