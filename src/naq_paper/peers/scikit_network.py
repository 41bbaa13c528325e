"""The classifiers of scikit-network on the edges: PageRank and heat diffusion.

Nodes that no label reaches get probability 0 of every class.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq.graph import Graph
from naq_paper.peers import Peer, missing


class ScikitNetworkPeer(Peer):
    """Fits a classifier of the library, named as its class."""

    reads = "edges"
    library_name: str

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        try:
            from sknetwork import classification
        except ImportError as error:
            raise missing("scikit-network", error) from error
        self.kind = getattr(classification, self.library_name)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        given = np.full(self.graph.num_nodes, -1)
        given[nodes] = slots
        return np.asarray(self.kind().fit_predict_proba(sp.csr_matrix(self.graph.adjacency), given), dtype=np.float64)


class PageRank(ScikitNetworkPeer):
    name, title = "pagerank", "PageRank classifier"
    settings = "scikit-network: `PageRankClassifier()`"
    library_name = "PageRankClassifier"


class Diffusion(ScikitNetworkPeer):
    name, title = "diffusion", "Diffusion classifier"
    settings = "scikit-network: `DiffusionClassifier()`"
    library_name = "DiffusionClassifier"
