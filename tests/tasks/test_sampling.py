"""Task sets drawn from labels, and the same tasks with unbalanced queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from naq import Graph, Tasks, sample_tasks
from naq.errors import GraphError, TaskError
from naq.random import stream
from naq.tasks import dirichlet_queries
from naq.tasks.tasks import _numbers

SIZES = [60, 30, 50, 12, 200, 8]
LABELS = np.random.default_rng(1).permutation(np.concatenate([np.repeat(np.arange(6), SIZES), np.full(20, -1)]))
GRAPH = Graph([[], []], labels=LABELS, nodes=len(LABELS), name="toy")


@pytest.mark.parametrize("shot", [1, 3])
def test_tasks_fit_the_graph_and_are_a_prefix_of_more(shot: int) -> None:
    given: dict[str, Any] = {"way": 3, "shot": shot, "queries": 6}
    tasks, more = (sample_tasks(GRAPH, **given, count=count, seed=2) for count in (20, 60))
    assert len(tasks) == 20 and tasks.check(GRAPH) is tasks
    assert tasks.support.shape == (20, 3 * shot) and tasks.query.shape == (20, 18)
    assert np.array_equal(tasks.support, more.take(20).support) and np.array_equal(tasks.query, more.take(20).query)
    for other in ({"seed": 3}, {"seed": 2, "part": "valid"}):
        assert not np.array_equal(tasks.support, sample_tasks(GRAPH, **given, count=20, **other).support)


def test_classes_are_uniform_whatever_their_size() -> None:
    tasks = sample_tasks(GRAPH, way=2, shot=1, queries=7, count=3000, seed=0)
    assert chisquare(np.bincount(LABELS[tasks.support].ravel(), minlength=6)).pvalue > 1e-3
    listed = sample_tasks(GRAPH, way=2, queries=8, count=40, classes=[4, 0, 4, 2])
    assert set(LABELS[listed.nodes()]) == {0, 2, 4}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"way": 6}, "only 5 classes"),
        ({"way": 2, "classes": [0, 5]}, "class 5 has 8"),
        ({"way": 2, "classes": [0, 77]}, "class 77 has 0"),
        ({"way": 2, "classes": [0, -1]}, "class -1"),
        ({"way": 3, "classes": [0, 1]}, "only 2 classes"),
        ({"way": 1}, "way"),
        ({"way": 2.0}, "way"),
        ({"shot": 0}, "shot"),
        ({"queries": 0}, "queries"),
        ({"count": 0}, "count"),
    ],
)
def test_what_cannot_be_sampled(change: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        sample_tasks(GRAPH, **({"count": 3} | change))
    with pytest.raises(GraphError, match="labels"):
        sample_tasks(GRAPH.without_labels())


def drawn(count: int = 300, shot: int = 1, **given: Any) -> tuple[Tasks, Tasks]:
    tasks = sample_tasks(GRAPH, way=4, shot=shot, queries=8, count=count, seed=3)
    return tasks, dirichlet_queries(tasks, LABELS, **given)


@pytest.mark.parametrize("shot", [1, 4])
def test_unbalanced_queries_are_drawn_among_all_others_of_their_class(shot: int) -> None:
    """The same draws from lists of the nodes that are not supports, made for each task."""
    tasks, found = drawn(60, shot, seed=5)
    assert found.check(GRAPH) is found and np.array_equal(found.support, tasks.support)
    assert (found.way, found.shot, found.part) == (tasks.way, tasks.shot, tasks.part)
    total = tasks.query.shape[1]
    for index in range(len(tasks)):
        random = stream(5, f"queries/dirichlet/{tasks.part}/4way/{shot}shot/{total}queries", index)
        pools = [
            np.setdiff1d(np.flatnonzero(LABELS[own[0]] == LABELS), own) for own in tasks.support[index].reshape(4, shot)
        ]
        numbers = _numbers(random, np.array([len(pool) for pool in pools]), total, 2.0, index)
        expected = [random.choice(pool, size=number, replace=False) for pool, number in zip(pools, numbers)]
        assert np.array_equal(found.query[index], np.concatenate(expected))
        assert np.array_equal(found.query_slots[index], np.repeat(np.arange(4), numbers))
    assert np.array_equal(dirichlet_queries(tasks.take(7), LABELS, seed=5).query, found.query[:7])
    new_id = np.random.default_rng(0).permutation(len(LABELS))
    found.take(5).relabelled(new_id).check(GRAPH.with_labels(LABELS[np.argsort(new_id)]))


def test_numbers_are_dirichlet_multinomial() -> None:
    """Mean n / N and variance n p (1 - p) (n + A) / (1 + A), A = 2 N, of a class's queries, where classes are large."""
    labels = np.repeat(np.arange(4), 500)
    tasks = sample_tasks(Graph([[], []], labels=labels, nodes=2000), way=4, shot=1, queries=8, count=3000)
    found = dirichlet_queries(tasks, labels)
    numbers = np.stack([np.bincount(row, minlength=4) for row in found.query_slots])
    assert np.allclose(numbers.mean(axis=0), 8, atol=0.35)
    assert np.allclose(numbers.var(axis=0), 32 * 0.25 * 0.75 * (32 + 8) / (1 + 8), rtol=0.1)
    seen = np.bincount(found.query.ravel(), minlength=2000)
    assert seen.min() > 15 and seen.max() < 90, "48 expected: every node of a class is drawn"


def test_a_class_with_too_few_nodes_gives_what_it_has() -> None:
    tasks, found = drawn(shot=4, concentration=0.2)
    numbers = np.stack([np.bincount(row, minlength=4) for row in found.query_slots])
    small = LABELS[tasks.support.reshape(300, 4, 4)[:, :, 0]] == 3
    assert numbers[small].max() == 12 - 4 and numbers[~small].max() > 25
    assert (numbers.sum(axis=1) == 32).all()


def test_slots_and_queries_that_do_not_fit() -> None:
    tasks, found = drawn(20)
    assert found.slots is not None
    with pytest.raises(TaskError, match="task 0"):
        Tasks(found.support, found.query, 4, 1, slots=(found.slots + 1) % 4).check(GRAPH)
    for slots in (np.where(found.slots == 3, 4, found.slots), found.slots[:, :5], found.slots + 0.5):
        with pytest.raises(TaskError, match="slots"):
            Tasks(found.support, found.query, 4, 1, slots=slots)
    for wrong in (lambda: found.queries, found.arrays):
        with pytest.raises(TaskError, match="queries"):
            wrong()
    with pytest.raises(TaskError, match="concentration"):
        dirichlet_queries(tasks, LABELS, concentration=0)
    few = np.full_like(LABELS, -1)
    few[tasks.support[0]] = LABELS[tasks.support[0]]
    with pytest.raises(TaskError, match="0 other nodes"):
        dirichlet_queries(tasks.take(1), few)
