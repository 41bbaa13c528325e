r"""Dropout whose mask is a stream of bits of our own generator.

.. math::
    y_i = \frac{b_i}{1 - p}\, x_i, \qquad b_i = 0 \text{ with probability } p

The generator gives 64-bit words: one bit per number for :math:`p = 1/2`, sixteen for any other share, which is thereby rounded to a
multiple of 1/65536. Words are drawn on the CPU and spread out where the numbers are, so that devices agree. What is kept for the gradient is
the words: 1/32 of the numbers for one half, 1/2 else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit, prange

LEVELS = 1 << 16
"""Steps of a share that is not one half."""
JOB = 1 << 12
"""Words per job of the compiled kernels."""


class Dropout:
    """Masks from one generator, in the order they are asked for."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def __call__(self, values: torch.Tensor, share: float) -> torch.Tensor:
        """The values with this share of them zero and the others scaled up."""
        if share <= 0.0:
            return values
        level = round(share * LEVELS)
        per_word = 64 if 2 * level == LEVELS else 4
        words = torch.empty(-(-values.numel() // per_word), dtype=torch.int64)
        words.random_(-(2**63), None, generator=self.generator)  # from the least to the greatest: all 64 bits
        return _Drop.apply(values, words.to(values.device), level)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, words: torch.Tensor, level: int) -> torch.Tensor:
        ctx.words, ctx.level = words, level
        return masked(values.detach(), words, level)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return masked(grad, ctx.words, ctx.level), None, None


def masked(values: torch.Tensor, words: torch.Tensor, level: int) -> torch.Tensor:
    """The values times 0 or 65536 / (65536 - level), as the words say; no gradient."""
    scale = LEVELS / (LEVELS - level)
    if values.device.type != "cpu" or values.dtype != torch.float32:
        return values * (kept(words, level, values.numel()).view(values.shape) * scale)
    values = values.contiguous()
    out = torch.empty_like(values)
    kernel = _by_bits if 2 * level == LEVELS else _by_levels
    kernel(values.view(-1).numpy(), words.numpy(), level, np.float32(scale), out.view(-1).numpy())
    return out


def kept(words: torch.Tensor, level: int, count: int) -> torch.Tensor:
    """(count,) float32: 1 where a number stays."""
    if 2 * level == LEVELS:
        bits = (words[:, None] >> torch.arange(64, device=words.device)) & 1
        return bits.view(-1)[:count].float()
    parts = (words[:, None] >> torch.arange(0, 64, 16, device=words.device)) & (LEVELS - 1)
    return (parts >= level).view(-1)[:count].float()


@njit(cache=True, parallel=True)
def _by_bits(values: Any, words: Any, level: Any, scale: Any, out: Any) -> None:
    count = len(values)
    for job in prange((len(words) + JOB - 1) // JOB):
        for w in range(job * JOB, min(len(words), (job + 1) * JOB)):
            word, start = words[w], 64 * w
            if start + 64 <= count:
                for b in range(64):
                    out[start + b] = values[start + b] * (scale * np.float32((word >> b) & 1))
            else:
                for b in range(count - start):
                    out[start + b] = values[start + b] * (scale * np.float32((word >> b) & 1))


@njit(cache=True, parallel=True)
def _by_levels(values: Any, words: Any, level: Any, scale: Any, out: Any) -> None:
    count = len(values)
    for job in prange((len(words) + JOB - 1) // JOB):
        for w in range(job * JOB, min(len(words), (job + 1) * JOB)):
            word, start = words[w], 4 * w
            for b in range(min(4, count - start)):
                keep = ((word >> (16 * b)) & 65535) >= level
                out[start + b] = values[start + b] * (scale if keep else np.float32(0.0))
