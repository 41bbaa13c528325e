r"""NaQ in closed form: no episode, no gradient, no label.

Start from the ``smooth`` vectors, take mutual nearest neighbours for members of one class, divide by their scatter and sharpen what is
left (:mod:`naq.embedders.refinement`, with the formula). The choices are fixed: they were made on base and validation classes of
five graphs (``docs/beyond.md``).

Features are cut to 256 dimensions by SVD, after

- sparse, non-negative ones, as counts of words are: TF-IDF;
- sparse ones with negative values: rows of length one. Subtracting means would fill the matrix; the vectors are centred later;
- dense ones: columns standardised; a constant column counts for nothing;
- none, or the same for every node: the structure is read instead, a node's words being its neighbours and itself (TF-IDF).

A graph with neither is a :class:`~naq.errors.GraphError`. Without edges nothing is smoothed. A node whose vector is the mean of all
has the zero vector; nodes with no words, of their own or of nodes they are joined to, all have the same one, opposite to the mean.
Vectors are no wider than there are features or, where these are more than ``dim``, nodes.

Cost: that of ``smooth``, one table of nearest neighbours, O(n d^2); 256 floats per node and a few blocks of 64 MiB.

Example:
    >>> import naq
    >>> naq.embed(naq.load("debian"), "naq-plus").shape  # doctest: +SKIP
    (34169, 256)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from naq.embedders.base import Embedder, register_embedder
from naq.embedders.refinement import NEIGHBORS, POWER, SHRINK, refined
from naq.embedders.smoothing import Matrix, centred, narrowed, on_device, smoothed, unit
from naq.errors import GraphError
from naq.graph import Graph
from naq.graph.weighting import is_counted, tfidf
from naq.options import Value


@register_embedder
class NaqPlus(Embedder):
    """Smoothing, then the neighbour discriminant.

    Options:
        dim: vectors' width at most.
        steps: of smoothing, 0.85 A_hat Z + 0.15 Z_0.
        neighbors: k of the mutual nearest neighbours that count as members of one class; all other nodes where there are fewer.
        shrink: gamma, how much of the mean scatter is added to every direction before it is divided by.
        power: p, how much directions of large variance are favoured; 1 is not at all.
    """

    name = "naq-plus"
    weighs_features = True
    summary = "NaQ in closed form: smoothing, then the scatter of mutual neighbours removed; trains nothing"
    defaults: ClassVar[Mapping[str, Value]] = {
        "dim": 256,
        "steps": 10,
        "neighbors": NEIGHBORS,
        "shrink": SHRINK,
        "power": POWER,
    }

    def check_options(self) -> None:
        self.require_at_least("dim", 1)
        self.require_at_least("steps", 0)
        self.require_at_least("neighbors", 1)
        self.require_positive("shrink", "power")

    def embed(self) -> np.ndarray:
        options = self.options
        return refined(
            self.smoothed(),
            neighbors=int(options["neighbors"]),
            shrink=float(options["shrink"]),
            power=float(options["power"]),
            seed=self.seed,
            device=self.device,
        )

    def smoothed(self) -> Matrix:
        """(n, d) the vectors before the closed form, centred; on the device."""
        words = node_words(self.graph)
        there = on_device(words, self.device)
        turned = on_device(sp.csr_array(words.T), self.device) if sp.issparse(words) and there is not words else None
        start = unit(narrowed(there, int(self.options["dim"]), self.seed, turned))
        adjacency = on_device(self.graph.normalized_adjacency(), self.device)
        return centred(smoothed(adjacency, start, int(self.options["steps"])))


def node_words(graph: Graph) -> sp.csr_array | np.ndarray:
    """(n, w) what the nodes are described by: TF-IDF, sparse rows of length one, standardised columns, or the neighbours."""
    features = graph.features
    if features is None or not _differ(features):
        return _structure(graph)
    if is_counted(graph):
        return tfidf(features)
    if not isinstance(features, np.ndarray):
        rows = sp.csr_array(features, dtype=np.float64)
        length = np.sqrt(rows.power(2).sum(axis=1))
        scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        return sp.csr_array(sp.diags_array(scale) @ rows, dtype=np.float32)
    spread = features.std(axis=0, dtype=np.float64)
    apart = features - features.mean(axis=0, dtype=np.float64)
    return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0).astype(np.float32)


def _differ(features: sp.csr_array | np.ndarray) -> bool:
    """Whether any two nodes have different features."""
    if isinstance(features, np.ndarray):
        return bool((features != features[0]).any())
    return bool((features.max(axis=0) != features.min(axis=0)).nnz)


def _structure(graph: Graph) -> sp.csr_array:
    """(n, n) TF-IDF of the neighbours of every node and itself."""
    if not graph.num_edges:
        raise GraphError(
            f"graph {graph.name!r} has no edges, and its {graph.num_nodes:,} nodes have no features that differ, so naq-plus has "
            "nothing to embed; give features or edges."
        )
    return tfidf(sp.csr_array(graph.adjacency + sp.eye_array(graph.num_nodes, format="csr", dtype=np.float32)))
