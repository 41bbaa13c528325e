r"""Graph convolutions over whole pieces, with batch normalisation: the encoder of BGRL, AFGRL and COLA.

.. math::
    H_l = \sigma\left(\mathrm{BatchNorm}(\hat A H_{l-1} W_l + b_l)\right), \qquad H_0 = X

Kipf and Welling, https://arxiv.org/abs/1609.02907; Ioffe and Szegedy, https://arxiv.org/abs/1502.03167
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from naq.nn import GraphOperator
from naq.nn.rows import sparse_product
from naq_paper.rivals.dropout import dropped
from naq_paper.rivals.fixed_order import BatchNorm, prelu
from naq_paper.rivals.pieces import Piece, Spread

BLOCK = 8192
"""Nodes embedded at once where the graph is trained in batches."""


def drawn_view(
    piece: Piece, drop_edge: float, drop_feature: float, edges: torch.Generator, columns: torch.Generator
) -> tuple[Spread, torch.Tensor]:
    """A view for contrast: A_hat' without some undirected edges, and (d,) 0 for feature columns that are masked, 1 for
    the others; nothing is rescaled."""
    drawn = torch.rand(piece.graph.num_features, generator=columns)
    return piece.spread(drop_edge, edges), (drawn >= drop_feature).float().to(piece.device)


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
        self,
        sizes: Sequence[int],
        *,
        generator: torch.Generator,
        device: torch.device,
        momentum: float,
        activation: str = "prelu",
        last: str = "norm",
        dropout: float = 0.0,
    ) -> None:
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

    @property
    def widths(self) -> list[int]:
        return [int(w.shape[1]) for w in self.weights]

    def forward(
        self,
        piece: Piece,
        spread: Spread | None = None,
        columns: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
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
            values = self._activated(layer, spread @ values + self.biases[layer])
            if layer + 1 < len(self.weights):
                kept = dropped(values, self.dropout if self.training else 0.0, generator)
                values = kept @ self.weights[layer + 1]
        return values

    def _activated(self, layer: int, values: torch.Tensor) -> torch.Tensor:
        if layer >= len(self.norms):
            return values
        values = self.norms[layer](values)
        return prelu(values, self.slopes[layer]) if len(self.slopes) else torch.relu(values)

    @torch.no_grad()
    def encode_all(self, operator: GraphOperator, block: int = 0) -> torch.Tensor:
        """Vectors of all nodes of the original graph with running statistics; ``block`` nodes at a time, 0 for all at
        once."""
        training = self.training
        self.eval()
        n = operator.graph.num_nodes
        block = block or n
        source: Callable[[np.ndarray], torch.Tensor] = lambda around: operator.inputs(around, self.weights[0])  # noqa: E731
        for layer in range(len(self.weights)):
            final = layer + 1 == len(self.weights)
            held = torch.empty(n, self.widths[layer if final else layer + 1], device=operator.device)
            for start in range(0, n, block):
                rows, around = operator.field(np.arange(start, min(n, start + block)))
                values = self._activated(layer, sparse_product(rows, source(around)) + self.biases[layer])
                held[start : start + rows.shape[0]] = values if final else values @ self.weights[layer + 1]
            source = _rows_of(held)
        self.train(training)
        return held


def _rows_of(held: torch.Tensor) -> Callable[[np.ndarray], torch.Tensor]:
    return lambda around: held[torch.from_numpy(around).to(held.device)]
