"""Label noise: each base-class label is replaced, with probability p, by a uniformly drawn different base class before training.

Tasks stay clean. Whether the paper's noise is symmetric is not stated: :mod:`naq.grid.perturbations.label_noise` has both kinds.
NaQ reads no labels, so its line is flat by construction.
"""

from __future__ import annotations

from naq.experiments.experiment import EXPERIMENTS
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.sweep import Sweep, SweepPoint, unaffected

LEVELS = (0.0, 0.1, 0.2, 0.3)


@EXPERIMENTS.register
class LabelNoise(Sweep):
    name = "label-noise"
    title = "Label noise"
    question = "What happens to supervised meta-learning when labels of base classes are wrong?"
    origin = "Figures 1b and 15b"
    x_label = "share of wrong labels"
    note = "NaQ reads no label, so its row is the same training at every level."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        method = f"supervised/{request.learner}"
        levels = request.levels(LEVELS)
        found = [
            SweepPoint(
                full_name(method),
                level,
                method,
                {"perturbation": {"name": "label-noise", "share": level}} if level else {},
            )
            for level in levels
        ]
        return found + unaffected(request, levels)
