r"""Rows of SUGRL: features as its perceptron reads them, and Euclidean distances, one row of the one with one row of
the other.

.. math::
    d_v = \left| a_v - b_v + \epsilon \right|, \qquad
    \frac{\partial \mathcal L}{\partial a_v} = \frac{g_v}{d_v} (a_v - b_v + \epsilon) = - \frac{\partial \mathcal
    L}{\partial b_v}

On the CPU one compiled pass forward and one back, with differences formed anew on the way back: none of them is kept. A
node that was drawn for another gets its gradient by the inverse of the permutation. On an accelerator it is PyTorch's
arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numba import njit, prange

from naq.errors import OptionError
from naq.graph import Graph
from naq.nn.operator import PROPAGATED_ENTRIES
from naq.unit_rows import unit_rows

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


SHORTEST = 1e-12
"""Rows of no larger norm become zero."""


def perceptron_inputs(graph: Graph, *, ogb: bool) -> sp.csr_array | np.ndarray:
    """(n, d) rows of unit L1 norm; with ``ogb`` rows of unit L2 norm, averaged once over the node and its
    neighbours."""
    features = graph.require_features("sugrl")
    if not ogb:
        return unit_norm(features, 1)
    if graph.propagated_size() > PROPAGATED_ENTRIES:
        raise OptionError(
            f"option ogb of sugrl would propagate the features of graph {graph.name!r} into "
            f"{graph.propagated_size():,} entries, more than "
            f"{PROPAGATED_ENTRIES:,}; it is meant for short dense features: leave it out."
        )
    return _row_average(graph) @ unit_norm(features, 2)


def unit_norm(rows: sp.csr_array | np.ndarray, order: int) -> sp.csr_array | np.ndarray:
    """Rows (n, d) divided by their L1 (``order`` 1) or L2 (2) norm, as float32; zero rows stay zero, sparse rows stay
    sparse."""
    if isinstance(rows, np.ndarray):
        if order == 2:
            return unit_rows(rows, SHORTEST)
        norms = np.abs(rows).sum(axis=1, dtype=np.float64, keepdims=True)
        return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > SHORTEST)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    powers = np.bincount(row, weights=np.abs(rows.data.astype(np.float64)) ** order, minlength=rows.shape[0])
    norms = powers ** (1.0 / order)
    scale = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > SHORTEST).astype(np.float32)
    return sp.csr_array((rows.data * scale[row], rows.indices, rows.indptr), shape=rows.shape)


def _row_average(graph: Graph) -> sp.csr_array:
    """A + I with rows of sum 1."""
    pattern = graph.normalized_adjacency()
    degree = np.diff(pattern.indptr)
    values = np.repeat(1.0 / degree, degree).astype(np.float32)
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
