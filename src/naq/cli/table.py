"""The table that ``naq run`` prints, and the console that tables are printed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from naq.errors import plain

if TYPE_CHECKING:
    from naq.heads import Evaluation
    from naq.run import Result


def table_console(width: int) -> Console:
    """The terminal with its own width; where the output is a file or a pipe, one of this width."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def print_table(table: Table) -> None:
    table_console(100).print(table)


def result_table(results: Iterable[Result]) -> Table:
    """One row per method and head; the best of a head is bold, the chosen head of each method is marked.

    Dirichlet(2) queries have a column of their own.
    """
    results = list(results)
    rows = _rows(results)
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        for e in row.found:
            best[e.head, e.queries] = max(best.get((e.head, e.queries), 0.0), e.accuracy)
    unbalanced = any(row.unbalanced is not None for row in rows)
    first = results[0].config
    heading = f"{plain(first.dataset, 80)}: {first.way}-way {first.shot}-shot, {len(results[0].per_task)} test tasks"
    table = Table(title=Text(heading))
    for title in ("method", "head"):
        table.add_column(title)
    for title in ("way", "shot", "accuracy %", *(["Dirichlet(2) %"] if unbalanced else []), "seconds"):
        table.add_column(title, justify="right")

    def accuracy(e: Evaluation | None) -> str:
        if e is None:
            return ""
        number = f"{100 * e.accuracy:.2f} ± {100 * e.ci95:.2f}"
        return f"[bold]{number}[/bold]" if e.accuracy == best[e.head, e.queries] else number

    previous = None
    for row in rows:
        same = previous is not None and row.method == previous.method
        if previous is not None and not (same and row.evaluation.transductive == previous.evaluation.transductive):
            table.add_section()
        numbers = [accuracy(row.evaluation), *([accuracy(row.unbalanced)] if unbalanced else [])]
        e = row.evaluation
        table.add_row("" if same else row.method, e.head + row.marks, str(e.way), str(e.shot), *numbers, row.seconds)
        previous = row
    table.caption = _caption(results, rows)
    return table


@dataclass(frozen=True)
class _Row:
    """A method under a head: balanced queries, and Dirichlet(2) queries if it answered them."""

    method: str
    evaluation: Evaluation
    unbalanced: Evaluation | None
    chosen: bool
    seconds: str

    @property
    def found(self) -> list[Evaluation]:
        return [self.evaluation, *([] if self.unbalanced is None else [self.unbalanced])]

    @property
    def knows_balance(self) -> bool:
        from naq.heads import HEADS

        return self.evaluation.head in HEADS and HEADS[self.evaluation.head].knows_balance

    @property
    def marks(self) -> str:
        stars = (" *" if self.evaluation.transductive else "") + ("*" if self.knows_balance else "")
        return stars + (" (chosen)" if self.chosen else "")


def _caption(results: list[Result], rows: list[_Row]) -> str:
    free = {result.config.select for result in results} == {"clusters"}
    lines = ["± is 1.96 standard errors over test tasks; * looks at a task's queries together;"]
    if any(row.knows_balance for row in rows):
        lines.append("** and knows that every class has equally many of them;")
    if any(row.unbalanced is not None for row in rows):
        lines.append("Dirichlet(2): the same tasks with unbalanced queries;")
    tasks = "tasks without labels" if free else "validation tasks"
    lines.append(f"(chosen) also selected the checkpoint, on {tasks}; bold is the best of a head.")
    if any(row.evaluation.head == "own" for row in rows):
        lines.append("own: the method solves tasks itself, without a head.")
    return "\n".join(lines)


def _rows(results: list[Result]) -> list[_Row]:
    rows: list[_Row] = []
    shown = {result.config.method for result in results}
    for result in results:
        if result.baseline and "smooth" not in shown:
            shown.add("smooth")
            rows += _rows_of("smooth (no training)", "", result.seconds["baseline"], result.baseline)
    for result in results:
        taken = sum(v for k, v in result.seconds.items() if k != "baseline")
        chosen = result.config.head if result.history is not None else ""
        rows += _rows_of(result.config.method, chosen, taken, result.evaluations)
    return rows


def _rows_of(method: str, chosen: str, seconds: float, found: Mapping[str, Evaluation]) -> list[_Row]:
    """Heads that answer each query alone first."""
    from naq.run.evaluate import DIRICHLET, dirichlet

    heads = sorted((h for h in found if not h.endswith(f"/{DIRICHLET}")), key=lambda h: found[h].transductive)
    return [
        _Row(method, found[head], found.get(dirichlet(head)), head == chosen, f"{seconds:.1f}" if i == 0 else "")
        for i, head in enumerate(heads)
    ]
