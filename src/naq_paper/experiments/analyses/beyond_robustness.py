"""The closed form under noise and imbalance, beside ``smooth`` and NaQ-Feat.

Every seed draws its own noise or sub-graph, the same for all methods. Imbalanced graphs have other nodes and other tasks than the clean
one, so that loss is unpaired; what of it is only the smaller graph is in the analysis ``imbalance``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naq.run.evaluate import BASELINE
from naq_paper.experiments.analyses.beyond_accuracy import GRAPHS
from naq_paper.experiments.captions import SMOOTH, Level, gain, points
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.reached import CLOSED
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of
from naq_paper.experiments.variants import way_of
from naq_paper.statistics import Comparison, Score

CLEAN = "clean"
LEVELS: dict[str, dict[str, Any]] = {
    CLEAN: {},
    "feature noise 0.3": {"name": "feature-noise", "share": 0.3},
    "edge noise 0.3": {"name": "structure-noise", "share": 0.3},
    "Pareto": {"name": "imbalance", "kind": "pareto"},
    "Extreme": {"name": "imbalance", "kind": "extreme"},
}


class BeyondRobustness(Sweep):
    name = "beyond-robustness"
    title = "NaQ in closed form under noise and imbalance"
    question = "How much do noise and imbalance cost the closed form, and is it still above the others?"
    origin = "not in the paper"
    group = "beyond"
    datasets = GRAPHS
    x_label = "graph"
    bars = True
    baseline = False  # a row like the others: ways differ by dataset
    note = "Every seed draws its own noise or sub-graph, the same for all methods. Imbalanced graphs have other nodes and tasks than the clean one."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        methods = (CLOSED, *(f"naq-feat/{learner}" for learner in learners_of(request)), BASELINE)
        way = way_of(request, dataset)
        return [
            SweepPoint(full_name(method), level, method, {"way": way, "perturbation": LEVELS[level] or None})
            for method in methods
            for level in request.levels(tuple(LEVELS))
        ]

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return [(CLEAN, level) for level in levels if level != CLEAN and CLEAN in levels]

    def headline(self, study: Study) -> list[Any]:
        return []  # the table of accuracies has the clean graph

    def comparisons(self, study: Study, found: Mapping[Key, Score]) -> dict[Key, tuple[Score, Score]]:
        """The losses of ``smooth``, and the closed form against the others on each graph."""
        closed, levels = full_name(CLOSED), dict.fromkeys(level for _, level in found)
        losses = {
            (SMOOTH, CLEAN, level): (found[SMOOTH, level], found[SMOOTH, CLEAN])
            for level in levels
            if level != CLEAN and {(SMOOTH, level), (SMOOTH, CLEAN)} <= set(found)
        }
        above = {
            (closed, level, row, "against"): (found[closed, level], found[row, level])
            for row, level in found
            if row != closed and (closed, level) in found
        }
        return {**losses, **above}

    def remarks(self, study: Study, found: Mapping[Key, Score], tests: Mapping[Key, Comparison]) -> list[str]:
        closed, said = full_name(CLOSED), []
        for _, level in (key for key in found if key[0] == SMOOTH and (SMOOTH, CLEAN, key[1]) in tests):
            before, after = found[SMOOTH, CLEAN].mean, found[SMOOTH, level].mean
            said.append(
                f"{SMOOTH} {'gains' if after > before else 'loses'} {points(tests[SMOOTH, CLEAN, level])} from {CLEAN} to {level} "
                f"({100 * before:.1f} to {100 * after:.1f} %)."
            )
        for level in dict.fromkeys(level for _, level in found):
            parts = [
                f"{row} {gain(tests[closed, level, row, 'against'])}"
                for row in dict.fromkeys(row for row, _ in found)
                if (closed, level, row, "against") in tests
            ]
            if parts:
                said.append(f"{closed} on the graph {level}, against {'; against '.join(parts)}.")
        return said
