"""The paper's tables of accuracy: product networks, citation networks, ogbn-arxiv and ogbn-products; each runs on any dataset.

Rows are the paper's methods and the training-free ``smooth``, which the paper does not have. Under NaQ and without episodes one training
serves all shots of a way; supervised learners are trained for every shot, as the released code does. A table also shows average
ranks, computed as the paper's are, and who is really better: differences are taken on the tasks that all methods share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from naq.experiments.arms import ONE_SEED, Arm, amount, arm, gain, number
from naq.experiments.asking import Ask
from naq.experiments.cells import Cell
from naq.experiments.experiment import Experiment, register_experiment
from naq.experiments.machine import device_words
from naq.experiments.names import full_name, kind_of, model_of
from naq.experiments.paper import paper_accuracy, paper_rank
from naq.experiments.records import Find
from naq.experiments.statistics import Score, average_ranks, compare, difference, pooled_spread
from naq.experiments.sweep import dataset_slug, told
from naq.experiments.tuning import learner_of
from naq.experiments.views import BarView, Entry, LineView, Missing, Number, Series, TableView, TextView, View
from naq.methods import get_method

SIX = ("maml", "protonet", "tent", "gmeta", "glitter", "cosmic")
RIVALS = ("bgrl", "sugrl", "afgrl", "vnt")
REFERENCE = "smooth"
Setting = tuple[int, int]
HEADS = ("logistic", "prototype", "transductive", "own")
HEAVY = ("teg", "tent", "vnt", "afgrl", "gpn", "gmeta", "maml", "cosmic", "glitter")
"""Methods whose trainings take longest, roughly in order."""
SHOWN = 8
"""Lines in a plot of training curves."""


class AccuracyTable(Experiment):
    """A table of methods by settings, for each dataset."""

    kind = "table"
    methods: ClassVar[tuple[str, ...]]
    ways: ClassVar[tuple[int, ...]] = (5, 10, 20)
    shots: ClassVar[tuple[int, ...]] = (1, 5)

    def rows(self, ask: Ask) -> list[str]:
        """Methods, the training-free one last."""
        asked = [get_method(name).name for name in ask.methods or self.methods]
        return list(dict.fromkeys([*asked, REFERENCE]))

    def settings(self, ask: Ask, dataset: str) -> list[Setting]:
        """(way, shot) of every column; ways that the dataset's classes cannot fill are left out."""
        most = ask.most_classes(dataset)
        possible = tuple(way for way in self.ways if most is None or way <= most)
        ways = ask.ways or (possible[:1] if ask.plan.thin else possible)
        return [(way, shot) for way in ways for shot in ask.shots or self.shots]

    def arm(self, ask: Ask, find: Find, dataset: str, method: str, at: Setting) -> Arm:
        """The trainings behind an entry of the table."""
        way, shot = at
        shots = [s for w, s in self.settings(ask, dataset) if w == way]
        if not get_method(method).reads_base_labels:
            also: dict[str, Any] = {"also_shots": shots[1:]}
            return arm(ask, find, dataset, method, way=way, shot=shots[0], **also, chosen_for=also)
        return arm(ask, find, dataset, method, way=way, shot=shot, chosen_for={"shot": shots[0]})

    def cells(self, ask: Ask, find: Find) -> list[Cell]:
        """Long trainings first, so that none is left alone at the end while other workers wait."""
        return [
            cell
            for dataset in ask.datasets
            for method in sorted(self.rows(ask), key=_lightness)
            for at in self.settings(ask, dataset)
            for cell in self.arm(ask, find, dataset, method, at).needed
        ]

    def views(self, ask: Ask, find: Find) -> list[View]:
        return [view for dataset in ask.datasets for view in self._views(ask, find, dataset)]

    def _views(self, ask: Ask, find: Find, dataset: str) -> list[View]:
        rows, settings = self.rows(ask), self.settings(ask, dataset)
        if not settings:
            most = ask.most_classes(dataset)
            return [
                TextView(
                    [
                        f"The tasks of {dataset} have at most {most} classes, fewer than any column here; choose others with --way."
                    ]
                )
            ]
        arms = {(method, at): self.arm(ask, find, dataset, method, at) for method in rows for at in settings}
        found = {place: s for place, a in arms.items() if (s := a.score(find, place[1][1])) is not None}
        table = self._table(ask, dataset, find, rows, settings, found, arms)
        if not found:
            return [TextView(["Nothing is finished yet."]), table]
        return [
            told(ask, dataset, verdict(rows, settings, found)),
            _bars(self, dataset, rows, settings, found),
            table,
            _heads(self, dataset, find, rows, settings[0], arms),
            _costs(self, ask, dataset, find, rows, settings[0], arms),
            *_curves(self, dataset, find, rows, settings[0], arms),
        ]

    def _table(
        self,
        ask: Ask,
        dataset: str,
        find: Find,
        rows: Sequence[str],
        settings: Sequence[Setting],
        found: Mapping[tuple[str, Setting], Score],
        arms: Mapping[tuple[str, Setting], Arm],
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
                    keys = [record.key for record in arms[method, at].records(find)]
                    entries.append(
                        number(found[method, at], standings[at].get(method), paper=paper, paper_ci=interval, keys=keys)
                    )
                else:
                    entries.append(Missing(arms[method, at].why_not(find).reason, paper, interval))
            known = paper_rank(dataset, method)
            rank = ranks.get(method)
            entries.append(
                "–" if rank is None else Number(rank, digits=2, paper=None if known is None else known.value)
            )
            lines.append([model_of(method), kind_of(method) or "–", *entries])
        return TableView(
            f"{self.name}-{dataset_slug(dataset)}",
            f"{self.title}: {dataset}",
            ["method", "episodes", *(f"{way}-way {shot}-shot" for way, shot in settings), "average rank"],
            lines,
            labels=2,
            groups=[("", 2), ("test accuracy, %", len(settings)), ("", 1)],
            note=_head_note(ask, rows)
            + " Average rank: among these rows, over these columns; the paper's is over its own.",
        )


def _head_note(ask: Ask, rows: Sequence[str]) -> str:
    own = list(dict.fromkeys(model_of(method) for method in rows if get_method(method).solves_tasks))
    head = "logistic regression, as in the paper" if ask.head == "logistic" else ask.head
    without = f"; without one: {', '.join(own)}" if own else ""
    return f"Head: {head}{without}."


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
        if REFERENCE in column and best != REFERENCE:
            sentence += f" Against smooth, which trains nothing: {gain(column[best], column[REFERENCE], spread)}."
        said.append(sentence)
    return said or ["Too little is finished to compare."]


def _bars(
    table: AccuracyTable,
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
        series.append(
            Series(
                kind or "no episodes",
                models,
                [None if s is None else 100 * s.mean for s in scores],
                [None if s is None else 100 * (s.mean - s.ci95) for s in scores],
                [None if s is None else 100 * (s.mean + s.ci95) for s in scores],
            )
        )
    floors = {full_name(REFERENCE): 100 * found[REFERENCE, at].mean} if (REFERENCE, at) in found else {}
    title = f"{table.title}: {dataset}, {at[0]}-way {at[1]}-shot"
    return BarView(
        f"{table.name}-bars-{dataset_slug(dataset)}",
        title,
        "test accuracy, %",
        series,
        floors,
        "Whiskers are 95 % intervals over test tasks.",
    )


def _lightness(method: str) -> int:
    name = learner_of(method)
    return HEAVY.index(name) if name in HEAVY else len(HEAVY)


def _heads(
    table: AccuracyTable,
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


def _costs(
    table: AccuracyTable,
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


def _curves(
    table: AccuracyTable,
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
                series.append((max(y), Series(full_name(method), [float(e) for e in history["episodes"]], y)))
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


def _every(kinds: Sequence[str], learners: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{kind}/{learner}" for kind in kinds for learner in learners)


@register_experiment
class EveryMethod(AccuracyTable):
    name = "methods"
    title = "Every method"
    question = "Which method is best, is that real, and what does it cost?"
    origin = "Tables 1, 2, 15 and 16 at 5-way, with learners and embedders that the paper does not have"
    datasets = ("amazon-clothing", "amazon-electronics", "cora-full", "dblp")
    ways = (5,)
    methods = (
        *_every(("supervised",), (*SIX, "gpn", "teg")),
        *RIVALS,
        "cola",
        *_every(("naq-feat", "naq-diff"), (*SIX, "gpn", "teg")),
    )


@register_experiment
class FullProducts(AccuracyTable):
    name = "full-products"
    title = "Product networks, every base model"
    question = "Which method is best on product networks, with and without labels?"
    origin = "Tables 1 and 15, Figures 3 and 4"
    datasets = ("amazon-clothing", "amazon-electronics")
    methods = (*_every(("supervised",), SIX), *RIVALS, *_every(("naq-feat", "naq-diff"), SIX))


@register_experiment
class FullCitation(AccuracyTable):
    name = "full-citation"
    title = "Citation networks, every base model"
    question = "Which method is best on citation networks, with and without labels?"
    origin = "Tables 2 and 16, Figures 3 and 4"
    datasets = ("cora-full", "dblp")
    methods = FullProducts.methods


@register_experiment
class OgbnArxiv(AccuracyTable):
    name = "ogbn-arxiv"
    title = "ogbn-arxiv"
    question = "Does NaQ hold on a graph of 169,343 nodes?"
    origin = "Table 3"
    datasets = ("ogbn-arxiv",)
    ways = (5, 10)
    methods = (*_every(("supervised",), SIX), *RIVALS, "naq-feat/protonet", "naq-diff/protonet")


@register_experiment
class OgbnProducts(AccuracyTable):
    name = "ogbn-products"
    title = "ogbn-products"
    question = "Does NaQ hold on a graph of 2,449,029 nodes?"
    origin = "Table 11"
    datasets = ("ogbn-products",)
    ways = (5, 10)
    shots = (1,)
    methods = ("supervised/protonet", "supervised/cosmic", "bgrl", "sugrl", "naq-feat/protonet")
