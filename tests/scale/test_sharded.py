"""Tables and embeddings in shards are those made in one piece, whoever computes them and whatever goes wrong."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dying
from dying import FITS, die_on_large
from generate import generate
from graphs import random_graph, without_features
from naq import Graph, diffusion_neighbors, feature_neighbors, load
from naq.embedders import EMBEDDERS
from naq.errors import DataError, NaqError, OptionError
from naq.io import save_graph
from naq.neighbors import NeighborTable
from naq.neighbors.diffusion import diffusion_info
from naq.neighbors.feature import feature_info
from naq_scale import sharded
from naq_scale.array_folder import ArrayFile
from naq_scale.blocks import closed_form
from naq_scale.engines import Engine, Processes, check_cluster, check_engine, make_engine
from naq_scale.mapped import save_mapped
from naq_scale.sharded import FileArray, FileShards, write_part

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


def made(
    graph: Graph, info: dict[str, Any], count: int, folder: Path, engine: Engine | None = None, tell: Any = None
) -> NeighborTable:
    return sharded.make_table_in_shards(
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


def test_dense_features_and_another_graph(graph: Graph, tmp_path: Path, folder: Path) -> None:
    made(graph, feature_info(graph, 4, "cosine"), 4, folder)
    dense = load(save_graph(tmp_path / "dense.npz", random_graph(300, 700, dense=True)))
    same(made(dense, feature_info(dense, 4, "cosine"), 4, folder), feature_neighbors(dense, 4))


def test_finished_shards_are_kept_and_damaged_ones_made_again(graph: Graph, folder: Path) -> None:
    info, seen = diffusion_info(graph, 6, **PUSH), []
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
    same(made(graph, info, 5, folder, tell=lambda done, total: seen.append(done)), whole)
    same(made(graph, info, 5, folder, tell=lambda done, total: seen.append(done)), whole)
    assert seen == [1, 2, 3, 4, 5, 5]


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
    info, seen = diffusion_info(graph, 6, **PUSH), []

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(graph, info, 5, folder, tell=stop)
    table = made(graph, info, 5, folder, tell=lambda done, total: seen.append(done))
    same(table, diffusion_neighbors(graph, 6, method="push"))
    assert seen == [2, 3, 4, 5]


def test_a_call_that_ends_every_worker_is_an_error() -> None:
    engine = Processes(1)
    with pytest.raises(NaqError, match="died 4 times in a row"):
        list(engine.run(os._exit, [(3,)]))
    engine.close()


@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_workers_that_die_are_given_smaller_blocks(folder: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
        paths = [str(Path(dying.__file__).parent), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    with make_engine(engine, 1) as workers:
        shards = FileShards(None, workers, folder, "", shards=2, key="key")
        made = shards.run(die_on_large, [(0, 1)], {"rows_at_once": 2 * FITS}, {})
        assert [int(part["at_once"][0, 0]) for part in made] == [FITS]
    again = FileShards(None, Engine(), folder, "", shards=2, key="key")  # with other sizes it is the same shard
    assert again.run(die_on_large, [(0, 1)], {"rows_at_once": 64 * FITS}, {})[0]["at_once"][0, 0] == FITS


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("Tried to allocate"), RuntimeError("other")])
def test_only_errors_of_memory_make_blocks_smaller(folder: Path, error: Exception) -> None:
    sizes = []

    def short(block: Any) -> Any:
        sizes.append(block.facts["columns_at_once"])
        if sizes[-1] > 16:
            raise error
        return {"one": np.ones(1)}

    shards = FileShards(None, Engine(), folder, "", shards=1, key="key")
    if isinstance(error, RuntimeError) and "other" in str(error):
        with pytest.raises(NaqError, match="other"):
            shards.run(short, [(0, 1)], {"columns_at_once": 64}, {})
    else:
        shards.run(short, [(0, 1)], {"columns_at_once": 64}, {})
        assert sizes == [64, 32, 16]


def test_bad_engines() -> None:
    for given in (("spark", 2, None), ("local", 0, None), ("processes", 2, "host:1")):
        with pytest.raises(OptionError):
            check_engine(*given)
    with pytest.raises(NaqError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 "):
        check_cluster("127.0.0.1:1")


# Embeddings.

BLOCK = 64


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def words(graphs: Path) -> Path:
    """600 nodes with counts of 200 words."""
    return generate(graphs / "words", 600, 3000, classes=5, noise=1.0, features=200, sparse=True)


@pytest.fixture
def shards_in(tmp_path: Path) -> Path:
    return tmp_path / "v.npy.shards"


def alone(graph: Path, folder: Path, method: str = "naq-plus", **options: Any) -> np.ndarray:
    return EMBEDDERS[method](load(graph), dim=20, **options).embed_to(folder / "alone.npy", block=BLOCK)


def embedded(
    path: Path, folder: Path, shards: int = 4, method: str = "naq-plus", tell: Any = None, tile: int | None = None,
    engine: Engine | None = None, **options: Any,
) -> np.ndarray:  # fmt: skip
    graph, tell = load(path), tell or (lambda *_: None)
    parts = FileShards(graph, engine or Engine(), folder, str(path), shards=shards, processes=2, tell=tell)
    return EMBEDDERS[method](graph, dim=20, **options).embed_to(
        folder.parent / "v.npy", block=BLOCK, tile=tile, shards=parts
    )


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The shards that were computed, in order."""
    found: list[Path] = []

    def write(source: Any, place: Path, *more: Any) -> None:
        found.append(place)
        write_part(source, place, *more)

    monkeypatch.setattr(sharded, "write_part", write)
    return found


@pytest.mark.parametrize("shards", [3, 40])
@pytest.mark.parametrize("kind", ["words", "wide", "narrow", "doubted", "bare"])
def test_shards_make_the_vectors_of_this_process(graphs: Path, shards_in: Path, kind: str, shards: int) -> None:
    path = graphs / kind
    if not path.exists():
        if kind in ("doubted", "bare"):
            graph = random_graph(300, 900, 40, dense=True)
            save_mapped(path, graph if kind == "doubted" else without_features(graph))
        else:
            features = {"wide": 80, "narrow": 16, "words": 200}[kind]
            generate(path, 500, 2500, classes=5, features=features, sparse=kind == "words")
    for method in ("naq-plus",) if kind == "bare" else ("naq-plus", "smooth"):
        expected = alone(path, shards_in.parent, method)
        assert np.array_equal(embedded(path, shards_in, shards, method), expected)


def test_neighbours_of_a_sample_are_merged(words: Path, shards_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_form, "SEARCHED", 150)
    monkeypatch.setattr(closed_form, "ENTRIES", 1)
    expected, stages = alone(words, shards_in.parent), set()
    assert np.array_equal(embedded(words, shards_in, tell=lambda stage, done, total: stages.add(stage)), expected)
    assert {"start", "smoothing", "neighbours", "rows"} <= stages


def test_options_that_take_other_ways(words: Path, shards_in: Path) -> None:
    for method, options in (
        ("smooth", {"center": False, "smoothing": "hops", "steps": 2}),
        ("smooth", {"tfidf": False, "unit_first": False}),
        ("naq-plus", {"edges": "doubted", "pairs": "mutual"}),
    ):
        found = embedded(words, shards_in, method=method, **options)
        assert np.array_equal(found, alone(words, shards_in.parent, method, **options))
        expected = EMBEDDERS[method](load(words), dim=20, **options).embed()
        assert np.allclose(found @ found.T, expected @ expected.T, atol=5e-3)


def test_finished_parts_are_kept_and_damaged_ones_made_again(words: Path, shards_in: Path, written: list[Path]) -> None:
    expected = np.array(embedded(words, shards_in))
    first = list(written)
    assert len(first) > 10
    assert np.array_equal(embedded(words, shards_in), expected) and written == first
    truncated, flipped, unread, gone = first[1], first[-2], first[len(first) // 2], first[4]
    file = min(truncated.glob("*.npy"))
    file.write_bytes(file.read_bytes()[:-8])
    file = min(flipped.glob("*.npy"))
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    (unread / "manifest.json").write_text("{")
    min(gone.glob("*.npy")).unlink()
    for given in shards_in.glob("*.npy"):
        given.write_bytes(b"")  # inputs are written anew
    written.clear()
    assert np.array_equal(embedded(words, shards_in), expected)
    assert sorted(written) == sorted({truncated, flipped, unread, gone})


def test_shards_of_another_graph_of_other_options_or_version_are_not_taken(
    words: Path, shards_in: Path, graphs: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded(words, shards_in, method="smooth")
    all_of_them = len(written)
    other = graphs / "other"
    generate(other, 600, 3000, classes=5, features=200, sparse=True, seed=1)
    assert np.array_equal(embedded(other, shards_in, method="smooth"), alone(other, shards_in.parent, "smooth"))
    written.clear()
    embedded(words, shards_in, method="smooth", steps=3)
    assert 0 < len(written) < all_of_them  # the words are the same, what is smoothed is not
    written.clear()
    monkeypatch.setattr("naq.__version__", "0.0.0")
    embedded(words, shards_in, method="smooth")
    assert len(written) == all_of_them


@pytest.mark.parametrize("what", ["part", "input"])
def test_a_full_disk_is_one_sentence_and_leaves_no_vectors(
    words: Path, shards_in: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    place, name = {"part": (ArrayFile, "append"), "input": (np, "save")}[what]
    real, calls = getattr(place, name), [0]

    def full(*given: Any, **more: Any) -> None:
        calls[0] += 1
        if calls[0] > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(place, name, full)
        with pytest.raises(NaqError, match="No space left on device; free some space"):
            embedded(words, shards_in)
    assert not (shards_in.parent / "v.npy").exists()
    assert np.array_equal(embedded(words, shards_in), alone(words, shards_in.parent))
    assert not list(shards_in.glob(".*"))


def test_more_arrays_than_open_files(words: Path, shards_in: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = alone(words, shards_in.parent, "smooth")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 40, hard))
        found = embedded(words, shards_in, 10, "smooth", tile=1)  # 10 shards of 20 tiles
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert np.array_equal(found, expected)


def test_a_worker_that_does_not_see_the_folder_says_so(words: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not see the folder .* choose out= on a file system that all"):
        write_part((str(words), ""), tmp_path / "elsewhere" / "shard", "moments", (0, 600), {"block": 64}, {})


def test_arrays_keep_their_layout(words: Path, tmp_path: Path) -> None:
    parts = FileShards(load(words), Engine(), tmp_path, str(words), shards=2)
    for array in (np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2).T, np.arange(4), np.zeros((2, 3, 4))):
        found = parts._in_file(array)
        assert np.array_equal(found[:], array) and found.shape == array.shape and len(found) == len(array)
        assert found[:].flags.c_contiguous == array.flags.c_contiguous
        assert parts._in_file(found) is found
    assert len(list(tmp_path.iterdir())) == 4
    found.path.write_bytes(b"x")
    with pytest.raises(DataError, match="cannot be read"):
        FileArray(found.path)


def test_the_shards_of_killed_workers_are_made_again(graph: Graph, words: Path, shards_in: Path, folder: Path) -> None:
    killed: list[Any] = []

    def kill(done: int, most: int) -> None:
        if done and len(killed) < most:
            killed.append(multiprocessing.active_children()[0])
            killed[-1].kill()

    with make_engine("processes", 2) as engine:
        info = diffusion_info(graph, 6, **PUSH)
        table = made(graph, info, 8, folder, engine, tell=lambda done, total: kill(done, 1))
        found = embedded(words, shards_in, engine=engine, tell=lambda stage, done, total: kill(done, 2))
    assert len(killed) == 2 and not multiprocessing.active_children()
    same(table, diffusion_neighbors(graph, 6, method="push"))
    assert np.array_equal(found, alone(words, shards_in.parent))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_on_ray(words: Path, shards_in: Path) -> None:
    pytest.importorskip("ray")
    with make_engine("ray", 2) as engine:
        found = embedded(words, shards_in, engine=engine)
    assert np.array_equal(found, alone(words, shards_in.parent))
