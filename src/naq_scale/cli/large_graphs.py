"""``naq embed`` and ``naq estimate``: what large graphs need in addition to the other commands."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from naq.cli.inspecting import Address, Engine, Shards, Workers
from naq.errors import OptionError
from naq_scale.cli.sharding import embed_in_shards, sharding_of


def embed_command(
    dataset: Annotated[str, typer.Argument(help="A name of 'naq list datasets', or a path.")],
    out: Annotated[Path, typer.Option(help="Vectors to write: .npy, (nodes, d) float32.")],
    nodes: Annotated[Path | None, typer.Option(help="Table of nodes, where the graph is an edge list.")] = None,
    method: Annotated[str, typer.Option(help="naq-plus or smooth.")] = "naq-plus",
    seed: Annotated[int, typer.Option(help="Of the SVD and of samples.")] = 0,
    set_: Annotated[
        list[str], typer.Option("--set", help="An option of the method, NAME=VALUE; may be repeated.")
    ] = [],  # noqa: B006
    engine: Engine = "local",
    workers: Workers = 2,
    address: Address = None,
    shards: Shards = None,
) -> None:
    """Write the vectors of all nodes to a file, in blocks: the graph may be larger than memory.

    With --engine or --shards they are made in parts: what is finished stays when the command is stopped, and the same command goes on.
    All workers have to see the graph and the folder of --out, where parts are kept until the vectors are written.
    """
    from naq.cli.checking import check_outputs
    from naq.cli.progress import load_shown, show_progress
    from naq.cli.running import pairs
    from naq.run.embed import embed

    if out.suffix != ".npy":
        raise OptionError(f"--out is {str(out)!r}; expected a name that ends in .npy.")
    check_outputs({"--out": out}, {"the graph": Path(dataset), "--nodes": nodes}, "vectors.npy")
    plan = sharding_of(engine, workers, address, shards)
    graph, started = load_shown(dataset, nodes), time.perf_counter()
    with show_progress(method) as listener:
        listener("embed", {"method": method})
        options: dict[str, Any] = {**pairs(set_, "--set")}
        if plan is None:
            vectors = embed(graph, method, seed=seed, out=out, **options)
        else:
            vectors = embed_in_shards(graph, plan, out, method, seed, options, listener, imported=nodes is not None)
    typer.echo(f"Written: {out} {vectors.shape} in {time.perf_counter() - started:.1f} s")


def estimate_command(
    dataset: Annotated[str, typer.Argument(help="A graph folder, an npz, or a name of 'naq list datasets'.")],
    method: Annotated[str, typer.Option(help="A name of 'naq list methods'.")] = "naq-plus",
    episodes: Annotated[int, typer.Option(help="Training episodes, where the method has them.")] = 16_000,
    set_: Annotated[
        list[str], typer.Option("--set", help="An option of the method, NAME=VALUE; may be repeated.")
    ] = [],  # noqa: B006
    table: Annotated[
        Path | None, typer.Option(help="Table that episodes are drawn from, as for 'naq run': it is not made again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print time and memory of each stage before it is run; takes about a second."""
    from naq.cli.running import pairs
    from naq_scale.estimate import estimate, sizes_of

    found = estimate(
        sizes_of(dataset), method, episodes=episodes, options=pairs(set_, "--set"), table=table is not None
    )
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    typer.echo(str(found))
