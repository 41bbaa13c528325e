r"""The node encoders of TENT beside the shared GCN: without the last ReLU, and the single convolution of the released code."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import nn

from naq.encoders import GCN, GraphOperator, Operator
from naq.encoders.rows import SparseRows, sparse_product
from naq.errors import OptionError
from naq.randomness import torch_seed


class LinearEncoder(nn.Module, ABC):
    """Vectors M F + b, where M is a propagation matrix of the graph and F are features that each node makes by itself.

    Shapes:
        - ``encode``: nodes (m,) -> (m, latent), on the operator's device
        - ``encode_all``: (n, latent)
    """

    BLOCK = 8192
    operator: GraphOperator
    latent: int

    @abstractmethod
    def propagation(self, nodes: np.ndarray, operator: Operator) -> tuple[SparseRows, np.ndarray]:
        """Rows of M, columns renumbered, and the nodes those columns are."""

    @abstractmethod
    def inner(self, nodes: np.ndarray, operator: Operator) -> torch.Tensor:
        """Rows of F."""

    @abstractmethod
    def last_bias(self) -> torch.Tensor:
        """b."""

    def encode(self, nodes: np.ndarray, operator: Operator | None = None) -> torch.Tensor:
        """Vectors of ``nodes``, repeats allowed; ``operator`` reads another view of the graph."""
        view: Operator = operator or self.operator
        nodes, n = np.asarray(nodes, dtype=np.int64).ravel(), self.operator.graph.num_nodes
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= n):
            raise OptionError(f"nodes hold {nodes.min()} to {nodes.max()}, but the graph has nodes 0..{n - 1}.")
        rows, around = self.propagation(nodes, view)
        return sparse_product(rows, self.inner(around, view)) + self.last_bias()

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes, in blocks; every row of F is computed once."""
        n = self.operator.graph.num_nodes
        blocks = [np.arange(start, min(n, start + self.BLOCK)) for start in range(0, n, self.BLOCK)]
        inner = torch.cat([self.inner(block, self.operator) for block in blocks])
        out = torch.empty_like(inner)
        for block in blocks:
            rows, around = self.propagation(block, self.operator)
            inside = inner[torch.from_numpy(around).to(inner.device)]
            out[block[0] : block[-1] + 1] = sparse_product(rows, inside) + self.last_bias()
        return out


class OpenGCN(LinearEncoder):
    """The two-layer GCN without the ReLU after its last layer: A_hat ReLU(A_hat X W1 + b1) W2 + b2.

    Args:
        operator: the graph it reads.
        latent: width of the vectors; the hidden layer is twice as wide.
        seed: of the initial weights, which are those of the GCN with that seed.
    """

    def __init__(self, operator: GraphOperator, latent: int, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.latent = operator, latent
        self.gcn = GCN(operator, latent, seed=seed)

    def propagation(self, nodes: np.ndarray, operator: Operator) -> tuple[SparseRows, np.ndarray]:
        return operator.field(nodes)

    def inner(self, nodes: np.ndarray, operator: Operator) -> torch.Tensor:
        return torch.relu(operator.first_layer(nodes, self.gcn.weight1) + self.gcn.bias1) @ self.gcn.weight2

    def last_bias(self) -> torch.Tensor:
        return self.gcn.bias2


class OneConvolution(LinearEncoder):
    """The encoder of TENT's released code: A_r X W + b with A_r = D~^-1 (A + I), no activation.

    Args:
        operator: the graph it reads.
        latent: width of the vectors.
        seed: of the initial weights, uniform within 1 / sqrt(latent).
    """

    def __init__(self, operator: GraphOperator, latent: int, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.latent = operator, latent
        generator = torch.Generator().manual_seed(torch_seed(seed, "encoder/one convolution"))
        self.weight = uniform((operator.width, latent), latent, generator, operator.device)
        self.bias = uniform((latent,), latent, generator, operator.device)

    def propagation(self, nodes: np.ndarray, operator: Operator) -> tuple[SparseRows, np.ndarray]:
        """A row of A_r has one value throughout: one over its number of entries."""
        rows, around = operator.field(nodes)
        counts = np.diff(rows.indptr)
        values = np.repeat((1.0 / np.maximum(counts, 1)).astype(np.float32), counts)
        return SparseRows(rows.indptr, rows.indices, values, rows.shape), around

    def inner(self, nodes: np.ndarray, operator: Operator) -> torch.Tensor:
        return operator.inputs(nodes, self.weight)

    def last_bias(self) -> torch.Tensor:
        return self.bias


def uniform(shape: tuple[int, ...], width: int, generator: torch.Generator, device: torch.device) -> nn.Parameter:
    """A parameter drawn uniformly within 1 / sqrt(width)."""
    return nn.Parameter(((2 * torch.rand(shape, generator=generator) - 1) / width**0.5).to(device))
