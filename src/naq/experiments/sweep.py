"""Experiments that train the same methods under several levels of one condition."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from naq.experiments.arms import UNTRAINED_LINE, Arm, arm, number, points
from naq.experiments.asking import Ask
from naq.experiments.cells import Cell
from naq.experiments.experiment import Experiment
from naq.experiments.names import full_name
from naq.experiments.records import Find
from naq.experiments.showing import TEST_ACCURACY, WHISKERS, Level, dataset_slug, score_series, told
from naq.experiments.statistics import Score, compare, difference, pooled_spread
from naq.experiments.testing import REFERENCE
from naq.experiments.views import BarView, Entry, LineView, Series, TableView, View

LABELS_ONLY = ("label-scarcity", "label-noise")
"""Changes that a method without labels does not see."""


@dataclass(frozen=True)
class Point:
    """One method under one level.

    Attributes:
        line: what the method is called in the plot and the table.
        level: of the condition; numbers make an axis, texts make groups.
        method: of ``naq list methods``.
        more: what the level changes, as arguments of :func:`~naq.experiments.arms.arm`.
    """

    line: str
    level: Level
    method: str
    more: Mapping[str, Any] = field(default_factory=dict)


def flat_points(ask: Ask, levels: Sequence[Level]) -> list[Point]:
    """NaQ, which the levels do not touch: the same training at every one."""
    methods = (f"naq-feat/{ask.learner}", f"naq-diff/{ask.learner}")
    return [Point(full_name(method), level, method) for method in methods for level in levels]


class Sweep(Experiment):
    """A table with a row per method and a column per level, a plot of the same, and sentences on what changed.

    Attributes:
        x_label: of the levels.
        bars: whether levels are names without an order.
        floor: whether the training-free line is drawn; it sees the same changed data.
    """

    x_label: ClassVar[str]
    bars: ClassVar[bool] = False
    log_x: ClassVar[bool] = False
    floor: ClassVar[bool] = True
    note: ClassVar[str] = ""

    @abstractmethod
    def points(self, ask: Ask, dataset: str) -> list[Point]:
        """Every point, line by line, levels in order."""

    def paper_series(self, ask: Ask, dataset: str) -> list[Series]:
        """The paper's own numbers of the same figure."""
        return []

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        """Pairs of a line's finished levels that sentences compare: from the first to the last."""
        return [(levels[0], levels[-1])]

    def remarks(self, ask: Ask, dataset: str, found: Mapping[tuple[str, Level], Score]) -> list[str]:
        """Sentences of this analysis beside the general ones."""
        return []

    def more_views(self, ask: Ask, dataset: str, find: Find, arms: Mapping[tuple[str, Level], Arm]) -> list[View]:
        """Further views of the same trainings."""
        return []

    def unchanged(self, ask: Ask, dataset: str, find: Find) -> dict[str, Score]:
        """The methods where nothing is changed yet: the first level of every line, and the training-free line."""
        arms = self._arms(ask, dataset, find)
        first = next((level for _, level in arms), None)
        return {line: s for (line, level), a in arms.items() if level == first and (s := a.score(find)) is not None}

    def cells(self, ask: Ask, find: Find) -> list[Cell]:
        return [cell for dataset in ask.datasets for a in self._arms(ask, dataset, find).values() for cell in a.needed]

    def _arms(self, ask: Ask, dataset: str, find: Find) -> dict[tuple[str, Level], Arm]:
        asked = self.points(ask, dataset)
        tasks: dict[str, Any] = {
            **({"way": ask.ways[0]} if ask.ways else {}),
            **({"shot": ask.shots[0]} if ask.shots else {}),
        }
        arms = {(p.line, p.level): arm(ask, find, dataset, p.method, **{**tasks, **p.more}) for p in asked}
        if self.floor:
            # The changed point of a level tells what the training-free line sees there.
            changes = {p.level: p.more.get("change") for p in sorted(asked, key=lambda p: "change" in p.more)}
            reads = [p.more["change"]["name"] for p in asked if "change" in p.more]
            for level in dict.fromkeys(p.level for p in asked):
                change = None if any(name in LABELS_ONLY for name in reads) else changes[level]
                seeds = None if change is not None and "seed" not in change else ask.all_seeds[:1]
                arms[UNTRAINED_LINE, level] = arm(ask, find, dataset, REFERENCE, change=change, seeds=seeds, **tasks)
        return arms

    def views_of(self, ask: Ask, find: Find, dataset: str) -> list[View]:
        arms = self._arms(ask, dataset, find)
        found = {place: s for place, a in arms.items() if (s := a.score(find)) is not None}
        lines, levels = list(dict.fromkeys(line for line, _ in arms)), list(dict.fromkeys(level for _, level in arms))
        views: list[View] = [told(ask, dataset, self._sentences(ask, dataset, lines, levels, found, arms))]
        views.append(self._plot(ask, dataset, lines, levels, found))
        views.append(self._table(ask, dataset, find, lines, levels, found, arms))
        return views + self.more_views(ask, dataset, find, arms)

    def _table(
        self,
        ask: Ask,
        dataset: str,
        find: Find,
        lines: Sequence[str],
        levels: Sequence[Level],
        found: Mapping[tuple[str, Level], Score],
        arms: Mapping[tuple[str, Level], Arm],
    ) -> TableView:
        standings = {
            level: compare({line: found[line, level] for line in lines if (line, level) in found}) for level in levels
        }

        def entry(line: str, level: Level) -> Entry:
            place = (line, level)
            if place in found:
                keys = [record.key for record in arms[place].records(find)] if place in arms else []
                return number(found[place], standings[level].get(line), keys=keys)
            return arms[place].why_not(find) if place in arms else "–"

        return TableView(
            name=f"{self.name}-{dataset_slug(dataset)}",
            title=f"{self.title}: {dataset}, test accuracy in %",
            columns=[self.x_label, *(_level_text(level) for level in levels)],
            rows=[[line, *(entry(line, level) for level in levels)] for line in lines],
            note=self.note,
        )

    def _plot(
        self,
        ask: Ask,
        dataset: str,
        lines: Sequence[str],
        levels: Sequence[Level],
        found: Mapping[tuple[str, Level], Score],
    ) -> LineView | BarView:
        series = [score_series(line, levels, [found.get((line, level)) for level in levels]) for line in lines]
        series += self.paper_series(ask, dataset)
        title, name = f"{self.title}: {dataset}", f"{self.name}-{dataset_slug(dataset)}"
        if self.bars:
            return BarView(name, title, TEST_ACCURACY, series, note=WHISKERS)
        return LineView(name, title, self.x_label, TEST_ACCURACY, series, log_x=self.log_x, note=WHISKERS)

    def _sentences(
        self,
        ask: Ask,
        dataset: str,
        lines: Sequence[str],
        levels: Sequence[Level],
        found: Mapping[tuple[str, Level], Score],
        arms: Mapping[tuple[str, Level], Arm],
    ) -> list[str]:
        said = []
        spread = pooled_spread(found.values())
        for line in lines:
            there = [level for level in levels if (line, level) in found]
            if line == UNTRAINED_LINE or len(there) < 2:
                continue
            for first, last in self.steps(there):
                before, after = found[line, first], found[line, last]
                if list(arms[line, first].cells) == list(arms[line, last].cells):
                    said.append(f"{line} is the same training at every level: {100 * after.mean:.1f} %.")
                    continue
                change = difference(after, before, spread)
                verb = "gains" if change.mean > 0 else "loses"
                said.append(
                    f"{line} {verb} {points(change)} from {_level_text(first)} to {_level_text(last)}"
                    f" ({100 * before.mean:.1f} to {100 * after.mean:.1f} %)."
                )
        said += self.remarks(ask, dataset, found)
        return said or ["Too little is finished to compare." if found else "Nothing is finished yet."]


def _level_text(level: Level) -> str:
    return level if isinstance(level, str) else f"{level:g}"
