"""The closed form of NaQ in the slow, obvious way: float64, matrix powers, loops and a full sort."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def unit(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 1e-9)


def centre(x: np.ndarray) -> np.ndarray:
    x = unit(x)
    return unit(x - x.mean(axis=0))


def slow_closed_form(x: np.ndarray, k: int, shrink: float, power: float, pairs: str = "mutual") -> np.ndarray:
    """The formula in float64 with matrix powers, loops and a full sort."""
    z = centre(x.astype(np.float64))
    n, d = z.shape
    cosine = z @ z.T
    np.fill_diagonal(cosine, -np.inf)
    near = [set(np.argsort(-row, kind="stable")[:k].tolist()) for row in cosine]
    wanted = {"mutual": lambda i, j: i in near[j], "nearest": lambda i, j: True}[pairs]
    members = [(i, j) for i in range(n) for j in sorted(near[i]) if wanted(i, j)]
    within = sum(np.outer(z[i] - z[j], z[i] - z[j]) for i, j in members) / (2 * len(members))
    ridge = within + shrink * np.trace(within) / d * np.eye(d)
    z = centre(z @ np.linalg.inv(scipy.linalg.sqrtm(ridge)).real)
    # Z V f^((p - 1) / 2) and Z (Z^T Z)^((p - 1) / 2) differ by the rotation V.
    return unit(z @ scipy.linalg.fractional_matrix_power(z.T @ z, (power - 1) / 2).real)


def cosines(z: np.ndarray) -> np.ndarray:
    return z.astype(np.float64) @ z.T.astype(np.float64)
