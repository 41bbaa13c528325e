"""The steps of the closed form one by one, for what was tried with and without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from naq.embedders.closed_form import ClosedForm, gram, removal_of, scatter, sharpening_of
from naq.embedders.smoothing import centred, unit

NEIGHBORS, SHRINK, POWER = 10, 0.5, 1.5
"""k, gamma and p that were tried first, as ``--refine`` has them."""


def refined(vectors: np.ndarray | torch.Tensor, **form: Any) -> np.ndarray:
    """The closed form as ``--refine`` applies it, unless ``form`` says otherwise."""
    return ClosedForm(**{"pairs": "mutual", "power": POWER, **form}).fit_transform(vectors)


def without_scatter(rows: torch.Tensor, pairs: np.ndarray, shrink: float) -> torch.Tensor:
    """The first step, centred; the rows themselves if pairs do not differ."""
    matrix = removal_of(scatter(rows, pairs), shrink) if len(pairs) else None
    return rows if matrix is None else centred(rows @ torch.from_numpy(matrix).to(rows))


def sharpened(rows: torch.Tensor, power: float) -> torch.Tensor:
    """The second step, rows of length one."""
    matrix = sharpening_of(gram(rows), power)
    return rows if matrix is None else unit(rows @ torch.from_numpy(matrix).to(rows))
