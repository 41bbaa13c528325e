"""Tables and sentences of a report in the terminal."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from naq.cli.table import table_console
from naq_paper.experiments.views import TableView, TextView
from naq_paper.report.format import Markup, entry_text, legend_text
from naq_paper.report.page import Page

TERMINAL = Markup(escape, "[bold]%s[/bold]", "[underline]%s[/underline]", "[dim]%s[/dim]", r"[dim]\[paper %s][/dim]")


def terminal_table(view: TableView) -> Group:
    """A table of a report; its title, note and legend are lines of their own, so that its width does not squeeze them."""
    table = Table()
    for place, column in enumerate(view.columns):
        table.add_column(escape(column), justify="left" if place < view.labels else "right")
    for row in view.rows:
        table.add_row(*(entry_text(entry, TERMINAL) for entry in row))
    words = [Text(line, style="dim") for line in (view.note, legend_text(view)) if line]
    return Group(Text(view.title, style="bold"), table, *words)


def print_sections(page: Page, names: Collection[str]) -> None:
    """Sentences and tables of the sections of these names."""
    console = table_console(140)
    for section in page.sections:
        if section.name not in names:
            continue
        console.print(f"\n[bold]{escape(section.title)}[/bold]  ({escape(section.where_in_paper)})", highlight=False)
        for view in section.views:
            if isinstance(view, TextView):
                console.print("\n".join(view.sentences), highlight=False, markup=False)
            elif isinstance(view, TableView):
                console.print(terminal_table(view))
