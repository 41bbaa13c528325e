"""g-UMTRA: queries are the supports themselves on an augmented graph; how strong should the augmentation be?

The paper's figure names no values: edges and feature columns are dropped with the same probability, only edges, and only columns.
"""

from __future__ import annotations

from naq.experiments.asking import Ask
from naq.experiments.experiment import register_experiment
from naq.experiments.names import full_name
from naq.experiments.sweep import Point, Sweep

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


@register_experiment
class UmtraStrength(Sweep):
    name = "umtra"
    title = "g-UMTRA: strength of the augmentation"
    question = "Are augmented supports as good queries as similar nodes?"
    origin = "Figures 13 and 14"
    x_label = "probability of dropping"
    note = "NaQ drops nothing: its row is the same training at every level."

    def points(self, ask: Ask, dataset: str) -> list[Point]:
        levels, method = ask.levels(LEVELS, 0.5), f"g-umtra/{ask.learner}"
        ways = {"edges and features": (1, 1), "edges only": (1, 0), "features only": (0, 1)}
        found = [
            Point(
                f"{full_name(method)}, {name}",
                level,
                method,
                {"episode": {"drop_edge": e * level, "drop_feature": f * level}},
            )
            for name, (e, f) in ways.items()
            for level in levels
        ]
        for kind in ("naq-feat", "naq-diff"):
            free = f"{kind}/{ask.learner}"
            found += [Point(full_name(free), level, free) for level in levels]
        return found
