"""Graphs stay loaded, two at most; the data hash is of the graph and of its tasks."""

from __future__ import annotations

import pytest

import methods_under_test as suite
import naq
from naq.io import save_graph, split_for
from naq.tasks import save_task_file
from naq_paper.cells import datasets as module
from naq_paper.cells.datasets import DatasetCache


@pytest.fixture
def paths(tmp_path):
    sizes = {"one": 14, "two": 15, "three": 16}
    return {
        name: str(save_graph(tmp_path / f"{name}.npz", suite.community_graph(size=size)))
        for name, size in sizes.items()
    }


@pytest.fixture
def loads(monkeypatch):
    """What was loaded, in order."""
    found = []

    def load(source):
        found.append(source)
        return naq.load(source)

    monkeypatch.setattr(module, "load", load)
    return found


def write_tasks(place, *, count):
    graph = naq.load(place)
    sets = [
        naq.sample_tasks(graph, way=2, shot=1, queries=2, count=count, classes=suite.SPLIT.part(part), part=part)
        for part in ("valid", "test")
    ]
    return save_task_file(place.removesuffix(".npz") + ".tasks.npz", sets, suite.SPLIT)


def test_a_graph_is_loaded_once_and_two_are_kept(paths, loads):
    dataset_cache = DatasetCache(paths)
    one, two = dataset_cache.graph("one"), dataset_cache.graph("two")
    assert dataset_cache.graph("one") is one and dataset_cache.graph("two") is two and len(loads) == 2
    dataset_cache.graph("three")
    assert dataset_cache.graph("two") is two and len(loads) == 3
    assert dataset_cache.graph("one") is not one and loads == [paths[name] for name in ("one", "two", "three", "one")]
    assert len(dataset_cache._graphs) == module.KEPT == 2


def test_a_name_is_a_place_or_itself(paths):
    dataset_cache = DatasetCache(paths)
    assert dataset_cache.source("one") == paths["one"] and dataset_cache.source("debian") == "debian"
    assert DatasetCache().graph(paths["one"]).num_nodes == dataset_cache.graph("one").num_nodes


def test_the_data_hash_is_of_graph_and_tasks(paths, loads):
    without = DatasetCache(paths).data_hash("one")
    write_tasks(paths["one"], count=3)
    some = DatasetCache(paths).data_hash("one")
    write_tasks(paths["one"], count=4)
    others = DatasetCache(paths).data_hash("one")
    assert len({without, some, others, DatasetCache(paths).data_hash("two")}) == 4
    assert {hash.partition(".")[0] for hash in (without, some, others)} == {naq.load(paths["one"]).hash}
    loads.clear()
    dataset_cache = DatasetCache(paths)
    assert dataset_cache.data_hash("one") == dataset_cache.data_hash("one") == others and len(loads) == 1


def test_the_hash_does_not_depend_on_where_the_files_lie(paths, tmp_path):
    tasks = write_tasks(paths["one"], count=3)
    moved = tmp_path / "elsewhere" / "renamed.npz"
    moved.parent.mkdir()
    moved.write_bytes((tmp_path / "one.npz").read_bytes())
    moved.with_name("renamed.tasks.npz").write_bytes(tasks.read_bytes())
    assert DatasetCache({"x": str(moved)}).data_hash("x") == DatasetCache(paths).data_hash("one")


def test_a_perturbation_is_applied_once_and_two_are_kept(paths):
    dataset_cache = DatasetCache(paths)
    noise = [{"name": "structure-noise", "share": share, "seed": 0} for share in (0.1, 0.2, 0.3)]
    first = dataset_cache.perturbed("one", noise[0])
    assert dataset_cache.perturbed("one", dict(reversed(noise[0].items()))) is first
    assert first.graph.num_edges > dataset_cache.graph("one").num_edges
    assert dataset_cache.perturbed("two", noise[0]) is not first
    dataset_cache.perturbed("one", noise[1])
    assert dataset_cache.perturbed("one", noise[0]) is not first and len(dataset_cache._perturbed) == 2


def test_no_perturbation_changes_nothing(paths):
    dataset_cache = DatasetCache(paths)
    found = dataset_cache.perturbed("one", None)
    assert found.graph is dataset_cache.graph("one") and found.base_labels is None and not found.redraw


def test_without_a_task_file_the_classes_are_those_of_the_source(paths):
    """A run is handed a graph and cannot know which file it came from."""
    dataset_cache = DatasetCache(paths)
    expected = split_for(dataset_cache.source("one"), dataset_cache.graph("one"))
    assert dataset_cache.tasks("one") is None
    assert dataset_cache.perturbed("one", None).split == expected
    assert dataset_cache.perturbed("one", {"name": "structure-noise", "share": 0.1, "seed": 0}).split == expected
    assert DatasetCache().perturbed("debian", None).split is None  # its task file says
