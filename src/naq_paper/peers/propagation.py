r"""Label propagation and Correct & Smooth (Huang et al., `ICLR 2021 <https://arxiv.org/abs/2010.13993>`_), both of PyG.

With :math:`S = D^{-1/2} A D^{-1/2}` and Y the labels, one row per node and 0 where there is none, label propagation repeats
:math:`Z \leftarrow \alpha S Z + (1 - \alpha) Y`. Correct & Smooth starts from the probabilities of another classifier, here TF-IDF and logistic regression;
it propagates the errors at the labelled nodes and adds them, then propagates the sum with the labels put in.
"""

from __future__ import annotations

import numpy as np
import torch

from naq.errors import OptionError
from naq.graph import Graph
from naq_paper.peers import Peer, edge_index, normalized_rows, words_of

MOST_ROUNDS = 1000  # of L-BFGS; scikit-learn's 100 end with a warning before it has converged


class TfidfLogistic(Peer):
    name = "tfidf-logistic"
    title = "TF-IDF + logistic regression"
    reads = "features"
    settings = "scikit-learn: `TfidfTransformer(sublinear_tf=True)`, `LogisticRegression(max_iter=1000)`, else defaults"

    def __init__(self, graph: Graph, seed: int) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer

        super().__init__(graph, seed)
        words = words_of(graph)
        if words.data.min(initial=0.0) < 0:
            raise OptionError(f"graph {graph.name!r} has features below 0; TF-IDF needs counts of words.")
        self.words = TfidfTransformer(sublinear_tf=True).fit_transform(words)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(max_iter=MOST_ROUNDS, random_state=self.seed)
        return model.fit(self.words[nodes], slots).predict_proba(self.words)


LAYERS = 50
ALPHA = 0.9


class LabelPropagation(Peer):
    name = "label-propagation"
    title = "label propagation"
    reads = "edges"
    settings = (
        "PyG: `LabelPropagation(num_layers=50, alpha=0.9)`: the alpha of its example, the number of layers of its paper"
    )

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        self.edges = torch.from_numpy(edge_index(graph))

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        from torch_geometric.nn import LabelPropagation as Propagation

        given = torch.zeros(self.graph.num_nodes, count)
        given[nodes, slots] = 1.0
        return normalized_rows(Propagation(LAYERS, ALPHA)(given, self.edges).numpy())


class CorrectAndSmooth(TfidfLogistic):
    name = "correct-and-smooth"
    title = "Correct & Smooth"
    reads = "features, edges"
    settings = (
        "PyG: `CorrectAndSmooth(50, 0.8, 50, 0.8)` after TF-IDF + logistic regression: 50 layers and alpha 0.8 as in its example; "
        "the example's fixed scale of 20 was worse than the default on other draws of three graphs"
    )

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        self.edges = torch.from_numpy(edge_index(graph))
        degree = torch.from_numpy(np.asarray(graph.adjacency.sum(axis=1), dtype=np.float32).ravel())
        self.weights = (degree[self.edges[0]] * degree[self.edges[1]]).rsqrt()

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        from torch_geometric.nn import CorrectAndSmooth as Correction

        base = torch.from_numpy(super().classify(nodes, slots, count)).float()
        given, where = torch.from_numpy(slots), torch.from_numpy(nodes)
        post = Correction(LAYERS, 0.8, LAYERS, 0.8)
        return normalized_rows(post(base, given, where, self.edges, self.weights).numpy())
