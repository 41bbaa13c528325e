"""Words and pieces that the views of experiments share: sentences on differences, entries of tables, series of plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from naq.run.evaluate import BASELINE
from naq_paper.cells.records import Record
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name, learner_of
from naq_paper.experiments.paper import PaperNumber
from naq_paper.experiments.request import BUDGETS
from naq_paper.experiments.views import Number, Series, TextView
from naq_paper.statistics import Comparison, Difference, Score, Standing, detectable

Level = float | str
"""Of a condition: numbers make an axis, texts make groups."""
TEST_ACCURACY = "test accuracy, %"
WHISKERS = "Whiskers are 95 % intervals over test tasks."
ONE_SEED = "one seed: no significance is claimed"
LEGEND = (
    "Cut: the training reached its limit before it stopped by itself, and the limit is below that of the budget paper, or the best checkpoint is the "
    "last one: still improving. Longer training may change such a row."
)
SMOOTH = full_name(BASELINE)
"""What the `smooth` baseline is called beside trained methods."""
NOTHING = "Nothing is finished yet."


def findings(study: Study, sentences: Sequence[str]) -> TextView:
    """What was found on a dataset, which is named where there are several."""
    several = len(study.request.datasets) > 1
    return TextView([f"{study.dataset}: {sentence}" if several else sentence for sentence in sentences])


def dataset_slug(dataset: str) -> str:
    """A dataset's name or path as part of a file name."""
    stem = dataset.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".npz")
    return "".join(c if c.isalnum() else "-" for c in stem).strip("-").lower() or "graph"


def table_name(study: Study, part: str = "") -> str:
    """The stem of a view's files: ``methods-debian``, ``methods-heads-debian``."""
    return "-".join(word for word in (study.experiment.name, part, dataset_slug(study.dataset)) if word)


def number(
    found: Score,
    standing: Standing | None = None,
    *,
    paper: float | str | None = None,
    paper_ci: float | None = None,
    keys: Sequence[str] = (),
) -> Number:
    """A score as an entry of a table, in percent."""
    rank, mark, against = (0, "", "") if standing is None else (standing.rank, standing.mark, standing.against)
    return Number(
        100 * found.mean,
        100 * found.ci95,
        None if found.spread is None else 100 * found.spread,
        found.seeds,
        paper,
        paper_ci,
        rank if rank <= 2 else 0,
        mark,
        against,
        keys=tuple(keys),
    )


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
    return [Series(name, list(levels), values, paper=True)] if any(value is not None for value in values) else []


def amount(found: Difference) -> str:
    """``3.1 ± 0.8 points``, whatever its direction."""
    return f"{100 * abs(found.mean):.1f} ± {100 * found.ci95:.1f} points"


def significance(found: Comparison) -> str:
    """What a comparison shows, as one of a family."""
    if not found.significant:
        return ONE_SEED if found.p is None else "no significant difference"
    return f"significantly {'better' if found.difference.mean > 0 else 'worse'}, p < 0.05, Holm"


def points(found: Comparison) -> str:
    """``3.1 ± 0.8 points (significantly better, p < 0.05, Holm)``, whatever its direction."""
    return f"{amount(found.difference)} ({significance(found)})"


def leaders(column: Mapping[str, Score]) -> tuple[str, str]:
    """The best row of a column, and the next one that is not the same trainings under another name."""
    order = sorted(column, key=lambda name: -column[name].mean)
    others = (name for name in order[1:] if not np.array_equal(column[name].runs, column[order[0]].runs))
    return order[0], next(others, order[1])


def gain(found: Comparison) -> str:
    """How much one method is above or below another, in words."""
    return f"{'above' if found.difference.mean >= 0 else 'below'} by {points(found)}"


def power_note(columns: Iterable[Mapping[str, Score]]) -> str:
    """What the columns of a table can show, so that "no significant difference" is not read as "equal"; "" without two rows."""
    compared = [column for column in columns if len(column) > 1]
    found = [100 * least for column in compared if (least := detectable(column)) is not None]
    if not compared:
        return ""
    if not found:
        return "One seed: intervals are over tasks, the variance over seeds is not known, and no difference is marked."
    low, high = f"{min(found):.1f}", f"{max(found):.1f}"
    size = f"{low} points" if low == high else f"{low} to {high} points, by column,"
    return (
        f"Power: a difference of {size} between two rows is found significant (p < 0.05, Holm over all pairs of a column) "
        "in 80 % of such experiments, for the median pair; a smaller one may exist where none is marked."
    )


@dataclass(frozen=True)
class Ends:
    """How the trainings of a row ended, in numbers of trainings: all, those that reached their limit, and those of them whose
    best checkpoint is the last one; with the largest limit in ``unit``, and that of the budget ``paper``, 0 without one.
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
    judged = []
    for record in {record.key: record for record in records}.values():
        result = record.result
        if result is not None and result["history"] is not None and "stopped_early" in result["facts"]:
            judged.append((record.cell.config, result["facts"], result["history"]["steps"][-1]))
    if not judged:
        return None
    reached = [(facts, last) for _, facts, last in judged if not facts["stopped_early"]]
    unit, budget = str(judged[0][1]["unit"]), BUDGETS["paper"]
    papers = budget.episodes if unit == "episodes" else budget.epochs.get(learner_of(judged[0][0]["method"]), 0)
    limit = max(
        int(config["episodes"] if "episodes" in config else config["options"]["epochs"]) for config, *_ in judged
    )
    improving = sum(facts["best_step"] >= last for facts, last in reached)
    return Ends(len(judged), len(reached), improving, limit, papers, unit)
