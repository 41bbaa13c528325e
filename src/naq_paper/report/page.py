"""What the page of a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq_paper.experiments.views import View


@dataclass(frozen=True)
class Made:
    """How one cell was made.

    Attributes:
        key: of the cell; ``Number.keys`` point to it.
        config: every option, JSON values.
        data: hash of the data.
        code: version of the code.
        versions: of libraries.
        machine: in words.
        seconds: wall clock.
        finished: UTC.
    """

    key: str
    title: str
    config: Mapping[str, Any]
    seed: int | None
    data: str
    code: str
    versions: Mapping[str, str]
    machine: str
    seconds: float
    finished: str


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
    """The first screen.

    Attributes:
        best: which method is best.
        margin: by how much.
        real: whether the difference is significant.
        cost: what did it cost.
        command: runs it again.
        data: the datasets.
        done, failed, missing: numbers of cells.
        note: a sentence under the answers, e.g. what they are about.
        advice: what to run, per dataset and setting; ``rule``: how it was chosen.
    """

    best: Answer
    margin: Answer
    real: Answer
    cost: Answer
    command: str
    data: Sequence[DataFacts] = ()
    done: int = 0
    failed: int = 0
    missing: int = 0
    note: str = ""
    advice: Sequence[Advice] = ()
    rule: str = ""


@dataclass(frozen=True)
class Section:
    """One experiment.

    Attributes:
        name: short, the anchor of the section.
        question: what the experiment asks.
        where_in_paper: ``Table 1``.
        made: the cells behind it.
        missing, failed: one line per cell that has no number.
        command: computes what is missing.
    """

    name: str
    title: str
    question: str = ""
    where_in_paper: str = ""
    views: Sequence[View] = ()
    made: Sequence[Made] = ()
    missing: Sequence[str] = ()
    failed: Sequence[str] = ()
    command: str = ""


@dataclass(frozen=True)
class Page:
    """The whole report.

    Attributes:
        older: results of other code versions, (version, its sections); shown apart, at the end.
        notices: what the reader must know first, e.g. damaged files that were set aside.
        made: how the page was made, name to value; its last lines.
    """

    title: str
    subtitle: str
    summary: Summary
    sections: Sequence[Section]
    older: Sequence[tuple[str, Sequence[Section]]] = ()
    notices: Sequence[str] = ()
    made: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ShortPage:
    """A page without cells: a few questions with their answers, and sections.

    Attributes:
        answers: (question, answer), the first the largest.
        command: makes the page again.
    """

    title: str
    subtitle: str
    answers: Sequence[tuple[str, Answer]]
    sections: Sequence[Section]
    command: str = ""
