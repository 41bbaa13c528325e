"""g-UMTRA: queries are the supports themselves on an augmented graph; how strong should the augmentation be?

The paper's figure names no values: edges and feature columns are dropped with the same probability, only edges, and only columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from naq.experiments.base import register_experiment
from naq.experiments.captions import Level
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.seed_groups import gain
from naq.experiments.sweep import Point, Sweep, flat_points
from naq.statistics import Score, pooled_spread

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


@register_experiment
class UmtraStrength(Sweep):
    name = "umtra"
    title = "g-UMTRA: strength of the augmentation"
    question = "Are augmented supports as good queries as similar nodes?"
    origin = "Figures 13 and 14"
    x_label = "probability of dropping"
    note = "NaQ drops nothing: its row is the same training at every level."

    def points(self, request: Request, dataset: str) -> list[Point]:
        levels, method = request.levels(LEVELS), f"g-umtra/{request.learner}"
        ways = {"edges and features": (1, 1), "edges only": (1, 0), "features only": (0, 1)}
        found = [
            Point(
                f"{full_name(method)}, {name}",
                level,
                method,
                {"episode": {"drop_edge": e * level, "drop_feature": f * level}},
            )
            for name, (e, f) in ways.items()
            if name in request.levels(tuple(ways), ("edges and features",))
            for level in levels
        ]
        return found + flat_points(request, levels)

    def remarks(self, request: Request, dataset: str, found: Mapping[tuple[str, Level], Score]) -> list[str]:
        """NaQ against the best strength: picked by what it is compared on, so the comparison favours g-UMTRA."""
        own = {place: s for place, s in found.items() if place[0].startswith(full_name(f"g-umtra/{request.learner}"))}
        if not own:
            return []
        best, spread = max(own, key=lambda place: own[place].mean), pooled_spread(found.values())
        free = [full_name(f"{kind}/{request.learner}") for kind in ("naq-feat", "naq-diff")]
        scores = {line: next((s for (name, _), s in found.items() if name == line), None) for line in free}
        return [
            f"{line}: {gain(s, own[best], spread)} against {best[0]} at {best[1]}, the best of {len(own)} on these tasks."
            for line, s in scores.items()
            if s is not None
        ]
