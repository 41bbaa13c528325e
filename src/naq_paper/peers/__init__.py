"""A peer: a way to classify all nodes of a graph from a few labels in every class, ours or another library's.

A user with a handful of labels has no validation set. So every peer runs with the defaults of its library or, where it has none, with the
settings of its authors' or its library's example; ``settings`` says which. Where the example picks an epoch on validation nodes, the last epoch is taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from naq.errors import OptionError
from naq.graph import Graph
from naq.plugins import Registry


class Peer(ABC):
    """One file or one family per module, and a line in :data:`PEERS` for each class.

    The constructor does whatever needs no label, on a graph without labels; :meth:`classify` may be called again with other labels.
    """

    name: ClassVar[str]  # in cells
    title: ClassVar[str]  # in tables
    reads: ClassVar[str]  # ``features``, ``edges`` or both
    settings: ClassVar[str]  # what it runs with, and whose choice that is
    on_devices: ClassVar[bool] = False  # whether the constructor also takes ``device``, ``cpu`` or ``cuda``

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph, self.seed = graph, seed

    @abstractmethod
    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        """(n, count) probabilities of every node from (m,) labelled nodes and the class of each; zeros: a node without an answer."""


PEERS: Registry[type[Peer]] = Registry(
    "a practical method",
    {
        "correct-and-smooth": "naq_paper.peers.propagation:CorrectAndSmooth",
        "diffusion": "naq_paper.peers.scikit_network:Diffusion",
        "gat": "naq_paper.peers.gnn:GAT",
        "gcn": "naq_paper.peers.gnn:GCN",
        "label-propagation": "naq_paper.peers.propagation:LabelPropagation",
        "naq-plus": "naq_paper.peers.naq_classifier:NaqPlusClassifier",
        "nearest": "naq_paper.peers.scikit_network:NearestNeighbors",
        "pagerank": "naq_paper.peers.scikit_network:PageRank",
        "sgc": "naq_paper.peers.gnn:SGC",
        "smooth": "naq_paper.peers.naq_classifier:SmoothClassifier",
        "tfidf-logistic": "naq_paper.peers.propagation:TfidfLogistic",
    },
)


def words_of(graph: Graph) -> sp.csr_matrix:
    """(n, d) the features as libraries want them, sparse."""
    return sp.csr_matrix(graph.require_features("this method"))


def edge_index(graph: Graph) -> np.ndarray:
    """(2, 2 edges) int64, both directions."""
    ends = graph.adjacency.tocoo()
    return np.stack([ends.row, ends.col]).astype(np.int64)


def normalized_rows(scores: np.ndarray) -> np.ndarray:
    """(n, count) non-negative scores as probabilities; a row of zeros stays one."""
    if scores.min(initial=0.0) < 0:
        raise OptionError("scores below 0 are no probabilities; expected numbers of at least 0.")
    total = scores.sum(axis=1, keepdims=True)
    return np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)
