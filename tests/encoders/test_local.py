"""Sub-graphs of nodes against dense ones taken one after the other."""

import numpy as np
import pytest
import torch

from dense_views import masked, thinned
from graphs import sub_graph
from methods_under_test import community_graph
from naq.encoders import GCN, AugmentedOperator, GraphOperator, LocalOperator


def plain_encode(adjacency, features, encoder, v):
    """The whole sub-graph through both layers, then the centre's row."""
    nodes, matrix = sub_graph(adjacency, v)
    a, x = torch.from_numpy(matrix), torch.from_numpy(features[nodes]).double()
    hidden = torch.relu(a @ x @ encoder.weight1.double() + encoder.bias1.double())
    out = torch.relu(a @ hidden @ encoder.weight2.double() + encoder.bias2.double())
    return out[int(np.flatnonzero(nodes == v)[0])]


@pytest.fixture
def graph():
    return community_graph()


def encoder_of(operator):
    encoder = GCN(operator, 6, seed=3, hidden=5)
    torch.nn.init.normal_(encoder.bias1, generator=torch.Generator().manual_seed(0))
    torch.nn.init.normal_(encoder.bias2, generator=torch.Generator().manual_seed(1))
    return encoder


def test_equals_dense_sub_graphs(graph):
    operator = GraphOperator(graph, self_loops=False)
    encoder = encoder_of(operator)
    nodes = np.array([0, 7, 140, 7, 61])
    ours = encoder.encode(nodes, LocalOperator(operator))
    dense, features = graph.adjacency.toarray(), graph.features.toarray()
    theirs = torch.stack([plain_encode(dense, features, encoder, v) for v in nodes])
    assert torch.allclose(ours.double(), theirs, atol=1e-6)


def test_on_a_thinned_graph(graph):
    operator = GraphOperator(graph)
    view = AugmentedOperator(operator, drop_edge=0.4, drop_feature=0.3, seed=1, index=(0, 0))
    encoder = encoder_of(operator)
    nodes = np.arange(0, graph.num_nodes, 9)
    theirs = torch.stack([plain_encode(thinned(view), masked(view), encoder, v) for v in nodes])
    assert torch.allclose(encoder.encode(nodes, LocalOperator(view)).double(), theirs, atol=1e-6)


def test_the_rows_of_some_pairs(graph):
    local = LocalOperator(GraphOperator(graph, self_loops=False))
    _, pairs = local.field(np.arange(20))
    index = np.array([5, 0, 17, 5])
    weight = torch.randn(graph.num_features, 3, generator=torch.Generator().manual_seed(0))
    whole = local.first_layer(pairs, weight)
    assert torch.allclose(local.first_layer(pairs[index], weight), whole[index], atol=1e-6)
    assert torch.allclose(local.dense_rows(pairs[index]) @ weight, whole[index], atol=1e-5)


def test_a_limit_keeps_the_centre_and_so_many(graph):
    operator = GraphOperator(graph, self_loops=False)
    nodes = np.arange(graph.num_nodes)
    pool, pairs = LocalOperator(operator, limit=6).field(nodes)
    for v in (0, 50, 139):
        mine = np.arange(pool.indptr[v], pool.indptr[v + 1])
        used = pairs[mine].nodes
        assert len(set(used.tolist()) | {v}) <= 7
    # The same sub-graph alone, later and in another order; another seed, another draw.
    again, other = LocalOperator(operator, limit=6), LocalOperator(operator, limit=6, seed=1)
    encoder = encoder_of(operator)
    whole = encoder.encode(nodes, LocalOperator(operator, limit=6))
    assert torch.allclose(encoder.encode(nodes[::-1].copy(), again), whole.flip(0), atol=1e-6)
    assert torch.equal(encoder.encode(nodes[50:51], again), whole[50:51])
    assert not torch.allclose(encoder.encode(nodes, other), whole, atol=1e-6)


def test_a_limit_draws_uniformly():
    """Every node of a large sub-graph is drawn about equally often over seeds."""
    import naq

    star = naq.Graph(np.stack([np.zeros(40, dtype=int), np.arange(1, 41)]), np.eye(41, dtype=np.float32), nodes=41)
    operator = GraphOperator(star, self_loops=False)
    drawn = np.zeros(41)
    for seed in range(400):
        pool, _ = LocalOperator(operator, limit=10, seed=seed).field(np.array([0]))
        assert pool.shape[1] == 10
        _, pairs = LocalOperator(operator, limit=10, seed=seed).field(np.array([1]))
        drawn[pairs.nodes] += 1
    # Leaf 1 sees the centre with probability 10 / 40; leaves seen through it share the other nine places.
    assert 60 <= drawn[1] <= 145


def test_an_isolated_node_gives_the_bias(graph):
    operator = GraphOperator(graph, self_loops=False)
    encoder = encoder_of(operator)
    assert torch.allclose(encoder.encode(np.array([140]), LocalOperator(operator))[0], torch.relu(encoder.bias2))
