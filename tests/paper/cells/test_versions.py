"""Versions of the code are part of a key, and only for the cells that they concern."""

from __future__ import annotations

import pytest

from naq_paper.cells.cell import VERSIONS, Cell, Identity, versions_of
from naq_paper.cells.datasets import DatasetCache, identify

CONFIG = {
    "method": "naq-feat/protonet",
    "head": "logistic",
    "perturbation": {"name": "label-noise", "share": 0.1},
}


@pytest.mark.parametrize("name", ["train", "naq-feat", "protonet", "naq-feat/protonet", "logistic", "label-noise"])
def test_a_version_changes_the_key_of_the_cells_it_concerns_and_of_no_others(monkeypatch, name):
    cell, other = Cell("train", CONFIG), Cell("times", {"method": "bgrl", "head": "prototype", "perturbation": None})
    keys = [identify(each, DatasetCache()).key(each) for each in (cell, other)]
    monkeypatch.setitem(VERSIONS, name, 2)
    assert versions_of("train", CONFIG) == f"{name} 2"
    assert [identify(each, DatasetCache()).key(each) != key for each, key in zip((cell, other), keys)] == [True, False]


def test_version_1_is_what_is_not_in_the_table(monkeypatch):
    monkeypatch.setitem(VERSIONS, "protonet", 1)
    monkeypatch.delitem(VERSIONS, "practice")
    assert versions_of("train", CONFIG) == versions_of("practice", {"peer": "sgc"}) == ""
    monkeypatch.setitem(VERSIONS, "sgc", 3)
    monkeypatch.setitem(VERSIONS, "practice", 2)
    assert versions_of("practice", {"peer": "sgc"}) == "practice 2, sgc 3"


def test_the_data_is_part_of_the_identity():
    cache = DatasetCache()
    cell = Cell("times", {"dataset": "debian"})
    assert identify(cell, cache) == Identity(cache.data_hash("debian"), "")
    assert identify(Cell("empty", {}), cache) == Identity("", "")
