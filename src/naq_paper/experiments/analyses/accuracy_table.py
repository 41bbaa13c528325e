"""Tables of accuracy: methods in rows, way and shot in columns, the paper's numbers, bars, heads, costs and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naq.heads import HEADS, in_reading_order
from naq.methods import get_method
from naq.run.config import OWN
from naq.run.evaluate import BASELINE, dirichlet
from naq_paper.cells.records import device_words
from naq_paper.experiments.captions import (
    CUT_SHORT,
    NOTHING,
    ONE_SEED,
    SMOOTH,
    TEST_ACCURACY,
    WHISKERS,
    amount,
    findings,
    gain,
    leaders,
    number,
    power_note,
    score_series,
    table_name,
    training_end,
    value_of,
)
from naq_paper.experiments.experiment import Contest, Experiment, Study
from naq_paper.experiments.names import PARTS, full_name, kind_of, learner_of, model_of, paper_name
from naq_paper.experiments.paper import paper_accuracy, paper_rank
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group, training_note
from naq_paper.experiments.views import BarView, Entry, Label, LineView, Number, Series, TableView, TextView, View
from naq_paper.statistics import Score, average_ranks, compare

Setting = tuple[int, int]
"""Way and shot."""
Found = Mapping[tuple[str, Setting], Score]
SHOWN = 8
"""Lines in a plot of training curves."""
HEAVY = ("teg", "tent", "vnt", "afgrl", "gpn", "gmeta", "maml", "cosmic", "glitter")
"""Methods whose trainings take longest, roughly in order."""
INDUCTIVE, BALANCED, UNBALANCED = "inductive", "transductive, balanced queries", "transductive, Dirichlet(2) queries"
"""Groups of columns that are compared apart."""
IN_ORDER = "Rows are in the order of the table of accuracies."


@dataclass(frozen=True, kw_only=True, eq=False)
class AccuracyTable(Experiment):
    """A table of methods by settings; keys of its groups are (method, (way, shot)).

    Attributes:
        methods, ways, shots: if a request names none; the `smooth` baseline is a further row.
        sorted: whether the rows are sorted by the first column, else they are in the order of ``methods``.
        charts: whether the ``first`` column or ``all`` are drawn as bars and shown under every head.
        costs: whether costs and training curves are shown.
    """

    methods: tuple[str, ...]
    ways: tuple[int, ...] = (5, 10, 20)
    shots: tuple[int, ...] = (1, 5)
    sorted: bool = True
    charts: str = "first"
    costs: bool = True

    def rows(self, request: Request) -> list[str]:
        """Methods that are trained, the `smooth` baseline last."""
        methods = [get_method(name).name for name in request.methods or self.methods]
        return list(dict.fromkeys([*methods, BASELINE]))

    def shown(self, request: Request) -> list[str]:
        """Rows of the table: the methods, or some of them and rows picked from them."""
        return self.rows(request)

    def compared(self, request: Request) -> list[str]:
        """Rows that marks and sentences compare."""
        return self.shown(request)

    def picked(self, study: Study, found: Found) -> dict[tuple[str, Setting], str]:
        """The method behind a picked row, by row and setting; any of its methods while none is finished."""
        return {}

    def settings(self, request: Request, dataset: str) -> list[Setting]:
        """(way, shot) of every column; ways that the dataset's classes cannot fill are left out."""
        most = request.fact(dataset, "most_classes")
        possible = tuple(way for way in self.ways if most is None or way <= most)
        ways = request.ways or (possible[:1] if request.limits.thin else possible)
        return [(way, shot) for way in ways for shot in request.shots or self.shots]

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """Long trainings first, so that none is left alone at the end; tuning chooses the setting of the first shot."""
        settings = self.settings(request, dataset)
        first = {way: {"shot": shot} for way, shot in reversed(settings)}
        weight = {name: place for place, name in enumerate(HEAVY)}
        return {
            (method, at): seed_group(request, dataset, method, way=at[0], shot=at[1], chosen_for=first[at[0]])
            for method in sorted(self.rows(request), key=lambda m: weight.get(learner_of(m), len(HEAVY)))
            for at in settings
        }

    def contests(self, study: Study) -> list[Contest]:
        found = self.found(study)
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

    def found(self, study: Study) -> Found:
        """The scores of methods, and of rows picked from them."""
        found = study.scores()
        picked = self.picked(study, found)
        return {**found, **{(row, at): found[m, at] for (row, at), m in picked.items() if (m, at) in found}}

    def remarks(self, study: Study, found: Found) -> list[str]:
        """Sentences of this table in addition to those on the best row."""
        return []

    def about_rows(self, study: Study) -> str:
        """What is said of rows below the table."""
        return ""

    def ranks(self, columns: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The mean rank of each row over columns."""
        return average_ranks(columns)

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        """What is below the table and the same vectors under other heads: costs and training curves."""
        at = settings[0]
        if not self.costs:
            return []
        rows = self.ordered(self.rows(study.request), at, study.scores())
        return [costs_table(study, rows, at), *curve_views(study, rows, at)]

    def ordered(self, rows: Sequence[str], at: Setting, found: Found) -> list[str]:
        """The rows as the table shows them; those without a number last."""
        return sorted(rows, key=lambda m: -found[m, at].mean if (m, at) in found else 1.0) if self.sorted else [*rows]

    def figures(self, study: Study) -> list[View]:
        request, dataset = study.request, study.dataset
        rows, settings = self.shown(request), self.settings(request, dataset)
        if not settings:
            words = f"have at most {request.fact(dataset, 'most_classes')} classes, fewer than any column here"
            return [TextView([f"The tasks of {dataset} {words}; choose others with --way."])]
        found = self.found(study)
        rows = self.ordered(rows, settings[0], found)
        table = self._table(study, rows, settings, found)
        if not found:
            return [TextView([NOTHING]), table]
        trained = self.ordered(self.rows(request), settings[0], study.scores())
        charted = settings if self.charts == "all" else settings[:1]
        by_head = [heads_table(study, trained, at, first=at == settings[0]) for at in charted]
        return [
            findings(study, [*verdict(self.compared(request), settings, found), *self.remarks(study, found)]),
            *(bars_view(study, rows, at, found) for at in charted),
            table,
            *by_head,
            *self.more_views(study, settings),
        ]

    def _table(self, study: Study, rows: Sequence[str], settings: Sequence[Setting], found: Found) -> TableView:
        columns = {at: {m: found[m, at] for m in rows if (m, at) in found} for at in settings}
        whole = PARTS.get(study.dataset, study.dataset)
        known, picked, methods = self.compared(study.request), self.picked(study, found), self.rows(study.request)
        compared = {at: {m: s for m, s in column.items() if m in known} for at, column in columns.items()}
        standings = {at: compare(column, BASELINE) for at, column in compared.items()}
        ranks = self.ranks([{m: s.mean for m, s in column.items()} for column in columns.values()])

        def entry(method: str, at: Setting) -> Entry:
            known = paper_accuracy(whole, method, way=at[0], shot=at[1])
            paper, interval = (None, None) if known is None else (known.shown, known.ci95)
            group = picked.get((method, at), method), at
            if (method, at) not in found:
                return study.missing(group, paper, interval)
            standing = standings[at].get(method)
            return number(found[method, at], standing, paper=paper, paper_ci=interval, keys=study.keys(group))

        lines: list[list[Entry]] = []
        for method in rows:
            groups = [(picked.get((method, at), method), at) for at in settings]
            remark, _ = training_end(record for group in groups for record in study.records(group))
            name = Label(model_of(method), remark) if remark else model_of(method)
            rank, known_rank = ranks.get(method), value_of(paper_rank(whole, method))
            last = "–" if rank is None else Number(rank, digits=2, paper=known_rank)
            lines.append([name, kind_of(method) or "–", *(entry(method, at) for at in settings), last])
        head, own = study.request.head, [model_of(method) for method in methods if get_method(method).solves_tasks]
        without = f"; without one: {', '.join(dict.fromkeys(own))}" if own else ""
        notes = (
            "Sorted by the first column of accuracy." if self.sorted else "Rows are in the paper's order.",
            CUT_SHORT if any(isinstance(line[0], Label) for line in lines) else "",
            f"Head: {head if head != 'logistic' else 'logistic regression, as in the paper'}{without}.",
            training_note(study.request, methods),
            self.about_rows(study),
            f"The paper's numbers are those of all of {paper_name(whole)}." if whole != study.dataset else "",
            "Average rank: among these rows, over these columns; the paper's is over its own.",
            power_note(compared.values()),
        )
        return TableView(
            table_name(study),
            f"{self.title}: {study.dataset}",
            ["method", "episodes", *(f"{way}-way {shot}-shot" for way, shot in settings), "average rank"],
            lines,
            labels=2,
            groups=[("", 2), ("test accuracy, %", len(settings)), ("", 1)],
            note=" ".join(filter(None, notes)),
            sorted_by=2 if self.sorted else None,
        )


def verdict(rows: Sequence[str], settings: Sequence[Setting], found: Found) -> list[str]:
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
        marks = {m: standings[m].mark for m in sorted(column, key=lambda m: -column[m].mean)[1:]}
        similar = [full_name(m) for m, mark in marks.items() if mark == "≈"]
        rest = "; every other method is significantly worse" if all(marks.values()) else ""
        if similar:
            rest = f"; no significant difference from {', '.join(similar)}"
        elif not any(marks.values()):
            rest = f" ({ONE_SEED})"
        sentence = (
            f"{at[0]}-way {at[1]}-shot: {full_name(best)} is best with {100 * column[best].mean:.1f} %, "
            f"{amount(behind.difference)} ahead of {full_name(second)}{rest}."
        )
        if len(column) < len(rows):
            sentence += f" {len(column)} of {len(rows)} methods are finished."
        if (to_baseline := standings[best].to_baseline) is not None:
            sentence += f" Against smooth, which trains nothing: {gain(to_baseline)}."
        sentences.append(sentence)
    return sentences or ["Too little is finished to compare."]


def bars_view(study: Study, rows: Sequence[str], at: Setting, found: Found) -> BarView:
    """One group per model, one colour per kind of episodes."""
    there = [m for m in rows if (m, at) in found]
    models, kinds = (list(dict.fromkeys(map(of, there))) for of in (model_of, kind_of))
    scores = {(model_of(m), kind_of(m)): found[m, at] for m in there}
    series = [score_series(kind or "no episodes", models, [scores.get((m, kind)) for m in models]) for kind in kinds]
    baseline = {SMOOTH: 100 * found[BASELINE, at].mean} if (BASELINE, at) in found else {}
    title = f"{study.experiment.title}: {study.dataset}, {at[0]}-way {at[1]}-shot"
    name = table_name(study, f"bars-{at[0]}-way-{at[1]}-shot")
    return BarView(name, title, TEST_ACCURACY, series, baseline, WHISKERS)


def heads_table(study: Study, rows: Sequence[str], at: Setting, *, first: bool = True) -> TableView:
    """The same vectors under every head, and the answers of methods that have their own; empty columns are left out."""

    def belongs(method: str, group: str) -> bool:
        """Whether a method's own answers are in a group of columns."""
        together = getattr(get_method(method).model, "transductive", False)
        return group == (BALANCED if together else INDUCTIVE)

    def scores(group: str, key: str) -> dict[str, Score]:
        found = study.scores(key)
        return {m: found[m, at] for m in rows if (m, at) in found and (key != OWN or belongs(m, group))}

    names = in_reading_order()
    together = [name for name in names if HEADS[name].transductive]
    wanted = [(INDUCTIVE, name, name) for name in [*(n for n in names if n not in together), OWN]]
    wanted += [(BALANCED, name, name) for name in [*together, OWN]]
    wanted += [(UNBALANCED, name, dirichlet(name)) for name in ["prototype", *together]]
    found = {(group, head): column for group, head, key in wanted if (column := scores(group, key))}
    standings = {key: compare(column, BASELINE) for key, column in found.items()}
    lines: list[list[Entry]] = []
    for m in rows:
        entries = [number(s[m], standings[key].get(m)) if m in s else "–" for key, s in found.items()]
        if any(entry != "–" for entry in entries):
            lines.append([full_name(m), *entries])
    widths = {name: sum(group == name for group, _ in found) for name, _ in found}
    balanced = sorted(head for group, head in found if group == BALANCED and head != OWN and HEADS[head].knows_balance)
    note = (
        f"{IN_ORDER} The same trainings and tasks. Inductive: every query is answered alone; transductive: the "
        "queries of a task together."
    )
    if balanced:
        note += (
            f" {', '.join(balanced)} knows that every class has equally many queries, which a user seldom does; "
            "Dirichlet(2) queries have no such balance."
        )
    if (UNBALANCED, "prototype") in found:
        note += (
            " The same supports with Dirichlet(2) queries, where prototype, which answers each alone, is the "
            "inductive reference."
        )
    return TableView(
        table_name(study, "heads" if first else f"heads-{at[0]}-way-{at[1]}-shot"),
        f"By head: {study.dataset}, {at[0]}-way {at[1]}-shot",
        ["method", *(head for _, head in found)],
        lines,
        groups=[("", 1), *widths.items()],
        note=" ".join(filter(None, (note, power_note(found.values())))),
    )


def costs_table(study: Study, rows: Sequence[str], at: Setting) -> TableView:
    """What a training took, where and with which setting."""
    lines: list[list[Entry]] = []
    for method in rows:
        records = study.records((method, at))
        if not records:
            continue
        facts = [record.result["facts"] for record in records if record.result is not None]
        steps, valid = ([one.get(name) for one in facts] for name in ("steps_trained", "valid_accuracy"))
        setting = study.groups[method, at].setting(study.find) or {}
        chosen = {**study.request.options.get(learner_of(method), {}), **setting}
        words = (f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in chosen.items())
        lines.append(
            [
                full_name(method),
                "base labels" if facts[0]["reads_base_labels"] else "none",
                ", ".join(words) or f"{study.request.profile} profile",
                "–" if None in steps else f"{sum(steps) / len(steps):,.0f} {facts[0].get('unit', '')}",
                training_end(records)[1] or "–",
                "–" if None in valid else Number(100 * sum(valid) / len(valid), digits=1),
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
        note=(
            f"{IN_ORDER} Means over seeds. Stopped by itself: after its patience of validations without a new "
            "best; still improving: the best checkpoint is the last one. The setting is what tuning chose on "
            "validation tasks, else what was given, or what the profile sets."
        ),
    )


def curve_views(study: Study, rows: Sequence[str], at: Setting) -> list[View]:
    """Validation accuracy over training of the first finished seed: learners by episodes, embedders by epochs."""
    found: dict[str, list[Series]] = {"episodes": [], "epochs": []}
    for method in rows:
        result = next((record.result for record in study.records((method, at))), None)
        if result is not None and (history := result["history"]) is not None:
            y = [100 * value for value in history["valid_accuracy"]]
            found[result["facts"]["unit"]].append(Series(full_name(method), list(map(float, history["steps"])), y))
    views: list[View] = []
    for unit, series in found.items():
        series.sort(key=lambda one: -max(y for y in one.y if y is not None))
        best = f"; the {SHOWN} best of {len(series)} on validation tasks" if len(series) > SHOWN else ""
        name, title = table_name(study, f"curves-{unit}"), f"Training curves over {unit}: {study.dataset}"
        labels, note = (f"training {unit}", "validation accuracy, %"), f"The first finished seed of each{best}."
        if series:
            views.append(LineView(name, title, *labels, series[:SHOWN], note=note))
    return views
