"""Label noise: each base-class label is replaced, with probability p, by a uniformly drawn different base class before training.

Tasks stay clean. The paper's levels on Cora-Full are 0 to 0.3, "as it is smaller than Electronics", whose levels it does not name: there
they go to 0.5. Whether its noise is symmetric is not stated: :mod:`naq_paper.perturbations.labels` has both kinds. NaQ reads no
labels, so its line is flat by construction.
"""

from __future__ import annotations

from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import FOUR, Sweep, SweepPoint, learners_of, unaffected

LEVELS = (0.0, 0.1, 0.2, 0.3)
OWN_LEVELS = {"amazon-electronics": (0.0, 0.1, 0.3, 0.5)}


class LabelNoise(Sweep):
    name = "label-noise"
    title = "Label noise"
    question = "What happens to supervised meta-learning when labels of base classes are wrong?"
    origin = "Figures 1b and 15b"
    x_label = "share of wrong labels"
    note = "NaQ reads no label, so its row is the same training at every level."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        levels = request.levels(OWN_LEVELS.get(dataset, LEVELS))
        found = [
            SweepPoint(
                full_name(method),
                level,
                method,
                {"perturbation": {"name": "label-noise", "share": level}} if level else {},
            )
            for method in (f"supervised/{learner}" for learner in learners_of(request, FOUR))
            for level in levels
        ]
        return found + unaffected(request, levels)
