"""``naq reproduce`` on the terminal: the progress of its cells, and the tables and sentences of its report."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from naq.cli.terminal import console, shown, table_console
from naq_paper.experiments.views import TableView, TextView
from naq_paper.report.format import Markup, entry_text, legend_text
from naq_paper.report.page import Report


class CellsProgress(AbstractContextManager["CellsProgress"]):
    """A bar over all cells, and a line on what is being computed; elsewhere than on a terminal a line per cell."""

    def __init__(self) -> None:
        self.total = self.finished = 0
        self.bars: Any = None
        self.task: Any = None

    def __enter__(self) -> CellsProgress:
        if console.is_terminal:
            columns = (
                TextColumn("[bold]cells"), BarColumn(bar_width=28), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False),
            )  # fmt: skip
            self.bars = Progress(*columns, console=console, transient=True, refresh_per_second=5)
            self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "plan":
            self.total += facts["todo"]
            self._show("")
        elif phase == "begun":
            self._show(str(facts["cell"]))
        elif phase == "progress" and facts["phase"] == "warning":
            line = shown(str(facts["cell"]), str(facts["facts"]["text"]))
            console.print(line, highlight=False, soft_wrap=True, markup=False)
        elif phase == "progress":
            done, total = (facts["facts"].get(name) for name in ("done", "total"))
            count = f" {done}/{total}" if done is not None and total is not None else ""
            self._show(f"{facts['cell']}: {facts['phase']}{count}")
        elif phase == "finished":
            self.finished += 1
            self._show("")
            if self.bars is None:
                what = f"failed: {facts['error']}" if facts["error"] else f"{facts['seconds']:.1f} s"
                print(f"{self.finished}/{self.total} {shown(str(facts['cell']), what)}", file=sys.stderr, flush=True)

    def _show(self, note: str) -> None:
        if self.bars is None:
            return
        if self.task is None:
            self.task = self.bars.add_task("cells", total=self.total, note=note)
        self.bars.update(self.task, total=self.total, completed=self.finished, note=note[:90])


TERMINAL = Markup(escape, "[bold]%s[/bold]", "[underline]%s[/underline]", "[dim]%s[/dim]", r"[dim]\[paper %s][/dim]")


def terminal_table(view: TableView) -> Group:
    """A table of a report with title, note and legend on separate lines, which its width does not squeeze."""
    table = Table()
    for place, column in enumerate(view.columns):
        table.add_column(escape(column), justify="left" if place < view.labels else "right")
    for row in view.rows:
        table.add_row(*(entry_text(entry, TERMINAL) for entry in row))
    words = [Text(line, style="dim") for line in (view.note, legend_text(view)) if line]
    return Group(Text(view.title, style="bold"), table, *words)


def print_sections(page: Report, names: Collection[str]) -> None:
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
