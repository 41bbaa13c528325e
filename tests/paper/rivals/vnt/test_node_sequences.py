"""Contexts, roles and hops against dense and exhaustive ones."""

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

import methods_under_test as suite
import naq
from graphs import islands, random_graph
from naq.errors import OptionError
from naq_paper.rivals.vnt.node_sequences import FAR, hop_codes, role_ids, sequences, wl_colors


def dense_intimacy(graph: naq.Graph) -> np.ndarray:
    a = graph.adjacency.toarray().astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(a.sum(axis=1), 1))
    return 0.15 * np.linalg.inv(np.eye(len(a)) - 0.85 * scale[:, None] * a * scale)


def spelled_colors(graph: naq.Graph, iterations: int) -> list[object]:
    """Weisfeiler-Lehman with nested tuples for colours: nothing is hashed."""
    neighbors = [graph.adjacency[[v]].indices for v in range(graph.num_nodes)]
    colors: list[object] = [0] * graph.num_nodes
    for _ in range(iterations):
        colors = [
            (colors[v], tuple(sorted(map(repr, (colors[u] for u in around))))) for v, around in enumerate(neighbors)
        ]
    return colors


def test_context_is_the_top_of_the_dense_inverse():
    graph = random_graph(60, 130, seed=1)
    found = sequences(graph, 7)
    s = dense_intimacy(graph)
    np.fill_diagonal(s, -1)
    assert np.array_equal(found.nodes[:, 0], np.arange(60)) and found.length == 8
    for v in range(60):
        others = s[v] > 1e-12
        size = min(7, int(others.sum()))
        ids = found.nodes[v, 1:]
        assert (ids[:size] >= 0).all() and (ids[size:] == -1).all() and len(set(ids[:size])) == size
        # The k largest, best first; equal ones may only differ in which of them stands where.
        assert np.allclose(s[v, ids[:size]], np.sort(s[v][others])[::-1][:size], rtol=1e-6)


def test_a_short_component_leaves_places_empty():
    found = sequences(islands(), 3)
    assert found.nodes[1].tolist() == [1, 7, -1, -1] and found.hops[1].tolist() == [0, 1, FAR, FAR]


def test_progress_is_told_in_nodes():
    seen: list[tuple[int, int]] = []
    sequences(random_graph(80, 110, seed=4), 5, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (80, 80)


def test_hops_are_shortest_paths():
    for graph in (random_graph(80, 110, seed=4), islands()):
        n = graph.num_nodes
        wanted = shortest_path(graph.adjacency, unweighted=True)
        nodes = np.array([[v, *(u for u in range(n) if u != v)] for v in range(n)])
        found = hop_codes(graph.adjacency, nodes)
        expected = np.take_along_axis(wanted, nodes, axis=1)
        assert (expected[np.isfinite(expected)] > 6).any(), "the graph must have pairs that are too far"
        assert np.array_equal(found, np.where(expected <= 6, expected, FAR))


def test_hops_do_not_depend_on_the_number_of_threads(threads):
    graph = random_graph(80, 110, seed=4)
    nodes = sequences(graph, 5).nodes
    threads(1)
    one = hop_codes(graph.adjacency, nodes)
    threads(2)
    assert np.array_equal(one, hop_codes(graph.adjacency, nodes))


@pytest.mark.parametrize("iterations", [1, 2])
def test_colours_separate_what_weisfeiler_lehman_separates(iterations):
    graph = random_graph(120, 160, seed=2)
    found, wanted = wl_colors(graph.adjacency, iterations), spelled_colors(graph, iterations)
    pairs = set(zip(found.tolist(), wanted))
    assert len(pairs) == len(set(found.tolist())) == len(set(wanted)) > 3
    if iterations == 1:
        assert len(set(wanted)) == len(np.unique(graph.degrees)), "the colours of the first iteration are degrees"


def test_the_most_frequent_colours_have_rows_of_their_own():
    colors = np.array([50, 50, 50, 7, 7, 9, 9, 3, 4], dtype=np.uint64)
    assert role_ids(colors, 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert role_ids(colors, 100).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 4]
    assert role_ids(colors, 1).tolist() == [0] * 9


def test_renumbered_nodes_have_the_same_sequences():
    graph = suite.community_graph()
    new_id = np.random.default_rng(5).permutation(graph.num_nodes)
    plain, moved = sequences(graph, 7), sequences(suite.relabelled(graph, new_id), 7)
    assert np.array_equal(plain.roles, moved.roles[new_id]) and len(np.unique(plain.roles)) > 10
    assert np.array_equal(plain.hops, moved.hops[new_id])
    assert np.array_equal(np.where(plain.nodes >= 0, new_id[plain.nodes], -1), moved.nodes[new_id])


def test_a_graph_without_room_for_the_context():
    graph = naq.Graph(np.array([[0, 1], [1, 2]]), nodes=7, name="tiny")
    assert sequences(graph, 6).nodes.shape == (7, 7)
    with pytest.raises(OptionError, match="context is 7, but graph 'tiny' has 7 nodes"):
        sequences(graph, 7)
