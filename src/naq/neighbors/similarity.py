"""What both ways to feature neighbours share: the metrics and what they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

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
