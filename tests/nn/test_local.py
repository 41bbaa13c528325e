"""Sub-graphs of nodes against dense ones taken one after the other."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest

import naq
from dense_views import masked, thinned
from graphs import sub_graph
from naq.nn import GCN, AugmentedOperator, GraphOperator, LocalOperator
from naq.testing import community_graph


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
    """Of the graph, the isolated node 140 among them, and of a thinned view."""
    operator = GraphOperator(graph, self_loops=False)
    view = AugmentedOperator(GraphOperator(graph), drop_edge=0.4, drop_feature=0.3, seed=1, index=(0, 0))
    encoder, nodes = encoder_of(operator), np.append(np.arange(0, graph.num_nodes, 9), [140, 7, 7])
    for base, adjacency, features in (
        (operator, graph.adjacency.toarray(), graph.features.toarray()),
        (view, thinned(view), masked(view)),
    ):
        theirs = torch.stack([plain_encode(adjacency, features, encoder, v) for v in nodes])
        assert torch.allclose(encoder.encode(nodes, LocalOperator(base)).double(), theirs, atol=1e-6)


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
    assert torch.allclose(encoder.encode(nodes[50:51], again), whole[50:51], atol=1e-6)
    assert not torch.allclose(encoder.encode(nodes, other), whole, atol=1e-6)


CROWD, LIMIT, SEEDS = 41, 10, 300


@pytest.fixture(scope="module")
def drawn():
    """(seeds, centres, nodes) whether a node is drawn into a centre's sub-graph, where every node sees all others."""
    ends = np.stack(np.triu_indices(CROWD, 1))
    operator = GraphOperator(naq.Graph(ends, np.eye(CROWD, dtype=np.float32), nodes=CROWD), self_loops=False)
    out = np.zeros((SEEDS, CROWD, CROWD), dtype=bool)
    for seed in range(SEEDS):
        local = LocalOperator(operator, limit=LIMIT, seed=seed)
        for centre in range(CROWD):
            _, pairs = local.field(np.array([centre]))
            out[seed, centre, pairs.nodes] = True
    assert out[:, range(CROWD), range(CROWD)].all(), "the centre stays"
    out[:, range(CROWD), range(CROWD)] = False
    return out


def uniformity(drawn):
    """p-value of: each of n nodes is drawn equally often, ``LIMIT`` at a time without replacement; (draws, n) bool.

    Counts c then have variance m p (1 - p) and covariance -m p (1 - p) / (n - 1) for m draws and p = LIMIT / n.
    """
    m, n = drawn.shape
    assert (drawn.sum(axis=1) == LIMIT).all()
    share = LIMIT / n
    deviation = drawn.sum(axis=0) - m * share
    return chi2.sf((n - 1) / n * (deviation**2).sum() / (m * share * (1 - share)), n - 1)


def test_a_limit_draws_uniformly(drawn):
    """Every other node is drawn equally often: over seeds for each centre, and over all centres together."""
    others = np.stack([np.delete(drawn[:, v], v, axis=1) for v in range(CROWD)], axis=1)
    found = np.array([uniformity(others[:, v]) for v in range(CROWD)])
    assert found.min() > 1e-3 / CROWD and kstest(found, "uniform").pvalue > 1e-3
    by_rank = others.reshape(-1, CROWD - 1)  # the k-th lowest id beside the centre, over seeds and centres
    assert uniformity(by_rank) > 1e-3


def test_draws_of_centres_and_of_seeds_are_independent(drawn):
    """Two centres, or two seeds, share as many of their common candidates as chance gives them."""
    share = LIMIT / (CROWD - 1)
    neighbours = (drawn[:, :-1] & drawn[:, 1:]).sum(axis=2)  # CROWD - 2 candidates in common
    following = (drawn[:-1] & drawn[1:]).sum(axis=2)  # all CROWD - 1
    for common, candidates in ((neighbours, CROWD - 2), (following, CROWD - 1)):
        error = 5 * common.std() / np.sqrt(common.size)
        assert 0 < error < 0.1 and abs(common.mean() - candidates * share**2) < error
