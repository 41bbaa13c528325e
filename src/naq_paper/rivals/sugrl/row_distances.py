r"""Euclidean distances between rows, one row of the one with one row of the other.

.. math::
    d_v = \left| a_v - b_v + \epsilon \right|, \qquad
    \frac{\partial \mathcal L}{\partial a_v} = \frac{g_v}{d_v} (a_v - b_v + \epsilon) = - \frac{\partial \mathcal L}{\partial b_v}

On the CPU one compiled pass forward and one back, with differences formed anew on the way back: none of them is kept. A node that was drawn for
another gets its gradient by the inverse of the permutation. On an accelerator it is PyTorch's arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numba import njit, prange

EPS = 1e-6
"""Added to every difference before its length is taken, so that a distance of 0 has a gradient."""


def distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(m,) distances of row i of ``a`` to row i of ``b``, with a gradient for both."""
    if _compiled(a):
        return _Distances.apply(a, b)
    return F.pairwise_distance(a, b, eps=EPS)


def drawn_distances(a: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """(m,) distances of row i of ``a`` to row ``order[i]``, for a permutation ``order``."""
    if _compiled(a):
        return _DrawnDistances.apply(a, order)
    return F.pairwise_distance(a, a.index_select(0, order), eps=EPS)


def _compiled(a: torch.Tensor) -> bool:
    return a.device.type == "cpu" and a.dtype == torch.float32


def _rows(values: torch.Tensor) -> np.ndarray:
    return values.detach().contiguous().numpy()


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found = a.new_empty(len(a))
        _lengths(_rows(a), _rows(b), np.arange(len(a)), found.numpy())
        ctx.save_for_backward(a, b, found)
        return found

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b, found = ctx.saved_tensors
        out = torch.empty_like(a, memory_format=torch.contiguous_format)
        _pulls(_rows(a), _rows(b), _rows(grad / found), out.numpy())
        return out, -out


class _DrawnDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        found = a.new_empty(len(a))
        _lengths(_rows(a), _rows(a), order.numpy(), found.numpy())
        ctx.save_for_backward(a, order, found)
        return found

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        a, order, found = ctx.saved_tensors
        drawn_by = np.empty(len(a), dtype=np.int64)
        drawn_by[order.numpy()] = np.arange(len(a))
        out = torch.empty_like(a, memory_format=torch.contiguous_format)
        _drawn_pulls(_rows(a), order.numpy(), drawn_by, _rows(grad / found), out.numpy())
        return out, None


@njit(cache=True, parallel=True, fastmath={"contract", "reassoc"})
def _lengths(a: Any, b: Any, order: Any, out: Any) -> None:
    for v in prange(len(a)):
        one, other = a[v], b[order[v]]
        total = np.float32(0.0)
        for k in range(len(one)):
            apart = one[k] - other[k] + np.float32(EPS)
            total += apart * apart
        out[v] = np.sqrt(total)


@njit(cache=True, parallel=True, fastmath={"contract"})
def _pulls(a: Any, b: Any, scale: Any, out: Any) -> None:
    for v in prange(len(a)):
        one, other, row, s = a[v], b[v], out[v], scale[v]
        for k in range(len(one)):
            row[k] = s * (one[k] - other[k] + np.float32(EPS))


@njit(cache=True, parallel=True, fastmath={"contract"})
def _drawn_pulls(a: Any, order: Any, drawn_by: Any, scale: Any, out: Any) -> None:
    """Row v is pulled by the row it drew, and by the row that drew it."""
    for v in prange(len(a)):
        one, drew, by, row = a[v], a[order[v]], a[drawn_by[v]], out[v]
        s, t = scale[v], scale[drawn_by[v]]
        for k in range(len(one)):
            row[k] = s * (one[k] - drew[k] + np.float32(EPS)) - t * (by[k] - one[k] + np.float32(EPS))
