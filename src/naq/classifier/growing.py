"""A graph with more nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.errors import GraphError
from naq.graph import Graph


def with_nodes(graph: Graph, features: Any, edges: Any, *, names: Sequence[str] | None = None) -> Graph:
    """The graph and new nodes after the old ones, which keep their numbers. Labels of the new ones are unknown.

    Args:
        features: (new nodes, d) sparse or dense; None where the graph has none, and then ``names`` or ``edges`` say how many there are.
        edges: (2, edges) numbers of nodes, old or new, the new ones counting on from ``graph.num_nodes``.
        names: of the new nodes; needed where the old ones have names.

    Example:
        >>> g = Graph([[0], [1]], features=[[1, 0], [0, 1]], nodes=2)
        >>> with_nodes(g, [[1, 1]], [[2, 2], [0, 1]])
        Graph('graph', nodes=3, edges=3, features=2, classes=0)
    """
    old, pairs = graph.num_nodes, np.asarray(edges)
    pairs = pairs.astype(np.int64) if pairs.size == 0 else pairs
    pairs = pairs.reshape(2, 0) if pairs.size == 0 else pairs
    if (features is None) != (graph.features is None):
        raise GraphError("the graph and the new nodes must both have features, or neither; give one row per new node.")
    if features is not None:
        features = features if sp.issparse(features) else np.asarray(features)
        count = features.shape[0]
        if features.ndim != 2 or features.shape[1] != graph.num_features:
            raise GraphError(f"features have shape {features.shape}; expected (new nodes, {graph.num_features}).")
    else:
        count = len(names) if names is not None else int(max(pairs.max(initial=-1) + 1 - old, 0))
    if (names is None) != (graph.names is None):
        raise GraphError("the graph and the new nodes must both have names, or neither; give names= one per new node.")
    if names is not None and len(names) != count:
        raise GraphError(f"there are {len(names)} names for {count} new nodes; give one per node.")
    rows = np.repeat(np.arange(old), np.diff(graph.adjacency.indptr))
    ends = np.concatenate([np.stack([rows, graph.adjacency.indices.astype(np.int64)]), pairs], axis=1)
    labels = None if graph.labels is None else np.concatenate([graph.labels, np.full(count, -1)])
    return Graph(
        ends,
        _stacked(graph.features, features),
        labels,
        names=None if names is None or graph.names is None else [*graph.names.tolist(), *map(str, names)],
        class_names=graph.class_names,
        vocab=graph.vocab,
        name=graph.name,
        nodes=old + count,
    )


def check_grown(small: Graph, larger: Graph) -> None:
    """A ``GraphError`` unless the first nodes of the larger graph are those of the small one."""
    n = small.num_nodes
    if larger.num_nodes < n or larger.num_features != small.num_features:
        raise GraphError(
            f"the larger graph has {larger.num_nodes:,} nodes and {larger.num_features:,} features, the fitted one {n:,} and "
            f"{small.num_features:,}; make it with naq.classifier.with_nodes."
        )
    if small.names is not None and (larger.names is None or (larger.names[:n] != small.names).any()):
        raise GraphError(
            "the first nodes of the larger graph have other names; make it with naq.classifier.with_nodes."
        )
    if small.features is not None and larger.features is not None:
        apart = sp.csr_array(larger.features[:n]) - sp.csr_array(small.features)
        if apart.count_nonzero():
            raise GraphError(
                "the first nodes of the larger graph have other features; make it with naq.classifier.with_nodes."
            )


def _stacked(old: Any, new: Any) -> Any:
    if old is None:
        return None
    if isinstance(old, np.ndarray):
        return np.concatenate([old, new.toarray() if sp.issparse(new) else new])
    return sp.vstack([old, sp.csr_array(new)], format="csr")
