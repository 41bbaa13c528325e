"""The closed form and changes of it: every row is a method under a setting of its own, compared on the same tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from naq.methods import get_method
from naq.run.evaluate import BASELINE, DIRICHLET, dirichlet
from naq_paper.experiments.captions import NOTHING, findings, gain, number, table_name
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group, training_note
from naq_paper.experiments.views import BarView, Entry, Series, TableView, TextView, View
from naq_paper.statistics import Comparison, Score, family

CLOSED = "naq-plus"
GRAPHS = ("debian", "coauthor-cs", "amazon-computers", "cora", "citeseer")
MOST_CLASSES = 5
"""Of a task, where the dataset has as many validation and test classes."""
Place = tuple[int, str]
"""Shot and head."""
Found = Mapping[tuple[str, Place], Score]
Tests = Mapping[tuple[str, str, Place], Comparison]
"""By row, the row that it is compared with, and place."""
TOGETHER = ("transductive", "em", "balanced", *map(dirichlet, ("prototype", "transductive", "em")))
"""Heads that look at queries together, and what they are measured by on Dirichlet(2) queries; ``balanced`` is told what is not so there."""
TOGETHER_NOTE = (
    "The queries of a task are answered together; balanced knows that every class has equally many. "
    "Prototype answers each alone: the reference on Dirichlet(2) queries."
)


@dataclass(frozen=True)
class Variant:
    """A row, and the rows that it is compared with, one for each of the table's ``gains``, or none; settings are arguments of
    :func:`~naq_paper.experiments.seed_groups.seed_group`.
    """

    row: str
    method: str
    against: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def way_of(request: Request, dataset: str) -> int:
    """The request's, else as many classes as the dataset's tasks can have, five at most."""
    if request.ways:
        return request.ways[0]
    return min(MOST_CLASSES, request.fact(dataset, "most_classes") or MOST_CLASSES)


class Variants(Experiment):
    """Variants in rows, accuracy and gains in columns, by shot and head. Keys of its groups are (row, shot).

    Attributes:
        gains: what the gains are over, in words; a column each.
        note: stands below the table.
    """

    kind = "table"
    datasets = GRAPHS
    origin = "not in the paper"
    group = "beyond"
    gains: ClassVar[tuple[str, ...]]
    note: ClassVar[str] = ""

    @abstractmethod
    def variants(self, request: Request) -> list[Variant]:
        """The rows, those that others are compared with first."""

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """The trainings are those of other tables where the setting is the same."""
        shots, way = request.shots or (1, 5), way_of(request, dataset)
        return {
            (one.row, shot): seed_group(
                request, dataset, one.method, way=way, shot=shot, chosen_for={"shot": shots[0]}, **one.settings
            )
            for one in self.variants(request)
            for shot in shots
        }

    def views(self, study: Study) -> list[View]:
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
        said = findings(study, sentences or ["Too little is finished to compare."])
        return [said, self._plot(study, rows, tests), table, *self._transductive(study, rows)]

    def _transductive(self, study: Study, rows: Sequence[Variant]) -> list[View]:
        """The same vectors under heads that look at the queries together, at the first shot; none where no result has them."""
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
            "Gains are in points with their 95 % interval; better and worse: p < 0.05, Holm over all gains of the table.",
            training_note(study.request, trained) if trained else "",
        )
        together, way = ", queries together" if part else "", way_of(study.request, study.dataset)
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
    scores = {(one.row, place): study.score((one.row, place[0]), *place) for one in rows for place in places}
    found = {key: score for key, score in scores.items() if score is not None}
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


CHANGES: dict[str, dict[str, Any]] = {
    "no smoothing": {"steps": 0},
    "no scatter step": {"shrink": 1e6},  # so much is added to every direction that all are divided by the same
    "no sharpening": {"power": 1.0},
    "5 neighbours": {"neighbors": 5},
    "20 neighbours": {"neighbors": 20},
    "power 1.25": {"power": 1.25},
    "128 dimensions": {"dim": 128},
    "512 dimensions": {"dim": 512},
}


class BeyondAblation(Variants):
    """Each ingredient taken away, and other values of what is fixed; nothing is trained: differences are over tasks."""

    name = "beyond-ablation"
    title = "Ingredients of the closed form"
    question = "Which ingredient of the closed form does the accuracy come from?"
    gains = ("gain over naq-plus",)
    note = "Nothing is trained: one result per row, the same tasks."

    def variants(self, request: Request) -> list[Variant]:
        one: dict[str, Any] = {"seeds": request.all_seeds[:1]}
        changes = request.levels(tuple(CHANGES), tuple(CHANGES)[:3])
        return [
            Variant(full_name(CLOSED), CLOSED, settings=one),
            *(Variant(change, CLOSED, (full_name(CLOSED),), {**one, "options": CHANGES[change]}) for change in changes),
            Variant(full_name(BASELINE), BASELINE, (full_name(CLOSED),), one),
        ]


class BeyondRefinement(Variants):
    """The last steps of the closed form on the vectors of other methods, whose trainings are the same with and without."""

    name = "beyond-refinement"
    title = "Refinement of trained vectors"
    question = "Do the last steps of the closed form improve the vectors of methods that are trained?"
    gains = ("gain over the vectors as they are", "gain over naq-plus")
    note = "Refined: mutual nearest neighbours of the trained vectors, their scatter removed, the rest sharpened; the trainings are the same."

    def variants(self, request: Request) -> list[Variant]:
        methods = ("naq-feat/protonet", "naq-feat/cosmic", "bgrl", "sugrl")
        return plain_and_changed(request, methods, "refined", {"refine": True})


def plain_and_changed(
    request: Request, default: tuple[str, ...], change: str, settings: Mapping[str, Any]
) -> list[Variant]:
    """The closed form, then methods as they are and with the change, which is compared with both.

    They are the request's that are trained without labels and whose vectors a head reads, or ``default``, of which a thin
    budget keeps the first.
    """
    asked = request.methods or (default[:1] if request.limits.thin else default)
    closed = full_name(CLOSED)
    rows = [Variant(closed, CLOSED)]
    for one in dict.fromkeys(map(get_method, asked)):
        if one.trains and not one.reads_base_labels and not one.solves_tasks:
            plain = full_name(one.name)
            rows += [Variant(plain, one.name), Variant(f"{plain}, {change}", one.name, (plain, closed), settings)]
    return rows


class BeyondInputs(Variants):
    name = "beyond-inputs"
    title = "Closed-form vectors as input"
    question = "Does training on the vectors of the closed form add anything to them?"
    gains = ("gain over its own features", "gain over naq-plus")
    note = "On naq-plus vectors: features are replaced by them, for the neighbours of the episodes too."

    def variants(self, request: Request) -> list[Variant]:
        vectors = {"perturbation": {"name": "naq-plus-features", "seed": 0}}
        return plain_and_changed(request, ("naq-feat/protonet", "naq-feat/cosmic"), "on naq-plus vectors", vectors)
