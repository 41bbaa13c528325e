"""What all learners share; ``tests/test_testing.py`` runs the generic checks over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dense_views import episodes_of
from graphs import random_graph
from naq.errors import OptionError
from naq.learners import LEARNERS, Learner
from naq.learners.base import squared_distances
from naq.learners.protonet import ProtoNet
from naq.methods import get_method, methods

SMALL = {"latent": 8, "hidden": 8}


def make(name: str, **options: Any) -> Learner:
    kind = LEARNERS[name]
    small = {name: value for name, value in SMALL.items() if name in kind.defaults}
    return kind(random_graph().without_labels(), way=3, seed=1, **small, **options)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_optimiser_is_adam_at_the_rate_and_decay_of_the_learner(name: str) -> None:
    given = {"lr": 0.02, "weight_decay": 0.1}
    learner = make(name, **{key: value for key, value in given.items() if key in LEARNERS[name].defaults})
    optimizer = learner.optimizer()
    (group,) = optimizer.param_groups
    assert type(optimizer) is torch.optim.Adam and group["lr"] == 0.02
    assert group["weight_decay"] == (0.1 if "weight_decay" in LEARNERS[name].defaults else 0.0)
    assert {id(p) for p in group["params"]} == {id(p) for p in learner.parameters()}


@pytest.mark.parametrize("name", LEARNERS)
def test_steps_lower_the_loss(name: str) -> None:
    learner, episodes = make(name, lr=1e-2), episodes_of("three shots")
    optimizer = learner.optimizer()
    losses = [float(learner.step(episodes, update, optimizer)) for update in range(40)]
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])


@pytest.mark.parametrize("name", ["gmeta", "glitter", "maml", "tent"])
def test_a_classifier_takes_the_way_it_was_made_for(name: str) -> None:
    other = LEARNERS[name](random_graph().without_labels(), way=4)
    with pytest.raises(OptionError, match="way"):
        other.loss(episodes_of("one shot"))


def test_methods_by_name() -> None:
    assert {"naq-feat/protonet", "naq-diff/glitter", "supervised/gpn", "g-umtra/maml", "smooth"} <= set(methods())
    assert get_method("teg").name == "supervised/teg" and get_method("teg").reads_base_labels
    assert not get_method("naq-diff/protonet").reads_base_labels
    with pytest.raises(OptionError, match="naq-feat/protonet"):
        get_method("naq-feat/protonett")
    for name in ("teg", "glitter", "cosmic"):
        with pytest.raises(OptionError, match=LEARNERS[name].unfit["g-umtra"][:20]):
            get_method(f"g-umtra/{name}")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(OptionError, match="protonet"):
        LEARNERS.register(type("Other", (ProtoNet,), {}))
    assert LEARNERS.register(ProtoNet) is ProtoNet


def test_squared_distances_are_the_broadcast() -> None:
    queries, prototypes = torch.randn(9, 5), torch.randn(4, 3, 5)
    for count, episode in ((4, torch.tensor([0, 0, 1, 1, 1, 2, 3, 3, 3])), (1, torch.zeros(9, dtype=torch.long))):
        expected = ((queries[:, None] - prototypes[:count][episode]) ** 2).sum(-1)
        assert torch.allclose(squared_distances(queries, prototypes[:count], episode), expected, atol=1e-5)
