"""Vectors of length one."""

from __future__ import annotations

import numpy as np


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
