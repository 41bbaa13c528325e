"""``naq neighbors`` and ``naq episodes``: the intermediate values, saved and looked at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option, echo

from naq.cli.predicting import Nodes
from naq.errors import OptionError, plain
from naq.plugins import imported

if TYPE_CHECKING:
    import numpy as np

    from naq.graph import Graph
    from naq.neighbors import NeighborTable

ROWS = 1 << 16  # of a table that are compared at once
Dataset = Annotated[str, Argument(help="A name of 'naq list datasets', or a path.")]
By = Annotated[str, Option("--by", help="features or diffusion.")]
Metric = Annotated[str, Option(help="Of features: cosine, euclidean or jaccard.")]
Search = Annotated[str, Option(help="Of features: exact, approximate, or auto: exact if that takes minutes at most.")]
Alpha = Annotated[float, Option(help="Of diffusion: teleport probability.")]
Loops = Annotated[bool, Option("--self-loops/--no-self-loops", help="Of diffusion: over A + I or A.")]
Solver = Annotated[str, Option("--method", help="Of diffusion: auto, push or exact.")]
Fill = Annotated[str, Option(help="For nodes with too few neighbours: none, lowest, random or (diffusion) feature.")]
Engine = Annotated[str, Option(help="local, processes or ray.", metavar="NAME")]
Workers = Annotated[int, Option(help="Of processes and ray: shards computed at a time.")]
Address = Annotated[str | None, Option(help="Of ray: a running cluster; else one is started here.")]
Shards = Annotated[
    int | None, Option(help="Parts, kept beside --out until all are there; 8 per worker.", show_default=False)
]


def neighbors_command(
    dataset: Dataset = "debian",
    nodes: Nodes = None,
    k: Annotated[int, Option("-k", help="Neighbours per node.")] = 10,
    by: By = "features",
    metric: Metric = "cosine",
    search: Search = "auto",
    alpha: Alpha = 0.1,
    self_loops: Loops = True,
    method: Solver = "auto",
    fill: Fill = "none",
    node: Annotated[
        list[str], Option(help="Show the neighbours of this node, by number or name; may be repeated.")
    ] = [],  # noqa: B006
    out: Annotated[Path | None, Option(help="Save the table as npz.")] = None,
    engine: Engine = "local",
    workers: Workers = 2,
    address: Address = None,
    shards: Shards = None,
) -> None:
    """Make a table of nearest nodes; show some of it, save it.

    With --engine or --shards it is made in parts: what is finished stays when the command is stopped, and the same command goes on.
    """
    from naq.classifier.labels import find_node
    from naq.cli.checking import check_outputs
    from naq.cli.progress import load_shown

    check_outputs({"--out": out}, {"the graph": Path(dataset), "--nodes": nodes}, "table.npz")
    plan = None
    if (engine, workers, address, shards) != ("local", 2, None, None):
        plan = imported("naq_scale.cli:sharding_of")(engine, workers, address, shards)
    if plan is not None and out is None:
        raise OptionError("a table in shards needs --out T.npz; its finished shards are kept beside it.")
    check_by(by)
    graph = load_shown(dataset, nodes)
    started = time.perf_counter()
    if plan is not None:
        assert out is not None
        table = imported("naq_scale.cli:make_in_shards")(
            graph, plan, out, by, k, metric, search, alpha, self_loops, method, fill, imported=nodes is not None
        )
    else:
        table = make_table(graph, by, k, metric, search, alpha, self_loops, method, fill)
    echo(f"{table} in {time.perf_counter() - started:.1f} s")
    show_recall(table)
    short = int((table.counts < k).sum())
    echo(f"{short:,} of {graph.num_nodes:,} nodes have fewer than {k} neighbours.")
    if graph.labels is not None:
        share = 100 * same_class_share(table, graph)
        echo(f"Same class as their node: {share:.1f} % of the neighbours (labels are read for this line only).")
    for text in node or [str(int(graph.degrees.argmax()))]:
        _show(graph, table, find_node(graph, text))
    if out is not None:
        table.save(out)
        echo(f"Written: {out}")
        if plan is not None:
            imported("naq_scale.cli:remove_shards")(out)


def episodes_command(
    dataset: Dataset = "debian",
    nodes: Nodes = None,
    by: By = "features",
    way: Annotated[int, Option(help="Classes per episode.")] = 5,
    shot: Annotated[int, Option(help="Supports per class: a node and its nearest.")] = 1,
    queries: Annotated[int, Option(help="Queries per class: the next nearest.")] = 10,
    count: Annotated[int, Option(help="Episodes.")] = 16_000,
    seed: Annotated[int, Option(help="Of the draws.")] = 0,
    apart: Annotated[int, Option(help="No support is among the first so many neighbours of another; 0: any.")] = 0,
    drop_overlap: Annotated[bool, Option(help="Drop queries that two classes share or that are supports.")] = False,
    metric: Metric = "cosine",
    search: Search = "auto",
    alpha: Alpha = 0.1,
    self_loops: Loops = True,
    method: Solver = "auto",
    fill: Fill = "none",
    table_file: Annotated[Path | None, Option("--table", help="Draw from this table of 'naq neighbors --out'.")] = None,
    out: Annotated[Path | None, Option(help="Save the episodes as npz.")] = None,
    context: Context = None,  # type: ignore[assignment]
) -> None:
    """Draw label-free episodes; show one, their overlap, save them."""
    from naq.cli.checking import check_outputs
    from naq.cli.progress import load_shown
    from naq.episodes import naq_episodes
    from naq.episodes.episodes import check_counts
    from naq.episodes.naq import table_width

    check_outputs({"--out": out}, {"the graph": Path(dataset), "--nodes": nodes}, "episodes.npz")
    check_counts(way=way, shot=shot, queries=queries, count=count)
    width = table_width(queries=queries, shot=shot, apart=apart)
    if table_file is not None:
        _check_left_out(context, "by", "metric", "search", "alpha", "self_loops", "method")
    graph = load_shown(dataset, nodes)
    if table_file is None:
        table = make_table(graph, by, width, metric, search, alpha, self_loops, method, fill)
        show_recall(table)
    else:
        table = _read_table(table_file, graph, {"queries": queries, "shot": shot, "apart": apart, "fill": fill})
    started = time.perf_counter()
    episodes = naq_episodes(
        table, way=way, shot=shot, queries=queries, count=count, seed=seed, apart=apart, drop_overlap=drop_overlap
    )
    echo(f"{episodes} in {time.perf_counter() - started:.3f} s")
    overlap, kept = 100 * episodes.overlap_ratio(), 100 * episodes.mask.mean()
    echo(f"Overlap of queries: {overlap:.3f} %; queries kept: {kept:.2f} %.")
    if apart:
        echo(f"Episodes with supports that are still near each other: {episodes.info['clashing']:,} of {count:,}.")
    if graph.labels is not None:
        share, same = (100 * f(graph.labels) for f in (episodes.distinct_class_share, episodes.same_class_share))
        echo(
            f"Episodes whose supports have {way} different true classes: {share:.1f} %; queries of their support's class: "
            f"{same:.1f} % (labels are read for this line only)."
        )
    for slot in range(min(way, 5)):
        _show_class(graph, slot, episodes.support[0, slot], episodes.query[0, slot][episodes.mask[0, slot]])
    if out is not None:
        episodes.save(out)
        echo(f"Written: {out}")


def _check_left_out(context: Context, *names: str) -> None:
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = name.replace("_", "-")
            raise OptionError(f"--{flag} and --table were both given, but a table says how it was made; leave one out.")


def _read_table(path: Path, graph: Graph, options: dict[str, Any]) -> NeighborTable:
    """The table of a file for such episodes, of any kind."""
    from naq.cli.progress import show_progress
    from naq.neighbors import NeighborTable
    from naq.run.episodes import check_table, kind_of_episodes

    with show_progress(path.name) as listener:
        listener("load", {"source": str(path)})
        table = NeighborTable.load(path)
        kind = kind_of_episodes(table)
        own = {name: table.info[name] for name in ("metric", "alpha", "self_loops") if name in table.info}
        bare = graph.without_labels()
        return check_table(table, bare, kind, {**own, **options}, lambda text: listener("warning", {"text": text}))


def make_table(
    graph: Graph, by: str, k: int, metric: str, search: str, alpha: float, self_loops: bool, method: str, fill: str
) -> NeighborTable:
    from naq.cli.progress import show_progress
    from naq.neighbors import diffusion_neighbors, feature_neighbors

    check_by(by)
    with show_progress("neighbours") as listener:

        def progress(done: int, total: int) -> None:
            listener("neighbors", {"done": done, "total": total})

        if by == "features":
            return feature_neighbors(graph, k, metric=metric, search=search, fill=fill, progress=progress)
        return diffusion_neighbors(
            graph, k, alpha=alpha, self_loops=self_loops, method=method, fill=fill, progress=progress
        )


def check_by(by: str) -> None:
    if by not in ("features", "diffusion"):
        raise OptionError(f"--by is {by!r}; expected features or diffusion.")


def show_recall(table: NeighborTable) -> None:
    """Of an approximate feature table."""
    if "recall" in table.info:
        share, tied = (100 * float(table.info[name]) for name in ("recall", "recall_with_ties"))
        found = f"{share:.1f} % of the neighbours of the exact table"
        echo(f"Approximate: {found}, {tied:.1f} % with others that are as near (512 nodes).")


def same_class_share(table: NeighborTable, graph: Graph) -> float:
    """Share of neighbours that have their node's class, where both are known."""
    import numpy as np

    labels = graph.require_labels("comparing neighbours")
    same = known = 0
    for start in range(0, table.num_nodes, ROWS):
        ids, own = table.ids[start : start + ROWS], labels[start : start + ROWS, None]
        other = np.where(ids >= 0, labels[np.maximum(ids, 0)], -1)
        both = (other >= 0) & (own >= 0)
        same, known = same + int((both & (other == own)).sum()), known + int(both.sum())
    return same / known if known else float("nan")


def name_of(graph: Graph, node: int) -> str:
    return plain(str(graph.names[node]), 80) if graph.names is not None else str(node)


def _show_class(graph: Graph, slot: int, support: np.ndarray, query: np.ndarray) -> None:
    ones, others = (", ".join(name_of(graph, int(node)) for node in nodes[:6]) for nodes in (support, query))
    echo(f"  class {slot}: {ones} <- {others or 'none'}")


def _show(graph: Graph, table: NeighborTable, node: int) -> None:
    kept = table.ids[node] >= 0
    near = [f"{name_of(graph, int(j))} ({s:.3f})" for j, s in zip(table.ids[node][kept], table.scores[node][kept])]
    echo(f"  {name_of(graph, node)}: {', '.join(near[:12]) or 'none'}")
