"""The paper's tables of accuracy, and what is picked from them; each runs on any dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from naq.run.evaluate import BASELINE
from naq_paper.experiments.accuracy_table import AccuracyTable, Setting
from naq_paper.experiments.captions import gain, table_name
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import NETWORKS, PAPER_EMBEDDERS, PAPER_GENERATORS, kind_of, model_of
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Entry, TableView, View
from naq_paper.statistics import Score, average_ranks, family

SIX = ("maml", "protonet", "tent", "gmeta", "glitter", "cosmic")
RIVALS = tuple(PAPER_EMBEDDERS)
KINDS = ("naq-feat", "naq-diff")
BEST, CHOSEN = "best", "chosen"
"""Stand where a learner stands in the names of rows that are picked: on test tasks, on validation tasks."""


def every(kinds: Sequence[str], learners: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{kind}/{learner}" for kind in kinds for learner in learners)


class EveryMethod(AccuracyTable):
    name = "methods"
    title = "Every method"
    question = "Which method is best, is the difference significant, and what does it cost?"
    origin = "Tables 15 and 16 at 5-way, with learners and embedders that the paper does not have"
    datasets = NETWORKS
    ways = (5,)
    methods = (
        *every(("supervised",), (*SIX, "gpn", "teg")),
        *RIVALS,
        "cola",
        "naq-plus",
        *every(KINDS, (*SIX, "gpn", "teg")),
    )


class FullProducts(AccuracyTable):
    name = "full-products"
    title = "Product networks, every base model"
    question = "Which method is best on product networks, with and without labels?"
    origin = "Table 15"
    datasets = ("amazon-clothing", "amazon-electronics")
    methods = (*every(("supervised",), SIX), *RIVALS, *every(KINDS, SIX))


class FullCitation(AccuracyTable):
    name = "full-citation"
    title = "Citation networks, every base model"
    question = "Which method is best on citation networks, with and without labels?"
    origin = "Table 16"
    datasets = ("cora-full", "dblp")
    methods = FullProducts.methods


class OgbnArxiv(AccuracyTable):
    name = "ogbn-arxiv"
    title = "ogbn-arxiv"
    question = "Does NaQ hold on a graph of 169,343 nodes?"
    origin = "Table 3"
    datasets = ("ogbn-arxiv",)
    ways = (5, 10)
    methods = (*every(("supervised",), SIX), *RIVALS, "naq-feat/protonet", "naq-diff/protonet")


class OgbnProducts(AccuracyTable):
    name = "ogbn-products"
    title = "ogbn-products"
    question = "Does NaQ hold on a graph of 2,449,029 nodes?"
    origin = "Table 11"
    datasets = ("ogbn-products",)
    ways = (5, 10)
    shots = (1,)
    methods = ("supervised/protonet", "supervised/cosmic", "bgrl", "sugrl", "naq-feat/protonet")


class MainTable(AccuracyTable):
    """Supervised learners, label-free rivals, and the best of six base models under NaQ, column by column.

    The paper reports "the best performance among" the six in every column, picked on the test tasks that the number is about:
    the maximum of six noisy numbers is above what any of the models would reach on other tasks. That row, ``naq-feat/best``,
    is shown beside the paper's and takes no part in comparisons. The row that does, ``naq-feat/chosen``, is the base model
    with the best accuracy on validation tasks. Both are trainings of the full tables.
    """

    by_accuracy = False

    def shown(self, request: Request) -> list[str]:
        rows = self.rows(request)
        picked = [f"{kind}/{how}" for kind in KINDS if _members(rows, kind) for how in (BEST, CHOSEN)]
        return [*(m for m in rows if m.partition("/")[0] not in KINDS and m != BASELINE), *picked, BASELINE]

    def compared(self, request: Request) -> list[str]:
        return [method for method in self.shown(request) if not method.endswith(f"/{BEST}")]

    def picked(self, study: Study, found: Mapping[tuple[str, Setting], Score]) -> dict[tuple[str, Setting], str]:
        def valid(method: str, at: Setting) -> float:
            results = [record.result for record in study.records((method, at)) if record.result is not None]
            return mean(float(result["facts"]["valid_accuracy"]) for result in results)

        rows, picks = self.rows(study.request), {}
        for kind in KINDS:
            members = _members(rows, kind)
            for at in self.settings(study.request, study.dataset) if members else ():
                there = [method for method in members if (method, at) in found]
                by_test = {method: found[method, at].mean for method in there}
                by_valid = {method: valid(method, at) for method in there}
                picks[f"{kind}/{BEST}", at] = max(by_test, key=by_test.__getitem__, default=members[0])
                picks[f"{kind}/{CHOSEN}", at] = max(by_valid, key=by_valid.__getitem__, default=members[0])
        return picks

    def ranks(self, columns: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """As in the paper, among rows with the best picked on test tasks; the chosen ones take its place for their own rank."""

        def without(how: str) -> dict[str, float]:
            rows = [{m: v for m, v in column.items() if not m.endswith(f"/{how}")} for column in columns]
            return average_ranks(rows)

        return without(BEST) | without(CHOSEN)

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        """Which base model each of the picked rows is; costs and curves of the trainings are in the full tables."""
        found = self.trained(study)
        picks = self.picked(study, found)
        lines: list[list[Entry]] = []
        for row in (row for row in self.shown(study.request) if row.partition("/")[0] in KINDS):
            models = (model_of(picks[row, at]) if (picks[row, at], at) in found else "–" for at in settings)
            lines.append([model_of(row), kind_of(row), *models])
        columns = ["row", "episodes", *(f"{way}-way {shot}-shot" for way, shot in settings)]
        note = "Validation accuracy is the mean over seeds of the kept checkpoints, on the validation tasks that chose them."
        title = f"Which base model it is: {study.dataset}"
        return [TableView(table_name(study, "picked"), title, columns, lines, labels=len(columns), note=note)]

    def about_rows(self, study: Study) -> str:
        request = study.request
        members = {kind: _members(self.rows(request), kind) for kind in KINDS}
        done = self.trained(study)
        short = [
            f"{kind_of(f'{kind}/{BEST}')} {way}-way {shot}-shot"
            for kind in KINDS
            for way, shot in self.settings(request, study.dataset)
            if 0 < sum((method, (way, shot)) in done for method in members[kind]) < len(members[kind])
        ]
        waits = f" Not all base models are finished: {', '.join(short)}." if short else ""
        return (
            f"{model_of(BEST)}: the maximum over the base models in each column, picked on the test tasks, as in the paper; that is optimistic, so the row has no "
            f"marks. {model_of(CHOSEN)}: the base model with the best validation accuracy; this row is compared.{waits}"
        )


def _members(rows: Sequence[str], kind: str) -> list[str]:
    return [method for method in rows if method.startswith(f"{kind}/")]


class MainProducts(MainTable):
    name = "main-products"
    title = "Product networks, best base model"
    question = "Is NaQ with its best base model ahead of supervised and of label-free methods on product networks?"
    origin = "Table 1"
    datasets = FullProducts.datasets
    methods = FullProducts.methods


class MainCitation(MainTable):
    name = "main-citation"
    title = "Citation networks, best base model"
    question = "Is NaQ with its best base model ahead of supervised and of label-free methods on citation networks?"
    origin = "Table 2"
    datasets = FullCitation.datasets
    methods = FullCitation.methods


class ModelAgnostic(AccuracyTable):
    """Six base models, each with labels and with NaQ episodes: the trainings of the full tables."""

    name = "model-agnostic"
    title = "Base models with and without labels"
    question = "Does NaQ keep or raise the accuracy of every base model, also with many classes?"
    origin = "Figures 3 and 4"
    datasets = NETWORKS
    methods = every(("supervised", *KINDS), SIX)

    def settings(self, request: Request, dataset: str) -> list[Setting]:
        """The lowest and the highest way of the dataset, or the ways of the request, at the first shot."""
        found = super().settings(request, dataset)
        found = [at for at in found if at[1] == found[0][1]]
        return found if request.ways else list(dict.fromkeys([*found[:1], *found[-1:]]))

    def charted(self, settings: Sequence[Setting]) -> Sequence[Setting]:
        return settings

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        return []  # the full tables have costs and curves

    def remarks(self, study: Study, found: Mapping[tuple[str, Setting], Score]) -> list[str]:
        """Both kinds of episodes against labels, model by model: one family of comparisons."""
        labels, *kinds = PAPER_GENERATORS.values()
        pairs: dict[tuple[str, str, Setting], tuple[Score, Score]] = {}
        for at in self.settings(study.request, study.dataset):
            scores = {(model_of(m), kind_of(m)): s for (m, setting), s in found.items() if setting == at}
            for (model, kind), ours in scores.items():
                if kind in kinds and (model, labels) in scores:
                    pairs[model, kind, at] = ours, scores[model, labels]
        tests, sentences = family(pairs), []
        for model, at in dict.fromkeys((model, at) for model, _, at in pairs):
            gains = [f"{kind} {gain(tests[model, kind, at])}" for kind in kinds if (model, kind, at) in tests]
            sentences.append(f"{model}, {at[0]}-way {at[1]}-shot, against labels: {'; '.join(gains)}.")
        return sentences
