"""A worker gives the GPU memory of a finished cell back."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.runners import record_of, release_gpu_memory


@pytest.fixture
def emptied(monkeypatch):
    """Calls of ``empty_cache`` of a torch that has used a GPU."""
    calls = []
    cuda = SimpleNamespace(is_initialized=lambda: True, empty_cache=lambda: calls.append("emptied"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return calls


@pytest.mark.parametrize("config", [{"number": 1}, {"error": "made to fail."}])
def test_memory_is_given_back_after_every_cell(emptied, monkeypatch, config):
    monkeypatch.setattr(
        "naq_paper.cells.runners.perform",
        lambda cell, context: {}["gone"] if "error" in config else {"number": 1},
    )
    monkeypatch.setattr("naq_paper.cells.runners.machine", lambda device: {})
    record = record_of(Cell("empty", config), Identity(""), None)
    assert record.done == ("number" in config) and emptied == ["emptied"]


def test_nothing_is_done_where_no_gpu_was_used(emptied, monkeypatch):
    monkeypatch.setattr(sys.modules["torch"].cuda, "is_initialized", lambda: False)
    release_gpu_memory()
    monkeypatch.delitem(sys.modules, "torch")
    release_gpu_memory()
    assert emptied == [] and "torch" not in sys.modules
