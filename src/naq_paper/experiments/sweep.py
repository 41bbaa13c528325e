"""Experiments that train the same methods under several levels of one condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from naq.run.evaluate import BASELINE
from naq_paper.experiments.captions import (
    LEGEND,
    NOTHING,
    SMOOTH,
    TEST_ACCURACY,
    WHISKERS,
    Level,
    ends_of,
    findings,
    number,
    points,
    power_note,
    score_series,
    table_name,
)
from naq_paper.experiments.experiment import Contest, Experiment, Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group
from naq_paper.experiments.views import BarView, Entry, Label, LineView, Series, TableView, View
from naq_paper.statistics import Comparison, Score, compare, family

BASE_MODEL = ("protonet",)
"""The learner of the paper's analyses, where a request names none."""
FOUR = ("protonet", "maml", "gmeta", "tent")
"""Those of its figures on scarce and wrong labels."""
Found = Mapping[Key, Score]
Tests = Mapping[Key, Comparison]
Pairs = dict[Key, tuple[Score, Score]]
Conditions = Mapping[Level, Mapping[str, Any]]


@dataclass(frozen=True)
class SweepPoint:
    """A method under a level, which is a row and a column; settings are arguments of
    :func:`~naq_paper.experiments.seed_groups.seed_group` that the level changes.
    """

    row: str
    level: Level
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def learners_of(request: Request, default: tuple[str, ...] = BASE_MODEL) -> tuple[str, ...]:
    """The base models that the request names, else the ``default``, of which a thin budget keeps the first."""
    return request.learners or (default[:1] if request.limits.thin else default)


def trained(request: Request, *kinds: str, default: tuple[str, ...] = BASE_MODEL) -> list[str]:
    """Each base model with each kind of episodes."""
    return [f"{kind}/{learner}" for learner in learners_of(request, default) for kind in kinds]


class Sweep(Experiment):
    """A table with a row per method and a column per level, a plot of the same, and sentences on what changed.

    Attributes:
        x_label: of the levels.
        bars: whether levels are names without an order.
        baseline: whether the `smooth` baseline is shown; it sees the same perturbed data.
        labels_only: whether levels change labels alone, which neither it nor NaQ reads: NaQ with the first base model is the
            same training at every level.
    """

    x_label: ClassVar[str]
    bars: ClassVar[bool] = False
    log_x: ClassVar[bool] = False
    baseline: ClassVar[bool] = True
    labels_only: ClassVar[bool] = False
    note: ClassVar[str] = ""

    def methods(self, request: Request) -> Sequence[str]:
        """What is trained at every level."""
        raise NotImplementedError

    def conditions(self, request: Request, dataset: str) -> Conditions:
        """The levels in order, and the settings of each."""
        raise NotImplementedError

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        """Every point, row by row, levels in order: each method under each condition."""
        conditions = self.conditions(request, dataset)
        rows = [(method, conditions) for method in self.methods(request)]
        if self.labels_only:
            first = learners_of(request)[0]
            rows += [(f"{kind}/{first}", {level: {} for level in conditions}) for kind in ("naq-feat", "naq-diff")]
        return [SweepPoint(full_name(method), level, method, how) for method, at in rows for level, how in at.items()]

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        """The paper's own numbers of the same figure."""
        return []

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        """Pairs of a row's finished levels that sentences compare: from the first to the last, or to each without an order."""
        return [(levels[0], level) for level in (levels[1:] if self.bars else levels[-1:])]

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """Pairs that the remarks speak of; with the steps of all rows they are one family."""
        return {}

    def remarks(self, study: Study, found: Found, tests: Tests) -> list[str]:
        """Sentences of this analysis beside the general ones; ``tests`` has its comparisons."""
        return []

    def more_views(self, study: Study) -> list[View]:
        """Further views of the same request."""
        return []

    def remark_below(self, request: Request) -> str:
        """Stands below the table."""
        return self.note

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        asked = self.points(request, dataset)
        groups: dict[Key, SeedGroup] = {
            (point.row, point.level): seed_group(request, dataset, point.method, **point.settings) for point in asked
        }
        if self.baseline:
            # The baseline is run under the perturbation of its level.
            for level, settings in {point.level: point.settings for point in asked}.items():
                perturbation = None if self.labels_only else settings.get("perturbation")
                seeds = None if perturbation is not None and "seed" not in perturbation else request.all_seeds[:1]
                groups[SMOOTH, level] = seed_group(request, dataset, BASELINE, perturbation=perturbation, seeds=seeds)
        return groups

    def headline(self, study: Study) -> list[Contest]:
        """The methods at the first level, where nothing is changed yet."""
        keys = _points_of(study)
        first = [key for key in keys if key[1] == keys[0][1]]
        scores = {row: s for row, level in first if (s := study.score((row, level))) is not None}
        way, shot = study.request.way, study.request.shot
        where = f"{study.dataset}, {way}-way {shot}-shot, nothing changed"
        return [Contest(where, (way, shot), scores, {key[0]: study.records(key) for key in first})]

    def views(self, study: Study) -> list[View]:
        keys = _points_of(study)
        found: dict[Key, Score] = {key: s for key in keys if (s := study.score(key)) is not None}
        rows, levels = list(dict.fromkeys(row for row, _ in keys)), list(dict.fromkeys(level for _, level in keys))
        return [
            findings(study, self._sentences(study, rows, levels, found)),
            self._plot(study, rows, levels, found),
            self._table(study, rows, levels, found),
            *self.more_views(study),
        ]

    def _table(self, study: Study, rows: Sequence[str], levels: Sequence[Level], found: Found) -> TableView:
        rows = sorted(rows, key=lambda row: -found[row, levels[0]].mean if (row, levels[0]) in found else 1.0)
        columns = {level: {row: found[row, level] for row in rows if (row, level) in found} for level in levels}
        standings = {level: compare(column, SMOOTH) for level, column in columns.items()}

        def entry(row: str, level: Level) -> Entry:
            key = (row, level)
            if key in found:
                return number(found[key], standings[level].get(row), keys=study.keys(key))
            return study.missing(key) if key in study.groups else "–"

        ends = {row: ends_of(r for key in found if key[0] == row for r in study.records(key)) for row in rows}
        marks = {row: one.mark for row, one in ends.items() if one is not None and one.mark}
        order = "Sorted by the first column; levels are in their own order."
        notes = (order, LEGEND if marks else "", self.remark_below(study.request), power_note(columns.values()))
        return TableView(
            name=table_name(study),
            title=f"{self.title}: {study.dataset}, test accuracy in %",
            columns=[self.x_label, *map(_level_text, levels)],
            rows=[
                [Label(row, marks[row]) if row in marks else row, *(entry(row, level) for level in levels)]
                for row in rows
            ],
            note=" ".join(filter(None, notes)),
            sorted_by=1,
        )

    def _plot(self, study: Study, rows: Sequence[str], levels: Sequence[Level], found: Found) -> LineView | BarView:
        series = [score_series(row, levels, [found.get((row, level)) for level in levels]) for row in rows]
        series += self.paper_series(study.request, study.dataset)
        title, name = f"{self.title}: {study.dataset}", table_name(study)
        if self.bars:
            return BarView(name, title, TEST_ACCURACY, series, note=WHISKERS)
        return LineView(name, title, self.x_label, TEST_ACCURACY, series, log_x=self.log_x, note=WHISKERS)

    def _sentences(self, study: Study, rows: Sequence[str], levels: Sequence[Level], found: Found) -> list[str]:
        def cells(row: str, level: Level) -> list[str]:
            return [cell.text for cell in study.groups[row, level].cells(study.find)]

        there = {row: [level for level in levels if (row, level) in found] for row in rows if row != SMOOTH}
        steps = [(row, *step) for row, known in there.items() if len(known) > 1 for step in self.steps(known)]
        pairs: Pairs = {
            (row, first, last): (found[row, last], found[row, first])
            for row, first, last in steps
            if cells(row, first) != cells(row, last)
        }
        tests = family({**pairs, **self.comparisons(study, found)})
        sentences = [
            change_words(row, first, last, found, tests)
            if (row, first, last) in pairs
            else f"{row} is the same training at every level: {100 * found[row, last].mean:.1f} %."
            for row, first, last in steps
        ]
        sentences += self.remarks(study, found, tests)
        return sentences or ["Too little is finished to compare." if found else NOTHING]


def change_words(row: str, first: Level, last: Level, found: Found, tests: Tests) -> str:
    """What a row gains or loses from one level to another."""
    before, after = found[row, first].mean, found[row, last].mean
    change = f"{'gains' if after > before else 'loses'} {points(tests[row, first, last])}"
    levels = f"from {_level_text(first)} to {_level_text(last)}"
    return f"{row} {change} {levels} ({100 * before:.1f} to {100 * after:.1f} %)."


def _points_of(study: Study) -> list[tuple[str, Level]]:
    """The keys of the sweep itself: (row, level); further groups of an analysis have other keys."""
    return [key for key in study.groups if isinstance(key, tuple) and len(key) == 2]


def _level_text(level: Level) -> str:
    return level if isinstance(level, str) else f"{level:g}"
