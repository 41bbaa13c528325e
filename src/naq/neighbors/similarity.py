"""What all ways to feature neighbours share: the metrics and what they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit

METRICS = ("cosine", "euclidean", "jaccard")


def squared_norms(features: Any) -> np.ndarray:
    """(n,) float64 sum of squares of each row."""
    if isinstance(features, np.ndarray):
        return np.einsum("ij,ij->i", features, features, dtype=np.float64)
    squares = sp.csr_array(
        (features.data.astype(np.float64) ** 2, features.indices, features.indptr), shape=features.shape
    )
    return np.asarray(squares.sum(axis=1)).ravel()


def binary(features: Any) -> Any:
    """1 where a feature is present, which is all that Jaccard looks at."""
    if isinstance(features, np.ndarray):
        return (features != 0).astype(np.float32)
    return sp.csr_array((np.ones_like(features.data), features.indices, features.indptr), shape=features.shape)


@njit(cache=True, inline="always")
def metric_score(metric: Any, dot: Any, size_i: Any, size_j: Any) -> Any:
    """float32 score from a dot product and two squared norms, all float64: equal inputs give equal scores.

    Args:
        metric: its place in ``METRICS``.
    """
    if metric == 0:
        return np.float32(dot / np.sqrt(size_i * size_j)) if size_i > 0.0 and size_j > 0.0 else np.float32(0.0)
    if metric == 1:
        return np.float32(-np.sqrt(max(size_i + size_j - 2.0 * dot, 0.0)))
    union = size_i + size_j - dot
    return np.float32(dot / union) if union > 0.0 else np.float32(0.0)


def metric_scores(metric: str, dots: torch.Tensor, size_i: torch.Tensor, size_j: torch.Tensor) -> torch.Tensor:
    """As :func:`metric_score`, of whole blocks."""
    if metric == "cosine":
        scale = torch.sqrt(size_i * size_j)
        return torch.where(scale > 0, dots / scale, 0.0).float()
    if metric == "euclidean":
        return -torch.sqrt(torch.clamp(size_i + size_j - 2 * dots, min=0)).float()
    union = size_i + size_j - dots
    return torch.where(union > 0, dots / union, 0.0).float()
