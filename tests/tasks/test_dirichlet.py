"""The same tasks with unbalanced queries."""

from __future__ import annotations

import numpy as np
import pytest

from naq import Graph, Tasks, sample_tasks
from naq.errors import TaskError
from naq.random import stream
from naq.tasks import dirichlet_queries
from naq.tasks.sampling import _numbers

SIZES = [60, 30, 50, 12, 200, 80]
LABELS = np.random.default_rng(1).permutation(np.concatenate([np.repeat(np.arange(6), SIZES), np.full(20, -1)]))
GRAPH = Graph([[], []], labels=LABELS, nodes=len(LABELS), name="toy")


def drawn(count: int = 300, shot: int = 1, **given: float) -> tuple[Tasks, Tasks]:
    tasks = sample_tasks(GRAPH, way=4, shot=shot, queries=8, count=count, seed=3)
    return tasks, dirichlet_queries(tasks, LABELS, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("shot", [1, 4])
def test_supports_and_the_number_of_queries_stay(shot: int) -> None:
    tasks, found = drawn(shot=shot)
    assert found.check(GRAPH) is found
    assert np.array_equal(found.support, tasks.support) and found.query.shape == tasks.query.shape
    assert (found.way, found.shot, found.part) == (tasks.way, tasks.shot, tasks.part)
    assert np.array_equal(found.query_slots, found.slots) and repr(found).startswith(
        f"Tasks(300 x 4-way {shot}-shot, 32 queries,"
    )
    with pytest.raises(TaskError, match="no common number of queries"):
        _ = found.queries


def test_numbers_are_dirichlet_multinomial() -> None:
    """Mean and variance of a class's queries: n / N, and n p (1 - p) (n + A) / (1 + A) with A = 2 N, where classes are large."""
    labels = np.repeat(np.arange(4), 500)
    tasks = sample_tasks(Graph([[], []], labels=labels, nodes=2000), way=4, shot=1, queries=8, count=3000)
    numbers = np.stack([np.bincount(row, minlength=4) for row in dirichlet_queries(tasks, labels).query_slots])
    assert np.allclose(numbers.mean(axis=0), 8, atol=0.35)
    assert np.allclose(numbers.var(axis=0), 32 * 0.25 * 0.75 * (32 + 8) / (1 + 8), rtol=0.1)
    seen = np.bincount(dirichlet_queries(tasks, labels).query.ravel(), minlength=2000)
    assert seen.min() > 15 and seen.max() < 90  # 48 expected: every node of a class is drawn


def test_a_class_with_too_few_nodes_gives_what_it_has() -> None:
    tasks, found = drawn(shot=4, concentration=0.2)
    numbers = np.stack([np.bincount(row, minlength=4) for row in found.query_slots])
    small = LABELS[tasks.support.reshape(300, 4, 4)[:, :, 0]] == 3
    assert numbers[small].max() == 12 - 4 and numbers[~small].max() > 25
    assert (numbers.sum(axis=1) == 32).all()


def test_seeded_task_by_task() -> None:
    tasks, found = drawn()
    assert np.array_equal(dirichlet_queries(tasks.take(7), LABELS).query, found.query[:7])
    again = dirichlet_queries(tasks, LABELS, seed=1)
    assert not np.array_equal(again.query, found.query)


def test_take_and_relabelled_carry_the_slots() -> None:
    _, found = drawn()
    assert np.array_equal(found.take(5).query_slots, found.query_slots[:5])
    new_id = np.random.default_rng(0).permutation(len(LABELS))
    labels = np.empty_like(LABELS)
    labels[new_id] = LABELS
    found.relabelled(new_id).check(GRAPH.with_labels(labels))


def test_what_does_not_fit() -> None:
    tasks, found = drawn(20)
    assert found.slots is not None
    with pytest.raises(TaskError, match="task 0 does not fit the labels"):
        Tasks(found.support, found.query, 4, 1, slots=(found.slots + 1) % 4).check(GRAPH)
    with pytest.raises(TaskError, match=r"slots are 0\.\.4; expected 0\.\.3"):
        Tasks(found.support, found.query, 4, 1, slots=np.where(found.slots == 3, 4, found.slots))
    with pytest.raises(TaskError, match="differ in shape"):
        Tasks(found.support, found.query, 4, 1, slots=found.slots[:, :5])
    with pytest.raises(TaskError, match=r"slots has shape .* float64"):
        Tasks(found.support, found.query, 4, 1, slots=found.slots + 0.5)
    with pytest.raises(TaskError, match="holds equally many queries per class"):
        found.arrays()
    with pytest.raises(TaskError, match="concentration is 0"):
        dirichlet_queries(tasks, LABELS, concentration=0)
    few = np.full_like(LABELS, -1)
    few[tasks.support[0]] = LABELS[tasks.support[0]]
    with pytest.raises(TaskError, match="task 0 needs 32 queries, but its classes have 0 other nodes"):
        dirichlet_queries(tasks.take(1), few)


@pytest.mark.parametrize("shot", [1, 4])
def test_queries_are_drawn_among_all_others_of_their_class(shot: int) -> None:
    """The same draws from lists of the nodes that are not supports, made for each task."""
    tasks, found = drawn(count=60, shot=shot, seed=5)
    total = tasks.query.shape[1]
    for index in range(len(tasks)):
        random = stream(5, f"queries/dirichlet/{tasks.part}/4way/{shot}shot/{total}queries", index)
        supports = tasks.support[index].reshape(4, shot)
        pools = [np.setdiff1d(np.flatnonzero(LABELS[own[0]] == LABELS), own) for own in supports]
        numbers = _numbers(random, np.array([len(pool) for pool in pools]), total, 2.0, index)
        expected = [random.choice(pool, size=number, replace=False) for pool, number in zip(pools, numbers)]
        assert np.array_equal(found.query[index], np.concatenate(expected))
