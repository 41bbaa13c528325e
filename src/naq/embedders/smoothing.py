r"""What ``smooth`` and ``naq-plus`` start from: what describes a node, made narrow, averaged over the graph.

.. math::
    Z_0 = \mathrm{SVD}_d(X), \qquad Z \leftarrow 0.85\, \hat A Z + 0.15\, Z_0

:func:`node_words` describes a node by

- counts of words: TF-IDF; other sparse features: rows of length one;
- dense features: standardised columns, since units differ; columns that are principal components already (they are not
  correlated) stay as they are, since dividing them by their spread would make the last as loud as the first;
- features of several stated kinds (``Graph.blocks``): each block weighted and cut to ``WIDTH`` columns, then joined at
  equal weight;
- without features: :math:`\log(1 + n \pi_{ij})`, with :math:`\pi_{ij}` the diffusion of i's nearest nodes
  (:func:`naq.diffusion_neighbors`).

:func:`edge_agreement` says whether edges agree with that. With :math:`z_i` the centred vectors, :math:`d_i` degrees,
:math:`N_i` the neighbours of i and :math:`m = \sum_i d_i z_i / \sum_i d_i` what an end of an edge is on average:

.. math:: a = \operatorname{mean}_i \cos\Big(z_i, \sum_{j \in N_i} (z_j - m)\Big)

Edges that lead anywhere have a near 0, edges between unlike nodes a < 0 (``docs/robustness.md``).

Functions of matrices take NumPy and SciPy arrays, or tensors on a device, and answer in kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from naq.errors import GraphError
from naq.graph import Graph
from naq.graph.checks import FEW, as_dense
from naq.graph.operators import csr_tensor, is_counted, svd_basis, svd_rotation, svd_start, tfidf, unit_rows
from naq.threads import one_blas_thread

SHORTEST = 1e-12  # vectors no longer than this become zero
ROUNDING = 1e-6  # vectors of length one that lie no further apart are the same: float32 knows no better
OUTLIER = 8.0  # numbers lie within so many times their usual distance from the median; beyond it they count as this far
STAY = 0.15  # the share of a node's own start in each step of ``ppr`` smoothing
WIDTH = 384  # columns of one block of several at most
DIFFUSED = 50  # nodes that describe a node without features
UNCORRELATED = 0.5
"""Mean squared cosine of columns below which they are components, as a multiple of what independent ones have."""
OVERSAMPLE, ITERATIONS = 16, 3  # of the randomised SVD: more columns than are asked for, and power iterations
FEWEST_COLUMNS = 32  # fewer are always standardised: a few correlations may be small by chance
Matrix = Any  # dense or sparse: NumPy, SciPy or torch


def word_weights(graph: Graph, method: str) -> sp.csr_array | np.ndarray:
    """TF-IDF of features that are sparse and non-negative; others as they are."""
    features = graph.require_features(method)
    return tfidf(features) if is_counted(features) else features


def on_device(matrix: sp.csr_array | np.ndarray, device: torch.device) -> Matrix:
    """The matrix where it is computed with: itself on the CPU, a tensor on other devices."""
    if device.type == "cpu":
        return matrix
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device)
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape, device, torch.float32)


def reduce(matrix: Matrix, dim: int, seed: int, transposed: Matrix = None) -> Matrix:
    """(n, at most dim) float32: U S of a truncated SVD, or the matrix itself where it is no wider."""
    if matrix.shape[1] <= dim:
        if isinstance(matrix, torch.Tensor):
            return (matrix.to_dense() if matrix.layout != torch.strided else matrix).float()
        return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), dtype=np.float32)
    with one_blas_thread():
        return truncated_svd(matrix, min(dim, matrix.shape[0]), seed, transposed=transposed)


def smooth(adjacency: Matrix, start: Matrix, steps: int, smoothing: str = "ppr") -> Matrix:
    """``steps`` of 0.85 A_hat Z + 0.15 Z_0 (``ppr``), or A_hat applied ``steps`` times (``hops``)."""
    vectors = start
    for _ in range(steps):
        vectors = adjacency @ vectors
        if smoothing == "ppr":
            vectors = (1 - STAY) * vectors + STAY * start
    return vectors if isinstance(vectors, torch.Tensor) else np.asarray(vectors, dtype=np.float32)


def unit(vectors: Matrix, shortest: float = SHORTEST) -> Matrix:
    """Rows of length one; those no longer than ``shortest`` become zero."""
    if isinstance(vectors, np.ndarray):
        return unit_rows(vectors, shortest)
    length = vectors.double().norm(dim=1, keepdim=True)
    return torch.where(length > shortest, vectors / length.clamp(min=shortest), 0.0).to(vectors.dtype)


def center(vectors: Matrix) -> Matrix:
    """Unit rows minus the mean of all, of length one again; rows within ``ROUNDING`` of the mean become zero."""
    vectors = unit(vectors)
    if isinstance(vectors, np.ndarray):
        return unit(vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype), ROUNDING)
    return unit(vectors - vectors.double().mean(dim=0).to(vectors.dtype), ROUNDING)


def narrow(kind: str, columns: sp.csr_array | np.ndarray, width: int, seed: int = 0) -> np.ndarray:
    """(n, at most width) float32: a block of features weighted (:func:`weigh`), cut by SVD and :func:`balanced`."""
    rows = weigh(kind, columns)
    return balanced(reduce(rows, width, seed), kind == "numbers" and rows.shape[1] < FEW, kind == "vectors")


def weigh(kind: str, columns: sp.csr_array | np.ndarray) -> sp.csr_array | np.ndarray:
    """A block of features as its kind (:data:`naq.graph.KINDS`) asks for: words and categories by TF-IDF, numbers
    standardised, vectors and whatever has negative values at length one."""
    if kind == "numbers":
        return standardised(as_dense(columns))
    if kind == "vectors" or isinstance(columns, np.ndarray):
        return unit_rows(np.asarray(as_dense(columns), dtype=np.float32))
    if (columns.data >= 0).all():
        return tfidf(sp.csr_array(columns))
    return unit_sparse_rows(columns)


def unit_sparse_rows(columns: sp.csr_array) -> sp.csr_array:
    """Rows of length one; empty ones stay empty."""
    rows = sp.csr_array(columns, dtype=np.float64)
    length = np.sqrt(rows.power(2).sum(axis=1))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return sp.csr_array(sp.diags_array(scale) @ rows, dtype=np.float32)


def standardised(columns: np.ndarray) -> np.ndarray:
    """(n, d) float32: columns in units of their usual distance from the median, at most ``OUTLIER``; 0 if constant."""
    shown = in_usual_units(columns, *usual_units(columns))
    return np.asarray(shown - shown.mean(axis=0), dtype=np.float32)


def usual_units(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(d,) the medians of columns, and the usual distances from them."""
    middle = np.median(columns.astype(np.float64), axis=0)
    far = np.abs(columns - middle)
    usual = np.minimum(far, np.quantile(far, 0.99, axis=0)).mean(axis=0)
    return middle, np.where(usual > 0, usual, far.mean(axis=0))


def in_usual_units(columns: np.ndarray, middle: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """(n, d) float64: columns in units that :func:`usual_units` found, of these rows or of others."""
    apart = columns - middle
    return np.clip(np.divide(apart, usual, out=np.zeros_like(apart), where=usual > 0), -OUTLIER, OUTLIER)


def balanced(
    rows: np.ndarray, few: bool = False, gaps: bool = False, known: tuple[np.ndarray, float] | None = None
) -> np.ndarray:
    """A block of columns that weighs as much as others: centred unit rows, or of ``few`` columns centred rows with
    a mean square of one. With ``gaps``, rows of zeros stay so: such nodes are like their neighbours.

    Args:
        known: the :func:`balance` of all rows, if these are some of them.
    """
    mean, size = balance(rows, few) if known is None else known
    if not few:
        apart = unit(unit(rows) - mean, ROUNDING)
        return np.asarray(apart * rows.any(axis=1, keepdims=True) if gaps else apart)
    return np.asarray((rows - mean) / size if size > ROUNDING else 0 * rows, dtype=np.float32)


def balance(rows: np.ndarray, few: bool) -> tuple[np.ndarray, float]:
    """The mean of rows, of unit rows unless ``few``, and the root of the mean square of what is left of ``few``."""
    if not few:
        return unit(rows).mean(axis=0, dtype=np.float64).astype(rows.dtype), 1.0
    mean = rows.mean(axis=0, dtype=np.float64)
    return mean, float(np.sqrt(((rows - mean) ** 2).sum(axis=1).mean()))


def truncated_svd(matrix: Matrix, dim: int, seed: int, *, transposed: Matrix = None) -> Matrix:
    """U S of a randomised SVD (Halko, Martinsson, Tropp 2011); the random vectors belong to columns, not to rows.

    So renumbering the nodes renumbers the result. Signs are fixed by the largest entry of each right vector.

    Args:
        transposed: the transpose where it is at hand; a sparse tensor needs it.
    """
    start = svd_start(matrix.shape, dim, seed, OVERSAMPLE)
    if not isinstance(matrix, torch.Tensor):
        _, rotation, product = _svd(matrix, start, dim)
        return np.ascontiguousarray(product @ rotation, dtype=np.float32)
    turned, basis = matrix.T if transposed is None else transposed, torch.from_numpy(start).to(matrix.device)
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(turned @ (matrix @ basis)).Q
    image = matrix @ basis
    gram = (image.double().T @ image.double()).cpu().numpy()
    return image @ torch.from_numpy(svd_rotation(gram, basis.cpu().numpy(), dim)).to(image)


def truncated_axes(matrix: Matrix, dim: int, seed: int) -> np.ndarray:
    """(columns, dim) float32: the matrix of NumPy or SciPy times these is its :func:`truncated_svd`."""
    basis, rotation, _ = _svd(matrix, svd_start(matrix.shape, dim, seed, OVERSAMPLE), dim)
    return np.ascontiguousarray(basis @ rotation, dtype=np.float32)


def _svd(matrix: Matrix, start: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    basis = svd_basis(matrix, start, ITERATIONS)
    image = matrix @ basis
    return basis, svd_rotation(image.T.astype(np.float64) @ image.astype(np.float64), basis, dim), image


def node_words(graph: Graph) -> sp.csr_array | np.ndarray:
    """(n, w) what describes each node before anything is smoothed, see above."""
    features = graph.features
    if not graph.reads_text and (features is None or not _differ(features)):
        return describe_by_diffusion(graph)
    if has_kinds(graph):
        return side_by_side(graph, [reduce(weigh(b.kind, part), WIDTH, 0) for b, part in graph.block_features()])
    if is_counted(features):
        return tfidf(features)
    if not isinstance(features, np.ndarray):
        return unit_sparse_rows(features)
    if are_components(features):
        return features
    spread = features.std(axis=0, dtype=np.float64)
    apart = features - features.mean(axis=0, dtype=np.float64)
    return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0).astype(np.float32)


def has_kinds(graph: Graph) -> bool:
    """Whether kinds of features are stated that need more than one weighting; TF-IDF serves words and categories."""
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


def describe_by_diffusion(graph: Graph) -> sp.csr_array:
    """(n, n) log(1 + n pi) of the nearest nodes by diffusion; a node itself counts as much as its nearest."""
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
    vectors = center(start)
    device = vectors.device if isinstance(vectors, torch.Tensor) else torch.device("cpu")
    weights = (degrees / degrees.sum()).astype(np.float32)
    there = on_device(weights[:, None], device)
    together = unit(on_device(graph.adjacency, device) @ (vectors - (there * vectors).sum(0)))
    return float((vectors * together).sum()) / int((degrees > 0).sum())
