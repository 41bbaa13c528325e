"""``naq studio``: label a graph in the browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from naq.cli.arguments import GraphName, Ignore, Label, Nodes, TextEncoder


def studio_command(
    graph: GraphName,
    nodes: Nodes = None,
    label: Label = None,
    ignore: Ignore = [],  # noqa: B006
    text_encoder: TextEncoder = None,
    labels: Annotated[
        Path | None, typer.Option(help="CSV in which every action is kept; else GRAPH.studio.csv next to the graph.")
    ] = None,
    images: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of local image files, relative to the graph's file.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port on 127.0.0.1; the next free one where it is in use.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open no browser.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Start, answer one request, end.")] = False,
) -> None:
    """See a graph as a map in the browser, name classes by labelling a few nodes, watch the rest take colour."""
    from naq.cli.terminal import load_shown
    from naq_studio import serve
    from naq_studio.server import journal_path, may_write

    loaded = load_shown(graph, nodes, text_encoder, label, ignore)
    read_with = {"nodes": None if nodes is None else str(nodes.absolute()), "label": label, "ignore": ignore}
    path = None if check and labels is None else journal_path(loaded, labels)
    if path is not None and labels is None and not may_write(path) and sys.stdin.isatty():
        typer.echo(f"{path} cannot be written.")
        path = Path(typer.prompt("Where shall the labels be kept (a CSV file)?")).expanduser()
    serve(
        loaded, path, read_with=read_with, images=images, port=port, browser=not no_browser, check=check, say=typer.echo
    )
