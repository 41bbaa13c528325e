"""Small graphs in a dataset cache, and what every result of a measurement must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import methods_under_test as suite
import naq
from graphs import islands, random_graph
from naq.io import save_graph
from naq_paper.cells.cell import Cell, canonical
from naq_paper.cells.datasets import DatasetCache
from naq_paper.measurements import Context, perform

ISLAND_CLASSES = [0, 0, 1, 1, -1, 2] + [2, 1, 0, 0] * 4
"""Smaller classes have higher ids; one node has none."""


def graphs() -> dict[str, naq.Graph]:
    random = random_graph()
    return {
        "random": random, "islands": islands().with_labels(ISLAND_CLASSES),
        "structure": naq.Graph(random.adjacency, labels=random.labels), "unlabelled": random.without_labels(),
        "communities": suite.community_graph(),
    }  # fmt: skip


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("graphs")
    paths = {name: str(save_graph(folder / f"{name}.npz", graph)) for name, graph in graphs().items()}
    return Context(DatasetCache(paths), cache=folder / "cache")


@pytest.fixture(scope="module")
def compute(context: Context) -> Callable[[Cell], dict[str, Any]]:
    """The result of a cell; what a record cannot hold is refused here."""

    def of(cell: Cell) -> dict[str, Any]:
        canonical(cell.config)
        result = perform(cell, context)
        canonical(result)
        return result

    return of
