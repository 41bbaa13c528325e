"""Features as SUGRL's perceptron reads them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq.embedders.unit_rows import unit_rows
from naq.encoders.operator import PROPAGATED_ENTRIES
from naq.errors import OptionError
from naq.graph import Graph


def perceptron_inputs(graph: Graph, *, ogb: bool) -> sp.csr_array | np.ndarray:
    """(n, d) rows of unit L1 norm; with ``ogb`` rows of unit L2 norm, averaged once over the node and its neighbours."""
    features = graph.require_features("sugrl")
    if not ogb:
        return unit_rows(features, 1)
    if graph.propagated_size() > PROPAGATED_ENTRIES:
        raise OptionError(
            f"option ogb of sugrl would propagate the features of graph {graph.name!r} into {graph.propagated_size():,} entries, more than "
            f"{PROPAGATED_ENTRIES:,}; it is meant for short dense features: leave it out."
        )
    return _row_average(graph) @ unit_rows(features, 2)


def _row_average(graph: Graph) -> sp.csr_array:
    """A + I with rows of sum 1."""
    pattern = graph.normalized_adjacency()
    degree = np.diff(pattern.indptr)
    values = np.repeat(1.0 / degree, degree).astype(np.float32)
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
