"""g-UMTRA: queries are the supports themselves on a graph with dropped edges or feature columns."""

from __future__ import annotations

from dataclasses import dataclass

from naq.learners import LEARNERS
from naq_paper.experiments.analyses.sweep import Found, LevelSpec, Pairs, Sweep, SweepPoint
from naq_paper.experiments.captions import from_paper
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import MODELS, full_name, model_of
from naq_paper.experiments.paper import paper_accuracy
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Series

KIND = "g-umtra"
FIRST = ("protonet", "maml", "gmeta", "tent")
"""Learners whose columns are first; every other learner of a paper follows, not what other packages add."""


@dataclass(frozen=True, kw_only=True, eq=False)
class UmtraModels(Sweep):
    """Columns are the base models that can be trained so; the others say why not, below the table.

    Attributes:
        drop: the probability of dropping, for the note.
    """

    drop: float

    def levels_of(self, request: Request, dataset: str) -> list[LevelSpec]:
        fit = [learner for learner in _asked(request) if KIND not in LEARNERS[learner].unfit]
        return [LevelSpec(model_of(learner), value=learner) for learner in fit]

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        levels = self.levels_of(request, dataset)
        return [
            SweepPoint(row.name, level.level, row.method.replace("*", str(level.value)), row.settings)
            for row in self.rows
            for level in levels
        ]

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        """Labels at 5-way 1-shot from the paper's full tables; of g-UMTRA it has a picture alone."""
        levels, labels = self.levels_of(request, dataset), self.rows[0]
        known = [paper_accuracy(dataset, labels.method.replace("*", str(level.value))) for level in levels]
        return from_paper(f"{labels.name}, the paper", [level.level for level in levels], known)

    def note_of(self, request: Request) -> str:
        """The probability, and which learners are missing and why."""
        learners = dict.fromkeys((*(name for name in LEARNERS if name in MODELS), *_asked(request)))
        why = {learner: LEARNERS[learner].unfit.get(KIND) for learner in learners}
        out = [f"No {full_name(learner)}: {words}" for learner, words in why.items() if words is not None]
        return " ".join([f"Edges and feature columns are dropped with probability {self.drop}.", *out])

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """Every augmentation against labels, model by model."""
        labels, *others = [row.name for row in self.rows]
        levels = [level.level for level in self.levels_of(study.request, study.dataset)]
        return {
            (row, level): (f"{level}, against {labels}", f"{row} ", (row, level), (labels, level))
            for level in levels
            for row in others
            if (row, level) in found and (labels, level) in found
        }


def _asked(request: Request) -> list[str]:
    own = dict.fromkeys((*FIRST, *(name for name in LEARNERS if name in MODELS)))
    return list(request.learners_or(tuple(own)))


class UmtraStrength(Sweep):
    """Strengths of three augmentations, and NaQ against the one that is best on these tasks, which favours g-UMTRA."""

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """NaQ against every strength: the best of them is picked by what it is compared on, so all of them count."""
        augmented = {key: score for key, score in found.items() if "(g-UMTRA)" in key[0]}
        if not augmented:
            return {}
        best = max(augmented, key=lambda key: augmented[key].mean)
        naq = [full_name(method) for row, method in self.rows_of(study.request) if row.unchanged]
        last = {row: key for key in found if (row := key[0]) in naq}
        about = f"{best[0]} at {best[1]}, the best of {len(augmented)} on these tasks: "
        return {
            (row, *key): (f"{row} against {about}".removesuffix(": ") if key == best else "", "", mine, key)
            for row, mine in last.items()
            for key in augmented
        }
