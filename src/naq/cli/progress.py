"""What a long run shows while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

console = Console(stderr=True)
PHASES = {"build": "preparing", "test": "testing", "embed": "embedding"}
"""Phases of unknown length."""
Tell = Callable[[str, Mapping[str, Any]], None]


@contextmanager
def show_progress(title: str) -> Iterator[Tell]:
    """A bar on a terminal; a line every tenth of the way elsewhere."""
    if not console.is_terminal:
        yield _Lines(title)
        return
    columns = (
        TextColumn("[bold]{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=True),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, refresh_per_second=5) as progress:
        yield _Bars(progress, title)


def note_of(facts: Mapping[str, Any]) -> str:
    """``loss 1.23  valid 65.1 % (best 66.0 %)``."""
    if facts.get("valid") is None:
        return "before the first validation"
    return f"loss {facts['loss']:.3f}  valid {100 * facts['valid']:.1f} % (best {100 * facts['best']:.1f} %)"


class _Bars:
    def __init__(self, progress: Progress, title: str) -> None:
        self.progress, self.title = progress, title
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "train":
            self._bar("training", facts["done"], facts["total"], note_of(facts))
        elif phase == "neighbors":
            self._bar("neighbours", facts["done"], facts["total"], "")
        elif phase in PHASES:
            self._bar(PHASES[phase], 0, None, "")
        elif phase == "plan":
            self.progress.console.print(f"{self.title}: {facts['plan']}", highlight=False, soft_wrap=True)

    def _bar(self, name: str, done: int, total: int | None, note: str) -> None:
        if name not in self.tasks:
            for other in self.tasks.values():
                self.progress.update(other, visible=False)
            self.tasks[name] = self.progress.add_task(name, total=total, note=note)
        self.progress.update(self.tasks[name], completed=done, note=note)


class _Lines:
    def __init__(self, title: str) -> None:
        self.title = title
        self.shown = 0

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "train":
            tenth = 10 * facts["done"] // max(1, facts["total"])
            if tenth > self.shown:
                self.shown = tenth
                line = f"{self.title}: {facts['done']:,} of {facts['total']:,} {facts['unit']}, {note_of(facts)}, {facts['seconds']:.0f} s"
                console.print(line, highlight=False, soft_wrap=True)
        elif phase in ("build", "test"):
            console.print(f"{self.title}: {PHASES[phase]}", highlight=False, soft_wrap=True)
        elif phase == "plan":
            console.print(f"{self.title}: {facts['plan']}", highlight=False, soft_wrap=True)
        elif phase == "finished":
            console.print(f"{self.title}: already done in {facts['folder']}", highlight=False, soft_wrap=True)
