"""Embeddings in shards are those made in this process, bit for bit, whoever computes them and whatever goes wrong."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphs import random_graph, without_features
from naq import load
from naq.embedders import EMBEDDERS
from naq.errors import DataError, NaqError
from naq.io.generator import generate
from naq.neighbors import sampled
from naq_paper.cells.datasets import DatasetCache
from naq_paper.cells.runners import Runner, make_runner
from naq_paper.cells.store import Store
from naq_paper.measurements import Context, perform
from naq_scale.array_folder import ArrayFile
from naq_scale.arrays import SharedArrays
from naq_scale.blocks import closed_form
from naq_scale.embedding_parts import embedding_cell
from naq_scale.mapped import save_mapped
from naq_scale.shards import ShardedParts

BLOCK = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def words(folder: Path) -> Path:
    """600 nodes with counts of 200 words."""
    return generate(folder / "words", 600, 3000, classes=5, noise=1.0, features=200, sparse=True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "v.npy.shards")


def alone(graph: Path, folder: Path, method: str = "naq-plus", **options: Any) -> np.ndarray:
    return EMBEDDERS[method](load(graph), dim=20, **options).embed_to(folder / "alone.npy", block=BLOCK)


def made(
    graph: Path, runner: Runner, store: Store, shards: int = 4, method: str = "naq-plus", listener: Any = None,
    tile: int | None = None, **options: Any,
) -> np.ndarray:  # fmt: skip
    parts = ShardedParts(runner, store, "graph", {"graph": str(graph)}, shards=shards, processes=2, listener=listener)
    out = store.folder.parent / "v.npy"
    return EMBEDDERS[method](load(graph), dim=20, **options).embed_to(out, block=BLOCK, tile=tile, parts=parts)


class Heard:
    """What became of shards, in order."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def __call__(self, phase: str, facts: Any) -> None:
        if phase == "finished":
            self.states.append(facts["state"])

    def taken(self) -> list[str]:
        """What was heard since the last call."""
        states, self.states = self.states, []
        return states


@pytest.mark.parametrize("shards", [1, 3, 40])
@pytest.mark.parametrize("kind", ["words", "wide", "narrow", "doubted", "bare"])
def test_shards_make_the_vectors_of_this_process(folder: Path, store: Store, kind: str, shards: int) -> None:
    path = folder / kind
    if not path.exists():
        if kind in ("doubted", "bare"):
            graph = random_graph(300, 900, 40, dense=True)
            save_mapped(path, graph if kind == "doubted" else without_features(graph))
        else:
            generate(
                path,
                500,
                2500,
                classes=5,
                features={"wide": 80, "narrow": 16, "words": 200}[kind],
                sparse=kind == "words",
            )
    for method in ("naq-plus",) if kind == "bare" else ("naq-plus", "smooth"):
        expected = alone(path, store.folder.parent, method)
        assert np.array_equal(made(path, make_runner("local"), store, shards, method), expected)


def test_neighbours_of_a_sample_are_merged(words: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_form, "SEARCHED", 150)
    monkeypatch.setattr(sampled, "ENTRIES", 1)
    expected = alone(words, store.folder.parent)
    assert np.array_equal(made(words, make_runner("local"), store), expected)
    stages = {record.cell.config["stage"]: 0 for record in store.records()}
    assert {"sparse product", "image", "start", "smoothing", "neighbours", "rows"} <= set(stages)


def test_options_that_take_other_ways(words: Path, store: Store) -> None:
    for method, options in (
        ("smooth", {"center": False, "smoothing": "hops", "steps": 2}),
        ("smooth", {"tfidf": False, "unit_first": False}),
        ("naq-plus", {"edges": "doubted", "pairs": "mutual"}),
    ):
        found = made(words, make_runner("local"), store, method=method, **options)
        assert np.array_equal(found, alone(words, store.folder.parent, method, **options))


def test_finished_shards_are_kept_and_damaged_ones_made_again(words: Path, store: Store) -> None:
    heard = Heard()
    expected = np.array(made(words, make_runner("local"), store, listener=heard))
    states = heard.taken()
    assert len(states) > 20 and set(states) == {"done"}
    assert np.array_equal(made(words, make_runner("local"), store, listener=heard), expected) and not heard.taken()
    arrays = store.folder / "arrays"

    taken: set[str] = set()

    def file_of(stage: str, number: int) -> Path:
        record = [r for r in store.records() if r.cell.config["stage"] == stage][number]
        assert record.result is not None
        taken.add(record.identity.key(record.cell))
        return arrays / f"{min(e['sha256'] for e in record.result['arrays'].values())}.npy"

    truncated, flipped, gone = file_of("start", 0), file_of("start", 2), file_of("smoothing", 0)
    truncated.write_bytes(truncated.read_bytes()[:-8])
    content = bytearray(flipped.read_bytes())
    content[-3] ^= 1
    flipped.write_bytes(content)
    gone.unlink()
    record = min(file for file in (store.folder / "cells").glob("*.json") if file.stem not in taken)
    record.write_text(record.read_text()[:-20])
    for listed in arrays.glob("*.json"):
        listed.write_text("{")  # lists of arrays are written anew
    assert np.array_equal(made(words, make_runner("local"), store, listener=heard), expected)
    assert heard.taken() == ["done"] * 4


def test_shards_of_another_graph_of_other_options_or_version_are_not_taken(
    words: Path, store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    made(words, make_runner("local"), store, method="smooth", listener=heard)
    all_of_them = len(heard.taken())
    other = folder / "other"
    generate(other, 600, 3000, classes=5, features=200, sparse=True, seed=1)
    assert np.array_equal(
        made(other, make_runner("local"), store, method="smooth"), alone(other, store.folder.parent, "smooth")
    )
    made(words, make_runner("local"), store, method="smooth", listener=heard, steps=3)
    assert 0 < len(heard.taken()) < all_of_them  # the words are the same, what is smoothed is not
    monkeypatch.setattr("naq.__version__", "0.0.0")
    made(words, make_runner("local"), store, method="smooth", listener=heard)
    assert len(heard.taken()) == all_of_them


@pytest.mark.parametrize("what", ["part", "input"])
def test_a_full_disk_is_one_sentence_and_leaves_no_vectors(
    words: Path, store: Store, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    real, calls = ArrayFile.append, [0]

    def full(file: ArrayFile, piece: np.ndarray) -> None:
        calls[0] += 1
        if calls[0] > 8 and (file.path.parent.name.startswith(".put-") == (what == "input")):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, piece)

    with monkeypatch.context() as patch:
        patch.setattr(ArrayFile, "append", full)
        with pytest.raises(NaqError, match="No space left on device; free some space"):
            made(words, make_runner("local"), store)
    assert not (store.folder.parent / "v.npy").exists() and not list(store.failures())
    assert np.array_equal(made(words, make_runner("local"), store), alone(words, store.folder.parent))
    assert not list((store.folder / "arrays").glob(".*"))


def test_more_arrays_than_open_files(words: Path, store: Store) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = alone(words, store.folder.parent, "smooth")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 40, hard))
        found = made(words, make_runner("local"), store, 10, "smooth", tile=1)  # 10 shards of 20 tiles
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert np.array_equal(found, expected)


def test_a_worker_that_does_not_see_the_folder_says_so(words: Path, tmp_path: Path) -> None:
    cell = embedding_cell("graph", "moments", (0, 600), {"block": 64}, {})
    for arrays in (None, tmp_path / "elsewhere"):
        with pytest.raises(DataError, match=r"does not see the folder .* choose --out on a file system that all"):
            perform(cell, Context(DatasetCache({"graph": str(words)}), tmp_path, None, arrays=arrays))


def test_arrays_are_checked_and_keep_their_layout(tmp_path: Path) -> None:
    shared = SharedArrays(tmp_path)
    for array in (np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2).T, np.arange(4), np.zeros((2, 3, 4))):
        entry = shared.put(array)
        found = shared.open(entry, verify=True)
        assert np.array_equal(found[:], array) and found.shape == array.shape
        assert found[:].flags.c_contiguous == array.flags.c_contiguous
    for wrong in (
        {},
        {**entry, "bytes": 1},
        {**entry, "sha256": "../x"},
        {**entry, "shape": [24]},
        None,
        {**entry, "sha256": "0" * 64},
    ):
        with pytest.raises(DataError):
            shared.open(wrong)  # type: ignore[arg-type]


def test_the_shards_of_a_killed_worker_are_made_again(words: Path, store: Store) -> None:
    states: list[str] = []
    killed: list[Any] = []
    with make_runner("processes", 2) as runner:

        def listener(phase: str, facts: Any) -> None:
            if phase != "finished":
                return
            states.append(facts["state"])
            at_work = [slot for slot in runner._slots if slot.planned]  # type: ignore[attr-defined]
            if at_work and not killed:
                killed.append(at_work[0])
                at_work[0].process.kill()

        found = made(words, runner, store, listener=listener)
    assert np.array_equal(found, alone(words, store.folder.parent))
    assert killed and states.count("failed") <= 1  # none where the worker had just answered


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_on_ray(words: Path, store: Store) -> None:
    pytest.importorskip("ray")
    with make_runner("ray", 2) as runner:
        found = made(words, runner, store)
    assert np.array_equal(found, alone(words, store.folder.parent))
