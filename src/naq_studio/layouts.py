"""Places of the nodes on a map: principal components at once, PaCMAP when the vectors are there.

PaCMAP: Wang, Huang, Rudin, Shaposhnik, JMLR 22, 2021 (https://jmlr.org/papers/v22/20-1061.html).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from naq.graph import Graph
from naq.graph.weighting import is_counted, tfidf

FEWEST = 30
"""PaCMAP needs some nodes; fewer are shown by their principal components."""


def first_layout(graph: Graph, seed: int = 0) -> np.ndarray:
    """(n, 2) float32: two principal components of the features averaged over neighbours, of the edges where there are no features.

    Cost: O(nodes + edges + non-zeros), about a second for 34,000 nodes.
    """
    n = graph.num_nodes
    features = graph.features
    if features is None or not features.shape[1]:
        table: sp.csr_array | np.ndarray = graph.normalized_adjacency()
    else:
        table = tfidf(features) if is_counted(graph) and not isinstance(features, np.ndarray) else features
        table = graph.normalized_adjacency() @ table
    return _tidy(_components(table, min(2, *table.shape), seed), n)


def _components(table: sp.csr_array | np.ndarray, count: int, seed: int) -> np.ndarray:
    """Scores on the principal components, without forming the centred table."""
    table = table.astype(np.float32)
    n, width = table.shape
    if min(n, width) <= 3:
        dense = np.asarray(table) if isinstance(table, np.ndarray) else table.toarray()
        left, sizes, _ = np.linalg.svd(dense - dense.mean(axis=0), full_matrices=False)
        return left[:, :count] * sizes[:count]
    mean = np.asarray(table.mean(axis=0)).ravel()
    centred = LinearOperator(
        table.shape,
        matvec=lambda x: table @ x.ravel() - mean @ x.ravel(),
        rmatvec=lambda y: table.T @ y.ravel() - mean * y.sum(),
        matmat=lambda x: table @ x - mean @ x,
        rmatmat=lambda y: table.T @ y - np.outer(mean, y.sum(axis=0)),
        dtype=np.float32,
    )
    start = np.random.default_rng(seed).standard_normal(min(n, width)).astype(np.float32)
    try:
        left, sizes, _ = svds(centred, k=count, v0=start, tol=1e-2, maxiter=200)
    except Exception:  # ARPACK gives up on tables without spread: any places will do
        return np.random.default_rng(seed).standard_normal((n, count))
    return (left * sizes)[:, ::-1]


def pacmap_layout(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """(n, 2) float32: PaCMAP of the vectors, their principal components where there are few nodes."""
    if len(vectors) < FEWEST or np.ptp(vectors, axis=0).max(initial=0.0) == 0:
        return _tidy(_components(vectors, min(2, *vectors.shape), seed), len(vectors))
    from pacmap import PaCMAP

    model = PaCMAP(n_components=2, n_neighbors=min(10, len(vectors) // 4), random_state=seed + 1)
    return _tidy(model.fit_transform(np.ascontiguousarray(vectors, dtype=np.float32), init="pca"), len(vectors))


def _tidy(places: np.ndarray, n: int) -> np.ndarray:
    """Within the square from -1 to 1: half by value and half by rank along each axis, so that dense groups get room and far ones stay in sight."""
    full = np.zeros((n, 2), dtype=np.float64)
    full[:, : places.shape[1]] = np.nan_to_num(places)
    if n == 1:
        return full.astype(np.float32)
    for axis in full.T:
        low, high = np.quantile(axis, (0.002, 0.998))
        value = np.clip((axis - low) / (high - low) if high > low else np.full(n, 0.5), -0.05, 1.05)
        _, place, count = np.unique(axis, return_inverse=True, return_counts=True)
        rank = (np.cumsum(count) - (count + 1) / 2)[place] / (n - 1)  # equal values stay together
        axis[:] = value + rank - 1.0
    return full.astype(np.float32)
