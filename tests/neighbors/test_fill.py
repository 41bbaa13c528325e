from __future__ import annotations

import numpy as np
import pytest

from graphs import islands, random_graph
from naq import Graph, diffusion_neighbors, feature_neighbors
from naq.errors import GraphError, OptionError

K = 8


@pytest.fixture(scope="module")
def bare() -> np.ndarray:
    return diffusion_neighbors(islands(), k=K).ids


def rows(ids: np.ndarray) -> list[list[int]]:
    return [[j for j in row if j >= 0] for row in ids.tolist()]


def test_none_leaves_what_is_missing(bare: np.ndarray) -> None:
    """Components of islands(): 0 5 9 2, 1 7, 10..21, and 3 4 6 8 alone."""
    sizes = np.bincount(islands().components)[islands().components]
    assert (bare >= 0).sum(axis=1).tolist() == np.minimum(sizes - 1, K).tolist()


def test_lowest_completes_with_the_lowest_ids_and_may_name_the_node_itself(bare: np.ndarray) -> None:
    table = diffusion_neighbors(islands(), k=K, fill="lowest")
    own = []
    for i, have in enumerate(rows(bare)):
        expected = have + [j for j in range(22) if j not in have][: K - len(have)]
        assert table.ids[i].tolist() == expected
        assert (table.scores[i, len(have) :] == 0).all()
        own.append(i in expected)
    assert own[3] and not own[10]


def test_random_is_seeded_distinct_and_never_the_node(bare: np.ndarray) -> None:
    one, two, other = (diffusion_neighbors(islands(), k=K, fill="random", seed=s).ids for s in (0, 0, 1))
    assert np.array_equal(one, two) and not np.array_equal(one, other)
    for i, have in enumerate(rows(bare)):
        assert one[i, : len(have)].tolist() == have
        assert len(set(one[i].tolist())) == K and i not in one[i] and (one[i] >= 0).all()


def test_random_on_a_larger_graph_is_uniform_and_each_nodes_own() -> None:
    empty = Graph([[0], [1]], nodes=400)
    ids = diffusion_neighbors(empty, k=5, fill="random").ids
    assert all(len(set(row)) == 5 for row in ids.tolist())
    assert not (ids == np.arange(400)[:, None]).any()
    assert ids[0, 0] == 1 and ids[1, 0] == 0
    counts = np.bincount(ids[2:].ravel(), minlength=400)
    assert counts.std() == pytest.approx(np.sqrt(5), rel=0.2)
    assert len(np.unique(ids[2:], axis=0)) == 398


def test_random_can_use_every_other_node() -> None:
    ids = diffusion_neighbors(Graph([[0], [1]], nodes=400), k=399, fill="random").ids
    assert np.array_equal(np.sort(ids[7]), np.delete(np.arange(400), 7))


def test_feature_completes_in_the_order_of_the_features(bare: np.ndarray) -> None:
    table = diffusion_neighbors(islands(), k=K, fill="feature")
    near = feature_neighbors(islands(), k=K).ids
    for i, have in enumerate(rows(bare)):
        more = [j for j in near[i].tolist() if j >= 0 and j not in have]
        expected = (have + more)[:K]
        assert table.ids[i].tolist() == expected + [-1] * (K - len(expected))


def test_feature_needs_features() -> None:
    with pytest.raises(GraphError, match=r"fill='feature'"):
        diffusion_neighbors(Graph(islands().adjacency), k=3, fill="feature")


def test_fills_are_checked() -> None:
    with pytest.raises(OptionError, match="fill is 'zero'; expected one of none, lowest, random, feature"):
        diffusion_neighbors(random_graph(), k=3, fill="zero")
    with pytest.raises(OptionError, match="fill is 'feature'; expected one of none, lowest, random"):
        feature_neighbors(random_graph(), k=3, fill="feature")
