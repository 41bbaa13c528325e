"""g-UMTRA: queries are the supports themselves on an augmented graph; how strong should the augmentation be?

The paper's figure names no values: edges and feature columns are dropped with the same probability, only edges, and only columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from naq.experiments.captions import gain
from naq.experiments.experiment import EXPERIMENTS, Study
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.seed_groups import Key
from naq.experiments.sweep import Sweep, SweepPoint, learners_of, unaffected
from naq.statistics import Score, pooled_variance

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


@EXPERIMENTS.register
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

    def remarks(self, study: Study, found: Mapping[Key, Score]) -> list[str]:
        """NaQ against the best strength: picked by what it is compared on, so the comparison favours g-UMTRA."""
        by_row: dict[str, dict[float, Score]] = {}
        for (row, level), score in found.items():
            by_row.setdefault(row, {})[level] = score
        augmented = [
            (score, row, level)
            for row, levels in by_row.items()
            if "(g-UMTRA)" in row
            for level, score in levels.items()
        ]
        if not augmented:
            return []
        best, row, level = max(augmented, key=lambda one: one[0].mean)
        variance = pooled_variance(found.values())
        learner = learners_of(study.request)[0]
        ours = [full_name(f"{kind}/{learner}") for kind in ("naq-feat", "naq-diff")]
        return [
            f"{name}: {gain(next(iter(by_row[name].values())), best, variance)} against {row} at {level}, "
            f"the best of {len(augmented)} on these tasks."
            for name in ours
            if name in by_row
        ]
