"""What a table of accuracies shows beside its numbers: bars, heads, costs and training curves of one setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from naq.heads import HEADS, in_reading_order
from naq.methods import get_method
from naq.run.config import OWN
from naq.run.evaluate import BASELINE, dirichlet
from naq.run.versions import device_words
from naq_paper.experiments.captions import SMOOTH, TEST_ACCURACY, WHISKERS, number, power_note, score_series, table_name
from naq_paper.experiments.cut_short import ends_of
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name, kind_of, learner_of, model_of
from naq_paper.experiments.views import BarView, Entry, LineView, Number, Series, TableView, View
from naq_paper.statistics import Score, compare

Setting = tuple[int, int]
"""Way and shot."""
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


INDUCTIVE, BALANCED, UNBALANCED = "inductive", "transductive, balanced queries", "transductive, Dirichlet(2) queries"
"""Groups of columns that are compared apart."""


def heads(study: Study, rows: Sequence[str], at: Setting, *, first: bool = True) -> TableView:
    """The same vectors under every head, and the answers of methods that have their own; columns that no method has are left out."""
    found = {
        (group, head): scores
        for group, head, key in _head_columns()
        if (scores := _column(study, rows, at, group, key))
    }
    standings = {column: compare(scores, BASELINE) for column, scores in found.items()}
    lines: list[list[Entry]] = [
        [
            full_name(method),
            *(
                number(scores[method], standings[column].get(method)) if method in scores else "–"
                for column, scores in found.items()
            ),
        ]
        for method in rows
        if any(method in scores for scores in found.values())
    ]
    groups = [("", 1)]
    groups += [(g, sum(group == g for group, _ in found)) for g in dict.fromkeys(group for group, _ in found)]
    setting = f"{at[0]}-way {at[1]}-shot"
    return TableView(
        table_name(study, "heads" if first else f"heads-{at[0]}-way-{at[1]}-shot"),
        f"By head: {study.dataset}, {setting}",
        ["method", *(head for _, head in found)],
        lines,
        groups=groups,
        note=" ".join(words for words in (_heads_note(found), power_note(found.values())) if words),
    )


def _head_columns() -> list[tuple[str, str, str]]:
    """Group, name and key of each column: own answers stand where their method belongs."""
    names = in_reading_order()
    together = [name for name in names if HEADS[name].transductive]
    return [
        *((INDUCTIVE, name, name) for name in [*(n for n in names if n not in together), OWN]),
        *((BALANCED, name, name) for name in [*together, OWN]),
        *((UNBALANCED, name, dirichlet(name)) for name in ["prototype", *together]),
    ]


def _column(study: Study, rows: Sequence[str], at: Setting, group: str, key: str) -> dict[str, Score]:
    there = [m for m in rows if key != OWN or _own_group(m) == group]
    return {m: s for m in there if (s := study.score((m, at), at[1], key)) is not None}


def _own_group(method: str) -> str:
    return BALANCED if getattr(get_method(method).model, "transductive", False) else INDUCTIVE


def _heads_note(found: Iterable[tuple[str, str]]) -> str:
    columns = set(found)
    told = [head for group, head in columns if group == BALANCED and head != OWN and HEADS[head].knows_balance]
    note = "The same trainings and tasks. Inductive: every query is answered alone; transductive: the queries of a task together."
    if told:
        note += f" {', '.join(sorted(told))} knows that every class has equally many queries, which a user seldom does; Dirichlet(2) queries have no such balance."
    if (UNBALANCED, "prototype") in columns:
        note += " The same supports with Dirichlet(2) queries, where prototype, which answers each alone, is the inductive reference."
    return note


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
