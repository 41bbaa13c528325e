"""How numbers, entries of tables and their legend are written, on the page, the terminal and in files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from naq_paper.cells.records import device_words
from naq_paper.experiments.views import Entry, Label, Missing, Number, TableView

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def clean(text: str) -> str:
    """``text`` without the characters that no HTML document may hold."""
    return _FORBIDDEN.sub("", text)


def slug(name: str) -> str:
    """A name for ``id`` and for an address."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"


def count_words(count: int, one: str, many: str | None = None) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shorten(words: str, most: int) -> str:
    """At most ``most`` characters of the words, the last an ellipsis where some are cut."""
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min``, ``1 h 12 min``, ``2 d 3 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h"


def machine_words(machine: Mapping[str, Any]) -> str:
    """``NVIDIA H200``, or the processor, its cores and the threads that were used."""
    if (device := device_words(machine)) != "cpu":
        return device
    parts = [re.sub(r"\((R|TM)\)", "", str(machine["processor"]))] if machine.get("processor") else []
    parts += [count_words(machine[name], name[:-1]) for name in ("cores", "threads") if machine.get(name)]
    return ", ".join(parts)


@dataclass(frozen=True)
class Parts:
    """The texts of one entry of a table; "" for what it does not have."""

    value: str  # the number, the words, or in short why the number is missing
    interval: str = ""  # ± 0.71
    spread: str = ""  # (0.31)
    mark: str = ""
    against: str = ""
    paper: str = ""  # 83.77 ± 0.96, or the paper's word
    remark: str = ""  # on a row, behind its name


def parts(entry: Entry) -> Parts:
    """The texts of an entry."""
    if isinstance(entry, str):
        return Parts(entry)
    if isinstance(entry, Label):
        return Parts(entry.text, remark=entry.remark)
    if isinstance(entry, Missing):
        reason = entry.reason.split(":")[0] if len(entry.reason) > 22 else entry.reason
        return Parts(shorten(reason, 22), paper=_paper(entry, 2))
    paper = _paper(entry, entry.digits)
    if not math.isfinite(entry.value):
        return Parts("–", paper=paper)
    interval = "" if entry.ci is None else f"± {entry.ci:,.{entry.digits}f}"
    spread = "" if entry.spread is None else f"({entry.spread:,.{entry.digits}f})"
    return Parts(f"{entry.value:,.{entry.digits}f}", interval, spread, entry.mark, entry.against, paper)


def _paper(entry: Number | Missing, digits: int) -> str:
    if entry.paper is None or isinstance(entry.paper, str):
        return entry.paper or ""
    return f"{entry.paper:,.{digits}f}" + ("" if entry.paper_ci is None else f" ± {entry.paper_ci:,.{digits}f}")


@dataclass(frozen=True)
class Markup:
    """How one kind of text sets an entry: ``escape`` for what comes from outside, and patterns with one ``%s``."""

    escape: Callable[[str], str]
    best: str
    second: str
    missing: str
    paper: str


def entry_text(entry: Entry, markup: Markup) -> str:
    """An entry on one line: ``61.82 ± 0.71 (0.31) ▲ s+ [paper 83.77 ± 0.96]``."""
    found = parts(entry)
    text = markup.escape(" ".join(filter(None, (found.value, found.interval))))
    if isinstance(entry, Missing):
        text = markup.missing % text
    elif isinstance(entry, Number):
        text = {1: markup.best, 2: markup.second}.get(entry.rank, "%s") % text
    words = [text, *(markup.escape(part) for part in (found.spread, found.mark, found.against) if part)]
    if found.remark:
        words.append(markup.escape(f"({found.remark})"))
    return " ".join([*words, *([markup.paper % markup.escape(found.paper)] if found.paper else [])])


MARKS = {
    "▲": "significantly better than every other (p < 0.05, Holm)",
    "≈": "no significant difference from the best",
    "▼": "significantly worse than the best (p < 0.05, Holm)",
}
AGAINST = {
    "s+": "significantly better than smooth (p < 0.05, Holm)",
    "s=": "no significant difference from smooth",
    "s-": "significantly worse than smooth (p < 0.05, Holm)",
}
"""Marks of the comparison with the baseline."""


def legend(view: TableView) -> list[tuple[str, str]]:
    """The signs that occur in the table's entries, each with its meaning."""
    entries = [entry for row in view.rows for entry in row]
    numbers = [entry for entry in entries if isinstance(entry, Number)]
    ranks = {entry.rank for entry in numbers}
    marks = {mark for entry in numbers for mark in (entry.mark, entry.against)}
    lines = [
        ("bold", "best of its column", 1 in ranks),
        ("underlined", "second best", 2 in ranks),
        ("±", "95 % interval over tasks", any(entry.ci is not None for entry in numbers)),
        ("(…)", "standard deviation over seeds", any(entry.spread is not None for entry in numbers)),
        *((mark, meaning, mark in marks) for mark, meaning in (MARKS | AGAINST).items()),
        ("paper", "the paper's number", any(isinstance(e, Number | Missing) and e.paper is not None for e in entries)),
    ]
    return [(sign, meaning) for sign, meaning, occurs in lines if occurs]


def legend_text(view: TableView) -> str:
    """The legend as one line; "" where no sign occurs."""
    return "; ".join(f"{sign}: {meaning}" for sign, meaning in legend(view))
