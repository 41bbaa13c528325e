"""What learners do with queries that are missing."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from graphs import islands
from naq.episodes import Episodes, naq_episodes
from naq.learners import Learner
from naq.neighbors import diffusion_neighbors


def check_missing_queries(learner: Learner, formula: Callable[[Learner, Episodes, int], torch.Tensor]) -> None:
    """A learner on :func:`graphs.islands` with four classes counts the kept queries only, whatever stands in place of the others."""
    episodes = naq_episodes(diffusion_neighbors(islands(), k=6), way=4, queries=6, count=8)
    assert not episodes.mask.all()
    assert learner.loss(episodes, 1).item() == pytest.approx(formula(learner, episodes, 1).item(), rel=1e-4)
    filled = Episodes(episodes.support, np.where(episodes.mask, episodes.query, 5), episodes.mask)
    assert torch.equal(learner.loss(filled, 1), learner.loss(episodes, 1))


def loss_without_queries(learner: Learner, like: Episodes) -> torch.Tensor:
    """The loss where all queries are missing, after its gradient was taken."""
    loss = learner.loss(Episodes(like.support, np.full_like(like.query, -1), np.zeros_like(like.mask)))
    loss.backward()
    return loss
