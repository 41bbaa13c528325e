"""Graphs stay loaded, two at most; the data hash is of the graph and of its tasks."""

from __future__ import annotations

import pytest

import methods_under_test as suite
import naq
from naq.data import save_graph, split_for
from naq.experiments import bench as module
from naq.experiments.bench import Bench
from naq.tasks import save_task_file


@pytest.fixture
def places(tmp_path):
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


def test_a_graph_is_loaded_once_and_two_are_kept(places, loads):
    bench = Bench(places)
    one, two = bench.graph("one"), bench.graph("two")
    assert bench.graph("one") is one and bench.graph("two") is two and len(loads) == 2
    bench.graph("three")
    assert bench.graph("two") is two and len(loads) == 3
    assert bench.graph("one") is not one and loads == [places[name] for name in ("one", "two", "three", "one")]
    assert len(bench._graphs) == module.KEPT == 2


def test_a_name_is_a_place_or_itself(places):
    bench = Bench(places)
    assert bench.source("one") == places["one"] and bench.source("debian") == "debian"
    assert Bench().graph(places["one"]).num_nodes == bench.graph("one").num_nodes


def test_the_data_hash_is_of_graph_and_tasks(places, loads):
    without = Bench(places).data_hash("one")
    write_tasks(places["one"], count=3)
    some = Bench(places).data_hash("one")
    write_tasks(places["one"], count=4)
    others = Bench(places).data_hash("one")
    assert len({without, some, others, Bench(places).data_hash("two")}) == 4
    assert {hash.partition(".")[0] for hash in (without, some, others)} == {naq.load(places["one"]).hash}
    loads.clear()
    bench = Bench(places)
    assert bench.data_hash("one") == bench.data_hash("one") == others and len(loads) == 1


def test_the_hash_does_not_depend_on_where_the_files_lie(places, tmp_path):
    tasks = write_tasks(places["one"], count=3)
    moved = tmp_path / "elsewhere" / "renamed.npz"
    moved.parent.mkdir()
    moved.write_bytes((tmp_path / "one.npz").read_bytes())
    moved.with_name("renamed.tasks.npz").write_bytes(tasks.read_bytes())
    assert Bench({"x": str(moved)}).data_hash("x") == Bench(places).data_hash("one")


def test_a_change_is_made_once_and_two_are_kept(places):
    bench = Bench(places)
    noise = [{"name": "structure-noise", "share": share, "seed": 0} for share in (0.1, 0.2, 0.3)]
    first = bench.changed("one", noise[0])
    assert bench.changed("one", dict(reversed(noise[0].items()))) is first
    assert first.graph.num_edges > bench.graph("one").num_edges
    assert bench.changed("two", noise[0]) is not first
    bench.changed("one", noise[1])
    assert bench.changed("one", noise[0]) is not first and len(bench._changed) == 2


def test_no_change_changes_nothing(places):
    bench = Bench(places)
    found = bench.changed("one", None)
    assert found.graph is bench.graph("one") and found.base_labels is None and not found.redraw


def test_without_a_task_file_the_classes_are_those_of_the_source(places):
    """A run is handed a graph and cannot know which file it came from."""
    bench = Bench(places)
    expected = split_for(bench.source("one"), bench.graph("one"))
    assert bench.tasks("one") is None
    assert bench.changed("one", None).split == expected
    assert bench.changed("one", {"name": "structure-noise", "share": 0.1, "seed": 0}).split == expected
    assert Bench().changed("debian", None).split is None  # its task file says
