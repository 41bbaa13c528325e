"""A student network and its teacher, a copy that follows slowly: the predictor, the moving average, the schedules of
BGRL, AFGRL and COLA."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from naq_paper.rivals.fixed_order import BatchNorm, prelu


class Predictor(nn.Module):
    """Linear, [batch normalisation,] PReLU, Linear; Xavier-uniform weights.

    Args:
        width, hidden: of the vectors and between the two layers.
        norm: momentum of batch normalisation between them; 0 for none.
        bias: initial value of the biases.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        generator: torch.Generator,
        device: torch.device,
        norm: float = 0.0,
        bias: float = 0.0,
    ) -> None:
        super().__init__()
        self.first, self.second = (
            linear(a, b, generator=generator, device=device, bias=bias) for a, b in ((width, hidden), (hidden, width))
        )
        self.norm = BatchNorm(hidden, momentum=norm, device=device) if norm else None
        self.slope = nn.Parameter(torch.full((1,), 0.25, device=device))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = self.first(values)
        if self.norm is not None:
            values = self.norm(values)
        return self.second(prelu(values, self.slope))


def linear(
    inputs: int, outputs: int, *, generator: torch.Generator, device: torch.device, bias: float = 0.0
) -> nn.Linear:
    """A linear layer whose weights are Xavier-uniform draws of ``generator``."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[arg-type]
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.constant_(layer.bias, bias)
    return layer.to(device)


def teacher_of(student: nn.Module) -> nn.Module:
    """A copy that gets no gradient."""
    teacher = copy.deepcopy(student)
    for parameter in teacher.parameters():
        parameter.requires_grad_(False)
    return teacher


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """teacher <- momentum * teacher + (1 - momentum) * student, for every parameter; once per update."""
    for mine, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
        mine.lerp_(theirs, 1.0 - momentum)


def rising_momentum(start: float, update: int, updates: int) -> float:
    """From ``start`` to 1 by half a cosine."""
    return 1.0 - (1.0 - start) * (1.0 + math.cos(math.pi * update / max(1, updates))) / 2.0


def warm_cosine(rate: float, update: int, updates: int, warmup: int) -> float:
    """Linear to ``rate`` over ``warmup`` updates, then half a cosine down to 0."""
    if update < warmup:
        return rate * (update + 1) / warmup
    return rate * (1.0 + math.cos(math.pi * (update - warmup) / max(1, updates - warmup))) / 2.0
