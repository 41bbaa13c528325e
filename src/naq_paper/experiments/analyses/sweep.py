"""Sweeps: the same methods under several levels of one condition, as a table, a plot and sentences on what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from naq.run.episodes import DEFAULTS
from naq.run.evaluate import BASELINE
from naq_paper.experiments.captions import (
    CUT_SHORT,
    NOTHING,
    ONE_SEED,
    SMOOTH,
    TEST_ACCURACY,
    WHISKERS,
    Column,
    change_words,
    findings,
    from_paper,
    gain,
    level_text,
    number,
    power_note,
    score_series,
    table_name,
    training_end,
)
from naq_paper.experiments.definition import fill_in
from naq_paper.experiments.experiment import Contest, Experiment, Study
from naq_paper.experiments.names import full_name, learner_of
from naq_paper.experiments.paper import PaperNumber, paper_accuracy, paper_figure
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group
from naq_paper.experiments.views import BarView, Entry, Label, LineView, Series, TableView, View
from naq_paper.statistics import Comparison, Score, compare, family

Level = float | str
"""Of a condition: numbers make an axis, texts make groups."""
Found = Mapping[Key, Score]
Tests = Mapping[Key, Comparison]
Pairs = dict[Key, tuple[str, str, Key, Key]]
"""Comparisons: the subject of their sentence ("" is none), what each is about, and the two groups."""
POSTER = "the paper (read off its poster)"


@dataclass(frozen=True)
class LevelSpec:
    """A column. ``value`` is what settings call ``$value``, by default the level itself.

    Attributes:
        settings: arguments of :func:`~naq_paper.experiments.seed_groups.seed_group` that the level changes.
        control: a level that this one is compared with in every row, because it has as many nodes.
        paper: what the paper's figures call it.
    """

    level: float | int | str
    value: float | int | str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    control: str = ""
    paper: str = ""


@dataclass(frozen=True)
class RowSpec:
    """A row. ``naq-feat/*`` in ``method`` is one row for each base model.

    Attributes:
        name: after the name of the method.
        settings: as those of a level, on top of them.
        unchanged: whether no level changes the row: it is the same training everywhere, of the first base model.
        quick: whether a thin budget keeps the row; without any such row it keeps all.
        against: names or methods of the rows that this one is compared with at every level.
        paper: what the paper's tables call it.
    """

    method: str
    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    unchanged: bool = False
    quick: bool = False
    against: tuple[str, ...] = ()
    paper: str = ""


@dataclass(frozen=True)
class SweepPoint:
    """A method under a level, and the arguments of ``seed_group`` that make it."""

    row: str
    level: Level
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def merge_settings(*settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings on top of each other; the options of episodes are merged one by one."""
    found: dict[str, Any] = {}
    for one in settings:
        for name, value in one.items():
            found[name] = {**found.get(name, {}), **value} if name == "episode" else value
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep(Experiment):
    """A table with a row per method and a column per level, a plot of the same, and sentences on what changed.

    In settings ``$value`` is the level's, ``$shot`` and ``$way`` are the request's, ``$possible_way`` is five or the
    most classes of the dataset, ``$labelled`` the supports and queries of an episode per class.

    Attributes:
        x_label: of the levels.
        rows, levels: what is trained under what; ``levels_on`` are other levels by dataset.
        settings: of every level but those in ``clean``.
        ways: instead of levels: the ways that the dataset's classes can fill, chosen for 5-way tasks.
        learners: base models, if a request names none; NaQ under ``unchanged`` takes the first.
        quick_levels: under a thin budget; by default the first and the last.
        baseline: ``levels``: the `smooth` baseline sees the same perturbed data; ``clean``: levels change labels alone,
            which it does not read; ``none``.
        bars: whether levels are names without an order.
        steps: levels that sentences compare with the first one; by default the last, or each without an order.
        best_level: whether a sentence names the best level of each row.
        paper: ``figure`` or ``table`` of the paper's numbers.
        first_screen: whether the first level may be what a report begins with.
        note: below the table.
    """

    x_label: str
    rows: tuple[RowSpec, ...] = ()
    levels: tuple[LevelSpec, ...] = ()
    levels_on: Mapping[str, tuple[LevelSpec, ...]] = field(default_factory=dict)
    quick_levels: tuple[float | int | str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    clean: tuple[float | int | str, ...] = ()
    ways: tuple[int, ...] = ()
    learners: tuple[str, ...] = ("protonet",)
    baseline: str = "levels"
    bars: bool = False
    log_x: bool = False
    steps: tuple[str, ...] | None = None
    best_level: bool = False
    paper: Mapping[str, str] = field(default_factory=dict)
    first_screen: bool = True
    note: str = ""

    def levels_of(self, request: Request, dataset: str) -> list[LevelSpec]:
        """The columns, in order."""
        if self.ways:
            most = request.fact(dataset, "most_classes")
            possible = [way for way in self.ways if most is None or way <= most]
            ways = request.ways or (possible[:1] if request.limits.thin else possible)
            return [LevelSpec(f"{way}-way", settings={"way": way, "chosen_for": {"way": 5}}) for way in ways]
        every = {one.level: one for one in self.levels_on.get(dataset, self.levels)}
        return [every[level] for level in request.levels(tuple(every), self.quick_levels)]

    def rows_of(self, request: Request) -> list[tuple[RowSpec, str]]:
        """The rows with their methods: one for each base model, which rows that follow each other share."""
        kept = [row for row in self.rows if row.quick] if request.limits.thin else []
        learners = request.learners_or(self.learners)
        found = []
        for changed, some in groupby(kept or self.rows, lambda row: "*" in row.method and not row.unchanged):
            rows = list(some)
            found += [
                (row, row.method.replace("*", name)) for name in (learners if changed else learners[:1]) for row in rows
            ]
        return found

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        """Every point, row by row, levels in order."""
        return [
            SweepPoint(
                full_name(method) + row.name,
                level.level,
                method,
                {} if row.unchanged else self._settings(request, dataset, level, row.settings),
            )
            for row, method in self.rows_of(request)
            for level in self.levels_of(request, dataset)
        ]

    def _settings(self, request: Request, dataset: str, level: LevelSpec, more: Mapping[str, Any]) -> dict[str, Any]:
        queries = int(DEFAULTS["supervised"]["queries"])
        known = {
            "value": level.level if level.value is None else level.value,
            "shot": request.shot,
            "way": request.way,
            "possible_way": request.possible_way(dataset),
            "labelled": request.shot + queries,
        }
        found = merge_settings({} if level.level in self.clean else self.settings, level.settings, more)
        made: dict[str, Any] = fill_in(found, known, f"{self.name}.toml: settings")
        return made

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        groups: dict[Key, SeedGroup] = {
            (point.row, point.level): seed_group(request, dataset, point.method, **point.settings)
            for point in self.points(request, dataset)
        }
        for level in self.levels_of(request, dataset) if self.baseline != "none" else ():
            found = {} if self.baseline == "clean" else self._settings(request, dataset, level, {})
            perturbation = found.get("perturbation")
            seeds = None if perturbation is not None and "seed" not in perturbation else request.all_seeds[:1]
            groups[SMOOTH, level.level] = seed_group(request, dataset, BASELINE, perturbation=perturbation, seeds=seeds)
        return groups

    def contests(self, study: Study) -> list[Contest]:
        """The methods at the first level, where nothing is changed yet."""
        if not self.first_screen:
            return []
        keys = [key for key in study.groups if key[1] == next(iter(study.groups))[1]]
        found = study.scores()
        scores = {row: found[row, level] for row, level in keys if (row, level) in found}
        way, shot = study.request.way, study.request.shot
        where = f"{study.dataset}, {way}-way {shot}-shot, nothing changed"
        return [Contest(where, (way, shot), scores, {key[0]: study.records(key) for key in keys})]

    def figures(self, study: Study) -> list[View]:
        found = study.scores()
        keys = [key for key in study.groups if isinstance(key, tuple)]  # an analysis may have further groups
        rows, levels = list(dict.fromkeys(row for row, _ in keys)), list(dict.fromkeys(level for _, level in keys))
        return [
            findings(study, self._sentences(study, rows, levels, found)),
            self._plot(study, rows, levels, found),
            self._table(study, rows, levels, found),
        ]

    def note_of(self, request: Request) -> str:
        """What is below the table."""
        return self.note

    def _table(self, study: Study, rows: Sequence[str], levels: Sequence[Level], found: Found) -> TableView:
        rows = sorted(rows, key=lambda row: -found[row, levels[0]].mean if (row, levels[0]) in found else 1.0)
        columns: list[Column] = [{row: found[row, at] for row in rows if (row, at) in found} for at in levels]
        standings = [compare(column, SMOOTH) for column in columns]

        def entry(row: str, place: int) -> Entry:
            key = (row, levels[place])
            if key in found:
                return number(found[key], standings[place].get(row), keys=study.keys(key))
            return study.missing(key) if key in study.groups else "–"

        marks = {row: training_end(r for key in found if key[0] == row for r in study.records(key))[0] for row in rows}
        order = "Sorted by the first column; levels are in their own order."
        legend = CUT_SHORT if any(marks.values()) else ""
        return TableView(
            name=table_name(study),
            title=f"{self.title}: {study.dataset}, test accuracy in %",
            columns=[self.x_label, *map(level_text, levels)],
            rows=[
                [Label(row, marks[row]) if marks[row] else row, *(entry(row, place) for place in range(len(levels)))]
                for row in rows
            ],
            note=" ".join(filter(None, (order, legend, self.note_of(study.request), power_note(columns)))),
            sorted_by=1,
        )

    def _plot(self, study: Study, rows: Sequence[str], levels: Sequence[Level], found: Found) -> LineView | BarView:
        series = [score_series(row, levels, [found.get((row, level)) for level in levels]) for row in rows]
        series += self.paper_series(study.request, study.dataset)
        title, name = f"{self.title}: {study.dataset}", table_name(study)
        if self.bars:
            return BarView(name, title, TEST_ACCURACY, series, note=WHISKERS)
        return LineView(name, title, self.x_label, TEST_ACCURACY, series, log_x=self.log_x, note=WHISKERS)

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        """The paper's own numbers of the same figure."""
        levels, figure, table = self.levels_of(request, dataset), self.paper.get("figure"), self.paper.get("table")

        def known(row: RowSpec, method: str, level: LevelSpec) -> PaperNumber | None:
            name = row.paper or level.paper
            if figure:
                return paper_figure(figure, dataset, method, level.paper)
            if not table or not name or not method.endswith("/protonet"):
                return None
            return paper_accuracy(dataset, "ProtoNet", name, level.settings.get("way", 5), table=table)

        source, places = POSTER if figure else "the paper", [level.level for level in levels]
        return [
            series
            for row, method in self.rows_of(request)
            for series in from_paper(
                f"{full_name(method)}{row.name}, {source}", places, [known(row, method, level) for level in levels]
            )
        ]

    def steps_of(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        """Pairs of a row's finished levels that sentences compare."""
        later = levels[1:] if self.bars else levels[-1:]
        return [(levels[0], one) for one in later if self.steps is None or one in self.steps]

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """Comparisons with controls, and of rows at the same level; with the steps they are one family."""
        pairs: Pairs = {}
        levels = self.levels_of(study.request, study.dataset)
        for one in (level for level in levels if level.control):
            for row in dict.fromkeys(row for row, _ in found):
                subject = f"{row}, against a control of the same size"
                pairs[row, one.level, one.control] = subject, f"{one.level} ", (row, one.level), (row, one.control)
        rows = [(row, method, full_name(method) + row.name) for row, method in self.rows_of(study.request)]
        for row, method, name in rows:
            for other, others, against in rows:
                named = other.name and other.name in row.against and others == method
                same_model = "*" not in row.method or learner_of(others) == learner_of(method)
                compared = other is not row and (named or (other.method in row.against and same_model))
                for level in levels if compared else ():
                    at, subject = level.level, f"{name}, against {against}"
                    pairs[name, against, at] = subject, f"{level_text(at)} ", (name, at), (against, at)
        return {key: one for key, one in pairs.items() if one[2] in found and one[3] in found}

    def _sentences(self, study: Study, rows: Sequence[str], levels: Sequence[Level], found: Found) -> list[str]:
        def texts(row: str, level: Level) -> list[str]:
            return [cell.text for cell in study.groups[row, level].cells(study.find)]

        own = [row for row in rows if row != SMOOTH or self.baseline == "none"]
        there = {row: [level for level in levels if (row, level) in found] for row in own}
        steps = [(row, *step) for row, known in there.items() if len(known) > 1 for step in self.steps_of(known)]
        pairs: dict[Key, tuple[Score, Score]] = {
            (row, first, last): (found[row, last], found[row, first])
            for row, first, last in steps
            if texts(row, first) != texts(row, last)
        }
        more = self.comparisons(study, found)
        tests = family({**pairs, **{(key, "more"): (found[a], found[b]) for key, (_, _, a, b) in more.items()}})
        sentences = [
            change_words(row, (first, last), (found[row, first], found[row, last]), tests[row, first, last])
            if (row, first, last) in pairs
            else f"{row} is the same training at every level: {100 * found[row, last].mean:.1f} %."
            for row, first, last in steps
        ]
        by_subject: dict[str, list[str]] = {}
        for key, (subject, about, _, _) in more.items():
            by_subject.setdefault(subject, []).append(f"{about}{gain(tests[key, 'more'])}")
        sentences += [f"{subject}: {'; '.join(parts)}." for subject, parts in by_subject.items() if subject]
        sentences += self._best_levels(own, levels, found) if self.best_level else []
        return sentences or ["Too little is finished to compare." if found else NOTHING]

    def _best_levels(self, rows: Sequence[str], levels: Sequence[Level], found: Found) -> Iterator[str]:
        """The level with the highest accuracy of each row, and those with no significant difference from it."""
        for row in rows:
            column = {level_text(level): found[row, level] for level in levels if (row, level) in found}
            if len(column) > 1:
                standings = compare(column)
                best = max(column, key=lambda level: column[level].mean)
                similar = [level for level, one in standings.items() if level != best and one.mark == "≈"]
                rest = f"no significant difference from {', '.join(similar)}" if similar else "every other one is worse"
                rest = rest if standings[best].mark else ONE_SEED
                yield f"{row}: accuracy is highest at {best} {self.x_label}, {100 * column[best].mean:.1f} %; {rest}."
