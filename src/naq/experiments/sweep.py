"""Experiments that train the same methods under several levels of one condition."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from naq.experiments.base import Experiment
from naq.experiments.captions import TEST_ACCURACY, WHISKERS, Level, dataset_slug, score_series, told
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.seed_groups import UNTRAINED_LINE, SeedGroup, number, points, seed_group
from naq.experiments.views import BarView, Entry, LineView, Series, TableView, View
from naq.grid.cells import Cell
from naq.grid.records import Find
from naq.protocol.evaluation import BASELINE
from naq.statistics import Score, compare, difference, pooled_spread

LABELS_ONLY = ("label-scarcity", "label-noise")
"""Changes that a method without labels does not see."""


@dataclass(frozen=True)
class Point:
    """One method under one level.

    Attributes:
        line: what the method is called in the plot and the table.
        level: of the condition; numbers make an axis, texts make groups.
        method: of ``naq list methods``.
        more: what the level changes, as arguments of :func:`~naq.experiments.seed_groups.seed_group`.
    """

    line: str
    level: Level
    method: str
    more: Mapping[str, Any] = field(default_factory=dict)


def flat_points(request: Request, levels: Sequence[Level]) -> list[Point]:
    """NaQ, which the levels do not touch: the same training at every one."""
    methods = (f"naq-feat/{request.learner}", f"naq-diff/{request.learner}")
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
    def points(self, request: Request, dataset: str) -> list[Point]:
        """Every point, line by line, levels in order."""

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        """The paper's own numbers of the same figure."""
        return []

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        """Pairs of a line's finished levels that sentences compare: from the first to the last."""
        return [(levels[0], levels[-1])]

    def remarks(self, request: Request, dataset: str, found: Mapping[tuple[str, Level], Score]) -> list[str]:
        """Sentences of this analysis beside the general ones."""
        return []

    def more_views(
        self, request: Request, dataset: str, find: Find, groups: Mapping[tuple[str, Level], SeedGroup]
    ) -> list[View]:
        """Further views of the same trainings."""
        return []

    def unchanged(self, request: Request, dataset: str, find: Find) -> dict[str, Score]:
        """The methods where nothing is changed yet: the first level of every line, and the training-free line."""
        groups = self._arms(request, dataset, find)
        first = next((level for _, level in groups), None)
        return {line: s for (line, level), a in groups.items() if level == first and (s := a.score(find)) is not None}

    def cells(self, request: Request, find: Find) -> list[Cell]:
        return [
            cell
            for dataset in request.datasets
            for a in self._arms(request, dataset, find).values()
            for cell in a.needed
        ]

    def _arms(self, request: Request, dataset: str, find: Find) -> dict[tuple[str, Level], SeedGroup]:
        asked = self.points(request, dataset)
        tasks: dict[str, Any] = {
            **({"way": request.ways[0]} if request.ways else {}),
            **({"shot": request.shots[0]} if request.shots else {}),
        }
        groups = {(p.line, p.level): seed_group(request, find, dataset, p.method, **{**tasks, **p.more}) for p in asked}
        if self.floor:
            # The changed point of a level tells what the training-free line sees there.
            changes = {
                p.level: p.more.get("perturbation") for p in sorted(asked, key=lambda p: "perturbation" in p.more)
            }
            reads = [p.more["perturbation"]["name"] for p in asked if "perturbation" in p.more]
            for level in dict.fromkeys(p.level for p in asked):
                perturbation = None if any(name in LABELS_ONLY for name in reads) else changes[level]
                seeds = None if perturbation is not None and "seed" not in perturbation else request.all_seeds[:1]
                groups[UNTRAINED_LINE, level] = seed_group(
                    request, find, dataset, BASELINE, perturbation=perturbation, seeds=seeds, **tasks
                )
        return groups

    def views_of(self, request: Request, find: Find, dataset: str) -> list[View]:
        groups = self._arms(request, dataset, find)
        found = {place: s for place, a in groups.items() if (s := a.score(find)) is not None}
        lines, levels = (
            list(dict.fromkeys(line for line, _ in groups)),
            list(dict.fromkeys(level for _, level in groups)),
        )
        views: list[View] = [told(request, dataset, self._sentences(request, dataset, lines, levels, found, groups))]
        views.append(self._plot(request, dataset, lines, levels, found))
        views.append(self._table(request, dataset, find, lines, levels, found, groups))
        return views + self.more_views(request, dataset, find, groups)

    def _table(
        self,
        request: Request,
        dataset: str,
        find: Find,
        lines: Sequence[str],
        levels: Sequence[Level],
        found: Mapping[tuple[str, Level], Score],
        groups: Mapping[tuple[str, Level], SeedGroup],
    ) -> TableView:
        standings = {
            level: compare({line: found[line, level] for line in lines if (line, level) in found}) for level in levels
        }

        def entry(line: str, level: Level) -> Entry:
            place = (line, level)
            if place in found:
                keys = [record.key for record in groups[place].records(find)] if place in groups else []
                return number(found[place], standings[level].get(line), keys=keys)
            return groups[place].why_not(find) if place in groups else "–"

        return TableView(
            name=f"{self.name}-{dataset_slug(dataset)}",
            title=f"{self.title}: {dataset}, test accuracy in %",
            columns=[self.x_label, *(_level_text(level) for level in levels)],
            rows=[[line, *(entry(line, level) for level in levels)] for line in lines],
            note=self.note,
        )

    def _plot(
        self,
        request: Request,
        dataset: str,
        lines: Sequence[str],
        levels: Sequence[Level],
        found: Mapping[tuple[str, Level], Score],
    ) -> LineView | BarView:
        series = [score_series(line, levels, [found.get((line, level)) for level in levels]) for line in lines]
        series += self.paper_series(request, dataset)
        title, name = f"{self.title}: {dataset}", f"{self.name}-{dataset_slug(dataset)}"
        if self.bars:
            return BarView(name, title, TEST_ACCURACY, series, note=WHISKERS)
        return LineView(name, title, self.x_label, TEST_ACCURACY, series, log_x=self.log_x, note=WHISKERS)

    def _sentences(
        self,
        request: Request,
        dataset: str,
        lines: Sequence[str],
        levels: Sequence[Level],
        found: Mapping[tuple[str, Level], Score],
        groups: Mapping[tuple[str, Level], SeedGroup],
    ) -> list[str]:
        said = []
        spread = pooled_spread(found.values())
        for line in lines:
            there = [level for level in levels if (line, level) in found]
            if line == UNTRAINED_LINE or len(there) < 2:
                continue
            for first, last in self.steps(there):
                before, after = found[line, first], found[line, last]
                if list(groups[line, first].cells) == list(groups[line, last].cells):
                    said.append(f"{line} is the same training at every level: {100 * after.mean:.1f} %.")
                    continue
                found_difference = difference(after, before, spread)
                verb = "gains" if found_difference.mean > 0 else "loses"
                said.append(
                    f"{line} {verb} {points(found_difference)} from {_level_text(first)} to {_level_text(last)}"
                    f" ({100 * before.mean:.1f} to {100 * after.mean:.1f} %)."
                )
        said += self.remarks(request, dataset, found)
        return said or ["Too little is finished to compare." if found else "Nothing is finished yet."]


def _level_text(level: Level) -> str:
    return level if isinstance(level, str) else f"{level:g}"
