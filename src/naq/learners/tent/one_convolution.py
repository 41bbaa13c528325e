"""The node encoder of TENT's released code."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from naq.learners.base import uniform
from naq.nn import GraphOperator, Operator
from naq.nn.rows import SparseRows, sparse_product
from naq.random import torch_seed


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
        """Rows of A_r, columns renumbered, and their nodes: a row has one value throughout, one over its number of entries."""
        rows, around = operator.field(nodes)
        counts = np.diff(rows.indptr)
        values = np.repeat((1.0 / np.maximum(counts, 1)).astype(np.float32), counts)
        return SparseRows(rows.indptr, rows.indices, values, rows.shape), around
