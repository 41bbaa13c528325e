r"""Views of a graph: matrices that are made without labels, each of which may tell the classes.

With :math:`X_0` the features, narrowed, and :math:`P` the adjacency divided by its row sums (no self-loops, so that
a node is never its own neighbour):

=================  =========================================================================================
``features``       what the node itself is like: :math:`X_0`; every block of features alone where there are several
``around``         :math:`P X_0 \mid (P^2 - \mathrm{diag}\,P^2) X_0`: what its neighbours are like, and theirs
``surroundings``   :math:`X_0 \mid P X_0 \mid (P^2 - \mathrm{diag}\,P^2) X_0`: it and its neighbours, side by side
``directions``     :math:`X_0 \mid P_{out} X_0 \mid P_{in} X_0` where edges have a direction
``neighbours``     who the neighbours are: SVD of :math:`D^{-1/2} A D^{-1/2}`
``degrees``        how many neighbours it and its neighbours have
``naq-plus`` etc.  vectors that are given
``everything``     all of them side by side, each along its principal axes
=================  =========================================================================================

Wide blocks of columns are centred unit rows, few columns keep their lengths and have a mean square of one, so that
blocks side by side have equal weight. A view that is constant, or for which there is nothing, is left out. Edge
weights count.

Cost: O(edges d + n d^2); some 1,100 floats per node beside the vectors that are given. ``features`` and ``around``
are parts of ``surroundings``, and ``everything`` is made for single nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from naq.embedders.smoothing import truncated_svd
from naq.graph.weighting import tfidf
from naq.unit_rows import unit_rows

WIDTH = 256
"""Columns of a block of features at most, and of ``neighbours``."""
JOINED = 128
"""Columns of each view inside ``everything``."""
FEW = 32
"""So few columns keep their lengths: they are numbers, and their size says something."""
OUTLIER = 8.0
"""Numbers lie within so many times their usual distance from the median; beyond it they count as this far."""
SAMPLE = 8192
"""Rows from which principal axes are found."""

Matrix: TypeAlias = Any
"""A NumPy array or a SciPy sparse array."""


@dataclass(frozen=True, eq=False)
class View:
    """One way to see the nodes.

    Attributes:
        rows: (n, d) float32, centred; empty for a view that joins others.
        features, edges: whether it was made from them.
        parts: the views that are joined, and (d_v, at most ``JOINED``) the axes of each.
    """

    name: str
    rows: np.ndarray
    features: bool
    edges: bool
    parts: list[tuple[View, np.ndarray]] = field(default_factory=list)

    def at(self, nodes: np.ndarray) -> np.ndarray:
        """(nodes, d) float32: some rows."""
        if not self.parts:
            return self.rows[nodes]
        return np.concatenate([view.rows[nodes] @ axes for view, axes in self.parts], axis=1)

    def spread(self, weights: np.ndarray) -> list[tuple[View, np.ndarray]]:
        """The views that hold rows, with weights (d_v, k) such that their products add up to that of this view with
        ``weights`` (d, k).
        """
        if not self.parts:
            return [(self, weights)]
        ends = np.cumsum([axes.shape[1] for _, axes in self.parts])[:-1]
        return [(view, axes @ part) for (view, axes), part in zip(self.parts, np.split(weights, ends))]


def make_views(
    adjacency: sp.csr_array,
    blocks: Sequence[Matrix] = (),
    *,
    vectors: Sequence[View] = (),
    directed: sp.csr_array | None = None,
    seed: int = 0,
) -> list[View]:
    """The views for which there is something to see.

    Args:
        adjacency: (n, n) symmetric, weights of at least 0; self-loops are not read.
        blocks: of features, (n, d) each: counts, numbers, given vectors.
        vectors: views that are there already, as ``naq-plus`` and ``smooth``.
        directed: (n, n) the edges with their direction, where they have one.
    """
    adjacency = without_loops(adjacency)
    own = [start for start in (narrow(block, seed) for block in blocks) if start.any()]
    found: list[View] = []
    if own:
        start = np.concatenate(own, axis=1) / np.float32(np.sqrt(len(own)))
        around = surroundings(adjacency, start) if adjacency.nnz else start
        found.append(View("features", around[:, : start.shape[1]], True, False))
        if len(own) > 1:
            found += [View(f"features {k + 1}", one, True, False) for k, one in enumerate(own)]
        if adjacency.nnz:
            found.append(View("surroundings", around, True, True))
        if directed is not None and directed.nnz:
            ways = [balanced(np.asarray(means(sp.csr_array(one)) @ start)) for one in (directed, directed.T)]
            found.append(View("directions", np.concatenate([start, *ways], axis=1), True, True))
    if adjacency.nnz:
        found.append(View("neighbours", who(adjacency, seed), False, True))
        found.append(View("degrees", degree_columns(adjacency), False, True))
    found = [*vectors, *(view for view in found if view.rows.any())]
    if len(found) < 2:
        return found
    everything = joined(found)
    if own and adjacency.nnz:
        near = around[:, start.shape[1] :]
        few = start.shape[1] <= FEW
        found.append(View("around", balanced(standardised(near.astype(np.float64)), few) if few else near, True, True))
    return [*found, everything]


def joined(views: Sequence[View]) -> View:
    """``everything``: the views side by side, each along the axes on which it varies most."""
    parts = [(view, principal_axes(view.rows)) for view in views]
    both = any(view.features for view in views), any(view.edges for view in views)
    return View("everything", np.empty((len(views[0].rows), 0), np.float32), *both, parts)


def principal_axes(rows: np.ndarray) -> np.ndarray:
    """(d, at most ``JOINED``) float32 orthonormal."""
    if rows.shape[1] <= JOINED:
        return np.eye(rows.shape[1], dtype=np.float32)
    some = rows[:: -(-len(rows) // SAMPLE)].astype(np.float64)
    return np.asarray(np.linalg.eigh(some.T @ some)[1][:, ::-1][:, :JOINED], dtype=np.float32)


def narrow(block: Matrix, seed: int = 0) -> np.ndarray:
    """(n, at most ``WIDTH``) float32: counts as TF-IDF, a few numbers standardised, other rows at length one; then
    :func:`balanced`.
    """
    if sp.issparse(block) and (block.data >= 0).all():
        rows: Matrix = tfidf(sp.csr_array(block))
    elif block.shape[1] <= FEW:
        rows = standardised(np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64))
    elif sp.issparse(block):
        length = np.sqrt(np.asarray(block.multiply(block).sum(axis=1)).ravel())
        rows = sp.csr_array(sp.diags_array(1 / np.where(length > 0, length, 1)) @ block)
    else:
        rows = unit_rows(np.asarray(block, dtype=np.float32))
    if rows.shape[1] > WIDTH:
        rows = truncated_svd(rows, min(WIDTH, rows.shape[0]), seed)
    return balanced(np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float32))


def standardised(columns: np.ndarray) -> np.ndarray:
    """(n, d) float32: columns in units of their usual distance from the median, none beyond ``OUTLIER``; a constant
    one is 0.
    """
    apart = columns - np.median(columns, axis=0)
    far = np.abs(apart)
    usual = np.minimum(far, np.quantile(far, 0.99, axis=0)).mean(axis=0)
    usual = np.where(usual > 0, usual, far.mean(axis=0))
    shown = np.clip(np.divide(apart, usual, out=np.zeros_like(apart), where=usual > 0), -OUTLIER, OUTLIER)
    return np.asarray(shown - shown.mean(axis=0), dtype=np.float32)


def balanced(rows: np.ndarray, few: bool | None = None) -> np.ndarray:
    """A block of columns that weighs as much as others: centred unit rows; ``few`` columns are centred, their rows
    have a mean square of one.
    """
    if not (rows.shape[1] <= FEW if few is None else few):
        return centred(rows)
    apart = rows - rows.mean(axis=0, dtype=np.float64)
    size = np.sqrt((apart**2).sum(axis=1).mean())
    return np.asarray(apart / size if size > 1e-6 else 0 * apart, dtype=np.float32)


def centred(rows: np.ndarray) -> np.ndarray:
    """Unit rows minus the mean of all, as unit rows; rows within rounding of the mean become zero."""
    rows = unit_rows(np.asarray(rows, dtype=np.float32), 1e-12)
    return unit_rows(rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32), 1e-6)


def means(adjacency: sp.csr_array) -> sp.csr_array:
    """P: rows that add up to one, or to zero for a node without neighbours."""
    total = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    return sp.csr_array(sp.diags_array(scale) @ adjacency, dtype=np.float32)


def without_loops(adjacency: sp.csr_array) -> sp.csr_array:
    """The adjacency with nothing on its diagonal."""
    loops = adjacency.diagonal()
    if not loops.any():
        return adjacency
    bare = sp.csr_array(adjacency - sp.diags_array(loops))
    bare.eliminate_zeros()
    return bare


def surroundings(adjacency: sp.csr_array, start: np.ndarray) -> np.ndarray:
    """(n, 3 d): the node, the mean of its neighbours, and of theirs without the node itself."""
    walk = means(adjacency)
    one = np.asarray(walk @ start)
    back = np.asarray(walk.multiply(walk.T).sum(axis=1), dtype=np.float32).reshape(-1, 1)
    return np.concatenate([start, balanced(one), balanced(np.asarray(walk @ one) - back * start)], axis=1)


def who(adjacency: sp.csr_array, seed: int = 0) -> np.ndarray:
    """(n, at most ``WIDTH``) unit rows: U S of the symmetrically normalised adjacency."""
    total = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    scale = sp.diags_array(np.divide(1.0, np.sqrt(total), out=np.zeros_like(total), where=total > 0))
    return centred(
        truncated_svd(sp.csr_array(scale @ adjacency @ scale, dtype=np.float32), min(WIDTH, len(total)), seed)
    )


def degree_columns(adjacency: sp.csr_array) -> np.ndarray:
    """(n, 3): log of the number of neighbours, its mean over the neighbours, log of the sum of weights."""
    count = np.log1p(np.diff(adjacency.indptr))
    total = np.log1p(np.asarray(adjacency.sum(axis=1)).ravel())
    return balanced(standardised(np.stack([count, means(adjacency) @ count, total], axis=1).astype(np.float64)))
