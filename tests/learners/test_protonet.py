"""ProtoNet's loss query by query, from vectors of the whole graph in double precision."""

from __future__ import annotations

import pytest
import torch

from dense_views import CASES, dense_graphs, episodes_of, two_layers
from gradients import check_loss, move_biases
from graphs import random_graph
from naq import Episodes
from naq.learners.protonet import ProtoNet, prototype_loss


def formula(learner: ProtoNet, episodes: Episodes, update: int) -> torch.Tensor:
    z, *views = (torch.relu(two_layers(learner.encoder, *graph)) for graph in dense_graphs(learner, episodes, update))
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


@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_formula(case: str) -> None:
    learner, episodes = ProtoNet(random_graph(), way=3, latent=24, seed=1), episodes_of(case)
    move_biases(learner.encoder.bias1, learner.encoder.bias2)
    for update in (0, 5):
        check_loss(learner, learner.loss(episodes, update), formula(learner, episodes, update))
    assert (learner.loss(episodes, 0) != learner.loss(episodes, 5)) == case.startswith("augmented")


def test_without_queries_the_loss_and_its_gradient_are_zero() -> None:
    prototypes, none = torch.ones(1, 3, 4, requires_grad=True), torch.empty(0, dtype=torch.int64)
    loss = prototype_loss(prototypes, torch.empty(0, 4), none, none)
    loss.backward()
    assert loss == 0 and prototypes.grad is not None and not prototypes.grad.any()


def test_the_defaults_are_those_of_the_paper() -> None:
    assert dict(ProtoNet(random_graph(), way=3).options) == {"latent": 256, "lr": 1e-4}
    assert ProtoNet(random_graph(), way=3, latent=1).encode_all().shape == (60, 1)
