r"""GCN (Kipf and Welling, `ICLR 2017 <https://arxiv.org/abs/1609.02907>`_), GraphSAGE (Hamilton et al., `NeurIPS 2017
<https://arxiv.org/abs/1706.02216>`_) and APPNP (Gasteiger et al., `ICLR 2019 <https://arxiv.org/abs/1810.05997>`_),
tuned on labels that are left out.

.. math::
    H = \mathrm{relu}(M X\, W_1 + X\, R_1 + b_1), \qquad Z = M H\, W_2 + H\, R_2 + b_2

:math:`M` is the adjacency with loops, normalised symmetrically (GCN; R is its residual), or divided by its row sums
without loops (GraphSAGE). APPNP has no M there; it spreads :math:`H R_2 + b_2` by ten steps of personalised PageRank.

For every setting of a grid and each half of the labels, a network is trained on one half, and the other half says
how good it is every ten epochs. The best setting and number of epochs then train a network on all labels. Without a
second label of some class, the first setting and ``UNTUNED`` epochs are taken. All these networks, of all tasks at once,
are one batch: matrices with one more axis (b), so that a GPU is used well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from naq.classifier.views import means
from naq.graph import Graph
from naq.random import torch_seed
from naq_paper.peers import Peer, Task, columns

HIDDEN, RATE, EPOCHS, EVERY, UNTUNED = 64, 0.01, 200, 10, 200
FOLDS = 2
Setting = tuple[float, float, float]
"""Dropout, weight decay (L2), and whether there is a residual (R)."""
AT_ONCE = {"cpu": 1 << 25, "cuda": 1 << 28}  # numbers of a layer's output in one batch


class Spread(torch.autograd.Function):
    """The product of a constant sparse matrix with (n, ...) columns; ``matrices`` are it and its transpose."""

    @staticmethod
    def forward(ctx: Any, matrices: tuple[torch.Tensor, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        ctx.matrices = matrices
        return (matrices[0] @ rows.reshape(len(rows), -1)).reshape(rows.shape)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[None, torch.Tensor]:
        (slope,) = slopes
        return None, (ctx.matrices[1] @ slope.reshape(len(slope), -1)).reshape(slope.shape)


@dataclass(frozen=True)
class Training:
    """One network: the labels it learns, those that judge it, its setting, and the epochs after which it is used."""

    nodes: np.ndarray
    slots: np.ndarray
    count: int
    setting: Setting = (0.5, 5e-4, 1.0)
    judges: tuple[np.ndarray, np.ndarray] = (np.empty(0, np.int64), np.empty(0, np.int64))
    epochs: int = UNTUNED


class Network(Peer):
    on_devices = True
    reads = "features, edges"
    settings = (
        f"two layers, {HIDDEN} hidden units, Adam, lr {RATE}; dropout, weight decay, residual (GCN) and the number of epochs "
        f"(at most {EPOCHS}) by labels left out in {FOLDS} folds"
    )
    grid: ClassVar[tuple[Setting, ...]]  # the first is taken where no label can be left out

    def __init__(self, graph: Graph, seed: int, device: str = "cpu") -> None:
        super().__init__(graph, seed)
        self.device = torch.device(device)
        matrix = sp.csr_matrix(self.operator(graph))
        self.matrices = self._there(matrix), self._there(sp.csr_matrix(matrix.T))
        own = torch.from_numpy(columns(graph)).to(self.device)
        self.inputs = torch.cat([self.matrices[0] @ own, own], dim=1)
        self.width = own.shape[1]  # of the columns of M X

    def operator(self, graph: Graph) -> sp.csr_array:
        """(n, n) M."""
        return graph.normalized_adjacency()

    def _there(self, matrix: sp.csr_matrix) -> torch.Tensor:
        rows, ends = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
        values = torch.from_numpy(matrix.data.astype(np.float32))
        return torch.sparse_csr_tensor(rows, ends, values, list(matrix.shape), check_invariants=False).to(self.device)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        return next(self.answers([(nodes, slots, count)]))

    def answers(self, tasks: Sequence[Task]) -> Iterator[np.ndarray]:
        tried = [attempts(*task, self.grid, self.seed) for task in tasks]
        losses = (row for made in self._batches([one for some in tried for one in some]) for row in made[1])
        last = []
        for task, some in zip(tasks, tried):
            chosen = Training(*task, setting=self.grid[0])
            if some:
                summed = np.array([next(losses) for _ in some]).reshape(len(self.grid), FOLDS, -1).sum(axis=1)
                place, step = np.unravel_index(summed.argmin(), summed.shape)
                chosen = replace(chosen, setting=self.grid[place], epochs=EVERY * int(step + 1))
            last.append(chosen)
        for chances, _ in self._batches(last):
            yield from chances

    def _batches(self, trainings: Sequence[Training]) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        widest = max([HIDDEN, *(one.count for one in trainings)])
        size = max(1, AT_ONCE[self.device.type] // (self.graph.num_nodes * widest))
        for start in range(0, len(trainings), size):
            with torch.random.fork_rng(devices=[] if self.device.type == "cpu" else [self.device]):
                torch.manual_seed(torch_seed(self.seed, f"peer/{self.name}/{start}"))
                made = self._train(trainings[start : start + size])
            yield made

    def _train(self, batch: Sequence[Training]) -> tuple[list[np.ndarray], np.ndarray]:
        """The probabilities (n, count) of each network, and its losses (networks, steps) at the labels that judge it."""
        count, judged = max(one.count for one in batch), bool(len(batch[0].judges[0]))
        dropout, decay, residual = (
            torch.tensor(part, device=self.device) for part in zip(*(one.setting for one in batch))
        )
        learned = self._padded([(one.nodes, one.slots) for one in batch])
        judges = self._padded([one.judges for one in batch]) if judged else None
        shut = torch.tensor([[c >= one.count for c in range(count)] for one in batch], device=self.device)
        weights = self._weights(len(batch), count, residual)
        optimizer = torch.optim.Adam(weights, lr=RATE)
        losses, answers = [], [np.empty(0)] * len(batch)
        for epoch in range(1, max(one.epochs for one in batch) + 1):
            scores = self._scores(weights, dropout, residual).masked_fill(shut, -1e9)
            size = sum((part**2).sum(dim=(0, 2)) for part in weights)
            loss = cross_entropy(scores, *learned).sum() + 0.5 * (decay * size).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ready = [place for place, one in enumerate(batch) if one.epochs == epoch and not judged]
            if ready or (judged and epoch % EVERY == 0):
                with torch.no_grad():
                    scores = self._scores(weights, None, residual).masked_fill(shut, -1e9)
                    if judges is not None:
                        losses.append(cross_entropy(scores, *judges).cpu().numpy())
                    for place in ready:
                        answers[place] = scores[:, place, : batch[place].count].softmax(dim=1).cpu().numpy()
        return answers, np.array(losses).T

    def _weights(self, size: int, count: int, residual: torch.Tensor) -> list[torch.Tensor]:
        """W_1 and R_1 (2 d, b, h), b_1 (1, b, h), W_2 and R_2 (2 h, b, count), b_2 (1, b, count), by Glorot and Bengio."""

        def drawn(rows: int, cells: int) -> torch.Tensor:
            edge = (6 / (rows / 2 + cells)) ** 0.5
            return (torch.rand(rows, size, cells, device=self.device) * 2 - 1).mul_(edge).requires_grad_()

        def zeros(cells: int) -> torch.Tensor:
            return torch.zeros(1, size, cells, device=self.device, requires_grad=True)

        return [drawn(self.inputs.shape[1], HIDDEN), zeros(HIDDEN), drawn(2 * HIDDEN, count), zeros(count)]

    def _scores(
        self, weights: Sequence[torch.Tensor], dropout: torch.Tensor | None, residual: torch.Tensor
    ) -> torch.Tensor:
        """(n, b, count) Z."""
        first, bias, second, last = weights
        kept = residual[:, None]
        first = torch.cat([first[: self.width], first[self.width :] * kept])
        hidden = (self.inputs @ first.flatten(1)).reshape(len(self.inputs), *bias.shape[1:])
        hidden = F.relu(hidden + bias)
        if dropout is not None:
            rate = dropout[:, None]
            hidden = hidden * (torch.rand_like(hidden) >= rate) / (1 - rate)
        return self.spread(hidden, second, kept) + last

    def spread(self, hidden: torch.Tensor, second: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        """(n, b, count) M H W_2 + H R_2."""
        near, own = second[:HIDDEN], second[HIDDEN:] * kept
        around: torch.Tensor = Spread.apply(self.matrices, torch.einsum("nbh,hbc->nbc", hidden, near))
        return around + torch.einsum("nbh,hbc->nbc", hidden, own)

    def _padded(
        self, labels: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Nodes and classes (labels, b) of every network and their weights, which add up to one for each."""
        longest = max(len(nodes) for nodes, _ in labels)
        made = np.zeros((3, longest, len(labels)))
        for place, (nodes, slots) in enumerate(labels):
            made[:, : len(nodes), place] = nodes, slots, np.full(len(nodes), 1 / max(len(nodes), 1))
        parts = [torch.from_numpy(part).to(self.device) for part in made]
        return parts[0].long(), parts[1].long(), parts[2].float()


def cross_entropy(scores: torch.Tensor, nodes: torch.Tensor, slots: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """(b,) of the labels of every network."""
    own = scores[nodes, torch.arange(scores.shape[1], device=scores.device)].log_softmax(dim=2)
    return -(own.gather(2, slots[:, :, None])[:, :, 0] * share).sum(dim=0)


def attempts(nodes: np.ndarray, slots: np.ndarray, count: int, grid: Sequence[Setting], seed: int) -> list[Training]:
    """A network for every setting and fold, in this order; none if no class has a second label."""
    random = np.random.default_rng([seed, len(nodes)])
    fold = np.zeros(len(nodes), dtype=np.int64)
    for c in range(count):
        own = random.permutation(np.flatnonzero(slots == c))
        fold[own] = np.arange(len(own)) % FOLDS if len(own) > 1 else -1
    if (fold < 1).all():
        return []
    parts = [(fold != part, fold == part) for part in range(FOLDS)]
    return [
        Training(nodes[learned], slots[learned], count, setting, (nodes[judge], slots[judge]), EPOCHS)
        for setting in grid
        for learned, judge in parts
    ]


class GCN(Network):
    name = "gcn"
    title = "GCN, tuned"
    grid = ((0.5, 5e-3, 0.0), (0.5, 5e-4, 0.0), (0.5, 5e-4, 1.0), (0.2, 5e-5, 1.0))


class SAGE(Network):
    name = "sage"
    title = "GraphSAGE, tuned"
    grid = ((0.5, 5e-4, 1.0), (0.5, 5e-3, 1.0), (0.8, 5e-3, 1.0), (0.2, 5e-5, 1.0))

    def operator(self, graph: Graph) -> sp.csr_array:
        return means(graph.weighted_adjacency)


class APPNP(Network):
    name = "appnp"
    title = "APPNP, tuned"
    grid = ((0.5, 5e-3, 1.0), (0.5, 5e-4, 1.0), (0.2, 5e-5, 1.0))
    STEPS, STAY = 10, 0.1

    def __init__(self, graph: Graph, seed: int, device: str = "cpu") -> None:
        super().__init__(graph, seed, device)
        self.inputs = self.inputs[:, self.width :]

    def spread(self, hidden: torch.Tensor, second: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        start = torch.einsum("nbh,hbc->nbc", hidden, second[HIDDEN:])
        found = start
        for _ in range(self.STEPS):
            around: torch.Tensor = Spread.apply(self.matrices, found)
            found = (1 - self.STAY) * around + self.STAY * start
        return found
