"""Neighbors as Queries: label-free episodes (Jung, Seo, Kim, Park; ICML 2024).

Support: ``way`` distinct nodes, uniform over all nodes. Queries of a support node: its nearest nodes in a
:class:`~naq.neighbors.NeighborTable`. Two supports may share a true class; the paper accepts that. The random order of
the supports is the random assignment of labels.

Beyond the paper: ``shot`` gives a class the nearest nodes of its support node as further supports, and its queries are
the next ones; ``apart`` draws supports that are not near each other (:mod:`naq.episodes.episodes`).
"""

from __future__ import annotations

import numpy as np

from naq.episodes.episodes import BLOCK, Episodes, blocks, check_apart, check_counts, distinct, keep_apart
from naq.errors import OptionError
from naq.neighbors import NeighborTable
from naq.options import check_whole


def naq_episodes(
    table: NeighborTable,
    *,
    way: int = 5,
    shot: int = 1,
    queries: int = 10,
    count: int = 16_000,
    seed: int = 0,
    apart: int = 0,
    drop_overlap: bool = False,
    drop_random: bool = False,
) -> Episodes:
    """Draw episodes whose queries are the supports' neighbours.

    Args:
        table: at least ``queries + shot - 1`` and ``apart`` neighbours per node; entries of -1 become masked queries.
        shot: supports per class: a node and its ``shot - 1`` nearest; a missing one is replaced by the node itself.
        apart: no support node is among the first ``apart`` neighbours of another, in either direction; 0 draws freely.
            Episodes for which no such supports were found are kept with the fewest clashes and counted in
            ``info["clashing"]``.
        drop_overlap: remove queries shared by two classes, and queries that are supports.
        drop_random: remove as many random queries of every episode instead; the control of ``drop_overlap``.

    Cost: a gather; 16,000 episodes in milliseconds, with ``apart=100`` some tens of them.

    Example:
        >>> import naq
        >>> g = naq.Graph([[0, 1, 2, 3], [1, 2, 3, 0]], nodes=4)
        >>> naq.naq_episodes(naq.diffusion_neighbors(g, k=2), way=2, queries=2, count=3)
        Episodes(3 x 2-way 1-shot, 2 queries, naq/diffusion)
    """
    check_counts(way=way, shot=shot, queries=queries, count=count)
    check_drops(drop_overlap, drop_random)
    need = table_width(queries=queries, shot=shot, apart=apart)
    if way > table.num_nodes:
        raise OptionError(f"{way}-way episodes need {way} nodes, but the graph has {table.num_nodes}; lower way.")
    if need > table.k:
        asked = f"{queries} queries" + (f" after {shot - 1} supports" if shot > 1 else "")
        if need == apart:
            asked = f"supports outside the first {apart} neighbours"
        raise OptionError(f"{asked} were asked for, but the table holds {table.k} per node; make it with k={need}.")
    nodes, found = _support_nodes(table, way, count, seed, apart)
    near = table.ids[:, : queries + shot - 1][nodes]
    support = nodes[:, :, None]
    if shot > 1:
        more = near[:, :, : shot - 1]
        support = np.concatenate([support, np.where(more >= 0, more, support)], axis=2)
    query = np.ascontiguousarray(near[:, :, shot - 1 :])
    kind = f"naq/{table.info.get('kind', 'custom')}"
    info = {"kind": kind, "seed": int(seed), "table": dict(table.info), **found}
    episodes = Episodes(support, query, query >= 0, info)
    if drop_overlap:
        return episodes.without_overlap()
    return episodes.without_random(seed) if drop_random else episodes


def check_drops(drop_overlap: bool, drop_random: bool) -> None:
    """Raise an ``OptionError`` if both are requested."""
    if drop_overlap and drop_random:
        raise OptionError("drop_overlap and drop_random were both given; choose one of them.")


def table_width(*, queries: int, shot: int, apart: int) -> int:
    """Neighbours per node that such episodes read."""
    return max(queries + shot - 1, check_whole("apart", apart, 0))


def _support_nodes(
    table: NeighborTable, way: int, count: int, seed: int, apart: int
) -> tuple[np.ndarray, dict[str, int]]:
    """(count, way) nodes, and the entries of ``info`` about keeping them apart."""
    if apart:
        check_apart(table.ids, way, apart)
    nodes = np.empty((count, way), dtype=table.ids.dtype)
    clashing = free = 0
    for part, random in blocks(count, seed, f"episodes/naq/{way}way"):
        drawn, size = distinct(random, BLOCK, table.num_nodes, way), part.stop - part.start
        if apart:
            drawn, left = keep_apart(random, drawn, table.ids, apart)
            clashing, free = clashing + int(left[:size].sum()), free + int((~left).sum())
        nodes[part] = drawn[:size]
    if not apart:
        return nodes, {}
    if not free:
        raise OptionError(
            f"apart={apart} was kept by no {way}-way episode: no {way} nodes were found outside each other's "
            f"first {apart} neighbours; lower apart or way."
        )
    return nodes, {"apart": int(apart), "clashing": clashing}
