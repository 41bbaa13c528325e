"""Drawing task sets from labels."""

from __future__ import annotations

from collections.abc import Sequence

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
                f"class {c} has {have} nodes, but {shot} shots and {queries} queries need {need}; leave the class out or lower queries."
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
