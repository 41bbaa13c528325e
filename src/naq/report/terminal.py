"""A table of a report in the terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from naq.experiments.views import Entry, Missing, Number, TableView


def terminal_table(view: TableView) -> Table:
    """The best of a column is bold, the second underlined; the paper's number stands in brackets."""
    table = Table(
        title=escape(view.title), title_justify="left", caption=escape(view.note) or None, caption_justify="left"
    )
    for place, column in enumerate(view.columns):
        table.add_column(escape(column), justify="left" if place < view.labels else "right")
    for row in view.rows:
        table.add_row(*(entry_text(entry) for entry in row))
    return table


def entry_text(entry: Entry) -> str:
    """``[bold]61.82[/bold] ± 0.71 ▲ (paper 76.46)``."""
    if isinstance(entry, str):
        return escape(entry)
    paper = "" if entry.paper is None else f" [dim](paper {entry.paper})[/dim]"
    if isinstance(entry, Missing):
        return f"[dim]{escape(entry.reason.partition(':')[0])}[/dim]{paper}"
    return f"{_styled(entry)}{'' if entry.ci is None else f' ± {entry.ci:.{entry.digits}f}'}{entry.mark and ' ' + entry.mark}{paper}"


def _styled(entry: Number) -> str:
    value = f"{entry.value:,.{entry.digits}f}"
    style = {1: "bold", 2: "underline"}.get(entry.rank)
    return f"[{style}]{value}[/{style}]" if style else value
