"""Small task sets and embeddings for every head."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from naq.tasks import Tasks

NODES = 400
CLASSES = 10

MakeTasks = Callable[..., Tasks]


@pytest.fixture(autouse=True, scope="package")
def one_blas_thread() -> Iterator[None]:
    """The oracles make thousands of tiny products, which BLAS threads slow down by orders of magnitude."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session")
def make_tasks() -> MakeTasks:
    """Tasks over the nodes 0..399 of ten classes; node i has class i % 10."""

    def make(count: int, way: int, shot: int, queries: int = 4, seed: int = 0) -> Tasks:
        rng = np.random.default_rng(seed)
        support = np.empty((count, way, shot), dtype=np.int64)
        query = np.empty((count, way, queries), dtype=np.int64)
        for task in range(count):
            for slot, label in enumerate(rng.permutation(CLASSES)[:way]):
                members = label + CLASSES * rng.permutation(NODES // CLASSES)[: shot + queries]
                support[task, slot], query[task, slot] = members[:shot], members[shot:]
        return Tasks(support.reshape(count, -1), query.reshape(count, -1), way, shot)

    return make


@pytest.fixture(scope="session")
def vectors() -> np.ndarray:
    """(400, 24) clusters that overlap, off the origin."""
    rng = np.random.default_rng(1)
    centers = rng.normal(size=(CLASSES, 24))
    return np.tile(centers, (NODES // CLASSES, 1)) + 1.2 * rng.normal(size=(NODES, 24)) + 0.5


@pytest.fixture(scope="session")
def counts() -> np.ndarray:
    """(400, 60) word counts whose row sums differ by orders of magnitude."""
    rng = np.random.default_rng(2)
    topics = np.tile(np.exp(rng.normal(size=(CLASSES, 60))), (NODES // CLASSES, 1))
    return rng.poisson(0.3 * np.exp(1.5 * rng.normal(size=(NODES, 1))) * topics).astype(np.float64)
