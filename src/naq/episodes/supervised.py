"""Episodes from labels of base classes, as every graph meta-learner before NaQ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from naq.episodes.episodes import BLOCK, Episodes, blocks, check_counts, distinct
from naq.errors import TaskError


def supervised_episodes(
    labels: np.ndarray,
    classes: Sequence[int],
    *,
    way: int = 5,
    shot: int = 1,
    queries: int = 8,
    count: int = 16_000,
    seed: int = 0,
) -> Episodes:
    """Draw ``way`` of ``classes`` uniformly and ``shot + queries`` distinct nodes of each.

    Args:
        labels: (n,) class ids, -1 where unknown.
        classes: the base classes; each needs ``shot + queries`` labelled nodes.
    """
    check_counts(way=way, shot=shot, queries=queries, count=count)
    pool = np.unique(np.asarray(classes, dtype=np.int64))
    if len(pool) and pool[0] < 0:
        raise TaskError(f"classes hold {pool[0]}, which means unknown; expected class ids 0, 1, 2, ...")
    if way > len(pool):
        raise TaskError(f"{way}-way episodes were asked for, but there are {len(pool)} base classes; lower way.")
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], pool, side="left")
    sizes = np.searchsorted(labels[order], pool, side="right") - first
    need = shot + queries
    if (sizes < need).any():
        c = int(np.flatnonzero(sizes < need)[0])
        raise TaskError(
            f"base class {pool[c]} has {sizes[c]} labelled nodes, but {shot} shots and {queries} queries need {need}; "
            "lower queries or leave the class out."
        )
    nodes = np.empty((count, way, need), dtype=np.int32 if len(labels) < 2**31 else np.int64)
    for part, random in blocks(count, seed, f"episodes/supervised/{way}way/{shot}shot/{queries}queries"):
        chosen = distinct(random, BLOCK, len(pool), way)
        offsets = _members(random, sizes[chosen], need)
        nodes[part] = order[first[chosen][:, :, None] + offsets][: part.stop - part.start]
    mask = np.ones((count, way, queries), dtype=bool)
    info = {"kind": "supervised", "seed": int(seed), "classes": [int(c) for c in pool]}
    return Episodes(nodes[:, :, :shot].copy(), nodes[:, :, shot:].copy(), mask, info)


def _members(random: np.random.Generator, sizes: np.ndarray, need: int) -> np.ndarray:
    """(..., need) distinct positions below each size: the first places of a Fisher-Yates shuffle, all at once."""
    taken = np.empty((*sizes.shape, need), dtype=np.int64)
    for place in range(need):
        drawn = (random.random(sizes.shape) * (sizes - place)).astype(np.int64)
        # The drawn-th of what is left: skip, in ascending order, over what was taken before.
        before = np.sort(taken[..., :place], axis=-1)
        for earlier in range(place):
            drawn += drawn >= before[..., earlier]
        taken[..., place] = drawn
    return taken
