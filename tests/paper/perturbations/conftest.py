"""A graph with uneven classes, unlabelled nodes, counts and names, and its split."""

from __future__ import annotations

import numpy as np
import pytest

import naq
from graphs import random_counts, random_edges
from naq.io import split_for
from naq.tasks import ClassSplit

SIZES = (40, 35, 30, 30, 20, 15, 12, 10, 3)
UNLABELLED = 5


@pytest.fixture(scope="session")
def graph() -> naq.Graph:
    n = sum(SIZES) + UNLABELLED
    labels = np.random.default_rng(0).permutation(np.repeat([*range(len(SIZES)), -1], [*SIZES, UNLABELLED]))
    return naq.Graph(
        random_edges(n, 3 * n, seed=1),
        random_counts(n, 25, seed=2, density=0.2),
        labels,
        names=[f"node {i}" for i in range(n)],
        class_names=[f"class {c}" for c in range(len(SIZES))],
        vocab=[f"word {j}" for j in range(25)],
        name="uneven",
        nodes=n,
    )


@pytest.fixture(scope="session")
def split() -> ClassSplit:
    return ClassSplit((0, 1, 3, 5, 6, 7), (2,), (4, 8))


@pytest.fixture(scope="session")
def debian() -> tuple[naq.Graph, ClassSplit]:
    graph = naq.load("debian")
    return graph, split_for("debian", graph)
