"""What is kept of a graph between two starts: the fitted classifier and the maps, in a folder named after its content.

A map has the places of the nodes: principal components at once, PaCMAP when the vectors are there (Wang, Huang, Rudin,
Shaposhnik, JMLR 22, 2021, https://jmlr.org/papers/v22/20-1061.html).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from naq.classifier.map import principal_places, spread_out
from naq.classifier.storage import kept_folder
from naq.errors import DataError, OptionError
from naq.files import read_npz, write_npz
from naq.graph import Graph
from naq.graph.operators import is_counted, tfidf

FEWEST = 30
"""PaCMAP needs some nodes; fewer are shown by their principal components."""


def graph_folder(graph: Graph, method: str, seed: int) -> Path:
    """The folder of a graph, that of the command line too; the studio needs one."""
    if (folder := kept_folder(graph, method, seed)) is None:
        raise OptionError("there is no home folder to keep the fitted classifier in; set NAQ_CACHE to a folder.")
    return folder


def read_layout(folder: Path, name: str, nodes: int) -> np.ndarray | None:
    """(n, 2) float32, or None if there is none that can be used."""
    try:
        places = read_npz(folder / f"{name}.npz", kind="map", ours=True).get("places")
    except DataError:
        return None
    if places is None or places.shape != (nodes, 2) or places.dtype != np.float32 or not np.isfinite(places).all():
        return None
    return places


def write_layout(folder: Path, name: str, places: np.ndarray) -> None:
    write_npz(folder / f"{name}.npz", {"places": places}, compression=0)


def first_layout(graph: Graph, seed: int = 0) -> np.ndarray:
    """(n, 2) float32: two principal components of the features averaged over neighbours, or of the edges.

    Cost: O(nodes + edges + non-zeros), about a second for 34,000 nodes.
    """
    features = graph.features
    if features is None or not features.shape[1]:
        table: sp.csr_array | np.ndarray = graph.normalized_adjacency()
    else:
        table = tfidf(features) if is_counted(features) else features
        table = graph.normalized_adjacency() @ table
    return spread_out(_components(table, min(2, *table.shape), seed))


def _components(table: sp.csr_array | np.ndarray, count: int, seed: int) -> np.ndarray:
    """Scores on the principal components, without forming the centred table."""
    if min(table.shape) <= 3:
        dense = table if isinstance(table, np.ndarray) else table.toarray()
        left, sizes, _ = np.linalg.svd(dense - dense.mean(axis=0), full_matrices=False)
        return left[:, :count] * sizes[:count]
    from sklearn.decomposition import PCA  # needed at the first start with a graph only

    model = PCA(count, svd_solver="arpack", tol=1e-2, random_state=seed)
    try:
        return np.asarray(model.fit_transform(table.astype(np.float32)))
    except Exception:  # ARPACK gives up on tables without spread: any places will do
        return np.random.default_rng(seed).standard_normal((table.shape[0], count))


def pacmap_layout(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """(n, 2) float32: PaCMAP of the vectors, their principal components if there are few nodes."""
    if len(vectors) < FEWEST or np.ptp(vectors, axis=0).max(initial=0.0) == 0:
        return principal_places(vectors)
    from pacmap import PaCMAP

    model = PaCMAP(n_components=2, n_neighbors=min(10, len(vectors) // 4), random_state=seed + 1)
    return spread_out(model.fit_transform(np.ascontiguousarray(vectors, dtype=np.float32), init="pca"))
