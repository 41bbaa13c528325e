"""Neighbors as Queries: label-free episodes (Jung, Seo, Kim, Park; ICML 2024).

Support: ``way`` distinct nodes, uniform over all nodes. Queries of a support node: its nearest nodes in a
:class:`~naq.neighbors.NeighborTable`. Two supports may share a true class; the paper accepts that. The random order of the
supports is the random assignment of labels.
"""

from __future__ import annotations

import numpy as np

from naq.episodes.draws import BLOCK, blocks, distinct
from naq.episodes.episodes import Episodes, check_counts
from naq.errors import OptionError
from naq.neighbors import NeighborTable


def naq_episodes(
    table: NeighborTable,
    *,
    way: int = 5,
    queries: int = 10,
    count: int = 16_000,
    seed: int = 0,
    drop_overlap: bool = False,
) -> Episodes:
    """Draw 1-shot episodes whose queries are the supports' neighbours.

    Args:
        table: at least ``queries`` neighbours per node; entries of -1 become masked queries.
        drop_overlap: remove queries shared by two classes, and queries that are supports.

    Cost: a gather; 16,000 episodes in milliseconds.

    Example:
        >>> import naq
        >>> g = naq.Graph([[0, 1, 2, 3], [1, 2, 3, 0]], nodes=4)
        >>> naq.naq_episodes(naq.diffusion_neighbors(g, k=2), way=2, queries=2, count=3)
        Episodes(3 x 2-way 1-shot, 2 queries, naq/diffusion)
    """
    check_counts(way=way, queries=queries, count=count)
    n = table.num_nodes
    if way > n:
        raise OptionError(f"{way}-way episodes need {way} nodes, but the graph has {n}; lower way.")
    if queries > table.k:
        raise OptionError(
            f"{queries} queries were asked for, but the table holds {table.k} neighbours per node; make it with k={queries}."
        )
    support = np.empty((count, way), dtype=table.ids.dtype)
    for part, random in blocks(count, seed, f"episodes/naq/{way}way"):
        support[part] = distinct(random, BLOCK, n, way)[: part.stop - part.start]
    query = table.ids[:, :queries][support]
    kind = f"naq/{table.info.get('kind', 'custom')}"
    episodes = Episodes(
        support[:, :, None], query, query >= 0, {"kind": kind, "seed": int(seed), "table": dict(table.info)}
    )
    return episodes.without_overlap() if drop_overlap else episodes
