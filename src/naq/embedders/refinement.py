r"""The closed form of NaQ, on any vectors: the scatter of neighbours removed, the rest sharpened.

Take near nodes as members of one class, as NaQ does, and estimate from all such pairs P at once what an episode would teach:

.. math::
    S_w = \frac{1}{2|P|} \sum_{(i, j) \in P} (z_i - z_j)(z_i - z_j)^\top = U \operatorname{diag}(e)\, U^\top, \qquad
    Z \leftarrow Z\, U (e + \gamma \bar e)^{-1/2} U^\top

    Z^\top Z = V \operatorname{diag}(f) V^\top, \qquad Z \leftarrow Z\, V f^{(p - 1)/2}

P are nearest neighbours by cosine: every node with each of its k nearest, or only the mutual ones. Were :math:`S_w` the common covariance of Gaussian classes, its inverse square root would be
the best linear map for ProtoNet's loss; ``docs/closed-form.md`` says what holds exactly and what under which assumption.

Cost: O(n^2 d) for the neighbours (O(n^1.5 d) by clusters for many nodes), O(n d^2) for the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from naq.embedders.smoothing import ROUNDING, centred, unit
from naq.errors import OptionError
from naq.neighbors import NeighborTable, mutual_pairs, vector_neighbors
from naq.threads import one_blas_thread

NEIGHBORS, SHRINK, POWER = 10, 0.5, 1.5
"""k of the nearest neighbours, gamma and p."""
MUTUAL = "mutual"
BLOCK = 1 << 16
SMALLEST = 1e-9
"""Directions with less than this share of the largest variance count as having it: what is there is rounding."""


def nearest_pairs(table: NeighborTable) -> np.ndarray:
    """(pairs, 2) int64: every node with each of its nearest, so that mutual ones are there twice."""
    one = np.repeat(np.arange(table.num_nodes, dtype=np.int64), table.k)
    two = table.ids.ravel().astype(np.int64)
    return np.stack([one, two], axis=1)[two >= 0]


PAIRS = {MUTUAL: mutual_pairs, "nearest": nearest_pairs}
"""Which neighbours count as members of one class."""


def refined(
    vectors: np.ndarray | torch.Tensor,
    *,
    neighbors: int = NEIGHBORS,
    pairs: str = MUTUAL,
    shrink: float = SHRINK,
    power: float = POWER,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> np.ndarray:
    """(n, d) float32 of length one: the vectors after both steps.

    A vector within rounding of the mean of all becomes zero and stays zero. Where no two nodes are mutual neighbours, or all that are
    have the same vector, the first step is left out. Fewer than three nodes, and vectors of one dimension, are only centred.

    Args:
        vectors: (n, d) finite; they are centred first.
        neighbors: k of the mutual nearest neighbours; all other nodes where there are fewer.
        pairs: ``mutual``, or ``nearest``: every node with each of its nearest.
        shrink: gamma > 0, how much of the mean scatter is added to every direction; infinity would leave the vectors as they are.
        power: p; 1 sharpens nothing.
        seed: of the clusters that neighbours are sought in where there are many nodes.
    """
    rows = torch.as_tensor(vectors).to(device=device, dtype=torch.float32)
    if rows.ndim != 2 or not bool(torch.isfinite(rows).all()):
        raise OptionError(f"vectors have shape {tuple(rows.shape)}; expected (nodes, d) numbers, finite in float32.")
    rows = centred(rows)
    if len(rows) > 2 and rows.shape[1] > 1:
        table = vector_neighbors(rows, min(neighbors, len(rows) - 1), device=device, seed=seed)
        rows = without_scatter(rows, PAIRS[pairs](table), shrink)
        rows = sharpened(rows, power)
    return rows.cpu().numpy()


def without_scatter(rows: torch.Tensor, pairs: np.ndarray, shrink: float) -> torch.Tensor:
    """Z U (e + gamma mean(e))^(-1/2) U^T, centred; the rows themselves where pairs do not differ."""
    matrix = scatter_removal(rows, pairs, shrink)
    return rows if matrix is None else centred(rows @ matrix)


def scatter_removal(rows: torch.Tensor, pairs: np.ndarray, shrink: float) -> torch.Tensor | None:
    """(d, d) U (e + gamma mean(e))^(-1/2) U^T; None where there are no pairs or they do not differ."""
    matrix = removal_of(scatter(rows, pairs), shrink) if len(pairs) else None
    return None if matrix is None else torch.from_numpy(matrix).to(rows)


def removal_of(scattered: np.ndarray, shrink: float) -> np.ndarray | None:
    """(d, d) float64 of a scatter matrix; None where it is zero."""
    values, directions = _eigen(scattered)
    if values.sum() <= ROUNDING**2:
        return None
    weights = (values + shrink * values.mean()) ** -0.5
    return (directions * weights) @ directions.T


def sharpened(rows: torch.Tensor, power: float) -> torch.Tensor:
    """Z V f^((p - 1) / 2), rows of length one: directions along which the nodes vary much count for more."""
    matrix = sharpening(rows, power)
    return rows if matrix is None else unit(rows @ matrix)


def sharpening(rows: torch.Tensor, power: float) -> torch.Tensor | None:
    """(d, d) V f^((p - 1) / 2); None where all rows are zero."""
    gram = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK].double()
        gram += part.T @ part
    matrix = sharpening_of(gram.cpu().numpy(), power)
    return None if matrix is None else torch.from_numpy(matrix).to(rows)


def sharpening_of(gram: np.ndarray, power: float) -> np.ndarray | None:
    """(d, d) float64 of the rows' Gram matrix; None where it is zero."""
    values, directions = _eigen(gram)
    if values.max() <= 0:
        return None
    share = np.maximum(values / values.max(), SMALLEST)
    return directions * share ** ((power - 1) / 2)


def scatter(rows: torch.Tensor, pairs: np.ndarray) -> np.ndarray:
    """(d, d) float64: the mean of (z_i - z_j)(z_i - z_j)^T / 2 over the pairs."""
    ends = torch.from_numpy(pairs).to(rows.device)
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for start in range(0, len(ends), BLOCK):
        part = ends[start : start + BLOCK]
        apart = (rows[part[:, 0]] - rows[part[:, 1]]).double()
        total += apart.T @ apart
    return (total / (2 * len(ends))).cpu().numpy()


def _eigen(matrix: np.ndarray) -> tuple[np.ndarray, Any]:
    """Eigenvalues, none below zero, and eigenvectors of a symmetric matrix."""
    with one_blas_thread():
        values, directions = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0), directions
