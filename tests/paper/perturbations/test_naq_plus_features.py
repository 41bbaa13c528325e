"""Features replaced by the vectors of the closed form."""

from __future__ import annotations

import numpy as np

import naq
from naq.tasks import ClassSplit
from naq_paper.perturbations import apply_perturbation


def test_features_are_the_vectors_and_the_rest_stays(graph: naq.Graph, split: ClassSplit) -> None:
    changed = apply_perturbation(graph, split, {"name": "naq-plus-features", "seed": 3})
    assert np.allclose(changed.graph.features, naq.embed(graph, "naq-plus", seed=3), atol=1e-6)
    assert (changed.graph.adjacency != graph.adjacency).nnz == 0
    assert np.array_equal(changed.graph.labels, graph.labels) and np.array_equal(changed.graph.names, graph.names)
    assert changed.base_labels is None and changed.split is None and not changed.redraw
    assert changed.facts == {"features": changed.graph.num_features, "features_before": 25}


def test_labels_are_not_read(graph: naq.Graph, split: ClassSplit) -> None:
    one, two = (apply_perturbation(g, split, {"name": "naq-plus-features"}) for g in (graph, graph.without_labels()))
    assert np.array_equal(one.graph.features, two.graph.features)
