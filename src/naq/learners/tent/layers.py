r"""The layers of TENT: two dense layers whose weights an episode scales and shifts, and what they give for classes and
for query graphs.

.. math::
    (a, b) = G t + g, \qquad W_l' = W_l \odot (1 + a_l) + b_l \quad\text{(biases likewise)}

with the task vector t of the episode.

And the node encoder of its released code.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from naq.learners.base import uniform
from naq.learners.tent.query_graphs import QueryGraphs
from naq.nn import GraphOperator, Operator
from naq.nn.rows import SparseRows, sparse_product
from naq.random import torch_seed

Layers = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class ModulatedLayers(nn.Module):
    """Two dense layers whose weights an episode scales and shifts.

    Args:
        width: of input, hidden layer and output.
        full: every weight has its own scale and shift; else every output channel, with one scale for its weights and
            bias (FiLM).
        generator: of the initial weights.
        device: where they live.

    Shapes:
        - ``forward``: task vector (width,) -> W1' (width, width), b1' (width,), W2', b2'
    """

    def __init__(self, width: int, full: bool, generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        self.width, self.full = width, full
        square, line = (width, width), (width,)
        self.weight1, self.bias1, self.weight2, self.bias2 = (
            uniform(shape, width, generator, device) for shape in (square, line, square, line)
        )
        outputs = 4 * width * (width + 1) if full else 4 * width
        self.generator_weight = uniform((width, outputs), width, generator, device)
        self.generator_bias = uniform((outputs,), width, generator, device)

    def forward(self, task: torch.Tensor) -> Layers:
        """The layers of the episode that ``task`` describes."""
        first, second = (task @ self.generator_weight + self.generator_bias).chunk(2)
        return *self._modulated(self.weight1, self.bias1, first), *self._modulated(self.weight2, self.bias2, second)

    def _modulated(
        self, weight: torch.Tensor, bias: torch.Tensor, made: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.width
        if not self.full:
            scale, shift = made.split(h)
            return weight * (1 + scale), bias * (1 + scale) + shift
        scale, shift, bias_scale, bias_shift = made.split([h * h, h * h, h, h])
        return weight * (1 + scale.view(h, h)) + shift.view(h, h), bias * (1 + bias_scale) + bias_shift


def class_vectors(means: torch.Tensor, layers: Layers) -> torch.Tensor:
    """(way, h) outputs of class nodes, which have no edges."""
    weight1, bias1, weight2, bias2 = layers
    return torch.relu(means @ weight1 + bias1) @ weight2 + bias2


def query_vectors(graphs: QueryGraphs, vectors: torch.Tensor, layers: Layers) -> torch.Tensor:
    """(queries, h) mean outputs over query graphs; ``vectors`` (u, h) belong to ``graphs.nodes``."""
    weight1, bias1, weight2, bias2 = layers
    hidden = torch.relu(sparse_product(graphs.rows, vectors @ weight1) + bias1)
    return sparse_product(graphs.pool, hidden) @ weight2 + bias2


class OneConvolution(nn.Module):
    """A_r X W + b with A_r = D~^-1 (A + I), no activation.

    Args:
        operator: the graph it reads.
        latent: width of the vectors.
        seed: of the initial weights, uniform within 1 / sqrt(latent).

    Shapes:
        - ``encode``: nodes (m,) -> (m, latent), on the operator's device
        - ``encode_all``: (n, latent)
    """

    BLOCK = 8192

    def __init__(self, operator: GraphOperator, latent: int, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.latent = operator, latent
        generator = torch.Generator().manual_seed(torch_seed(seed, "encoder/one convolution"))
        self.weight = uniform((operator.width, latent), latent, generator, operator.device)
        self.bias = uniform((latent,), latent, generator, operator.device)

    def encode(self, nodes: np.ndarray, operator: Operator | None = None) -> torch.Tensor:
        """Vectors of ``nodes``, repeats allowed; ``operator`` reads another view of the graph."""
        operator = operator or self.operator
        rows, around = self._propagation(self.operator.graph.known_nodes(nodes).ravel(), operator)
        return sparse_product(rows, operator.inputs(around, self.weight)) + self.bias

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes, in blocks."""
        nodes = np.arange(self.operator.graph.num_nodes)
        blocks = np.split(nodes, range(self.BLOCK, len(nodes), self.BLOCK))
        return torch.cat([self.encode(block) for block in blocks])

    @staticmethod
    def _propagation(nodes: np.ndarray, operator: Operator) -> tuple[SparseRows, np.ndarray]:
        """Rows of A_r, columns renumbered, and their nodes: a row has one value throughout, one over its number of
        entries."""
        rows, around = operator.field(nodes)
        counts = np.diff(rows.indptr)
        values = np.repeat((1.0 / np.maximum(counts, 1)).astype(np.float32), counts)
        return SparseRows(rows.indptr, rows.indices, values, rows.shape), around
