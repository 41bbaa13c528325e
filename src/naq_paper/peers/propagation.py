r"""Label propagation and Correct & Smooth (Huang et al., `ICLR 2021 <https://arxiv.org/abs/2010.13993>`_), both of PyG,
scikit-network's PageRank classifier, and Poisson learning (Calder et al., `ICML 2020
<https://arxiv.org/abs/2006.11184>`_).

With :math:`S = D^{-1/2} A D^{-1/2}` and Y the labels, one row per node and 0 without one, label propagation
repeats
:math:`Z \leftarrow \alpha S Z + (1 - \alpha) Y`. Correct & Smooth starts from the probabilities of another classifier,
here TF-IDF and logistic regression; it propagates the errors at the labelled nodes and adds them, then propagates the
sum with the labels put in. Poisson learning solves :math:`(D - A)\, U = Y - \bar Y`, with :math:`\bar Y` the mean label
at the labelled nodes.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax

from naq.graph import Graph
from naq.neighbors import vector_neighbors
from naq_paper.peers import Peer, edge_index, missing, normalize_rows
from naq_paper.peers.linear import FeaturesLogistic, SmoothLogistic

LAYERS = 50
ALPHA = 0.9


class LabelPropagation(Peer):
    name, title, reads = "label-propagation", "label propagation", "edges"
    settings = "PyG: `LabelPropagation(num_layers=50, alpha=0.9)`: alpha of its example, number of layers of its paper"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        self.edges = torch.from_numpy(edge_index(graph))

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        from torch_geometric.nn import LabelPropagation as Propagation

        given = torch.zeros(self.graph.num_nodes, count)
        given[nodes, slots] = 1.0
        return normalize_rows(Propagation(LAYERS, ALPHA)(given, self.edges).numpy())


class PageRank(Peer):
    """Nodes that no label reaches get probability 0 of every class."""

    name, title, reads = "pagerank", "PageRank classifier", "edges"
    settings = "scikit-network: `PageRankClassifier()`"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        try:
            from sknetwork import classification
        except ImportError as error:
            raise missing("scikit-network", error) from error
        self.kind = classification.PageRankClassifier

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        given = np.full(self.graph.num_nodes, -1)
        given[nodes] = slots
        return np.asarray(self.kind().fit_predict_proba(sp.csr_matrix(self.graph.adjacency), given), dtype=np.float64)


class CorrectAndSmooth(FeaturesLogistic):
    name, title, reads = "correct-and-smooth", "Correct & Smooth", "features, edges"
    settings = (
        "PyG: `CorrectAndSmooth(50, 0.8, 50, 0.8)` after TF-IDF + logistic regression: 50 layers and alpha 0.8 as in "
        "its example; "
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
        return normalize_rows(post(base, given, where, self.edges, self.weights).numpy())


LEAST = 1e-3
"""Added to the eigenvalues of the Laplacian: in a component whose labels do not add up to zero there is no solution
without."""


class Poisson(Peer):
    name, title, reads = "poisson", "Poisson learning", "edges"
    settings = "conjugate gradients to 1e-3, as in `graphlearning`, on the edges"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        weights = sp.csr_matrix(self.weights(graph), dtype=np.float64)
        degree = np.asarray(weights.sum(axis=1)).ravel()
        self.scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
        self.laplacian = (1 + LEAST) * sp.eye(len(degree)) - sp.diags(self.scale) @ weights @ sp.diags(self.scale)

    def weights(self, graph: Graph) -> sp.csr_array:
        """(n, n) symmetric."""
        return graph.weighted_adjacency

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        given = np.eye(count)[slots]
        source = np.zeros((len(self.scale), count))
        source[nodes] = given - given.mean(axis=0)
        source *= self.scale[:, None]
        scores = self.scale[:, None] * solve_system(self.laplacian, source)
        return np.asarray(softmax(scores / max(float(np.abs(scores).max()), 1e-12), axis=-1))


class PoissonNeighbors(Poisson):
    name, title, reads = "poisson-neighbors", "Poisson learning on nearest neighbours", "features, edges"
    settings = (
        "the same on the 10 nearest neighbours by smoothed features, weighted by `exp(-4 d^2 / d_10^2)` as in "
        "`graphlearning`"
    )

    def weights(self, graph: Graph) -> sp.csr_array:
        rows = SmoothLogistic(graph, self.seed).columns
        ids = vector_neighbors(rows, 10, seed=self.seed).ids
        start, place = np.nonzero(ids >= 0)
        end = ids[start, place]
        apart = ((rows[start] - rows[end]) ** 2).sum(axis=1).astype(np.float64)
        far = np.zeros(graph.num_nodes)
        np.maximum.at(far, start, apart)
        found = np.exp(-4 * apart / np.maximum(far[start], 1e-12))
        one_way = sp.csr_array((found, (start, end)), shape=graph.adjacency.shape)
        return one_way.maximum(one_way.T)


def solve_system(matrix: sp.csr_array, right: np.ndarray, tolerance: float = 1e-3, most: int = 1000) -> np.ndarray:
    """(n, count) solutions of a symmetric positive definite system by conjugate gradients, all columns at once."""
    found, rest = np.zeros_like(right), right.copy()
    step, size = rest.copy(), (rest**2).sum(axis=0)
    enough = tolerance**2 * size
    for _ in range(most):
        if (size <= enough).all():
            break
        image = matrix @ step
        length = size / np.maximum((step * image).sum(axis=0), 1e-300)
        found += length * step
        rest -= length * image
        before, size = size, (rest**2).sum(axis=0)
        step = rest + size / np.maximum(before, 1e-300) * step
    return found
