"""Stores, cells and measurements for the tests of runners."""

from __future__ import annotations

import pytest

from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.store import Store
from naq_paper.measurements import MEASUREMENTS


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


@pytest.fixture
def empties():
    """``empties(5, seconds=0.02)``: as many different cells."""
    return lambda count, **config: [Cell("empty", {"number": number, **config}) for number in range(count)]


@pytest.fixture
def measurement(monkeypatch):
    """Registers a measurement for this process and gives a cell of it: ``measurement(function, number=1)``."""

    def cell(compute, **config):
        name = f"test-{compute.__name__}"
        monkeypatch.setitem(MEASUREMENTS._items, name, compute)
        return Cell(name, config)

    return cell


@pytest.fixture
def key_of():
    return lambda cell: identify(cell, DatasetCache()).key(cell)


@pytest.fixture
def is_free(key_of):
    """Whether no process holds the lock of a cell."""

    def free(store, cell):
        held = Store(store.folder).lock(key_of(cell))
        if held is not None:
            held.release()
        return held is not None

    return free
