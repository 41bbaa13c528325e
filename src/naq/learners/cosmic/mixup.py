r"""Mix-up: classes between the classes of an episode, in one of two modes.

- ``intended`` (:func:`mix_pairs`), as the paper describes it: N pairs of different classes of the episode (one where N
  = 2), each pair a new class; shot k of one class is mixed with shot k of the other, features and adjacency, nodes
  matched by their rank in the sub-graph and the centres with each other, by one
  :math:`\lambda \sim \mathrm{Beta}(10\,\sigma(-\cos(c_i, c_j)), 1)` per sub-graph, with :math:`c` the mean s of a
  class. :math:`\mathrm{Beta}(\beta, 1)` is :math:`u^{1/\beta}` of a uniform u, with mean :math:`\beta/(\beta+1)`: from
  0.73 for equal classes to 0.88 for opposite ones.
- ``release`` (:func:`mix_extra`), as it is coded: 25 extra nodes, five of each of five base classes (under NaQ 25
  random nodes); the i-th of the episode's supports is mixed into the features of the i-th extra node with one
  :math:`\lambda \sim \mathrm{Beta}(10\,\sigma(-1), 1)` per row over all rows, absent ones being zero; the adjacency is
  the extra node's; once the supports are used up the last mixture is repeated. Labels are 5 to 9 whatever N is, and so
  collide with real ones where N > 5. The released code draws the extra nodes by class index, validation and test
  classes among them; here they come from the base classes. They are drawn from the nodes in an order by content, not
  by id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F

from naq.errors import OptionError
from naq.graph import Graph
from naq.learners.cosmic.subgraphs import Subgraphs
from naq.random import stream

SPREAD = 10.0
"""Factor of the similarity in the Beta distribution of the mixture."""
EXTRA = 5
"""The release mixes in five classes of five nodes, labelled 5 to 9, whatever the episode is."""

Mixed = tuple[Subgraphs, np.ndarray, np.ndarray]
"""Mixed sub-graphs, their labels, and the episodes they belong to."""


def beta_draws(uniform: np.ndarray, shape: torch.Tensor) -> torch.Tensor:
    """Draws of Beta(shape, 1) by its inverse distribution function: smooth in ``shape``, and always one number each."""
    return torch.from_numpy(uniform).to(shape.device, shape.dtype).pow(1.0 / shape)


def mix_pairs(batch: Subgraphs, pooled: torch.Tensor, shape: tuple[int, ...], random: np.random.Generator) -> Mixed:
    """As the paper means it: class after class of a random ring, so that no pair occurs twice.

    Args:
        batch: begins with the supports of all episodes in their order.
        pooled: the vectors s of them, constant.
        shape: (episodes, way, shot).
    """
    count, way, shot = shape
    device = pooled.device
    pairs = way if way > 2 else 1
    ring = np.stack([random.permutation(way) for _ in range(count)])
    uniform = random.random((count, pairs, shot))
    place = np.arange(count * way * shot).reshape(count, way, shot)
    rows = np.arange(count)[:, None]
    one, two = (torch.from_numpy(place[rows, np.roll(ring, -k, axis=1)[:, :pairs]]).to(device) for k in (0, 1))
    classes = pooled[: count * way * shot].view(count, way, shot, -1).mean(2).view(count * way, -1)
    first, second = (classes[p[:, :, 0].reshape(-1) // shot] for p in (one, two))
    likeness = F.cosine_similarity(first, second).view(count, pairs, 1)
    share = beta_draws(uniform, SPREAD * torch.sigmoid(-likeness)).reshape(-1, 1, 1)
    a, b = batch[one.reshape(-1)], batch[two.reshape(-1)]
    mixed = Subgraphs(
        share * a.inputs + (1 - share) * b.inputs, share * a.edges + (1 - share) * b.edges, a.present | b.present
    )
    owner, label, _ = np.indices((count, pairs, shot)).reshape(3, -1)
    return mixed, way + label, owner


def mix_extra(batch: Subgraphs, shape: tuple[int, ...], random: np.random.Generator) -> Mixed:
    """As it is coded.

    Args:
        batch: the supports of all episodes in their order, then the extra nodes of :func:`draw_extra`.
        shape: (episodes, way, shot).
    """
    count, way, shot = shape
    device = batch.inputs.device
    samples, extras = way * shot, EXTRA * EXTRA
    uniform = random.random((count, min(samples, extras), batch.present.shape[1]))
    last = np.minimum(np.arange(extras), samples - 1)
    episode = np.arange(count)[:, None]
    supports, others = episode * samples + last, count * samples + episode * extras + last
    own = count * samples + np.arange(count * extras)
    i, j, own_rows = (torch.from_numpy(p.ravel()).to(device) for p in (supports, others, own))
    beta = torch.full((), SPREAD, device=device) * torch.sigmoid(-torch.ones((), device=device))
    share = beta_draws(uniform[:, last].reshape(count * extras, -1, 1), beta)
    mixed = Subgraphs(
        share * batch[i].inputs + (1 - share) * batch[j].inputs,
        batch[own_rows].edges,
        torch.ones_like(batch[own_rows].present),
    )
    owner, label, _ = np.indices((count, EXTRA, EXTRA)).reshape(3, -1)
    return mixed, EXTRA + label, owner


def extra_pools(graph: Graph, base_labels: np.ndarray | None) -> list[np.ndarray]:
    """What the release draws extra nodes from: the nodes of each base class, or one pool of all nodes where there are
    no labels.

    Nodes are ordered by a random projection of their features, so that the draw does not depend on how they are
    numbered.
    """
    features = graph.require_features("an encoder")
    key = features @ stream(0, "cosmic/order").random(graph.num_features)
    order = np.lexsort((graph.degrees, key))
    if base_labels is None or not (base_labels >= 0).any():
        if graph.num_nodes < EXTRA * EXTRA:
            raise OptionError(
                f"mode=release of cosmic draws {EXTRA * EXTRA} nodes, but graph {graph.name!r} has "
                f"{graph.num_nodes}; choose mode=intended."
            )
        return [order]
    labels = base_labels[order]
    pools = [order[labels == c] for c in np.unique(labels[labels >= 0])]
    pools = [pool for pool in pools if len(pool) >= EXTRA]
    if len(pools) < EXTRA:
        raise OptionError(
            f"mode=release of cosmic draws {EXTRA} nodes of each of {EXTRA} base classes, but only {len(pools)} "
            "classes have as many; "
            "choose mode=intended."
        )
    return pools


def draw_extra(pools: Sequence[np.ndarray], random: np.random.Generator, count: int) -> np.ndarray:
    """(count, 25) extra nodes of the release, class by class; (count, 0) without pools."""
    if not pools:
        return np.empty((count, 0), dtype=np.int64)
    if len(pools) == 1:
        return np.stack([random.choice(pools[0], EXTRA * EXTRA, replace=False) for _ in range(count)])
    chosen = [random.choice(len(pools), EXTRA, replace=False) for _ in range(count)]
    return np.stack(
        [np.concatenate([random.choice(pools[c], EXTRA, replace=False) for c in classes]) for classes in chosen]
    )
