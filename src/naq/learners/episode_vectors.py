"""The vectors of a batch of episodes and what learners do with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from naq.episodes import Episodes
from naq.learners.base import Learner
from naq.nn import Operator


def kept_queries(episodes: Episodes, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Episode and slot of every kept query, and its column, in the order of ``episodes.query[episodes.mask]``."""
    episode, slot, column = np.nonzero(episodes.mask)
    return torch.from_numpy(episode).to(device), torch.from_numpy(slot).to(device), column


def encode_episodes(
    learner: Learner,
    episodes: Episodes,
    update: int,
    encode: Callable[[np.ndarray, Operator], torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Support vectors (count, way, shot, h), vectors of the kept queries (m, h), and their episode and slot (m,) each.

    Every node is encoded once; under g-UMTRA the queries of column j are read on the j-th augmented graph.
    ``encode`` gives the vectors of nodes on a view of the graph; the learner's encoder if None.
    """
    encode = encode or learner.encoder.encode
    views = learner.query_operators(episodes, update)
    episode, slot, column = kept_queries(episodes, learner.device)
    supports, queries = episodes.support.ravel(), episodes.query[episodes.mask]
    shape = (len(episodes), episodes.way, episodes.shot, -1)
    if views == [learner.operator]:
        nodes, place = np.unique(np.concatenate([supports, queries]), return_inverse=True)
        vectors = encode(nodes, learner.operator)[torch.from_numpy(place).to(learner.device)]
        return vectors[: len(supports)].view(shape), vectors[len(supports) :], episode, slot
    support = encode(supports, learner.operator).view(shape)
    query = support.new_zeros(len(queries), support.shape[-1])
    for number, view in enumerate(views):
        mine = np.flatnonzero(column == number)
        query = query.index_copy(0, torch.from_numpy(mine).to(learner.device), encode(queries[mine], view))
    return support, query, episode, slot


def mean_by_episode(each: torch.Tensor, episode: torch.Tensor, count: int) -> torch.Tensor:
    """Mean over episodes of the mean over their own kept queries; an episode without any counts as 0."""
    kept = torch.bincount(episode, minlength=count)
    total = torch.zeros(count, dtype=each.dtype, device=each.device).index_add_(0, episode, each)
    return (total / kept.clamp(min=1)).mean()


def squared_distances(queries: torch.Tensor, prototypes: torch.Tensor, episode: torch.Tensor) -> torch.Tensor:
    """(queries, way) squared distances of each query to the prototypes of its own episode."""
    if len(prototypes) == 1:
        dots = queries @ prototypes[0].T
    else:
        dots = torch.einsum("qd,qwd->qw", queries, prototypes[episode])
    return queries.pow(2).sum(1, keepdim=True) + prototypes.pow(2).sum(2)[episode] - 2 * dots
