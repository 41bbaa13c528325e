"""GPN's loss and weights of supports by formula, in double precision on the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dense_views import CASES, dense_graphs, episodes_of, two_layers
from gradients import check_loss
from graphs import random_graph
from naq import Episodes
from naq.learners.gpn import GPN
from naq.learners.node_draws import NodeDropout, node_names
from naq.learners.protonet import ProtoNet
from naq.nn import GCN
from naq.random import word


def make(**options: float) -> GPN:
    return GPN(random_graph(), way=3, latent=8, seed=1, **options)


def network(
    learner: GPN, gcn: GCN, purpose: str, update: int | None, last_relu: bool, read: tuple[np.ndarray, np.ndarray]
) -> torch.Tensor:
    """Vectors on adjacency and features, hidden values dropped by node and unit."""
    share, drawn = learner.options.dropout, word(learner.seed, f"gpn/dropout/{purpose}", update or 0)

    def between(values: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(values)
        if update is None or not share:
            return hidden
        drop = NodeDropout(node_names(learner.graph), share, drawn)
        return hidden * torch.from_numpy(drop.dense(np.arange(60), hidden.shape[1]))

    out = two_layers(gcn, *read, between)
    return torch.relu(out) if last_relu else out


def weights_of_class(learner: GPN, scores: torch.Tensor, nodes: np.ndarray) -> torch.Tensor:
    degrees = [float(learner.graph.adjacency[[v]].sum()) for v in nodes]
    each = [1 / (1 + torch.exp(-np.log(degree + 1) * scores[v])) for v, degree in zip(nodes, degrees)]
    return torch.stack(each) / torch.stack(each).sum()


def formula(learner: GPN, episodes: Episodes, update: int) -> torch.Tensor:
    """Query by query; under g-UMTRA each column of queries on its view, with its own dropout."""
    augmented, graphs = episodes.info.get("kind") == "g-umtra", dense_graphs(learner, episodes, update)
    z, *views = (
        network(learner, learner.encoder, f"encoder/{number if augmented else 0}", update, False, read)
        for number, read in enumerate(graphs)
    )
    inner = network(learner, learner.valuator, "valuator", update, True, graphs[0])
    scores = inner @ learner.score_weight.double() + learner.score_bias.double()
    means = []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        prototypes = [(weights_of_class(learner, scores, s)[:, None] * z[s]).sum(0) for s in support]
        losses = []
        for j, column in zip(*np.nonzero(mask)):
            logits = torch.stack([-((views[column][query[j, column]] - c) ** 2).sum() for c in prototypes])
            losses.append(-torch.log_softmax(logits, 0)[j])
        means.append(torch.stack(losses).mean() if losses else z.sum() * 0)
    return torch.stack(means).mean()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_formula(case: str, dropout: float) -> None:
    learner, episodes = make(dropout=dropout), episodes_of(case)
    for update in (0, 7):
        loss, expected = learner.loss(episodes, update), formula(learner, episodes, update)
        if episodes.shot > 1:
            check_loss(learner, loss, expected, free="encoder.bias2")
        else:  # the valuator has no gradient
            check_loss(learner.encoder, loss, expected, free="bias2")
    assert torch.equal(learner.loss(episodes, 4), learner.loss(episodes, 4))


def test_importance_by_hand() -> None:
    learner, support = make(), np.array([[[0, 5, 59], [1, 2, 3]]])
    with torch.no_grad():
        learner.score_weight.zero_()
        learner.score_bias.fill_(0.7)
    found = learner.importance(support).detach().numpy()
    raw = 1 / (1 + np.exp(-0.7 * np.log(learner.graph.degrees[support] + 1)))
    assert np.allclose(found, raw / raw.sum(axis=2, keepdims=True), atol=1e-6)
    assert learner.graph.degrees[59] == 0 and raw[0, 0, 2] == 0.5
    with torch.no_grad():
        learner.score_bias.fill_(-1e4)
    extreme = learner.importance(support)
    assert bool(torch.isfinite(extreme).all()) and torch.allclose(extreme.sum(2), torch.ones(1, 2))


def test_one_shot_leaves_the_valuator_alone() -> None:
    learner, episodes = make(), episodes_of("one shot")
    assert torch.equal(learner.importance(episodes.support), torch.ones(3, 3, 1))
    for case, trained in (("one shot", False), ("three shots", True)):
        learner.zero_grad()
        learner.loss(episodes_of(case), 3).backward()
        valuator = [*learner.valuator.parameters(), learner.score_weight, learner.score_bias]
        assert all((p.grad is not None and bool(p.grad.any())) == trained for p in valuator)
        assert all(p.grad is not None and p.grad.any() for p in learner.encoder.parameters())


def test_one_shot_without_dropout_is_protonet_with_a_linear_end() -> None:
    plain, episodes = make(dropout=0.0), episodes_of("one shot")
    twin = ProtoNet(random_graph(), way=3, latent=8)
    twin.encoder.load_state_dict(plain.encoder.state_dict())
    twin.encoder.activate = False
    assert plain.loss(episodes).item() == pytest.approx(twin.loss(episodes).item(), rel=1e-5)


def test_heads_read_vectors_without_dropout() -> None:
    learner = make()
    graph = learner.graph
    expected = network(
        learner, learner.encoder, "", None, False, (graph.adjacency.toarray(), graph.features.toarray())
    ).detach()
    assert torch.allclose(learner.encode_all().double(), expected, atol=1e-5)
    assert bool((expected < 0).any()), "the vectors end linearly"


def test_initial_weights() -> None:
    one, other = make(), GPN(random_graph(), way=3, latent=8, seed=2)
    assert not torch.equal(one.encoder.weight1, other.encoder.weight1)
    assert not torch.equal(one.encoder.weight1, one.valuator.weight1)
    for gcn in (one.encoder, one.valuator):
        for tensor, width in ((gcn.weight1, 16), (gcn.bias1, 16), (gcn.weight2, 8), (gcn.bias2, 8)):
            assert 0.6 * width**-0.5 < tensor.abs().max().item() <= width**-0.5
    assert not one.encoder.activate and one.valuator.activate
