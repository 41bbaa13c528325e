"""Who is near whom: tables of the k most similar nodes of every node."""

from typing import TYPE_CHECKING, Any

from naq.plugins import imported

if TYPE_CHECKING:
    from naq.neighbors.diffusion import diffusion_neighbors
    from naq.neighbors.feature import feature_neighbors
    from naq.neighbors.table import NeighborTable
    from naq.neighbors.vectors import mutual_pairs, vector_neighbors

_PATHS = {
    "NeighborTable": "naq.neighbors.table:NeighborTable",
    "diffusion_neighbors": "naq.neighbors.diffusion:diffusion_neighbors",
    "feature_neighbors": "naq.neighbors.feature:feature_neighbors",
    "mutual_pairs": "naq.neighbors.vectors:mutual_pairs",
    "vector_neighbors": "naq.neighbors.vectors:vector_neighbors",
}

__all__ = ["NeighborTable", "diffusion_neighbors", "feature_neighbors", "mutual_pairs", "vector_neighbors"]


def __getattr__(name: str) -> Any:
    if name not in _PATHS:
        raise AttributeError(f"module 'naq.neighbors' has no attribute {name!r}")
    return imported(_PATHS[name])
