"""The paper's two main tables: supervised learners, label-free rivals, and the best of six base models under NaQ, per column.

The paper reports "the best performance among" the six base models in every column, picked on the test tasks that the number is about: the
maximum of six noisy numbers is above what any of the models would reach on other tasks. That row is shown to stand beside the paper's and
takes no part in comparisons. The row that does is the base model with the best accuracy on validation tasks, a choice that could be made
before the test. Both are trainings of the full tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from naq.run.evaluate import BASELINE
from naq_paper.experiments.accuracy_table import AccuracyTable
from naq_paper.experiments.accuracy_views import Setting
from naq_paper.experiments.analyses.tables import FullCitation, FullProducts
from naq_paper.experiments.captions import table_name
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import kind_of, model_of
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Entry, TableView, View
from naq_paper.statistics import Score, average_ranks

KINDS = ("naq-feat", "naq-diff")
BEST, CHOSEN = "best", "chosen"
"""Stand where a learner stands in the names of these rows: picked on test tasks, on validation tasks."""


class MainTable(AccuracyTable):
    """Rows that are picked from others: ``naq-feat/best`` and ``naq-feat/chosen``, and the same of NaQ-Diff."""

    by_accuracy = False

    def shown(self, request: Request) -> list[str]:
        rows = self.rows(request)
        picked = [f"{kind}/{how}" for kind in KINDS if _members(rows, kind) for how in (BEST, CHOSEN)]
        return [*(m for m in rows if m.partition("/")[0] not in KINDS and m != BASELINE), *picked, BASELINE]

    def compared(self, request: Request) -> list[str]:
        return [method for method in self.shown(request) if not method.endswith(f"/{BEST}")]

    def picked(self, study: Study, found: Mapping[tuple[str, Setting], Score]) -> dict[tuple[str, Setting], str]:
        rows, settings = self.rows(study.request), self.settings(study.request, study.dataset)
        picks = {}
        for kind in (kind for kind in KINDS if _members(rows, kind)):
            for at in settings:
                members = _members(rows, kind)
                there = [method for method in members if (method, at) in found]
                by_test = {method: found[method, at].mean for method in there}
                by_valid = {method: _valid(study, method, at) for method in there}
                picks[f"{kind}/{BEST}", at] = max(by_test, key=by_test.__getitem__, default=members[0])
                picks[f"{kind}/{CHOSEN}", at] = max(by_valid, key=by_valid.__getitem__, default=members[0])
        return picks

    def ranks(self, columns: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """As in the paper, among rows with the best picked on test tasks; those picked on validation tasks take its place for their own rank."""
        ours, papers = (
            [{m: v for m, v in column.items() if not m.endswith(f"/{how}")} for column in columns]
            for how in (BEST, CHOSEN)
        )
        return average_ranks(ours) | average_ranks(papers)

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        """Which base model each of the picked rows is; costs and curves of the trainings are in the full tables."""
        found = self.trained(study)
        picks = self.picked(study, found)
        lines: list[list[Entry]] = [
            [
                model_of(row),
                kind_of(row),
                *(model_of(picks[row, at]) if (picks[row, at], at) in found else "–" for at in settings),
            ]
            for row in self.shown(study.request)
            if row.partition("/")[0] in KINDS
        ]
        return [
            TableView(
                table_name(study, "picked"),
                f"Which base model it is: {study.dataset}",
                ["row", "episodes", *(f"{way}-way {shot}-shot" for way, shot in settings)],
                lines,
                labels=2 + len(settings),
                note="Validation accuracy is the mean over seeds of the kept checkpoints, on the validation tasks that chose them.",
            )
        ]

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


def _valid(study: Study, method: str, at: Setting) -> float:
    results = [record.result for record in study.records((method, at)) if record.result is not None]
    return mean(float(result["facts"]["valid_accuracy"]) for result in results)


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
