"""Tasks that need no label: drawn nodes as classes, their nearest nodes as queries. What a model is chosen by where no labels may be used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from naq.errors import TaskError
from naq.neighbors import NeighborTable
from naq.randomness import stream
from naq.tasks import Tasks


def naq_tasks(tables: Sequence[NeighborTable], *, way: int, queries: int = 8, count: int = 50, seed: int = 0) -> Tasks:
    """One-shot tasks from neighbour tables, by turns: the i-th task reads table i modulo their number.

    Unlike training episodes these share no node: a drawn node joins only if neither it nor one of its ``queries`` nearest is in the
    task already, so every query has one right answer.

    Args:
        tables: of the same nodes, at least ``queries`` wide.
        way: classes per task.

    Raises:
        TaskError: where too few nodes have that many neighbours, or they lie too close together.
    """
    rows = [_complete(table, queries) for table in tables]
    support, query = np.empty((count, way), dtype=np.int64), np.empty((count, way * queries), dtype=np.int64)
    for task in range(count):
        table, nodes = tables[task % len(tables)], rows[task % len(tables)]
        order = stream(seed, "label-free tasks", task).permutation(nodes)
        used: set[int] = set()
        classes = 0
        for node in order:
            near = table.ids[node, :queries]
            group = {int(node), *near.tolist()}
            if used & group:
                continue
            support[task, classes], query[task, classes * queries : (classes + 1) * queries] = node, near
            used |= group
            classes += 1
            if classes == way:
                break
        if classes < way:
            raise TaskError(
                f"only {classes} nodes with {queries} neighbours of their own were found for a label-free task of {way} classes; "
                "lower way, or choose by validation tasks."
            )
    return Tasks(support, query, way, 1, "valid")


def _complete(table: NeighborTable, queries: int) -> np.ndarray:
    if table.k < queries:
        raise TaskError(f"the table holds {table.k} neighbours per node, but label-free tasks need {queries}.")
    return np.flatnonzero(table.ids[:, queries - 1] >= 0)
