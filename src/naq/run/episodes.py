"""The episodes a method trains on, and the neighbour table they are drawn from: made here, or given.

A given table has to be the one that the run would make itself, or a wider one: of as many nodes, of the kind and with
the options of the episodes, from the same content of the graph. What it does not state is not checked, with a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from naq.episodes import Episodes, naq_episodes, supervised_episodes, umtra_episodes
from naq.episodes.episodes import check_counts
from naq.episodes.naq import check_drops, table_width
from naq.errors import OptionError
from naq.graph import Graph
from naq.methods import Method
from naq.neighbors import NeighborTable, diffusion_neighbors, feature_neighbors
from naq.neighbors.diffusion import HEAT
from naq.neighbors.table import FILLS, check_fill, content_hash, fill_table
from naq.options import Value, merge_options
from naq.tasks import ClassSplit

if TYPE_CHECKING:
    from naq.run.config import RunConfig

_NAQ: dict[str, Value] = {"fill": "none", "apart": 0, "drop_overlap": False, "drop_random": False}
_HEAT: dict[str, Value] = {"kernel": "ppr", "t": HEAT}
DEFAULTS: dict[str, dict[str, Value]] = {
    "naq-feat": {"way": 0, "shot": 1, "queries": 10, "metric": "cosine", "search": "auto", **_NAQ},
    "naq-diff": {"way": 0, "shot": 1, "queries": 10, "alpha": 0.1, "self_loops": True, **_HEAT, **_NAQ},
    "supervised": {"way": 0, "queries": 8, "shot": 0},
    "g-umtra": {"way": 0, "views": 1, "drop_edge": 0.3, "drop_feature": 0.3},
}
"""Options of each way to make episodes; ``way`` 0 and ``shot`` 0 train with the way and the shot of the tasks.

NaQ trains with one shot whatever the tasks have, as the paper's code does.
"""

SWITCHES = frozenset({"search", *_HEAT})
"""Options that are left out of a run's configuration while they have their default."""


def episode_options(method: Method, given: Mapping[str, Any]) -> dict[str, Value]:
    """Options of the method's episodes, checked, but for switches that have their default."""
    if method.episodes is None:
        if given:
            raise OptionError(
                f"{method.name} uses no episodes, but episode options {sorted(given)} were given; leave them out."
            )
        return {}
    defaults = DEFAULTS[method.episodes]
    options = merge_options(f"{method.episodes} episodes", defaults, given)
    check_drops(bool(options.get("drop_overlap")), bool(options.get("drop_random")))
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
    queries, shot, apart = (options[name] for name in ("queries", "shot", "apart"))
    check_counts(queries=queries, shot=shot)
    k, fill = table_width(queries=queries, shot=shot, apart=apart), options["fill"]
    if k >= graph.num_nodes:
        what = f"apart={apart} needs" if k == apart else f"{queries} queries and {shot} shots need"
        raise OptionError(
            f"{what} {k} other nodes per support, but graph {graph.name!r} has {graph.num_nodes - 1}; lower them."
        )
    if kind == "naq-feat":
        how = {"metric": options["metric"], "search": options.get("search", DEFAULTS[kind]["search"])}
        return feature_neighbors(graph, k, **how, fill=fill, device=device, cache=cache, progress=progress)
    how = {name: options[name] for name in ("alpha", "self_loops", *_HEAT) if name in options}
    return diffusion_neighbors(graph, k, **how, fill=fill, cache=cache, progress=progress)


def episode_way(config: RunConfig) -> int:
    """Classes of a training episode: of the tasks, or the episode option, not for learners that solve tasks."""
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
    kind, options = config.spec.episodes, cast(Mapping[str, Any], config.episode)
    assert kind is not None and config.episodes is not None
    drawn: dict[str, Any] = {"way": episode_way(config), "count": config.episodes, "seed": config.seed}
    if kind == "supervised":
        labels, shot = graph.require_labels("supervised episodes"), options["shot"] or config.shot
        return supervised_episodes(labels, split.base, shot=shot, queries=options["queries"], **drawn)
    if kind == "g-umtra":
        return umtra_episodes(graph.num_nodes, **{**options, **drawn})
    bare = graph.without_labels()
    if table is None:
        table = table_for(bare, kind, options, cache, config.device, progress)
    else:
        table = check_table(table, bare, kind, options, note)
    read = ("shot", "queries", "apart", "drop_overlap", "drop_random")
    return naq_episodes(table, **{name: options[name] for name in read}, **drawn)


KINDS = {"naq-feat": ("feature", "vectors"), "naq-diff": ("diffusion",)}
"""Tables that episodes are drawn from; features that are too many to compare may have been made vectors first."""
MADE_WITH: dict[str, tuple[str, ...]] = {
    "feature": ("metric",), "vectors": ("metric",), "diffusion": ("alpha", "self_loops"), "heat": ("t", "self_loops"),
}  # fmt: skip
"""What has to be the same in the table's ``info`` and in the options of the episodes."""


def takes_table(method: Method) -> bool:
    """Whether the method's episodes are drawn from a neighbour table."""
    return method.episodes in KINDS


def check_takes_table(method: Method) -> None:
    if not takes_table(method):
        raise OptionError(
            f"a neighbour table was given, but {method.name} draws no episodes from one; leave it out, or use a method "
            f"{' or '.join(f'{kind}/...' for kind in KINDS)}"
        )


def check_table(
    table: NeighborTable, graph: Graph, kind: str, options: Mapping[str, Any], note: Callable[[str], None]
) -> NeighborTable:
    """The table, with short rows filled as the options say; an ``OptionError`` if it is not for such episodes.

    ``graph`` has the features that the method reads; ``note`` is called with what could not be checked.
    """
    info, need = table.info, table_width(**{name: options[name] for name in ("queries", "shot", "apart")})
    made, had = str(info.get("kind", KINDS[kind][0])), info.get("fill", "none")
    fill = check_fill(options["fill"], FILLS if kind == "naq-diff" else FILLS[:3])

    def check(name: str, has: Any, wanted: Any, fits: bool) -> None:
        if not fits:
            raise OptionError(
                f"the neighbour table has {name}={has}, but the episodes need {name}={wanted}; give another table, or "
                "other options of the episodes."
            )

    check("nodes", table.num_nodes, graph.num_nodes, table.num_nodes == graph.num_nodes)
    check("k", table.k, need, table.k >= need)
    check("kind", made, KINDS[kind][0], made in KINDS[kind])
    defaults = {name: DEFAULTS[kind][name] for name in SWITCHES if name in DEFAULTS[kind]}
    options = {**defaults, **options}
    if kind == "naq-diff":
        kernel = info.get("kernel", defaults["kernel"])
        check("kernel", kernel, options["kernel"], kernel == options["kernel"])
        made = str(kernel) if kernel == "heat" else made
    made_with = [name for name in MADE_WITH[made] if name in options]
    for name in made_with:
        check(name, info.get(name), options[name], name not in info or info[name] == options[name])
    check("fill", had, fill, had in ("none", fill))
    reads_features = info.get("kind") == "feature" or had == "feature"
    if "graph" in info and info["graph"] != content_hash(graph, reads_features=reads_features):
        what = "edges or features" if reads_features else "edges"
        raise OptionError(
            f"the neighbour table is of another graph than {graph.name!r}, or its {what} changed; make it again."
        )
    unknown = [f"its {name}" if name in ("kind", "graph") else name for name in ("kind", *made_with, "graph")]
    if unknown := [name for name in unknown if name.removeprefix("its ") not in info]:
        note(f"the table does not say {', '.join(unknown)}: that it fits the graph and the method is not checked")
    if had == fill:
        return table
    narrow = table.first(need)
    return fill_table(narrow, fill, feature_ids=lambda: feature_neighbors(graph, narrow.k).ids, graph=graph)
