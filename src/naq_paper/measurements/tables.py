"""Neighbour tables that measurements look at: their description in a cell, and the table of a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from naq.errors import OptionError, counted
from naq.files import cache_folder
from naq.graph import Graph, weighted
from naq.graph.operators import WEIGHTINGS
from naq.neighbors import NeighborTable, feature_neighbors
from naq.neighbors.feature_exact import METRICS
from naq.neighbors.table import FILLS, fill_table
from naq.run.episodes import table_for
from naq_paper.measurements import Context, check_choice

TABLE_KINDS = ("naq-feat", "naq-diff")
FEATURE_FILLS = ("none", "lowest", "random")


def table_config(
    kind: str, *, fill: str = "none", self_loops: bool = True, alpha: float = 0.1, metric: str = "cosine",
    features: str = "raw",
) -> dict[str, Any]:  # fmt: skip
    """What describes a neighbour table in a cell, checked; what its kind does not read is left out.

    ``naq-feat`` reads ``metric``, ``naq-diff`` reads ``alpha`` and ``self_loops``. ``fill`` is for nodes with too few
    neighbours: ``none``, ``lowest`` as the paper's code, ``random`` (seed 0, as in trainings) or, for ``naq-diff``,
    ``feature``.
    """
    check_choice("kind", kind, TABLE_KINDS)
    check_choice("fill", fill, FILLS if kind == "naq-diff" else FEATURE_FILLS)
    check_choice("features", features, ("auto", *WEIGHTINGS))
    if kind == "naq-feat":
        check_choice("metric", metric, METRICS)
        return {"kind": kind, "metric": metric, "fill": fill, "features": features}
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0.0 < alpha < 1.0:
        raise OptionError(f"alpha is {alpha!r}; expected a teleport probability between 0 and 1, e.g. 0.1.")
    if not isinstance(self_loops, bool):
        raise OptionError(f"self_loops is {self_loops!r}; expected True or False.")
    config = {"kind": kind, "alpha": float(alpha), "self_loops": self_loops, "fill": fill}
    return {**config, "features": features} if fill == "feature" else config


def completed_table(
    graph: Graph, config: Mapping[str, Any], k: int, context: Context
) -> tuple[NeighborTable, np.ndarray]:
    """The table of a :func:`table_config`, and (n, k) True where an entry is there by the fill rule alone.

    The table before filling is what is cached: one serves every fill rule.
    """
    read = weighted(graph, str(config.get("features", "raw"))).without_labels()
    fill = str(config["fill"])
    cache = cache_folder() if context.cache == "" else context.cache
    if fill == "feature":
        read.require_features("fill='feature'")
    options = {**config, "queries": k, "shot": 1, "apart": 0, "fill": "none"}
    progress = counted(context.listener, "neighbors")
    table = table_for(read, str(config["kind"]), options, cache, "cpu", progress)
    complete = fill_table(table, fill, feature_ids=lambda: feature_neighbors(read, k, cache=cache).ids, graph=read)
    return complete, (table.ids < 0) & (complete.ids >= 0)


def short_share(table: NeighborTable, completed: np.ndarray) -> float:
    """Share of the nodes with fewer neighbours than the table is wide, before any were filled in."""
    return float(((table.ids < 0) | completed).any(axis=1).mean())
