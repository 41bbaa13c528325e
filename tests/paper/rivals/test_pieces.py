"""Whole graphs and sampled pieces against dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import naq
from graphs import random_graph
from naq_paper.rivals.pieces import Piece, Pieces


def dense_spread(adjacency: np.ndarray) -> np.ndarray:
    looped = adjacency + np.eye(len(adjacency))
    scale = 1 / np.sqrt(looped.sum(axis=1))
    return scale[:, None] * looped * scale[None, :]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=["sparse", "dense"])
def graph(request):
    plain = random_graph(60, 150, 12, seed=1, density=0.2)
    features = np.asarray(plain.features.toarray() if sp.issparse(plain.features) else plain.features)
    if request.param == "dense":
        features = features + 1.0
    return naq.Graph(plain.adjacency, features, nodes=60)


def x_of(graph: naq.Graph) -> np.ndarray:
    return graph.features.toarray() if sp.issparse(graph.features) else np.asarray(graph.features)


def test_products_and_their_gradients_equal_dense_ones(graph):
    piece = Piece(graph, "cpu")
    weight = torch.randn(graph.num_features, 5, generator=generator(), requires_grad=True)
    out = piece.spread() @ piece.inputs(weight)
    target = torch.randn(out.shape, generator=generator(1))
    (out * target).sum().backward()
    a, x = dense_spread(graph.adjacency.toarray()), x_of(graph)
    assert np.allclose(out.detach().numpy(), a @ x @ weight.detach().numpy(), atol=1e-5)
    assert np.allclose(weight.grad.numpy(), x.T @ a.T @ target.numpy(), atol=1e-4)


def test_a_dropped_edge_goes_in_both_directions_and_degrees_are_counted_anew(graph):
    piece = Piece(graph, "cpu")
    spread = piece.spread(0.4, generator(3))
    matrix = np.zeros((60, 60))
    matrix[piece.rows.numpy(), piece.columns.numpy()] = spread.values.numpy()
    kept = (matrix > 0) & ~np.eye(60, dtype=bool)
    assert np.array_equal(kept, kept.T) and (np.diag(matrix) > 0).all()
    assert (kept <= graph.adjacency.toarray().astype(bool)).all()
    assert np.allclose(matrix, dense_spread(kept.astype(float)), atol=1e-6)
    dense = torch.randn(60, 3, generator=generator())
    assert np.allclose((spread @ dense).numpy(), matrix @ dense.numpy(), atol=1e-5)
    again = piece.spread(0.4, generator(3))
    assert torch.equal(again.values, spread.values)
    assert not torch.equal(piece.spread(0.4, generator(4)).values, spread.values)


def test_edges_are_dropped_with_the_probability_that_was_asked():
    graph = random_graph(400, 4000, 3, seed=2)
    piece = Piece(graph, "cpu")
    kept = (piece.spread(0.3, generator()).values > 0).sum().item() - 400
    assert abs(kept / (2 * graph.num_edges) - 0.7) < 0.03


def test_dropped_inputs_lose_non_zeros_and_keep_their_mean(graph):
    piece = Piece(graph, "cpu")
    eye = torch.eye(graph.num_features)
    thinned = piece.inputs(eye, 0.5, generator(5)).numpy()
    x = x_of(graph)
    assert set(np.unique(np.round(thinned[x != 0] / x[x != 0], 4))) == {0.0, 2.0}
    assert (thinned[x == 0] == 0).all()
    mean = np.mean([piece.inputs(eye, 0.5, generator(s)).numpy() for s in range(200)], axis=0)
    assert np.abs(mean - x).max() < 0.5 * np.abs(x).max() and abs(mean.sum() / x.sum() - 1) < 0.05
    weight = torch.ones(graph.num_features, 1, requires_grad=True)
    piece.inputs(weight, 0.5, generator(5)).sum().backward()
    assert np.allclose(weight.grad.numpy()[:, 0], thinned.sum(axis=0), atol=1e-4)


def test_a_piece_is_the_induced_sub_graph(graph):
    nodes = np.array([7, 3, 40, 11, 12, 13])
    piece = Piece(graph, "cpu", nodes, seeds=2)
    assert len(piece) == 6 and piece.seeds == 2
    inside = graph.adjacency.toarray()[np.ix_(nodes, nodes)]
    out = piece.spread() @ piece.inputs(torch.eye(graph.num_features))
    assert np.allclose(out.numpy(), dense_spread(inside) @ x_of(graph)[nodes], atol=1e-5)


def test_batches_deal_every_node_once_per_epoch_and_follow_from_the_number(graph):
    pieces = Pieces(graph, torch.device("cpu"), batch=16, hops=2, fanout=3, seed=0)
    assert pieces.per_epoch == 4
    for epoch in (0, 1):
        found = [pieces[4 * epoch + i] for i in range(4)]
        seeds = np.concatenate([p.nodes[: p.seeds] for p in found])
        assert np.array_equal(np.sort(seeds), np.arange(60))
        for p in found:
            assert len(np.unique(p.nodes)) == len(p.nodes) <= 16 * 4 * 4
    fresh = Pieces(graph, torch.device("cpu"), batch=16, hops=2, fanout=3, seed=0)
    assert np.array_equal(fresh[6].nodes, pieces[6].nodes), "a piece depends on nothing but its number"
    assert not np.array_equal(pieces[2].nodes, pieces[6].nodes)


def test_a_batch_is_joined_by_at_most_fanout_neighbours_of_each_node():
    star = naq.Graph(np.stack([np.zeros(50, int), np.arange(1, 51)]), np.eye(51), nodes=51)
    pieces = Pieces(star, torch.device("cpu"), batch=17, hops=1, fanout=4, seed=1)
    joined = []
    for i in range(30):
        seeds, extra = np.split(pieces[i].nodes, [pieces[i].seeds])
        if 0 in seeds:
            joined.append(len(extra))
        else:
            assert extra.tolist() == [0]
    assert len(joined) == 10 and max(joined) == 4, "drawn neighbours may be in the batch already"
    far = Pieces(star, torch.device("cpu"), batch=51, hops=2, fanout=60, seed=1)[0]
    assert sorted(far.nodes.tolist()) == list(range(51))


def test_the_whole_graph_is_one_piece_made_once(graph):
    pieces = Pieces(graph, torch.device("cpu"), batch=0, hops=2, fanout=3)
    assert pieces.per_epoch == 1 and pieces[0] is pieces[5] and pieces[0].seeds == 60
