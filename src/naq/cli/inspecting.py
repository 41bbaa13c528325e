"""``naq neighbors`` and ``naq episodes``: the intermediate values, saved and looked at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Context, Option, echo

from naq.cli.arguments import Nodes, check_outputs
from naq.errors import OptionError, counted, plain
from naq.options import imported

if TYPE_CHECKING:
    from naq.graph import Graph
    from naq.neighbors import NeighborTable

Dataset = Annotated[str, Argument(help="A name of 'naq list datasets', or a path.")]
By = Annotated[Literal["features", "diffusion"], Option("--by", help="What makes nodes similar.")]
Metric = Annotated[str, Option(help="Of features: cosine, euclidean or jaccard.")]
Search = Annotated[str, Option(help="Of features: exact, approximate, or auto: exact if that takes minutes at most.")]
Alpha = Annotated[float, Option(help="Of diffusion: teleport probability.")]
Loops = Annotated[bool, Option("--self-loops/--no-self-loops", help="Of diffusion: over A + I or A.")]
Kernel = Annotated[str, Option(help="Of diffusion: ppr or heat, which has --t in place of --alpha and no shards.")]
Heat = Annotated[float, Option("--t", help="Of the heat kernel: steps of a walk, on average.")]
Solver = Annotated[str, Option("--method", help="Of diffusion: auto, push or exact.")]
Fill = Annotated[str, Option(help="For nodes with too few neighbours: none, lowest, random or (diffusion) feature.")]
Engine = Annotated[str, Option(help="local, processes or ray.", metavar="NAME")]
Workers = Annotated[int, Option(help="Of processes and ray: shards computed at a time.")]
Address = Annotated[str | None, Option(help="Of ray: a running cluster; else one is started here.")]
Shards = Annotated[
    int | None, Option(help="Parts, kept next to --out until all are there; 8 per worker.", show_default=False)
]


def neighbors_command(
    dataset: Dataset = "debian",
    nodes: Nodes = None,
    k: Annotated[int, Option("-k", help="Neighbours per node.")] = 10,
    by: By = "features",
    metric: Metric = "cosine",
    search: Search = "auto",
    alpha: Alpha = 0.1,
    kernel: Kernel = "ppr",
    t: Heat = 5.0,
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

    With --engine or --shards it is made in parts: finished ones stay when it is stopped, and the same command goes on.
    """
    from naq.classifier.labels import find_node
    from naq.cli.terminal import load_shown

    check_outputs({"--out": out}, {"the graph": Path(dataset), "--nodes": nodes}, "table.npz")
    plan = None
    if (engine, workers, address, shards) != ("local", 2, None, None):
        plan = imported("naq_scale.cli:sharding_of")(engine, workers, address, shards)
    if plan is not None and out is None:
        raise OptionError("a table in shards needs --out T.npz; its finished shards are kept next to it.")
    if plan is not None and kernel != "ppr":
        raise OptionError(f"--kernel is {kernel!r}, but tables in shards are of ppr; leave --engine and --shards out.")
    graph = load_shown(dataset, nodes)
    started, how = time.perf_counter(), (by, k, metric, search, alpha, self_loops, method, fill)
    if plan is None:
        table = make_table(graph, *how, kernel, t)
    else:
        table = imported("naq_scale.cli:make_in_shards")(graph, plan, out, *how, imported=nodes is not None)
    echo(f"{table} in {time.perf_counter() - started:.1f} s")
    _show_recall(table)
    short = int((table.counts < k).sum())
    echo(f"{short:,} of {graph.num_nodes:,} nodes have fewer than {k} neighbours.")
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
    apart: Annotated[int, Option(help="Supports are not among the first N neighbours of another; 0: any.")] = 0,
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
    from naq.cli.terminal import load_shown
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
        _show_recall(table)
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
        found = f"Episodes whose supports have {way} different true classes: {share:.1f} %; queries of their support's"
        echo(f"{found} class: {same:.1f} % (labels are read for this line only).")
    for slot in range(min(way, 5)):
        both = episodes.support[0, slot], episodes.query[0, slot][episodes.mask[0, slot]]
        ones, others = (", ".join(_title(graph, node) for node in some[:6].tolist()) for some in both)
        echo(f"  class {slot}: {ones} <- {others or 'none'}")
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
    from naq.cli.terminal import show_progress
    from naq.neighbors import NeighborTable
    from naq.run.episodes import KINDS, check_table

    with show_progress(path.name) as listener:
        listener("load", {"source": str(path)})
        table = NeighborTable.load(path)
        kind = next((kind for kind, kinds in KINDS.items() if table.info.get("kind") in kinds), "naq-feat")
        read = ("metric", "alpha", "self_loops", "kernel", "t")
        own = {name: table.info[name] for name in read if name in table.info}
        bare = graph.without_labels()
        return check_table(table, bare, kind, {**own, **options}, lambda text: listener("warning", {"text": text}))


def make_table(
    graph: Graph, by: str, k: int, metric: str, search: str, alpha: float, self_loops: bool, method: str, fill: str,
    kernel: str = "ppr", t: float = 5.0,
) -> NeighborTable:  # fmt: skip
    from naq.cli.terminal import show_progress
    from naq.neighbors import diffusion_neighbors, feature_neighbors

    with show_progress("neighbours") as listener:
        progress = counted(listener, "neighbors")
        if by == "features":
            return feature_neighbors(graph, k, metric=metric, search=search, fill=fill, progress=progress)
        how: dict[str, Any] = {"alpha": alpha, "self_loops": self_loops, "method": method, "kernel": kernel, "t": t}
        return diffusion_neighbors(graph, k, **how, fill=fill, progress=progress)


def _show_recall(table: NeighborTable) -> None:
    """Of an approximate feature table."""
    if "recall" in table.info:
        share, tied = (100 * float(table.info[name]) for name in ("recall", "recall_with_ties"))
        found = f"{share:.1f} % of the neighbours of the exact table"
        echo(f"Approximate: {found}, {tied:.1f} % with others that are as near (512 nodes).")


def _show(graph: Graph, table: NeighborTable, node: int) -> None:
    rows = zip(table.ids[node].tolist(), table.scores[node].tolist())
    near = [f"{_title(graph, other)} ({score:.3f})" for other, score in rows if other >= 0]
    echo(f"  {_title(graph, node)}: {', '.join(near[:12]) or 'none'}")


def _title(graph: Graph, node: int) -> str:
    return plain(graph.title_of(node), 80)
