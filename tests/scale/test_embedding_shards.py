"""Embeddings in shards are those made in this process, bit for bit, whoever computes them and whatever goes wrong."""

from __future__ import annotations

import errno
import multiprocessing
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from generate import generate
from graphs import random_graph, without_features
from naq import load
from naq.embedders import EMBEDDERS
from naq.errors import DataError, NaqError
from naq_scale import sharded
from naq_scale.array_folder import ArrayFile
from naq_scale.blocks import closed_form
from naq_scale.engines import Engine, make_engine
from naq_scale.mapped import save_mapped
from naq_scale.sharded import FileArray, FileShards, write_part

BLOCK = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def words(folder: Path) -> Path:
    """600 nodes with counts of 200 words."""
    return generate(folder / "words", 600, 3000, classes=5, noise=1.0, features=200, sparse=True)


@pytest.fixture
def shards_in(tmp_path: Path) -> Path:
    return tmp_path / "v.npy.shards"


def alone(graph: Path, folder: Path, method: str = "naq-plus", **options: Any) -> np.ndarray:
    return EMBEDDERS[method](load(graph), dim=20, **options).embed_to(folder / "alone.npy", block=BLOCK)


def made(
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


@pytest.mark.parametrize("shards", [1, 3, 40])
@pytest.mark.parametrize("kind", ["words", "wide", "narrow", "doubted", "bare"])
def test_shards_make_the_vectors_of_this_process(folder: Path, shards_in: Path, kind: str, shards: int) -> None:
    path = folder / kind
    if not path.exists():
        if kind in ("doubted", "bare"):
            graph = random_graph(300, 900, 40, dense=True)
            save_mapped(path, graph if kind == "doubted" else without_features(graph))
        else:
            features = {"wide": 80, "narrow": 16, "words": 200}[kind]
            generate(path, 500, 2500, classes=5, features=features, sparse=kind == "words")
    for method in ("naq-plus",) if kind == "bare" else ("naq-plus", "smooth"):
        expected = alone(path, shards_in.parent, method)
        assert np.array_equal(made(path, shards_in, shards, method), expected)


def test_neighbours_of_a_sample_are_merged(words: Path, shards_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_form, "SEARCHED", 150)
    monkeypatch.setattr(closed_form, "ENTRIES", 1)
    expected, stages = alone(words, shards_in.parent), set()
    assert np.array_equal(made(words, shards_in, tell=lambda stage, done, total: stages.add(stage)), expected)
    assert {"sparse product", "image", "start", "smoothing", "neighbours", "rows"} <= stages


def test_options_that_take_other_ways(words: Path, shards_in: Path) -> None:
    for method, options in (
        ("smooth", {"center": False, "smoothing": "hops", "steps": 2}),
        ("smooth", {"tfidf": False, "unit_first": False}),
        ("naq-plus", {"edges": "doubted", "pairs": "mutual"}),
    ):
        found = made(words, shards_in, method=method, **options)
        assert np.array_equal(found, alone(words, shards_in.parent, method, **options))


def test_finished_shards_are_kept_and_damaged_ones_made_again(
    words: Path, shards_in: Path, written: list[Path]
) -> None:
    expected = np.array(made(words, shards_in))
    first = list(written)
    assert len(first) > 20
    assert np.array_equal(made(words, shards_in), expected) and written == first
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
    assert np.array_equal(made(words, shards_in), expected)
    assert sorted(written) == sorted({truncated, flipped, unread, gone})


def test_shards_of_another_graph_of_other_options_or_version_are_not_taken(
    words: Path, shards_in: Path, folder: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(words, shards_in, method="smooth")
    all_of_them = len(written)
    other = folder / "other"
    generate(other, 600, 3000, classes=5, features=200, sparse=True, seed=1)
    assert np.array_equal(made(other, shards_in, method="smooth"), alone(other, shards_in.parent, "smooth"))
    written.clear()
    made(words, shards_in, method="smooth", steps=3)
    assert 0 < len(written) < all_of_them  # the words are the same, what is smoothed is not
    written.clear()
    monkeypatch.setattr("naq.__version__", "0.0.0")
    made(words, shards_in, method="smooth")
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
            made(words, shards_in)
    assert not (shards_in.parent / "v.npy").exists()
    assert np.array_equal(made(words, shards_in), alone(words, shards_in.parent))
    assert not list(shards_in.glob(".*"))


def test_more_arrays_than_open_files(words: Path, shards_in: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = alone(words, shards_in.parent, "smooth")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 40, hard))
        found = made(words, shards_in, 10, "smooth", tile=1)  # 10 shards of 20 tiles
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert np.array_equal(found, expected)


def test_a_worker_that_does_not_see_the_folder_says_so(words: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not see the folder .* choose --out on a file system that all"):
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


def test_the_shards_of_a_killed_worker_are_made_again(words: Path, shards_in: Path) -> None:
    killed: list[Any] = []

    def kill(stage: str, done: int, total: int) -> None:
        if done and not killed:
            killed.append(multiprocessing.active_children()[0])
            killed[0].kill()

    with make_engine("processes", 2) as engine:
        found = made(words, shards_in, engine=engine, tell=kill)
    assert killed and np.array_equal(found, alone(words, shards_in.parent))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_on_ray(words: Path, shards_in: Path) -> None:
    pytest.importorskip("ray")
    with make_engine("ray", 2) as engine:
        found = made(words, shards_in, engine=engine)
    assert np.array_equal(found, alone(words, shards_in.parent))
