"""Features as SUGRL's perceptron reads them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq.errors import OptionError
from naq.graph import Graph
from naq.nn.operator import PROPAGATED_ENTRIES
from naq.unit_rows import unit_rows

SHORTEST = 1e-12
"""Rows of no larger norm become zero."""


def perceptron_inputs(graph: Graph, *, ogb: bool) -> sp.csr_array | np.ndarray:
    """(n, d) rows of unit L1 norm; with ``ogb`` rows of unit L2 norm, averaged once over the node and its neighbours."""
    features = graph.require_features("sugrl")
    if not ogb:
        return unit_norm(features, 1)
    if graph.propagated_size() > PROPAGATED_ENTRIES:
        raise OptionError(
            f"option ogb of sugrl would propagate the features of graph {graph.name!r} into {graph.propagated_size():,} entries, more than "
            f"{PROPAGATED_ENTRIES:,}; it is meant for short dense features: leave it out."
        )
    return _row_average(graph) @ unit_norm(features, 2)


def unit_norm(rows: sp.csr_array | np.ndarray, order: int) -> sp.csr_array | np.ndarray:
    """Rows (n, d) divided by their L1 (``order`` 1) or L2 (2) norm, as float32; zero rows stay zero, sparse rows stay sparse."""
    if isinstance(rows, np.ndarray):
        if order == 2:
            return unit_rows(rows, SHORTEST)
        norms = np.abs(rows).sum(axis=1, dtype=np.float64, keepdims=True)
        return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > SHORTEST)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    powers = np.bincount(row, weights=np.abs(rows.data.astype(np.float64)) ** order, minlength=rows.shape[0])
    norms = powers ** (1.0 / order)
    scale = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > SHORTEST).astype(np.float32)
    return sp.csr_array((rows.data * scale[row], rows.indices, rows.indptr), shape=rows.shape)


def _row_average(graph: Graph) -> sp.csr_array:
    """A + I with rows of sum 1."""
    pattern = graph.normalized_adjacency()
    degree = np.diff(pattern.indptr)
    values = np.repeat(1.0 / degree, degree).astype(np.float32)
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
