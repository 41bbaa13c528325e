r"""What BGRL, AFGRL and COLA are made of: graph convolutions over whole pieces, and a teacher, a copy of the network
that follows it slowly.

.. math::
    H_l = \sigma\left(\mathrm{BatchNorm}(\hat A H_{l-1} W_l + b_l)\right), \qquad H_0 = X

Kipf and Welling, https://arxiv.org/abs/1609.02907; Ioffe and Szegedy, https://arxiv.org/abs/1502.03167
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from naq.nn import GraphOperator
from naq.nn.rows import sparse_product
from naq_paper.rivals.fixed_order import BatchNorm, drop_values, prelu
from naq_paper.rivals.pieces import Piece, Spread
from naq_paper.rivals.trained import TrainedEmbedder

BLOCK = 8192
"""Nodes embedded at once where the graph is trained in batches."""


def draw_view(model: TrainedEmbedder, piece: Piece, number: int, update: int) -> tuple[Spread, torch.Tensor]:
    """View ``number`` of an update: A_hat' without a share ``drop_edge{number}`` of the undirected edges, and (d,) 0
    for the feature columns that ``drop_feature{number}`` masks, 1 for the others; nothing is rescaled."""
    drop_edge, drop_feature = (getattr(model.options, f"drop_{what}{number}") for what in ("edge", "feature"))
    drawn = torch.rand(piece.graph.num_features, generator=model.generator(f"columns{number}", update))
    spread = piece.spread(drop_edge, model.generator(f"edges{number}", update))
    return spread, (drawn >= drop_feature).float().to(piece.device)


class Convolutions(nn.Module):
    """A stack of graph convolutions.

    Args:
        sizes: widths, the features' first: ``(d, 512, 256)`` is two layers.
        generator: of the initial weights, Xavier-uniform; biases are zero.
        device: where they live.
        momentum: of the running statistics of batch normalisation, in PyTorch's meaning (1: replaced at every update).
        activation: ``prelu`` (one learned slope per layer, 0.25 at first) or ``relu``.
        last: ``norm`` treats the last layer as the others, ``linear`` ends in the plain convolution.
        dropout: of the activations of all layers but the last; drawn from the generator that ``forward`` is given.

    Shapes:
        - ``forward``: a piece of m nodes -> (m, sizes[-1])
        - ``encode_all``: (n, sizes[-1]), with running statistics, in blocks
    """

    def __init__(
        self, sizes: Sequence[int], *, generator: torch.Generator, device: torch.device, momentum: float,
        activation: str = "prelu", last: str = "norm", dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        layers = list(pairwise(sizes))
        drawn = [nn.init.xavier_uniform_(torch.empty(shape), generator=generator) for shape in layers]
        self.weights = nn.ParameterList(nn.Parameter(w.to(device)) for w in drawn)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width, device=device)) for _, width in layers)
        ends = layers if last == "norm" else layers[:-1]
        self.norms = nn.ModuleList(BatchNorm(width, momentum=momentum, device=device) for _, width in ends)
        slopes = ends if activation == "prelu" else []
        self.slopes = nn.ParameterList(nn.Parameter(torch.full((1,), 0.25, device=device)) for _ in slopes)
        self.dropout = dropout

    def forward(
        self, piece: Piece, spread: Spread | None = None, columns: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Vectors of all nodes of a piece.

        Args:
            spread: a view of its edges; as they are by default.
            columns: (d,) 0 for feature columns that are masked, 1 for the others.
            generator: of dropout, in training mode.
        """
        spread = spread if spread is not None else piece.spread()
        first = self.weights[0] if columns is None else self.weights[0] * columns[:, None]
        values = piece.inputs(first)
        for layer in range(len(self.weights)):
            values = self._activate(layer, spread @ values + self.biases[layer])
            if layer + 1 < len(self.weights):
                kept = drop_values(values, self.dropout if self.training else 0.0, generator)
                values = kept @ self.weights[layer + 1]
        return values

    def _activate(self, layer: int, values: torch.Tensor) -> torch.Tensor:
        if layer >= len(self.norms):
            return values
        values = self.norms[layer](values)
        return prelu(values, self.slopes[layer]) if len(self.slopes) else torch.relu(values)

    @torch.no_grad()
    def encode_all(self, operator: GraphOperator, block: int = 0) -> torch.Tensor:
        """Vectors of all nodes with running statistics; ``block`` nodes at a time, 0 for all at once."""
        training = self.training
        self.eval()
        n = operator.graph.num_nodes
        block = block or n
        source: Callable[[np.ndarray], torch.Tensor] = partial(operator.inputs, weight=self.weights[0])
        for layer in range(len(self.weights)):
            final = layer + 1 == len(self.weights)
            width = self.weights[layer if final else layer + 1].shape[1]
            held = torch.empty(n, width, device=operator.device)
            for start in range(0, n, block):
                rows, around = operator.field(np.arange(start, min(n, start + block)))
                values = self._activate(layer, sparse_product(rows, source(around)) + self.biases[layer])
                held[start : start + rows.shape[0]] = values if final else values @ self.weights[layer + 1]
            source = _rows_of(held)
        self.train(training)
        return held


def _rows_of(held: torch.Tensor) -> Callable[[np.ndarray], torch.Tensor]:
    return lambda around: held[torch.from_numpy(around).to(held.device)]


class Predictor(nn.Module):
    """Linear, [batch normalisation,] PReLU, Linear; Xavier-uniform weights.

    Args:
        width, hidden: of the vectors and between the two layers.
        norm: momentum of batch normalisation between them; 0 for none.
        bias: initial value of the biases.
    """

    def __init__(
        self, width: int, hidden: int, *, generator: torch.Generator, device: torch.device, norm: float = 0.0,
        bias: float = 0.0,
    ) -> None:  # fmt: skip
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
