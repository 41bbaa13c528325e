"""Drawing task sets from labels, and the same tasks with unbalanced queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from naq.errors import TaskError
from naq.graph import Graph
from naq.random import stream
from naq.tasks.split import class_sizes
from naq.tasks.tasks import Tasks


def sample_tasks(
    graph: Graph,
    *,
    way: int = 5,
    shot: int = 1,
    queries: int = 8,
    count: int = 500,
    seed: int = 0,
    classes: Sequence[int] | None = None,
    part: str = "test",
) -> Tasks:
    """Draw ``count`` tasks: ``way`` classes uniformly, then ``shot + queries`` distinct nodes of each.

    Args:
        classes: class ids to draw from; all classes with enough nodes if None. A listed class with too few nodes is an
            error, since leaving it out would change what is tested.
    """
    for title, value, least in (("way", way, 2), ("shot", shot, 1), ("queries", queries, 1), ("count", count, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise TaskError(f"{title} is {value!r}; expected a whole number of at least {least}.")
    labels = graph.require_labels("sampling tasks")
    need = shot + queries
    sizes = class_sizes(graph)
    if classes is None:
        pool = np.flatnonzero(sizes >= need)
    else:
        pool = np.unique(np.asarray(classes, dtype=np.int64))
        small = [int(c) for c in pool if c < 0 or c >= len(sizes) or sizes[c] < need]
        if small:
            c = small[0]
            have = int(sizes[c]) if 0 <= c < len(sizes) else 0
            raise TaskError(
                f"class {c} has {have} nodes, but {shot} shots and {queries} queries need {need}; leave it out or lower queries."
            )
    if way > len(pool):
        raise TaskError(
            f"{way}-way tasks were asked for, but only {len(pool)} classes have {need} nodes or more; lower way."
        )
    members = {int(c): np.flatnonzero(labels == c) for c in pool}
    support = np.empty((count, way, shot), dtype=np.int64)
    query = np.empty((count, way, queries), dtype=np.int64)
    for index in range(count):
        random = stream(seed, f"tasks/{part}/{way}way/{shot}shot/{queries}queries", index)
        for slot, c in enumerate(random.choice(pool, size=way, replace=False)):
            drawn = random.choice(members[int(c)], size=need, replace=False)
            support[index, slot], query[index, slot] = drawn[:shot], drawn[shot:]
    return Tasks(support.reshape(count, -1), query.reshape(count, -1), way, shot, part)


def dirichlet_queries(tasks: Tasks, labels: np.ndarray, *, concentration: float = 2.0, seed: int = 0) -> Tasks:
    """Tasks with the same supports and as many queries, whose classes are not equally frequent.

    For every task: class shares from a symmetric Dirichlet distribution, numbers of queries from the multinomial distribution of these shares, then
    nodes without replacement among those of the class that are no supports. A class with too few nodes gives all it has; the rest is drawn again
    among the others. Veilleux et al., Realistic Evaluation of Transductive Few-Shot Learning, https://arxiv.org/abs/2204.11181; 2 is their value.

    Args:
        tasks: their classes are those of their supports; the queries are only counted.
        labels: (n,) class of every node, -1 where it is not known.
        concentration: of the Dirichlet distribution; the higher, the more equal the shares.
        seed: task ``i`` depends on it, on ``i`` and on the setting alone.

    Shapes:
        - answer: ``query`` and ``slots`` (count, queries of a task), class-major
    """
    if not np.isfinite(concentration) or concentration <= 0:
        raise TaskError(f"concentration is {concentration!r}; expected a number above 0, e.g. 2.0.")
    count, total, way = len(tasks), tasks.query.shape[1], tasks.way
    support = tasks.support.reshape(count, way, tasks.shot)
    classes = labels[support[:, :, 0]]
    members = {int(c): np.flatnonzero(labels == c) for c in np.unique(classes)}
    query, slots = np.empty((count, total), dtype=np.int64), np.empty((count, total), dtype=np.int64)
    for index in range(count):
        random = stream(seed, f"queries/dirichlet/{tasks.part}/{way}way/{tasks.shot}shot/{total}queries", index)
        own = [members[int(c)] for c in classes[index]]
        own = [np.delete(one, np.searchsorted(one, nodes)) for one, nodes in zip(own, support[index])]
        available = np.array([len(one) for one in own])
        numbers = _numbers(random, available, total, concentration, index)
        drawn = [random.choice(size, size=number, replace=False) for size, number in zip(available, numbers)]
        query[index] = np.concatenate([one[some] for one, some in zip(own, drawn)])
        slots[index] = np.repeat(np.arange(way), numbers)
    return replace(tasks, query=query, slots=slots)


def _numbers(
    random: np.random.Generator, available: np.ndarray, total: int, concentration: float, index: int
) -> np.ndarray:
    """Queries of each class: ``total`` in all, no class more than are available."""
    if available.sum() < total:
        raise TaskError(f"task {index} needs {total} queries, but its classes have {available.sum()} other nodes.")
    shares = random.dirichlet(np.full(len(available), concentration))
    numbers = np.zeros(len(available), dtype=np.int64)
    while (left := total - int(numbers.sum())) > 0:
        weight = np.where(numbers < available, shares + 1e-12, 0.0)  # a share may be zero to the last bit
        numbers = np.minimum(numbers + random.multinomial(left, weight / weight.sum()), available)
    return numbers
