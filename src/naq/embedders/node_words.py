r"""What a node is described by before anything is smoothed, and whether its edges agree with that.

- Counts of words: TF-IDF. Other sparse features: rows of length one.
- Dense features: standardised columns, since units differ; columns that are principal components already (no correlation is left
  between them) stay as they are, since dividing them by their spread would make the last component as loud as the first.
- Features of several stated kinds (``Graph.blocks``): each block weighted and cut to ``WIDTH`` columns for itself, then side by
  side at equal weight.
- No features: with :math:`\pi_{ij}` the diffusion of i's nearest nodes (:func:`naq.diffusion_neighbors`), the words are
  :math:`\log(1 + n \pi_{ij})`.

Agreement, with :math:`z_i` the centred vectors, :math:`d_i` degrees, :math:`N_i` the neighbours of i and
:math:`m = \sum_i d_i z_i / \sum_i d_i` what a node at the end of an edge is on average:

.. math:: a = \operatorname{mean}_i \cos\Big(z_i, \sum_{j \in N_i} (z_j - m)\Big)

Edges that lead anywhere have a near 0, edges between unlike nodes a < 0. ``docs/robustness.md`` has all choices measured.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from naq.embedders.smoothing import Matrix, balanced, centred, narrowed, on_device, unit, unit_sparse_rows, weigh
from naq.errors import GraphError
from naq.graph import Graph
from naq.graph.checks import FEW
from naq.graph.weighting import is_counted, tfidf

WIDTH = 384  # columns of one block of several at most
DIFFUSED = 50  # nodes that describe a node without features
UNCORRELATED = 0.5
"""Mean squared cosine of columns, as a multiple of what independent columns have by chance: below it they are components."""
FEWEST_COLUMNS = 32  # fewer are always standardised: a few correlations may be small by chance


def node_words(graph: Graph) -> sp.csr_array | np.ndarray:
    """(n, w) TF-IDF of counts, sparse rows of length one, dense columns (standardised unless they are components), or the diffusion of a graph without features."""
    features = graph.features
    if not graph.reads_text and (features is None or not _differ(features)):
        return diffused(graph)
    if has_kinds(graph):
        return side_by_side(graph, [narrowed(weigh(b.kind, part), WIDTH, 0) for b, part in graph.block_features()])
    if is_counted(graph):
        return tfidf(features)
    if not isinstance(features, np.ndarray):
        return unit_sparse_rows(features)
    if are_components(features):
        return features
    spread = features.std(axis=0, dtype=np.float64)
    apart = features - features.mean(axis=0, dtype=np.float64)
    return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0).astype(np.float32)


def has_kinds(graph: Graph) -> bool:
    """Whether kinds of features are stated that one weighting for all does not serve, as TF-IDF does words and categories."""
    stated = graph.stated_blocks is not None or graph.reads_text
    return stated and not {block.kind for block in graph.blocks} <= {"words", "categories"}


def side_by_side(graph: Graph, parts: list[np.ndarray]) -> np.ndarray:
    """(n, d) float32 the blocks of the graph, narrowed already, at equal weight."""
    few = [block.kind == "numbers" and block.stop - block.start < FEW for block in graph.blocks]
    gaps = [block.kind == "vectors" for block in graph.blocks]
    rows = [balanced(*block) for block in zip(parts, few, gaps)]
    return np.concatenate(rows, axis=1) / np.float32(np.sqrt(len(rows)))


def _differ(features: sp.csr_array | np.ndarray) -> bool:
    """Whether any two nodes have different features."""
    if isinstance(features, np.ndarray):
        return bool((features != features[0]).any())
    return bool((features.max(axis=0) != features.min(axis=0)).nnz)


def diffused(graph: Graph) -> sp.csr_array:
    """(n, n) log(1 + n pi) of the nearest nodes by diffusion and of the node itself, which counts as much as the nearest."""
    n = graph.num_nodes
    if not graph.num_edges:
        raise GraphError(
            f"graph {graph.name!r} has no edges, and its {n:,} nodes have no features that differ, so naq-plus has "
            "nothing to embed; give features or edges."
        )
    from naq.neighbors.diffusion import diffusion_neighbors  # compiled, and needed for graphs without features only

    table = diffusion_neighbors(graph, k=min(DIFFUSED, n - 1))
    there = table.ids >= 0
    near = np.log1p(n * np.where(there, table.scores, 0).astype(np.float64))
    own = np.where(there.any(axis=1), near.max(axis=1), np.log(2.0))
    rows = np.repeat(np.arange(n), there.sum(axis=1))
    values, columns = np.concatenate([near[there], own]), np.concatenate([table.ids[there], np.arange(n)])
    return sp.csr_array((values.astype(np.float32), (np.concatenate([rows, np.arange(n)]), columns)), shape=(n, n))


def are_components(features: np.ndarray) -> bool:
    """Whether the columns are as good as uncorrelated (a principal component analysis) or orthogonal (an SVD)."""
    n, d = features.shape
    if d < FEWEST_COLUMNS or n <= d:
        return False
    forms = (features, features - features.mean(axis=0, dtype=np.float64))
    return any(n * mean_squared_cosine(form.T.astype(np.float64) @ form) < UNCORRELATED for form in forms)


def mean_squared_cosine(gram: np.ndarray) -> float:
    """Over pairs of different columns with this Gram matrix; 1 / n is what independent ones have by chance."""
    length = np.sqrt(np.diag(gram))
    cosines = np.divide(gram, np.outer(length, length), out=np.zeros_like(gram), where=np.outer(length, length) > 0)
    np.fill_diagonal(cosines, 0)
    return float((cosines**2).sum() / (len(cosines) * (len(cosines) - 1)))


def edge_agreement(graph: Graph, start: Matrix) -> float:
    """How near a node's neighbours are to it, beyond what ends of edges have in common; a cosine, 0 without edges."""
    degrees = graph.degrees
    if not degrees.any():
        return 0.0
    vectors = centred(start)
    device = vectors.device if isinstance(vectors, torch.Tensor) else torch.device("cpu")
    weights = (degrees / degrees.sum()).astype(np.float32)
    there = on_device(weights[:, None], device)
    together = unit(on_device(graph.adjacency, device) @ (vectors - (there * vectors).sum(0)))
    return float((vectors * together).sum()) / int((degrees > 0).sum())
