"""What the page of a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq_paper.cells.records import Record
from naq_paper.experiments.views import View


@dataclass(frozen=True)
class KeyFigure:
    """The answer to one question of the first screen: a few words, and a sentence or two that carry the numbers."""

    short: str
    text: str = ""


@dataclass(frozen=True)
class Advice:
    """What to run on some tasks: the method, in a few sentences why, and the command."""

    where: str
    method: str
    text: str
    command: str


@dataclass(frozen=True)
class Summary:
    """The first screen; ``done``, ``failed`` and ``missing`` are numbers of cells."""

    best: KeyFigure
    margin: KeyFigure  # by how much
    significance: KeyFigure
    cost: KeyFigure
    command: str  # runs it again
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # facts by dataset, see dataset_facts
    done: int = 0
    failed: int = 0
    missing: int = 0
    note: str = ""  # under the key figures, e.g. what they are about
    advice: Sequence[Advice] = ()  # what to run, per dataset and setting
    rule: str = ""  # how it was chosen


@dataclass(frozen=True)
class Section:
    """One experiment; ``missing`` and ``failed`` have a line per cell that has no number."""

    name: str  # the anchor of the section
    title: str
    question: str = ""
    where_in_paper: str = ""
    views: Sequence[View] = ()
    made: Sequence[Record] = ()  # of the finished cells behind it
    missing: Sequence[str] = ()
    failed: Sequence[str] = ()
    command: str = ""  # computes what is missing


@dataclass(frozen=True)
class Report:
    """The whole page."""

    title: str
    subtitle: str
    summary: Summary
    sections: Sequence[Section]
    older: Sequence[tuple[str, Sequence[Section]]] = ()  # (version of other code, its sections), apart, at the end
    notices: Sequence[str] = ()  # what the reader must know first, e.g. damaged files that were set aside
    about: Mapping[str, str] = field(default_factory=dict)  # how the page was made, its last lines
