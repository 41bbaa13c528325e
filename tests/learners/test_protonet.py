from __future__ import annotations

import numpy as np
import pytest
import torch

from dense_views import augmented_episodes, dense_graphs, normalised
from gradients import check_steps, move_biases
from graphs import islands, random_graph
from naq import Episodes, diffusion_neighbors, naq_episodes, supervised_episodes
from naq.errors import OptionError
from naq.learners import LEARNERS
from naq.learners.protonet import ProtoNet, squared_distances


def dense_vectors(learner: ProtoNet, adjacency: np.ndarray, features: np.ndarray) -> torch.Tensor:
    """The whole graph in dense double precision."""
    a_hat, x, gcn = torch.from_numpy(normalised(adjacency)), torch.from_numpy(features).double(), learner.encoder
    hidden = torch.relu(a_hat @ x @ gcn.weight1.double() + gcn.bias1)
    return torch.relu(a_hat @ hidden @ gcn.weight2.double() + gcn.bias2)


def formula(learner: ProtoNet, episodes: Episodes, update: int = 0) -> torch.Tensor:
    """Mean loss of the episodes, query by query, from vectors of the whole graph and of its views."""
    z, *views = (dense_vectors(learner, *graph) for graph in dense_graphs(learner, episodes, update))
    means = []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        prototypes = [torch.stack([z[s] for s in slot]).mean(0) for slot in support]
        losses = []
        for j in range(episodes.way):
            for view, q, kept in zip(views, query[j], mask[j]):
                if kept:
                    logits = torch.stack([-((view[q] - c) ** 2).sum() for c in prototypes])
                    losses.append(-torch.log_softmax(logits, 0)[j])
        means.append(torch.stack(losses).mean() if losses else z.sum() * 0)
    return torch.stack(means).mean()


@pytest.fixture
def learner() -> ProtoNet:
    learner = ProtoNet(random_graph(), way=3, latent=24, seed=1)
    move_biases(learner.encoder.bias1, learner.encoder.bias2)
    return learner


def supervised(count: int, shot: int = 2) -> Episodes:
    return supervised_episodes(random_graph().labels, range(3), way=3, shot=shot, queries=5, count=count)


def gradients(learner: ProtoNet, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(learner.parameters())))


def same_gradients(learner: ProtoNet, one: torch.Tensor, two: torch.Tensor) -> bool:
    pairs = zip(gradients(learner, one), gradients(learner, two))
    return all(torch.allclose(a, b, atol=1e-4 * float(b.abs().max())) for a, b in pairs)


@pytest.mark.parametrize("shot", [1, 2])
def test_the_loss_is_the_formula(learner: ProtoNet, shot: int) -> None:
    for t in range(3):
        episode = supervised(3, shot)[t : t + 1]
        loss, expected = learner.loss(episode), formula(learner, episode)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
        assert same_gradients(learner, loss, expected)


@pytest.mark.parametrize("shot", [1, 2])
def test_under_g_umtra_queries_are_read_on_their_own_view(learner: ProtoNet, shot: int) -> None:
    episodes = augmented_episodes(60, shot=shot)
    for update in (0, 5):
        loss, expected = learner.loss(episodes, update), formula(learner, episodes, update)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
        assert same_gradients(learner, loss, expected)
    assert learner.loss(episodes, 0) != learner.loss(episodes, 5)


def test_masked_queries_do_not_count() -> None:
    learner = ProtoNet(islands(), way=4, latent=16)
    table = diffusion_neighbors(islands(), k=6)
    for t in range(8):
        episode = naq_episodes(table, way=4, queries=6, count=8)[t : t + 1]
        loss, expected = learner.loss(episode), formula(learner, episode)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
        other = Episodes(episode.support, np.where(episode.mask, episode.query, 5), episode.mask)
        assert torch.equal(learner.loss(other), loss)
    assert not naq_episodes(table, way=4, queries=6, count=8).mask.all()


def test_all_queries_masked_is_a_zero_loss_with_zero_gradient(learner: ProtoNet) -> None:
    episodes = supervised(2)
    masked = Episodes(episodes.support, np.full_like(episodes.query, -1), np.zeros_like(episodes.mask))
    loss = learner.loss(masked)
    assert loss.item() == 0
    loss.backward()
    assert all(p.grad is not None and not p.grad.any() for p in learner.parameters())


def test_several_episodes_are_the_mean_of_single_losses(learner: ProtoNet) -> None:
    episodes = supervised(5)
    mask = episodes.mask.copy()
    mask[0, :, 2:], mask[3] = False, False
    episodes = Episodes(episodes.support, episodes.query, mask)
    singles = torch.stack([learner.loss(episodes[t : t + 1]) for t in range(5)])
    together = learner.loss(episodes)
    assert singles[3].item() == 0
    assert together.item() == pytest.approx(singles.mean().item(), rel=1e-5)
    assert same_gradients(learner, together, singles.mean())


def test_squared_distances_are_the_broadcast() -> None:
    queries, prototypes = torch.randn(9, 5), torch.randn(4, 3, 5)
    episode = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3, 3])
    expected = ((queries[:, None] - prototypes[episode]) ** 2).sum(-1)
    assert torch.allclose(squared_distances(queries, prototypes, episode), expected, atol=1e-5)
    one = squared_distances(queries, prototypes[:1], torch.zeros(9, dtype=torch.long))
    assert torch.allclose(one, ((queries[:, None] - prototypes[0]) ** 2).sum(-1), atol=1e-5)


def test_steps_lower_the_loss_and_are_seeded() -> None:
    runs = []
    for _ in range(2):
        learner = ProtoNet(random_graph(), way=3, latent=24, lr=3e-3, seed=1)
        optimizer = learner.optimizer()
        runs.append([float(learner.step(supervised(1), update, optimizer)) for update in range(40)])
    assert runs[0] == runs[1]
    assert runs[0][-1] < 0.5 * runs[0][0]


def test_a_step_is_plain_adam() -> None:
    learner, twin = (ProtoNet(random_graph(), way=3, latent=24, seed=1) for _ in range(2))
    batches = [supervised(3)[update : update + 1] for update in range(3)]
    check_steps(learner, twin, batches, torch.optim.Adam(twin.parameters(), lr=1e-4))


def test_options_and_registry() -> None:
    assert LEARNERS["protonet"] is ProtoNet
    assert ProtoNet(random_graph(), way=3).options == ProtoNet.Options(latent=256, lr=1e-4)
    with pytest.raises(OptionError, match="protonet has no option 'latnt'; did you mean latent"):
        ProtoNet(random_graph(), way=3, latnt=3)
    with pytest.raises(OptionError, match="latent of protonet is -1"):
        ProtoNet(random_graph(), way=3, latent=-1)
