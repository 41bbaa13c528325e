"""Tables in the terminal: those of a report, and the one that ``naq run`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from naq.errors import plain
from naq_paper.experiments.views import Number, TableView
from naq_paper.report.format import Markup, entry_text, legend_text

if TYPE_CHECKING:
    from naq.heads import Evaluation
    from naq.run import Result

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


def result_table(results: Iterable[Result]) -> Table:
    """One row per method and head, Dirichlet(2) queries in a column of their own; the best of a head is bold, the chosen head of each method is marked."""
    results = list(results)
    rows = _rows(results)
    best: dict[tuple[str, int, str], float] = {}
    for row in rows:
        for e in row.found:
            best[_compared(e)] = max(best.get(_compared(e), 0.0), e.accuracy)
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
        rank = 1 if e.accuracy == best[_compared(e)] else 0
        return entry_text(Number(100 * e.accuracy, 100 * e.ci95, rank=rank), TERMINAL)

    previous = None
    for row in rows:
        if previous is not None and (row.method, row.kind) != (previous.method, previous.kind):
            table.add_section()
        numbers = [accuracy(row.evaluation), *([accuracy(row.unbalanced)] if unbalanced else [])]
        method = row.method if previous is None or row.method != previous.method else ""
        name = row.evaluation.head + row.marks
        table.add_row(method, name, str(row.evaluation.way), str(row.evaluation.shot), *numbers, row.seconds)
        previous = row
    table.caption = _caption(results, rows)
    return table


@dataclass(frozen=True)
class _Row:
    """A method under a head: balanced queries, and Dirichlet(2) queries where it answered them."""

    method: str
    evaluation: Evaluation
    unbalanced: Evaluation | None
    chosen: bool
    seconds: str

    @property
    def found(self) -> list[Evaluation]:
        return [self.evaluation, *([] if self.unbalanced is None else [self.unbalanced])]

    @property
    def kind(self) -> tuple[int, bool]:
        """What stands together."""
        return self.evaluation.shot, self.evaluation.transductive

    @property
    def knows_balance(self) -> bool:
        from naq.heads import HEADS

        return self.evaluation.head in HEADS and HEADS[self.evaluation.head].knows_balance

    @property
    def marks(self) -> str:
        return (
            (" *" if self.evaluation.transductive else "")
            + ("*" if self.knows_balance else "")
            + (" (chosen)" if self.chosen else "")
        )


def _compared(e: Evaluation) -> tuple[str, int, str]:
    """Evaluations that agree in this are of the same tasks by the same head."""
    return e.head, e.shot, e.queries


def _caption(results: list[Result], rows: list[_Row]) -> str:
    free = {result.config.select for result in results} == {"clusters"}
    lines = ["± is 1.96 standard errors over test tasks; * looks at a task's queries together;"]
    if any(row.knows_balance for row in rows):
        lines.append("** and knows that every class has equally many of them;")
    if any(row.unbalanced is not None for row in rows):
        lines.append("Dirichlet(2): the same tasks with unbalanced queries;")
    lines.append(
        f"(chosen) also selected the checkpoint, on {'tasks without labels' if free else 'validation tasks'}; bold is the best of a head."
    )
    if any(row.evaluation.head == "own" for row in rows):
        lines.append("own: the method solves tasks itself, without a head.")
    return "\n".join(lines)


def _rows(results: list[Result]) -> list[_Row]:
    rows: list[_Row] = []
    shown = {result.config.method for result in results}
    for result in results:
        if result.baseline and "smooth" not in shown:
            shown.add("smooth")
            taken = result.seconds["baseline"]
            rows += _rows_of("smooth (no training)", "", 0, taken, result.baseline, result.also_baseline)
    for result in results:
        taken = sum(v for k, v in result.seconds.items() if k != "baseline")
        chosen = result.config.head if result.history is not None else ""
        rows += _rows_of(result.config.method, chosen, result.config.shot, taken, result.evaluations, result.also)
    return rows


def _rows_of(
    method: str,
    chosen: str,
    shot: int,
    seconds: float,
    main: Mapping[str, Evaluation],
    also: Mapping[str, Mapping[str, Evaluation]],
) -> list[_Row]:
    """By shot; heads that answer each query alone first."""
    from naq.run.evaluate import DIRICHLET, dirichlet

    pairs = [
        (head, e, found.get(dirichlet(head)))
        for found in (main, *also.values())
        for head, e in sorted(found.items(), key=lambda pair: pair[1].transductive)
        if not head.endswith(f"/{DIRICHLET}")
    ]
    return [
        _Row(method, e, unbalanced, head == chosen and e.shot == shot, f"{seconds:.1f}" if i == 0 else "")
        for i, (head, e, unbalanced) in enumerate(pairs)
    ]
