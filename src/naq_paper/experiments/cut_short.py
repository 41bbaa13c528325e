"""Trainings that ended because their limit was reached: whether a longer one might have done better."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from naq_paper.cells.records import Record
from naq_paper.experiments.names import learner_of
from naq_paper.experiments.request import BUDGETS

LEGEND = (
    "Cut: the training reached its limit before it stopped by itself, and the limit is below that of the budget paper, or the best checkpoint is the "
    "last one: still improving. Longer training may change such a row."
)


@dataclass(frozen=True)
class Ends:
    """How the trainings of a row ended; numbers of trainings.

    Attributes:
        trained: all of them.
        reached: those that reached their limit.
        improving: those of them whose best checkpoint is the last one.
        limit: the largest limit, in ``unit``; ``papers``: that of the budget ``paper``, 0 where it has none.
    """

    trained: int
    reached: int
    improving: int
    limit: int
    papers: int
    unit: str

    @property
    def cut(self) -> int:
        """Trainings that were cut short."""
        return self.reached if self.limit < self.papers else self.improving

    @property
    def mark(self) -> str:
        """``cut at 300 epochs, 2 of 5 still improving``; "" where none was cut."""
        if not self.cut:
            return ""
        some = "" if self.cut == self.trained else f"{self.cut} of {self.trained} "
        count = "" if self.improving == self.cut else f"{self.improving} of {self.trained} "
        more = f", {count}still improving" if self.improving else ""
        return f"{some}cut at {self.limit:,} {self.unit}{more}"

    @property
    def words(self) -> str:
        """What a table of costs says."""
        if not self.reached:
            return f"by itself, limit {self.limit:,}"
        by = "at the limit" if self.reached == self.trained else f"{self.reached} of {self.trained} at the limit"
        paper = f" (paper {self.papers:,})" if self.papers else ""
        more = f"; {self.improving} of {self.trained} still improving" if self.improving else ""
        return f"{by}, {self.limit:,}{paper}{more}"


def ends_of(records: Iterable[Record]) -> Ends | None:
    """How the trainings of one row ended; None where nothing was trained."""
    judged = [record for record in {r.key: r for r in records}.values() if _judged(record)]
    if not judged:
        return None
    reached = [record for record in judged if not _facts(record)["stopped_early"]]
    unit, method = str(_facts(judged[0])["unit"]), str(judged[0].cell.config["method"])
    budget = BUDGETS["paper"]
    papers = budget.episodes if unit == "episodes" else budget.epochs.get(learner_of(method), 0)
    limit = max(_limit(record) for record in judged)
    return Ends(len(judged), len(reached), sum(map(_improving, reached)), limit, papers, unit)


def _facts(record: Record) -> dict:  # type: ignore[type-arg]
    assert record.result is not None
    return record.result["facts"]  # type: ignore[no-any-return]


def _judged(record: Record) -> bool:
    return record.result is not None and record.result["history"] is not None and "stopped_early" in _facts(record)


def _limit(record: Record) -> int:
    config = record.cell.config
    return int(config["episodes"] if "episodes" in config else config["options"]["epochs"])


def _improving(record: Record) -> bool:
    """Whether the best checkpoint is the last one."""
    assert record.result is not None
    return bool(_facts(record)["best_step"] >= record.result["history"]["steps"][-1])
