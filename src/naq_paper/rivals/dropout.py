"""Dropout drawn from a generator of the caller's."""

from __future__ import annotations

import torch


def dropped(values: torch.Tensor, share: float, generator: torch.Generator | None) -> torch.Tensor:
    """The values with this share of them zero and the others scaled up; as they are without a generator."""
    if share <= 0.0 or generator is None:
        return values
    keep = torch.rand(values.shape, generator=generator) >= share
    return values * (keep.to(values.device) / (1.0 - share))
