"""Folders that are read, with one of their files damaged: graph folders, shards of a table, run folders with weights, failed cells."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import mutations
from damage_bench import Target, digest, small_graph
from naq.graph import Graph


def graph_digest(graph: Graph) -> str:
    return digest(graph.hash, *(x for x in (graph.names, graph.class_names, graph.vocab) if x is not None))


def make_mapped(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from naq_scale.mapped import save_mapped

        return save_mapped(folder / "g", small_graph()) / name

    return make


def read_mapped(path: Path) -> str:
    """Opened as every command does, and with every checksum, which must agree where both accept it."""
    from naq.io import load

    graph = load(path.parent)
    verified = load(path.parent, verify=True)
    assert verified.hash == graph.hash
    return digest(graph_digest(graph), graph.name)


def _shard_work(folder: Path) -> tuple[np.ndarray, int]:
    """The table of :func:`small_graph` in three shards, in a folder next to its file, and how many were computed."""
    from naq.io import load
    from naq.neighbors.feature import feature_info
    from naq_scale.engines import Engine
    from naq_scale.sharded import sharded_table

    graph, told = load(folder / "g.npz"), []
    source, shards = str(folder / "g.npz"), folder / "t.npz.shards"
    table = sharded_table(
        graph, feature_info(graph, 4, "cosine"), 3, Engine(), shards, source, lambda done, total: told.append(done)
    )
    return np.concatenate([table.ids, table.scores.view(np.int32)]), len(told) - 1


def make_shard(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from naq.io import save_graph

        save_graph(folder / "g.npz", small_graph())
        _shard_work(folder)
        return min((folder / "t.npz.shards").iterdir()) / name

    return make


def read_shard(path: Path) -> str | None:
    """The table; None where the damaged shard was computed again, which must give the same one."""
    table, again = _shard_work(path.parents[2])
    if again:
        assert digest(table) == _table_digest(), "a damaged shard changed the table"
        return None
    return digest(table)


@cache
def _table_digest() -> str:
    from naq.neighbors import feature_neighbors

    table = feature_neighbors(small_graph(), 4)
    return digest(np.concatenate([table.ids, table.scores.view(np.int32)]))


@cache
def _trained() -> dict[str, bytes]:
    """The files of a finished training, and where it stands."""
    with tempfile.TemporaryDirectory() as place:
        _train(Path(place) / "r")
        return {file.name: file.read_bytes() for file in (Path(place) / "r").iterdir() if file.is_file()}


def make_weights(folder: Path) -> Path:
    for file, content in _trained().items():
        (folder / file).write_bytes(content)
    return folder / "weights.safetensors"


def read_weights(path: Path) -> str | None:
    from safetensors.numpy import load_file

    from damaged_files import second_run

    result = second_run(path, _trained())
    if result is None:
        return None
    weights = load_file(path)
    return digest(result.to_json(), *((name, weights[name]) for name in sorted(weights)))


@cache
def _begun() -> dict[str, bytes]:
    """The files of a training that was ended after its second checkpoint."""
    from naq.training import checkpoint, loop

    copies: list[dict[str, bytes]] = []
    with tempfile.TemporaryDirectory() as place:
        write = checkpoint.save_state

        def save(path: Path, *content: Any) -> None:
            write(path, *content)
            copies.append({f.name: f.read_bytes() for f in path.parent.iterdir() if f.is_file()})

        before, loop.CHECKPOINT_SECONDS = loop.CHECKPOINT_SECONDS, 0.0
        checkpoint.save_state = save  # type: ignore[assignment]
        try:
            _train(Path(place) / "r")
        finally:
            checkpoint.save_state, loop.CHECKPOINT_SECONDS = write, before
    return copies[1]


def _train(folder: Path) -> Any:
    from damaged_files import _labelled
    from naq import run

    small = {"episodes": 16, "evaluate_every": 4, "options": {"latent": 8}, "episode": {"queries": 3}, "cache": None}
    return run(_labelled(), "naq-feat/protonet", way=2, out=folder, baseline=False, **small)


def make_resumed(folder: Path) -> Path:
    for name, content in _begun().items():
        (folder / name).write_bytes(content)
    return folder / "checkpoint.safetensors"


def read_resumed(path: Path) -> str | None:
    """The run that goes on from the checkpoint, to its end; None where it started again."""
    found = _train(path.parent)
    if (path.parent / "damaged").exists():
        assert found.accuracy == _train_once(), "it started again and came to another result"
        return None
    return digest(found.accuracy, found.embedding, found.facts["best_step"])


@cache
def _train_once() -> float:
    with tempfile.TemporaryDirectory() as place:
        return _train(Path(place) / "r").accuracy


def make_failed(folder: Path) -> Path:
    from dataclasses import replace

    from damaged_files import _record
    from naq_paper.cells.store import Store

    store = Store(folder)
    store.prepare()
    store.put(replace(_record(1), result=None, error="it failed"))
    return next((folder / "failed").iterdir())


def read_failed(path: Path) -> str | None:
    from naq_paper.cells.store import Store

    record = Store(path.parent.parent).failure(path.stem)
    return None if record is None else digest(record.to_json())


_JSON, _NPY = mutations.rebuilt_json, mutations.rebuilt_npy
FOLDERS = (
    Target("graph folder: manifest", make_mapped("manifest.json"), read_mapped, _JSON, True),
    Target("graph folder: edges", make_mapped("adj_indices.npy"), read_mapped, _NPY, True),
    Target("graph folder: pointers", make_mapped("adj_indptr.npy"), read_mapped, _NPY, True),
    Target("graph folder: features", make_mapped("attr_data.npy"), read_mapped, _NPY, True),
    Target("graph folder: labels", make_mapped("labels.npy"), read_mapped, _NPY, True),
    Target("graph folder: names", make_mapped("names.npy"), read_mapped, _NPY, True),
    Target("shard of a table: manifest", make_shard("manifest.json"), read_shard, _JSON, True),
    Target("run: weights", make_weights, read_weights, mutations.rebuilt_tensors, True),
    Target("run: resumed", make_resumed, read_resumed, mutations.rebuilt_tensors, True, share=0.05),
    Target("failed cell", make_failed, read_failed, _JSON, True),
)
