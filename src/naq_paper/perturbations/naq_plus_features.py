"""Features replaced by the vectors of the closed form, so that a method is trained on top of it.

Vectors come from structure and features alone: no label is read.
"""

from __future__ import annotations

from naq.embedders.naq_plus import NaqPlus
from naq.graph import Graph
from naq.tasks import ClassSplit
from naq_paper.perturbations.base import Perturbation, Perturbed, register_perturbation


@register_perturbation
class NaqPlusFeatures(Perturbation):
    """Vectors of ``naq-plus`` in place of the features.

    Cost: that of ``naq-plus``.
    """

    name = "naq-plus-features"
    summary = "Vectors of naq-plus in place of the features."

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        vectors = NaqPlus(graph, seed=seed).embed()
        return Perturbed(
            graph.with_features(vectors), facts={"features": vectors.shape[1], "features_before": graph.num_features}
        )
