"""Structure noise: p |E| random edges are added; the noisy graph is used for training and testing.

NaQ-Diff diffuses on the noisy graph; the neighbours of NaQ-Feat do not change, its encoder does. The paper does not name the datasets of its
figure: all four networks are run.

Feature noise: in a share p of the nodes each feature is flipped with probability (share of the node's non-zero features).

The neighbours of NaQ-Feat are found in the noisy features. The paper's sentence has a second reading (replace the row by such
draws): :mod:`naq_paper.perturbations.features` has both.
"""

from __future__ import annotations

from naq_paper.experiments.names import full_name
from naq_paper.experiments.paper.names import NETWORKS
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of

LEVELS = (0.0, 0.1, 0.3)


class StructureNoise(Sweep):
    name = "structure-noise"
    title = "Structure noise"
    question = "How much do random edges hurt, and whom?"
    origin = "Figure 9a"
    datasets = NETWORKS
    x_label = "added edges, share of |E|"

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return noisy_points(request, "structure-noise", ("supervised", "naq-diff"))


class FeatureNoise(Sweep):
    name = "feature-noise"
    title = "Feature noise"
    question = "How much do flipped features hurt, and whom?"
    origin = "Figure 9b"
    datasets = NETWORKS
    x_label = "noisy nodes, share of n"

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return noisy_points(request, "feature-noise", ("supervised", "naq-feat"))


def noisy_points(request: Request, perturbation: str, thin: tuple[str, ...]) -> list[SweepPoint]:
    """The four methods of the two noise figures under every level of a perturbation; under a thin budget only the kinds of episodes ``thin``."""
    kinds = thin if request.limits.thin else ("supervised", "naq-feat", "naq-diff")
    episodes = tuple(f"{kind}/{learner}" for learner in learners_of(request) for kind in kinds)
    methods = (*episodes, *(() if request.limits.thin else ("bgrl",)))
    return [
        SweepPoint(
            full_name(method), level, method, {"perturbation": {"name": perturbation, "share": level}} if level else {}
        )
        for method in methods
        for level in request.levels(LEVELS)
    ]
