from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gradients import check_steps, same_gradients
from graphs import islands, random_graph
from methods_under_test import SPLIT, community_graph, relabelled
from missing_queries import check_missing_queries, loss_without_queries
from naq import Episodes, Graph, Tasks, sample_tasks, supervised_episodes
from naq.errors import OptionError
from naq.learners import LEARNERS
from naq.learners.node_draws import NodeDropout, node_names
from naq.learners.teg import ANCHORS, HIDDEN, TEG, structural_features
from naq.learners.teg.equivariant import Points
from naq.methods import get_method
from naq.random import word

LAST_BIAS = "encoder.bias"


def supervised(count: int, shot: int = 2) -> Episodes:
    return supervised_episodes(random_graph().labels, range(3), way=3, shot=shot, queries=5, count=count)


def moving(learner: TEG) -> TEG:
    """With coordinates that move by more than a thousandth, and a norm that is not the plain one."""
    with torch.no_grad():
        for layer in learner.adaptation.layers:
            layer.move.weight2.mul_(1e3)
        learner.norm.weight.copy_(torch.linspace(0.5, 1.5, len(learner.norm.weight)))
    return learner


@pytest.fixture
def learner() -> TEG:
    return moving(TEG(random_graph(), way=3, latent=8, seed=1))


def whole(learner: TEG, update: int | None) -> torch.Tensor:
    """Vectors of the whole graph in dense double precision, features dropped by node and column."""
    graph = learner.graph
    a = torch.from_numpy(graph.adjacency.toarray()).double() + torch.eye(graph.num_nodes, dtype=torch.float64)
    scale = a.sum(1).rsqrt()
    x = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    share = learner.options["dropout"]
    if update is not None and share:
        drop = NodeDropout(node_names(graph), share, word(learner.seed, "teg/dropout", update))
        x = x * drop.dense(np.arange(graph.num_nodes), x.shape[1])
    return (
        scale[:, None] * a * scale @ torch.tensor(x, dtype=torch.float64) @ learner.encoder.weight.double()
        + learner.encoder.bias
    )


def prototype_loss(support: torch.Tensor, query: torch.Tensor, way: int, slots: list[int]) -> torch.Tensor:
    prototypes = [support[len(support) // way * j : len(support) // way * (j + 1)].mean(0) for j in range(way)]
    losses = []
    for q, j in zip(query, slots):
        logits = torch.stack([-((q - c) ** 2).sum() for c in prototypes])
        losses.append(-torch.log_softmax(logits, 0)[j])
    return torch.stack(losses).mean()


def adapted(learner: TEG, z: torch.Tensor, support: np.ndarray, query: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """One task without padding; the layers themselves are pinned in tests of their own."""
    h = torch.from_numpy(structural_features(learner.graph, ANCHORS, node_names(learner.graph), learner.seed))
    x = F.layer_norm(z.float(), z.shape[1:], learner.norm.weight)
    support, query = support.copy(), query.copy()
    points = (Points(x[ids][None], h[ids][None], torch.ones(1, len(ids))) for ids in (support, query))
    one, two = learner.adaptation(*points)
    return one[0], two[0]


def formula(learner: TEG, episodes: Episodes, update: int) -> torch.Tensor:
    z = whole(learner, update)
    gamma, means = learner.options["gamma"], []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        ids, slots = query[mask], np.nonzero(mask)[0].tolist()
        if not len(ids):
            means.append(z.sum() * 0)
            continue
        one, two = adapted(learner, z, support.ravel(), ids)
        plain = prototype_loss(z[support.ravel()], z[ids], episodes.way, slots)
        means.append(gamma * prototype_loss(one, two, episodes.way, slots) + (1 - gamma) * plain)
    return torch.stack(means).mean()


def graph_of(kind: str) -> Graph:
    sparse = random_graph(density=0.3)
    return sparse if kind == "sparse" else sparse.with_features(sparse.features.toarray())


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("options", [{}, {"dropout": 0.0, "gamma": 0.8}])
def test_the_loss_is_the_formula(kind: str, options: dict[str, object]) -> None:
    learner = moving(TEG(graph_of(kind), way=3, latent=8, seed=1, **options))
    assert learner.graph.sparse_features == (kind == "sparse")
    episodes = supervised(4)
    mask = episodes.mask.copy()
    mask[1, :, 2:], mask[2], mask[3, 0, 0] = False, False, False
    mask.setflags(write=False)
    episodes = Episodes(episodes.support, episodes.query, mask)
    for update in (0, 7):
        loss, expected = learner.loss(episodes, update), formula(learner, episodes, update)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
        assert same_gradients(learner, loss, expected, LAST_BIAS)


def test_both_terms_count(learner: TEG) -> None:
    found = {}
    for gamma in (0.0, 0.25, 1.0):
        learner.options = replace(learner.options, gamma=gamma)
        found[gamma] = learner.loss(supervised(2)).item()
    assert found[0.25] == pytest.approx(0.75 * found[0.0] + 0.25 * found[1.0], rel=1e-5)
    assert abs(found[0.0] - found[1.0]) > 1e-2


def test_missing_queries(learner: TEG) -> None:
    check_missing_queries(moving(TEG(islands(), way=4, latent=8)), formula)
    loss = loss_without_queries(learner, supervised(2))
    assert loss.item() == 0 and not learner.encoder.weight.grad.any()


def test_dropout_is_of_training_and_of_its_update(learner: TEG) -> None:
    episodes = supervised(2)
    assert torch.equal(learner.loss(episodes, 4), learner.loss(episodes, 4))
    assert not torch.equal(learner.loss(episodes, 4), learner.loss(episodes, 5))
    assert torch.allclose(learner.encode_all().double(), whole(learner, None).detach(), atol=1e-5)


def test_blocks_of_nodes_do_not_matter(learner: TEG, monkeypatch: pytest.MonkeyPatch) -> None:
    all_nodes = learner.encode_all()
    monkeypatch.setattr(type(learner.encoder), "BLOCK", 7)
    assert torch.allclose(learner.encode_all(), all_nodes, atol=1e-6)
    assert learner.encode(np.empty(0, dtype=np.int64)).shape == (0, 8)


def tasks_of(graph: Graph, *, way: int = 2, count: int = 9) -> Tasks:
    return sample_tasks(graph, way=way, shot=3, queries=4, count=count, seed=0, classes=SPLIT.base)


def solver() -> TEG:
    return moving(TEG(community_graph().without_labels(), way=2, latent=8, seed=3))


@pytest.mark.parametrize("way", [2, 3])
def test_own_answers_are_the_nearest_adapted_means(way: int) -> None:
    learner, tasks = solver(), tasks_of(community_graph(), way=way)
    found, z = learner.solve(tasks), whole(learner, None)
    assert found.shape == (9, 4 * way) and found.dtype == np.int64
    for t in range(len(tasks)):
        support, query = adapted(learner, z, tasks.support[t], tasks.query[t])
        means = support.view(way, 3, -1).mean(1)
        assert np.array_equal(found[t], torch.cdist(query, means).argmin(1).numpy())
    assert (found == tasks.query_slots).mean() > 0.6
    plain = z.float()[tasks.support.copy()].unflatten(1, (way, 3)).mean(2)
    assert (torch.cdist(z.float()[tasks.query.copy()], plain).argmin(2).numpy() != found).any(), (
        "adaptation must matter here"
    )


def test_a_task_is_solved_alone_as_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, tasks = solver(), tasks_of(community_graph(), count=20)
    found = learner.solve(tasks)
    alone = [learner.solve(Tasks(tasks.support[[t]], tasks.query[[t]], way=2, shot=3))[0] for t in range(20)]
    assert np.array_equal(found, np.stack(alone))
    each = 4 * 8 * 6 * 8 * HIDDEN
    for size in (1, 3 * each, 7 * each):
        monkeypatch.setattr(TEG, "SOLVE_BYTES", size)
        assert np.array_equal(learner.solve(tasks), found)


def test_own_answers_do_not_read_the_slots_of_queries() -> None:
    """Queries in another order get the same answers in that order."""
    learner, tasks = solver(), tasks_of(community_graph())
    order = np.random.default_rng(0).permutation(8)
    shuffled = Tasks(tasks.support, tasks.query[:, order], way=2, shot=3)
    assert np.array_equal(learner.solve(shuffled), learner.solve(tasks)[:, order])


def test_renumbered_nodes_get_the_same_loss_and_answers() -> None:
    graph = community_graph()
    new_id = np.random.default_rng(0).permutation(graph.num_nodes)
    one, two = (moving(TEG(g.without_labels(), way=2, latent=8)) for g in (graph, relabelled(graph, new_id)))
    episodes = supervised_episodes(graph.labels, SPLIT.base, way=2, shot=2, queries=3, count=3)
    moved = Episodes(new_id[episodes.support], new_id[episodes.query], episodes.mask)
    assert one.loss(episodes, 5).item() == pytest.approx(two.loss(moved, 5).item(), rel=1e-5)
    tasks = tasks_of(graph)
    assert np.array_equal(one.solve(tasks), two.solve(tasks.relabelled(new_id)))


def test_a_step_is_adam_with_decay_and_lowers_the_loss() -> None:
    learner, twin = (TEG(random_graph(), way=3, latent=16, seed=1, lr=1e-2) for _ in range(2))
    plain = torch.optim.Adam(twin.parameters(), lr=1e-2, weight_decay=5e-4)
    losses = check_steps(learner, twin, [supervised(1)] * 60, plain)
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


def test_initial_weights() -> None:
    one, two, other = (TEG(random_graph(), way=3, latent=8, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
    assert torch.equal(one._structure, two._structure) and not torch.equal(one._structure, other._structure)
    assert not torch.equal(one.encoder.weight, other.encoder.weight) and not one.encoder.bias.any()
    limit = (6 / (20 + 8)) ** 0.5
    assert 0.9 * limit < one.encoder.weight.abs().max().item() <= limit
    assert repr(one.encoder) == "OneLayerGCN(20 -> 8)"


def test_options_and_registry() -> None:
    assert LEARNERS["teg"] is TEG and TEG.also_solves and TEG.transductive and not TEG.solves_tasks
    assert TEG(random_graph(), way=3)._structure.shape == (60, 16), "more anchors than halvings of 60 nodes"
    for given, message in (
        ({"dropout": 1.0}, "dropout of teg is 1.0; expected at least 0 and below 1"),
        ({"gamma": 1.5}, "gamma of teg is 1.5; expected at least 0 and at most 1"),
    ):
        with pytest.raises(OptionError, match=message):
            TEG(random_graph(), way=3, **given)
    with pytest.raises(
        OptionError, match="teg cannot be trained on g-umtra episodes: a support and its query are the same"
    ):
        get_method("g-umtra/teg")
    with pytest.raises(OptionError, match=r"the graph has nodes 0\.\.59"):
        TEG(random_graph(), way=3).solve(Tasks(np.array([[0, 99]]), np.array([[1, 2]]), way=2, shot=1))
