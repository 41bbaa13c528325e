from __future__ import annotations

import numpy as np
import pytest
import torch

from dense_views import augmented_episodes, dense_graphs, normalised
from gradients import check_steps, same_gradients
from graphs import islands, random_graph
from methods_under_test import community_graph
from missing_queries import check_missing_queries, loss_without_queries
from naq import Episodes, supervised_episodes
from naq.episodes import umtra_episodes
from naq.errors import OptionError
from naq.learners import LEARNERS
from naq.learners.gpn import GPN
from naq.learners.node_draws import NodeDropout, node_names
from naq.learners.protonet import ProtoNet
from naq.nn import GCN
from naq.random import word

LAST_BIAS = "encoder.bias2"


def supervised(count: int, shot: int = 3) -> Episodes:
    return supervised_episodes(random_graph().labels, range(3), way=3, shot=shot, queries=5, count=count)


@pytest.fixture
def learner() -> GPN:
    return GPN(random_graph(), way=3, latent=8, seed=1)


def network(
    learner: GPN,
    gcn: GCN,
    purpose: str,
    update: int | None,
    last_relu: bool,
    read: tuple[np.ndarray, np.ndarray] | None = None,
) -> torch.Tensor:
    """The whole graph (or ``read``, a view of it: adjacency and features) in dense double precision, hidden values dropped by node and
    unit."""
    graph = learner.graph
    adjacency, features = read or (graph.adjacency.toarray(), graph.features.toarray())
    a_hat, x = torch.from_numpy(normalised(adjacency)), torch.from_numpy(features).double()
    hidden = torch.relu(a_hat @ x @ gcn.weight1.double() + gcn.bias1)
    share = learner.options["dropout"]
    if update is not None and share:
        drop = NodeDropout(node_names(graph), share, word(learner.seed, f"gpn/dropout/{purpose}", update))
        hidden = hidden * torch.from_numpy(drop.dense(np.arange(graph.num_nodes), hidden.shape[1]))
    out = a_hat @ hidden @ gcn.weight2.double() + gcn.bias2
    return torch.relu(out) if last_relu else out


def weights_of_class(learner: GPN, scores: torch.Tensor, nodes: np.ndarray) -> torch.Tensor:
    each = []
    for v in nodes:
        degree = float(learner.graph.adjacency[[v]].sum())
        each.append(1 / (1 + torch.exp(-np.log(degree + 1) * scores[v])))
    return torch.stack(each) / torch.stack(each).sum()


def formula(learner: GPN, episodes: Episodes, update: int) -> torch.Tensor:
    """Mean over episodes of the loss, query by query; under g-UMTRA each query column on its view, with a dropout of its own."""
    augmented = episodes.info.get("kind") == "g-umtra"
    z, *views = (
        network(learner, learner.encoder, f"encoder/{number if augmented else 0}", update, False, read)
        for number, read in enumerate(dense_graphs(learner, episodes, update))
    )
    inner = network(learner, learner.valuator, "valuator", update, last_relu=True)
    scores = inner @ learner.score_weight.double() + learner.score_bias.double()
    means = []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        prototypes = [(weights_of_class(learner, scores, s)[:, None] * z[s]).sum(0) for s in support]
        losses = []
        for j in range(episodes.way):
            for column in np.flatnonzero(mask[j]):
                own = views[column][query[j, column]]
                logits = torch.stack([-((own - c) ** 2).sum() for c in prototypes])
                losses.append(-torch.log_softmax(logits, 0)[j])
        means.append(torch.stack(losses).mean() if losses else z.sum() * 0)
    return torch.stack(means).mean()


@pytest.mark.parametrize("options", [{}, {"dropout": 0.0}, {"dropout": 0.2}])
def test_the_loss_is_the_formula(options: dict[str, object]) -> None:
    learner = GPN(random_graph(), way=3, latent=8, seed=1, **options)
    episodes = supervised(4)
    mask = episodes.mask.copy()
    mask[1, :, 2:], mask[2] = False, False
    episodes = Episodes(episodes.support, episodes.query, mask)
    for update in (0, 7):
        loss, expected = learner.loss(episodes, update), formula(learner, episodes, update)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
        assert same_gradients(learner, loss, expected, LAST_BIAS)


def test_importance_by_hand() -> None:
    learner = GPN(random_graph(), way=3, latent=8, seed=1)
    with torch.no_grad():
        learner.score_weight.zero_()
        learner.score_bias.fill_(0.7)
    support = np.array([[[0, 5, 59], [1, 2, 3]]])
    found = learner.importance(support).detach().numpy()
    raw = 1 / (1 + np.exp(-0.7 * np.log(learner.graph.degrees[support] + 1)))
    assert np.allclose(found, raw / raw.sum(axis=2, keepdims=True), atol=1e-6)
    assert learner.graph.degrees[59] == 0 and raw[0, 0, 2] == 0.5


def test_scores_of_any_size_give_weights() -> None:
    learner = GPN(random_graph(), way=3, latent=8)
    with torch.no_grad():
        learner.score_bias.fill_(-1e4)
    found = learner.importance(supervised(2).support)
    assert bool(torch.isfinite(found).all()) and torch.allclose(found.sum(2), torch.ones(2, 3))


def test_one_shot_leaves_the_valuator_alone(learner: GPN) -> None:
    episodes = supervised(2, shot=1)
    assert torch.equal(learner.importance(episodes.support), torch.ones(2, 3, 1))
    loss = learner.loss(episodes, 3)
    assert loss.item() == pytest.approx(formula(learner, episodes, 3).item(), rel=1e-4)
    loss.backward()
    assert all(p.grad is None for p in [*learner.valuator.parameters(), learner.score_weight, learner.score_bias])
    assert all(p.grad is not None and p.grad.any() for p in learner.encoder.parameters())
    learner.zero_grad()
    learner.loss(supervised(2), 3).backward()
    assert all(p.grad is not None and p.grad.any() for p in learner.valuator.parameters())


def test_one_shot_without_dropout_is_protonet_with_a_linear_end(learner: GPN) -> None:
    plain = GPN(random_graph(), way=3, latent=8, seed=1, dropout=0.0)
    twin = ProtoNet(random_graph(), way=3, latent=8)
    twin.encoder.load_state_dict(plain.encoder.state_dict())
    twin.encoder.activate = False
    episodes = supervised(2, shot=1)
    assert plain.loss(episodes).item() == pytest.approx(twin.loss(episodes).item(), rel=1e-5)


def test_missing_queries(learner: GPN) -> None:
    check_missing_queries(GPN(islands(), way=4, latent=8), formula)
    loss = loss_without_queries(learner, supervised(2))
    assert loss.item() == 0 and not any(p.grad.any() for p in learner.encoder.parameters())


def test_dropout_is_of_training_and_of_its_update(learner: GPN) -> None:
    episodes = supervised(2)
    assert torch.equal(learner.loss(episodes, 4), learner.loss(episodes, 4))
    assert not torch.equal(learner.loss(episodes, 4), learner.loss(episodes, 5))
    expected = network(learner, learner.encoder, "encoder/0", None, last_relu=False)
    assert torch.allclose(learner.encode_all().double(), expected.detach(), atol=1e-5)
    assert bool((expected < 0).any()), "the vectors end linearly"


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("shot", [1, 3])
def test_under_g_umtra_queries_are_read_on_their_own_view(shot: int, dropout: float) -> None:
    learner = GPN(random_graph(), way=3, latent=8, seed=1, dropout=dropout)
    episodes = augmented_episodes(60, shot=shot)
    for update in (0, 5):
        loss, expected = learner.loss(episodes, update), formula(learner, episodes, update)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
        if shot > 1:  # with one, the valuator has no gradient
            assert same_gradients(learner, loss, expected, LAST_BIAS)
        else:
            assert same_gradients(learner.encoder, loss, expected, "bias2")


def test_under_g_umtra_every_view_drops_values_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph().without_labels()
    learner = GPN(graph, way=2, latent=8)
    drawn: list[str] = []
    plain = GPN.dropout
    monkeypatch.setattr(GPN, "dropout", lambda self, what, update: drawn.append(what) or plain(self, what, update))
    episodes = umtra_episodes(graph.num_nodes, way=2, views=3, count=2)
    loss = learner.loss(episodes, 0)
    assert torch.isfinite(loss) and drawn == [f"encoder/{number}" for number in range(4)]
    assert torch.equal(loss, learner.loss(episodes, 0))


def test_initial_weights() -> None:
    one, two, other = (GPN(random_graph(), way=3, latent=8, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
    assert not torch.equal(one.encoder.weight1, other.encoder.weight1)
    assert not torch.equal(one.encoder.weight1, one.valuator.weight1)
    for gcn in (one.encoder, one.valuator):
        for tensor, width in ((gcn.weight1, 16), (gcn.bias1, 16), (gcn.weight2, 8), (gcn.bias2, 8)):
            assert 0.6 * width**-0.5 < tensor.abs().max().item() <= width**-0.5
    assert not one.encoder.activate and one.valuator.activate and one.encoder.hidden == 16


def test_one_adam_is_two_of_the_same_settings() -> None:
    learner, twin = (GPN(random_graph(), way=3, latent=8, seed=1) for _ in range(2))
    valuator = [*twin.valuator.parameters(), twin.score_weight, twin.score_bias]
    both = [torch.optim.Adam(p, lr=0.005, weight_decay=5e-4) for p in (twin.encoder.parameters(), valuator)]
    check_steps(learner, twin, [supervised(4)[update : update + 1] for update in range(4)], *both)


def test_steps_lower_the_loss() -> None:
    learner = GPN(random_graph(), way=3, latent=16, seed=1)
    optimizer = learner.optimizer()
    losses = [float(learner.step(supervised(1), update, optimizer)) for update in range(40)]
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


def test_options_and_registry() -> None:
    assert LEARNERS["gpn"] is GPN
    bad = [({"dropout": 1.0}, "dropout of gpn is 1.0; expected at least 0 and below 1"), ({"latent": 0}, "latent"),
           ({"weight_decay": -1.0}, "weight_decay of gpn is -1.0; expected at least 0")]  # fmt: skip
    for given, message in bad:
        with pytest.raises(OptionError, match=message):
            GPN(random_graph(), way=3, **given)
