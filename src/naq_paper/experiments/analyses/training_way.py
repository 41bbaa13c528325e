"""The way of training episodes: tasks stay 5-way, episodes have 5, 10 or 20 classes."""

from __future__ import annotations

from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of

LEVELS = (5, 10, 20)


class TrainingWay(Sweep):
    name = "training-way"
    title = "5-way against 20-way training"
    question = "Does training on episodes of more classes help on 5-way tasks?"
    origin = "Figure 8"
    x_label = "classes per training episode"

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return [
            SweepPoint(full_name(method), way, method, {"episode": {"way": way}})
            for learner in learners_of(request)
            for method in (f"naq-feat/{learner}", f"naq-diff/{learner}", f"supervised/{learner}")
            for way in request.levels(LEVELS)
        ]
