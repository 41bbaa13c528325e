"""A peer: a way to classify all nodes of a graph from a few labels, ours or another library's.

A user with a handful of labels has no validation set. So a peer runs with the defaults of its library or the settings
of its authors, or chooses among a few settings by labels that it leaves out; ``settings`` says which. All that read
features read them weighted alike (:func:`columns`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from naq.embedders.smoothing import narrow, weigh
from naq.errors import MissingDependency, OptionError
from naq.graph import Graph
from naq.options import Registry

WIDTH = 256  # columns of a block of features at most where they are narrowed


class Peer(ABC):
    """One file or one family per module, and a line in :data:`PEERS` for each class.

    The constructor does whatever needs no label, on a graph without labels; :meth:`classify` may be called again with
    other labels.
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
        """(n, count) probabilities of all nodes from (m,) labelled nodes and their classes; zeros: no answer."""

    def promise(self, asked: np.ndarray) -> dict[str, Any] | None:
        """Of the last answer, if the peer has both: the accuracy it expects (90 % interval) and its sets (asked,
        count)."""
        return None


PEERS: Registry[type[Peer]] = Registry(
    "a practical method",
    {
        "appnp": "naq_paper.peers.gnn:APPNP",
        "bgrl-logistic": "naq_paper.peers.linear:BGRLLogistic",
        "boosting": "naq_paper.peers.linear:Boosting",
        "cleora": "naq_paper.peers.linear:Cleora",
        "correct-and-smooth": "naq_paper.peers.propagation:CorrectAndSmooth",
        "gcn": "naq_paper.peers.gnn:TunedGCN",
        "graphany": "naq_paper.peers.linear:GraphAny",
        "hops-logistic": "naq_paper.peers.linear:HopsLogistic",
        "label-propagation": "naq_paper.peers.propagation:LabelPropagation",
        "naq-plus": "naq_paper.peers.linear:NaqClassifier",
        "pagerank": "naq_paper.peers.propagation:PageRank",
        "poisson": "naq_paper.peers.propagation:Poisson",
        "poisson-neighbors": "naq_paper.peers.propagation:PoissonNeighbors",
        "sage": "naq_paper.peers.gnn:SAGE",
        "self-training": "naq_paper.peers.linear:SelfTraining",
        "sgc": "naq_paper.peers.linear:SGC",
        "smooth-logistic": "naq_paper.peers.linear:SmoothLogistic",
        "ssgc": "naq_paper.peers.linear:SSGC",
        "sugrl-logistic": "naq_paper.peers.linear:SUGRLLogistic",
        "tfidf-logistic": "naq_paper.peers.linear:FeaturesLogistic",
    },
)


def columns(graph: Graph) -> np.ndarray:
    """(n, d) float32: blocks of features weighted by their kind, at most ``WIDTH`` wide each, at equal weight."""
    graph.require_features("this method")
    blocks = [narrow(block.kind, part, WIDTH) for block, part in graph.block_features()]
    return np.concatenate(blocks, axis=1) / np.float32(np.sqrt(len(blocks)))


def wide_columns(graph: Graph) -> sp.csr_matrix:
    """(n, d) the same blocks, not narrowed."""
    graph.require_features("this method")
    return sp.csr_matrix(sp.hstack([sp.csr_matrix(weigh(block.kind, part)) for block, part in graph.block_features()]))


def edge_index(graph: Graph) -> np.ndarray:
    """(2, 2 edges) int64, both directions."""
    ends = graph.adjacency.tocoo()
    return np.stack([ends.row, ends.col]).astype(np.int64)


def normalize_rows(scores: np.ndarray) -> np.ndarray:
    """(n, count) non-negative scores as probabilities; a row of zeros stays one."""
    if scores.min(initial=0.0) < 0:
        raise OptionError("scores below 0 are not probabilities; expected numbers of at least 0.")
    total = scores.sum(axis=1, keepdims=True)
    return np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)


def missing(library: str, error: ImportError) -> MissingDependency:
    how = 'pip install "naq[practice]"'
    return MissingDependency(f"this comparison needs {library}, which is not installed: {how}.")
