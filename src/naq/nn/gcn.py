r"""The two-layer graph convolutional network every meta-learner of the paper uses.

Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, https://arxiv.org/abs/1609.02907

.. math::
    H = \mathrm{ReLU}(\hat A X W_1 + b_1), \qquad Z = \mathrm{ReLU}(\hat A H W_2 + b_2), \qquad
    \hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from naq.errors import OptionError
from naq.nn.operator import GraphOperator, Operator
from naq.nn.rows import SparseRows, sparse_product
from naq.random import torch_seed

Between = Callable[[Any, torch.Tensor], torch.Tensor]
"""What becomes of hidden rows before the second layer, given what ``field`` knows them by: dropout, for one."""


class GCN(nn.Module):
    """Two graph convolutions, d -> hidden -> latent, ReLU after both; Xavier-uniform weights, zero biases.

    Args:
        operator: the graph it reads.
        latent: width of the vectors.
        hidden: width between the layers; 0 for twice ``latent``.
        activate: whether the last layer ends in a ReLU too.

    Shapes:
        - ``encode``: nodes (m,) -> (m, latent), on the operator's device
        - ``encode_all``: (n, latent)

    Cost: ``encode`` touches the one-hop neighbourhood of its nodes in A_hat X; ``encode_all`` works in blocks of nodes.
    """

    def __init__(
        self, operator: GraphOperator, latent: int = 256, *, seed: int = 0, hidden: int = 0, activate: bool = True
    ) -> None:
        super().__init__()
        if latent < 1:
            raise OptionError(f"latent is {latent}; expected a positive width.")
        self.operator = operator
        self.latent = latent
        self.hidden = hidden or 2 * latent
        self.activate = activate
        generator = torch.Generator().manual_seed(torch_seed(seed, "encoder/gcn"))
        shapes = ((operator.width, self.hidden), (self.hidden, latent))
        weights = [nn.init.xavier_uniform_(torch.empty(shape), generator=generator) for shape in shapes]
        self.weight1, self.weight2 = (nn.Parameter(w.to(operator.device)) for w in weights)
        self.bias1, self.bias2 = (nn.Parameter(torch.zeros(s[1], device=operator.device)) for s in shapes)

    def extra_repr(self) -> str:
        return f"{self.operator.width} -> {self.hidden} -> {self.latent}"

    def encode(
        self, nodes: np.ndarray, operator: Operator | None = None, *, between: Between | None = None
    ) -> torch.Tensor:
        """Vectors of ``nodes``, repeats allowed, computed on their receptive field.

        Args:
            operator: another view of the graph.
            between: changes the hidden layer.
        """
        operator = operator or self.operator
        nodes = self.operator.graph.known_nodes(nodes).ravel()
        if operator is self.operator and between is None and operator.prefers_all(len(nodes)):
            return self.encode_all()[torch.from_numpy(nodes).pin_memory().to(operator.device, non_blocking=True)]
        rows, around = operator.field(nodes)
        hidden = torch.relu(operator.first_layer(around, self.weight1) + self.bias1)
        if between is not None:
            hidden = between(around, hidden)
        # Fewer multiplications for the fewer rows: (P H) W2 or P (H W2).
        few = rows.shape[0] < rows.shape[1]
        values = sparse_product(rows, hidden) @ self.weight2 if few else sparse_product(rows, hidden @ self.weight2)
        return self._last(values + self.bias2)

    def _last(self, values: torch.Tensor) -> torch.Tensor:
        return torch.relu(values) if self.activate else values

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes; every first-layer row is computed once."""

        def inner(nodes: np.ndarray) -> torch.Tensor:
            return torch.relu(self.operator.first_layer(nodes, self.weight1) + self.bias1) @ self.weight2

        def outer(values: torch.Tensor, columns: slice) -> torch.Tensor:
            return self._last(values + self.bias2[columns])

        return self.operator.propagate_all(inner, self.latent, outer)


class OneLayerGCN(nn.Module):
    r"""One graph convolution without an activation, :math:`\hat A X W + b`.

    Args:
        operator: the graph it reads.
        weight, bias: (d, latent) and (latent,), as training starts.
        mean: take :math:`\tilde D^{-1} (A + I)` instead of :math:`\hat A`: the mean of a node and its neighbours.

    Shapes:
        - ``encode``: nodes (m,) -> (m, latent), on the operator's device
        - ``encode_all``: (n, latent)
    """

    BLOCK = 8192

    def __init__(
        self, operator: GraphOperator, weight: torch.Tensor, bias: torch.Tensor, *, mean: bool = False
    ) -> None:
        super().__init__()
        self.operator, self.mean = operator, mean
        self.weight, self.bias = (nn.Parameter(start.detach().to(operator.device)) for start in (weight, bias))

    def extra_repr(self) -> str:
        return " -> ".join(map(str, self.weight.shape))

    def encode(
        self, nodes: np.ndarray, operator: Operator | None = None, *,
        inputs: Callable[[np.ndarray], torch.Tensor] | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Vectors of ``nodes``, repeats allowed; ``operator`` reads another view of the graph, ``inputs`` gives rows of
        X W (under dropout, for one)."""
        nodes = self.operator.graph.known_nodes(nodes).ravel()
        if not self.mean and operator is None and inputs is None:
            return self.operator.first_layer(nodes, self.weight) + self.bias
        operator = operator or self.operator
        rows, around = operator.field(nodes)
        if self.mean:
            counts = np.diff(rows.indptr)
            values = np.repeat((1.0 / np.maximum(counts, 1)).astype(np.float32), counts)
            rows = SparseRows(rows.indptr, rows.indices, values, rows.shape)
        return sparse_product(rows, inputs(around) if inputs else operator.inputs(around, self.weight)) + self.bias

    @torch.no_grad()
    def encode_blocks(self, nodes: np.ndarray) -> torch.Tensor:
        """As :meth:`encode` without a gradient, in blocks of nodes."""
        blocks = np.split(nodes, range(self.BLOCK, len(nodes), self.BLOCK))
        return torch.cat([self.encode(block) for block in blocks])

    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes."""
        return self.encode_blocks(np.arange(self.operator.graph.num_nodes))
