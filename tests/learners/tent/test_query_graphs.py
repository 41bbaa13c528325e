from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphs import islands, random_graph
from naq import Graph
from naq.errors import OptionError
from naq.learners.node_draws import node_codes
from naq.learners.tent.query_graphs import LocalGraph, QueryGraphs, query_graphs
from naq.nn import AugmentedOperator, GraphOperator
from naq.nn.rows import SparseRows


def dense(rows: SparseRows) -> np.ndarray:
    return sp.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape).toarray()


def members(graphs: QueryGraphs, q: int) -> np.ndarray:
    """Nodes of one query graph: a row begins with its own node."""
    start, stop = graphs.pool.indptr[q : q + 2]
    return graphs.nodes[graphs.rows.indices[graphs.rows.indptr[start:stop]]]


def ball(adjacency: np.ndarray, query: int) -> set[int]:
    near = {query} | set(np.flatnonzero(adjacency[query]).tolist())
    return near | {int(v) for u in near for v in np.flatnonzero(adjacency[u])}


def check(graphs: QueryGraphs, adjacency: np.ndarray, queries: np.ndarray, nodes_of: list[np.ndarray]) -> None:
    """Compare with slices of the dense A_r."""
    n = len(adjacency)
    looped = adjacency + np.eye(n)
    row_normal = looped / looped.sum(axis=1, keepdims=True)
    rows, pool = dense(graphs.rows), dense(graphs.pool)
    assert len(pool) == len(queries) and np.array_equal(np.diff(graphs.pool.indptr), [len(s) for s in nodes_of])
    assert len(np.unique(graphs.nodes)) == len(graphs.nodes)
    start = 0
    for q, s in enumerate(nodes_of):
        assert s[0] == queries[q]
        local = np.zeros((len(s), n))
        local[:, s] = row_normal[np.ix_(s, s)]
        assert np.allclose(rows[start : start + len(s)], local[:, graphs.nodes], atol=1e-6)
        expected = np.zeros(len(rows))
        expected[start : start + len(s)] = row_normal[np.ix_(s, s)].sum(axis=0) / len(s)
        assert np.allclose(pool[q], expected, atol=1e-6)
        start += len(s)


@pytest.mark.parametrize(
    "graph", [random_graph(), random_graph(edges=40, seed=2), islands()], ids=["random", "thin", "islands"]
)
def test_a_batch_is_the_slices_of_the_dense_matrix(graph: Graph) -> None:
    adjacency = graph.adjacency.toarray()
    queries = np.append(np.arange(graph.num_nodes), [3, 3, 0]).astype(np.int32)
    graphs = query_graphs(LocalGraph.whole(graph), queries)
    sets = [members(graphs, q) for q in range(len(queries))]
    assert all(set(s.tolist()) == ball(adjacency, int(query)) for s, query in zip(sets, queries))
    check(graphs, adjacency, queries, sets)


def test_an_isolated_query_is_a_graph_of_one_node() -> None:
    graphs = query_graphs(LocalGraph.whole(islands()), np.array([3]))
    assert graphs.nodes.tolist() == [3] and np.diff(graphs.pool.indptr).tolist() == [1]
    assert dense(graphs.rows).tolist() == [[1.0]] and dense(graphs.pool).tolist() == [[1.0]]


def test_no_queries_are_an_empty_batch() -> None:
    for graph in (LocalGraph.whole(islands()), LocalGraph.around(thinned(islands()), np.zeros(0, dtype=np.int32))):
        graphs = query_graphs(graph, np.zeros(0, dtype=np.int32))
        assert len(graphs.nodes) == 0 and graphs.rows.shape == (0, 0) and graphs.pool.shape == (0, 0)


@pytest.mark.parametrize("limit", [1, 2, 5, 12])
def test_a_limit_draws_nodes_and_keeps_the_query(limit: int) -> None:
    graph = random_graph(edges=150)
    adjacency, whole, codes = graph.adjacency.toarray(), LocalGraph.whole(graph), node_codes(graph)
    queries = np.arange(graph.num_nodes)
    graphs = query_graphs(whole, queries, limit=limit, codes=codes)
    sets = [members(graphs, q) for q in queries]
    for q, s in enumerate(sets):
        full = ball(adjacency, q)
        assert len(set(s.tolist())) == len(s) == min(limit, len(full)) and set(s.tolist()) <= full
    check(graphs, adjacency, queries, sets)
    alone = query_graphs(whole, queries[7:8], limit=limit, codes=codes)
    assert members(alone, 0).tolist() == sets[7].tolist()


def test_a_draw_follows_the_seed_and_is_even() -> None:
    star = Graph(
        np.stack([np.zeros(40, dtype=int), np.arange(1, 41)]), np.random.default_rng(0).random((41, 6)), nodes=41
    )
    whole, codes = LocalGraph.whole(star), node_codes(star)
    drawn = [members(query_graphs(whole, np.array([0]), limit=11, codes=codes, seed=s), 0)[1:] for s in range(800)]
    counts = np.bincount(np.concatenate(drawn), minlength=41)[1:]
    # Each leaf is drawn with probability 1/4: 200 times, give or take 12.
    assert counts.min() > 150 and counts.max() < 250
    queries = query_graphs(whole, np.arange(1, 41), limit=11, codes=codes)
    assert len({tuple(sorted(members(queries, q))) for q in range(40)}) == 40


def test_renumbered_nodes_are_drawn_alike() -> None:
    graph = random_graph(edges=150)
    new_id = np.random.default_rng(5).permutation(graph.num_nodes)
    order, coo = np.argsort(new_id), sp.coo_array(graph.adjacency)
    other = Graph(np.stack([new_id[coo.row], new_id[coo.col]]), graph.features[order], nodes=graph.num_nodes)
    assert np.array_equal(node_codes(other)[new_id], node_codes(graph))
    queries = np.arange(graph.num_nodes)
    plain = query_graphs(LocalGraph.whole(graph), queries, limit=6, codes=node_codes(graph))
    moved = query_graphs(LocalGraph.whole(other), new_id, limit=6, codes=node_codes(other))
    for q in queries:
        assert set(new_id[members(plain, q)].tolist()) == set(members(moved, q).tolist())


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_codes_tell_nodes_apart(kind: str) -> None:
    graph = random_graph(dense=kind == "dense")
    path = Graph([[0, 1, 2, 3], [1, 2, 3, 4]], np.ones((7, 2)), nodes=7)
    assert len(np.unique(node_codes(graph))) > 0.9 * graph.num_nodes
    codes = node_codes(path)
    # Ends, their neighbours, the middle, and two isolated nodes: equal features, told apart by their surroundings.
    assert codes[0] == codes[4] and codes[1] == codes[3] and codes[5] == codes[6] and len(np.unique(codes)) == 4


def test_a_limit_needs_codes() -> None:
    with pytest.raises(OptionError, match="limit is 5, but no codes"):
        query_graphs(LocalGraph.whole(islands()), np.array([0]), limit=5)


def test_balls_fit_is_a_safe_bound() -> None:
    graph = random_graph()
    whole, adjacency = LocalGraph.whole(graph), graph.adjacency.toarray()
    largest = max(len(ball(adjacency, q)) for q in range(graph.num_nodes))
    assert not whole.balls_fit(largest - 1) and whole.balls_fit(10_000)


def thinned(graph: Graph, drop_edge: float = 0.4) -> AugmentedOperator:
    return AugmentedOperator(GraphOperator(graph), drop_edge=drop_edge, drop_feature=0.0, seed=1, index=(0, 0))


@pytest.mark.parametrize("limit", [0, 4])
def test_graphs_of_a_thinned_view(limit: int) -> None:
    graph = random_graph(edges=150)
    view, codes = thinned(graph), node_codes(graph)
    indptr, indices = view.adjacency_rows(np.arange(graph.num_nodes))
    adjacency = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(graph.num_nodes,) * 2).toarray()
    assert 0 < adjacency.sum() < graph.adjacency.sum()
    queries = np.array([41, 3, 17, 3, graph.num_nodes - 1], dtype=np.int32)
    graphs = query_graphs(LocalGraph.around(view, queries), queries, limit=limit, codes=codes)
    sets = [members(graphs, q) for q in range(len(queries))]
    if not limit:
        assert all(set(s.tolist()) == ball(adjacency, int(query)) for s, query in zip(sets, queries))
    check(graphs, adjacency, queries, sets)
