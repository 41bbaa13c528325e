"""A table of a report in the terminal."""

from __future__ import annotations

import math

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from naq.experiments.views import Entry, Missing, Number, TableView
from naq.report.web_table import MARKS


def terminal_table(view: TableView) -> Group:
    """The best of a column is bold, the second underlined; the paper's number stands in parentheses.

    Title and words are lines of their own: as parts of the table they would be squeezed into its width.
    """
    table = Table()
    for place, column in enumerate(view.columns):
        table.add_column(escape(column), justify="left" if place < view.labels else "right")
    for row in view.rows:
        table.add_row(*(entry_text(entry) for entry in row))
    words = [Text(line, style="dim") for line in (view.note, _signs(view)) if line]
    return Group(Text(view.title, style="bold"), table, *words)


def _signs(view: TableView) -> str:
    """What the signs of this very table mean."""
    numbers = [entry for row in view.rows for entry in row if isinstance(entry, Number)]
    used = {entry.mark for entry in numbers}
    said = ["± 95 % interval over tasks"] if any(entry.ci is not None for entry in numbers) else []
    return "; ".join([*said, *(f"{mark} {meaning}" for mark, (_, meaning) in MARKS.items() if mark in used)])


def entry_text(entry: Entry) -> str:
    """``[bold]61.82[/bold] ± 0.71 ▲ (paper 76.46)``."""
    if isinstance(entry, str):
        return escape(entry)
    if isinstance(entry, Missing):
        return f"[dim]{escape(entry.reason.partition(':')[0])}[/dim]{_paper(entry.paper, 2)}"
    return f"{_styled(entry)}{entry.mark and ' ' + entry.mark}{_paper(entry.paper, entry.digits)}"


def _styled(entry: Number) -> str:
    if not math.isfinite(entry.value):
        return "–"
    value = f"{entry.value:,.{entry.digits}f}"
    style = {1: "bold", 2: "underline"}.get(entry.rank)
    interval = "" if entry.ci is None else f" ± {entry.ci:.{entry.digits}f}"
    return (f"[{style}]{value}[/{style}]" if style else value) + interval


def _paper(value: float | str | None, digits: int) -> str:
    if value is None:
        return ""
    return f" [dim](paper {escape(value) if isinstance(value, str) else f'{value:,.{digits}f}'})[/dim]"
