"""Features with rows of unit length, and features that were propagated once, as a method reads them in place of the graph's own."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from naq.encoders.operator import PROPAGATED_ENTRIES
from naq.errors import OptionError
from naq.graph import Graph

Features: TypeAlias = sp.csr_array | np.ndarray


def unit_rows(features: Features, order: int) -> Features:
    """Rows divided by their L1 (``order`` 1) or L2 (2) norm; zero rows stay zero, sparse features stay sparse."""
    n = features.shape[0]
    if isinstance(features, np.ndarray):
        powers = (np.abs(features.astype(np.float64)) ** order).sum(axis=1)
    else:
        row = np.repeat(np.arange(n), np.diff(features.indptr))
        powers = np.bincount(row, weights=np.abs(features.data.astype(np.float64)) ** order, minlength=n)
    norms = powers ** (1.0 / order)
    scale = np.divide(1.0, norms, out=np.zeros(n), where=norms > 0).astype(np.float32)
    if isinstance(features, np.ndarray):
        return features * scale[:, None]
    return sp.csr_array((features.data * scale[row], features.indices, features.indptr), shape=features.shape)


def averaging(graph: Graph, adjacency: str) -> sp.csr_array:
    """A + I, normalised symmetrically (``sym``) or by rows (``row``)."""
    matrix = graph.normalized_adjacency()
    if adjacency == "sym":
        return matrix
    degree = np.diff(matrix.indptr)
    values = np.repeat(1.0 / degree, degree).astype(np.float32)
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def propagated_once(graph: Graph, adjacency: str) -> Features:
    """A_hat X; refused where it would be too large to hold."""
    if graph.propagated_size() > PROPAGATED_ENTRIES:
        raise OptionError(
            f"ogb_inputs would propagate the features of graph {graph.name!r} into {graph.propagated_size():,} entries, more than "
            f"{PROPAGATED_ENTRIES:,}; it is meant for short dense features: leave it out."
        )
    return averaging(graph, adjacency) @ graph.require_features("ogb_inputs")
