"""The node encoder of TEG: one graph convolution, with optional dropout of its inputs."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from naq.learners.node_draws import NodeDropout
from naq.nn import GraphOperator
from naq.nn.rows import SparseRows, sparse_product, take_rows
from naq.random import torch_seed


class OneLayerGCN(nn.Module):
    """A_hat X W + b, no activation; Xavier-uniform weight, zero bias.

    Args:
        operator: the graph it reads.
        latent: width of the vectors.
        seed: of the initial weights.

    Shapes:
        - ``encode``: nodes (m,) -> (m, latent), on the operator's device
        - ``encode_all``: (n, latent)

    Cost: rows of A_hat X, which is formed once; with dropout the features of the neighbours.
    """

    BLOCK = 8192

    def __init__(self, operator: GraphOperator, latent: int, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.latent = operator, latent
        generator = torch.Generator().manual_seed(torch_seed(seed, "encoder/one-layer gcn"))
        weight = nn.init.xavier_uniform_(torch.empty(operator.width, latent), generator=generator)
        self.weight = nn.Parameter(weight.to(operator.device))
        self.bias = nn.Parameter(torch.zeros(latent, device=operator.device))

    def extra_repr(self) -> str:
        return f"{self.operator.width} -> {self.latent}"

    def encode(self, nodes: np.ndarray, drop: NodeDropout | None = None) -> torch.Tensor:
        """Vectors of ``nodes``, repeats allowed; ``drop`` thins the features."""
        nodes = self.operator.graph.known_nodes(nodes).ravel()
        if drop is None:
            return self.operator.first_layer(nodes, self.weight) + self.bias
        rows, around = self.operator.field(nodes)
        return sparse_product(rows, self._thinned_inputs(around, drop)) + self.bias

    def _thinned_inputs(self, nodes: np.ndarray, drop: NodeDropout) -> torch.Tensor:
        """X[nodes] W with some entries of X at zero; a zero entry stays what it is, so only the others are drawn."""
        features = self.operator.graph.require_features("an encoder")
        if isinstance(features, np.ndarray):
            thinned = features[nodes] * drop.dense(nodes, features.shape[1])
            return torch.from_numpy(thinned).to(self.weight.device) @ self.weight
        taken = take_rows(features, nodes)
        kept = taken.data * drop.sparse(nodes, taken)
        return sparse_product(SparseRows(taken.indptr, taken.indices, kept, taken.shape), self.weight)

    def encode_blocks(self, nodes: np.ndarray) -> torch.Tensor:
        """As :meth:`encode` without a gradient, in blocks of nodes."""
        with torch.no_grad():
            starts = range(0, max(1, len(nodes)), self.BLOCK)
            return torch.cat([self.encode(nodes[start : start + self.BLOCK]) for start in starts])

    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes."""
        return self.encode_blocks(np.arange(self.operator.graph.num_nodes))
