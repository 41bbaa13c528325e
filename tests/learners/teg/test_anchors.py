from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

from graphs import islands, random_graph
from methods_under_test import community_graph, relabelled
from naq import Graph
from naq.learners.node_draws import node_names
from naq.learners.teg import anchor_links, hops, structural_features, with_anchors


def by_definition(graph: Graph, links: list[np.ndarray]) -> np.ndarray:
    """Shortest paths in the dense graph with all anchors."""
    n, count = graph.num_nodes, len(links)
    dense = np.zeros((n + count, n + count))
    dense[:n, :n] = graph.adjacency.toarray()
    for anchor, nodes in enumerate(links):
        for v in nodes:
            dense[n + anchor, v] = dense[v, n + anchor] = 1
    away = shortest_path(sp.csr_array(dense), unweighted=True, directed=False)
    return 1 / (1 + away[:n, n:])


@pytest.mark.parametrize("anchors", [1, 3, 16, 64])
@pytest.mark.parametrize("graph", [random_graph(), islands(), community_graph()], ids=lambda g: g.name)
def test_features_are_those_of_the_definition(graph: Graph, anchors: int) -> None:
    names = node_names(graph)
    found = structural_features(graph, anchors, names, seed=1)
    assert found.dtype == np.float32 and found.shape == (graph.num_nodes, anchors)
    assert np.allclose(found, by_definition(graph, anchor_links(names, anchors, 1)), atol=1e-7)


def test_unreachable_nodes_have_zero_and_linked_ones_a_half() -> None:
    graph = islands()
    names = node_names(graph)
    links = anchor_links(names, 1, 0)
    found = structural_features(graph, 1, names, seed=0)[:, 0]
    assert (found[links[0]] == 0.5).all()
    away = np.setdiff1d(np.arange(22), links[0])
    assert (found[away] < 0.5).all()
    joined = np.isin(graph.components, graph.components[links[0]])
    assert not joined.all() and np.array_equal(found > 0, joined)


def test_paths_run_through_other_anchors() -> None:
    """Without edges, every path between a node and an anchor it is not linked to needs another anchor."""
    graph = Graph(np.empty((2, 0), dtype=int), np.eye(40, dtype=np.float32), nodes=40)
    found = structural_features(graph, 3, node_names(graph), seed=0)
    assert set(np.unique(found)) >= {np.float32(0.5), np.float32(0.25)}


def test_links_halve_and_are_drawn() -> None:
    names = node_names(random_graph(n=60))
    links = anchor_links(names, 16, 0)
    assert [len(nodes) for nodes in links] == [30, 15, 7, 3] + [1] * 12
    assert all(len(np.unique(nodes)) == len(nodes) for nodes in links)
    assert all(np.array_equal(a, b) for a, b in zip(links, anchor_links(names, 4, 0)))
    assert any(not np.array_equal(a, b) for a, b in zip(links, anchor_links(names, 16, 1)))
    often = np.bincount(np.concatenate([anchor_links(names, 1, seed)[0] for seed in range(400)]), minlength=60) / 400
    assert np.abs(often - 0.5).max() < 5 * 0.5 / 20


def test_renumbered_nodes_keep_their_features() -> None:
    graph = community_graph()
    new_id = np.random.default_rng(0).permutation(graph.num_nodes)
    moved = relabelled(graph, new_id)
    one, two = (structural_features(g, 16, node_names(g), seed=2) for g in (graph, moved))
    assert np.array_equal(two[new_id], one)


def test_hops_from_several_nodes_on_a_long_path() -> None:
    path = Graph(np.stack([np.arange(299), np.arange(1, 300)]), nodes=301)
    found = hops(path.adjacency, np.array([0, 150]))
    expected = np.stack([np.arange(300), np.abs(np.arange(300) - 150)], axis=1)
    assert np.array_equal(found[:300], expected) and (found[300] == -1).all()


def test_a_single_node() -> None:
    one = Graph(np.empty((2, 0), dtype=int), np.ones((1, 1)), nodes=1)
    assert (structural_features(one, 4, node_names(one), seed=0) == 0.5).all()
    assert with_anchors(random_graph().adjacency, [np.array([1, 2])]).shape == (61, 61)
