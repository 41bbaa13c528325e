"""``naq import``: people's own tables to a graph file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from naq.cli.arguments import Ignore, TextEncoder, check_outputs
from naq.errors import OptionError


def import_command(
    edges: Annotated[
        list[Path],
        Argument(
            help="Edges: .csv, .txt (also .gz), .parquet, folders, .duckdb, .graphml; several: one per type.",
            show_default=False,
        ),
    ],
    nodes: Annotated[
        list[Path], Option(help="Table of nodes: the same formats as edges; several: one for every type.")
    ] = [],  # noqa: B006
    out: Annotated[
        Path | None,
        Option(help="To write: graph file (.npz), folder .icebug, or with --mmap any folder; else only the summary."),
    ] = None,
    source: Annotated[str | None, Option(help="Column of edges: one end.")] = None,
    target: Annotated[str | None, Option(help="Column of edges: the other end.")] = None,
    weight: Annotated[str | None, Option(help="Column of edges: weights; rows of weight 0 are not edges.")] = None,
    directed: Annotated[
        bool | None, Option("--directed/--undirected", help="Whether edges lead from source to target.")
    ] = None,
    edge_type: Annotated[str | None, Option(help="Column of edges: what kind of edge it is.")] = None,
    edges_query: Annotated[str | None, Option(help="SQL: edges of a DuckDB file; else its table edges.")] = None,
    nodes_query: Annotated[str | None, Option(help="SQL: nodes of a DuckDB file; else its table nodes.")] = None,
    id: Annotated[str | None, Option(help="Column of nodes: their names, as in edges.")] = None,
    label: Annotated[str | None, Option(help="Column of nodes: classes, empty where unknown.")] = None,
    text: Annotated[list[str], Option(help="Column of nodes: words are counted; may be repeated.")] = [],  # noqa: B006
    numeric: Annotated[list[str], Option(help="Column of nodes: numbers, scaled; may be repeated.")] = [],  # noqa: B006
    categorical: Annotated[list[str], Option(help="Column of nodes: one-hot; may be repeated.")] = [],  # noqa: B006
    vector: Annotated[
        list[str], Option(help="Column of lists, prefix of columns v0, v1, ..., or .npy file; may be repeated.")
    ] = [],  # noqa: B006
    ignore: Ignore = [],  # noqa: B006
    display: Annotated[str | None, Option(help="Column of nodes: names to show in place of ids.")] = None,
    text_encoder: TextEncoder = None,
    keep: Annotated[bool, Option("--keep/--no-keep", help="Whether the cells of nodes are kept, to look at.")] = True,
    header: Annotated[bool | None, Option("--header/--no-header", help="Whether first rows hold names.")] = None,
    mmap: Annotated[
        bool, Option("--mmap", help="Write a memory-mapped folder; edges may also be a graph .npz.")
    ] = False,
    verify: Annotated[bool, Option("--verify", help="Read a graph folder through and check it, no more.")] = False,
    as_json: Annotated[bool, Option("--json", help="The summary as JSON.")] = False,
) -> None:
    """Make a graph file from your own tables, and print a summary to check.

    Columns are detected by their names and cells, or named by options. See docs/import.md.
    """
    from naq.cli.terminal import show_progress
    from naq.io import Choice, import_tables, load, save_graph, save_icebug, save_mapped

    first = edges[0]
    if verify:
        echo(f"{load(first, verify=True)}: every checksum is right.")
        return
    folder = mmap or (out is not None and out.suffix == ".icebug")
    if mmap and out is not None and out.suffix == ".npz":
        raise OptionError(f"--out is {str(out)!r}, but --mmap writes a folder; give a name without .npz.")
    save = save_mapped if mmap else save_icebug if folder else save_graph
    if folder and first.suffix == ".npz":
        graph = load(first)
        if out is None:
            raise OptionError(f"--mmap of {first} needs --out FOLDER.")
        echo(f"{graph}\nWritten: {save(out, graph)}")
        return
    if out is not None and not folder and out.suffix != ".npz":
        raise OptionError(f"--out is {str(out)!r}; expected a name that ends in .npz or .icebug.")
    tables = {f"the table {one}": one for one in (*edges, *nodes)}
    check_outputs({"--out": None if folder else out}, tables, "graph.npz")
    choice = Choice(source, target, weight, id, label, text, numeric, categorical, vector, header, display, keep,
                    text_encoder, ignore, directed, edge_type, edges_query, nodes_query)  # fmt: skip
    name = out.stem if out is not None else None
    with show_progress(first.name) as listener:
        listener("load", {"source": str(first)})
        of_edges, of_nodes = (given[0] if len(given) == 1 else given or None for given in (edges, nodes))
        graph, report = import_tables(of_edges, of_nodes, choice, name=name, listener=listener)
        if out is not None:
            save(out, graph)
    if as_json:
        echo(json.dumps(report.as_json() | {"written": None if out is None else str(out)}, indent=2))
        return
    echo(str(report))
    echo(f"Written: {out}" if out is not None else "Nothing written; give --out GRAPH.npz.")
