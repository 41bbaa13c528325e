"""The closed form and changes of it: every row is a method under its setting, compared on the same tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq.methods import get_method
from naq.run.evaluate import DIRICHLET, dirichlet
from naq_paper.experiments.captions import NOTHING, findings, gain, number, table_name
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group, training_note
from naq_paper.experiments.views import BarView, Entry, Series, TableView, TextView, View
from naq_paper.statistics import Comparison, Score, family

CLOSED = "naq-plus"
Place = tuple[int, str]
"""Shot and head."""
Found = Mapping[tuple[str, Place], Score]
Tests = Mapping[tuple[str, str, Place], Comparison]
"""By row, the row that it is compared with, and place."""
TOGETHER = ("transductive", "em", "balanced", *map(dirichlet, ("prototype", "transductive", "em")))
"""Heads that look at queries together, and their reference on Dirichlet(2) queries."""
TOGETHER_NOTE = (
    "The queries of a task are answered together; balanced knows that every class has equally many. "
    "Prototype answers each alone: the reference on Dirichlet(2) queries."
)


@dataclass(frozen=True)
class Variant:
    """A row, the rows it is compared with (one for each of ``gains``, or none), arguments of ``seed_group``."""

    row: str
    method: str
    against: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VariantSpec:
    """A row: a method, or the closed form with other ``options``; ``quick`` if a thin budget keeps it."""

    method: str = CLOSED
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Variants(Experiment):
    """Variants in rows, accuracy and gains in columns, by shot and head. Keys of its groups are (row, shot).

    Attributes:
        gains: what the gains are over, in words; a column each.
        rows: the first of them is what the others are compared with.
        seeds: of each row; 0 is the request's.
        methods: instead of rows: each as it is and with the ``change``, which is compared with it and the closed form.
            Those of the request that train without labels and whose vectors a head reads, or these, of which a thin
            budget keeps the first.
        settings: what the change is.
        note: below the table.
    """

    gains: tuple[str, ...]
    rows: tuple[VariantSpec, ...] = ()
    seeds: int = 0
    methods: tuple[str, ...] = ()
    change: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def variants(self, request: Request) -> list[Variant]:
        """The rows, those that others are compared with first."""
        closed, thin = full_name(CLOSED), request.limits.thin
        more: dict[str, Any] = {"seeds": request.all_seeds[: self.seeds]} if self.seeds else {}
        found = [] if self.rows else [Variant(closed, CLOSED)]
        for place, row in enumerate(row for row in self.rows if row.quick or not thin):
            options = {"options": row.options} if row.options else {}
            against = (closed,) if place else ()
            found.append(Variant(row.name or full_name(row.method), row.method, against, more | options))
        for one in dict.fromkeys(map(get_method, request.methods or self.methods[: 1 if thin else None])):
            if self.methods and one.trains and not one.reads_base_labels and not one.solves_tasks:
                own = full_name(one.name)
                found += [Variant(own, one.name)]
                found += [Variant(f"{own}, {self.change}", one.name, (own, closed), self.settings)]
        return found

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """The trainings are those of other tables where the setting is the same."""
        shots, way = request.shots or (1, 5), request.possible_way(dataset)
        return {
            (one.row, shot): seed_group(
                request, dataset, one.method, way=way, shot=shot, chosen_for={"shot": shots[0]}, **one.settings
            )
            for one in self.variants(request)
            for shot in shots
        }

    def figures(self, study: Study) -> list[View]:
        rows, places = self.variants(study.request), _places(study.request)
        found, tests = _compared(study, rows, places)
        table = self._table(study, rows, places, found, tests)
        if not found:
            return [TextView([NOTHING]), table]
        sentences = []
        for one, other in [(row, other) for row in rows for other in row.against]:
            # What the head that chooses checkpoints shows; the other is in the table.
            keys = [(one.row, other, place) for place in places if place[1] == study.request.head]
            parts = [f"{key[2][0]}-shot {gain(tests[key])}" for key in keys if key in tests]
            if parts:
                sentences.append(f"{one.row}, against {other}: {'; '.join(parts)}.")
        summary = findings(study, sentences or ["Too little is finished to compare."])
        return [summary, self._plot(study, rows, tests), table, *self._transductive(study, rows)]

    def _transductive(self, study: Study, rows: Sequence[Variant]) -> list[View]:
        """The same vectors under heads that look at queries together, at the first shot, if results have them."""
        shot = (study.request.shots or (1, 5))[0]
        found, tests = _compared(study, rows, [(shot, head) for head in TOGETHER])
        there = {place for _, place in found}
        places = [(shot, head) for head in TOGETHER if (shot, head) in there]
        return [self._table(study, rows, places, found, tests, "transductive")] if places else []

    def _table(
        self, study: Study, rows: Sequence[Variant], places: Sequence[Place], found: Found, tests: Tests, part: str = ""
    ) -> TableView:
        def entries(one: Variant, place: Place) -> list[Entry]:
            key = (one.row, place[0])
            score = found.get((one.row, place))
            others = [*one.against, *[""] * len(self.gains)][: len(self.gains)]
            compared = [tests.get((one.row, other, place)) for other in others]
            accuracy = study.missing(key) if score is None else number(score, keys=study.keys(key))
            return [accuracy, *("–" if test is None else gain_words(test) for test in compared)]

        lines = [[one.row, *(entry for place in places for entry in entries(one, place))] for one in rows]
        trained = list(dict.fromkeys(one.method for one in rows if get_method(one.method).trains))
        notes = (
            self.note,
            TOGETHER_NOTE if part else "",
            "Gains are in points with their 95 % interval; better and worse: p < 0.05, Holm over all gains of "
            "the table.",
            training_note(study.request, trained) if trained else "",
        )
        together, way = ", queries together" if part else "", study.request.possible_way(study.dataset)
        words = [f"{shot}-shot, {head.replace(f'/{DIRICHLET}', ', Dirichlet(2)')}" for shot, head in places]
        return TableView(
            table_name(study, part),
            f"{self.title}{together}: {study.dataset}, {way}-way",
            ["variant", *["accuracy, %", *self.gains] * len(places)],
            lines,
            groups=[("", 1), *((word, 1 + len(self.gains)) for word in words)],
            note=" ".join(filter(None, notes)),
        )

    def _plot(self, study: Study, rows: Sequence[Variant], tests: Tests) -> BarView:
        """The first gain of every row that has one."""
        first = {one.row: one.against[0] for one in rows if one.against}
        series = []
        for shot, head in _places(study.request):
            gains = {row: tests.get((row, other, (shot, head))) for row, other in first.items()}
            series.append(gain_series(f"{shot}-shot, {head}", gains))
        note = "Whiskers are 95 % intervals of each difference alone."
        title = f"{self.title}: {study.dataset}, {self.gains[0]}"
        return BarView(table_name(study), title, "points", series, {"no difference": 0.0}, note)


def _compared(study: Study, rows: Sequence[Variant], places: Sequence[Place]) -> tuple[Found, Tests]:
    """What is finished, and every row against those it names: one family."""
    by_head = {head: study.scores(head) for _, head in places}
    found = {
        (one.row, (shot, head)): by_head[head][one.row, shot]
        for one in rows
        for shot, head in places
        if (one.row, shot) in by_head[head]
    }
    keys = [(one.row, other, place) for one in rows for other in one.against for place in places]
    pairs = {(row, other, place): ((row, place), (other, place)) for row, other, place in keys}
    return found, family({key: (found[a], found[b]) for key, (a, b) in pairs.items() if a in found and b in found})


def gain_words(test: Comparison) -> str:
    """``+1.2 ± 0.3, better``."""
    verdict = "one seed" if test.p is None else "not significant"
    if test.significant:
        verdict = "better" if test.difference.mean > 0 else "worse"
    return f"{100 * test.difference.mean:+.1f} ± {100 * test.difference.ci95:.1f}, {verdict}"


def gain_series(name: str, tests: Mapping[str, Comparison | None]) -> Series:
    """Differences in points with their intervals."""

    def at(side: int) -> list[float | None]:
        found = [None if test is None else test.difference for test in tests.values()]
        return [None if d is None else 100 * (d.mean + side * d.ci95) for d in found]

    return Series(name, list(tests), at(0), at(-1), at(1))


def _places(request: Request) -> list[Place]:
    """The head that chooses checkpoints, then prototypes."""
    heads = dict.fromkeys((request.head, "prototype"))
    return [(shot, head) for shot in request.shots or (1, 5) for head in heads]
