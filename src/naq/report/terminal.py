"""Tables in the terminal: those of a report, and the one that ``naq run`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from naq.experiments.views import Number, TableView
from naq.report.format import Markup, entry_text, legend_text

if TYPE_CHECKING:
    from naq.heads import Evaluation
    from naq.protocol import Result

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
    """One row per method and head; the best accuracy of each head is bold, the chosen head of each method is marked."""
    results = list(results)
    rows = _rows(results)
    best: dict[tuple[str, int], float] = {}
    for _, _, head, e, _ in rows:
        best[head, e.shot] = max(best.get((head, e.shot), 0.0), e.accuracy)
    first = results[0].config
    table = Table(title=f"{first.dataset}: {first.way}-way {first.shot}-shot, {len(results[0].per_task)} test tasks")
    for title, side in (
        ("method", "left"),
        ("head", "left"),
        ("way", "right"),
        ("shot", "right"),
        ("accuracy %", "right"),
        ("seconds", "right"),
    ):
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    previous = None
    for method, chosen, head, evaluation, seconds in rows:
        if previous is not None and method != previous:
            table.add_section()
        best_of_head = evaluation.accuracy == best[head, evaluation.shot]
        accuracy = Number(100 * evaluation.accuracy, 100 * evaluation.ci95, rank=1 if best_of_head else 0)
        name = head + (" *" if evaluation.transductive else "") + (" (chosen)" if chosen else "")
        table.add_row(
            method if method != previous else "",
            name,
            str(evaluation.way),
            str(evaluation.shot),
            entry_text(accuracy, TERMINAL),
            seconds,
        )
        previous = method
    free = {result.config.select for result in results} == {"clusters"}
    table.caption = (
        "± is 1.96 standard errors over test tasks; * looks at a task's queries together;\n"
        f"(chosen) also selected the checkpoint, on {'tasks without labels' if free else 'validation tasks'}; bold is the best of a head."
    )
    if any(head == "own" for _, _, head, _, _ in rows):
        table.caption += "\nown: the method solves tasks itself, without a head."
    return table


def _rows(results: list[Result]) -> list[tuple[str, bool, str, Evaluation, str]]:
    rows: list[tuple[str, bool, str, Evaluation, str]] = []
    shown = {result.config.method for result in results}
    for result in results:
        if result.baseline and "smooth" not in shown:
            shown.add("smooth")
            taken = f"{result.seconds['baseline']:.1f}"
            rows += [
                ("smooth (no training)", False, head, e, taken if i == 0 else "")
                for i, (head, e) in enumerate(_with_other_shots(result.baseline, result.also_baseline))
            ]
    for result in results:
        taken = f"{sum(v for k, v in result.seconds.items() if k != 'baseline'):.1f}"
        for i, (head, e) in enumerate(_with_other_shots(result.evaluations, result.also)):
            chosen = result.history is not None and head == result.config.head and e.shot == result.config.shot
            rows.append((result.config.method, chosen, head, e, taken if i == 0 else ""))
    return rows


def _with_other_shots(
    main: Mapping[str, Evaluation], also: Mapping[str, Mapping[str, Evaluation]]
) -> list[tuple[str, Evaluation]]:
    return [pair for found in (main, *also.values()) for pair in found.items()]
