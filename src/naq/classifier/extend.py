r"""A graph with more nodes, and vectors for it without fitting again.

The larger graph's words are projected by the V of the old SVD, :math:`X V`, smoothed over its edges, centred with the
old means and mapped by the fitted :class:`~naq.embedders.closed_form.ClosedForm`. V is recovered from what the SVD
gives, :math:`X V = U S`, by least squares; features of several kinds have one for each block and one for all together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.embedders import smoothing
from naq.embedders.closed_form import NaqPlus
from naq.embedders.smoothing import ROUNDING, WIDTH, Matrix, has_kinds, node_words, reduce, unit, weigh
from naq.errors import GraphError, OptionError
from naq.graph import Graph
from naq.graph.checks import edge_matrix

MAKE = "make it with naq.classifier.with_nodes"
SOLVER_ROUNDS = 8
"""Of conjugate gradients for V: the start is then off by some thousandths of its length, 1 % in its last columns."""


@dataclass(frozen=True, eq=False)
class Extension:
    """What the vectors of a larger graph need from the fitted one.

    Attributes:
        trusted: whether the edges were trusted.
        steps: of smoothing.
        projection: V (words, d), or None if words are no wider than vectors; ``of_blocks``: the same for each block.
        start_mean, smooth_mean, sum_mean: (d,) what is subtracted from the start, from what was smoothed and, if edges
            are doubted, from their sum.
    """

    trusted: bool
    steps: int
    projection: np.ndarray | None
    of_blocks: list[np.ndarray | None]
    start_mean: np.ndarray
    smooth_mean: np.ndarray
    sum_mean: np.ndarray

    @classmethod
    def of(cls, model: NaqPlus, trusted: bool) -> Extension:
        """V and the means of the model's graph. Cost: one SVD and one smoothing."""
        graph = model.graph
        blocks = [weigh(block.kind, part) for block, part in graph.block_features()] if has_kinds(graph) else []
        of_blocks = [find_projection(words, reduce(words, WIDTH, 0)) for words in blocks]
        words = join_words(graph, blocks, of_blocks)
        if not blocks and words.shape[1] != graph.num_features:
            raise OptionError(
                f"graph {graph.name!r} has no features that differ, so nodes that come later cannot be mapped; fit the "
                "larger graph."
            )
        narrow = reduce(words, model.options.dim, model.seed)
        projection = find_projection(words, narrow)
        steps = model.options.steps
        start = unit(narrow)
        rows = unit(smoothing.smooth(graph.normalized_adjacency(), start, steps))
        start_mean, smooth_mean = _mean(start), _mean(rows)
        both = unit(unit(rows - smooth_mean, ROUNDING) + unit(start - start_mean, ROUNDING))
        return cls(trusted, steps, projection, of_blocks, start_mean, smooth_mean, _mean(both))

    def smoothed(self, larger: Graph) -> np.ndarray:
        """(n, d) float32 vectors of length one for every node of the larger graph, before the closed form."""
        blocks = [weigh(block.kind, part) for block, part in larger.block_features()] if self.of_blocks else []
        words = join_words(larger, blocks, self.of_blocks)
        start = unit(project(words, self.projection))
        rows = unit(smoothing.smooth(larger.normalized_adjacency(), start, self.steps))
        rows = unit(rows - self.smooth_mean, ROUNDING)
        if not self.trusted:
            rows = unit(unit(rows + unit(start - self.start_mean, ROUNDING)) - self.sum_mean, ROUNDING)
        return rows


def join_words(graph: Graph, blocks: list[Matrix], projections: list[np.ndarray | None]) -> Matrix:
    """The blocks of every node, projected and side by side, or :func:`node_words` of features of one kind."""
    parts = [project(words, one) for words, one in zip(blocks, projections)]
    return smoothing.side_by_side(graph, parts) if parts else node_words(graph)


def find_projection(words: Matrix, image: np.ndarray) -> np.ndarray | None:
    """V with words V = image; None if the image is the words themselves."""
    return None if words.shape[1] == image.shape[1] else least_squares(words, image)


def project(words: Matrix, projection: np.ndarray | None) -> np.ndarray:
    """(n, d) float32 words V, or the words themselves."""
    return np.asarray(reduce(words, words.shape[1], 0) if projection is None else words @ projection, dtype=np.float32)


def least_squares(words: sp.csr_array | np.ndarray, image: np.ndarray) -> np.ndarray:
    """(w, d) float32 the shortest V that minimises |words V - image|, by conjugate gradients on all columns at once."""
    turned = words.T if isinstance(words, np.ndarray) else words.T.tocsr()
    answer = np.zeros((words.shape[1], image.shape[1]), dtype=np.float32)
    residual = np.asarray(turned @ image, dtype=np.float32)
    step, size = residual.copy(), _squares(residual)
    first = size.copy()
    for _ in range(SOLVER_ROUNDS):
        curved = turned @ (words @ step)
        along = np.einsum("wd,wd->d", step, curved, dtype=np.float64)
        live = (along > 0) & (size > 1e-12 * first)
        rate = np.divide(size, along, out=np.zeros_like(size), where=live).astype(np.float32)
        answer += rate * step
        residual -= rate * curved
        new = _squares(residual)
        step = residual + np.divide(new, size, out=np.zeros_like(size), where=live).astype(np.float32) * step
        size = np.where(live, new, 0.0)
    return answer


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("wd,wd->d", rows, rows, dtype=np.float64)


def _mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.mean(axis=0, dtype=np.float64), dtype=np.float32)


def with_nodes(
    graph: Graph, features: Any, edges: Any, *, names: Sequence[str] | None = None, weights: Any = None,
    types: Any = None, directed: bool | None = None,
) -> Graph:  # fmt: skip
    """The graph and new nodes after the old ones, which keep their numbers. Labels of the new ones are unknown.

    Args:
        features: (new nodes, d) sparse or dense; None if the graph has none, and then ``names`` or ``edges`` say how
            many nodes there are.
        edges: (2, edges) numbers of nodes, the new ones counting on from ``graph.num_nodes``.
        names: of the new nodes; needed if the old ones have names.
        weights: (edges,) above 0, added to those of edges that are there already. Without them new edges weigh 1.
        types: (edges,) names of ``graph.relations``, "" for an edge of no type. Without them edges have none.
        directed: whether edges lead from the first to the second; if None, as the graph's do.

    Example:
        >>> g = Graph([[0], [1]], features=[[1, 0], [0, 1]], nodes=2)
        >>> with_nodes(g, [[1, 1]], [[2, 2], [0, 1]])
        Graph('graph', nodes=3, edges=3, features=2, classes=0)
    """
    old, pairs = graph.num_nodes, np.asarray(edges)
    pairs = np.empty((2, 0), dtype=np.int64) if pairs.size == 0 else pairs
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
    stacked = None
    if isinstance(graph.features, np.ndarray):
        stacked = np.concatenate([graph.features, features.toarray() if sp.issparse(features) else features])
    elif graph.features is not None:
        stacked = sp.vstack([graph.features, sp.csr_array(features)], format="csr")
    named = None if names is None or graph.names is None else [*graph.names.tolist(), *map(str, names)]
    same: dict[str, Any] = {
        "class_names": graph.class_names,
        "vocab": graph.vocab,
        "name": graph.name,
        "blocks": graph.stated_blocks,
    }
    larger = Graph(ends, stacked, labels, names=named, nodes=old + count, **same)
    larger = larger.with_text(None if graph.text is None else graph.text.with_more([""] * count))
    larger = larger.with_recipe(graph.recipe)
    for what, given in (("weights", weights), ("types", types)):
        if given is not None and len(given) != pairs.shape[1]:
            raise GraphError(f"there are {len(given):,} {what} for {pairs.shape[1]:,} edges; give one each.")
    directed = graph.directed if directed is None else directed
    if graph.relations or types is not None:
        kinds = np.asarray([""] * pairs.shape[1] if types is None else types, dtype=np.str_)
        relations = {}
        for kind in dict.fromkeys([*graph.relations, *filter(None, kinds.tolist())]):
            own = kinds == kind
            some = None if weights is None else np.asarray(weights)[own]
            relations[kind] = _more_edges(graph.relations.get(kind), pairs[:, own], some, old + count, directed)
        larger = larger.with_relations(relations)
    if graph.arcs is None and weights is None and not directed:
        return larger
    arcs = graph.adjacency if graph.arcs is None else graph.arcs
    return larger.with_arcs(_more_edges(arcs, pairs, weights, old + count, directed))


def _more_edges(old: sp.csr_array | None, pairs: Any, weights: Any, nodes: int, directed: bool) -> sp.csr_array:
    """(nodes, nodes) the weights of old edges and of new ones; without ``weights``, what is there stays as it is."""
    new = edge_matrix(pairs.astype(np.int64), weights, nodes, directed=directed)
    if old is None:
        return new
    wider = old.copy()
    wider.resize(nodes, nodes)
    return sp.csr_array(wider + (new if weights is not None else new - new.multiply(wider.astype(bool))))


def with_rows(graph: Graph, rows: Any, edges: Any = None) -> Graph:
    """The graph and new nodes, from a table with the columns that its nodes were imported from.

    Args:
        rows: a path, a data frame or a dictionary of columns, one row per new node. Words, values and columns that the
            graph does not know count as absent, with a warning.
        edges: a table in any of these forms, with the columns of ends, weights and types that the graph's edges have;
            or several, one for every type. They join new nodes, and new ones to those of the graph.
    """
    from naq.io.tables.new_rows import read_rows

    found, cells = read_rows(graph, rows, edges)
    larger = with_nodes(graph, **found)
    if graph.table is None:
        return larger
    larger = larger.with_table(graph.table.with_more(cells, len(found["names"])))
    if graph.text is None:
        return larger
    texts = [larger.text_of(node) for node in range(graph.num_nodes, larger.num_nodes)]
    return larger.with_text(graph.text.with_more(texts))


def check_extension(small: Graph, larger: Graph) -> None:
    """A ``GraphError`` unless the first nodes of the larger graph are those of the small one."""
    n = small.num_nodes
    if larger.num_nodes < n or larger.num_features != small.num_features:
        sizes = f"{larger.num_nodes:,} nodes and {larger.num_features:,} features"
        raise GraphError(f"the larger graph has {sizes}, the fitted one {n:,} and {small.num_features:,}; {MAKE}.")
    if small.names is not None and (larger.names is None or (larger.names[:n] != small.names).any()):
        raise GraphError(f"the first nodes of the larger graph have other names; {MAKE}.")
    if small.features is None or larger.features is None:
        return
    if (sp.csr_array(larger.features[:n]) - sp.csr_array(small.features)).count_nonzero():
        raise GraphError(f"the first nodes of the larger graph have other features; {MAKE}.")
