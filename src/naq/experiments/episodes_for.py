"""The episodes a method trains on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from naq.episodes import Episodes, naq_episodes, supervised_episodes
from naq.errors import OptionError
from naq.graph import Graph
from naq.methods import Method
from naq.neighbors import NeighborTable, diffusion_neighbors, feature_neighbors
from naq.options import Value, merge_options
from naq.tasks import ClassSplit

DEFAULTS: dict[str, dict[str, Value]] = {
    "naq-feat": {"queries": 10, "metric": "cosine", "fill": "none", "drop_overlap": False},
    "naq-diff": {"queries": 10, "alpha": 0.1, "self_loops": True, "fill": "none", "drop_overlap": False},
    "supervised": {"queries": 8, "shot": 0},
}
"""Options of each way to make episodes; ``shot`` 0 trains with the shot of the tasks."""


def episode_options(method: Method, given: Mapping[str, Any]) -> dict[str, Value]:
    """Options of the method's episodes, checked."""
    if method.episodes is None:
        if given:
            raise OptionError(
                f"{method.name} uses no episodes, but episode options {sorted(given)} were given; leave them out."
            )
        return {}
    return merge_options(f"{method.episodes} episodes", DEFAULTS[method.episodes], given)


def table_for(
    graph: Graph,
    kind: str,
    options: Mapping[str, Any],
    cache: str | Path | None,
    device: str,
    progress: Callable[[int, int], None] | None,
) -> NeighborTable:
    """The neighbour table behind NaQ episodes."""
    k, fill = min(int(options["queries"]), graph.num_nodes - 1), str(options["fill"])
    if int(options["queries"]) > k:
        raise OptionError(
            f"{options['queries']} queries per support need as many other nodes, but graph {graph.name!r} has {k}; lower queries."
        )
    if kind == "naq-feat":
        return feature_neighbors(
            graph, k, metric=str(options["metric"]), fill=fill, device=device, cache=cache, progress=progress
        )
    return diffusion_neighbors(
        graph,
        k,
        alpha=float(options["alpha"]),
        self_loops=bool(options["self_loops"]),
        fill=fill,
        cache=cache,
        progress=progress,
    )


def episodes_for(
    method: Method,
    graph: Graph,
    split: ClassSplit,
    options: Mapping[str, Any],
    *,
    way: int,
    shot: int,
    count: int,
    seed: int,
    cache: str | Path | None,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Episodes:
    """Draw ``count`` episodes of the method's kind; NaQ reads no label here."""
    if method.episodes == "supervised":
        labels = graph.require_labels("supervised episodes")
        return supervised_episodes(
            labels,
            split.base,
            way=way,
            shot=int(options["shot"]) or shot,
            queries=int(options["queries"]),
            count=count,
            seed=seed,
        )
    assert method.episodes is not None
    table = table_for(graph.without_labels(), method.episodes, options, cache, device, progress)
    return naq_episodes(
        table,
        way=way,
        queries=int(options["queries"]),
        count=count,
        seed=seed,
        drop_overlap=bool(options["drop_overlap"]),
    )
