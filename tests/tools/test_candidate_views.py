"""Views: what they hold by definition, renumbering, outliers, weights, and what is left out."""

import numpy as np
import pytest
import scipy.sparse as sp

from candidate.views import (
    OUTLIER,
    View,
    balanced,
    degree_columns,
    joined,
    make_views,
    standardised,
    surroundings,
    who,
)


def ring(n: int, chords: int = 0, weight: float = 1.0) -> sp.csr_array:
    """A ring with random chords."""
    random = np.random.default_rng(n)
    ends = np.concatenate(
        [np.stack([np.arange(n), (np.arange(n) + 1) % n]), random.integers(n, size=(2, chords))], axis=1
    )
    ends = ends[:, ends[0] != ends[1]]
    one = sp.csr_array((np.full(ends.shape[1], weight), (ends[0], ends[1])), shape=(n, n))
    return sp.csr_array(one.maximum(one.T))


def counts(n: int, width: int) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(5).poisson(0.3, (n, width)).astype(np.float32))


def test_surroundings_leave_out_the_node_itself() -> None:
    adjacency, start = ring(30, 20), np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    walk = adjacency.toarray() / adjacency.toarray().sum(axis=1, keepdims=True)
    two = walk @ walk
    np.fill_diagonal(two, 0)
    wanted = [start, balanced((walk @ start).astype(np.float32)), balanced((two @ start).astype(np.float32))]
    np.testing.assert_allclose(surroundings(adjacency, start), np.concatenate(wanted, axis=1), atol=1e-5)


def test_renumbering_nodes_renumbers_views() -> None:
    adjacency, features = ring(60, 40), counts(60, 300)
    order = np.random.default_rng(2).permutation(60)
    one = make_views(adjacency, [features])
    two = make_views(sp.csr_array(adjacency[order][:, order]), [sp.csr_array(features[order])])
    assert [view.name for view in one] == ["features", "surroundings", "neighbours", "degrees", "around", "everything"]
    for a, b in zip(one[:-1], two[:-1]):
        np.testing.assert_allclose(a.rows[order] @ a.rows[order].T, b.rows @ b.rows.T, atol=2e-3)


@pytest.mark.parametrize(
    ("features", "edges", "names"),
    [
        (True, True, {"features", "around", "surroundings", "neighbours", "degrees", "everything"}),
        (True, False, {"features"}),
        (False, True, {"neighbours", "degrees", "everything"}),
        (False, False, set()),
    ],
)
def test_views_by_what_there_is(features: bool, edges: bool, names: set[str]) -> None:
    adjacency = ring(40, 30) if edges else sp.csr_array((40, 40))
    found = make_views(adjacency, [counts(40, 50)] if features else [])
    assert {view.name for view in found} == names


def test_a_constant_view_is_left_out() -> None:
    found = make_views(ring(40), [np.ones((40, 3))])
    assert {view.name for view in found} == {"neighbours"}


def test_blocks_are_views_of_their_own_and_count_equally() -> None:
    numbers = np.random.default_rng(0).standard_normal((50, 3)) * [1, 100, 1e5]
    found = {view.name: view for view in make_views(ring(50, 30), [counts(50, 80), numbers])}
    assert {"features", "features 1", "features 2"} <= set(found)
    sizes = (found["features"].rows ** 2).sum(axis=0)
    np.testing.assert_allclose(sizes[:80].sum(), sizes[80:].sum(), rtol=1e-4)


def test_an_outlier_does_not_flatten_its_column() -> None:
    column = np.random.default_rng(0).standard_normal((200, 1))
    wild = column.copy()
    wild[7] = 1e9
    shown = standardised(wild)[:, 0]
    assert np.ptp(shown) <= 2 * OUTLIER + 1
    others = np.delete(np.arange(200), 7)
    assert np.corrcoef(shown[others], column[others, 0])[0, 1] > 0.99
    assert (standardised(np.full((5, 1), 3.0)) == 0).all()


def test_weights_of_edges_count_and_loops_do_not() -> None:
    adjacency, start = ring(20, 15), np.random.default_rng(1).standard_normal((20, 40)).astype(np.float32)
    heavy = adjacency.copy()
    heavy.data = np.random.default_rng(2).uniform(0.1, 9, len(heavy.data))
    heavy = sp.csr_array((heavy + heavy.T) / 2)
    assert np.abs(surroundings(adjacency, start) - surroundings(heavy, start)).max() > 0.05
    assert np.abs(who(adjacency) @ who(adjacency).T - who(heavy) @ who(heavy).T).max() > 0.05
    looped = sp.csr_array(adjacency + sp.eye_array(20))
    for one, two in zip(make_views(adjacency, [start]), make_views(looped, [start])):
        np.testing.assert_allclose(one.rows, two.rows, atol=1e-5)


def test_direction_is_a_view_of_its_own() -> None:
    arcs = sp.csr_array((np.ones(39), (np.arange(39), np.arange(1, 40))), shape=(40, 40))
    features = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
    found = {view.name: view for view in make_views(sp.csr_array(arcs + arcs.T), [features], directed=arcs)}
    rows = found["directions"].rows
    assert rows.shape == (40, 120)
    assert np.abs(rows[0, 80:]).max() < np.abs(rows[1, 80:]).max()  # nobody points to the first


def test_everything_is_the_views_side_by_side() -> None:
    random = np.random.default_rng(0)
    views = [View(str(d), random.standard_normal((300, d)).astype(np.float32), True, False) for d in (3, 140)]
    both = joined(views)
    weights = random.standard_normal((131, 2))
    wanted = both.at(np.arange(300)) @ weights
    found = sum(view.rows @ part for view, part in both.spread(weights))
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert both.features and not both.edges


def test_degrees_tell_hubs() -> None:
    star = sp.csr_array(([1.0] * 9, ([0] * 9, range(1, 10))), shape=(10, 10))
    columns = degree_columns(sp.csr_array(star + star.T))
    assert columns[0, 0] == columns[:, 0].max() and columns[1, 1] > columns[0, 1]
