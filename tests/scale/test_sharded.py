"""Tables in shards are those made in one piece, whoever computes them and whatever goes wrong."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphs import random_graph
from naq import Graph, diffusion_neighbors, feature_neighbors, load
from naq.errors import DataError, NaqError, OptionError
from naq.io import save_graph
from naq.neighbors import NeighborTable
from naq.neighbors.diffusion import diffusion_info
from naq.neighbors.feature import feature_info
from naq_scale import sharded
from naq_scale.engines import Engine, Processes, check_answers, check_engine, make_engine

PUSH: dict[str, Any] = {"alpha": 0.1, "self_loops": True, "method": "push", "tolerance": 1e-4}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_graph(tmp_path_factory.mktemp("graph") / "g.npz", random_graph(300, 700, seed=5))


@pytest.fixture(scope="module")
def graph(file: Path) -> Graph:
    return load(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shards"


class Counted:
    """How many shards were made since the first call, which says how many were there."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.calls.append((done, total))

    def made(self) -> int:
        calls, self.calls = self.calls, []
        return len(calls) - 1


def made(
    graph: Graph, info: dict[str, Any], count: int, folder: Path, engine: Engine | None = None, tell: Any = None
) -> NeighborTable:
    return sharded.sharded_table(
        graph, info, count, engine or Engine(), folder, str(graph.source), tell or (lambda *_: None)
    )


def same(one: NeighborTable, two: NeighborTable) -> None:
    assert np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores)
    assert one.ids.dtype == two.ids.dtype and one.scores.dtype == two.scores.dtype
    assert dict(one.info) == {name: value for name, value in two.info.items() if name not in ("fill", "graph")}


def test_an_approximate_feature_table_is_one_shard(graph: Graph, folder: Path) -> None:
    table = made(graph, feature_info(graph, 6, "cosine", "approximate"), 7, folder)
    assert len(list(folder.iterdir())) == 1
    same(table, feature_neighbors(graph, 6, search="approximate"))
    assert table.info["search"] == "approximate" and 0.9 < table.info["recall"] <= table.info["recall_with_ties"]


@pytest.mark.parametrize("count", [1, 7, 40])
def test_shards_make_the_table_of_one_piece(graph: Graph, folder: Path, count: int) -> None:
    same(made(graph, diffusion_info(graph, 6, **PUSH), count, folder), diffusion_neighbors(graph, 6, method="push"))
    exact = diffusion_info(graph, 6, **PUSH | {"method": "exact"})
    same(made(graph, exact, count, folder), diffusion_neighbors(graph, 6, method="exact"))
    for metric in ("cosine", "euclidean"):
        table = made(graph, feature_info(graph, 6, metric), count, folder)
        same(table, feature_neighbors(graph, 6, metric=metric))


def test_dense_features(tmp_path: Path, folder: Path) -> None:
    dense = load(save_graph(tmp_path / "dense.npz", random_graph(90, 150, dense=True)))
    same(made(dense, feature_info(dense, 4, "cosine"), 4, folder), feature_neighbors(dense, 4))


def test_finished_shards_are_kept_and_damaged_ones_made_again(graph: Graph, folder: Path) -> None:
    info, tell = diffusion_info(graph, 6, **PUSH), Counted()
    whole = made(graph, info, 5, folder)
    shards = sorted(folder.iterdir())
    assert len(shards) == 5
    truncated, flipped, unread, gone = (shard / "ids.npy" for shard in shards[:4])
    truncated.write_bytes(truncated.read_bytes()[:-8])
    content = bytearray(flipped.read_bytes())
    content[-3] ^= 1
    flipped.write_bytes(content)
    (unread.parent / "manifest.json").write_text("{")
    gone.unlink()
    same(made(graph, info, 5, folder, tell=tell), whole)
    assert tell.made() == 4
    same(made(graph, info, 5, folder, tell=tell), whole)
    assert tell.made() == 0


def test_shards_of_another_graph_or_version_are_not_taken(
    graph: Graph, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, tell = diffusion_info(graph, 6, **PUSH), Counted()
    made(graph, info, 3, folder)
    other = load(save_graph(tmp_path / "other.npz", random_graph(300, 700, seed=6)))
    same(made(other, info, 3, folder), diffusion_neighbors(other, 6, method="push"))
    monkeypatch.setattr("naq.__version__", "0.0.0")
    made(graph, info, 3, folder, tell=tell)
    assert tell.made() == 3


def test_a_graph_that_changed_meanwhile_is_an_error(tmp_path: Path, folder: Path) -> None:
    old = load(save_graph(tmp_path / "g.npz", random_graph(30, 60, seed=1)))
    save_graph(tmp_path / "g.npz", random_graph(30, 60, seed=2))
    with pytest.raises(DataError, match="is not the graph that the shards are made of"):
        made(old, diffusion_info(old, 3, **PUSH), 2, folder)


def test_a_shard_that_cannot_be_computed_is_an_error(
    graph: Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = diffusion_info(graph, 6, **PUSH)
    with monkeypatch.context() as patch:
        patch.setattr("naq_scale.sharded.diffusion_rows", lambda *_: 1 / 0)
        with pytest.raises(NaqError, match="a shard failed: ZeroDivisionError"):
            made(graph, info, 3, folder)
    same(made(graph, info, 3, folder), diffusion_neighbors(graph, 6, method="push"))


def test_ctrl_c_keeps_what_is_finished(graph: Graph, folder: Path) -> None:
    info, tell = diffusion_info(graph, 6, **PUSH), Counted()

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(graph, info, 5, folder, tell=stop)
    same(made(graph, info, 5, folder, tell=tell), diffusion_neighbors(graph, 6, method="push"))
    assert tell.made() == 3


def test_the_shards_of_a_killed_worker_are_made_again(graph: Graph, folder: Path) -> None:
    info, killed = diffusion_info(graph, 6, **PUSH), []

    def kill(done: int, total: int) -> None:
        if done == 1 and not killed:
            killed.extend(multiprocessing.active_children())
            for process in killed:
                process.kill()

    with make_engine("processes", 2) as engine:
        table = made(graph, info, 8, folder, engine, tell=kill)
    assert killed
    same(table, diffusion_neighbors(graph, 6, method="push"))
    assert not multiprocessing.active_children()


def ended_again_and_again() -> None:
    import os

    os._exit(3)


def test_a_call_that_ends_every_worker_is_an_error() -> None:
    engine = Processes(1)
    with pytest.raises(NaqError, match="died 4 times in a row"):
        list(engine.run(ended_again_and_again, [()]))
    engine.close()


def test_bad_engines() -> None:
    for given in (("spark", 2, None), ("local", 0, None), ("processes", 2, "host:1")):
        with pytest.raises(OptionError):
            check_engine(*given)
    with pytest.raises(NaqError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 "):
        check_answers("127.0.0.1:1")


def test_a_shard_says_what_it_is(graph: Graph, folder: Path) -> None:
    made(graph, diffusion_info(graph, 6, **PUSH), 2, folder)
    for shard in folder.iterdir():
        manifest = json.loads((shard / "manifest.json").read_text())
        assert manifest["format"] == sharded.KIND and 0 <= manifest["refined"][0] <= manifest["refined"][1] <= 150
