r"""Equivariant layers between two sets of points: supports and queries of many tasks at once.

Satorras, Hoogeboom, Welling, E(n) Equivariant Graph Neural Networks, https://arxiv.org/abs/2102.09844

Points have coordinates x and structural features h, and every point of one set is a neighbour of every point of the
other:

.. math::
    m_{ij} = \mathrm{MLP}_e(h_i, h_j, |x_i - x_j|^2), \qquad
    x_i \leftarrow x_i + \frac{1}{|N(i)|} \sum_{j \in N(i)} (x_i - x_j)\, \phi(m_{ij}), \qquad
    h_i \leftarrow h_i + \mathrm{MLP}_h\left(h_i, \sum_{j \in N(i)} m_{ij}\right)

Rotating, reflecting or moving all coordinates does the same to the result and leaves h as it is.

Cost: pairs x hidden x hidden multiplications per layer and direction; nothing of the size pairs x coordinates is
formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from naq.learners.base import uniform

STILL = 1e-3
"""Gain of the initial weights that move coordinates: at the start points stay nearly where they are, as in the authors'
EGNN."""


@dataclass(frozen=True)
class Points:
    """Points of many tasks.

    Shapes:
        - ``x`` (tasks, points, d), ``h`` (tasks, points, s)
        - ``kept`` (tasks, points): 1 for points that are there, 0 for padding
    """

    x: torch.Tensor
    h: torch.Tensor
    kept: torch.Tensor


class Perceptron(nn.Module):
    """Linear, SiLU, linear; weights and biases within 1 / sqrt(inputs of their layer)."""

    def __init__(self, widths: Sequence[int], generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        first, hidden, last = widths
        self.weight1 = uniform((first, hidden), first, generator, device)
        self.bias1 = uniform((hidden,), first, generator, device)
        self.weight2 = uniform((hidden, last), hidden, generator, device)
        self.bias2 = uniform((last,), hidden, generator, device)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.after_first(inputs @ self.weight1 + self.bias1)

    def after_first(self, first: torch.Tensor) -> torch.Tensor:
        """The rest, given the outputs of the first linear layer."""
        return F.silu(first) @ self.weight2 + self.bias2


class Mover(nn.Module):
    """phi: how far a message moves a point along the line to its sender; linear, SiLU, linear without bias."""

    def __init__(self, hidden: int, generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        self.weight1 = uniform((hidden, hidden), hidden, generator, device)
        self.bias1 = uniform((hidden,), hidden, generator, device)
        last = nn.init.xavier_uniform_(torch.empty(hidden, 1), gain=STILL, generator=generator)
        self.weight2 = nn.Parameter(last.to(device))

    def forward(self, messages: torch.Tensor) -> torch.Tensor:
        """(..., hidden) -> (...)"""
        return (F.silu(messages @ self.weight1 + self.bias1) @ self.weight2).squeeze(-1)


class EquivariantLayer(nn.Module):
    """One round of messages in both directions.

    Args:
        structure: width of h.
        hidden: width of messages.
        last: whether h is not needed any more and stays as it is; its weights would never be trained.
    """

    def __init__(
        self, structure: int, hidden: int, generator: torch.Generator, device: torch.device, *, last: bool = False
    ) -> None:
        super().__init__()
        self.structure = structure
        self.message = Perceptron((2 * structure + 1, hidden, hidden), generator, device)
        self.move = Mover(hidden, generator, device)
        self.update: Perceptron | None = None
        if not last:
            self.update = Perceptron((structure + hidden, hidden, structure), generator, device)

    def forward(self, one: Points, two: Points) -> tuple[Points, Points]:
        to_one, to_two = self._messages(one, two)
        return self._changed(one, two, to_one), self._changed(two, one, to_two.transpose(1, 2))

    def _messages(self, one: Points, two: Points) -> torch.Tensor:
        """(2, tasks, points of one, points of two, hidden): messages to ``one``, then those to ``two``."""
        own, other, distance = self.message.weight1.split([self.structure, self.structure, 1])
        apart = pair_distances(one.x, two.x)[..., None] * distance[0] + self.message.bias1
        to_one = apart + (one.h @ own)[:, :, None] + (two.h @ other)[:, None]
        to_two = apart + (one.h @ other)[:, :, None] + (two.h @ own)[:, None]
        return F.silu(self.message.after_first(torch.stack([to_one, to_two])))

    def _changed(self, points: Points, senders: Points, messages: torch.Tensor) -> Points:
        """``points`` after messages (tasks, points, senders, hidden)."""
        there = senders.kept[:, None]
        steps = self.move(messages) * (there / there.sum(dim=2, keepdim=True).clamp(min=1))
        x = points.x + points.x * steps.sum(dim=2, keepdim=True) - steps @ senders.x
        if self.update is None:
            return Points(x, points.h, points.kept)
        total = (messages * there[..., None]).sum(dim=2)
        return Points(x, points.h + self.update(torch.cat([points.h, total], dim=2)), points.kept)


class TaskAdaptation(nn.Module):
    """Equivariant layers one after the other; the coordinates that supports and queries end with.

    Shapes:
        - ``forward``: supports and queries of t tasks -> (t, supports, d), (t, queries, d)
    """

    def __init__(
        self, layers: int, structure: int, hidden: int, generator: torch.Generator, device: torch.device
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EquivariantLayer(structure, hidden, generator, device, last=number == layers - 1)
            for number in range(layers)
        )

    def forward(self, support: Points, query: Points) -> tuple[torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            support, query = layer(support, query)
        return support.x, query.x


def pair_distances(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """(t, p, q) squared distances of all pairs of (t, p, d) and (t, q, d)."""
    sizes = one.pow(2).sum(dim=2)[:, :, None] + two.pow(2).sum(dim=2)[:, None]
    return sizes - 2 * (one @ two.transpose(1, 2))
