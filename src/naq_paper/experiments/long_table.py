"""Results as one long table: a row per training and head, or per other measurement. Scores and marks come from it.

Columns: experiment, dataset, group (place of the cells' group), row, column, method, way, shot, level, seed, head,
chosen (whether the head chose the checkpoint), tasks (fingerprint), trained, draw (of the perturbation), per_task
(fractions), measures (other numbers by name), key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from naq.errors import MissingDependency
from naq_paper.cells.cell import canonical
from naq_paper.cells.records import Record
from naq_paper.experiments.seed_groups import Key
from naq_paper.statistics import Score, score

try:
    import pandas as pd
except ImportError as error:
    raise MissingDependency('results are shown with pandas: pip install "naq[paper]".') from error

if TYPE_CHECKING:
    from naq_paper.experiments.experiment import Study

COLUMNS = (
    *("experiment", "dataset", "group", "row", "column", "method", "way", "shot", "level", "seed", "head", "chosen"),
    *("tasks", "trained", "draw", "per_task", "measures", "key"),
)


@dataclass(frozen=True, eq=False)
class LongTable:
    """The rows of a study, and the scores of its groups.

    Attributes:
        frame: a row per training and head.
        keys: of the study's groups; ``frame.group`` counts them.
    """

    frame: pd.DataFrame
    keys: Sequence[Key]
    _scores: dict[str | None, dict[Key, Score]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, study: Study) -> LongTable:
        """Everything of a study that is finished."""
        about = {"experiment": study.experiment.name, "dataset": study.dataset}
        rows = [
            {**about, "group": place, **_names(key), **one}
            for place, key in enumerate(study.groups)
            for record in study.records(key)
            for one in record_rows(record)
        ]
        return cls(pd.DataFrame(rows, columns=COLUMNS), list(study.groups))

    def scores(self, head: str | None = None) -> Mapping[Key, Score]:
        """The score of each group that has results under a head, by default the one that chose its checkpoints."""
        if head not in self._scores:
            rows = self.frame[self.frame.chosen.astype(bool) if head is None else self.frame["head"] == head]
            by_group = dict(iter(rows.groupby("group", sort=False)))
            self._scores[head] = {
                key: score_of(by_group[place]) for place, key in enumerate(self.keys) if place in by_group
            }
        return self._scores[head]


def _names(key: Key) -> dict[str, Any]:
    row, column = key if isinstance(key, tuple) and len(key) == 2 else (key, "")
    return {"row": row, "column": column}


def record_rows(record: Record) -> Iterator[dict[str, Any]]:
    """The rows of a record: of a training by head, of a draw of labels by their number, else one with its numbers."""
    result, own = record.result or {}, record.cell.config
    common = {"method": own.get("method") or own.get("peer"), "seed": own.get("seed"), "chosen": False}
    if "evaluations" in result:
        yield from head_rows(record)
    elif "by_shot" in result:
        for one in result["by_shot"]:
            where = {"shot": one["shot"], "level": one["shares"], "tasks": one["draw"]}
            yield {**common, **where, "measures": _numbers(one), "key": record.key}
    else:
        yield {**common, "measures": _numbers(result), "key": record.key}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def head_rows(record: Record) -> Iterator[dict[str, Any]]:
    """The rows of a training: one for every head and kind of queries that its vectors were tested with."""
    assert record.result is not None
    result = record.result
    config, perturbation = result["config"], record.cell.config.get("perturbation")
    found = result["evaluations"]
    chosen = config["head"] if config["head"] in found else next(iter(found), "")
    common = {name: config.get(name) for name in ("method", "way", "shot", "seed")}
    level = canonical({k: v for k, v in (perturbation or {}).items() if k != "seed"})
    for head, evaluation in found.items():
        queries = evaluation.get("queries", "balanced")
        yield common | {
            "level": level,
            "head": head,
            "chosen": head == chosen,
            "tasks": result["data"]["tasks"] + ("" if queries == "balanced" else f" {queries}"),
            "trained": result["history"] is not None,
            "draw": None if perturbation is None else perturbation["seed"],
            "per_task": evaluation["per_task"],
            "key": record.key,
        }


def score_of(rows: pd.DataFrame) -> Score:
    """The score of trainings on the tasks they share: those tested on other tasks than the first one are left out.

    If every seed has its own graph, drawn by a perturbation that removes nodes, tasks belong to the draw and none is
    left out. The fingerprint then names the tasks of all draws in order, so ``runs[s, t]`` of two methods with the same
    one is one task of one draw. The spread over seeds holds the variance between draws, which a difference counts for
    both methods.
    """
    tasks, runs = rows.tasks.iloc[0], rows.per_task.tolist()
    own_draws = bool(rows.draw.notna().all() and rows.level.nunique() == 1 and rows.draw.nunique() == len(rows))
    if own_draws and rows.tasks.nunique() > 1:
        same = rows[rows.per_task.map(len) == len(runs[0])]
        return score(same.per_task.tolist(), " | ".join(same.tasks))
    kept = rows[rows.tasks == tasks].per_task.tolist()
    # Without training only a perturbation drawn anew for every seed makes seeds differ; that of an SVD does not.
    if rows.trained.any() or rows.draw.notna().any():
        return score(kept, tasks)
    return score(kept[:1] if all(run == kept[0] for run in kept) else kept, tasks, trained=False)
