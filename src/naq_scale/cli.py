"""What large graphs need in addition to the other commands: ``naq embed``, ``naq estimate``, and ``naq neighbors`` in
shards."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from naq.cli.arguments import Nodes, check_outputs
from naq.cli.inspecting import Address, Engine, Shards, Workers
from naq.errors import OptionError
from naq.files import own_folder
from naq.io.readers import find_reader
from naq.options import read_pairs
from naq_scale.engines import check_engine, make_engine

if TYPE_CHECKING:
    import numpy as np

    from naq.errors import Listener
    from naq.graph import Graph
    from naq.neighbors import NeighborTable

Set = Annotated[list[str], typer.Option("--set", help="An option of the method, NAME=VALUE; may be repeated.")]


def embed_command(
    dataset: Annotated[str, typer.Argument(help="A name of 'naq list datasets', or a path.")],
    out: Annotated[Path, typer.Option(help="Vectors to write: .npy, (nodes, d) float32.")],
    nodes: Nodes = None,
    method: Annotated[str, typer.Option(help="naq-plus or smooth.")] = "naq-plus",
    seed: Annotated[int, typer.Option(help="Of the SVD and of samples.")] = 0,
    set_: Set = [],  # noqa: B006
    engine: Engine = "local",
    workers: Workers = 2,
    address: Address = None,
    shards: Shards = None,
) -> None:
    """Write the vectors of all nodes to a file, in blocks: the graph may be larger than memory.

    With --engine or --shards they are made in parts: what is finished stays when the command is stopped, and the same
    command goes on. All workers have to see the graph and the folder of --out, where parts are kept until the vectors
    are written.
    """
    from naq.cli.terminal import load_shown, show_progress
    from naq.run.embed import embed

    check_outputs({"--out": out}, {"the graph": Path(dataset), "--nodes": nodes}, "vectors.npy")
    plan = sharding_of(engine, workers, address, shards)
    graph, started = load_shown(dataset, nodes), time.perf_counter()
    with show_progress(method) as listener:
        listener("embed", {"method": method})
        options: dict[str, Any] = dict(read_pairs(set_, "--set"))
        if plan is None:
            vectors = embed(graph, method, seed=seed, out=out, **options)
        else:
            vectors = embed_in_shards(graph, plan, out, method, seed, options, listener, imported=nodes is not None)
    typer.echo(f"Written: {out} {vectors.shape} in {time.perf_counter() - started:.1f} s")


def estimate_command(
    dataset: Annotated[
        str, typer.Argument(help="A graph folder, an npz, a name of 'naq list datasets', or parts for 'naq predict'.")
    ],
    method: Annotated[str, typer.Option(help="A name of 'naq list methods'.")] = "naq-plus",
    episodes: Annotated[int, typer.Option(help="Training episodes, where the method has them.")] = 16_000,
    set_: Set = [],  # noqa: B006
    table: Annotated[
        Path | None, typer.Option(help="Table that episodes are drawn from, as for 'naq run': it is not made again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print time and memory of each stage before it is run; takes about a second."""
    from naq_scale.estimate import estimate, estimate_parts, sizes_of, sizes_of_parts

    if (reader := find_reader(Path(dataset))) is not None and reader.predictor:
        found = estimate_parts(sizes_of_parts(Path(dataset)))
    else:
        options, given = read_pairs(set_, "--set"), table is not None
        found = estimate(sizes_of(dataset), method, episodes=episodes, options=options, table=given)
    typer.echo(json.dumps(found.to_json(), indent=2) if as_json else str(found))


class Sharding(NamedTuple):
    """How shards are computed; none of it changes what is made."""

    engine: str
    workers: int
    address: str | None
    shards: int


def sharding_of(engine: str, workers: int, address: str | None, shards: int | None) -> Sharding | None:
    """What the options ask for; None where nothing is made in shards."""
    if shards is not None and shards < 1:
        raise OptionError(f"--shards is {shards}; expected at least 1.")
    check_engine(engine, workers, address)
    if engine == "local" and shards is None:
        return None
    return Sharding(engine, workers, address, shards or 8 * (1 if engine == "local" else workers))


def processes_of(plan: Sharding | None, engine: Any) -> int:
    """How many share the memory of a machine."""
    return 1 if plan is None or plan.engine == "local" else -(-plan.workers // engine.machines)


def remove_shards(out: Path) -> None:
    """Once what they are parts of is written they are not needed any more."""
    shutil.rmtree(out.with_name(out.name + ".shards"), ignore_errors=True)


def _places(graph: Graph, out: Path, imported: bool) -> tuple[Path, str]:
    """The folder of shards, and where workers find the graph: its file or folder, else a copy."""
    from naq.io import save_graph

    folder = own_folder(out.with_name(out.name + ".shards"))
    if imported or graph.source is None:
        return folder, str(save_graph(folder / "graph.npz", graph).absolute())
    source = Path(graph.source)
    return folder, str(source.absolute() if source.exists() else graph.source)  # else it is the name of a dataset


def embed_in_shards(
    graph: Graph, plan: Sharding, out: Path, method: str, seed: int, options: Mapping[str, Any], listener: Listener, *,
    imported: bool,
) -> np.ndarray:  # fmt: skip
    """The vectors of :func:`naq.embed` in blocks, bit for bit; the folder of shards goes once they are written."""
    from naq.methods import get_method
    from naq_scale.blocks import IN_BLOCKS, embed_to
    from naq_scale.sharded import FileShards

    kind = get_method(method).embedder
    if kind is None or kind.name not in IN_BLOCKS:
        raise OptionError(f"{method} does not work in blocks, so not in shards; use naq-plus or smooth.")
    model = kind(graph, seed=seed, **options)

    def tell(step: str, done: int, total: int) -> None:
        listener("shards", {"stage": step, "done": done, "total": total})

    with make_engine(plan.engine, plan.workers, plan.address) as engine:
        (folder, source), processes = _places(graph, out, imported), processes_of(plan, engine)
        shards = FileShards(graph, engine, folder, source, shards=plan.shards, processes=processes, tell=tell)
        vectors = embed_to(model, out, shards=shards)
    remove_shards(out)
    return vectors


def make_in_shards(
    graph: Graph, plan: Sharding, out: Path, by: str, k: int, metric: str, search: str, alpha: float, self_loops: bool,
    method: str, fill: str, *, imported: bool,
) -> NeighborTable:  # fmt: skip
    """The table that the options describe, as :func:`~naq.cli.inspecting.make_table` makes it in one piece.

    Args:
        imported: the graph came from several files, so that workers are given a copy in the folder of shards.
    """
    from naq.cli.terminal import show_progress
    from naq.neighbors import feature_neighbors
    from naq.neighbors.diffusion import TOLERANCE, diffusion_info
    from naq.neighbors.feature import feature_info
    from naq.neighbors.table import check_fill, fill_table
    from naq_scale.sharded import make_table_in_shards

    check_fill(fill, ("none", "lowest", "random") if by == "features" else ("none", "lowest", "random", "feature"))
    if by == "features":
        info = feature_info(graph, k, metric, search)
    else:
        info = diffusion_info(graph, k, alpha=alpha, self_loops=self_loops, method=method, tolerance=TOLERANCE)
    folder, source = _places(graph, out, imported)

    def tell(done: int, total: int) -> None:
        listener("neighbors", {"done": done * graph.num_nodes // total, "total": graph.num_nodes})

    engine_of_plan = make_engine(plan.engine, plan.workers, plan.address)
    with show_progress("neighbours") as listener, engine_of_plan as engine:
        table = make_table_in_shards(graph, info, plan.shards, engine, folder, source, tell)
    return fill_table(table, fill, feature_ids=lambda: feature_neighbors(graph, k).ids, graph=graph)
