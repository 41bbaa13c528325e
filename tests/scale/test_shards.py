"""Tables in shards are those made in one piece, whoever computes them and whatever goes wrong."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphs import random_graph
from naq import Graph, diffusion_neighbors, feature_neighbors, load
from naq.errors import DataError, NaqError
from naq.io.npz import save_graph
from naq.neighbors import NeighborTable
from naq.neighbors.diffusion import diffusion_info
from naq.neighbors.feature import feature_info
from naq_paper.cells.runners import Runner, make_runner
from naq_paper.cells.store import Store
from naq_scale import shards
from naq_scale.neighbor_rows import packed, unpacked

PUSH: dict[str, Any] = {"alpha": 0.1, "self_loops": True, "method": "push", "tolerance": 1e-4}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_graph(tmp_path_factory.mktemp("graph") / "g.npz", random_graph(300, 700, seed=5))


@pytest.fixture(scope="module")
def graph(file: Path) -> Graph:
    return load(file)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "shards")


def made(graph: Graph, info: dict[str, Any], count: int, runner: Runner, store: Store, **more: Any) -> NeighborTable:
    cells = shards.shard_cells("graph", info, graph.num_nodes, count)
    return shards.sharded_table(cells, info, graph.num_nodes, runner, store, {"graph": str(graph.source)}, **more)


def same(one: NeighborTable, two: NeighborTable) -> None:
    assert np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores)
    assert dict(one.info) == {name: value for name, value in two.info.items() if name not in ("fill", "graph")}


def test_an_approximate_feature_table_is_one_shard(graph: Graph, store: Store) -> None:
    info = feature_info(graph, 6, "cosine", "approximate")
    assert len(shards.shard_cells("graph", info, graph.num_nodes, 7)) == 1
    table = made(graph, info, 7, make_runner("local"), store)
    same(table, feature_neighbors(graph, 6, search="approximate"))
    assert table.info["search"] == "approximate" and 0.9 < table.info["recall"] <= table.info["recall_with_ties"]


@pytest.mark.parametrize("recall", ["much", {"recall": "1"}, {"recall": 2.0}, [0.5]])
def test_a_shard_with_a_damaged_recall_is_computed_again(graph: Graph, store: Store, recall: Any) -> None:
    with pytest.raises(DataError, match="states no recall"):
        shards._recall(SimpleNamespace(result={"recall": recall}))
    assert shards._recall(SimpleNamespace(result={})) == {}


@pytest.mark.parametrize("count", [1, 7, 40])
def test_shards_make_the_table_of_one_piece(graph: Graph, store: Store, count: int) -> None:
    runner = make_runner("local")
    same(
        made(graph, diffusion_info(graph, 6, **PUSH), count, runner, store),
        diffusion_neighbors(graph, 6, method="push"),
    )
    exact = diffusion_info(graph, 6, **PUSH | {"method": "exact"})
    same(made(graph, exact, count, runner, store), diffusion_neighbors(graph, 6, method="exact"))
    for metric in ("cosine", "euclidean"):
        table = made(graph, feature_info(graph, 6, metric), count, runner, store)
        same(table, feature_neighbors(graph, 6, metric=metric))


def test_dense_features(tmp_path: Path, store: Store) -> None:
    dense = load(save_graph(tmp_path / "dense.npz", random_graph(90, 150, dense=True)))
    same(made(dense, feature_info(dense, 4, "cosine"), 4, make_runner("local"), store), feature_neighbors(dense, 4))


def begun_in(heard: list[tuple[str, Any]]) -> int:
    return sum(phase == "begun" for phase, _ in heard)


def test_finished_shards_are_kept_and_damaged_ones_made_again(graph: Graph, store: Store) -> None:
    info, runner = diffusion_info(graph, 6, **PUSH), make_runner("local")
    whole = made(graph, info, 5, runner, store)
    files = sorted((store.folder / "cells").glob("*.json"))
    assert len(files) == 5
    files[0].write_text(files[0].read_text()[:-200])  # truncated
    wrong = json.loads(files[1].read_text())
    wrong["result"]["ids"]["base64"] = wrong["result"]["scores"]["base64"]
    files[1].write_text(json.dumps(wrong))
    files[2].unlink()
    heard: list[tuple[str, Any]] = []
    same(made(graph, info, 5, runner, store, listener=lambda *each: heard.append(each)), whole)
    assert begun_in(heard) == 3
    heard.clear()
    same(made(graph, info, 5, runner, store, listener=lambda *each: heard.append(each)), whole)
    assert begun_in(heard) == 0


def test_shards_of_another_graph_or_version_are_not_taken(
    graph: Graph, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = diffusion_info(graph, 6, **PUSH)
    made(graph, info, 3, make_runner("local"), store)
    other = load(save_graph(tmp_path / "other.npz", random_graph(300, 700, seed=6)))
    same(made(other, info, 3, make_runner("local"), store), diffusion_neighbors(other, 6, method="push"))
    monkeypatch.setattr("naq.__version__", "0.0.0")
    heard: list[tuple[str, Any]] = []
    made(graph, info, 3, make_runner("local"), store, listener=lambda *each: heard.append(each))
    assert begun_in(heard) == 3


def test_a_full_disk_and_a_shard_that_cannot_be_computed_are_errors(
    graph: Graph, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = diffusion_info(graph, 6, **PUSH)

    def full(path: Path, value: Any) -> Path:
        raise DataError(f"cannot write {path}: No space left on device; free some space or choose another folder.")

    with monkeypatch.context() as patch:
        patch.setattr("naq_paper.cells.store.write_json", full)
        with pytest.raises(DataError, match="No space left"):
            made(graph, info, 3, make_runner("local"), store)
    with monkeypatch.context() as patch:
        patch.setattr("naq_scale.neighbor_rows.diffusion_rows", lambda *_: 1 / 0)
        with pytest.raises(NaqError, match="3 shards failed, graph neighbors rows 0-100: ZeroDivisionError"):
            made(graph, info, 3, make_runner("local"), store)
    same(made(graph, info, 3, make_runner("local"), store), diffusion_neighbors(graph, 6, method="push"))


def test_packed_arrays_are_checked() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.array_equal(unpacked(packed(array, "<i4")), array)
    for wrong in (None, {}, packed(array, "<i4") | {"checksum": "0"}, packed(array, "<i4") | {"base64": "?"}):
        with pytest.raises(DataError):
            unpacked(wrong)


def test_the_shards_of_a_killed_worker_are_made_again(graph: Graph, store: Store) -> None:
    info = diffusion_info(graph, 6, **PUSH)
    heard: list[tuple[str, Any]] = []
    with make_runner("processes", 1) as runner:

        def kill() -> None:
            while not any(slot.planned for slot in runner._slots):  # type: ignore[attr-defined]
                time.sleep(0.001)
            runner._slots[0].process.kill()  # type: ignore[attr-defined]

        thread = threading.Thread(target=kill)
        thread.start()
        table = made(graph, info, 3, runner, store, listener=lambda *each: heard.append(each))
        thread.join()
    same(table, diffusion_neighbors(graph, 6, method="push"))
    states = [facts["state"] for phase, facts in heard if phase == "finished"]
    assert states.count("failed") == 1 and states.count("done") == 3
