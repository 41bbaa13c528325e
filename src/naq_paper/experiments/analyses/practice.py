"""From a few labels the class of all other nodes: our classifier and what people use instead.

A draw of labels is a task: every method answers the same draws, and differences are taken draw by draw. What a method
draws itself is new with every draw of labels, so its variance is in the spread of these differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import numpy as np

from naq_paper.cells.records import Record, device_words
from naq_paper.experiments.captions import NOTHING, Column, findings, gain, number, power_note, score_series, table_name
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Entry, LineView, Number, TableView, View, measured
from naq_paper.measurements.practice import BINS, SHARES, practice_cell
from naq_paper.peers import PEERS
from naq_paper.statistics import Comparison, Score, Standing, compare, family, score

Labels = tuple[int, str]
"""How many in every class, and how they are drawn (:data:`~naq_paper.measurements.practice.SHARES`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Practice(Experiment):
    """Our classifier and what people use instead, by the number of labels.

    Attributes:
        ours: the classifier as installed; ``others`` are what people use instead.
        shots: numbers of labels.
        draws: of labels, if the request does not say how many; a thin budget has two.
        slow: methods that take long, and their draws at most: the first ones.
    """

    ours: str
    others: tuple[str, ...]
    shots: tuple[int, ...]
    draws: int
    slow: Mapping[str, int]

    def rows(self, request: Request) -> list[str]:
        """The methods, by default all."""
        return list(dict.fromkeys(PEERS.find(name).name for name in request.methods or (self.ours, *self.others)))

    def shots_of(self, request: Request) -> tuple[int, ...]:
        return tuple(sorted(set(request.shots or request.levels(self.shots))))

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        count = request.seeds or (2 if request.limits.thin else self.draws)
        shots = self.shots_of(request)
        more: dict[str, Any] = {"shots": shots, "device": request.device}
        rows = self.rows(request)
        draws = {row: range(min(count, self.slow.get(row, count))) for row in rows}
        return {row: SeedGroup.of(*(practice_cell(dataset, row, seed=n, **more) for n in draws[row])) for row in rows}

    def figures(self, study: Study) -> list[View]:
        rows, shots = self.rows(study.request), self.shots_of(study.request)
        settings = [(shot, shares) for shares in SHARES for shot in shots]
        accuracy, macro = (
            {at: scores_at(study, rows, at, what) for at in settings} for what in ("accuracy", "macro_accuracy")
        )
        first = accuracy[settings[0]]
        rows = sorted(rows, key=lambda row: -first[row].mean if row in first else 1.0)
        tests = {at: test for at in settings if (test := against_best(accuracy[at], self.ours)) is not None}
        sentences = [
            f"{labels_text(at)}, {title(self.ours)} against {title(best)}, the best of the others: {gain(test)}."
            for at, (best, test) in tests.items()
        ]
        views: list[View] = [findings(study, sentences or [NOTHING])]
        for shares in SHARES:
            own = {at: column for at, column in accuracy.items() if at[1] == shares}
            part = "" if shares == SHARES[0] else shares
            drawn = "labels in every class" if shares == SHARES[0] else "labels per class on average, at random"
            lines = [score_series(title(row), shots, [column.get(row) for column in own.values()]) for row in rows]
            note = "Whiskers are 95 % intervals over draws of labels."
            heading = (f"{self.title}: {study.dataset}", drawn, "accuracy of all other nodes, %")
            views.append(LineView(table_name(study, part), *heading, lines, log_x=True, note=note))
            views.append(self._accuracies(study, part, f"accuracy, %, {shares} labels", rows, own))
            other = {at: macro[at] for at in own}
            part = "-".join(filter(None, ["macro", part]))
            views.append(self._accuracies(study, part, f"mean accuracy per class, %, {shares} labels", rows, other))
        views += [promise_table(study, self.ours, settings)] if self.ours in rows else []
        views.append(self._costs(study, rows, settings))
        return [*views, against_table(study, accuracy, tests)] if tests else views

    def _accuracies(
        self, study: Study, part: str, heading: str, rows: Sequence[str], found: Mapping[Labels, Column]
    ) -> TableView:
        standings = {at: standings_at(column) for at, column in found.items()}

        def entry(row: str, at: Labels) -> Entry:
            if row not in found[at]:
                return study.missing(row)
            return number(found[at][row], standings[at].get(row), keys=study.keys(row))

        draws = max((one.per_task.size for column in found.values() for one in column.values()), default=0)
        fewer = [f"{title(row)} ({self.slow[row]})" for row in rows if draws > self.slow.get(row, draws)]
        notes = (
            "Sorted by the first column." if not part else "Rows are sorted by accuracy with the fewest equal labels.",
            f"A task is a draw of labels, the same for all methods; there are {draws}. All other nodes are classified.",
            f"The first ones alone: {', '.join(fewer)}." if fewer else "",
            left_out_note(study, list(found)),
            power_note([column for at, column in found.items() if standings[at]]),
        )
        return TableView(
            table_name(study, part),
            f"{heading.partition(',')[0].capitalize()}: {study.dataset}",
            ["method", "reads", *map(labels_text, found)],
            [[title(row), PEERS[row].reads, *(entry(row, at) for at in found)] for row in rows],
            labels=2,
            groups=[("", 2), (heading, len(found))],
            note=" ".join(filter(None, notes)),
            sorted_by=None if part else 2,
        )

    def _costs(self, study: Study, rows: Sequence[str], settings: Sequence[Labels]) -> TableView:
        lines: list[list[Entry]] = []
        machines: set[str] = set()
        for row in rows:
            records = study.records(row)
            there = {device_words(record.machine) for record in records} - {"cpu"}
            machines |= there
            peaks = [r["peak_bytes"] for r in results_of(records) if r["peak_bytes"] is not None]
            seconds = [result["seconds"] for result in results_of(records)]
            costs: list[Entry] = ["on a GPU", "on a GPU"]
            if not there:
                costs = [
                    measured(median(seconds) if seconds else None, 2),
                    measured(max(peaks) / 2**20 if peaks else None, 0),
                ]
            errors = [values_of(records, at, "calibration_error") for at in settings]
            lines.append([title(row), *(measured(mean(found) if found else None, 3) for found in errors), *costs])
        on = f" On a GPU ({', '.join(sorted(machines))}) neither compares." if machines else ""
        return TableView(
            table_name(study, "cost"),
            f"Calibration, time and memory: {study.dataset}",
            ["method", *map(labels_text, settings), "seconds", "memory, MB"],
            lines,
            groups=[("", 1), ("expected calibration error", len(settings)), ("", 2)],
            note=(
                f"Rows are in the order of the table of accuracies. Expected calibration error: {BINS} bins, mean "
                "over draws. Seconds of processor time from the graph in memory to probabilities for every node, the "
                "mean over numbers of labels and the median over draws, after a warm-up. Memory: the most that was "
                f"taken beyond the graph itself, in any draw.{on}"
            ),
        )


def promise_table(study: Study, ours: str, settings: Sequence[Labels]) -> TableView:
    """What our classifier says of itself against what is true, over the draws."""
    records = study.records(ours)
    lines: list[list[Entry]] = []
    for at in settings:
        true, expected, low, high, held, size = (
            np.array(values_of(records, at, what))
            for what in ("accuracy", "expected", "low", "high", "set_coverage", "set_size")
        )
        found: list[float | None] = [None] * 7
        if true.size:
            shares = (true, expected, np.abs(expected - true), high - low, (low <= true) & (true <= high), held)
            found = [*(100 * float(one.mean()) for one in shares), float(size.mean())]
        lines.append([labels_text(at), *(measured(one, 1) for one in found)])
    return TableView(
        table_name(study, "promise"),
        f"What the classifier expects of itself: {study.dataset}",
        [
            *("labels", "accuracy, %", "expected, %", "mean error, points", "width of the 90 % interval, points"),
            *("interval holds, % of draws", "90 % sets hold, % of nodes", "classes in a set"),
        ],
        lines,
        note=f"{title(ours)}. Means over draws of labels; nodes of a class without a label are in no set.",
    )


def title(row: str) -> str:
    return PEERS[row].title


def labels_text(at: Labels) -> str:
    shot, shares = at
    count = f"{shot} label" if shot == 1 else f"{shot} labels"
    return count if shares == SHARES[0] else f"{count}, random"


def results_of(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    return [record.result for record in records if record.result is not None]


def values_of(records: Sequence[Record], at: Labels, what: str) -> list[Any]:
    """One of each draw."""
    found = [one for result in results_of(records) for one in result["by_shot"]]
    return [one[what] for one in found if (one["shot"], one["shares"]) == at]


def scores_at(study: Study, rows: Sequence[str], at: Labels, what: str) -> Column:
    """The scores of a column, as far as they are finished; paired if the draws are the same."""
    frame = study.table.frame
    column = dict(iter(frame[(frame["shot"] == at[0]) & (frame.level == at[1])].groupby("row", sort=False)))
    return {
        row: score([[one[what] for one in column[row].measures]], "|".join(column[row].tasks), trained=False)
        for row in rows
        if row in column
    }


def standings_at(column: Column) -> dict[str, Standing]:
    """Empty while one draw says nothing of others."""
    return compare(column) if all(one.per_task.size > 1 for one in column.values()) else {}


def against_best(column: Column, ours: str) -> tuple[str, Comparison] | None:
    """The best of the others and our classifier less that: one family, since the best is chosen by the data."""
    others = {row: one for row, one in column.items() if row != ours}
    if ours not in column or not others or any(one.per_task.size < 2 for one in column.values()):
        return None
    pairs = {row: (first_draws(column[ours], one.per_task.size), one) for row, one in others.items()}
    best = max(pairs, key=lambda row: pairs[row][1].mean - pairs[row][0].mean)
    return best, family(pairs)[best]


def first_draws(one: Score, count: int) -> Score:
    """Of a method with more draws than another, those that both have."""
    return score(one.per_task[None, :count], "|".join(one.tasks.split("|")[:count]), trained=False)


def left_out_note(study: Study, settings: Sequence[Labels]) -> str:
    """Which classes have too few nodes; the draws of one number of labels leave out the same."""
    records = [record for row in study.groups for record in study.records(row)]
    sizes = {at: max(map(len, values_of(records, at, "left_out")), default=0) for at in settings}
    parts = [f"{size} with {labels_text(at)}" for at, size in sizes.items() if size]
    return f"Classes with too few nodes are left out for all methods: {', '.join(parts)}." if parts else ""


def against_table(
    study: Study, accuracy: Mapping[Labels, Column], tests: Mapping[Labels, tuple[str, Comparison]]
) -> TableView:
    """Our classifier against the best of the others."""
    lines: list[list[Entry]] = []
    for at, (best, test) in tests.items():
        d = test.difference
        mean_of_best = accuracy[at][best].mean
        ours, other = (Number(100 * one, digits=1) for one in (mean_of_best + d.mean, mean_of_best))
        verdicts = (test.significant, not (test.significant and d.mean < 0))
        yes_no = ("yes" if one else "no" for one in verdicts)
        lines.append([labels_text(at), title(best), ours, other, Number(100 * d.mean, 100 * d.ci95, digits=1), *yes_no])
    return TableView(
        table_name(study, "reached"),
        f"Against the best of the others: {study.dataset}",
        [
            *("labels", "best of the others", "naq, %", "best other, %", "gain, points"),
            "significant",
            "not below",
        ],
        lines,
        labels=2,
        note=(
            "The best of the others is chosen on these draws; Holm over all of them. ± is the 95 % interval of "
            "the difference alone. Not below: not significantly worse (p < 0.05)."
        ),
    )
