"""g-UMTRA against labels, for every base model that allows it: queries on a graph with dropped edges, or with dropped edges and features.

The paper names neither the models nor the probabilities: here all that can be trained so, both probabilities 0.3. A learner whose loss has no
place for such queries says why, below the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naq.learners import LEARNERS
from naq_paper.experiments.captions import Level, from_paper, gain
from naq_paper.experiments.experiment import Contest, Study
from naq_paper.experiments.names import MODELS, full_name, model_of
from naq_paper.experiments.paper import paper_accuracy
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key
from naq_paper.experiments.sweep import FOUR, Sweep, SweepPoint, learners_of
from naq_paper.experiments.views import Series
from naq_paper.statistics import Comparison, Score

KIND = "g-umtra"
DROP = 0.3
LABELS = "Supervised"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    LABELS: ("supervised", {}),
    "g-UMTRA, DropEdge": (KIND, {"episode": {"drop_edge": DROP, "drop_feature": 0.0}}),
    "g-UMTRA, DropEdge and DropFeature": (KIND, {"episode": {"drop_edge": DROP, "drop_feature": DROP}}),
}


class UmtraModels(Sweep):
    name = "umtra-models"
    title = "g-UMTRA: base models"
    question = "Which base models can do without labels if their queries are augmented supports?"
    origin = "Figure 13"
    x_label = "base model"
    bars = True

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return [
            SweepPoint(row, model_of(learner), f"{kind}/{learner}", more)
            for row, (kind, more) in ROWS.items()
            for learner in _asked(request)
            if KIND not in LEARNERS[learner].unfit
        ]

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        """Labels at 5-way 1-shot from the paper's full tables; of g-UMTRA it has a picture alone."""
        learners = [learner for learner in _asked(request) if KIND not in LEARNERS[learner].unfit]
        known = [paper_accuracy(dataset, f"supervised/{learner}") for learner in learners]
        return from_paper(f"{LABELS}, the paper", [model_of(learner) for learner in learners], known)

    def remark_below(self, request: Request) -> str:
        """The probabilities, and who is not here and why."""
        out = [
            f"No {full_name(learner)}: {why}"
            for learner in (*_published(), *_asked(request))
            if (why := LEARNERS[learner].unfit.get(KIND)) is not None
        ]
        return " ".join([f"Edges and feature columns are dropped with probability {DROP}.", *dict.fromkeys(out)])

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return []  # levels are models

    def headline(self, study: Study) -> list[Contest]:
        return []

    def comparisons(self, study: Study, found: Mapping[Key, Score]) -> dict[Key, tuple[Score, Score]]:
        """Both augmentations against labels, model by model."""
        return {
            (row, model): (ours, found[LABELS, model])
            for (row, model), ours in found.items()
            if row in ROWS and row != LABELS and (LABELS, model) in found
        }

    def remarks(self, study: Study, found: Mapping[Key, Score], tests: Mapping[Key, Comparison]) -> list[str]:
        sentences = []
        for model in dict.fromkeys(level for _, level in found):
            gains = [f"{row} {gain(tests[row, model])}" for row in ROWS if (row, model) in tests]
            if gains:
                labels = 100 * found[LABELS, model].mean
                sentences.append(f"{model}, against {LABELS} ({labels:.1f} %): {'; '.join(gains)}.")
        return sentences


def _asked(request: Request) -> tuple[str, ...]:
    """The paper's four first, then every other learner."""
    return learners_of(request, tuple(dict.fromkeys((*FOUR, *_published()))))


def _published() -> list[str]:
    """Learners of papers, not what other packages add."""
    return [learner for learner in LEARNERS if learner in MODELS]
