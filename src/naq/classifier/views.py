r"""Views of a graph: matrices that are made without labels, each of which may tell the classes.

With :math:`X_0` the features, narrowed, and :math:`P` the adjacency divided by its row sums (no self-loops, so that a
node is never its own neighbour):

=================  =========================================================================================
``naq-plus``       the vectors of the classifier's method, and ``smooth``, what they were before the closed form
``features``       what the node itself is like: :math:`X_0`; every block of features alone if there are several
``around``         :math:`P X_0 \mid (P^2 - \mathrm{diag}\,P^2) X_0`: what its neighbours are like, and theirs
``surroundings``   :math:`X_0 \mid P X_0 \mid (P^2 - \mathrm{diag}\,P^2) X_0`: the node next to its neighbours
``directions``     :math:`X_0 \mid P_{out} X_0 \mid P_{in} X_0` if edges have a direction
``edges NAME``     of each type of edges :math:`P_r X_0`, and :math:`P_r^T X_0` if they have a direction; without
                   features its ``neighbours``
``types``          how many edges of each type the node has
``neighbours``     who the neighbours are: SVD of :math:`D^{-1/2} A D^{-1/2}`
``degrees``        how many neighbours it and its neighbours have
``everything``     all of them but ``around`` side by side, each along its principal axes
=================  =========================================================================================

Wide blocks of columns are centred unit rows, few columns keep their lengths and have a mean square of one, so that
blocks side by side have equal weight. A view that is constant, or for which there is nothing, is left out, and so are
views of types that look as if drawn by chance (:func:`drawn_by_chance`). Edge weights count in all but ``naq-plus``,
``smooth`` and ``texts``.

Cost: O(edges d + n d^2); some 1,100 floats per node in addition to the vectors, 400 above ``LARGE`` nodes. ``features``
and ``around`` are parts of ``surroundings``, and ``everything`` is made for single nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from naq.embedders.smoothing import balanced, center, narrow, smooth, standardised, truncated_svd
from naq.graph import Graph
from naq.graph.checks import FEW, both_ways, is_symmetric
from naq.graph.operators import unit_rows
from naq.random import stream
from naq.threads import one_blas_thread

WIDTH = 256  # columns of a block of features at most, and of ``neighbours``
JOINED = 128  # columns of each view inside ``everything``
STEPS = 10  # of smoothing the texts
SAMPLE = 8192  # rows from which principal axes are found
LARGE = 200_000
"""With more nodes, blocks have half of ``WIDTH`` and the view of who the neighbours are is left out: memory."""
MOST_TYPES = 8  # of edges that have a view
SHUFFLES, UNLIKELY = 20, 6.0  # of types, and standard deviations from which types are not drawn by chance
TITLES = {
    "naq-plus": "the node with its surroundings (naq-plus)",
    "smooth": "the node averaged with its surroundings (smooth)",
    "features": "the node's own features",
    "around": "what the neighbours are like",
    "surroundings": "the node next to what its neighbours are like",
    "directions": "what comes before and after it along the edges",
    "neighbours": "who the neighbours are",
    "degrees": "how many neighbours there are",
    "types": "how many edges of each type there are",
    "texts": "the text of the node and its surroundings",
    "names": "what the classes are called",
    "everything": "all of it side by side",
}
"""Of views, for people."""


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
        """The views that hold rows, with weights (d_v, k) whose products add up to this view's with ``weights``."""
        if not self.parts:
            return [(self, weights)]
        ends = np.cumsum([axes.shape[1] for _, axes in self.parts])[:-1]
        return [(view, axes @ part) for (view, axes), part in zip(self.parts, np.split(weights, ends))]


def describe(name: str) -> str:
    """A view in plain words."""
    kind = name.removeprefix("edges ")
    return TITLES.get(name, name) if kind == name else f"what edges of the type {kind!r} lead to"


def make_views(graph: Graph, vectors: Sequence[View], seed: int = 0) -> list[View]:
    """The vectors that are given, and every other view of the graph for which there is something to see.

    Args:
        vectors: the views that are there already, that of the classifier's method first.
    """
    width = WIDTH if graph.num_nodes <= LARGE else WIDTH // 2
    adjacency, found = graph.weighted_adjacency, list(vectors)
    with one_blas_thread():
        own = [(block, narrow(block.kind, part, width, seed)) for block, part in graph.block_features()]
        own, first = [(block, rows) for block, rows in own if rows.any()], None
        if own:
            first = np.concatenate([rows for _, rows in own], axis=1) / np.float32(np.sqrt(len(own)))
            beside = surroundings(adjacency, first) if adjacency.nnz else first
            found.append(View("features", beside[:, : first.shape[1]], True, False))
            if len(own) > 1:
                found += [View(f"the node's own {one.title or one.kind}", rows, True, False) for one, rows in own]
            if adjacency.nnz:
                found.append(View("surroundings", beside, True, True))
            if graph.arcs is not None and graph.directed:
                ways = [balanced(means(way) @ first) for way in (graph.arcs, sp.csr_array(graph.arcs.T))]
                found.append(View("directions", np.concatenate([first, *ways], axis=1), True, True))
        if adjacency.nnz:
            if graph.num_nodes <= LARGE:
                found.append(View("neighbours", adjacency_svd(adjacency, seed), False, True))
            found.append(View("degrees", degree_columns(adjacency), False, True))
        found += relation_views(graph, found, first, seed)
        found = [view for view in found if view.rows.any()]
        if len(found) < 2:
            return found
        everything = join(found)
        if first is not None and adjacency.nnz:
            near, few = beside[:, first.shape[1] :], first.shape[1] < FEW
            found.append(View("around", balanced(standardised(near), few) if few else near, True, True))
    return [*found, everything]


def relation_views(graph: Graph, others: Sequence[View], first: np.ndarray | None, seed: int = 0) -> list[View]:
    """``edges NAME`` of the ``MOST_TYPES`` most frequent types, and ``types``; none if types look drawn by chance.

    Args:
        others: the views so far; ``first`` (n, d) features, or None.
    """
    relations = dict(sorted(graph.relations.items(), key=lambda item: -item[1].nnz)[:MOST_TYPES])
    if not relations or drawn_by_chance(graph, list(relations.values()), others):
        return []
    found, counts = list[View](), list[np.ndarray]()
    for name, matrix in relations.items():
        ways = [matrix] if is_symmetric(matrix) else [matrix, sp.csr_array(matrix.T)]
        counts += [np.log1p(np.diff(way.indptr)) for way in ways]
        if first is not None:
            few, near = first.shape[1] < FEW, [means(way) @ first for way in ways]
            rows = [balanced(standardised(one) if few else one, few) for one in near]
            found.append(View(f"edges {name}", np.concatenate(rows, axis=1), True, True))
        elif graph.num_nodes <= LARGE:
            found.append(View(f"edges {name}", adjacency_svd(both_ways(matrix), seed), False, True))
    return [*found, View("types", balanced(standardised(np.stack(counts, axis=1)), few=True), False, True)]


def drawn_by_chance(graph: Graph, relations: Sequence[sp.csr_array], others: Sequence[View]) -> bool:
    """Whether how often edges of a node have the same type, and how alike the ends of a type are in each view, are
    within ``UNLIKELY`` standard deviations of what shuffled types have. Edges without a type are of one more.

    Cost: O(edges) for each of ``SHUFFLES``.
    """
    whole, two_ways = graph.adjacency if graph.arcs is None else graph.arcs, all(map(is_symmetric, relations))
    rest = whole - whole.multiply(sum((one != 0 for one in relations), start=sp.csr_array(whole.shape, dtype=bool)))
    parts = [sp.coo_array(sp.triu(one) if two_ways else one) for one in (*relations, rest) if one.count_nonzero()]
    kinds, count = np.repeat(np.arange(len(parts)), [part.nnz for part in parts]), len(parts)
    rows, columns = (np.concatenate([getattr(part, side) for part in parts]).astype(int) for side in ("row", "col"))
    meetings = [np.concatenate([rows, columns])] if two_ways else [rows, columns]
    degrees = [np.maximum(np.bincount(nodes, minlength=graph.num_nodes), 1).repeat(count) for nodes in meetings]
    at, random = thin_out(np.arange(len(kinds)), SAMPLE), stream(0, "classifier/types")
    alike = [np.einsum("ed,ed->e", view.rows[rows[at]], view.rows[columns[at]]) for view in others]

    def measured(kinds: np.ndarray) -> list[float]:
        tiled = [nodes * count + np.resize(kinds, len(nodes)) for nodes in meetings]
        same = [np.bincount(cells, minlength=len(degree)) for cells, degree in zip(tiled, degrees)]
        found, sizes = [], np.maximum(np.bincount(kinds[at], minlength=count), 1)
        for one in alike:
            found.append(float((np.bincount(kinds[at], one, minlength=count) ** 2 / sizes).sum()))
        return found + [float((n**2 / degree).sum()) for n, degree in zip(same, degrees)]

    shuffled = np.array([measured(random.permutation(kinds)) for _ in range(SHUFFLES)])
    middle, apart = shuffled.mean(axis=0), UNLIKELY * shuffled.std(axis=0)
    return count < 2 or bool((np.abs(measured(kinds) - middle) <= apart + 1e-9 * np.abs(middle)).all())


def join(views: Sequence[View]) -> View:
    """``everything``: the views side by side, each along the axes on which it varies most."""
    both = any(view.features for view in views), any(view.edges for view in views)
    return View(
        "everything", np.empty((len(views[0].rows), 0), np.float32), *both, [(v, principal_axes(v.rows)) for v in views]
    )


def principal_axes(rows: np.ndarray) -> np.ndarray:
    """(d, at most ``JOINED``) float32 orthonormal."""
    if rows.shape[1] <= JOINED:
        return np.eye(rows.shape[1], dtype=np.float32)
    some = thin_out(rows, SAMPLE).astype(np.float64)
    return np.asarray(np.linalg.eigh(some.T @ some)[1][:, ::-1][:, :JOINED], dtype=np.float32)


def thin_out(items: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` of them, at equal distances."""
    return items[:: -(-len(items) // most) or 1]


def centred_units(vectors: np.ndarray) -> np.ndarray:
    """(n, d) float32: rows minus the mean of all, of length one; rows within rounding of the mean become zero."""
    shifted = vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
    return unit_rows(np.asarray(shifted, dtype=np.float32), 1e-6)


def text_rows(graph: Graph) -> np.ndarray:
    """(n, d) the vectors of the nodes' texts, averaged with their surroundings; zero if nothing is known."""

    def make() -> np.ndarray:
        assert graph.text is not None
        rows = smooth(graph.normalized_adjacency(), graph.text.rows(), STEPS)
        return np.where(rows.any(axis=1, keepdims=True), centred_units(rows), np.float32(0))

    return graph.kept("classifier/texts", make)


def means(adjacency: sp.csr_array) -> sp.csr_array:
    """P: rows that add up to one, or to zero for a node without neighbours."""
    total = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    return sp.csr_array(sp.diags_array(scale) @ adjacency, dtype=np.float32)


def surroundings(adjacency: sp.csr_array, start: np.ndarray) -> np.ndarray:
    """(n, 3 d): the node, the mean of its neighbours, and of theirs without the node itself."""
    walk = means(adjacency)
    one = np.asarray(walk @ start)
    back = np.asarray(walk.multiply(walk.T).sum(axis=1), dtype=np.float32).reshape(-1, 1)
    return np.concatenate([start, balanced(one), balanced(np.asarray(walk @ one) - back * start)], axis=1)


def adjacency_svd(adjacency: sp.csr_array, seed: int = 0) -> np.ndarray:
    """(n, at most ``WIDTH``) unit rows: U S of the symmetrically normalised adjacency."""
    total = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    scale = sp.diags_array(np.divide(1.0, np.sqrt(total), out=np.zeros_like(total), where=total > 0))
    symmetric = sp.csr_array(scale @ adjacency @ scale, dtype=np.float32)
    return np.asarray(center(truncated_svd(symmetric, min(WIDTH, len(total)), seed)))


def degree_columns(adjacency: sp.csr_array) -> np.ndarray:
    """(n, 3): log of the number of neighbours, its mean over the neighbours, log of the sum of weights."""
    count = np.log1p(np.diff(adjacency.indptr))
    total = np.log1p(np.asarray(adjacency.sum(axis=1)).ravel())
    return balanced(standardised(np.stack([count, means(adjacency) @ count, total], axis=1)), few=True)
