"""What a table of accuracies shows beside its numbers: bars, heads, costs and training curves of one setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naq.experiments.captions import SMOOTH, TEST_ACCURACY, WHISKERS, number, power_note, score_series, table_name
from naq.experiments.cut_short import ends_of
from naq.experiments.experiment import Study
from naq.experiments.names import full_name, kind_of, model_of
from naq.experiments.tuning import learner_of
from naq.experiments.views import BarView, Entry, LineView, Number, Series, TableView, View
from naq.protocol.evaluation import BASELINE
from naq.protocol.machine import device_words
from naq.statistics import Score, compare

Setting = tuple[int, int]
"""Way and shot."""
HEADS = ("logistic", "prototype", "transductive", "own")
TOGETHER = "The transductive head and the own answers of GLITTER and TEG look at a task's queries together."
SHOWN = 8
"""Lines in a plot of training curves."""


def bars(study: Study, rows: Sequence[str], at: Setting, found: Mapping[tuple[str, Setting], Score]) -> BarView:
    """One group per model, one colour per kind of episodes."""
    there = [m for m in rows if (m, at) in found]
    models, kinds = (list(dict.fromkeys(of(m) for m in there)) for of in (model_of, kind_of))
    by_place = {(model_of(m), kind_of(m)): found[m, at] for m in there}
    series = [
        score_series(kind or "no episodes", models, [by_place.get((model, kind)) for model in models]) for kind in kinds
    ]
    baseline = {SMOOTH: 100 * found[BASELINE, at].mean} if (BASELINE, at) in found else {}
    title = f"{study.experiment.title}: {study.dataset}, {at[0]}-way {at[1]}-shot"
    name = table_name(study, f"bars-{at[0]}-way-{at[1]}-shot")
    return BarView(name, title, TEST_ACCURACY, series, baseline, WHISKERS)


def heads(study: Study, rows: Sequence[str], at: Setting) -> TableView:
    """The same vectors under every head, and the answers of methods that have their own."""
    found = {
        (method, head): s
        for method in rows
        for head in HEADS
        if (s := study.score((method, at), at[1], head)) is not None
    }
    columns = {head: {m: found[m, head] for m in rows if (m, head) in found} for head in HEADS}
    standings = {head: compare(column, BASELINE) for head, column in columns.items()}

    def entry(method: str, head: str) -> Entry:
        there = (method, head) in found
        return number(found[method, head], standings[head].get(method)) if there else "–"

    lines: list[list[Entry]] = [
        [full_name(method), *(entry(method, head) for head in HEADS)]
        for method in rows
        if any((method, head) in found for head in HEADS)
    ]
    return TableView(
        table_name(study, "heads"),
        f"By head: {study.dataset}, {at[0]}-way {at[1]}-shot",
        ["method", *HEADS],
        lines,
        note=f"The same trainings and tasks. {TOGETHER} {power_note(columns.values())}".strip(),
    )


def costs(study: Study, rows: Sequence[str], at: Setting) -> TableView:
    """What a training took, where and with which setting."""
    lines: list[list[Entry]] = []
    for method in rows:
        records = study.records((method, at))
        if not records:
            continue
        results = [record.result for record in records if record.result is not None]
        steps = [r["facts"].get("steps_trained") for r in results]
        valid = [r["facts"].get("valid_accuracy") for r in results]
        unit = results[0]["facts"].get("unit", "")
        ends = ends_of(records)
        setting = study.groups[method, at].setting(study.find) or {}
        chosen = {**study.request.options.get(learner_of(method), {}), **setting}
        lines.append(
            [
                full_name(method),
                "base labels" if results[0]["facts"]["reads_base_labels"] else "none",
                ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in chosen.items())
                or f"{study.request.profile} profile",
                "–" if None in steps or not steps else f"{sum(steps) / len(steps):,.0f} {unit}",
                "–" if ends is None else ends.words,
                "–" if None in valid or not valid else Number(100 * sum(valid) / len(valid), digits=1),
                Number(sum(record.seconds for record in records) / len(records), digits=1, seeds=len(records)),
                ", ".join(sorted({device_words(record.machine) for record in records})),
            ]
        )
    return TableView(
        table_name(study, "cost"),
        f"What it took: {study.dataset}, {at[0]}-way {at[1]}-shot",
        ["method", "labels read", "setting", "trained", "stopped", "validation %", "seconds per training", "on"],
        lines,
        labels=5,
        note="Means over seeds. Stopped by itself: after its patience of validations without a new best; still improving: the best checkpoint is the last one. The setting is the candidate with the best accuracy on validation tasks where the request tunes, else what was given, or what the profile sets.",
    )


def curves(study: Study, rows: Sequence[str], at: Setting) -> list[View]:
    """Validation accuracy over training of the first finished seed: learners by episodes, embedders by epochs."""
    views: list[View] = []
    for unit in ("episodes", "epochs"):
        series = []
        for method in rows:
            records = study.records((method, at))
            result = records[0].result if records else None
            history = result["history"] if result is not None else None
            if result is not None and history is not None and result["facts"].get("unit") == unit:
                y = [100 * value for value in history["valid_accuracy"]]
                series.append((max(y), Series(full_name(method), [float(e) for e in history["steps"]], y)))
        series.sort(key=lambda one: -one[0])
        if series:
            best = f"; the {SHOWN} best of {len(series)} on validation tasks" if len(series) > SHOWN else ""
            views.append(
                LineView(
                    table_name(study, f"curves-{unit}"),
                    f"Training curves over {unit}: {study.dataset}",
                    f"training {unit}",
                    "validation accuracy, %",
                    [s for _, s in series[:SHOWN]],
                    note=f"The first finished seed of each{best}.",
                )
            )
    return views
