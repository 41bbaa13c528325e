"""Six base models, each with labels and with both kinds of NaQ episodes: 5-way 1-shot, and the highest way that a dataset's tasks have.

The trainings are those of the full tables (with 5-shot tasks beside), so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naq_paper.experiments.accuracy_table import AccuracyTable
from naq_paper.experiments.accuracy_views import Setting
from naq_paper.experiments.analyses.tables import SIX, every
from naq_paper.experiments.captions import gain
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import NETWORKS, kind_of, model_of
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import View
from naq_paper.statistics import Score, family

LABELS, KINDS = "Supervised", ("NaQ-Feat", "NaQ-Diff")
"""What the rows of a base model are called."""


class ModelAgnostic(AccuracyTable):
    name = "model-agnostic"
    title = "Base models with and without labels"
    question = "Does NaQ keep or raise the accuracy of every base model, also with many classes?"
    origin = "Figures 3 and 4"
    datasets = NETWORKS
    methods = every(("supervised", "naq-feat", "naq-diff"), SIX)

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
        pairs: dict[tuple[str, str, Setting], tuple[Score, Score]] = {}
        for at in self.settings(study.request, study.dataset):
            scores = {(model_of(m), kind_of(m)): s for (m, setting), s in found.items() if setting == at}
            for (model, kind), ours in scores.items():
                if kind in KINDS and (model, LABELS) in scores:
                    pairs[model, kind, at] = ours, scores[model, LABELS]
        tests, sentences = family(pairs), []
        for model, at in dict.fromkeys((model, at) for model, _, at in pairs):
            gains = [f"{kind} {gain(tests[model, kind, at])}" for kind in KINDS if (model, kind, at) in tests]
            sentences.append(f"{model}, {at[0]}-way {at[1]}-shot, against labels: {'; '.join(gains)}.")
        return sentences
