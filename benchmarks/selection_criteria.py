"""Criteria that choose vectors without labels and were found wanting; ``naq/run/tasks.py`` has the one in use.

RankMe: Garrido, Balestriero, Najman and LeCun 2023, https://arxiv.org/abs/2210.02885. alpha-ReQ: Agrawal, Mondal, Ghosh and Richards 2022,
https://arxiv.org/abs/2202.08808. Both read the spectrum of the vectors alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from naq.errors import TaskError
from naq.neighbors import NeighborTable
from naq.random import stream
from naq.tasks import Tasks

TINY = 1e-7
"""RankMe's epsilon."""


def neighbor_tasks(
    tables: Sequence[NeighborTable], *, way: int, queries: int = 8, count: int = 50, seed: int = 0
) -> Tasks:
    """One-shot tasks, by turns from each table: drawn nodes as classes, their nearest as queries.

    A drawn node joins only if neither it nor one of its ``queries`` nearest is in the task already, so every query has one right answer.
    """
    support, query = np.empty((count, way), dtype=np.int64), np.empty((count, way * queries), dtype=np.int64)
    for task in range(count):
        table = tables[task % len(tables)]
        complete = np.flatnonzero(table.ids[:, queries - 1] >= 0)
        used: set[int] = set()
        classes = 0
        for node in stream(seed, "label-free tasks", task).permutation(complete):
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
                f"only {classes} nodes with {queries} neighbours of their own were found for {way} classes."
            )
    return Tasks(support, query, way, 1, "valid")


def rankme(vectors: torch.Tensor) -> float:
    """exp(entropy of s / sum(s)) of the singular values s: between 1 and the width; more is said to be better."""
    values = _eigenvalues(vectors).sqrt()
    share = values / values.sum() + TINY
    return float(torch.exp(-(share * share.log()).sum()))


def alpha_req(vectors: torch.Tensor) -> float:
    """-|alpha - 1| of the decay i^-alpha of the eigenvalues of the covariance, by least squares on logarithms; 0 is said to be best."""
    values = _eigenvalues(vectors - vectors.mean(dim=0))
    values = values[values > values[0] * TINY]
    if len(values) < 2:
        return -1.0
    x, y = torch.arange(1, len(values) + 1, dtype=torch.float64).log(), values.log()
    x = x - x.mean()
    return -abs(float(-(x @ y) / (x @ x)) - 1)


def _eigenvalues(vectors: torch.Tensor) -> torch.Tensor:
    """Of Z^T Z, in float64 on the CPU, largest first, none below zero."""
    there = vectors.double()
    return torch.linalg.eigvalsh((there.T @ there).cpu()).flip(0).clamp(min=0)
