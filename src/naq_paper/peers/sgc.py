r"""SGC (Wu et al., `ICML 2019 <https://arxiv.org/abs/1902.07153>`_): a linear model on features that were averaged twice over the graph.

.. math:: Z = \mathrm{softmax}\big(S^2 X W + b\big), \qquad S = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}

Training needs the rows of :math:`S^2 X` of the labelled nodes only, and an answer is :math:`S (S (X W)) + b`: the whole of :math:`S^2 X`, nearly dense on
graphs with hubs, is never made. The numbers are those of PyG's ``SGConv``.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from naq.graph import Graph
from naq.random import torch_seed
from naq_paper.peers.base import Peer, words_of

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
