"""Feature noise: in a share p of the nodes each feature is flipped with probability (share of the node's non-zero features).

The neighbours of NaQ-Feat are found in the noisy features. The paper's sentence has a second reading (replace the row by such
draws): :mod:`naq_paper.perturbations.feature_noise` has both.
"""

from __future__ import annotations

from naq_paper.experiments.analyses.structure_noise import noisy_points
from naq_paper.experiments.paper.names import NETWORKS
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import Sweep, SweepPoint


class FeatureNoise(Sweep):
    name = "feature-noise"
    title = "Feature noise"
    question = "How much do flipped features hurt, and whom?"
    origin = "Figure 9b"
    datasets = NETWORKS
    x_label = "noisy nodes, share of n"

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return noisy_points(request, "feature-noise", ("supervised", "naq-feat"))
