"""g-UMTRA: queries are the supports themselves on a graph with dropped edges or feature columns.

The paper names neither the base models nor the probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from naq.learners import LEARNERS
from naq_paper.experiments.captions import Level, from_paper, gain
from naq_paper.experiments.experiment import Contest, Study
from naq_paper.experiments.names import MODELS, full_name, model_of
from naq_paper.experiments.paper import paper_accuracy
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key
from naq_paper.experiments.sweep import FOUR, Found, Pairs, Sweep, SweepPoint, Tests, learners_of, trained
from naq_paper.experiments.views import Series
from naq_paper.statistics import Score

KIND = "g-umtra"
DROP = 0.3
LABELS = "Supervised"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    LABELS: ("supervised", {}),
    "g-UMTRA, DropEdge": (KIND, {"episode": {"drop_edge": DROP, "drop_feature": 0.0}}),
    "g-UMTRA, DropEdge and DropFeature": (KIND, {"episode": {"drop_edge": DROP, "drop_feature": DROP}}),
}


class UmtraModels(Sweep):
    """Every base model that can be trained so, both probabilities 0.3; the others say why not, below the table."""

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
            for learner in _fit(request)
        ]

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        """Labels at 5-way 1-shot from the paper's full tables; of g-UMTRA it has a picture alone."""
        known = [paper_accuracy(dataset, f"supervised/{learner}") for learner in _fit(request)]
        return from_paper(f"{LABELS}, the paper", list(map(model_of, _fit(request))), known)

    def remark_below(self, request: Request) -> str:
        """The probabilities, and who is not here and why."""
        learners = dict.fromkeys((*(name for name in LEARNERS if name in MODELS), *_asked(request)))
        why = {learner: LEARNERS[learner].unfit.get(KIND) for learner in learners}
        out = [f"No {full_name(learner)}: {words}" for learner, words in why.items() if words is not None]
        return " ".join([f"Edges and feature columns are dropped with probability {DROP}.", *out])

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return []  # levels are models

    def headline(self, study: Study) -> list[Contest]:
        return []

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """Both augmentations against labels, model by model."""
        return {
            (row, model): (ours, found[LABELS, model])
            for (row, model), ours in found.items()
            if row in ROWS and row != LABELS and (LABELS, model) in found
        }

    def remarks(self, study: Study, found: Found, tests: Tests) -> list[str]:
        sentences = []
        for model in dict.fromkeys(level for _, level in found):
            gains = [f"{row} {gain(tests[row, model])}" for row in ROWS if (row, model) in tests]
            if gains:
                labels = 100 * found[LABELS, model].mean
                sentences.append(f"{model}, against {LABELS} ({labels:.1f} %): {'; '.join(gains)}.")
        return sentences


def _asked(request: Request) -> tuple[str, ...]:
    """The paper's four first, then every other learner of a paper, not what other packages add."""
    return learners_of(request, tuple(dict.fromkeys((*FOUR, *(name for name in LEARNERS if name in MODELS)))))


def _fit(request: Request) -> list[str]:
    return [learner for learner in _asked(request) if KIND not in LEARNERS[learner].unfit]


class UmtraStrength(Sweep):
    """Edges and feature columns dropped with the same probability, only edges, and only columns."""

    name = "umtra"
    title = "g-UMTRA: strength of the augmentation"
    question = "Are augmented supports as good queries as similar nodes?"
    origin = "Figure 14"
    x_label = "probability of dropping"
    note = "NaQ drops nothing: its row is the same training at every level."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        levels, ways = request.levels((0.1, 0.3, 0.5, 0.7, 0.9)), {"edges and features": (1, 1)}
        if not request.limits.thin:
            ways |= {"edges only": (1, 0), "features only": (0, 1)}
        found = [
            SweepPoint(
                f"{full_name(method)}, {name}", p, method, {"episode": {"drop_edge": e * p, "drop_feature": f * p}}
            )
            for method in trained(request, KIND)
            for name, (e, f) in ways.items()
            for p in levels
        ]
        naq = [f"{kind}/{learners_of(request)[0]}" for kind in ("naq-feat", "naq-diff")]
        return found + [SweepPoint(full_name(method), level, method) for method in naq for level in levels]

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """NaQ against every strength: the best of them is picked by what it is compared on, so all of them count."""
        ours = {row: score for (row, _), score in found.items() if row in _naq(study.request)}
        return {
            (name, *key): (score, other) for name, score in ours.items() for key, other in _augmented(found).items()
        }

    def remarks(self, study: Study, found: Found, tests: Tests) -> list[str]:
        """NaQ against the strength that is best on these tasks, which favours g-UMTRA."""
        augmented = _augmented(found)
        if not augmented:
            return []
        row, level = max(augmented, key=lambda key: augmented[key].mean)
        return [
            f"{name}: {gain(tests[name, row, level])} against {row} at {level}, the best of {len(augmented)} on these tasks."
            for name in _naq(study.request)
            if (name, row, level) in tests
        ]


def _naq(request: Request) -> list[str]:
    return [full_name(f"{kind}/{learners_of(request)[0]}") for kind in ("naq-feat", "naq-diff")]


def _augmented(found: Found) -> dict[Key, Score]:
    return {key: score for key, score in found.items() if "(g-UMTRA)" in key[0]}
