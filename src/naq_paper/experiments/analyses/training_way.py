"""The way of training episodes: tasks stay 5-way, episodes have 5, 10 or 20 classes."""

from __future__ import annotations

from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import Conditions, Sweep, trained

LEVELS = (5, 10, 20)


class TrainingWay(Sweep):
    name = "training-way"
    title = "5-way against 20-way training"
    question = "Does training on episodes of more classes help on 5-way tasks?"
    origin = "Figure 8"
    x_label = "classes per training episode"

    def methods(self, request: Request) -> list[str]:
        return trained(request, "naq-feat", "naq-diff", "supervised")

    def conditions(self, request: Request, dataset: str) -> Conditions:
        return {way: {"episode": {"way": way}} for way in request.levels(LEVELS)}
