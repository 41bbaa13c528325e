r"""Arithmetic that is the same for any number of threads: batch normalisation, PReLU, softmax, totals, dropout,
distances of rows.

PyTorch splits a sum among its threads where the result is one number, and the sums over rows in batch normalisation
and in the gradient of its softmax. Here they are over fixed blocks of rows and then over blocks.

.. math::
    y = w\, \frac{x - \mu}{s} + b, \quad s = \sqrt{\sigma^2 + \epsilon}, \qquad
    \frac{\partial \mathcal L}{\partial x} = \frac{w}{s} \left(g - \bar g - \frac{x - \mu}{s^2}\, \overline{g\,(x -
    \mu)}\right)

with mean and variance per column, g the gradient of y, and bars for means over rows (Ioffe and Szegedy,
https://arxiv.org/abs/1502.03167).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numba import njit, prange
from torch import nn

ROWS = 512
"""Rows of a block of batch normalisation."""
EPS = 1e-6
"""Added to every difference before its length is taken, so that a distance of 0 has a gradient."""
NUMBERS = 1 << 14
"""Numbers of a block of a total; PyTorch leaves so few to one thread."""


def total(values: torch.Tensor) -> torch.Tensor:
    """The sum of (n,) values."""
    return torch.stack([block.sum() for block in values.split(NUMBERS)]).sum()


def prelu(values: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """PReLU of (n, width) values with one slope (1,), whose gradient is summed by columns first."""
    return F.prelu(values, slope.expand(values.shape[1]))


def drop_values(values: torch.Tensor, share: float, generator: torch.Generator | None) -> torch.Tensor:
    """The values with this share of them zero and the others scaled up; as they are without a generator."""
    if share <= 0.0 or generator is None:
        return values
    keep = torch.rand(values.shape, generator=generator) >= share
    return values * (keep.to(values.device) / (1.0 - share))


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        shares = scores.softmax(dim=-1)
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (shares,) = ctx.saved_tensors
        return shares * (grad - (grad * shares).sum(dim=-1, keepdim=True))


def ordered_softmax(scores: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension."""
    return _Softmax.apply(scores)


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` with the same weights, statistics and arguments, for float32 (n, width).

    On the CPU a training step is computed here, in as many passes; on an accelerator, and with running statistics, it
    is PyTorch's.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    num_batches_tracked: torch.Tensor
    momentum: float

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if not self.training or values.device.type != "cpu" or len(values) < 2:
            return super().forward(values)
        out, mean, variance = _Normalize.apply(values, self.weight, self.bias, self.eps)
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (len(values) / (len(values) - 1)), self.momentum)
        return out


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean = x.mean(dim=0)
        variance = _sums(x, mean, x, mean)[1] / len(x)
        inverse = (variance + eps).rsqrt()
        ctx.save_for_backward(x, mean, inverse, weight)
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias - mean * weight * inverse, x, weight * inverse), mean, variance

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        x, mean, inverse, weight = ctx.saved_tensors
        summed, along = _sums(grad, torch.zeros_like(mean), x, mean)
        scale = weight * inverse
        slope = scale * inverse.square() * along / len(x)
        shift = slope * mean - scale * summed / len(x)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        _combine(_array(grad), _array(x), _array(scale), _array(slope), _array(shift), out.numpy())
        return out, along * inverse, summed, None


def _array(values: torch.Tensor) -> np.ndarray:
    return values.detach().contiguous().numpy()


def _sums(
    a: torch.Tensor, a_shift: torch.Tensor, b: torch.Tensor, b_shift: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(width,) sums over rows of a - a_shift, and of its product with b - b_shift."""
    parts = np.zeros((-(-len(a) // ROWS), 2, a.shape[1]), dtype=np.float32)
    _block_sums(_array(a), _array(a_shift), _array(b), _array(b_shift), parts)
    summed, product = torch.from_numpy(parts.sum(axis=0))
    return summed, product


@njit(cache=True, parallel=True, fastmath={"contract"})
def _block_sums(a: Any, a_shift: Any, b: Any, b_shift: Any, parts: Any) -> None:
    for block in prange(len(parts)):
        summed, product = parts[block, 0], parts[block, 1]
        for r in range(block * ROWS, min(len(a), (block + 1) * ROWS)):
            one, other = a[r], b[r]
            for k in range(len(one)):
                value = one[k] - a_shift[k]
                summed[k] += value
                product[k] += value * (other[k] - b_shift[k])


@njit(cache=True, parallel=True, fastmath={"contract"})
def _combine(grad: Any, x: Any, scale: Any, slope: Any, shift: Any, out: Any) -> None:
    """scale * grad - slope * x + shift."""
    for r in prange(len(out)):
        g, v, row = grad[r], x[r], out[r]
        for k in range(len(row)):
            row[k] = scale[k] * g[k] - slope[k] * v[k] + shift[k]


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


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found = a.new_empty(len(a))
        _lengths(_array(a), _array(b), np.arange(len(a)), found.numpy())
        ctx.save_for_backward(a, b, found)
        return found

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b, found = ctx.saved_tensors
        out = torch.empty_like(a, memory_format=torch.contiguous_format)
        _pulls(_array(a), _array(b), _array(grad / found), out.numpy())
        return out, -out


class _DrawnDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        found = a.new_empty(len(a))
        _lengths(_array(a), _array(a), order.numpy(), found.numpy())
        ctx.save_for_backward(a, order, found)
        return found

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        a, order, found = ctx.saved_tensors
        drawn_by = np.empty(len(a), dtype=np.int64)
        drawn_by[order.numpy()] = np.arange(len(a))
        out = torch.empty_like(a, memory_format=torch.contiguous_format)
        _drawn_pulls(_array(a), order.numpy(), drawn_by, _array(grad / found), out.numpy())
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
