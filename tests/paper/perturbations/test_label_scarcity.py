from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import naq
from naq.tasks import ClassSplit
from naq_paper.perturbations.labels import LabelScarcity


@pytest.mark.parametrize(("classes", "labels"), [(1.0, 0.5), (0.5, 0.2), (0.9, 1.0), (0.0, 0.0)])
def test_counts_of_classes_and_labels(classes: float, labels: float, graph: naq.Graph, split: ClassSplit) -> None:
    found = LabelScarcity(classes=classes, labels=labels).apply(graph, split, 0)
    assert found.graph is graph and not found.redraw and found.split is not None and found.base_labels is not None
    stay = found.split.base
    assert set(stay) <= set(split.base) and len(stay) == max(5, math.ceil(classes * 6))
    assert (found.split.valid, found.split.test) == (split.valid, split.test)
    total = 0
    for c in range(9):
        size = sum(label == c for label in graph.labels)
        expected = min(size, max(9, math.ceil(labels * size))) if c in stay else 0
        assert (found.base_labels == c).sum() == expected
        total += expected
    given = found.base_labels >= 0
    assert np.array_equal(found.base_labels[given], graph.labels[given])
    assert found.facts == {
        "classes": len(stay),
        "classes_before": 6,
        "labels": total,
        "labels_before": int(np.isin(graph.labels, split.base).sum()),
    }


def test_lower_shares_are_subsets(graph: naq.Graph, split: ClassSplit) -> None:
    levels = [LabelScarcity(classes=s, labels=s, least=1).apply(graph, split, 1) for s in (0.2, 0.5, 0.8, 1.0)]
    for low, high in itertools.pairwise(levels):
        assert set(low.split.base) < set(high.split.base)
        assert set(np.flatnonzero(low.base_labels >= 0)) < set(np.flatnonzero(high.base_labels >= 0))


def test_a_class_is_drawn_on_its_own(graph: naq.Graph, split: ClassSplit) -> None:
    fewer = graph.with_labels(np.where(graph.labels == 0, -1, graph.labels))
    whole, less = (LabelScarcity(labels=0.5).apply(g, split, 0).base_labels for g in (graph, fewer))
    assert np.array_equal(np.where(whole == 0, -1, whole), less)


def test_every_node_and_class_can_stay(graph: naq.Graph, split: ClassSplit) -> None:
    found = [LabelScarcity(classes=0.5, labels=0.5, least=1).apply(graph, split, s) for s in range(60)]
    times = np.sum([f.base_labels >= 0 for f in found], axis=0)
    base = np.isin(graph.labels, split.base)
    assert (times[base] > 0).all() and not times[~base].any() and times[graph.labels == 0].max() < 40


def test_episodes_come_from_what_is_left(debian: tuple[naq.Graph, ClassSplit]) -> None:
    graph, split = debian
    found = LabelScarcity(classes=0.2, labels=0.2).apply(graph, split, 0)
    assert found.facts["classes"] == 5 and found.facts["classes_before"] == 20
    sizes = np.bincount(graph.labels)[list(found.split.base)]
    assert found.facts["labels"] == sum(max(9, -(-n // 5)) for n in sizes.tolist())
    episodes = naq.supervised_episodes(found.base_labels, found.split.base, way=5, queries=8, count=50)
    assert (found.base_labels[episodes.query] >= 0).all()
