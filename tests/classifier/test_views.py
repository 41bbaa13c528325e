"""Views: what they hold by definition, formed densely; renumbering, outliers, weights, directions, what is left out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from naq import FewShotNodeClassifier, Graph
from naq.classifier.views import JOINED, View, adjacency_svd, degree_columns, join, make_views, surroundings
from naq.embedders.smoothing import standardised
from naq.graph.checks import FEW
from naq.graph.operators import unit_rows


def ring(n: int, chords: int = 0, weighted: bool = False) -> sp.csr_array:
    """A ring with random chords."""
    random = np.random.default_rng(n)
    around = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    ends = np.concatenate([around, random.integers(n, size=(2, chords))], axis=1)
    ends = ends[:, ends[0] != ends[1]]
    one = sp.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
    one.data = random.uniform(0.1, 9, one.nnz) if weighted else np.ones(one.nnz)
    return sp.csr_array(one.maximum(one.T))


def counts(n: int, width: int) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(5).poisson(0.3, (n, width)).astype(np.float32))


def views_of(adjacency: sp.csr_array, features: object = None, **more: object) -> dict[str, View]:
    graph = Graph(adjacency, features, nodes=adjacency.shape[0], **more)
    return {view.name: view for view in make_views(graph, [])}


def centred_rows(x: np.ndarray) -> np.ndarray:
    """Rows of length one, less the mean of all, of length one."""
    x = unit_rows(x)
    return unit_rows(x - x.mean(axis=0))


@pytest.mark.parametrize("weighted", (False, True))
def test_views_of_edges_are_those_formed_densely(weighted: bool) -> None:
    adjacency, start = ring(30, 20, weighted), np.random.default_rng(0).standard_normal((30, 20)).astype(np.float32)
    a = adjacency.toarray()
    walk = a / a.sum(axis=1, keepdims=True)
    two = walk @ walk
    np.fill_diagonal(two, 0)
    wanted = [start, centred_rows(walk @ start), centred_rows(two @ start)]
    np.testing.assert_allclose(surroundings(adjacency, start), np.concatenate(wanted, axis=1), atol=1e-5)
    scale = 1 / np.sqrt(a.sum(axis=1))
    left, size, _ = np.linalg.svd(scale[:, None] * a * scale)
    rows, found = centred_rows(left * size), adjacency_svd(adjacency)
    np.testing.assert_allclose(found @ found.T, rows @ rows.T, atol=1e-3)
    count = np.log1p((a > 0).sum(axis=1))
    columns = standardised(np.stack([count, walk @ count, np.log1p(a.sum(axis=1))], axis=1))
    size = np.sqrt((columns**2).sum(axis=1).mean())
    np.testing.assert_allclose(degree_columns(adjacency), columns / size, atol=1e-5)


def test_views_of_a_graph_are_made_of_these() -> None:
    """The weights of edges count; loops do not."""
    weighted, features = ring(40, 30, weighted=True), np.random.default_rng(1).standard_normal((40, FEW))
    plain = Graph(weighted > 0, features, nodes=40, blocks=[("vectors", FEW)])
    both = surroundings(weighted, centred_rows(features).astype(np.float32))
    wanted = {
        "surroundings": both,
        "features": both[:, :FEW],
        "around": both[:, FEW:],
        "neighbours": adjacency_svd(weighted),
    }
    wanted["degrees"] = degree_columns(weighted)
    for view in make_views(plain.with_arcs(weighted), [])[:-1]:
        np.testing.assert_allclose(view.rows, wanted.pop(view.name), atol=1e-5)
    without = {view.name: view for view in make_views(plain, [])}
    assert not wanted and np.abs(without["surroundings"].rows - both).max() > 0.05
    few = Graph(weighted > 0, features[:, :3], nodes=40)
    rows = next(view.rows for view in make_views(few, []) if view.name == "around")
    assert rows.shape == (40, 6) and (rows**2).sum() == pytest.approx(40, rel=1e-4)  # columns keep their lengths
    looped = views_of(sp.csr_array((weighted > 0) + sp.eye_array(40)) > 0, features, blocks=[("vectors", FEW)])
    for name, view in without.items():
        np.testing.assert_allclose(view.rows, looped[name].rows, atol=1e-5)


def test_renumbering_nodes_renumbers_views() -> None:
    adjacency, features = ring(60, 40), counts(60, 300)
    order = np.random.default_rng(2).permutation(60)
    one, two = views_of(adjacency, features), views_of(adjacency[order][:, order], features[order])
    assert list(one) == ["features", "surroundings", "neighbours", "degrees", "around", "everything"]
    for name in one:
        rows, again = one[name].at(np.arange(60))[order], two[name].at(np.arange(60))
        np.testing.assert_allclose(rows @ rows.T, again @ again.T, atol=2e-3)


@pytest.mark.parametrize(
    ("features", "edges", "names"),
    [
        (True, True, "around degrees everything features neighbours surroundings"), (True, False, "features"),
        (False, True, "degrees everything neighbours"), (False, False, ""),
    ],
)  # fmt: skip
def test_views_by_what_there_is(features: bool, edges: bool, names: str) -> None:
    adjacency = ring(40, 30) if edges else sp.csr_array((40, 40))
    found = views_of(adjacency, counts(40, 50) if features else None)
    assert set(views_of(ring(40), np.ones((40, 3)))) == {"neighbours"}  # constant features, all have two neighbours
    assert sorted(found) == names.split()
    for name, view in found.items():
        assert view.edges == (edges and name != "features")
        assert view.features == (features and name not in ("neighbours", "degrees"))


def test_blocks_are_views_of_their_own_and_count_equally() -> None:
    numbers = np.random.default_rng(0).standard_normal((50, 3)) * [1, 100, 1e5]
    both = sp.hstack([counts(50, 80), numbers], format="csr")
    found = views_of(ring(50, 30), both, blocks=[("words", 80), ("numbers", 3)])
    assert {"features", "the node's own words", "the node's own numbers"} <= set(found)
    sizes = (found["features"].rows ** 2).sum(axis=0)
    np.testing.assert_allclose(sizes[:80].sum(), sizes[80:].sum(), rtol=1e-4)


def test_direction_is_a_view_of_its_own() -> None:
    arcs = sp.csr_array((np.arange(1.0, 40), (np.arange(39), np.arange(1, 40))), shape=(40, 40))
    features = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    graph = Graph(arcs + arcs.T > 0, features, nodes=40, blocks=[("vectors", 30)])
    assert "directions" not in {view.name for view in make_views(graph, [])}
    found = {view.name: view.rows for view in make_views(graph.with_arcs(arcs), [])}
    first, none = found["features"], np.zeros((1, 30), np.float32)
    ways = [first, *(centred_rows(np.vstack(rows)) for rows in ((first[1:], none), (none, first[:-1])))]
    np.testing.assert_allclose(found["directions"], np.concatenate(ways, axis=1), atol=1e-5)


def test_everything_is_the_views_side_by_side() -> None:
    random = np.random.default_rng(0)
    views = [View(str(d), random.standard_normal((300, d)).astype(np.float32), True, False) for d in (3, 140)]
    both = join(views)
    rows = both.at(np.arange(300))
    assert rows.shape == (300, 3 + JOINED) and both.features and not both.edges
    kept = np.sort(np.linalg.svd(views[1].rows, compute_uv=False))[::-1][:JOINED]
    np.testing.assert_allclose((rows[:, 3:] ** 2).sum(), (kept**2).sum(), rtol=1e-4)  # nothing larger is left behind
    weights = random.standard_normal((3 + JOINED, 2))
    found = sum(view.rows @ part for view, part in both.spread(weights))
    np.testing.assert_allclose(found, rows @ weights, atol=1e-4)


def typed_graph(seed: int, chance: bool, features: bool, directed: bool = False) -> tuple[Graph, np.ndarray]:
    """A ring with chords whose edges have two types: by the class of the lower end, or drawn."""
    random, adjacency = np.random.default_rng(seed), ring(120, 240)
    classes = random.integers(2, size=120)
    pairs = sp.coo_array(sp.triu(adjacency))
    types = random.integers(2, size=pairs.nnz) if chance else classes[pairs.row]
    relations = {}
    for place, name in enumerate("ab"):
        rows, columns = pairs.row[types == place], pairs.col[types == place]
        one = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=adjacency.shape)
        relations[name] = one if directed else sp.csr_array(one + one.T)
    arcs = sp.csr_array(sum(relations.values())) if directed else None
    rows = random.standard_normal((120, FEW + 8)).astype(np.float32) if features else None
    return Graph(adjacency > 0, rows, nodes=120, arcs=arcs, relations=relations), classes


@pytest.mark.parametrize("features", (False, True))
def test_types_of_edges_tell_classes_that_nothing_else_tells(features: bool) -> None:
    graph, classes = typed_graph(0, False, features, directed=True)
    right = []
    for one in (graph, graph.with_relations(None)):
        clf = FewShotNodeClassifier().fit(one, {node: int(classes[node]) for node in range(30)})
        right.append(float((clf.predict()[30:] == classes[30:]).mean()))
    assert right[0] > 0.95 and right[1] < 0.7


@pytest.mark.parametrize("features", (False, True))
@pytest.mark.parametrize("directed", (False, True))
def test_types_that_are_drawn_have_no_views(features: bool, directed: bool) -> None:
    def names(chance: bool) -> list[str]:
        made = [make_views(typed_graph(seed, chance, features, directed)[0], []) for seed in range(5)]
        return sorted(view.name for views in made for view in views if view.name == "types" or view.name[:5] == "edges")

    assert names(chance=True) == [] and names(chance=False) == ["edges a"] * 5 + ["edges b"] * 5 + ["types"] * 5
    graph, _ = typed_graph(0, False, features, directed)
    whole = graph.adjacency if graph.arcs is None else graph.arcs
    assert "types" not in {view.name for view in make_views(graph.with_relations({"all": whole}), [])}


@pytest.mark.parametrize("directed", (False, True))
def test_views_of_types_are_those_formed_densely(directed: bool) -> None:
    graph, _ = typed_graph(1, False, True, directed)
    found = {view.name: view.rows for view in make_views(graph, [])}
    start, counts = found["features"], []
    for name, matrix in sorted(graph.relations.items(), key=lambda item: -item[1].nnz):
        ways = [matrix.toarray(), matrix.toarray().T] if directed else [matrix.toarray()]
        near = [centred_rows(way / np.maximum(way.sum(axis=1, keepdims=True), 1) @ start) for way in ways]
        np.testing.assert_allclose(found[f"edges {name}"], np.concatenate(near, axis=1), atol=1e-5)
        counts += [np.log1p((way > 0).sum(axis=1)) for way in ways]
    columns = standardised(np.stack(counts, axis=1))
    np.testing.assert_allclose(found["types"], columns / np.sqrt((columns**2).sum(axis=1).mean()), atol=1e-5)
