"""The classifiers of scikit-network: PageRank and heat diffusion on the edges, nearest neighbours on the features.

Nodes that no label reaches get probability 0 of every class.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq.errors import MissingDependency
from naq.graph import Graph
from naq_paper.peers import Peer, words_of


class ScikitNetworkPeer(Peer):
    """Fits a classifier of the library, named as its class, to a matrix with one row per node."""

    library_name: str

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        try:
            from sknetwork import classification
        except ImportError as error:
            how = 'pip install "naq[practice]"'
            raise MissingDependency(f"this comparison needs scikit-network, which is not installed: {how}.") from error
        self.kind = getattr(classification, self.library_name)
        self.matrix = self.read(graph)

    def read(self, graph: Graph) -> sp.csr_matrix:
        return sp.csr_matrix(graph.adjacency)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        given = np.full(self.graph.num_nodes, -1)
        given[nodes] = slots
        return np.asarray(self.kind().fit_predict_proba(self.matrix, given), dtype=np.float64)


class PageRank(ScikitNetworkPeer):
    name = "pagerank"
    title = "PageRank classifier"
    reads = "edges"
    settings = "scikit-network: `PageRankClassifier()`"
    library_name = "PageRankClassifier"


class Diffusion(ScikitNetworkPeer):
    name = "diffusion"
    title = "Diffusion classifier"
    reads = "edges"
    settings = "scikit-network: `DiffusionClassifier()`"
    library_name = "DiffusionClassifier"


class NearestNeighbors(ScikitNetworkPeer):
    name = "nearest"
    title = "nearest neighbours"
    reads = "features"
    settings = "scikit-network: `NNClassifier()` on the features"
    library_name = "NNClassifier"

    def read(self, graph: Graph) -> sp.csr_matrix:
        return words_of(graph)
