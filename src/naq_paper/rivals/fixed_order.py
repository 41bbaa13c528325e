r"""Arithmetic that is the same for any number of threads: batch normalisation, PReLU, softmax, totals, dropout.

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
NUMBERS = 1 << 14
"""Numbers of a block of a total; PyTorch leaves so few to one thread."""


def total(values: torch.Tensor) -> torch.Tensor:
    """The sum of (n,) values."""
    return torch.stack([block.sum() for block in values.split(NUMBERS)]).sum()


def prelu(values: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """PReLU of (n, width) values with one slope (1,), whose gradient is summed by columns first."""
    return F.prelu(values, slope.expand(values.shape[1]))


def dropped(values: torch.Tensor, share: float, generator: torch.Generator | None) -> torch.Tensor:
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


def softmax(scores: torch.Tensor) -> torch.Tensor:
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
