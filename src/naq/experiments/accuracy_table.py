"""A table of accuracies: methods by way and shot, for any dataset.

Rows are the methods and the training-free ``smooth``. Under NaQ and without episodes one training serves all shots of a way; supervised
learners are trained for every shot, as the released code does. A table also shows average ranks, computed as the paper's are, and
who is really better: differences are taken on the tasks that all methods share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from naq.experiments.accuracy_views import Setting, bars, costs, curves, heads
from naq.experiments.base import Experiment
from naq.experiments.captions import dataset_slug, told, value_of
from naq.experiments.names import full_name, kind_of, model_of
from naq.experiments.paper import paper_accuracy, paper_rank
from naq.experiments.request import Request
from naq.experiments.seed_groups import ONE_SEED, SeedGroup, amount, gain, number, seed_group
from naq.experiments.tuning import learner_of
from naq.experiments.views import Entry, Missing, Number, TableView, TextView, View
from naq.grid.cells import Cell
from naq.grid.records import Find
from naq.protocol.evaluation import BASELINE
from naq.protocol.methods import get_method
from naq.statistics import Score, average_ranks, compare, difference, pooled_spread

HEAVY = ("teg", "tent", "vnt", "afgrl", "gpn", "gmeta", "maml", "cosmic", "glitter")
"""Methods whose trainings take longest, roughly in order."""


class AccuracyTable(Experiment):
    """A table of methods by settings, for each dataset."""

    kind = "table"
    methods: ClassVar[tuple[str, ...]]
    ways: ClassVar[tuple[int, ...]] = (5, 10, 20)
    shots: ClassVar[tuple[int, ...]] = (1, 5)

    def rows(self, request: Request) -> list[str]:
        """Methods, the training-free one last."""
        asked = [get_method(name).name for name in request.methods or self.methods]
        return list(dict.fromkeys([*asked, BASELINE]))

    def settings(self, request: Request, dataset: str) -> list[Setting]:
        """(way, shot) of every column; ways that the dataset's classes cannot fill are left out."""
        most = request.most_classes(dataset)
        possible = tuple(way for way in self.ways if most is None or way <= most)
        ways = request.ways or (possible[:1] if request.plan.thin else possible)
        return [(way, shot) for way in ways for shot in request.shots or self.shots]

    def seed_group(self, request: Request, find: Find, dataset: str, method: str, at: Setting) -> SeedGroup:
        """The trainings behind an entry of the table."""
        way, shot = at
        shots = [s for w, s in self.settings(request, dataset) if w == way]
        if not get_method(method).reads_base_labels:
            also: dict[str, Any] = {"also_shots": shots[1:]}
            return seed_group(request, find, dataset, method, way=way, shot=shots[0], **also, chosen_for=also)
        return seed_group(request, find, dataset, method, way=way, shot=shot, chosen_for={"shot": shots[0]})

    def cells(self, request: Request, find: Find) -> list[Cell]:
        """Long trainings first, so that none is left alone at the end while other workers wait."""
        return [
            cell
            for dataset in request.datasets
            for method in sorted(self.rows(request), key=_lightness)
            for at in self.settings(request, dataset)
            for cell in self.seed_group(request, find, dataset, method, at).needed
        ]

    def views_of(self, request: Request, find: Find, dataset: str) -> list[View]:
        rows, settings = self.rows(request), self.settings(request, dataset)
        if not settings:
            most = request.most_classes(dataset)
            return [
                TextView(
                    [
                        f"The tasks of {dataset} have at most {most} classes, fewer than any column here; choose others with --way."
                    ]
                )
            ]
        groups = {
            (method, at): self.seed_group(request, find, dataset, method, at) for method in rows for at in settings
        }
        found = {place: s for place, a in groups.items() if (s := a.score(find, place[1][1])) is not None}
        table = self._table(request, dataset, find, rows, settings, found, groups)
        if not found:
            return [TextView(["Nothing is finished yet."]), table]
        return [
            told(request, dataset, verdict(rows, settings, found)),
            bars(self, dataset, rows, settings, found),
            table,
            heads(self, dataset, find, rows, settings[0], groups),
            costs(self, request, dataset, find, rows, settings[0], groups),
            *curves(self, dataset, find, rows, settings[0], groups),
        ]

    def _table(
        self,
        request: Request,
        dataset: str,
        find: Find,
        rows: Sequence[str],
        settings: Sequence[Setting],
        found: Mapping[tuple[str, Setting], Score],
        groups: Mapping[tuple[str, Setting], SeedGroup],
    ) -> TableView:
        standings = {at: compare({m: found[m, at] for m in rows if (m, at) in found}) for at in settings}
        ranks = average_ranks([{m: found[m, at].mean for m in rows if (m, at) in found} for at in settings])
        lines: list[list[Entry]] = []
        for method in rows:
            entries: list[Entry] = []
            for at in settings:
                known = paper_accuracy(dataset, method, way=at[0], shot=at[1])
                paper = None if known is None else known.word or known.value
                interval = None if known is None else known.ci95
                if (method, at) in found:
                    keys = [record.key for record in groups[method, at].records(find)]
                    entries.append(
                        number(found[method, at], standings[at].get(method), paper=paper, paper_ci=interval, keys=keys)
                    )
                else:
                    entries.append(Missing(groups[method, at].why_not(find).reason, paper, interval))
            known = paper_rank(dataset, method)
            rank = ranks.get(method)
            entries.append("–" if rank is None else Number(rank, digits=2, paper=value_of(known)))
            lines.append([model_of(method), kind_of(method) or "–", *entries])
        return TableView(
            f"{self.name}-{dataset_slug(dataset)}",
            f"{self.title}: {dataset}",
            ["method", "episodes", *(f"{way}-way {shot}-shot" for way, shot in settings), "average rank"],
            lines,
            labels=2,
            groups=[("", 2), ("test accuracy, %", len(settings)), ("", 1)],
            note=_head_note(request, rows)
            + " Average rank: among these rows, over these columns; the paper's is over its own.",
        )


def _head_note(request: Request, rows: Sequence[str]) -> str:
    own = list(dict.fromkeys(model_of(method) for method in rows if get_method(method).solves_tasks))
    head = "logistic regression, as in the paper" if request.head == "logistic" else request.head
    without = f"; without one: {', '.join(own)}" if own else ""
    return f"Head: {head}{without}."


def _lightness(method: str) -> int:
    name = learner_of(method)
    return HEAVY.index(name) if name in HEAVY else len(HEAVY)


def verdict(rows: Sequence[str], settings: Sequence[Setting], found: Mapping[tuple[str, Setting], Score]) -> list[str]:
    """Which method is best in each setting, by how much, and whether that is more than chance."""
    said = []
    for at in settings:
        column = {m: found[m, at] for m in rows if (m, at) in found}
        if len(column) < 2:
            continue
        standings, spread = compare(column), pooled_spread(column.values())
        order = sorted(column, key=lambda m: -column[m].mean)
        best, second = order[:2]
        alike = [m for m in order[1:] if standings[m].mark == "≈"]
        # Whether the lead is real is the standing's to say: it knows that the best was picked from many.
        ahead = difference(column[best], column[second], spread)
        sentence = (
            f"{at[0]}-way {at[1]}-shot: {full_name(best)} is best with {100 * column[best].mean:.1f} %, "
            f"{amount(ahead)} ahead of {full_name(second)}"
        )
        sentence += (
            f"; not told apart from it: {', '.join(full_name(m) for m in alike)}."
            if alike
            else "; every other method is really below."
        )
        if not ahead.seeds_known:
            sentence += f" This is {ONE_SEED}."
        if len(column) < len(rows):
            sentence += f" {len(column)} of {len(rows)} methods are finished."
        if BASELINE in column and best != BASELINE:
            sentence += f" Against smooth, which trains nothing: {gain(column[best], column[BASELINE], spread)}."
        said.append(sentence)
    return said or ["Too little is finished to compare."]
