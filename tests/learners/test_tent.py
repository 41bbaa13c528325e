"""TENT: query graphs as slices of the dense matrix, and the loss by its formulas on dense matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from dense_views import CASES, dense_graphs, episodes_of, two_layers
from gradients import check_loss, move_biases
from graphs import islands, random_graph
from naq import Episodes, Graph
from naq.errors import OptionError
from naq.learners.node_draws import node_codes
from naq.learners.tent import TENT, Layers, ModulatedLayers
from naq.learners.tent.query_graphs import QueryGraphs, balls_fit, query_graphs
from naq.nn import AugmentedOperator, GraphOperator
from naq.nn.rows import SparseRows
from naq.testing import renumber_episodes, renumber_nodes

# Query graphs.


def graphs_of(graph: Graph, queries: np.ndarray, **given: Any) -> QueryGraphs:
    return query_graphs(graph.adjacency.indptr, graph.adjacency.indices, queries, **given)


def dense(rows: SparseRows) -> np.ndarray:
    return sp.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape).toarray()


def members(graphs: QueryGraphs, q: int) -> np.ndarray:
    """Nodes of one query graph: a row begins with its own node."""
    start, stop = graphs.pool.indptr[q : q + 2]
    return graphs.nodes[graphs.rows.indices[graphs.rows.indptr[start:stop]]]


def row_normal(adjacency: np.ndarray) -> np.ndarray:
    looped = adjacency + np.eye(len(adjacency))
    return looped / looped.sum(axis=1, keepdims=True)


def ball(adjacency: np.ndarray, query: int) -> np.ndarray:
    looped = adjacency + np.eye(len(adjacency))
    return np.flatnonzero((looped @ looped)[query])


def check_graphs(graphs: QueryGraphs, adjacency: np.ndarray, queries: np.ndarray, limit: int) -> None:
    """Two hops around each query, or ``limit`` of them, with the entries of the dense A_r."""
    a_r, rows, pool = row_normal(adjacency), dense(graphs.rows), dense(graphs.pool)
    assert len(pool) == len(queries) and len(np.unique(graphs.nodes)) == len(graphs.nodes)
    start = 0
    for q, query in enumerate(queries):
        s, whole = members(graphs, q), set(ball(adjacency, int(query)).tolist())
        assert s[0] == query and len(set(s.tolist())) == len(s) and set(s.tolist()) <= whole
        assert len(s) == (min(limit, len(whole)) if limit else len(whole))
        local = np.zeros((len(s), len(adjacency)))
        local[:, s] = a_r[np.ix_(s, s)]
        assert np.allclose(rows[start : start + len(s)], local[:, graphs.nodes], atol=1e-6)
        expected = np.zeros(len(rows))
        expected[start : start + len(s)] = a_r[np.ix_(s, s)].sum(axis=0) / len(s)
        assert np.allclose(pool[q], expected, atol=1e-6)
        start += len(s)


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 12])
@pytest.mark.parametrize("graph", [random_graph(edges=150), random_graph(edges=40, seed=2), islands()], ids=repr)
def test_query_graphs_are_slices_of_the_dense_matrix(graph: Graph, limit: int) -> None:
    adjacency, codes = graph.adjacency.toarray(), node_codes(graph)
    queries = np.append(np.arange(graph.num_nodes), [3, 3, 0]).astype(np.int32)
    found = graphs_of(graph, queries, limit=limit, codes=codes)
    check_graphs(found, adjacency, queries, limit)
    alone = graphs_of(graph, queries[7:8], limit=limit, codes=codes)
    assert members(alone, 0).tolist() == members(found, 7).tolist()
    nothing = graphs_of(graph, queries[:0])
    assert len(nothing.nodes) == 0 and nothing.rows.shape == nothing.pool.shape == (0, 0)
    view = AugmentedOperator(GraphOperator(graph), drop_edge=0.4, drop_feature=0.0, seed=1, index=(0, 0))
    indptr, indices = view.adjacency_rows(np.arange(graph.num_nodes))
    thinner = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=adjacency.shape).toarray()
    few = queries[[5, 3, 17, 3, -4]]
    check_graphs(query_graphs(*view.adjacency_around(few), few, limit=limit, codes=codes), thinner, few, limit)


def test_a_draw_is_even_and_does_not_follow_ids() -> None:
    ends = np.stack([np.zeros(40, dtype=int), np.arange(1, 41)])
    star = Graph(ends, np.random.default_rng(0).random((41, 6)), nodes=41)
    codes = node_codes(star)
    drawn = [members(graphs_of(star, np.array([0]), limit=11, codes=codes, seed=s), 0)[1:] for s in range(800)]
    counts = np.bincount(np.concatenate(drawn), minlength=41)[1:]
    assert counts.min() > 150 and counts.max() < 250, "each leaf with probability 1/4: 200 times, give or take 12"
    queries = graphs_of(star, np.arange(1, 41), limit=11, codes=codes)
    assert len({tuple(sorted(members(queries, q))) for q in range(40)}) == 40
    graph, new_id = random_graph(edges=150), np.random.default_rng(5).permutation(60)
    other = renumber_nodes(graph, new_id)
    plain, moved = (
        graphs_of(g, ids, limit=6, codes=node_codes(g)) for g, ids in ((graph, np.arange(60)), (other, new_id))
    )
    assert all(set(new_id[members(plain, q)].tolist()) == set(members(moved, q).tolist()) for q in range(60))
    with pytest.raises(OptionError, match="codes"):
        graphs_of(star, np.array([0]), limit=5)


def test_balls_fit_is_a_safe_bound() -> None:
    graph = random_graph()
    neighbors, adjacency = (graph.adjacency.indptr, graph.adjacency.indices), graph.adjacency.toarray()
    largest = max(len(ball(adjacency, q)) for q in range(graph.num_nodes))
    assert not balls_fit(*neighbors, largest - 1) and balls_fit(*neighbors, 10_000)


# The loss.


def dense_vectors(learner: TENT, adjacency: np.ndarray, features: np.ndarray) -> torch.Tensor:
    if learner.options.encoder == "release":
        values = torch.tensor(features) @ learner.encoder.weight
        return torch.from_numpy(row_normal(adjacency)).float() @ values + learner.encoder.bias
    return torch.relu(two_layers(learner.encoder, adjacency, features)).float()


def dense_layers(layers: ModulatedLayers, task: torch.Tensor) -> Layers:
    """W (1 + a) + b, each number on its own."""
    h, out = layers.width, []
    made = (layers.generator_weight.T @ task + layers.generator_bias).chunk(2)
    for part, weight, bias in ((made[0], layers.weight1, layers.bias1), (made[1], layers.weight2, layers.bias2)):
        if layers.full:
            a_w, b_w, a_b, b_b = part.split([h * h, h * h, h, h])
            out += [weight * (1 + a_w.view(h, h)) + b_w.view(h, h), bias * (1 + a_b) + b_b]
        else:
            out += [weight * (1 + part[:h]), bias * (1 + part[:h]) + part[h:]]
    return tuple(out)


def class_network(matrix: torch.Tensor, vectors: torch.Tensor, layers: Layers) -> torch.Tensor:
    w1, b1, w2, b2 = layers
    return matrix @ torch.relu(matrix @ vectors @ w1 + b1) @ w2 + b2


def formula(learner: TENT, episodes: Episodes, update: int, ball_of: Callable[..., np.ndarray] = ball) -> torch.Tensor:
    (_, _, vectors), *views = (
        (adjacency, torch.from_numpy(row_normal(adjacency)).float(), dense_vectors(learner, adjacency, features))
        for adjacency, features in dense_graphs(learner, episodes, update)
    )
    classify = lambda rows: rows @ learner.head_weight + learner.head_bias  # noqa: E731
    losses = []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        means = torch.stack([vectors[s].mean(0) for s in support])
        layers = dense_layers(learner.layers, means.mean(0))
        classes = torch.stack([class_network(torch.ones(1, 1), mean[None], layers)[0] for mean in means])
        match, nodes, slots = [], [vectors[support.ravel()]], [j for j, s in enumerate(support) for _ in s]
        for j, column in zip(*np.nonzero(mask)):
            adjacency, matrix, mine = views[column]
            near = ball_of(adjacency, int(query[j, column]))
            found = class_network(matrix[near][:, near], mine[near], layers).mean(0)
            scores = torch.stack([F.cosine_similarity(found, c, dim=0) / 0.5 for c in classes])
            match.append(-torch.log_softmax(scores, 0)[j])
            if learner.options.ce == "support+query":
                nodes.append(mine[query[j, column]][None])
                slots.append(int(j))
        loss = torch.stack(match).mean() if match else vectors.sum() * 0
        if learner.base_labels is None and learner.options.ce != "none":
            loss = loss + F.cross_entropy(classify(torch.cat(nodes)), torch.tensor(slots))
        losses.append(loss)
    total = torch.stack(losses).mean()
    if learner.base_labels is None or learner.options.ce == "none":
        return total
    labels = learner.base_labels
    known, order = np.flatnonzero(labels >= 0), sorted(set(labels[labels >= 0].tolist()))
    return total + F.cross_entropy(classify(vectors[known]), torch.tensor([order.index(labels[i]) for i in known]))


def make(**options: Any) -> TENT:
    learner = TENT(random_graph().without_labels(), way=3, latent=8, seed=1, **options)
    if learner.options.encoder == "gcn2":
        move_biases(learner.encoder.bias1, learner.encoder.bias2)
    return learner


OPTIONS = [{}, {"encoder": "release"}, {"modulation": "film"}, {"outputs": 11}, {"ce": "support"}, {"ce": "none"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_formula(case: str, options: dict[str, Any]) -> None:
    learner, episodes = make(**options), episodes_of(case)
    for update in (0, 5):
        check_loss(learner, learner.loss(episodes, update), formula(learner, episodes, update))
    graph = learner.graph
    expected = dense_vectors(learner, graph.adjacency.toarray(), graph.features.toarray())
    assert torch.allclose(learner.encode_all(), expected, atol=1e-5)


@pytest.mark.parametrize("dense_features", [False, True])
def test_supervised_adds_all_labelled_nodes(dense_features: bool) -> None:
    graph = random_graph(dense=dense_features)
    labels = np.where(np.arange(60) % 5 == 0, -1, random_graph().labels * 4 + 2)
    learner = TENT(graph.with_labels(labels), way=3, latent=8, base_labels=labels)
    assert learner.base_classes.tolist() == [2, 6, 10] and learner.head_weight.shape == (8, 3)
    for case in ("one shot", "missing queries"):
        check_loss(learner, learner.loss(episodes_of(case)), formula(learner, episodes_of(case), 0))
    without = TENT(graph.with_labels(labels), way=3, latent=8, base_labels=labels, ce="none")
    check_loss(without, without.loss(episodes_of("one shot")), formula(without, episodes_of("one shot"), 0))
    with pytest.raises(OptionError, match="outputs"):
        TENT(graph, way=3, outputs=2)


def test_a_cap_takes_the_drawn_nodes_whatever_their_ids() -> None:
    graph, episodes = random_graph().without_labels(), episodes_of("three shots")
    capped, free = make(max_nodes=7), make(max_nodes=0)
    codes = node_codes(graph)

    def drawn(adjacency: np.ndarray, query: int) -> np.ndarray:
        return graphs_of(graph, np.array([query]), limit=7, codes=codes, seed=1).nodes

    check_loss(capped, capped.loss(episodes), formula(capped, episodes, 0, drawn))
    assert not torch.equal(capped.loss(episodes), free.loss(episodes))
    assert torch.equal(make(max_nodes=59).loss(episodes), free.loss(episodes))
    new_id = np.random.default_rng(3).permutation(60)
    other = TENT(renumber_nodes(graph, new_id), way=3, latent=8, seed=1, max_nodes=7)
    other.load_state_dict(capped.state_dict())
    moved = renumber_episodes(episodes, new_id)
    assert other.loss(moved).item() == pytest.approx(capped.loss(episodes).item(), rel=1e-5)


def test_modulation_follows_the_width() -> None:
    wide, narrow = (TENT(random_graph(), way=3, latent=latent) for latent in (256, 64))
    assert not wide.layers.full and wide.layers.generator_weight.shape == (256, 4 * 256)
    assert narrow.layers.full and narrow.layers.generator_weight.numel() == 4 * 65 * 64 * 64
    with pytest.raises(OptionError, match="modulation"):
        TENT(random_graph(), way=3, modulation="full", latent=512)
