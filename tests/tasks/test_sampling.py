from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from naq import Graph, sample_tasks
from naq.errors import GraphError, TaskError

SIZES = [30, 9, 12, 8, 40, 25]
LABELS = np.random.default_rng(1).permutation(np.concatenate([np.repeat(np.arange(6), SIZES), np.full(20, -1)]))
GRAPH = Graph([[], []], labels=LABELS, nodes=len(LABELS), name="toy")


@pytest.mark.parametrize("shot", [1, 3])
def test_tasks_fit_the_graph(shot: int) -> None:
    tasks = sample_tasks(GRAPH, way=3, shot=shot, queries=6, count=50, seed=2)
    assert len(tasks) == 50 and tasks.check(GRAPH) is tasks
    assert tasks.support.shape == (50, 3 * shot) and tasks.query.shape == (50, 18)


def test_seeded_and_a_prefix_of_more() -> None:
    one, two = (sample_tasks(GRAPH, way=3, count=count, seed=4) for count in (20, 60))
    assert np.array_equal(one.support, two.take(20).support) and np.array_equal(one.query, two.take(20).query)
    other = sample_tasks(GRAPH, way=3, count=20, seed=5)
    assert not np.array_equal(one.support, other.support)
    valid = sample_tasks(GRAPH, way=3, count=20, seed=4, part="valid")
    assert valid.part == "valid" and not np.array_equal(one.support, valid.support)


def test_uniform_over_classes_whatever_their_size() -> None:
    tasks = sample_tasks(GRAPH, way=2, shot=1, queries=7, count=3000, seed=0)
    counts = np.bincount(LABELS[tasks.support].ravel(), minlength=6)
    assert chisquare(counts).pvalue > 1e-3


def test_only_listed_classes() -> None:
    tasks = sample_tasks(GRAPH, way=2, queries=8, count=40, classes=[5, 0, 5, 2])
    assert set(LABELS[tasks.nodes()]) == {0, 2, 5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"way": 6}, "6-way tasks were asked for, but only 5 classes have 9 nodes or more"),
        ({"way": 2, "classes": [0, 3]}, "class 3 has 8 nodes, but 1 shots and 8 queries need 9"),
        ({"way": 2, "classes": [0, 77]}, "class 77 has 0 nodes"),
        ({"way": 2, "classes": [0, -1]}, "class -1 has 0 nodes"),
        ({"way": 3, "classes": [0, 1]}, "only 2 classes"),
        ({"way": 1}, "way is 1; expected a whole number of at least 2"),
        ({"way": 2.0}, "way is 2.0"),
        ({"shot": 0}, "shot is 0"),
        ({"shot": -1}, "shot is -1"),
        ({"queries": 0}, "queries is 0"),
        ({"count": 0}, "count is 0"),
    ],
)
def test_what_cannot_be_sampled(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        sample_tasks(GRAPH, **({"count": 3} | change))


def test_labels_are_needed() -> None:
    with pytest.raises(GraphError, match="has no labels, which sampling tasks needs"):
        sample_tasks(GRAPH.without_labels())
