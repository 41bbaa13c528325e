"""g-UMTRA: queries are the supports themselves on an augmented graph; how strong should the augmentation be?

The paper's figure names no values: edges and feature columns are dropped with the same probability, only edges, and only columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from naq_paper.experiments.captions import gain
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of, unaffected
from naq_paper.statistics import Comparison, Score

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


class UmtraStrength(Sweep):
    name = "umtra"
    title = "g-UMTRA: strength of the augmentation"
    question = "Are augmented supports as good queries as similar nodes?"
    origin = "Figure 14"
    x_label = "probability of dropping"
    note = "NaQ drops nothing: its row is the same training at every level."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        levels = request.levels(LEVELS)
        ways = {"edges and features": (1, 1), "edges only": (1, 0), "features only": (0, 1)}
        found = [
            SweepPoint(
                f"{full_name(method)}, {name}",
                level,
                method,
                {"episode": {"drop_edge": e * level, "drop_feature": f * level}},
            )
            for method in (f"g-umtra/{learner}" for learner in learners_of(request))
            for name, (e, f) in ways.items()
            if name in request.levels(tuple(ways), ("edges and features",))
            for level in levels
        ]
        return found + unaffected(request, levels)

    def comparisons(self, study: Study, found: Mapping[Key, Score]) -> dict[Key, tuple[Score, Score]]:
        """NaQ against every strength: the best of them is picked by what it is compared on, so all of them count."""
        ours = {row: score for (row, _), score in found.items() if row in _naq(study.request)}
        return {
            (name, row, level): (score, other)
            for name, score in ours.items()
            for (row, level), other in _augmented(found).items()
        }

    def remarks(self, study: Study, found: Mapping[Key, Score], tests: Mapping[Key, Comparison]) -> list[str]:
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


def _augmented(found: Mapping[Key, Score]) -> dict[Key, Score]:
    return {key: score for key, score in found.items() if "(g-UMTRA)" in key[0]}
