"""A few labels in every class, the class of all other nodes: our classifier beside what people use instead.

A draw of labels is a task: every method answers the same draws, and their differences are taken draw by draw. What a method
draws itself is drawn anew with every draw of labels, so its variance is in the spread of these differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from naq.run.versions import device_words
from naq_paper.cells.records import Record
from naq_paper.experiments.captions import NOTHING, findings, gain, number, power_note, score_series, table_name
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Entry, LineView, Number, TableView, View, plain
from naq_paper.measurements.practice import BINS, practice_cell
from naq_paper.peers import PEERS
from naq_paper.statistics import Comparison, Score, Standing, compare, family, score

OURS = ("naq-plus", "smooth")
"""The classifier as installed, and with other vectors; all other rows are other libraries."""
OTHERS = (
    *("tfidf-logistic", "nearest", "pagerank", "diffusion", "label-propagation", "correct-and-smooth"),
    *("sgc", "gcn", "gat"),
)
SHOTS = (1, 2, 5, 10)
DRAWS, FEW_DRAWS = 5, 2
"""Draws of labels, where the request does not say how many, and under a thin budget."""

Column = dict[str, Score]
"""Scores by the name of the method."""


class Practice(Experiment):
    name = "practice"
    title = "In practice: a few labels in every class"
    question = "With a few labels in every class of a graph, who names the class of all other nodes best?"
    origin = "not in the paper"
    datasets = ("cora", "citeseer", "amazon-computers", "coauthor-cs", "debian")

    def rows(self, request: Request) -> list[str]:
        """The methods, by default all."""
        return list(dict.fromkeys(PEERS.find(name).name for name in request.methods or (*OURS, *OTHERS)))

    def shots(self, request: Request) -> tuple[int, ...]:
        return tuple(sorted(set(request.shots or request.levels(SHOTS))))

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        draws = range(request.seeds or (FEW_DRAWS if request.limits.thin else DRAWS))
        shots = self.shots(request)
        more: dict[str, Any] = {"shots": shots, "device": request.device}
        rows = self.rows(request)
        return {row: SeedGroup.of(*(practice_cell(dataset, row, seed=n, **more) for n in draws)) for row in rows}

    def views(self, study: Study) -> list[View]:
        rows, shots = self.rows(study.request), self.shots(study.request)
        accuracy, macro = (
            {shot: column_of(study, rows, shot, what) for shot in shots} for what in ("accuracy", "macro_accuracy")
        )
        first = accuracy[shots[0]]
        rows = sorted(rows, key=lambda row: -first[row].mean if row in first else 1.0)
        tests = {shot: test for shot in shots if (test := against_best(accuracy[shot])) is not None}
        sentences = [
            f"{labels(shot)} per class, {title(OURS[0])} against {title(best)}, the best of the others: {gain(test)}."
            for shot, (best, test) in tests.items()
        ]
        views: list[View] = [
            findings(study, sentences or [NOTHING]),
            LineView(
                table_name(study),
                f"{self.title}: {study.dataset}",
                "labels in every class",
                "accuracy of all other nodes, %",
                [score_series(title(row), shots, [accuracy[shot].get(row) for shot in shots]) for row in rows],
                log_x=True,
                note="Whiskers are 95 % intervals over draws of labels.",
            ),
            self._accuracies(study, "", "accuracy, %", rows, accuracy),
            self._accuracies(study, "macro", "mean accuracy per class, %", rows, macro),
            self._costs(study, rows, shots),
        ]
        return [*views, reached_table(study, accuracy, tests)] if tests else views

    def _accuracies(
        self, study: Study, part: str, heading: str, rows: Sequence[str], found: Mapping[int, Column]
    ) -> TableView:
        standings = {shot: standings_of(column) for shot, column in found.items()}

        def entry(row: str, shot: int) -> Entry:
            if row not in found[shot]:
                return study.missing(row)
            return number(found[shot][row], standings[shot].get(row), keys=study.keys(row))

        draws = max((one.per_task.size for column in found.values() for one in column.values()), default=0)
        notes = (
            "Rows are sorted by accuracy with the fewest labels." if part else "Sorted by the first column.",
            f"A task is a draw of labels, the same for all methods; there are {draws}. All other nodes are classified.",
            left_out_note(study),
            power_note([column for shot, column in found.items() if standings[shot]]),
        )
        return TableView(
            table_name(study, part),
            f"{heading.partition(',')[0].capitalize()}: {study.dataset}",
            ["method", "reads", *map(labels, found)],
            [[title(row), PEERS[row].reads, *(entry(row, shot) for shot in found)] for row in rows],
            labels=2,
            groups=[("", 2), (heading, len(found))],
            note=" ".join(filter(None, notes)),
            sorted_by=None if part else 2,
        )

    def _costs(self, study: Study, rows: Sequence[str], shots: Sequence[int]) -> TableView:
        lines: list[list[Entry]] = []
        machines: set[str] = set()
        for row in rows:
            records = study.records(row)
            there = {device_words(record.machine) for record in records} - {"cpu"}
            machines |= there
            peaks = [r["peak_bytes"] for r in results_of(records) if r["peak_bytes"] is not None]
            errors = [values_of(records, shot, "calibration_error") for shot in shots]
            seconds = [value for shot in shots for value in values_of(records, shot, "seconds")]
            costs: list[Entry] = ["on a GPU", "on a GPU"]
            if not there:
                costs = [
                    plain(median(seconds) if seconds else None, 2),
                    plain(max(peaks) / 2**20 if peaks else None, 0),
                ]
            lines.append(
                [title(row), *(plain(sum(found) / len(found) if found else None, 3) for found in errors), *costs]
            )
        on = f" On a GPU ({', '.join(sorted(machines))}) neither compares." if machines else ""
        return TableView(
            table_name(study, "cost"),
            f"Calibration, time and memory: {study.dataset}",
            ["method", *map(labels, shots), "seconds", "memory, MB"],
            lines,
            groups=[("", 1), ("expected calibration error", len(shots)), ("", 2)],
            note=f"Rows are in the order of the table of accuracies. Expected calibration error: {BINS} bins, mean over draws. Seconds of processor "
            "time from the graph in memory to probabilities for every node, the median over draws and numbers of labels, after a warm-up. Memory: the most "
            f"that was taken beyond the graph itself, in any draw.{on}",
        )


def title(row: str) -> str:
    return PEERS[row].title


def labels(shot: int) -> str:
    return f"{shot} label" if shot == 1 else f"{shot} labels"


def results_of(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    return [record.result for record in records if record.result is not None]


def values_of(records: Sequence[Record], shot: int, what: str) -> list[Any]:
    """One of each draw."""
    return [one[what] for result in results_of(records) for one in result["by_shot"] if one["shot"] == shot]


def column_of(study: Study, rows: Sequence[str], shot: int, what: str) -> Column:
    """The scores of a column, as far as they are finished; paired where the same draws are."""
    found = {}
    for row in rows:
        records = study.records(row)
        values = values_of(records, shot, what)
        if values:
            found[row] = score([values], "|".join(values_of(records, shot, "draw")), trained=False)
    return found


def standings_of(column: Column) -> dict[str, Standing]:
    """Empty while one draw says nothing of others."""
    return compare(column) if all(one.per_task.size > 1 for one in column.values()) else {}


def against_best(column: Column) -> tuple[str, Comparison] | None:
    """The best of the other methods and our classifier less that; all of them are one family, since the best is chosen by the data."""
    others = {row: one for row, one in column.items() if row not in OURS}
    if OURS[0] not in column or not others or any(one.per_task.size < 2 for one in column.values()):
        return None
    best = max(others, key=lambda row: others[row].mean)
    return best, family({row: (column[OURS[0]], one) for row, one in others.items()})[best]


def left_out_note(study: Study) -> str:
    """Which classes have too few nodes; the draws of one number of labels leave out the same."""
    sizes = {
        one["shot"]: len(one["left_out"])
        for row in study.groups
        for result in results_of(study.records(row))
        for one in result["by_shot"]
    }
    words = [f"{size} with {labels(shot)}" for shot, size in sizes.items() if size]
    return f"Classes with too few nodes are left out for all methods: {', '.join(words)}." if words else ""


def reached_table(
    study: Study, accuracy: Mapping[int, Column], tests: Mapping[int, tuple[str, Comparison]]
) -> TableView:
    """Our classifier against the best of the others."""
    lines: list[list[Entry]] = []
    for shot, (best, test) in tests.items():
        d = test.difference
        ours, other = (Number(100 * accuracy[shot][row].mean, digits=1) for row in (OURS[0], best))
        verdicts = (test.significant, not (test.significant and d.mean < 0))
        words = ("yes" if one else "no" for one in verdicts)
        lines.append([labels(shot), title(best), ours, other, Number(100 * d.mean, 100 * d.ci95, digits=1), *words])
    return TableView(
        table_name(study, "reached"),
        f"Against the best of the others: {study.dataset}",
        [
            *("labels per class", "best of the others", "naq, %", "best other, %", "gain, points"),
            "significant",
            "not below",
        ],
        lines,
        labels=2,
        note="The best of the others is chosen on these draws; Holm over all of them. ± is the 95 % interval of the difference alone. "
        "Not below: not significantly worse (p < 0.05).",
    )
