"""Thinned receptive fields against the whole thinned graph, formed densely."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dense_views import masked, normalised, thinned
from graphs import islands, random_graph
from naq import Graph
from naq.errors import OptionError
from naq.nn import AugmentedOperator, GraphOperator
from naq.nn.rows import SparseRows

GRAPHS = {
    "sparse": random_graph(60, 150, 20), "dense": random_graph(60, 150, 20, dense=True), "islands": islands(),
    "edgeless": Graph(np.empty((2, 0), dtype=int), np.eye(30, dtype=np.float32), nodes=30),
}  # fmt: skip
each = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())


def view(graph: Graph, drop_edge: float = 0.4, drop_feature: float = 0.3, seed: int = 0, index=(2, 1)):
    return AugmentedOperator(
        GraphOperator(graph), drop_edge=drop_edge, drop_feature=drop_feature, seed=seed, index=index
    )


def full(rows: SparseRows, around: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros((rows.shape[0], n))
    for r in range(rows.shape[0]):
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            out[r, around[rows.indices[e]]] += rows.data[e]
    return out


@each
def test_fields_are_rows_of_the_whole_thinned_graph(graph: Graph) -> None:
    operator, n = view(graph), graph.num_nodes
    whole = normalised(thinned(operator))
    for nodes in (np.array([5, 0, n - 1, 5]), np.arange(n), np.array([3]), np.empty(0, dtype=np.int64)):
        rows, around = operator.field(nodes)
        assert rows.shape == (len(nodes), len(around)) and len(set(around.tolist())) == len(around)
        np.testing.assert_allclose(full(rows, around, n), whole[nodes], atol=1e-6)
        first_use = list(dict.fromkeys(around[rows.indices].tolist()))
        assert first_use == around.tolist()
    assert (operator._place == -1).all()


@each
def test_adjacency_rows_are_kept_neighbours_without_loops(graph: Graph) -> None:
    operator = view(graph)
    whole = thinned(operator)
    nodes = np.array([7, 1, 7, 4])
    indptr, indices = operator.adjacency_rows(nodes)
    assert indptr.dtype == np.int64 and indices.dtype == np.int32
    for r, node in enumerate(nodes):
        assert indices[indptr[r] : indptr[r + 1]].tolist() == np.flatnonzero(whole[node]).tolist()
    looped, reached = whole + np.eye(len(whole)), nodes[:2]
    near = (looped @ looped)[reached].any(axis=0)
    indptr, indices = operator.adjacency_around(reached)
    for node in range(len(whole)):
        expected = np.flatnonzero(whole[node]).tolist() if near[node] else []
        assert indices[indptr[node] : indptr[node + 1]].tolist() == expected


@each
def test_first_layer_and_inputs_and_their_gradients(graph: Graph) -> None:
    operator = view(graph)
    nodes = np.array([2, 9, 2, 20])
    inputs = torch.from_numpy(masked(operator)).float()
    smoothed = torch.from_numpy(normalised(thinned(operator))).float() @ inputs
    for product, oracle in ((operator.first_layer, smoothed), (operator.inputs, inputs)):
        weight = torch.randn(graph.num_features, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        other = weight.detach().clone().requires_grad_()
        found, expected = product(nodes, weight), oracle[nodes] @ other
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        out = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
        (found * out).sum().backward()
        (expected * out).sum().backward()
        torch.testing.assert_close(weight.grad, other.grad, atol=1e-5, rtol=1e-5)


@each
def test_nothing_dropped_is_the_graph_itself_to_the_bit(graph: Graph) -> None:
    operator = view(graph, 0.0, 0.0)
    nodes = np.array([6, 1, 6, 0])
    (rows, around), (plain, whole) = operator.field(nodes), operator.base.field(nodes)
    assert np.array_equal(around, whole) and np.array_equal(rows.indptr, plain.indptr)
    assert np.array_equal(rows.indices, plain.indices) and np.array_equal(rows.data, plain.data)
    assert (operator.columns == 1).all()


def test_everything_dropped_leaves_self_loops() -> None:
    operator = view(GRAPHS["sparse"], 1 - 1e-12, 1 - 1e-12)
    nodes = np.array([6, 1, 6])
    rows, around = operator.field(nodes)
    assert around.tolist() == [6, 1] and rows.indices.tolist() == [0, 1, 0] and (rows.data == 1).all()
    assert (operator.columns == 0).all()
    weight = torch.ones(20, 4, requires_grad=True)
    assert (operator.first_layer(nodes, weight) == 0).all()


@pytest.mark.parametrize("drop", [0.1, 0.5, 0.9])
def test_the_share_that_stays(drop: float) -> None:
    """Within five standard errors of the binomial, for edges and for columns."""
    ring = np.arange(20_000)
    edges = np.stack([np.tile(ring, 2), np.concatenate([(ring + 1) % 20_000, (ring + 7) % 20_000])])
    operator = view(Graph(edges, np.ones((20_000, 1), dtype=np.float32), nodes=20_000), drop, 0.0)
    kept = len(operator.adjacency_rows(ring)[1]) / 2
    assert abs(kept / 40_000 - (1 - drop)) < 5 * np.sqrt(drop * (1 - drop) / 40_000)
    wide = view(Graph(edges[:, :0], np.ones((2, 20_000), dtype=np.float32), nodes=2), 0.0, drop)
    assert abs(wide.columns.mean() - (1 - drop)) < 5 * np.sqrt(drop * (1 - drop) / 20_000)


def test_edges_of_one_node_and_of_neighbouring_keys_are_independent() -> None:
    n = 4000
    star = Graph(np.stack([np.zeros(n - 1, dtype=int), np.arange(1, n)]), np.ones((n, 1), dtype=np.float32), nodes=n)
    kept = np.zeros((12, n - 1))
    for update in range(12):
        kept[update, view(star, 0.5, index=(update, 0)).adjacency_rows(np.array([0]))[1] - 1] = 1
    between = np.corrcoef(kept)[np.triu_indices(12, 1)]
    following = [np.corrcoef(row[1:], row[:-1])[0, 1] for row in kept]
    assert np.abs(between).max() < 5 / np.sqrt(n) and np.abs(following).max() < 5 / np.sqrt(n)


def test_the_key_is_seed_and_index() -> None:
    graph = GRAPHS["sparse"]
    same = [view(graph, index=index) for index in ((2, 1), [np.int64(2), 1])]
    others = [view(graph, index=(1, 2)), view(graph, index=(21,)), view(graph, seed=1), view(graph, index=(2, 1, 0))]
    whole = [thinned(operator) for operator in same + others]
    assert np.array_equal(whole[0], whole[1]) and np.array_equal(same[0].columns, same[1].columns)
    for other, matrix in zip(others, whole[2:]):
        assert not np.array_equal(matrix, whole[0]) and not np.array_equal(other.columns, same[0].columns)


def test_a_stronger_thinning_of_one_key_keeps_a_subset() -> None:
    weak, strong = (thinned(view(GRAPHS["sparse"], drop)) for drop in (0.3, 0.7))
    assert (strong <= weak).all() and strong.sum() < weak.sum()


@pytest.mark.parametrize("name", ["drop_edge", "drop_feature"])
@pytest.mark.parametrize("value", [1.0, -0.1, float("nan"), "0.3", True])
def test_probabilities_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        view(GRAPHS["sparse"], **{name: value})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@each
def test_cuda_agrees(graph: Graph) -> None:
    nodes, weight = np.array([2, 9, 2, 20]), torch.randn(graph.num_features, 8)
    there = AugmentedOperator(GraphOperator(graph, "cuda"), drop_edge=0.4, drop_feature=0.3, seed=0, index=(2, 1))
    found = there.first_layer(nodes, weight.cuda())
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), view(graph).first_layer(nodes, weight), atol=1e-5, rtol=1e-4)
