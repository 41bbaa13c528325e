"""Class imbalance: a few classes stay whole, every other one keeps ten nodes.

Pareto keeps the largest fifth of the classes, Extreme the five largest; the graph is the induced sub-graph, so ids, neighbours and tasks
are made anew. Such a graph is also smaller and sparser: the control removes as many nodes, but spreads them over classes in
proportion to their sizes, and shows how much of the drop is imbalance. Most test classes then have ten nodes, so
tasks share nodes and intervals over tasks understate the uncertainty.

Every seed draws a sub-graph of its own, the same for all methods, and its tasks: the spread over seeds is the spread over draws
and trainings. Two methods at one level are compared draw by draw and task by task. Two levels are other graphs with other tasks, so their
difference is unpaired. The paper draws once and shows no spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naq_paper.experiments.captions import Level, from_paper, gain
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.paper import paper_figure
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of
from naq_paper.experiments.views import Series
from naq_paper.statistics import Comparison, Score

LEVELS: dict[str, dict[str, str]] = {
    "original": {},
    "Pareto": {"kind": "pareto"},
    "Pareto control": {"kind": "balanced", "like": "pareto"},
    "Extreme": {"kind": "extreme"},
    "Extreme control": {"kind": "balanced", "like": "extreme"},
}

RIVALS = ("bgrl", "sugrl", "afgrl", "vnt")
WHOLE = ("Pareto", "Extreme")
THIN = ("original", "Pareto")


class Imbalance(Sweep):
    name = "imbalance"
    title = "Class imbalance"
    question = "How much accuracy does class imbalance cost, and how much of that is only the smaller graph?"
    origin = "Figures 1c and 11"
    x_label = "graph"
    bars = True
    note = (
        "Control: as many nodes removed, spread over classes in proportion to their sizes. Every seed draws its own sub-graph and tasks, "
        "the same for all methods: the spread in parentheses is over draws and trainings. Most test classes of the imbalanced graphs have ten nodes, "
        "so the interval over tasks understates the uncertainty."
    )

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return [
            SweepPoint(full_name(method), level, method, {"perturbation": {"name": "imbalance", **how}} if how else {})
            for method in _methods(request)
            for level, how in LEVELS.items()
            if level in request.levels(tuple(LEVELS), THIN)
        ]

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        levels = [level for level in LEVELS if level in request.levels(tuple(LEVELS), THIN)]
        found = []
        for method in _methods(request):
            known = [paper_figure("class_imbalance", dataset, method, level.lower()) for level in levels]
            found += from_paper(f"{full_name(method)}, the paper (read off its poster)", levels, known)
        return found

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return [(levels[0], level) for level in levels if level in WHOLE and levels[0] == "original"]

    def comparisons(self, study: Study, found: Mapping[Key, Score]) -> dict[Key, tuple[Score, Score]]:
        """The imbalanced graphs against a control of the same size."""
        return {
            (row, kind): (ours, control)
            for row in dict.fromkeys(row for row, _ in found)
            for kind in WHOLE
            if (ours := found.get((row, kind))) and (control := found.get((row, f"{kind} control")))
        }

    def remarks(self, study: Study, found: Mapping[Key, Score], tests: Mapping[Key, Comparison]) -> list[str]:
        sentences = []
        for row in dict.fromkeys(row for row, _ in found):
            gains = [f"{kind} {gain(tests[row, kind])}" for kind in WHOLE if (row, kind) in tests]
            if gains:
                sentences.append(f"{row}, against a control of the same size: {'; '.join(gains)}.")
        return sentences


def _methods(request: Request) -> tuple[str, ...]:
    kinds = ("supervised", "naq-feat", "naq-diff")
    episodes = tuple(f"{kind}/{learner}" for learner in learners_of(request) for kind in kinds)
    return (*episodes, *request.levels(RIVALS, RIVALS[:1]))
