"""``naq list``: what there is."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from naq.errors import OptionError
from naq.options import nearest

WHAT = ("datasets", "methods", "heads")
ONLY_JSON = ("home", "licence")
"""Left out of the tables, which have little room."""


def list_command(
    what: Annotated[str, typer.Argument(help="datasets, methods or heads; all of them if left out.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List datasets, methods and heads."""
    if what and what not in WHAT:
        raise OptionError(f"there is nothing called {what!r} to list; {nearest(what, WHAT)}")
    found = {name: _rows(name) for name in ((what,) if what else WHAT)}
    if as_json:
        typer.echo(json.dumps(found[what] if what else found, indent=2))
        return
    for name, rows in found.items():
        _print(name, [{key: value for key, value in row.items() if key not in ONLY_JSON} for row in rows])


def _rows(what: str) -> list[dict[str, Any]]:
    if what == "datasets":
        from naq.data import listing

        return listing()
    if what == "methods":
        from naq.methods import methods

        return [
            {"name": m.name, "what": m.summary, "labels": "base classes" if m.reads_base_labels else "none", "inductive": m.inductive, "options": m.defaults}
            for m in methods().values()
        ]  # fmt: skip
    from naq.heads import HEADS

    return [
        {
            "name": name,
            "what": (head.__doc__ or "").splitlines()[0],
            "queries_together": head.transductive,
            "options": head().options(),
        }
        for name, head in HEADS.items()
    ]


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console = console if console.is_terminal else Console(width=120)
    table = Table(title=title, title_justify="left")
    for number, (column, value) in enumerate(rows[0].items()):
        right = isinstance(value, int) and not isinstance(value, bool)
        table.add_column(column.replace("_", " "), justify="right" if right else "left", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    console.print(table)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in value.items())
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)
