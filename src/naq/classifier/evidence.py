r"""What speaks for a class: the labelled node that is nearest, and the words.

A word w of node i speaks for class c by :math:`x_{iw}\,(\bar x_{cw} - \bar x_w)`: its weight in the node (TF-IDF), times how much more of it the nodes of the class have
than all nodes have; the nodes of a class are those that it was predicted for.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq.graph import Graph
from naq.graph.weighting import tfidf

LARGEST_PROFILE = 1 << 27
"""Classes times words at most; beyond it no words are given."""

LEAST_TELLING = 0.2
"""Words that speak for the class by less than this share of a node's best word are not named: they are nearly everybody's."""


def nearest_labels(units: np.ndarray, predicted: np.ndarray, support: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """(n,) the labelled node of the predicted class with the highest cosine, another than the node itself where there is one."""
    nearest = np.empty(len(predicted), dtype=np.int64)
    for slot in np.unique(predicted):
        nodes, labelled = np.flatnonzero(predicted == slot), support[slots == slot]
        cosines = units[nodes] @ units[labelled].T
        if len(labelled) > 1:
            cosines[nodes[:, None] == labelled[None, :]] = -np.inf
        nearest[nodes] = labelled[cosines.argmax(axis=1)]
    return nearest


def telling_words(graph: Graph, predicted: np.ndarray, count: int, most: int = 3) -> list[list[str]]:
    """For every node at most ``most`` of its words that speak for its class, most first; none where features are no words.

    Words are the sparse features without a negative value: beside numbers and vectors, those of texts and categories.
    """
    if graph.vocab is None or not graph.sparse_features or count * graph.num_features > LARGEST_PROFILE:
        return [[] for _ in range(len(predicted))]
    columns, words = graph.kept("classifier/tfidf", lambda: _weighted_words(graph))
    vocab = graph.vocab[columns]
    member = sp.csr_array(
        (np.ones(len(predicted), np.float32), (predicted, np.arange(len(predicted)))), shape=(count, len(predicted))
    )
    sizes = np.maximum(np.bincount(predicted, minlength=count), 1)[:, None]
    profile = (member @ words).toarray() / sizes - np.asarray(words.mean(axis=0)).ravel()
    rows = np.repeat(np.arange(len(predicted)), np.diff(words.indptr))
    telling = words.data * profile[predicted[rows], words.indices]
    order = np.lexsort((words.indices, -telling, rows))
    place = np.arange(len(rows)) - words.indptr[rows]
    told: list[list[str]] = [[] for _ in range(len(predicted))]
    best = telling[order][np.minimum(words.indptr[rows], len(rows) - 1)]
    chosen = order[(place < most) & (telling[order] > LEAST_TELLING * np.maximum(best, 0))]
    for node, word in zip(rows[chosen].tolist(), vocab[words.indices[chosen]].tolist()):
        told[node].append(word)
    return told


def _weighted_words(graph: Graph) -> tuple[np.ndarray, sp.csr_array]:
    """The columns that are words, and their TF-IDF."""
    features = sp.csr_array(graph.features)
    columns = np.setdiff1d(np.arange(features.shape[1]), features.indices[features.data < 0])
    return columns, tfidf(sp.csr_array(features[:, columns]) if len(columns) < features.shape[1] else features)
