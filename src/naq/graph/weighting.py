"""Other weights for the features of a graph: what a method reads instead of the raw values."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq.errors import OptionError
from naq.graph import checks
from naq.graph.graph import Graph

WEIGHTINGS = {
    "raw": "as they are, as in the paper",
    "binary": "1 where a feature is present",
    "tfidf": "words weighted by rarity, rows of equal length",
}


def tfidf(features: sp.csr_array, idf: np.ndarray | None = None) -> sp.csr_array:
    """(1 + log count) times smoothed inverse document frequency, rows of unit length; ``idf`` where these are some rows of many."""
    n = features.shape[0]
    if idf is None:
        idf = idf_of(np.bincount(features.indices, minlength=features.shape[1]), n)
    counts = np.maximum(features.data.astype(np.float64), np.finfo(np.float32).tiny)
    values = np.where(counts > 1.0, 1.0 + np.log(np.maximum(counts, 1.0)), counts) * idf[features.indices]
    rows = np.repeat(np.arange(n), np.diff(features.indptr))
    norms = np.sqrt(np.bincount(rows, weights=values**2, minlength=n))
    values /= norms[rows]
    return sp.csr_array((values.astype(np.float32), features.indices, features.indptr), shape=features.shape)


def idf_of(frequency: np.ndarray, n: int) -> np.ndarray:
    """Smoothed inverse document frequency of words that ``frequency`` of ``n`` nodes have."""
    return np.log((1 + n) / (1 + frequency)) + 1.0


def is_counted(graph: Graph) -> bool:
    """Whether the features are sparse and non-negative, as counts of words are."""
    return checks.is_counted(graph.features)


def check_weighting(weighting: str) -> str:
    """The name, once it is known to be ``auto`` or a weighting."""
    if weighting != "auto" and weighting not in WEIGHTINGS:
        raise OptionError(f"features is {weighting!r}; expected auto or one of {', '.join(WEIGHTINGS)}.")
    return weighting


def resolve(graph: Graph, weighting: str) -> str:
    """``auto`` is ``tfidf`` for sparse, non-negative features and ``raw`` for all others; any other name is itself."""
    if check_weighting(weighting) == "auto":
        return "tfidf" if is_counted(graph) else "raw"
    return weighting


def weighted(graph: Graph, weighting: str) -> Graph:
    """The same graph with its features weighted anew; labels and names stay.

    ``tfidf`` rows all have the length :math:`\\sqrt m`, with m the mean number of non-zeros of a row: the scale of
    binary features, so that learning rates keep their meaning. It needs sparse, non-negative features.
    ``auto`` chooses as :func:`resolve` says. The graph keeps the result, so that a second call costs nothing.
    """
    weighting = resolve(graph, weighting)
    return graph if weighting == "raw" else graph.kept(f"weighted/{weighting}", lambda: _weighted(graph, weighting))


def _weighted(graph: Graph, weighting: str) -> Graph:
    features = graph.require_features(f"features={weighting!r}")
    if weighting == "binary":
        return graph.with_features((features != 0).astype(np.float32))
    if isinstance(features, np.ndarray) or not is_counted(graph):
        raise OptionError(f"features='tfidf' needs sparse, non-negative features; use 'raw' for graph {graph.name!r}.")
    return graph.with_features(tfidf(features) * np.float32(np.sqrt(features.nnz / features.shape[0])))
