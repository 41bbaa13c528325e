"""COSMIC against plain, dense arithmetic, one sub-graph and one pair of views at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import methods_under_test as suite
import naq
import naq.learners.cosmic as cosmic
from graphs import islands, random_graph
from naq import Episodes, Graph, diffusion_neighbors, naq_episodes, supervised_episodes
from naq.errors import OptionError
from naq.learners.cosmic import Cosmic, beta_draws, contrastive_loss, draw_extra
from naq.learners.cosmic.subgraphs import centre_weights, directions, induced_edges, normalized_blocks
from naq.neighbors.power import ppr_subgraphs


@pytest.fixture
def learner() -> Cosmic:
    return trained_a_little(Cosmic(random_graph(), way=3, hidden=24, seed=1, mode="none"))


def trained_a_little(learner: Cosmic) -> Cosmic:
    """Bias and slopes that are not all the same, so that a mistake in them shows."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        learner.encoder.bias += 0.05 * torch.randn(learner.encoder.hidden, generator=generator)
        learner.encoder.slope += 0.1 * torch.randn(learner.encoder.hidden, generator=generator)
    return learner


def supervised(count: int, shot: int = 2, seed: int = 0) -> Episodes:
    return supervised_episodes(random_graph().labels, range(3), way=3, shot=shot, queries=5, count=count, seed=seed)


def convolve(learner: Cosmic, x: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """z and s of one sub-graph of any size, the centre first, from its features and edge weights."""
    encoder = learner.encoder
    looped = edges + torch.eye(len(x))
    scale = looped.sum(1) ** -0.5
    rows = torch.diag(scale) @ looped @ torch.diag(scale) @ x @ encoder.weight + encoder.bias
    rows = torch.where(rows >= 0, rows, encoder.slope * rows)
    length = rows.norm(dim=1, keepdim=True)
    rows = torch.where(length > 0, rows / length.clamp(min=1e-30), torch.zeros(()))
    return rows[0], rows.mean(0)


def inside(learner: Cosmic, node: int, size: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and edges of the sub-graph of a node, zero rows up to ``size``."""
    members = learner.encoder.table.ids[node]
    members = members[members >= 0]
    x, a = np.asarray(learner.graph.features.toarray()), learner.graph.adjacency.toarray()
    size = size or len(members)
    features, edges = torch.zeros(size, x.shape[1]), torch.zeros(size, size)
    features[: len(members)] = torch.from_numpy(x[members])
    edges[: len(members), : len(members)] = torch.from_numpy(a[np.ix_(members, members)])
    return features, edges


def double_loop(views: list[torch.Tensor], labels: list[int]) -> torch.Tensor:
    """The loss as the formula says, pair by pair."""
    losses, temperature = [], 0.07
    for a in range(len(views)):
        others = [b for b in range(len(views)) if b != a]
        total = torch.logsumexp(torch.stack([views[a] @ views[b] / temperature for b in others]), 0)
        terms = [views[a] @ views[p] / temperature - total for p in others if labels[p] == labels[a]]
        losses.append(-torch.stack(terms).mean())
    return torch.stack(losses).mean()


def formula(learner: Cosmic, nodes: list[int], labels: list[int], more: list[Any] | None = None) -> torch.Tensor:
    """Loss of nodes with labels, and of further (features, edges, label)."""
    samples = [(*inside(learner, node), label) for node, label in zip(nodes, labels)] + (more or [])
    pairs = [convolve(learner, x, edges) for x, edges, _ in samples]
    views = [z for z, _ in pairs] + [s for _, s in pairs]
    return double_loop(views, 2 * [label for *_, label in samples])


def same_gradients(learner: Cosmic, one: torch.Tensor, two: torch.Tensor) -> bool:
    parameters = list(learner.parameters())
    pairs = zip(torch.autograd.grad(one, parameters), torch.autograd.grad(two, parameters))
    return all(torch.allclose(a, b, atol=1e-4 * float(b.abs().max())) for a, b in pairs)


def labels_of(episode: Episodes) -> list[int]:
    return np.repeat(np.arange(episode.way), episode.shot).tolist()


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("graph", ["random", "islands"])
def test_the_encoder_is_a_convolution_inside_the_sub_graph(graph: str, dense: bool) -> None:
    given = random_graph() if graph == "random" else islands()
    if dense:
        given = given.with_features(given.features.toarray() + 0.5)
    learner = Cosmic(given, way=3, hidden=24, seed=1)
    learner.encoder.table = ppr_subgraphs(given, 6)
    trained_a_little(learner)
    nodes = np.arange(given.num_nodes)
    z, s = learner.encoder.views(learner.encoder.gather(nodes))
    for v in nodes:
        x = given.features if dense else given.features.toarray()
        members = learner.encoder.table.ids[v][learner.encoder.table.ids[v] >= 0]
        edges = torch.from_numpy(given.adjacency.toarray()[np.ix_(members, members)])
        one, mean = convolve(learner, torch.from_numpy(np.array(x[members])), edges)
        assert torch.allclose(z[v], one, atol=1e-5) and torch.allclose(s[v], mean, atol=1e-5)
    assert torch.allclose(learner.encode(nodes), z, atol=1e-5)
    assert torch.allclose(learner.encode_all(), z, atol=1e-5)


def test_encode_in_blocks_and_repeats(learner: Cosmic) -> None:
    whole, nodes = learner.encode_all(), np.array([5, 59, 0, 5, 17])
    assert torch.allclose(learner.encoder.encode(np.arange(60), block=7), whole, atol=1e-6)
    assert torch.allclose(learner.encode(nodes), whole[nodes], atol=1e-6)
    assert learner.encode(np.array([], dtype=int)).shape == (0, 24)
    with pytest.raises(OptionError, match="nodes"):
        learner.encode(np.array([3, 60]))


def test_a_zero_row_stays_zero_and_passes_no_gradient() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    units = directions(rows)
    assert torch.allclose(units, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
    units.sum().backward()
    assert rows.grad is not None and torch.isfinite(rows.grad).all() and not rows.grad[1].any()


def test_nodes_without_words_train() -> None:
    graph = Graph([[0, 1], [1, 2]], np.zeros((6, 4)), nodes=6)
    empty = Cosmic(graph, way=2, hidden=8)
    episode = Episodes(np.array([[[0], [5]]]), np.full((1, 2, 1), -1), np.zeros((1, 2, 1), dtype=bool))
    optimizer = empty.optimizer()
    losses = [float(empty.step(episode, update, optimizer)) for update in range(3)]
    assert np.isfinite(losses).all() and torch.isfinite(empty.encode_all()).all()
    assert not empty.encode_all().any()


@pytest.mark.parametrize("graph", [random_graph(150, 250), random_graph(60, 900), islands()])
def test_edges_and_centre_rows_of_sub_graphs(graph: Graph) -> None:
    members = ppr_subgraphs(graph, 7).ids
    edges, weights = induced_edges(graph.adjacency, members), centre_weights(graph.adjacency, members)
    dense = graph.adjacency.toarray()
    for v, row in enumerate(members):
        kept = row[row >= 0]
        inside = dense[np.ix_(kept, kept)]
        expected = np.zeros((7, 7))
        expected[: len(kept), : len(kept)] = inside
        assert np.array_equal(edges[v], expected)
        looped = inside + np.eye(len(kept))
        scale = 1 / np.sqrt(looped.sum(1))
        assert np.allclose(weights[v, : len(kept)], (scale[:, None] * looped * scale)[0], atol=1e-6)
        assert (weights[v, len(kept) :] == 0).all()


def test_weighted_blocks_are_normalised() -> None:
    edges = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(0))
    edges = (edges + edges.transpose(1, 2)) * (1 - torch.eye(5))
    for block, found in zip(edges, normalized_blocks(edges)):
        looped = block + torch.eye(5)
        degree = looped.sum(1)
        expected = torch.tensor([[looped[i, j] / (degree[i] * degree[j]).sqrt() for j in range(5)] for i in range(5)])
        assert torch.allclose(found, expected, atol=1e-6)


def test_the_contrastive_loss_is_the_double_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(12, 6, generator=generator), dim=1)
    for labels in ([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 1, 2]):
        expected = double_loop(list(features), 2 * labels)
        found = contrastive_loss(features, torch.tensor(2 * labels))
        assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("shot", [1, 2])
def test_the_loss_without_mix_up_is_the_formula(learner: Cosmic, shot: int) -> None:
    for t in range(3):
        episode = supervised(3, shot)[t : t + 1]
        loss = learner.loss(episode)
        expected = formula(learner, episode.support.ravel().tolist(), labels_of(episode))
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
        assert same_gradients(learner, loss, expected)


def test_several_episodes_are_the_mean_of_single_losses() -> None:
    for options in ({}, {"use_queries": True}):
        learner = Cosmic(random_graph(), way=3, hidden=24, mode="none", **options)
        episodes = supervised(4)
        mask = episodes.mask.copy()
        mask[0, :, 2:], mask[3] = False, False
        episodes = Episodes(episodes.support, episodes.query, mask)
        singles = torch.stack([learner.loss(episodes[t : t + 1]) for t in range(4)])
        assert learner.loss(episodes).item() == pytest.approx(singles.mean().item(), rel=1e-5)
    mixing = Cosmic(random_graph(), way=3, hidden=24)
    assert torch.isfinite(mixing.loss(supervised(4)))


def test_queries_are_not_used_unless_asked_for(learner: Cosmic) -> None:
    episode = supervised(1)
    none = Episodes(episode.support, np.full_like(episode.query, -1), np.zeros_like(episode.mask))
    assert torch.equal(learner.loss(none), learner.loss(episode))
    asked = trained_a_little(Cosmic(random_graph(), way=3, hidden=24, seed=1, mode="none", use_queries=True))
    assert torch.equal(asked.loss(none), learner.loss(episode))
    mask = episode.mask.copy()
    mask[0, 1, 2:], mask[0, 2] = False, False
    kept = Episodes(episode.support, np.where(mask, episode.query, -1), mask)
    nodes = episode.support.ravel().tolist() + episode.query[mask].tolist()
    labels = labels_of(episode) + np.nonzero(mask)[1].tolist()
    loss, expected = asked.loss(kept), formula(asked, nodes, labels)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert same_gradients(asked, loss, expected)


def test_masked_queries_under_naq() -> None:
    learner = Cosmic(islands(), way=4, hidden=16, use_queries=True)
    episodes = naq_episodes(diffusion_neighbors(islands(), k=6), way=4, queries=6, count=8)
    assert not episodes.mask.all()
    for t in range(8):
        one = episodes[t : t + 1]
        other = Episodes(one.support, np.where(one.mask, one.query, 5), one.mask)
        assert torch.equal(learner.loss(one, t), learner.loss(other, t))


def test_beta_draws() -> None:
    uniform = np.random.default_rng(0).random(200_000)
    draws = beta_draws(uniform, torch.full((200_000,), 2.69))
    assert draws.mean().item() == pytest.approx(2.69 / 3.69, abs=2e-3)
    assert draws.var().item() == pytest.approx(2.69 / (3.69**2 * 4.69), abs=1e-3)


@pytest.mark.parametrize(("way", "shot"), [(3, 1), (3, 2), (2, 1)])
def test_intended_mix_up_is_the_formula(way: int, shot: int) -> None:
    learner = trained_a_little(Cosmic(random_graph(), way=way, hidden=24, seed=1))
    episode = supervised_episodes(random_graph().labels, range(3), way=way, shot=shot, queries=2, count=1)
    random = naq.random.stream(1, "cosmic/mixup", 7)
    ring = random.permutation(way)
    pairs = [(ring[p], ring[(p + 1) % way]) for p in range(way if way > 2 else 1)]
    uniform = random.random((1, len(pairs), shot))[0]
    support = episode.support[0]
    classes = [torch.stack([convolve(learner, *inside(learner, v))[1] for v in slot]).mean(0) for slot in support]
    more = []
    for number, (i, j) in enumerate(pairs):
        likeness = torch.cosine_similarity(classes[i], classes[j], dim=0).detach()
        for k in range(shot):
            share = float(uniform[number, k]) ** (1 / (10 * torch.sigmoid(-likeness).item()))
            a, b = int(support[i, k]), int(support[j, k])
            size = max(len(inside(learner, a)[0]), len(inside(learner, b)[0]))
            (xa, ea), (xb, eb) = inside(learner, a, size), inside(learner, b, size)
            more.append((share * xa + (1 - share) * xb, share * ea + (1 - share) * eb, way + number))
    expected = formula(learner, support.ravel().tolist(), labels_of(episode), more)
    loss = learner.loss(episode, 7)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert same_gradients(learner, loss, expected)
    assert learner.loss(episode, 8).item() != loss.item()


def many_classes(n: int = 120, classes: int = 8) -> Graph:
    graph = random_graph(n, 260, seed=2)
    labels = np.random.default_rng(0).integers(0, classes, n) * 3
    return graph.with_labels(np.where(labels < 18, labels, -1))


@pytest.mark.parametrize(("way", "shot"), [(3, 1), (6, 2), (6, 5)])
def test_release_mix_up_is_the_formula(way: int, shot: int) -> None:
    graph = many_classes()
    learner = trained_a_little(Cosmic(graph, way=way, hidden=24, seed=1, mode="release", base_labels=graph.labels))
    support = np.random.default_rng(1).permutation(120)[: way * shot].reshape(1, way, shot)
    episode = Episodes(support, np.full((1, way, 1), -1), np.zeros((1, way, 1), dtype=bool))
    random = naq.random.stream(1, "cosmic/mixup", 3)
    extra = draw_extra(learner._pools, random, 1)[0]
    uniform = random.random((1, min(25, way * shot), 20))[0]
    shape = 10 / (1 + np.e)
    assert shape == pytest.approx(2.69, abs=1e-2)
    mixtures = []
    for i in range(min(25, way * shot)):
        share = torch.from_numpy(uniform[i] ** (1 / shape)).float()[:, None]
        xa, xb = inside(learner, int(support.ravel()[i]), 20)[0], inside(learner, int(extra[i]), 20)[0]
        mixtures.append(share * xa + (1 - share) * xb)
    more = [(mixtures[min(i, len(mixtures) - 1)], inside(learner, int(extra[i]), 20)[1], 5 + i // 5) for i in range(25)]
    expected = formula(learner, support.ravel().tolist(), labels_of(episode), more)
    loss = learner.loss(episode, 3)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert same_gradients(learner, loss, expected)


def test_release_draws_from_base_classes_only() -> None:
    graph = many_classes()
    learner = Cosmic(graph, way=3, hidden=8, mode="release", base_labels=graph.labels)
    seen = set()
    for update in range(40):
        extra = draw_extra(learner._pools, naq.random.stream(0, "x", update), 2)
        assert extra.shape == (2, 25)
        for row in extra:
            classes = graph.labels[row].reshape(5, 5)
            assert (classes >= 0).all() and (classes == classes[:, :1]).all() and len(set(classes[:, 0])) == 5
            assert len(set(row.tolist())) == 25
            seen |= set(classes[:, 0].tolist())
    assert seen == {0, 3, 6, 9, 12, 15}
    blind = Cosmic(graph, way=3, hidden=8, mode="release")
    extra = draw_extra(blind._pools, naq.random.stream(0, "x", 0), 3)
    assert extra.shape == (3, 25) and all(len(set(row.tolist())) == 25 for row in extra)


def test_release_needs_enough_to_draw_from_and_no_queries() -> None:
    with pytest.raises(OptionError, match="use_queries"):
        Cosmic(random_graph(), way=3, mode="release", use_queries=True)
    with pytest.raises(OptionError, match="mode"):
        Cosmic(islands(), way=3, hidden=8, mode="release")
    with pytest.raises(OptionError, match="base classes"):
        Cosmic(random_graph(), way=3, hidden=8, mode="release", base_labels=random_graph().labels)


def test_release_does_not_depend_on_the_numbering() -> None:
    graph = suite.community_graph()
    new_id = np.random.default_rng(3).permutation(graph.num_nodes)
    moved = suite.relabelled(graph, new_id)
    support = np.array([[[3], [50], [99]]])
    losses = []
    for each_graph, nodes in ((graph, support), (moved, new_id[support])):
        for labelled in (True, False):
            given = each_graph.labels if labelled else None
            learner = Cosmic(each_graph, way=3, hidden=16, mode="release", base_labels=given)
            episode = Episodes(nodes, np.full((1, 3, 1), -1), np.zeros((1, 3, 1), dtype=bool))
            losses.append(learner.loss(episode, 4).item())
    assert losses[0] == pytest.approx(losses[2], rel=1e-3) and losses[1] == pytest.approx(losses[3], rel=1e-3)
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


def test_large_graphs_use_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path))
    Cosmic(random_graph(), way=3, hidden=8)
    assert not (tmp_path / "tables").exists()
    monkeypatch.setattr(cosmic, "CACHE_FROM", 10)
    one = Cosmic(random_graph(), way=3, hidden=8)
    assert len(list((tmp_path / "tables").iterdir())) == 1
    monkeypatch.setattr("naq.neighbors.power._exact", None)
    two = Cosmic(random_graph(), way=3, hidden=8)
    assert np.array_equal(one.encoder.table.ids, two.encoder.table.ids)


def test_initial_weights() -> None:
    learner = Cosmic(random_graph(), way=3)
    encoder = learner.encoder
    assert encoder.weight.shape == (20, 1024) and encoder.table.k == 20
    assert encoder.weight.abs().max() <= (6 / 1044) ** 0.5 and not encoder.bias.any() and (encoder.slope == 0.25).all()
    assert np.array_equal(encoder.table.ids, ppr_subgraphs(random_graph(), 20).ids)
    assert "20 -> 1024, sub-graphs of 20" in repr(encoder)
    assert not torch.equal(encoder.weight, Cosmic(random_graph(), way=3, seed=1).encoder.weight)
