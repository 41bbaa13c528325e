"""g-UMTRA: a node is its own query, read on an augmented graph; the investigation method of the NaQ paper.

Khodadadeh, Boloni, Shah, Unsupervised Meta-Learning for Few-Shot Image Classification,
https://arxiv.org/abs/1811.11819, on graphs.

Support: ``way`` distinct nodes, uniform over all nodes, read on the graph. Query: the same nodes, read by the same
encoder on the graph after DropEdge and DropFeature (:class:`~naq.nn.AugmentedOperator`); a learner draws a new
augmentation for every update and every query column.
"""

from __future__ import annotations

import numpy as np

from naq.episodes.episodes import BLOCK, Episodes, blocks, check_counts, distinct
from naq.errors import OptionError
from naq.options import check_probability


def umtra_episodes(
    nodes: int,
    *,
    way: int = 5,
    views: int = 1,
    count: int = 16_000,
    seed: int = 0,
    drop_edge: float = 0.3,
    drop_feature: float = 0.3,
) -> Episodes:
    """Draw 1-shot episodes whose queries are the supports themselves, to be read on augmented graphs.

    Args:
        nodes: number of nodes of the graph.
        views: queries per class, each on another augmentation; the paper has one.
        drop_edge, drop_feature: strengths, at least 0 and below 1. The paper names none; sweep 0.1 to 0.9.

    Example:
        >>> import naq
        >>> naq.umtra_episodes(100, way=5, views=2, count=3)
        Episodes(3 x 5-way 1-shot, 2 queries, g-umtra)
    """
    check_counts(way=way, views=views, count=count)
    check_probability(drop_edge=drop_edge, drop_feature=drop_feature)
    if way > nodes:
        raise OptionError(f"{way}-way episodes need {way} nodes, but the graph has {nodes}; lower way.")
    support = np.empty((count, way, 1), dtype=np.int32 if nodes < 2**31 else np.int64)
    for part, random in blocks(count, seed, f"episodes/g-umtra/{way}way"):
        support[part, :, 0] = distinct(random, BLOCK, nodes, way)[: part.stop - part.start]
    query = np.repeat(support, views, axis=2)
    info = {"kind": "g-umtra", "seed": int(seed), "drop_edge": float(drop_edge), "drop_feature": float(drop_feature)}
    return Episodes(support, query, np.ones(query.shape, dtype=bool), info)
