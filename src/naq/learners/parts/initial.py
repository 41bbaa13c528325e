"""Initial weights as some released codes draw them."""

from __future__ import annotations

import torch
from torch import nn


def uniform(shape: tuple[int, ...], width: int, generator: torch.Generator, device: torch.device) -> nn.Parameter:
    """A parameter drawn uniformly within 1 / sqrt(width)."""
    return nn.Parameter(((2 * torch.rand(shape, generator=generator) - 1) / width**0.5).to(device))
