"""``overlap``: how often a node is the query of more than one class of a label-free episode, and how that depends on
the fill rule.

Per episode :math:`1 - \\mathrm{unique} / (N Q)`, mean over the episodes. Labels, if any, are read for
analysis only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from naq.episodes import Episodes, naq_episodes
from naq.episodes.episodes import check_counts
from naq_paper.cells.cell import Cell
from naq_paper.measurements import Context, dataset_cell, finite_or_none, validate_seed
from naq_paper.measurements.tables import completed_table, short_share, table_config


def overlap_cell(
    dataset: str, *, kind: str = "naq-diff", way: int = 5, queries: int = 10, count: int = 16_000, seed: int = 0,
    **table: Any,
) -> Cell:  # fmt: skip
    """The cell of one overlap ratio; ``table`` describes the neighbours, see
    :func:`~naq_paper.measurements.tables.table_config`."""
    check_counts(way=way, queries=queries, count=count)
    validate_seed(seed)
    episodes = {"way": int(way), "queries": int(queries), "count": int(count), "seed": int(seed)}
    return dataset_cell("overlap", dataset, {**episodes, **table_config(kind, **table)})


def overlap(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``overlap_percent`` and its ``standard_error`` over episodes, in percent; all else are shares.

    ``short_nodes``: nodes with fewer than ``queries`` neighbours. ``filled_queries`` and ``masked_queries``: of all
    queries, those that the fill rule completed and those left empty. ``distinct_class_share`` and ``same_class_share``:
    null without labels.
    """
    graph = context.perturbed(config).graph
    queries = int(config["queries"])
    table, filled = completed_table(graph, config, queries, context)
    drawn: dict[str, Any] = {name: int(config[name]) for name in ("way", "queries", "count", "seed")}
    episodes = naq_episodes(table, **drawn)
    ratios = overlap_ratios(episodes)
    labels = graph.labels
    return {
        "overlap_percent": 100.0 * episodes.overlap_ratio(),
        "standard_error": 100.0 * float(ratios.std(ddof=1)) / math.sqrt(len(ratios)) if len(ratios) > 1 else None,
        "episodes": len(ratios), "short_nodes": short_share(table, filled),
        "filled_queries": float(filled[episodes.support[:, :, 0]].mean()),
        "masked_queries": float(1.0 - episodes.mask.mean()),
        "distinct_class_share": None if labels is None else finite_or_none(episodes.distinct_class_share(labels)),
        "same_class_share": None if labels is None else finite_or_none(episodes.same_class_share(labels)),
        "nodes": graph.num_nodes, "table": dict(table.info),
    }  # fmt: skip


def overlap_ratios(episodes: Episodes) -> np.ndarray:
    """1 - (distinct queries) / (queries) of each episode that has a query; their mean is ``Episodes.overlap_ratio``."""
    order = np.sort(np.where(episodes.mask, episodes.query, -1).reshape(len(episodes), -1), axis=1)
    kept = (order >= 0).sum(axis=1)
    new = order >= 0
    new[:, 1:] &= order[:, 1:] != order[:, :-1]
    some = kept > 0
    return 1.0 - new.sum(axis=1)[some] / kept[some]
