"""From scores, records and the paper's numbers to pieces of views."""

from __future__ import annotations

from collections.abc import Sequence

from naq.experiments.paper import PaperNumber
from naq.experiments.request import Request
from naq.experiments.views import Missing, Series, TextView
from naq.grid.records import Record
from naq.statistics import Score

Level = float | str
TEST_ACCURACY = "test accuracy, %"
WHISKERS = "Whiskers are 95 % intervals over test tasks."


def told(request: Request, dataset: str, sentences: Sequence[str]) -> TextView:
    """What was found on a dataset, which is named where there are several."""
    several = len(request.datasets) > 1
    return TextView([f"{dataset}: {sentence}" if several else sentence for sentence in sentences])


def dataset_slug(dataset: str) -> str:
    """A dataset's name or path as part of a file name."""
    stem = dataset.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".npz")
    return "".join(c if c.isalnum() else "-" for c in stem).strip("-").lower() or "graph"


def not_there(record: Record | None, paper: float | str | None = None) -> Missing:
    """What stands where the number of a cell would, with the reason."""
    return Missing("not run" if record is None else f"failed: {record.error}", paper)


def score_series(name: str, x: Sequence[Level], scores: Sequence[Score | None]) -> Series:
    """Accuracies in percent with their intervals over tasks."""

    def percent(side: int) -> list[float | None]:
        return [None if s is None else 100 * (s.mean + side * s.ci95) for s in scores]

    return Series(name, list(x), percent(0), percent(-1), percent(1))


def value_of(known: PaperNumber | None) -> float | None:
    """The paper's number, where it has one."""
    return None if known is None else known.value


def from_paper(name: str, levels: Sequence[Level], known: Sequence[PaperNumber | None]) -> list[Series]:
    """The paper's numbers as a series, or none where it has none."""
    values = [value_of(one) for one in known]
    return [] if all(value is None for value in values) else [Series(name, list(levels), values, paper=True)]
