"""``overlap``: how often a node is the query of more than one class of a label-free episode, and what the fill rule has to do with it.

Per episode :math:`1 - \\mathrm{unique} / (N Q)`, mean over the episodes. Labels, where there are any, are read for analysis only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from naq.episodes import Episodes, naq_episodes
from naq.episodes.episodes import check_counts
from naq.errors import OptionError
from naq.graph import Graph, weighted
from naq.graph.weighting import WEIGHTINGS
from naq.grid.cells import Cell
from naq.grid.measurements.base import Context, register_measurement
from naq.grid.perturbations import resolve_perturbation
from naq.neighbors import NeighborTable, feature_neighbors
from naq.neighbors.fill import FILLS, filled
from naq.neighbors.similarity import METRICS
from naq.neighbors.table import cache_folder
from naq.options import nearest
from naq.protocol.episodes import table_for
from naq.randomness import key

TABLE_KINDS = ("naq-feat", "naq-diff")
FEATURE_FILLS = ("none", "lowest", "random")


def overlap_cell(
    dataset: str,
    *,
    kind: str = "naq-diff",
    way: int = 5,
    queries: int = 10,
    count: int = 16_000,
    seed: int = 0,
    fill: str = "none",
    self_loops: bool = True,
    alpha: float = 0.1,
    metric: str = "cosine",
    features: str = "raw",
    perturbation: Mapping[str, Any] | None = None,
) -> Cell:
    """The cell of one overlap ratio.

    Args:
        kind: ``naq-feat`` or ``naq-diff``.
        way, queries, count, seed: of the episodes.
        fill, self_loops, alpha, metric, features: of the neighbour table, see :func:`table_config`.
        perturbation: ``{"name": ..., ...}`` of :mod:`naq.grid.perturbations`.
    """
    check_counts(way=way, queries=queries, count=count)
    key(seed, "overlap")  # refuses what is no seed
    return Cell(
        "overlap",
        {
            "dataset": dataset,
            "perturbation": perturbation_config(perturbation),
            "way": int(way),
            "queries": int(queries),
            "count": int(count),
            "seed": int(seed),
            **table_config(kind, fill=fill, self_loops=self_loops, alpha=alpha, metric=metric, features=features),
        },
    )


@register_measurement("overlap")
def overlap(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``overlap_percent`` and its ``standard_error`` over episodes, in percent; all else are shares.

    ``short_nodes``: nodes with fewer than ``queries`` neighbours. ``filled_queries`` and ``masked_queries``: of all paths for
    queries, those that the fill rule completed and those left empty. ``distinct_class_share`` and ``same_class_share``: null without labels.
    """
    graph = context.dataset_cache.perturbed(str(config["dataset"]), config.get("perturbation")).graph
    queries = int(config["queries"])
    table, filled = completed_table(graph, config, queries, context)
    episodes = naq_episodes(
        table, way=int(config["way"]), queries=queries, count=int(config["count"]), seed=int(config["seed"])
    )
    ratios = overlap_ratios(episodes)
    labels = graph.labels
    return {
        "overlap_percent": 100.0 * episodes.overlap_ratio(),
        "standard_error": 100.0 * float(ratios.std(ddof=1)) / math.sqrt(len(ratios)) if len(ratios) > 1 else None,
        "episodes": len(ratios),
        "short_nodes": float(((table.ids < 0) | filled).any(axis=1).mean()),
        "filled_queries": float(filled[episodes.support[:, :, 0]].mean()),
        "masked_queries": float(1.0 - episodes.mask.mean()),
        "distinct_class_share": None if labels is None else number(episodes.distinct_class_share(labels)),
        "same_class_share": None if labels is None else number(episodes.same_class_share(labels)),
        "nodes": graph.num_nodes,
        "table": dict(table.info),
    }


def overlap_ratios(episodes: Episodes) -> np.ndarray:
    """1 - (distinct queries) / (queries) of each episode that has a query; their mean is ``Episodes.overlap_ratio``."""
    order = np.sort(np.where(episodes.mask, episodes.query, -1).reshape(len(episodes), -1), axis=1)
    kept = (order >= 0).sum(axis=1)
    new = order >= 0
    new[:, 1:] &= order[:, 1:] != order[:, :-1]
    some = kept > 0
    return 1.0 - new.sum(axis=1)[some] / kept[some]


def table_config(
    kind: str,
    *,
    fill: str = "none",
    self_loops: bool = True,
    alpha: float = 0.1,
    metric: str = "cosine",
    features: str = "raw",
) -> dict[str, Any]:
    """What describes a neighbour table in a cell, checked; what its kind does not read is left out.

    Args:
        kind: ``naq-feat`` reads ``metric``; ``naq-diff`` reads ``alpha`` and ``self_loops``.
        fill: for nodes with too few neighbours: ``none``, ``lowest`` as the paper's code, ``random`` (seed 0, as in trainings) or, for
            ``naq-diff``, ``feature``.
        features: ``raw`` as in the paper, ``binary``, ``tfidf`` or ``auto``; left out where no feature is read.
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
    fill, cache = str(config["fill"]), cache_of(context)
    if fill == "feature":
        read.require_features("fill='feature'")
    options = {**config, "queries": k, "shot": 1, "apart": 0, "fill": "none"}
    table = table_for(
        read,
        str(config["kind"]),
        options,
        cache,
        "cpu",
        lambda done, total: context.listener("neighbors", {"done": done, "total": total}),
    )
    complete = filled(table, fill, feature_ids=lambda: feature_neighbors(read, k, cache=cache).ids)
    return complete, (table.ids < 0) & (complete.ids >= 0)


def cache_of(context: Context) -> str | Path | None:
    """The folder for neighbour tables that the context means."""
    return cache_folder() if context.cache == "" else context.cache


def perturbation_config(perturbation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A perturbation with every option written out, None for none."""
    return None if perturbation is None else dict(resolve_perturbation(perturbation))


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """One sentence with the nearest names where an option is none of them."""
    if value not in known:
        raise OptionError(f"{name} is {value!r}; {nearest(str(value), known)}")


def number(value: float) -> float | None:
    """The value as JSON has it: null for what is no number."""
    return float(value) if math.isfinite(value) else None
