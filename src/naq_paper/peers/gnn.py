"""GCN (Kipf and Welling, `ICLR 2017 <https://arxiv.org/abs/1609.02907>`_) and GAT (Veličković et al., `ICLR 2018 <https://arxiv.org/abs/1710.10903>`_):
two layers of PyG, trained on the labels as in PyG's examples ``gcn.py`` and ``gat.py``, but on features as they are: with rows that add up to one, as in
these examples, both were worse on other draws of labels.

Two things are ours and change no number beside rounding. Features stay sparse, since those of ``debian`` are 2 GB dense, so the first layer's product with
its weight is made here. And while it is trained, each layer is given those edges only that lead to a labelled node in the end.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from naq.graph import Graph
from naq.nn.rows import SparseRows, sparse_product, take_rows
from naq.random import torch_seed
from naq_paper.peers import Peer, edge_index, words_of

EPOCHS, HIDDEN = 200, 64

Edges = tuple[torch.Tensor, torch.Tensor | None]
"""Ends (2, edges), from and to, and weights (edges,) where there are any."""


class TwoLayers(torch.nn.Module):
    """Dropout, the product with W, first layer, activation, dropout, second layer.

    Args:
        first: a layer of PyG whose own product is left out (``lin`` is the identity); ``weight``: (d, its inputs).
    """

    def __init__(
        self, weight: torch.Tensor, first: torch.nn.Module, second: torch.nn.Module, activation: Any, dropout: float
    ) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.nn.init.xavier_uniform_(weight))
        first.lin = torch.nn.Identity()
        self.first, self.second, self.activation, self.dropout = first, second, activation, dropout

    def forward(self, words: SparseRows, before: Edges, after: Edges) -> torch.Tensor:
        """(rows, count) scores from sparse features (rows, d), the edges of the first and those of the second layer."""
        x = self.activation(self.first(sparse_product(self._fewer(words), self.weight), *before))
        return self.second(F.dropout(x, self.dropout, self.training), *after)

    def _fewer(self, words: SparseRows) -> SparseRows:
        """Dropout of sparse features: what is not stored is zero with and without it."""
        kept = torch.from_numpy(words.data)
        return replace(words, data=F.dropout(kept, self.dropout).numpy()) if self.training else words


class TrainedGNN(Peer):
    """A network that is trained on the labels, with the last epoch's weights."""

    on_devices = True

    def __init__(self, graph: Graph, seed: int, device: str = "cpu") -> None:
        super().__init__(graph, seed)
        self.device = device
        self.words = words_of(graph).astype(np.float32)
        self.edges = self.edges_of(graph)

    def edges_of(self, graph: Graph) -> Edges:
        """With a loop at every node."""
        loops = np.tile(np.arange(graph.num_nodes), (2, 1))
        return torch.from_numpy(np.concatenate([edge_index(graph), loops], axis=1)), None

    @abstractmethod
    def network(self, count: int) -> tuple[TwoLayers, torch.optim.Optimizer]:
        """New weights and the optimiser of the example."""

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        after, near = leading_to(self.edges, nodes)
        before, field = leading_to(self.edges, near)
        place = torch.full((self.graph.num_nodes,), -1)
        place[field] = torch.arange(len(field))
        before, after = (self._there((place[ends], weights)) for ends, weights in (before, after))
        words = take_rows(self.words, field)
        labelled, y = place[nodes].to(self.device), torch.from_numpy(slots).to(self.device)
        with torch.random.fork_rng(devices=[] if self.device == "cpu" else [self.device]):
            torch.manual_seed(torch_seed(self.seed, f"peer/{self.name}"))
            model, optimizer = self.network(count)
            model.to(self.device).train()
            for _ in range(EPOCHS):
                optimizer.zero_grad()
                F.cross_entropy(model(words, before, after)[labelled], y).backward()
                optimizer.step()
        model.eval()
        with torch.no_grad():
            every, edges = take_rows(self.words, np.arange(self.graph.num_nodes)), self._there(self.edges)
            return model(every, edges, edges).softmax(dim=1).cpu().numpy()

    def _there(self, edges: Edges) -> Edges:
        """On the device."""
        ends, weights = edges
        return ends.to(self.device), None if weights is None else weights.to(self.device)


def leading_to(edges: Edges, nodes: np.ndarray) -> tuple[Edges, np.ndarray]:
    """The edges that end in one of the nodes, and all nodes that they start from, ascending."""
    (start, end), weights = edges
    wanted = torch.isin(end, torch.from_numpy(nodes))
    kept = torch.stack([start[wanted], end[wanted]])
    return (kept, None if weights is None else weights[wanted]), torch.unique(kept[0]).numpy()


class GCN(TrainedGNN):
    name = "gcn"
    title = "GCN"
    reads = "features, edges"
    settings = (
        "PyG's example: dropout 0.5, Adam, lr 0.01, weight decay 5e-4 on the first layer, 200 epochs; but 64 hidden units instead of 16 and features "
        "as they are instead of rows that add up to one, which were better on other draws of three and four graphs"
    )

    def edges_of(self, graph: Graph) -> Edges:
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        ends, weights = gcn_norm(torch.from_numpy(edge_index(graph)), num_nodes=graph.num_nodes)
        return ends, weights

    def network(self, count: int) -> tuple[TwoLayers, torch.optim.Optimizer]:
        from torch_geometric.nn import GCNConv

        first, second = GCNConv(1, HIDDEN, normalize=False), GCNConv(HIDDEN, count, normalize=False)
        model = TwoLayers(torch.empty(self.words.shape[1], HIDDEN), first, second, F.relu, 0.5)
        decayed = {"params": [model.weight, *first.parameters()], "weight_decay": 5e-4}
        return model, torch.optim.Adam([decayed, {"params": second.parameters(), "weight_decay": 0.0}], lr=0.01)


class GAT(TrainedGNN):
    name = "gat"
    title = "GAT"
    reads = "features, edges"
    settings = (
        "PyG's example: 8 heads of 8 hidden units, dropout 0.6, Adam, lr 0.005, weight decay 5e-4, 200 epochs; but features as they are, which was "
        "better on other draws of four graphs"
    )

    def network(self, count: int) -> tuple[TwoLayers, torch.optim.Optimizer]:
        from torch_geometric.nn import GATConv

        first = GATConv(1, 8, heads=8, dropout=0.6, add_self_loops=False)
        second = GATConv(HIDDEN, count, heads=1, concat=False, dropout=0.6, add_self_loops=False)
        model = TwoLayers(torch.empty(self.words.shape[1], HIDDEN), first, second, F.elu, 0.6)
        return model, torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)


EPOCHS = 100


class SGC(Peer):
    name = "sgc"
    title = "SGC"
    reads = "features, edges"
    settings = "as PyG's `SGConv` in its example: K=2, Adam, lr 0.2, weight decay 0.005, 100 epochs"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        self.words = words_of(graph)
        self.average = graph.normalized_adjacency()

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        rows = (self.average[nodes] @ self.average) @ self.words
        x, y = torch.from_numpy(rows.toarray().astype(np.float32)), torch.from_numpy(slots)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(self.seed, "peer/sgc"))
            model = torch.nn.Linear(x.shape[1], count)
        torch.nn.init.zeros_(model.bias)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.2, weight_decay=0.005)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        return self.answer(model.weight.detach().numpy(), model.bias.detach().numpy())

    def answer(self, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """(n, count) probabilities from a weight (count, d) and a bias (count,)."""
        scores = self.average @ (self.average @ (self.words @ weight.T)) + bias
        return torch.from_numpy(scores).softmax(dim=1).numpy()
