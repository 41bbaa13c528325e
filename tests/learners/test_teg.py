"""TEG: anchors by shortest paths, layers pair by pair, loss and answers by formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.csgraph import shortest_path

from dense_views import episodes_of, normalised
from gradients import check_loss
from graphs import islands, random_graph
from naq import Episodes, Graph, Tasks, sample_tasks
from naq.errors import OptionError
from naq.learners.node_draws import NodeDropout, node_names
from naq.learners.teg import (
    ANCHORS,
    HIDDEN,
    TEG,
    EquivariantLayer,
    Perceptron,
    Points,
    TaskAdaptation,
    count_hops,
    draw_links,
    structural_features,
)
from naq.random import word
from naq.testing import SPLIT, community_graph, renumber_nodes

# Anchors.


@pytest.mark.parametrize("anchors", [1, 3, 16, 64])
@pytest.mark.parametrize("graph", [random_graph(), islands(), community_graph()], ids=lambda g: g.name)
def test_structural_features_are_those_of_the_definition(graph: Graph, anchors: int) -> None:
    """Shortest paths in the dense graph with all anchors; 0 where there is none."""
    n, names = graph.num_nodes, node_names(graph)
    dense = np.zeros((n + anchors, n + anchors))
    dense[:n, :n] = graph.adjacency.toarray()
    for anchor, nodes in enumerate(draw_links(names, anchors, 1)):
        dense[n + anchor, nodes] = dense[nodes, n + anchor] = 1
    away = shortest_path(sp.csr_array(dense), unweighted=True, directed=False)[:n, n:]
    found = structural_features(graph, anchors, names, seed=1)
    assert found.dtype == np.float32 and found.shape == (n, anchors)
    assert np.allclose(found, 1 / (1 + away), atol=1e-7)
    new_id = np.random.default_rng(0).permutation(n)
    moved = renumber_nodes(graph, new_id)
    if graph.name == "communities":  # whose nodes differ from each other
        assert np.array_equal(structural_features(moved, anchors, node_names(moved), seed=1)[new_id], found)


def test_links_halve_and_are_drawn() -> None:
    names = node_names(random_graph(n=60))
    links = draw_links(names, 16, 0)
    assert [len(nodes) for nodes in links] == [30, 15, 7, 3] + [1] * 12
    assert all(len(np.unique(nodes)) == len(nodes) for nodes in links)
    assert all(np.array_equal(a, b) for a, b in zip(links, draw_links(names, 4, 0)))
    often = np.bincount(np.concatenate([draw_links(names, 1, seed)[0] for seed in range(400)]), minlength=60) / 400
    assert np.abs(often - 0.5).max() < 5 * 0.5 / 20


def test_hops_on_a_long_path() -> None:
    path = Graph(np.stack([np.arange(299), np.arange(1, 300)]), nodes=301)
    found = count_hops(path.adjacency, np.array([0, 150]))
    assert np.array_equal(found[:300], np.stack([np.arange(300), np.abs(np.arange(300) - 150)], axis=1))
    assert (found[300] == -1).all()


# Layers.

TASKS, WIDTH, STRUCTURE = 3, 5, 3


def layers() -> TaskAdaptation:
    """With weights large enough that points move."""
    made = TaskAdaptation(2, STRUCTURE, 8, torch.Generator().manual_seed(0), torch.device("cpu")).double()
    with torch.no_grad():
        for layer in made.layers:
            layer.move.weight2.mul_(3e3)
    return made


def both() -> tuple[Points, Points]:
    """Four supports and six queries per task, of which some are padding."""
    sets = []
    for count, seed in ((4, 1), (6, 2)):
        random = torch.Generator().manual_seed(seed)
        x = torch.randn(TASKS, count, WIDTH, generator=random, dtype=torch.float64)
        h = torch.rand(TASKS, count, STRUCTURE, generator=random, dtype=torch.float64)
        sets.append(Points(x, h, torch.ones(TASKS, count, dtype=torch.float64)))
    kept = sets[1].kept
    kept[0, 2] = kept[1, :] = kept[2, 4:] = 0
    return sets[0], sets[1]


def one_by_one(layer: EquivariantLayer, one: Points, two: Points) -> tuple[Points, Points]:
    """One task without padding, message by message."""

    def perceptron(of: Perceptron, inputs: torch.Tensor) -> torch.Tensor:
        return F.silu(inputs @ of.weight1 + of.bias1) @ of.weight2 + of.bias2

    def changed(own: Points, others: Points) -> Points:
        x, h = own.x.clone(), own.h.clone()
        for i in range(len(own.x)):
            total = torch.zeros(8, dtype=torch.float64)
            for j in range(len(others.x)):
                apart = own.x[i] - others.x[j]
                message = F.silu(perceptron(layer.message, torch.cat([own.h[i], others.h[j], (apart @ apart)[None]])))
                move = F.silu(message @ layer.move.weight1 + layer.move.bias1) @ layer.move.weight2
                x[i] = x[i] + apart * move / len(others.x)
                total = total + message
            if layer.update is not None:
                h[i] = own.h[i] + perceptron(layer.update, torch.cat([own.h[i], total]))
        return Points(x, h, own.kept)

    return changed(one, two), changed(two, one)


def test_layers_pass_messages_pair_by_pair_and_padding_sends_none() -> None:
    adaptation, (support, query) = layers(), both()
    gone = query.kept == 0
    query.x[gone], query.h[gone] = 100.0, -7.0
    found = adaptation(support, query)
    for t in range(TASKS):
        kept = query.kept[t] > 0
        one = Points(support.x[t], support.h[t], support.kept[t])
        two = Points(query.x[t][kept], query.h[t][kept], query.kept[t][kept])
        for layer in adaptation.layers:
            one, two = one_by_one(layer, one, two)
        assert torch.allclose(found[0][t], one.x, atol=1e-10) and torch.allclose(found[1][t][kept], two.x, atol=1e-10)
    assert (found[0] - support.x)[[0, 2]].abs().max() > 0.1 and torch.equal(found[0][1], support.x[1])
    (found[0].pow(2).sum() + found[1][~gone].pow(2).sum()).backward()
    assert all(p.grad is not None and p.grad.any() for p in adaptation.parameters())


def test_rotations_reflections_translations_and_orders_go_through() -> None:
    adaptation, (support, query) = layers(), both()
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((WIDTH, WIDTH)))
    turn[:, 0] *= -1
    rotation, shift = torch.from_numpy(turn), torch.linspace(-2, 3, WIDTH, dtype=torch.float64)
    s, q, t = torch.tensor([2, 0, 3, 1]), torch.tensor([5, 1, 0, 2, 4, 3]), torch.tensor([2, 0, 1])

    def moved(these: Points, order: torch.Tensor) -> Points:
        return Points((these.x @ rotation + shift)[t][:, order], these.h[t][:, order], these.kept[t][:, order])

    plain, turned = adaptation(support, query), adaptation(moved(support, s), moved(query, q))
    for one, two, order in zip(plain, turned, (s, q)):
        assert torch.allclose((one @ rotation + shift)[t][:, order], two, atol=1e-9)
    stretched = adaptation(Points(2 * support.x, support.h, support.kept), Points(2 * query.x, query.h, query.kept))
    assert not torch.allclose(2 * plain[0], stretched[0], atol=1e-3), "a change of scale is not among them"


# The learner.


def make(graph: Graph | None = None, way: int = 3, **options: Any) -> TEG:
    """With coordinates that move by more than a thousandth, and a norm that is not the plain one."""
    learner = TEG((graph or random_graph(density=0.3)).without_labels(), way=way, latent=8, seed=1, **options)
    with torch.no_grad():
        for layer in learner.adaptation.layers:
            layer.move.weight2.mul_(1e3)
        learner.norm.weight.copy_(torch.linspace(0.5, 1.5, 8))
    return learner


def dense_vectors(learner: TEG, update: int | None) -> torch.Tensor:
    """Of the whole graph in double precision, features dropped by node and column."""
    graph, share = learner.graph, learner.options.dropout
    x = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    if update is not None and share:
        drop = NodeDropout(node_names(graph), share, word(learner.seed, "teg/dropout", update))
        x = x * drop.dense(np.arange(graph.num_nodes), x.shape[1])
    smooth = torch.from_numpy(normalised(graph.adjacency.toarray()))
    return smooth @ torch.tensor(x, dtype=torch.float64) @ learner.encoder.weight.double() + learner.encoder.bias


def prototype_loss(support: torch.Tensor, query: torch.Tensor, way: int, slots: list[int]) -> torch.Tensor:
    prototypes = support.unflatten(0, (way, -1)).mean(1)
    losses = [-torch.log_softmax(-((q - prototypes) ** 2).sum(1), 0)[j] for q, j in zip(query, slots)]
    return torch.stack(losses).mean()


def adapted(learner: TEG, z: torch.Tensor, support: np.ndarray, query: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """One task without padding."""
    h = torch.from_numpy(structural_features(learner.graph, ANCHORS, node_names(learner.graph), learner.seed))
    x = F.layer_norm(z.float(), z.shape[1:], learner.norm.weight)
    points = (Points(x[ids.copy()][None], h[ids.copy()][None], torch.ones(1, len(ids))) for ids in (support, query))
    one, two = learner.adaptation(*points)
    return one[0], two[0]


def formula(learner: TEG, episodes: Episodes, update: int) -> torch.Tensor:
    z, gamma, means = dense_vectors(learner, update), learner.options.gamma, []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        ids, slots = query[mask], np.nonzero(mask)[0].tolist()
        if not len(ids):
            means.append(z.sum() * 0)
            continue
        one, two = adapted(learner, z, support.ravel(), ids)
        plain = prototype_loss(z[support.ravel()], z[ids], episodes.way, slots)
        means.append(gamma * prototype_loss(one, two, episodes.way, slots) + (1 - gamma) * plain)
    return torch.stack(means).mean()


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("options", [{}, {"dropout": 0.0, "gamma": 0.8}])
@pytest.mark.parametrize("case", ["one shot", "missing queries"])
def test_the_loss_is_the_formula(case: str, options: dict[str, float], dense: bool) -> None:
    sparse = random_graph(density=0.3)
    learner = make(sparse.with_features(sparse.features.toarray()) if dense else sparse, **options)
    episodes = episodes_of(case)
    for update in (0, 7):
        check_loss(learner, learner.loss(episodes, update), formula(learner, episodes, update), free="encoder.bias")
    assert torch.allclose(learner.encode_all().double(), dense_vectors(learner, None).detach(), atol=1e-5)


@pytest.mark.parametrize("way", [2, 3])
def test_own_answers_are_the_nearest_adapted_means(way: int) -> None:
    graph = community_graph()
    learner = make(graph, way=2)
    tasks = sample_tasks(graph, way=way, shot=3, queries=4, count=9, seed=0, classes=SPLIT.base)
    found, z = learner.solve(tasks), dense_vectors(learner, None)
    for t in range(len(tasks)):
        support, query = adapted(learner, z, tasks.support[t], tasks.query[t])
        assert np.array_equal(found[t], torch.cdist(query, support.view(way, 3, -1).mean(1)).argmin(1).numpy())
    assert (found == tasks.query_slots).mean() > 0.6
    plain = z.float()[tasks.support.copy()].unflatten(1, (way, 3)).mean(2)
    assert (torch.cdist(z.float()[tasks.query.copy()], plain).argmin(2).numpy() != found).any()
    learner.SOLVE_BYTES = 2 * 4 * 8 * 3 * way * 4 * way * HIDDEN
    assert np.array_equal(learner.solve(tasks), found), "two tasks at once"
    with pytest.raises(OptionError, match="140"):
        learner.solve(Tasks(np.array([[0, 999]]), np.array([[1, 2]]), way=2, shot=1))


def test_initial_weights() -> None:
    one, other = (TEG(random_graph(), way=3, latent=8, seed=seed) for seed in (0, 1))
    assert not torch.equal(one._structure, other._structure) and not torch.equal(
        one.encoder.weight, other.encoder.weight
    )
    limit = (6 / (20 + 8)) ** 0.5
    assert 0.9 * limit < one.encoder.weight.abs().max().item() <= limit and not one.encoder.bias.any()
    first, last = one.adaptation.layers
    assert first.message.weight1.shape == (33, 64) and first.message.weight1.abs().max() <= 33**-0.5
    assert 0 < first.move.weight2.abs().max() <= 1e-3 * (6 / 65) ** 0.5
    assert first.update.weight1.shape == (80, 64) and last.update is None
