"""The progress of one run on the terminal."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from naq.errors import plain, warn
from naq.progress import Listener

if TYPE_CHECKING:
    from naq.graph import Graph

console = Console(stderr=True)
PHASES = {
    "load": "loading",
    "episodes": "drawing episodes",
    "build": "preparing",
    "embed": "embedding",
    "write": "writing",
    "test": "testing",
    "baseline": "testing the baseline",
}
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
        TextColumn("[bold]{task.description}"), BarColumn(bar_width=28), _Count(), TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(), _Left(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, refresh_per_second=5) as progress:
        yield _Bars(progress, title)


def load_shown(
    dataset: str, nodes: Path | None = None, text_encoder: str | None = None, label: str | None = None,
    ignore: Sequence[str] = (),
) -> Graph:  # fmt: skip
    """:func:`naq.load`, and its text encoded, with a moving bar; its warnings, and the notes of an import, are lines of text."""
    from naq.io import Choice, load, load_tables
    from naq.io.tables.importing import warned
    from naq.io.tables.reading import is_graphml

    with show_progress(dataset) as listener, shown_warnings(dataset):
        listener("load", {"source": dataset})
        if nodes is None and label is None and not ignore and not is_graphml(Path(dataset)):
            graph = load(dataset)
            return graph if text_encoder is None else graph.with_text_encoder(text_encoder, listener)
        choice = Choice(label=label, ignore=tuple(ignore), text_encoder=text_encoder)
        found = load_tables(dataset, nodes, choice, listener)
        for note in found.report.notes:
            warn(note, stacklevel=1)
        return warned(found)


@contextmanager
def shown_warnings(title: str) -> Iterator[None]:
    """Warnings of what is done within are lines of text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        _say(title, str(warning.message))


def _say(title: str, text: str) -> None:
    console.print(shown(title, text), highlight=False, soft_wrap=True, markup=False)


def shown(title: str, text: str) -> str:
    """A line for the terminal; names and messages may hold anything."""
    return plain(text if text.startswith(f"{Path(title).name}: ") else f"{plain(title, 100)}: {text}")


def note_of(facts: Mapping[str, Any]) -> str:
    """``loss 1.23  valid 65.1 % (best 66.0 %)``."""
    if facts.get("valid") is None:
        return "before the first validation"
    return f"loss {facts['loss']:.3f}  valid {100 * facts['valid']:.1f} % (best {100 * facts['best']:.1f} %)"


class _Count(MofNCompleteColumn):
    """``16/160``; nothing where the length is unknown."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


class _Left(TimeRemainingColumn):
    """``left 0:01:10``; nothing where the length is unknown."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else Text("left ") + super().render(task)


class _Bars:
    """One bar, of the phase that goes on."""

    def __init__(self, progress: Progress, title: str) -> None:
        self.progress, self.title = progress, title
        self.name, self.task = "", TaskID(-1)

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "train":
            self._bar("training", facts["done"], facts["total"], note_of(facts))
        elif phase in ("neighbors", "shards", "text"):
            self._bar(facts.get("stage", "neighbours"), facts["done"], facts["total"], "")
        elif phase in PHASES:
            self._bar(PHASES[phase], 0, None, "")
        elif text := _text_of(phase, facts):
            _say(self.title, text)

    def _bar(self, name: str, done: int, total: int | None, note: str) -> None:
        if name != self.name:
            if self.name:
                self.progress.remove_task(self.task)
            self.name, self.task = name, self.progress.add_task(name, total=total, note=note)
        self.progress.update(self.task, completed=done, note=note)


class _Lines:
    """Lines on standard error."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.phase, self.tenth, self.began = "", 0, 0.0
        self.timer: Timer | None = None

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        self.settle()
        if (name := str(facts.get("stage", phase))) != self.phase:
            self.phase, self.tenth, self.began = name, 0, time.monotonic()
        if phase in ("train", "neighbors", "shards", "text"):
            if phase != "train" and time.monotonic() - self.began <= PATIENCE:
                return
            before, self.tenth = self.tenth, 10 * facts["done"] // max(1, facts["total"])
            done = f"{facts['done']:,} of {facts['total']:,}"
            if self.tenth > before and phase == "train":
                self._line(f"{done} {facts['unit']}, {note_of(facts)}, {facts['seconds']:.0f} s")
            elif self.tenth > before:
                self._line(
                    f"neighbours of {done} nodes"
                    if phase == "neighbors"
                    else f"{facts['stage']}: {done} {facts.get('unit', 'shards')}"
                )
        elif phase in PHASES:
            self.timer = Timer(PATIENCE, self._line, [PHASES[phase]])
            self.timer.daemon = True
            self.timer.start()
        elif text := _text_of(phase, facts):
            self._line(text)

    def settle(self) -> None:
        """The phase is over: no line about it any more."""
        if self.timer is not None:
            self.timer.cancel()

    def _line(self, text: str) -> None:
        _say(self.title, text)


def _text_of(phase: str, facts: Mapping[str, Any]) -> str:
    """What is worth a line wherever it is shown."""
    if phase == "finished":
        return f"already done in {facts['folder']}"
    return str(facts["plan"]) if phase == "plan" else str(facts["text"]) if phase == "warning" else ""
