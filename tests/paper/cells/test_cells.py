"""Cells are equal by what they say; their keys depend on configuration, data and versions, and on nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import methods_under_test as suite
import naq
from fake_records import record_for
from naq.io import save_graph, split_for
from naq.tasks import save_task_file
from naq_paper.cells import datasets as module
from naq_paper.cells.cell import VERSIONS, Cell, Identity, canonical, digest, titles, versions_of
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.records import Record

IDENTITY = Identity("data", "protonet 2")
CELL = Cell("train", {"dataset": "debian", "way": 5, "options": {"lr": 0.1, "latent": 8}})
CONFIG = {"method": "naq-feat/protonet", "head": "logistic", "perturbation": {"name": "label-noise", "share": 0.1}}


def test_equal_values_have_one_text():
    assert canonical({"b": [1, 2.5, None], "a": {"y": True, "x": "ü"}}) == canonical(
        {"a": {"x": "ü", "y": True}, "b": [1, 2.5, None]}
    )
    assert canonical({"a": (1, 2)}) == '{"a":[1,2]}' != canonical({"a": [2, 1]})
    assert digest("a") == digest("a") != digest("b") and (len(digest("a")), len(digest("a", 8))) == (24, 16)
    for value in (float("nan"), float("inf"), np.float32(1.0), {1, 2}, object()):
        with pytest.raises((ValueError, TypeError)):
            canonical({"a": value})


def test_cells_are_equal_by_text_and_titles_say_what_runs():
    turned = Cell("train", {"options": {"latent": 8, "lr": 0.1}, "way": 5, "dataset": "debian"})
    assert turned == CELL and hash(turned) == hash(CELL) and Cell("tail-map", CELL.config) != CELL != CELL.text
    assert Cell("train", {**CELL.config, "way": 5.0}) != CELL
    config = {"dataset": "d", "method": "bgrl", "way": 5, "shot": 1, "seed": 2}
    noisy = Cell("train", {**config, "perturbation": {"name": "noise", "share": 0.1}})
    assert noisy.title == "d bgrl 5-way 1-shot noise share=0.1 seed 2"
    assert CELL.title == "debian train 5-way" and Cell("empty", {}).title == "empty"
    candidates = [Cell("train", {**config, "options": {"lr": lr, "latent": 8}}) for lr in (0.1, 0.2)]
    assert titles(candidates) == [f"{candidates[0].title} (lr={lr})" for lr in (0.1, 0.2)]


def test_a_key_changes_with_configuration_data_and_versions_and_not_with_order():
    others = [replace(IDENTITY, **{name: "other"}).key(CELL) for name in ("data", "versions")]
    for cell in (Cell("other", CELL.config), *(Cell("train", CELL.config | d) for d in ({"way": 6}, {"x": None}))):
        others.append(IDENTITY.key(cell))
    assert len({IDENTITY.key(CELL), *others}) == 6
    assert IDENTITY.key(Cell("train", dict(reversed(CELL.config.items())))) == IDENTITY.key(CELL)


@pytest.mark.parametrize("name", ["train", "naq-feat", "protonet", "naq-feat/protonet", "logistic", "label-noise"])
def test_a_version_changes_the_key_of_the_cells_it_concerns_and_of_no_others(monkeypatch, name):
    cell, other = Cell("train", CONFIG), Cell("times", {"method": "bgrl", "head": "prototype", "perturbation": None})
    keys = [identify(each, DatasetCache()).key(each) for each in (cell, other)]
    monkeypatch.setitem(VERSIONS, name, 2)
    assert versions_of("train", CONFIG) == f"{name} 2"
    assert [identify(each, DatasetCache()).key(each) != key for each, key in zip((cell, other), keys)] == [True, False]
    monkeypatch.setitem(VERSIONS, name, 1)
    assert versions_of("train", CONFIG) == "", "version 1 is what is not in the table"


@pytest.mark.parametrize(("result", "error"), [({"number": 1.25}, None), (None, "it rains; wait.")])
def test_a_record_comes_back_from_its_file(result, error):
    text = json.dumps(record_for(CELL, result, error).to_json())
    again = Record.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text and again.cell == CELL
    assert again.done == (error is None) and again.result == result and again.error == error


@pytest.fixture
def paths(tmp_path):
    return {
        name: str(save_graph(tmp_path / f"{name}.npz", suite.community_graph(size=size)))
        for name, size in {"one": 14, "two": 15, "three": 16}.items()
    }


@pytest.fixture
def loads(monkeypatch):
    """What was loaded, in order."""
    found = []
    monkeypatch.setattr(module, "load", lambda source: found.append(source) or naq.load(source))
    return found


def write_tasks(place, *, count):
    graph, parts = naq.load(place), ("valid", "test")
    options = {"way": 2, "shot": 1, "queries": 2, "count": count}
    sets = [naq.sample_tasks(graph, **options, classes=suite.SPLIT.part(part), part=part) for part in parts]
    return save_task_file(place.removesuffix(".npz") + ".tasks.npz", sets, suite.SPLIT)


def test_a_graph_is_loaded_once_and_two_are_kept(paths, loads):
    cache = DatasetCache(paths)
    one, two = cache.graph("one"), cache.graph("two")
    assert cache.graph("one") is one and cache.graph("two") is two and len(loads) == 2
    cache.graph("three")
    assert cache.graph("two") is two and cache.graph("one") is not one
    assert loads == [paths[name] for name in ("one", "two", "three", "one")]
    assert (cache.source("one"), cache.source("debian")) == (paths["one"], "debian")


def test_the_data_hash_is_of_graph_and_tasks_wherever_their_files_are(paths, loads, tmp_path):
    without = DatasetCache(paths).data_hash("one")
    write_tasks(paths["one"], count=3)
    some = DatasetCache(paths).data_hash("one")
    tasks = write_tasks(paths["one"], count=4)
    loads.clear()
    cache = DatasetCache(paths)
    others = cache.data_hash("one")
    assert cache.data_hash("one") == others and len(loads) == 1
    assert len({without, some, others, cache.data_hash("two")}) == 4
    assert {one.partition(".")[0] for one in (without, some, others)} == {naq.load(paths["one"]).hash}
    assert identify(Cell("times", {"dataset": "one"}), cache) == Identity(others, "")
    assert identify(Cell("empty", {}), cache) == Identity("", "")
    moved = tmp_path / "elsewhere" / "renamed.npz"
    moved.parent.mkdir()
    moved.write_bytes((tmp_path / "one.npz").read_bytes())
    moved.with_name("renamed.tasks.npz").write_bytes(tasks.read_bytes())
    assert DatasetCache({"x": str(moved)}).data_hash("x") == others


def test_a_perturbation_is_applied_once_and_two_are_kept(paths):
    cache = DatasetCache(paths)
    plain = cache.perturbed("one", None)
    assert plain.graph is cache.graph("one") and plain.base_labels is None and not plain.redraw
    noise = [{"name": "structure-noise", "share": share, "seed": 0} for share in (0.1, 0.2)]
    first = cache.perturbed("one", noise[0])
    assert cache.perturbed("one", dict(reversed(noise[0].items()))) is first is not cache.perturbed("two", noise[0])
    assert first.graph.num_edges > cache.graph("one").num_edges
    cache.perturbed("one", noise[1])
    assert cache.perturbed("one", noise[0]) is not first


def test_without_a_task_file_the_classes_are_those_of_the_source(paths):
    """A run is handed a graph and cannot know which file it came from."""
    cache = DatasetCache(paths)
    expected = split_for(cache.source("one"), cache.graph("one"))
    assert cache.tasks("one") is None and cache.perturbed("one", None).split == expected
    assert cache.perturbed("one", {"name": "structure-noise", "share": 0.1, "seed": 0}).split == expected
    assert DatasetCache().perturbed("debian", None).split is None  # its task file says
