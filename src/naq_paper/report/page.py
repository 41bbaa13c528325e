"""What the page of a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq_paper.experiments.views import View


@dataclass(frozen=True)
class Made:
    """How one cell was made."""

    key: str  # of the cell; ``Number.keys`` point to it
    title: str
    config: Mapping[str, Any]  # every option, JSON values
    seed: int | None
    data: str  # hash
    code: str  # version
    versions: Mapping[str, str]  # of libraries
    machine: str  # in words
    seconds: float
    finished: str  # UTC


@dataclass(frozen=True)
class Answer:
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
class DataFacts:
    """One dataset of the report; ``split`` is in words (``30/10/15 classes``)."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    split: str
    hash: str
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """The first screen; ``done``, ``failed`` and ``missing`` are numbers of cells."""

    best: Answer
    margin: Answer  # by how much
    real: Answer  # whether the difference is significant
    cost: Answer
    command: str  # runs it again
    data: Sequence[DataFacts] = ()
    done: int = 0
    failed: int = 0
    missing: int = 0
    note: str = ""  # under the answers, e.g. what they are about
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
    made: Sequence[Made] = ()  # the cells behind it
    missing: Sequence[str] = ()
    failed: Sequence[str] = ()
    command: str = ""  # computes what is missing


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    subtitle: str
    summary: Summary
    sections: Sequence[Section]
    older: Sequence[tuple[str, Sequence[Section]]] = ()  # (version of other code, its sections), apart, at the end
    notices: Sequence[str] = ()  # what the reader must know first, e.g. damaged files that were set aside
    made: Mapping[str, str] = field(default_factory=dict)  # how the page was made, its last lines
