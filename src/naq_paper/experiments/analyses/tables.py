"""Tables that pick rows from those of others, and that compare every base model with itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from naq.run.evaluate import BASELINE
from naq_paper.experiments.analyses.accuracy_table import AccuracyTable, Found, Setting
from naq_paper.experiments.captions import gain, table_name
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import PAPER_GENERATORS, kind_of, model_of
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Entry, TableView, View
from naq_paper.statistics import Score, average_ranks, family

KINDS = ("naq-feat", "naq-diff")
BEST, CHOSEN = "best", "chosen"
"""In place of a learner in the names of rows that are picked: on test tasks, on validation tasks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BestModels(AccuracyTable):
    """Supervised learners, label-free rivals, and the best of the base models under NaQ, column by column.

    ``naq-feat/best`` is picked on test tasks, as in the paper, and not compared; ``/chosen`` on validation tasks.
    """

    def shown(self, request: Request) -> list[str]:
        rows = self.rows(request)
        picked = [f"{kind}/{how}" for kind in KINDS if _members(rows, kind) for how in (BEST, CHOSEN)]
        return [*(m for m in rows if m.partition("/")[0] not in KINDS and m != BASELINE), *picked, BASELINE]

    def compared(self, request: Request) -> list[str]:
        return [method for method in self.shown(request) if not method.endswith(f"/{BEST}")]

    def picked(self, study: Study, found: Found) -> dict[tuple[str, Setting], str]:
        def valid(method: str, at: Setting) -> float:
            results = [record.result for record in study.records((method, at)) if record.result is not None]
            return mean(float(result["facts"]["valid_accuracy"]) for result in results)

        rows, picks = self.rows(study.request), {}
        for kind in KINDS:
            members = _members(rows, kind)
            for at in self.settings(study.request, study.dataset) if members else ():
                there = [method for method in members if (method, at) in found]
                picks[f"{kind}/{BEST}", at] = max(there, key=lambda m: found[m, at].mean, default=members[0])
                picks[f"{kind}/{CHOSEN}", at] = max(there, key=lambda m: valid(m, at), default=members[0])
        return picks

    def ranks(self, columns: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """As in the paper, among rows with the best on test tasks, which a chosen one replaces for its rank."""

        def without(how: str) -> dict[str, float]:
            rows = [{m: v for m, v in column.items() if not m.endswith(f"/{how}")} for column in columns]
            return average_ranks(rows)

        return without(BEST) | without(CHOSEN)

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        """Which base model each of the picked rows is; costs and curves of the trainings are in the full tables."""
        found = study.scores()
        picks = self.picked(study, found)
        lines: list[list[Entry]] = []
        for row in (row for row in self.shown(study.request) if row.partition("/")[0] in KINDS):
            models = (model_of(picks[row, at]) if (picks[row, at], at) in found else "–" for at in settings)
            lines.append([model_of(row), kind_of(row), *models])
        columns = ["row", "episodes", *(f"{way}-way {shot}-shot" for way, shot in settings)]
        note = (
            "Validation accuracy is the mean over seeds of the kept checkpoints, on the validation tasks that "
            "chose them."
        )
        title = f"Which base model it is: {study.dataset}"
        return [TableView(table_name(study, "picked"), title, columns, lines, labels=len(columns), note=note)]

    def about_rows(self, study: Study) -> str:
        request, done = study.request, study.scores()
        members = {kind: _members(self.rows(request), kind) for kind in KINDS}
        short = [
            f"{kind_of(f'{kind}/{BEST}')} {way}-way {shot}-shot"
            for kind in KINDS
            for way, shot in self.settings(request, study.dataset)
            if 0 < sum((method, (way, shot)) in done for method in members[kind]) < len(members[kind])
        ]
        waits = f" Not all base models are finished: {', '.join(short)}." if short else ""
        return (
            f"{model_of(BEST)}: the maximum over the base models in each column, picked on the test tasks, as in "
            "the paper; "
            f"that is optimistic, so the row has no marks. {model_of(CHOSEN)}: the base model with the best validation "
            f"accuracy; this row is compared.{waits}"
        )


def _members(rows: Sequence[str], kind: str) -> list[str]:
    return [method for method in rows if method.startswith(f"{kind}/")]


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelAgnostic(AccuracyTable):
    """Base models with each kind of episodes, at the lowest and the highest way of the dataset."""

    def settings(self, request: Request, dataset: str) -> list[Setting]:
        """The lowest and the highest way of the dataset, or the ways of the request, at the first shot."""
        found = super().settings(request, dataset)
        found = [at for at in found if at[1] == found[0][1]]
        return found if request.ways else list(dict.fromkeys([*found[:1], *found[-1:]]))

    def remarks(self, study: Study, found: Found) -> list[str]:
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
