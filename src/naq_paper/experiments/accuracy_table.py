"""Tables of accuracy: methods in rows, way and shot in columns, the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from naq.methods import get_method
from naq.run.evaluate import BASELINE
from naq_paper.experiments.accuracy_views import Setting, bars, costs, curves, heads
from naq_paper.experiments.captions import (
    NOTHING,
    ONE_SEED,
    amount,
    findings,
    gain,
    leaders,
    number,
    power_note,
    table_name,
    value_of,
)
from naq_paper.experiments.cut_short import LEGEND, ends_of
from naq_paper.experiments.experiment import Contest, Experiment, Study
from naq_paper.experiments.names import full_name, kind_of, learner_of, model_of
from naq_paper.experiments.paper import paper_accuracy, paper_rank
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group, training_note
from naq_paper.experiments.views import Entry, Label, Number, TableView, TextView, View
from naq_paper.statistics import Score, Standing, average_ranks, compare

HEAVY = ("teg", "tent", "vnt", "afgrl", "gpn", "gmeta", "maml", "cosmic", "glitter")
"""Methods whose trainings take longest, roughly in order."""


class AccuracyTable(Experiment):
    """A table of methods by settings. Keys of its groups are (method, (way, shot)).

    Attributes:
        by_accuracy: whether rows are sorted by their accuracy in the first column, the best first; else they stand in the paper's order.
    """

    kind = "table"
    by_accuracy: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...]]
    ways: ClassVar[tuple[int, ...]] = (5, 10, 20)
    shots: ClassVar[tuple[int, ...]] = (1, 5)

    def rows(self, request: Request) -> list[str]:
        """Methods that are trained, the `smooth` baseline last."""
        asked = [get_method(name).name for name in request.methods or self.methods]
        return list(dict.fromkeys([*asked, BASELINE]))

    def shown(self, request: Request) -> list[str]:
        """Rows of the table: the methods, or some of them and rows that are picked from them."""
        return self.rows(request)

    def compared(self, request: Request) -> list[str]:
        """Rows that marks and sentences compare."""
        return self.shown(request)

    def picked(self, study: Study, found: Mapping[tuple[str, Setting], Score]) -> dict[tuple[str, Setting], str]:
        """The method that a row which is no method stands for, by row and setting; any of its methods while none is finished."""
        return {}

    def settings(self, request: Request, dataset: str) -> list[Setting]:
        """(way, shot) of every column; ways that the dataset's classes cannot fill are left out."""
        most = request.most_classes(dataset)
        possible = tuple(way for way in self.ways if most is None or way <= most)
        ways = request.ways or (possible[:1] if request.limits.thin else possible)
        return [(way, shot) for way in ways for shot in request.shots or self.shots]

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """Long trainings first, so that none is left alone at the end while other workers wait."""
        settings = self.settings(request, dataset)
        return {
            (method, at): self._group(request, dataset, method, at, settings)
            for method in sorted(self.rows(request), key=_lightness)
            for at in settings
        }

    def _group(
        self, request: Request, dataset: str, method: str, at: Setting, settings: Sequence[Setting]
    ) -> SeedGroup:
        """The setting that tuning chooses is that of the first shot."""
        way, shot = at
        first = next(s for w, s in settings if w == way)
        return seed_group(request, dataset, method, way=way, shot=shot, chosen_for={"shot": first})

    def headline(self, study: Study) -> list[Contest]:
        found = self._found(study)
        picked, rows = self.picked(study, found), self.compared(study.request)
        return [
            Contest(
                f"{study.dataset}, {at[0]}-way {at[1]}-shot",
                at,
                {full_name(m): found[m, at] for m in rows if (m, at) in found},
                {full_name(m): study.records((picked.get((m, at), m), at)) for m in rows if (m, at) in found},
            )
            for at in self.settings(study.request, study.dataset)
        ]

    def trained(self, study: Study) -> dict[tuple[str, Setting], Score]:
        """The scores of the methods."""
        keys = [(method, at) for method, at in study.groups]
        return {(method, at): s for method, at in keys if (s := study.score((method, at), at[1])) is not None}

    def _found(self, study: Study) -> dict[tuple[str, Setting], Score]:
        found = self.trained(study)
        picked = self.picked(study, found)
        return found | {(row, at): found[m, at] for (row, at), m in picked.items() if (m, at) in found}

    def remarks(self, study: Study, found: Mapping[tuple[str, Setting], Score]) -> list[str]:
        """Sentences of this table beside those on the best row."""
        return []

    def about_rows(self, study: Study) -> str:
        """Stands below the table: what its rows are, where that is not plain."""
        return ""

    def charted(self, settings: Sequence[Setting]) -> Sequence[Setting]:
        """The settings that are drawn as bars and shown under every head."""
        return settings[:1]

    def ranks(self, columns: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The mean rank of each row over columns."""
        return average_ranks(columns)

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        """What stands below the table and the same vectors under other heads: costs and training curves."""
        at = settings[0]
        rows = self.ordered(self.rows(study.request), at, self.trained(study))
        return [_in_order(costs(study, rows, at)), *curves(study, rows, at)]

    def ordered(self, rows: Sequence[str], at: Setting, found: Mapping[tuple[str, Setting], Score]) -> list[str]:
        """The rows as the table shows them; those without a number last."""
        if not self.by_accuracy:
            return list(rows)
        return sorted(rows, key=lambda m: -found[m, at].mean if (m, at) in found else 1.0)

    def views(self, study: Study) -> list[View]:
        request, dataset = study.request, study.dataset
        rows, settings = self.shown(request), self.settings(request, dataset)
        if not settings:
            most = request.most_classes(dataset)
            sentence = f"The tasks of {dataset} have at most {most} classes, fewer than any column here; choose others with --way."
            return [TextView([sentence])]
        found = self._found(study)
        rows = self.ordered(rows, settings[0], found)
        table = self._table(study, rows, settings, found)
        if not found:
            return [TextView([NOTHING]), table]
        trained = self.ordered(self.rows(request), settings[0], self.trained(study))
        by_head = [heads(study, trained, at, first=at == settings[0]) for at in self.charted(settings)]
        return [
            findings(study, [*verdict(self.compared(request), settings, found), *self.remarks(study, found)]),
            *(bars(study, rows, at, found) for at in self.charted(settings)),
            table,
            *map(_in_order, by_head),
            *self.more_views(study, settings),
        ]

    def _table(
        self, study: Study, rows: Sequence[str], settings: Sequence[Setting], found: Mapping[tuple[str, Setting], Score]
    ) -> TableView:
        columns = {at: {m: found[m, at] for m in rows if (m, at) in found} for at in settings}
        compared, picked = self.compared(study.request), self.picked(study, found)
        standings = {
            at: compare({m: s for m, s in column.items() if m in compared}, BASELINE) for at, column in columns.items()
        }
        ranks = self.ranks([{m: s.mean for m, s in column.items()} for column in columns.values()])
        lines: list[list[Entry]] = []
        cut = False
        for method in rows:
            entries: list[Entry] = []
            for at in settings:
                known = paper_accuracy(study.dataset, method, way=at[0], shot=at[1])
                paper = None if known is None else known.shown
                interval = None if known is None else known.ci95
                group = picked.get((method, at), method), at
                if (method, at) in found:
                    keys = [record.key for record in study.records(group)]
                    standing = standings[at].get(method)
                    entries.append(number(found[method, at], standing, paper=paper, paper_ci=interval, keys=keys))
                else:
                    entries.append(study.missing(group, paper, interval))
            rank = ranks.get(method)
            known_rank = value_of(paper_rank(study.dataset, method))
            entries.append("–" if rank is None else Number(rank, digits=2, paper=known_rank))
            groups = [(picked.get((method, at), method), at) for at in settings]
            ends = ends_of(record for group in groups for record in study.records(group))
            cut = cut or bool(ends and ends.mark)
            name = Label(model_of(method), ends.mark) if ends and ends.mark else model_of(method)
            lines.append([name, kind_of(method) or "–", *entries])
        return TableView(
            table_name(study),
            f"{self.title}: {study.dataset}",
            ["method", "episodes", *(f"{way}-way {shot}-shot" for way, shot in settings), "average rank"],
            lines,
            labels=2,
            groups=[("", 2), ("test accuracy, %", len(settings)), ("", 1)],
            note=" ".join(
                words
                for words in (
                    "Sorted by the first column of accuracy." if self.by_accuracy else "Rows are in the paper's order.",
                    LEGEND if cut else "",
                    _head_note(study.request, self.rows(study.request)),
                    training_note(study.request, self.rows(study.request)),
                    self.about_rows(study),
                    "Average rank: among these rows, over these columns; the paper's is over its own.",
                    power_note([{m: s for m, s in column.items() if m in compared} for column in columns.values()]),
                )
                if words
            ),
            sorted_by=2 if self.by_accuracy else None,
        )


def _in_order(table: TableView) -> TableView:
    return replace(table, note=f"Rows are in the order of the table of accuracies. {table.note}")


def _head_note(request: Request, rows: Sequence[str]) -> str:
    own = list(dict.fromkeys(model_of(method) for method in rows if get_method(method).solves_tasks))
    head = "logistic regression, as in the paper" if request.head == "logistic" else request.head
    without = f"; without one: {', '.join(own)}" if own else ""
    return f"Head: {head}{without}."


def _lightness(method: str) -> int:
    name = learner_of(method)
    return HEAVY.index(name) if name in HEAVY else len(HEAVY)


def verdict(rows: Sequence[str], settings: Sequence[Setting], found: Mapping[tuple[str, Setting], Score]) -> list[str]:
    """Which method is best in each setting, by how much, and whether that is significant."""
    sentences = []
    for at in settings:
        column = {m: found[m, at] for m in rows if (m, at) in found}
        if len(column) < 2:
            continue
        standings = compare(column, BASELINE)
        best, second = leaders(column)
        behind = standings[second].to_best
        assert behind is not None
        sentence = (
            f"{at[0]}-way {at[1]}-shot: {full_name(best)} is best with {100 * column[best].mean:.1f} %, "
            f"{amount(behind.difference)} ahead of {full_name(second)}{_rest_words(column, standings)}."
        )
        if len(column) < len(rows):
            sentence += f" {len(column)} of {len(rows)} methods are finished."
        to_baseline = standings[best].to_baseline
        if to_baseline is not None:
            sentence += f" Against smooth, which trains nothing: {gain(to_baseline)}."
        sentences.append(sentence)
    return sentences or ["Too little is finished to compare."]


def _rest_words(column: Mapping[str, Score], standings: Mapping[str, Standing]) -> str:
    """What the marks of a column say of the rows that are not the best."""
    others = sorted(column, key=lambda m: -column[m].mean)[1:]
    similar = [m for m in others if standings[m].mark == "≈"]
    if not any(standings[m].mark for m in others):
        return f" ({ONE_SEED})"
    if similar:
        return f"; no significant difference from {', '.join(full_name(m) for m in similar)}"
    return "; every other method is significantly worse" if all(standings[m].mark for m in others) else ""
