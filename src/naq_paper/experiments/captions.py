"""What the figures of experiments share: sentences on differences, entries of tables, series of plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from naq.run.evaluate import BASELINE
from naq_paper.cells.records import Record
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name, learner_of
from naq_paper.experiments.paper import PaperNumber
from naq_paper.experiments.request import BUDGETS
from naq_paper.experiments.views import Number, Series, TextView
from naq_paper.statistics import Comparison, Difference, Score, Standing, detectable

Column = Mapping[str, Score]
"""Scores on the same tasks by row."""
TEST_ACCURACY = "test accuracy, %"
WHISKERS = "Whiskers are 95 % intervals over test tasks."
ONE_SEED = "one seed: no significance is claimed"
CUT_SHORT = (
    "Cut: the training reached its limit before it stopped by itself, and the limit is below that of the budget "
    "paper, or the best checkpoint is the "
    "last one: still improving. Longer training may change such a row."
)
SMOOTH = full_name(BASELINE)
"""The name of the `smooth` baseline in tables."""
NOTHING = "Nothing is finished yet."


def findings(study: Study, sentences: Sequence[str]) -> TextView:
    """What was found on a dataset, which is named if there are several."""
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


def score_series(name: str, x: Sequence[float | str], scores: Sequence[Score | None]) -> Series:
    """Accuracies in percent with their intervals over tasks."""

    def percent(side: int) -> list[float | None]:
        return [None if s is None else 100 * (s.mean + side * s.ci95) for s in scores]

    return Series(name, list(x), percent(0), percent(-1), percent(1))


def value_of(known: PaperNumber | None) -> float | None:
    """The paper's number, where it has one."""
    return None if known is None else known.value


def from_paper(name: str, levels: Sequence[float | str], known: Sequence[PaperNumber | None]) -> list[Series]:
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


def in_points(found: Comparison) -> str:
    """``3.1 ± 0.8 points (significantly better, p < 0.05, Holm)``, whatever its direction."""
    return f"{amount(found.difference)} ({significance(found)})"


def level_text(level: float | str) -> str:
    return level if isinstance(level, str) else f"{level:g}"


def change_words(
    row: str, levels: tuple[float | str, float | str], scores: tuple[Score, Score], test: Comparison
) -> str:
    """What a row gains or loses from one level to another."""
    before, after = (one.mean for one in scores)
    change = f"{'gains' if after > before else 'loses'} {in_points(test)}"
    first, last = map(level_text, levels)
    return f"{row} {change} from {first} to {last} ({100 * before:.1f} to {100 * after:.1f} %)."


def leaders(column: Column) -> tuple[str, str]:
    """The best row of a column, and the next one that is not the same trainings under another name."""
    order = sorted(column, key=lambda name: -column[name].mean)
    others = (name for name in order[1:] if not np.array_equal(column[name].runs, column[order[0]].runs))
    return order[0], next(others, order[1])


def gain(found: Comparison) -> str:
    """How much one method is above or below another, in words."""
    return f"{'above' if found.difference.mean >= 0 else 'below'} by {in_points(found)}"


def power_note(columns: Iterable[Column]) -> str:
    """Which difference the columns of a table can show; "" without two rows."""
    compared = [column for column in columns if len(column) > 1]
    found = [100 * least for column in compared if (least := detectable(column)) is not None]
    if not compared:
        return ""
    if not found:
        return "One seed: intervals are over tasks, the variance over seeds is not known, and no difference is marked."
    low, high = f"{min(found):.1f}", f"{max(found):.1f}"
    size = f"{low} points" if low == high else f"{low} to {high} points, by column,"
    return (
        f"Power: a difference of {size} between two rows is found significant (p < 0.05, Holm over all pairs of a "
        "column) "
        "in 80 % of such experiments, for the median pair; a smaller one may exist where none is marked."
    )


def training_end(records: Iterable[Record]) -> tuple[str, str]:
    """How the trainings of one row ended, as a remark on the row and as a table of costs says it; "" without trainings.

    The remark is "" unless some were cut short: they reached their limit, and it is below that of the budget paper,
    or the best checkpoint is the last one.

    E.g. ``cut at 300 epochs, 2 of 5 still improving`` and ``at the limit, 300 (paper 10,000); 2 of 5 still improving``.
    """
    limits, reached, improving, papers, unit = [], 0, 0, 0, ""
    for record in {record.key: record for record in records}.values():
        result, config = record.result, record.cell.config
        if result is None or result["history"] is None or "stopped_early" not in result["facts"]:
            continue
        facts, paper = result["facts"], BUDGETS["paper"]
        limits.append(int(config["episodes"] if "episodes" in config else config["options"]["epochs"]))
        if not facts["stopped_early"]:
            reached += 1
            improving += facts["best_step"] >= result["history"]["steps"][-1]
        unit = str(facts["unit"])
        papers = paper.episodes if unit == "episodes" else paper.epochs.get(learner_of(config["method"]), 0)
    if not limits:
        return "", ""
    trained, limit = len(limits), max(limits)
    if not reached:
        return "", f"by itself, limit {limit:,}"
    cut = reached if limit < papers else improving
    some = "" if cut == trained else f"{cut} of {trained} "
    count = "" if improving == cut else f"{improving} of {trained} "
    remark = f"{some}cut at {limit:,} {unit}" + (f", {count}still improving" if improving else "") if cut else ""
    by = "at the limit" if reached == trained else f"{reached} of {trained} at the limit"
    paper_limit = f" (paper {papers:,})" if papers else ""
    more = f"; {improving} of {trained} still improving" if improving else ""
    return remark, f"{by}, {limit:,}{paper_limit}{more}"
