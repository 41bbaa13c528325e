r"""GCN (Kipf and Welling, `ICLR 2017 <https://arxiv.org/abs/1609.02907>`_), GraphSAGE (Hamilton et al., `NeurIPS 2017
<https://arxiv.org/abs/1706.02216>`_) and APPNP (Gasteiger et al., `ICLR 2019 <https://arxiv.org/abs/1810.05997>`_),
tuned on labels that are left out.

.. math::
    H = \mathrm{relu}(M X\, W_1 + X\, R_1 + b_1), \qquad Z = M H\, W_2 + H\, R_2 + b_2

:math:`M` is the adjacency with loops, normalised symmetrically (GCN; R is its residual), or divided by its row sums
without loops (GraphSAGE). APPNP has no M there; it spreads :math:`H R_2 + b_2` by ten steps of personalised PageRank.

For every setting of a grid and each half of the labels, a network is trained on one half, and the other half says how
good it is every ``EVERY`` epochs. The best setting and number of epochs then train a network on all labels. Without a
second label of any class, the first setting and all epochs are taken. The networks of a half are one batch: matrices
with one more axis (b). While they are trained they see the nodes that labels depend on, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from naq.classifier.views import means
from naq.graph import Graph
from naq.random import torch_seed
from naq_paper.peers import Peer, columns

HIDDEN, RATE, EPOCHS, EVERY, FOLDS = 64, 0.03, 60, 10, 2
Setting = tuple[float, float, float]
"""Dropout, weight decay (L2), and whether there is a residual (R)."""
Given = tuple[np.ndarray, np.ndarray]
"""Labelled nodes, and the class of each."""


class ConstantProduct(torch.autograd.Function):
    """The product of a constant sparse matrix with (n, ...) columns; ``matrices`` are it and its transpose."""

    @staticmethod
    def forward(ctx: Any, matrices: tuple[torch.Tensor, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        ctx.matrices = matrices
        return (matrices[0] @ rows.reshape(len(rows), -1)).reshape(-1, *rows.shape[1:])

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[None, torch.Tensor]:
        (slope,) = slopes
        return None, (ctx.matrices[1] @ slope.reshape(len(slope), -1)).reshape(-1, *slope.shape[1:])


@dataclass(frozen=True, eq=False)
class Field:
    """What some nodes' scores are computed from: inputs of r nodes, M from these to theirs, their own places."""

    inputs: torch.Tensor  # (r, 2 d)
    matrices: tuple[torch.Tensor, torch.Tensor]  # (nodes, r) and its transpose
    own: torch.Tensor  # (nodes,)


class Network(Peer):
    on_devices = True
    reads = "features, edges"
    settings = (
        f"two layers, {HIDDEN} hidden units, Adam, lr {RATE}; dropout, weight decay, residual (GCN) and the number of "
        f"epochs (at most {EPOCHS}) by labels left out in {FOLDS} folds"
    )
    grid: ClassVar[tuple[Setting, ...]]  # the first is taken where no label can be left out

    def __init__(self, graph: Graph, seed: int, device: str = "cpu") -> None:
        super().__init__(graph, seed)
        self.device = torch.device(device)
        self.matrix = sp.csr_matrix(self.operator(graph))
        own = columns(graph)
        self.width = own.shape[1]  # of the columns of M X
        self.inputs = torch.from_numpy(np.concatenate([self.matrix @ own, own], axis=1, dtype=np.float32)).to(
            self.device
        )

    def operator(self, graph: Graph) -> sp.csr_array:
        """(n, n) M."""
        return graph.normalized_adjacency()

    def field(self, nodes: np.ndarray) -> Field:
        rows = self.matrix[nodes]
        near = np.union1d(rows.indices, nodes)
        return self._field(near, rows[:, near], np.searchsorted(near, nodes))

    def _field(self, near: np.ndarray, rows: sp.csr_matrix, own: np.ndarray) -> Field:
        parts = [sp.csr_matrix(rows, dtype=np.float32), sp.csr_matrix(rows.T, dtype=np.float32)]
        there = [
            torch.sparse_csr_tensor(
                torch.from_numpy(part.indptr), torch.from_numpy(part.indices), torch.from_numpy(part.data),
                list(part.shape), check_invariants=False,
            ).to(self.device)
            for part in parts
        ]  # fmt: skip
        return Field(self.inputs[torch.from_numpy(near)], (there[0], there[1]), torch.from_numpy(own).to(self.device))

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        with torch.random.fork_rng(devices=[] if self.device.type == "cpu" else [self.device]):
            torch.manual_seed(torch_seed(self.seed, f"peer/{self.name}/{len(nodes)}"))
            setting, epochs = self.choose(nodes, slots, count)
            weights, _ = self.train((nodes, slots), count, [setting], epochs)
        with torch.no_grad():
            whole = self.field(np.arange(self.graph.num_nodes))
            scores = self.scores(weights, whole, None, torch.tensor([setting[2]], device=self.device))
        return scores[:, 0].softmax(dim=1).cpu().numpy()

    def choose(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> tuple[Setting, int]:
        """The setting and the number of epochs with the least loss of labels that were left out."""
        losses = np.zeros((len(self.grid), EPOCHS // EVERY))
        for judge in judging_labels(slots, count, self.seed):
            learned, judges = (nodes[~judge], slots[~judge]), (nodes[judge], slots[judge])
            losses += self.train(learned, count, self.grid, EPOCHS, judges)[1]
        if not losses.any():
            return self.grid[0], EPOCHS
        place, step = np.unravel_index(losses.argmin(), losses.shape)
        return self.grid[place], EVERY * int(step + 1)

    def train(
        self, given: Given, count: int, settings: Sequence[Setting], epochs: int, judges: Given | None = None
    ) -> tuple[list[torch.Tensor], np.ndarray]:
        """The weights of a network for every setting, and the losses (networks, steps) of all labels that judge it."""
        dropout, decay, residual = (torch.tensor(part, device=self.device) for part in zip(*settings))
        weights, field = self.weights(len(settings), count), self.field(given[0])
        far = None if judges is None else self.field(judges[0])
        optimizer = torch.optim.Adam(weights, lr=RATE)
        losses = []
        for epoch in range(1, epochs + 1):
            size = sum((part**2).sum(dim=(0, 2)) for part in weights)
            loss = cross_entropy(self.scores(weights, field, dropout, residual), given[1]) / len(given[1])
            optimizer.zero_grad()
            (loss + 0.5 * decay * size).sum().backward()
            optimizer.step()
            if far is not None and judges is not None and epoch % EVERY == 0:
                with torch.no_grad():
                    losses.append(cross_entropy(self.scores(weights, far, None, residual), judges[1]).cpu().numpy())
        return weights, np.array(losses).T

    def weights(self, size: int, count: int) -> list[torch.Tensor]:
        """W_1, R_1 (2 d, b, h), b_1 (1, b, h), W_2, R_2 (2 h, b, count), b_2 (1, b, count), Glorot-uniform."""

        def drawn(rows: int, cells: int) -> torch.Tensor:
            edge = (6 / (rows / 2 + cells)) ** 0.5
            return (torch.rand(rows, size, cells, device=self.device) * 2 - 1).mul_(edge).requires_grad_()

        def zeros(cells: int) -> torch.Tensor:
            return torch.zeros(1, size, cells, device=self.device, requires_grad=True)

        return [drawn(self.inputs.shape[1], HIDDEN), zeros(HIDDEN), drawn(2 * HIDDEN, count), zeros(count)]

    def scores(
        self, weights: Sequence[torch.Tensor], field: Field, dropout: torch.Tensor | None, residual: torch.Tensor
    ) -> torch.Tensor:
        """(nodes, b, count) Z of the nodes of a field."""
        first, bias, second, last = weights
        kept = residual[:, None]
        first = torch.cat([first[: self.width], first[self.width :] * kept])
        hidden = (field.inputs @ first.flatten(1)).reshape(len(field.inputs), *bias.shape[1:])
        hidden = F.relu(hidden + bias)
        if dropout is not None:
            rate = dropout[:, None]
            kept_units = (torch.rand(len(hidden), 1, HIDDEN, device=self.device) >= rate) / (1 - rate)
            hidden = hidden * kept_units
        return self.spread(hidden, second, kept, field) + last

    def spread(self, hidden: torch.Tensor, second: torch.Tensor, kept: torch.Tensor, field: Field) -> torch.Tensor:
        """(nodes, b, count) M H W_2 + H R_2."""
        near, own = second[:HIDDEN], second[HIDDEN:] * kept
        around: torch.Tensor = ConstantProduct.apply(field.matrices, torch.einsum("nbh,hbc->nbc", hidden, near))
        return around + torch.einsum("nbh,hbc->nbc", hidden[field.own], own)


def cross_entropy(scores: torch.Tensor, slots: np.ndarray) -> torch.Tensor:
    """(b,) the sums over the labels of every network."""
    own = torch.from_numpy(slots).to(scores.device)[:, None, None].expand(-1, scores.shape[1], 1)
    return -scores.log_softmax(dim=2).gather(2, own).sum(dim=(0, 2))


def judging_labels(slots: np.ndarray, count: int, seed: int) -> list[np.ndarray]:
    """For every fold which labels judge; the only label of a class never does. None if no class has a second label."""
    random = np.random.default_rng([seed, len(slots)])
    fold = np.full(len(slots), -1)
    for c in range(count):
        own = random.permutation(np.flatnonzero(slots == c))
        if len(own) > 1:
            fold[own] = np.arange(len(own)) % FOLDS
    return [fold == part for part in range(FOLDS) if (fold == part).any()]


class TunedGCN(Network):
    name, title = "gcn", "GCN, tuned"
    grid = ((0.5, 5e-3, 0.0), (0.5, 5e-4, 1.0), (0.2, 5e-5, 1.0))


class SAGE(Network):
    name, title = "sage", "GraphSAGE, tuned"
    grid = ((0.5, 5e-3, 1.0), (0.5, 5e-4, 1.0), (0.2, 5e-5, 1.0))

    def operator(self, graph: Graph) -> sp.csr_array:
        return means(graph.weighted_adjacency)


class APPNP(Network):
    name, title = "appnp", "APPNP, tuned"
    grid = SAGE.grid
    STEPS, STAY = 10, 0.1

    def __init__(self, graph: Graph, seed: int, device: str = "cpu") -> None:
        super().__init__(graph, seed, device)
        self.inputs = self.inputs[:, self.width :]
        self.whole = self._field(np.arange(graph.num_nodes), self.matrix, np.arange(graph.num_nodes))

    def field(self, nodes: np.ndarray) -> Field:
        return replace(self.whole, own=torch.from_numpy(nodes).to(self.device))

    def spread(self, hidden: torch.Tensor, second: torch.Tensor, kept: torch.Tensor, field: Field) -> torch.Tensor:
        start = torch.einsum("nbh,hbc->nbc", hidden, second[HIDDEN:])
        found = start
        for _ in range(self.STEPS):
            around: torch.Tensor = ConstantProduct.apply(field.matrices, found)
            found = (1 - self.STAY) * around + self.STAY * start
        return found[field.own]
