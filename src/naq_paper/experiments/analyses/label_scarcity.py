"""Label scarcity: how supervised meta-learning falls when base classes and labels get few, and NaQ does not.

At level c / l a supervised learner keeps ceil(c |base|) random base classes and, in each, max(K + Q, ceil(l n_c)) random labelled
nodes; the graph and the tasks stay whole. NaQ reads no labels, so its line is flat by construction. Every seed draws its own
classes and nodes; the paper draws once.
"""

from __future__ import annotations

from typing import Any

from naq_paper.experiments.captions import from_paper
from naq_paper.experiments.names import full_name
from naq_paper.experiments.paper import paper_figure
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import FOUR, Sweep, SweepPoint, learners_of, unaffected
from naq_paper.experiments.views import Series

LEVELS = (1.0, 0.8, 0.5, 0.2)
QUERIES = 8


class LabelScarcity(Sweep):
    name = "label-scarcity"
    title = "Label scarcity"
    question = "What happens to supervised meta-learning when labelled base classes and labelled nodes become few?"
    origin = "Figures 1a and 15a"
    x_label = "classes % / labels %"
    note = "NaQ reads no label, so its row is the same training at every level."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        levels, keep = request.levels(LEVELS), request.shot + QUERIES
        found = [
            SweepPoint(full_name(method), _text(level), method, _perturbation(level, keep))
            for method in _methods(request)
            for level in levels
        ]
        return found + unaffected(request, [_text(level) for level in levels])

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        levels = request.levels(LEVELS)
        series: list[Series] = []
        for method in _methods(request):
            known = [
                paper_figure("label_scarcity", dataset, method, f"class{100 * share:.0f}_label{100 * share:.0f}")
                for share in levels
            ]
            name = f"{full_name(method)}, the paper (read off its poster)"
            series += from_paper(name, [_text(share) for share in levels], known)
        return series


def _methods(request: Request) -> list[str]:
    return [f"supervised/{learner}" for learner in learners_of(request, FOUR)]


def _perturbation(level: float, keep: int) -> dict[str, Any]:
    if level == 1.0:
        return {}
    return {"perturbation": {"name": "label-scarcity", "classes": level, "labels": level, "keep": keep}}


def _text(level: float) -> str:
    return f"{100 * level:.0f} / {100 * level:.0f}"
