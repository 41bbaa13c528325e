"""What the command line shows: progress and warnings on standard error, tables on standard output."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from naq.errors import Listener, OptionError, plain, warn, with_flags

if TYPE_CHECKING:
    from naq.graph import Graph
    from naq.heads import Evaluation
    from naq.run import Result

console = Console(stderr=True)
PHASES = {
    "load": "loading", "episodes": "drawing episodes", "build": "preparing", "embed": "embedding", "write": "writing",
    "test": "testing", "baseline": "testing the baseline",
}  # fmt: skip
"""Phases of unknown length: a moving bar on a terminal, elsewhere a line if one takes longer than ``PATIENCE``."""
PATIENCE = 3.0  # seconds before a phase is worth a line


@contextmanager
def show_progress(title: str) -> Iterator[Listener]:
    """A bar on a terminal; elsewhere a line every tenth of the way, and one for every other phase that takes long."""
    if not console.is_terminal:
        lines = _Lines(title)
        try:
            yield lines
        finally:
            lines.settle()
        return
    columns = (
        TextColumn("[bold]{task.description}"), BarColumn(bar_width=28), _Known(MofNCompleteColumn()),
        TextColumn("{task.fields[note]}"), TimeElapsedColumn(), _Known(TimeRemainingColumn(), "left "),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, refresh_per_second=5) as progress:
        yield _Bars(progress, title)


def load_shown(
    dataset: str, nodes: Path | None = None, text_encoder: str | None = None, label: str | None = None,
    ignore: Sequence[str] = (),
) -> Graph:  # fmt: skip
    """A loaded graph, its text encoded if asked; warnings and the notes of an import are lines of text."""
    from naq.io import load

    with show_progress(dataset) as listener, shown_warnings(dataset):
        listener("load", {"source": dataset})
        tables = nodes is not None or bool(ignore) or ".graphml" in dataset.lower()
        if not tables and (label is None or dataset.endswith(".npz")):
            graph = load(dataset)
            if label is not None and (graph.recipe or {}).get("label") != label:
                made = f"--label is {label!r}, but {dataset} was imported with {(graph.recipe or {}).get('label')!r}"
                raise OptionError(f"{made} as the column of classes; leave --label out, or import the tables again.")
            return graph if text_encoder is None else graph.with_text_encoder(text_encoder, listener)
        from naq.io import Choice, load_tables
        from naq.io.tables.importing import warn_of_losses

        choice = Choice(label=label, ignore=tuple(ignore), text_encoder=text_encoder)
        found = load_tables(dataset, nodes, choice, listener)
        for note in found.report.notes:
            warn(note, stacklevel=1)
        return warn_of_losses(found)


@contextmanager
def shown_warnings(title: str) -> Iterator[None]:
    """Warnings of what is done within are lines of text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        _print_line(title, with_flags(warning.message))


def _print_line(title: str, text: str) -> None:
    console.print(shown(title, text), highlight=False, soft_wrap=True, markup=False)


def shown(title: str, text: str) -> str:
    """A line for the terminal; names and messages may hold anything."""
    return plain(text if text.startswith(f"{Path(title).name}: ") else f"{plain(title, 100)}: {text}")


class _Known(ProgressColumn):
    """A column of text, with a word in front, that is empty if the length is unknown."""

    def __init__(self, column: MofNCompleteColumn | TimeRemainingColumn, word: str = "") -> None:
        super().__init__()
        self.column, self.word = column, word

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else Text(self.word) + self.column.render(task)


class _Bars:
    """One bar, of the current phase."""

    def __init__(self, progress: Progress, title: str) -> None:
        self.progress, self.title = progress, title
        self.name, self.task = "", TaskID(-1)

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        if text := _message(phase, facts):
            _print_line(self.title, text)
        elif name := _name(phase, facts):
            if name != self.name:
                if self.name:
                    self.progress.remove_task(self.task)
                self.name, self.task = name, self.progress.add_task(name, total=facts.get("total"), note="")
            self.progress.update(self.task, completed=facts.get("done", 0), note=_training_note(facts))


class _Lines:
    """Lines on standard error."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.phase, self.tenth, self.began = "", 0, 0.0
        self.timer: Timer | None = None

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        self.settle()
        if text := _message(phase, facts):
            return _print_line(self.title, text)
        if (name := _name(phase, facts)) != self.phase:
            self.phase, self.tenth, self.began = name, 0, time.monotonic()
        if phase in PHASES:
            self.timer = Timer(PATIENCE, _print_line, [self.title, name])
            self.timer.daemon = True
            self.timer.start()
        elif "total" in facts and (phase == "train" or time.monotonic() - self.began > PATIENCE):
            before, self.tenth = self.tenth, 10 * facts["done"] // max(1, facts["total"])
            done = f"{facts['done']:,} of {facts['total']:,} {facts.get('unit', 'nodes')}"
            if self.tenth > before and phase == "train":
                _print_line(self.title, f"{done}, {_training_note(facts)}, {facts['seconds']:.0f} s")
            elif self.tenth > before:
                _print_line(self.title, f"{name}: {done}")
        return None

    def settle(self) -> None:
        """The phase is over: no line about it any more."""
        if self.timer is not None:
            self.timer.cancel()


def _name(phase: str, facts: Mapping[str, Any]) -> str:
    """What a phase is called; phases that are not shown have no name."""
    names = PHASES | {"train": "training", "neighbors": "neighbours"}
    return names.get(phase, str(facts.get("stage", "")))


def _message(phase: str, facts: Mapping[str, Any]) -> str:
    """What is a line wherever it is shown."""
    if phase == "finished":
        return f"already done in {facts['folder']}"
    return str({"plan": facts.get("plan"), "warning": facts.get("text")}.get(phase) or "")


def _training_note(facts: Mapping[str, Any]) -> str:
    """``loss 1.23  valid 65.1 % (best 66.0 %)``."""
    if "loss" not in facts:
        return ""
    if facts["valid"] is None:
        return "before the first validation"
    return f"loss {facts['loss']:.3f}  valid {100 * facts['valid']:.1f} % (best {100 * facts['best']:.1f} %)"


def shell_line(command: str, graph: str, options: Mapping[str, Any]) -> str:
    """A command on a graph, to be typed: with the options that are not None, and each value of a list."""
    words = ["naq", command, graph]
    for name, value in options.items():
        values = value if isinstance(value, list) else [] if value is None else [value]
        words += [word for one in values for word in (name, str(one))]
    return shlex.join(words)


def table_console(width: int) -> Console:
    """The terminal with its own width; where the output is a file or a pipe, one of this width."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", numbers: Sequence[str] = (),
    width: int = 100, header: bool = True,
) -> None:  # fmt: skip
    """A table of texts, which may hold anything; columns of ``numbers`` are to the right."""
    table = Table(title=Text(plain(title)) if title else None, title_justify="left", show_header=header)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=number == 0 and width > 100)
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    table_console(width).print(table)


def result_table(results: Iterable[Result]) -> Table:
    """One row per method and head; the best of a head is bold, the chosen head of each method is marked.

    Dirichlet(2) queries are in a separate column.
    """
    results = list(results)
    config, groups = results[0].config, list(_groups(results))
    every = [(name, one) for _, _, _, found in groups for name, one in found.items()]
    best = {name: max(one.accuracy for other, one in every if other == name) for name, _ in every}
    unbalanced = any(one.queries == "unbalanced" for _, one in every)
    heading = f"{plain(config.dataset, 80)}: {config.way}-way {config.shot}-shot, {len(results[0].per_task)} test tasks"
    heading += f", {len(results[0].per_seed)} seeds" if results[0].per_seed else ""
    table = Table(title=Text(heading), caption=_caption(results, [one for _, one in every]))
    for title in ("method", "head"):
        table.add_column(title)
    for title in ("way", "shot", "accuracy %", *(["Dirichlet(2) %"] if unbalanced else []), "seconds"):
        table.add_column(title, justify="right")

    def accuracy(name: str, found: Mapping[str, Evaluation]) -> str:
        if name not in found:
            return ""
        number = f"{100 * found[name].accuracy:.2f} ± {100 * found[name].ci95:.2f}"
        return f"[bold]{number}[/bold]" if found[name].accuracy == best[name] else number

    for method, chosen, seconds, found in groups:
        table.add_section()
        heads = sorted((one for one in found if not one.endswith("/dirichlet")), key=lambda h: found[h].transductive)
        for number, head in enumerate(heads):
            e = found[head]
            if number and e.transductive != found[heads[number - 1]].transductive:
                table.add_section()
            marks = (" *" if e.transductive else "") + ("*" if _knows_balance(e) else "")
            numbers = [accuracy(name, found) for name in (head, f"{head}/dirichlet")[: 1 + unbalanced]]
            shown = (method, f"{seconds:.1f}") if number == 0 else ("", "")
            mark = f"{head}{marks}{' (chosen)' if head == chosen else ''}"
            table.add_row(shown[0], mark, str(e.way), str(e.shot), *numbers, shown[1])
    return table


def _groups(results: list[Result]) -> Iterator[tuple[str, str, float, Mapping[str, Evaluation]]]:
    """Of each method, the baseline first: name, the head that chose the checkpoint, seconds, evaluations."""
    if all(result.config.method != "smooth" for result in results):
        for result in [result for result in results if result.baseline][:1]:
            yield "smooth (no training)", "", result.seconds["baseline"], result.baseline
    for result in results:
        seconds = sum(value for name, value in result.seconds.items() if name != "baseline")
        chosen = result.config.head if result.history is not None else ""
        yield result.config.method, chosen, seconds, result.evaluations


def _knows_balance(evaluation: Evaluation) -> bool:
    from naq.heads import HEADS

    return evaluation.head in HEADS and HEADS[evaluation.head].knows_balance


def _caption(results: list[Result], every: list[Evaluation]) -> str:
    tasks = "tasks without labels" if {r.config.select for r in results} == {"clusters"} else "validation tasks"
    error = "a 95 % interval over seeds and tasks" if results[0].per_seed else "1.96 standard errors over test tasks"
    lines = [f"± is {error}; * looks at a task's queries together;"]
    if any(map(_knows_balance, every)):
        lines.append("** and knows that every class has equally many of them;")
    if any(one.queries == "unbalanced" for one in every):
        lines.append("Dirichlet(2): the same tasks with unbalanced queries;")
    lines.append(f"(chosen) also selected the checkpoint, on {tasks}; bold is the best of a head.")
    if any(one.head == "own" for one in every):
        lines.append("own: the method solves tasks itself, without a head.")
    return "\n".join(lines)
