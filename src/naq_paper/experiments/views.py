"""What an experiment shows: tables, plots and sentences, before anybody decides how they look.

Values of accuracy are in percent here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Number:
    """A measured number in a table.

    Attributes:
        value: the mean; ``ci``: half width of its 95 % interval over tasks.
        spread: standard deviation over ``seeds`` trainings; None with one.
        paper: the paper's number for the same entry, or its word (``OOM``), and ``paper_ci`` its interval.
        rank: 1 for the best of its column, 2 for the second, else 0.
        mark: ``▲`` significantly better than all others, ``≈`` no significant difference from the best, ``▼``
            significantly worse than the best (p < 0.05, Holm), "" without a comparison.
        against: ``s+`` significantly better than the `smooth` baseline, ``s=`` no significant difference, ``s-`` worse.
        digits: after the point.
        keys: of the cells behind it.
    """

    value: float
    ci: float | None = None
    spread: float | None = None
    seeds: int = 1
    paper: float | str | None = None
    paper_ci: float | None = None
    rank: int = 0
    mark: str = ""
    against: str = ""
    digits: int = 2
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Missing:
    """An entry that has no number, and why; the paper may have one."""

    reason: str = "not run"
    paper: float | str | None = None
    paper_ci: float | None = None


@dataclass(frozen=True)
class Label:
    """The name of a row with a remark on it, e.g. ``cut at 300 epochs``."""

    text: str
    remark: str


Entry = Number | Missing | Label | str


def measured(value: float | None, digits: int, *, scale: float = 1.0, **more: Any) -> Entry:
    """A measured number without a comparison; a dash where it is not defined."""
    return "–" if value is None else Number(scale * value, digits=digits, **more)


@dataclass(frozen=True)
class TableView:
    """A table. ``name`` is the stem of its files; ``labels`` of the first columns are text, the rest numbers.

    ``groups`` are headings over runs of columns: (heading, number of columns), the label columns first.
    ``sorted_by`` is the column by which the rows are sorted, the largest number first; None for another order.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    labels: int = 1
    groups: Sequence[tuple[str, int]] = ()
    note: str = ""
    sorted_by: int | None = None


@dataclass(frozen=True)
class Series:
    """One line or one colour of bars: y over x, with an interval if there is one; None if a point is missing.

    ``paper`` marks numbers of the paper: drawn dashed or hollow, never as if measured here.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    paper: bool = False


@dataclass(frozen=True)
class LineView:
    """Lines over numbers or named levels (``x`` texts). ``floors`` are horizontal lines, e.g. the baseline."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    floors: Mapping[str, float] = field(default_factory=dict)
    log_x: bool = False
    note: str = ""


@dataclass(frozen=True)
class BarView:
    """Bars in groups (``x`` texts), one colour per series."""

    name: str
    title: str
    y_label: str
    series: Sequence[Series]
    floors: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """One cloud of points: coordinates and the group of each."""

    title: str
    x: Sequence[float]
    y: Sequence[float]
    group: Sequence[int]
    caption: str = ""


@dataclass(frozen=True)
class ScatterView:
    """Clouds of points side by side; ``groups`` names what ``Panel.group`` counts."""

    name: str
    title: str
    panels: Sequence[Panel]
    groups: Sequence[str]
    note: str = ""


@dataclass(frozen=True)
class TextView:
    """Sentences: what was found, in plain words. ``kind`` is ``verdict`` or ``caveat``."""

    sentences: Sequence[str]
    kind: str = "verdict"


View = TableView | LineView | BarView | ScatterView | TextView
