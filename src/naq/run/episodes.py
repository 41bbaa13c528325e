"""The episodes a method trains on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naq.episodes import Episodes, naq_episodes, supervised_episodes, umtra_episodes
from naq.episodes.episodes import check_counts
from naq.episodes.naq import check_drops, table_width
from naq.errors import OptionError
from naq.graph import Graph
from naq.methods import Method
from naq.neighbors import NeighborTable, diffusion_neighbors, feature_neighbors
from naq.options import Value, merge_options
from naq.run.given_table import check_table
from naq.tasks import ClassSplit

if TYPE_CHECKING:
    from naq.run.config import RunConfig

DEFAULTS: dict[str, dict[str, Value]] = {
    "naq-feat": {
        "way": 0,
        "shot": 1,
        "queries": 10,
        "metric": "cosine",
        "search": "auto",
        "fill": "none",
        "apart": 0,
        "drop_overlap": False,
        "drop_random": False,
    },
    "naq-diff": {
        "way": 0,
        "shot": 1,
        "queries": 10,
        "alpha": 0.1,
        "self_loops": True,
        "fill": "none",
        "apart": 0,
        "drop_overlap": False,
        "drop_random": False,
    },
    "supervised": {"way": 0, "queries": 8, "shot": 0},
    "g-umtra": {"way": 0, "views": 1, "drop_edge": 0.3, "drop_feature": 0.3},
}
"""Options of each way to make episodes; ``way`` 0 and ``shot`` 0 train with the way and the shot of the tasks.

NaQ trains with one shot whatever the tasks have, as the paper's code does.
"""

SWITCHES = frozenset({"search"})
"""Options that are left out of a run's configuration while they have their default."""


def episode_options(method: Method, given: Mapping[str, Any]) -> dict[str, Value]:
    """Options of the method's episodes, checked, but for switches that have their default."""
    if method.episodes is None:
        if given:
            raise OptionError(
                f"{method.name} uses no episodes, but episode options {sorted(given)} were given; leave them out."
            )
        return {}
    options = merge_options(f"{method.episodes} episodes", DEFAULTS[method.episodes], given)
    check_drops(bool(options.get("drop_overlap")), bool(options.get("drop_random")))
    defaults = DEFAULTS[method.episodes]
    return {name: value for name, value in options.items() if name not in SWITCHES or value != defaults[name]}


def table_for(
    graph: Graph,
    kind: str,
    options: Mapping[str, Any],
    cache: str | Path | None,
    device: str,
    progress: Callable[[int, int], None] | None,
) -> NeighborTable:
    """The neighbour table behind NaQ episodes."""
    queries, shot, apart = (int(options[name]) for name in ("queries", "shot", "apart"))
    check_counts(queries=queries, shot=shot)
    k, fill = table_width(queries=queries, shot=shot, apart=apart), str(options["fill"])
    if k >= graph.num_nodes:
        what = f"apart={apart} needs" if k == apart else f"{queries} queries and {shot} shots need"
        raise OptionError(
            f"{what} {k} other nodes per support, but graph {graph.name!r} has {graph.num_nodes - 1}; lower them."
        )
    if kind == "naq-feat":
        return feature_neighbors(
            graph,
            k,
            metric=str(options["metric"]),
            search=str(options.get("search", DEFAULTS[kind]["search"])),
            fill=fill,
            device=device,
            cache=cache,
            progress=progress,
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


def episode_way(config: RunConfig) -> int:
    """Classes of a training episode: the tasks' unless the episode option says otherwise, which a learner that solves tasks cannot use."""
    assert config.episode is not None
    way = int(config.episode["way"]) or config.way
    if config.spec.solves_tasks and way != config.way:
        raise OptionError(
            f"{config.method} solves tasks with the classifier it was trained with: episodes of {way} classes do not "
            f"fit tasks of {config.way}; leave the episode option way out."
        )
    return way


def draw_episodes(
    config: RunConfig,
    graph: Graph,
    split: ClassSplit,
    *,
    cache: str | Path | None,
    table: NeighborTable | None = None,
    progress: Callable[[int, int], None] | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Episodes:
    """The episodes a learner trains on; only supervised ones read labels here.

    Args:
        table: that NaQ episodes are drawn from, in place of one that is made here.
        note: is called with what could not be checked of it.
    """
    kind, options, seed = config.spec.episodes, config.episode, config.seed
    assert kind is not None and options is not None and config.episodes is not None
    way, count = episode_way(config), config.episodes
    if kind == "supervised":
        return supervised_episodes(
            graph.require_labels("supervised episodes"),
            split.base,
            way=way,
            shot=int(options["shot"]) or config.shot,
            queries=int(options["queries"]),
            count=count,
            seed=seed,
        )
    if kind == "g-umtra":
        return umtra_episodes(
            graph.num_nodes,
            way=way,
            views=int(options["views"]),
            count=count,
            seed=seed,
            drop_edge=float(options["drop_edge"]),
            drop_feature=float(options["drop_feature"]),
        )
    bare = graph.without_labels()
    if table is None:
        table = table_for(bare, kind, options, cache, config.device, progress)
    else:
        table = check_table(table, bare, kind, options, note)
    return naq_episodes(
        table,
        way=way,
        shot=int(options["shot"]),
        queries=int(options["queries"]),
        count=count,
        seed=seed,
        apart=int(options["apart"]),
        drop_overlap=bool(options["drop_overlap"]),
        drop_random=bool(options["drop_random"]),
    )
