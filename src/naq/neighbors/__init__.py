"""Who is near whom: tables of the k most similar nodes of every node."""

from typing import TYPE_CHECKING

from naq.options import on_first_use

if TYPE_CHECKING:
    from naq.neighbors.diffusion import diffusion_neighbors
    from naq.neighbors.feature import feature_neighbors
    from naq.neighbors.table import NeighborTable
    from naq.neighbors.vectors import mutual_pairs, vector_neighbors

__all__ = ["NeighborTable", "diffusion_neighbors", "feature_neighbors", "mutual_pairs", "vector_neighbors"]

__getattr__ = on_first_use(
    __name__,
    {
        "NeighborTable": "table",
        "diffusion_neighbors": "diffusion",
        "feature_neighbors": "feature",
        "mutual_pairs": "vectors",
        "vector_neighbors": "vectors",
    },
)
