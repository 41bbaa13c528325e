"""A few labels, in every class or at random, the class of all other nodes: our classifier beside what people use instead.

A draw of labels is a task: every method answers the same draws, and their differences are taken draw by draw. What a method
draws itself is drawn anew with every draw of labels, so its variance is in the spread of these differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

import numpy as np

from naq_paper.cells.machine import device_words
from naq_paper.cells.records import Record
from naq_paper.experiments.captions import NOTHING, findings, gain, number, power_note, score_series, table_name
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Entry, LineView, Number, TableView, View, plain
from naq_paper.measurements.practice import BINS, SHARES, practice_cell
from naq_paper.peers import PEERS
from naq_paper.statistics import Comparison, Score, Standing, compare, family, score

OURS = ("naq-plus",)
"""The classifier as installed; all other rows are what people use instead."""
OTHERS = (
    *("gcn", "sage", "appnp", "hops-logistic", "smooth-logistic", "tfidf-logistic", "sgc", "ssgc", "self-training"),
    *("boosting", "graphany", "cleora", "poisson", "poisson-neighbors", "label-propagation", "correct-and-smooth"),
    "pagerank",
)
SHOTS = (1, 2, 5, 10, 20, 50, 200)
DRAWS, FEW_DRAWS = 10, 2
"""Draws of labels, where the request does not say how many, and under a thin budget."""
SLOW = {"gcn": 3, "sage": 3, "appnp": 3} | dict.fromkeys(
    ("self-training", "boosting", "cleora", "poisson-neighbors", "correct-and-smooth", "pagerank"), 5
)
"""Methods that take long, and their draws at most: the first ones."""

Column = dict[str, Score]
"""Scores by the name of the method."""

Labels = tuple[int, str]
"""How many in every class, and how they are drawn (:data:`~naq_paper.measurements.practice.SHARES`)."""


class Practice(Experiment):
    name = "practice"
    title = "In practice: a few labels of every class"
    question = "With a few labels of the classes of a graph, who names the class of all other nodes best?"
    origin = "not in the paper"
    datasets = (
        *("cora", "citeseer", "amazon-computers", "coauthor-cs", "debian"),
        *("blogcatalog", "payments", "actor", "minesweeper"),
    )

    def rows(self, request: Request) -> list[str]:
        """The methods, by default all."""
        return list(dict.fromkeys(PEERS.find(name).name for name in request.methods or (*OURS, *OTHERS)))

    def shots(self, request: Request) -> tuple[int, ...]:
        return tuple(sorted(set(request.shots or request.levels(SHOTS))))

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        count = request.seeds or (FEW_DRAWS if request.limits.thin else DRAWS)
        shots = self.shots(request)
        more: dict[str, Any] = {"shots": shots, "device": request.device}
        rows = self.rows(request)
        draws = {row: range(min(count, SLOW.get(row, count))) for row in rows}
        return {row: SeedGroup.of(*(practice_cell(dataset, row, seed=n, **more) for n in draws[row])) for row in rows}

    def views(self, study: Study) -> list[View]:
        rows, shots = self.rows(study.request), self.shots(study.request)
        settings = [(shot, shares) for shares in SHARES for shot in shots]
        accuracy, macro = (
            {at: column_of(study, rows, at, what) for at in settings} for what in ("accuracy", "macro_accuracy")
        )
        first = accuracy[settings[0]]
        rows = sorted(rows, key=lambda row: -first[row].mean if row in first else 1.0)
        tests = {at: test for at in settings if (test := against_best(accuracy[at])) is not None}
        sentences = [
            f"{words(at)}, {title(OURS[0])} against {title(best)}, the best of the others: {gain(test)}."
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
        views += [promise_table(study, settings), self._costs(study, rows, settings)]
        return [*views, reached_table(study, accuracy, tests)] if tests else views

    def _accuracies(
        self, study: Study, part: str, heading: str, rows: Sequence[str], found: Mapping[Labels, Column]
    ) -> TableView:
        standings = {at: standings_of(column) for at, column in found.items()}

        def entry(row: str, at: Labels) -> Entry:
            if row not in found[at]:
                return study.missing(row)
            return number(found[at][row], standings[at].get(row), keys=study.keys(row))

        draws = max((one.per_task.size for column in found.values() for one in column.values()), default=0)
        fewer = [f"{title(row)} ({SLOW[row]})" for row in rows if row in SLOW and draws > SLOW[row]]
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
            ["method", "reads", *map(words, found)],
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
                    plain(median(seconds) if seconds else None, 2),
                    plain(max(peaks) / 2**20 if peaks else None, 0),
                ]
            errors = [values_of(records, at, "calibration_error") for at in settings]
            lines.append([title(row), *(plain(mean(found) if found else None, 3) for found in errors), *costs])
        on = f" On a GPU ({', '.join(sorted(machines))}) neither compares." if machines else ""
        return TableView(
            table_name(study, "cost"),
            f"Calibration, time and memory: {study.dataset}",
            ["method", *map(words, settings), "seconds", "memory, MB"],
            lines,
            groups=[("", 1), ("expected calibration error", len(settings)), ("", 2)],
            note=f"Rows are in the order of the table of accuracies. Expected calibration error: {BINS} bins, mean over draws. Seconds of processor "
            "time from the graph in memory to probabilities for every node, the mean over numbers of labels and the median over draws, after a warm-up. "
            f"Memory: the most that was taken beyond the graph itself, in any draw.{on}",
        )


def promise_table(study: Study, settings: Sequence[Labels]) -> TableView:
    """What our classifier says of itself against what is true, over the draws."""
    records = study.records(OURS[0])
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
        lines.append([words(at), *(plain(one, 1) for one in found)])
    return TableView(
        table_name(study, "promise"),
        f"What the classifier expects of itself: {study.dataset}",
        [
            *("labels", "accuracy, %", "expected, %", "mean error, points", "width of the 90 % interval, points"),
            *("interval holds, % of draws", "90 % sets hold, % of nodes", "classes in a set"),
        ],
        lines,
        note=f"{title(OURS[0])}. Means over draws of labels; nodes of a class without a label are in no set.",
    )


def title(row: str) -> str:
    return PEERS[row].title


def words(at: Labels) -> str:
    shot, shares = at
    count = f"{shot} label" if shot == 1 else f"{shot} labels"
    return count if shares == SHARES[0] else f"{count}, random"


def results_of(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    return [record.result for record in records if record.result is not None]


def values_of(records: Sequence[Record], at: Labels, what: str) -> list[Any]:
    """One of each draw."""
    found = [one for result in results_of(records) for one in result["by_shot"]]
    return [one[what] for one in found if (one["shot"], one["shares"]) == at]


def column_of(study: Study, rows: Sequence[str], at: Labels, what: str) -> Column:
    """The scores of a column, as far as they are finished; paired where the same draws are."""
    found = {}
    for row in rows:
        records = study.records(row)
        values = values_of(records, at, what)
        if values:
            found[row] = score([values], "|".join(values_of(records, at, "draw")), trained=False)
    return found


def standings_of(column: Column) -> dict[str, Standing]:
    """Empty while one draw says nothing of others."""
    return compare(column) if all(one.per_task.size > 1 for one in column.values()) else {}


def against_best(column: Column) -> tuple[str, Comparison] | None:
    """The best of the other methods and our classifier less that; all of them are one family, since the best is chosen by the data."""
    others = {row: one for row, one in column.items() if row not in OURS}
    if OURS[0] not in column or not others or any(one.per_task.size < 2 for one in column.values()):
        return None
    pairs = {row: (first_draws(column[OURS[0]], one.per_task.size), one) for row, one in others.items()}
    best = max(pairs, key=lambda row: pairs[row][1].mean - pairs[row][0].mean)
    return best, family(pairs)[best]


def first_draws(one: Score, count: int) -> Score:
    """Of a method with more draws than another, those that both have."""
    return score(one.per_task[None, :count], "|".join(one.tasks.split("|")[:count]), trained=False)


def left_out_note(study: Study, settings: Sequence[Labels]) -> str:
    """Which classes have too few nodes; the draws of one number of labels leave out the same."""
    records = [record for row in study.groups for record in study.records(row)]
    sizes = {at: max(map(len, values_of(records, at, "left_out")), default=0) for at in settings}
    told = [f"{size} with {words(at)}" for at, size in sizes.items() if size]
    return f"Classes with too few nodes are left out for all methods: {', '.join(told)}." if told else ""


def reached_table(
    study: Study, accuracy: Mapping[Labels, Column], tests: Mapping[Labels, tuple[str, Comparison]]
) -> TableView:
    """Our classifier against the best of the others."""
    lines: list[list[Entry]] = []
    for at, (best, test) in tests.items():
        d = test.difference
        mean_of_best = accuracy[at][best].mean
        ours, other = (Number(100 * one, digits=1) for one in (mean_of_best + d.mean, mean_of_best))
        verdicts = (test.significant, not (test.significant and d.mean < 0))
        told = ("yes" if one else "no" for one in verdicts)
        lines.append([words(at), title(best), ours, other, Number(100 * d.mean, 100 * d.ci95, digits=1), *told])
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
        note="The best of the others is chosen on these draws; Holm over all of them. ± is the 95 % interval of the difference alone. "
        "Not below: not significantly worse (p < 0.05).",
    )
