"""What a table of accuracies shows beside its numbers: bars, heads, costs and training curves of one setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naq.experiments.arms import Arm, number
from naq.experiments.asking import Ask
from naq.experiments.experiment import Experiment
from naq.experiments.machine import device_words
from naq.experiments.names import full_name, kind_of, model_of
from naq.experiments.records import Find
from naq.experiments.showing import TEST_ACCURACY, WHISKERS, dataset_slug, score_series
from naq.experiments.statistics import Score, compare
from naq.experiments.testing import REFERENCE
from naq.experiments.tuning import learner_of
from naq.experiments.views import BarView, Entry, LineView, Number, Series, TableView, View

Setting = tuple[int, int]
"""Way and shot."""
HEADS = ("logistic", "prototype", "transductive", "own")
SHOWN = 8
"""Lines in a plot of training curves."""


def bars(
    table: Experiment,
    dataset: str,
    rows: Sequence[str],
    settings: Sequence[Setting],
    found: Mapping[tuple[str, Setting], Score],
) -> BarView:
    """One group per model, one colour per kind of episodes, for the first setting."""
    at = settings[0]
    models = list(dict.fromkeys(model_of(m) for m in rows if (m, at) in found))
    kinds = list(dict.fromkeys(kind_of(m) for m in rows if (m, at) in found))
    by_place = {(model_of(m), kind_of(m)): found[m, at] for m in rows if (m, at) in found}
    series = []
    for kind in kinds:
        scores = [by_place.get((model, kind)) for model in models]
        series.append(score_series(kind or "no episodes", models, scores))
    floors = {full_name(REFERENCE): 100 * found[REFERENCE, at].mean} if (REFERENCE, at) in found else {}
    title = f"{table.title}: {dataset}, {at[0]}-way {at[1]}-shot"
    return BarView(
        f"{table.name}-bars-{dataset_slug(dataset)}",
        title,
        TEST_ACCURACY,
        series,
        floors,
        WHISKERS,
    )


def heads(
    table: Experiment,
    dataset: str,
    find: Find,
    rows: Sequence[str],
    at: Setting,
    arms: Mapping[tuple[str, Setting], Arm],
) -> TableView:
    """The same vectors under every head, and the answers of methods that have their own."""
    found = {
        (method, head): s
        for method in rows
        for head in HEADS
        if (s := arms[method, at].score(find, at[1], head)) is not None
    }
    standings = {head: compare({m: found[m, head] for m in rows if (m, head) in found}) for head in HEADS}
    lines: list[list[Entry]] = [
        [
            full_name(method),
            *(
                number(found[method, head], standings[head].get(method)) if (method, head) in found else "–"
                for head in HEADS
            ),
        ]
        for method in rows
        if any((method, head) in found for head in HEADS)
    ]
    return TableView(
        f"{table.name}-heads-{dataset_slug(dataset)}",
        f"By head: {dataset}, {at[0]}-way {at[1]}-shot",
        ["method", *HEADS],
        lines,
        note="The same trainings and tasks. The transductive head and the own answers of GLITTER and TEG look at a task's queries together.",
    )


def costs(
    table: Experiment,
    ask: Ask,
    dataset: str,
    find: Find,
    rows: Sequence[str],
    at: Setting,
    arms: Mapping[tuple[str, Setting], Arm],
) -> TableView:
    """What a training took, where and with which setting."""
    lines: list[list[Entry]] = []
    for method in rows:
        records = arms[method, at].records(find)
        if not records:
            continue
        results = [record.result for record in records if record.result is not None]
        steps = [r["facts"].get("episodes_trained") for r in results]
        valid = [r["facts"].get("valid_accuracy") for r in results]
        unit = results[0]["facts"].get("unit", "")
        chosen = {**ask.options.get(learner_of(method), {}), **arms[method, at].options}
        lines.append(
            [
                full_name(method),
                "base labels" if results[0]["facts"]["reads_base_labels"] else "none",
                ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in chosen.items())
                or "defaults",
                "–" if None in steps or not steps else f"{sum(steps) / len(steps):,.0f} {unit}",
                "–" if None in valid or not valid else Number(100 * sum(valid) / len(valid), digits=1),
                Number(sum(record.seconds for record in records) / len(records), digits=1, seeds=len(records)),
                ", ".join(sorted({device_words(record.machine) for record in records})),
            ]
        )
    way, shot = at
    return TableView(
        f"{table.name}-cost-{dataset_slug(dataset)}",
        f"What it took: {dataset}, {way}-way {shot}-shot",
        ["method", "labels read", "setting", "trained", "validation %", "seconds per training", "on"],
        lines,
        labels=4,
        note="Means over seeds. The setting is the candidate with the best accuracy on validation tasks where the request tunes, else what it asked for or the method's defaults.",
    )


def curves(
    table: Experiment,
    dataset: str,
    find: Find,
    rows: Sequence[str],
    at: Setting,
    arms: Mapping[tuple[str, Setting], Arm],
) -> list[View]:
    """Validation accuracy over training of the first finished seed: learners by episodes, embedders by epochs."""
    views: list[View] = []
    for unit in ("episodes", "epochs"):
        series = []
        for method in rows:
            records = arms[method, at].records(find)
            result = records[0].result if records else None
            history = result["history"] if result is not None else None
            if result is not None and history is not None and result["facts"].get("unit") == unit:
                y = [100 * value for value in history["valid_accuracy"]]
                series.append((max(y), Series(full_name(method), [float(e) for e in history["steps"]], y)))
        series.sort(key=lambda one: -one[0])
        if series:
            name, title = (
                f"{table.name}-curves-{unit}-{dataset_slug(dataset)}",
                f"Training curves over {unit}: {dataset}",
            )
            note = (
                f"The first finished seed of each; the {SHOWN} best of {len(series)} on validation tasks."
                if len(series) > SHOWN
                else "The first finished seed of each."
            )
            views.append(
                LineView(
                    name, title, f"training {unit}", "validation accuracy, %", [s for _, s in series[:SHOWN]], note=note
                )
            )
    return views
