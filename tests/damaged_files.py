"""Every file that is read, with its reader: the targets of the fuzzer."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import mutations
from damage_bench import Bench, Target, Trial, digest, small_graph
from damaged_folders import FOLDERS, graph_digest
from damaged_studio import STUDIO
from naq.errors import LONGEST
from naq.graph import Graph

__all__ = ["TARGETS", "Bench", "Target", "Trial", "digest", "small_graph"]


def _make_graph(folder: Path) -> Path:
    from naq.io import save_graph

    return save_graph(folder / "g.npz", small_graph())


def _load(path: Path) -> str:
    from naq.io import load

    return graph_digest(load(path))


def _make_tasks(folder: Path) -> Path:
    from naq.tasks import ClassSplit, sample_tasks

    tasks = sample_tasks(small_graph(), way=2, shot=1, queries=3, count=20, seed=0)
    return tasks.save(folder / "t.npz", ClassSplit((0, 1), (2,), (3,)))


def _read_tasks(path: Path) -> str:
    from naq.tasks import Tasks, split_of_file

    tasks, split = Tasks.load(path, way=2, shot=1).check(small_graph()), split_of_file(path, small_graph())
    return digest(tasks.support, tasks.query, split)


def _make_table(folder: Path) -> Path:
    from naq.neighbors import feature_neighbors

    return feature_neighbors(small_graph(), 4).save(folder / "n.npz")


def _read_table(path: Path) -> str:
    from naq.neighbors import NeighborTable

    table = NeighborTable.load(path)
    return digest(table.ids, table.scores, dict(table.info))


def _make_cached(folder: Path) -> Path:
    from naq.neighbors import feature_neighbors

    feature_neighbors(small_graph(), 4, cache=folder)
    return next((folder / "tables").iterdir())


def _read_cached(path: Path) -> str | None:
    from naq.neighbors.table import _of_cache

    table = _of_cache(path, path.stem)
    return digest(table.ids, table.scores, dict(table.info))


def _make_episodes(folder: Path) -> Path:
    from naq.episodes import naq_episodes
    from naq.neighbors import feature_neighbors

    return naq_episodes(feature_neighbors(small_graph(), 4), way=3, queries=4, count=6).save(folder / "e.npz")


def _read_episodes(path: Path) -> str:
    from naq.episodes import load_episodes

    found = load_episodes(path)
    return digest(found.support, found.query, found.mask, dict(found.info))


def _make_checkpoint(folder: Path) -> Path:
    import torch

    from naq.training.checkpoint import save_state

    tensors = {"model/weight": torch.arange(12.0).reshape(3, 4), "optimizer/0/step": torch.tensor(3.0)}
    facts = {
        "key": "k",
        "update": 3,
        "history": {"steps": [1, 2], "loss": [0.5, 0.25]},
        "losses": [1.5],
        "seconds": 2.0,
    }
    save_state(folder / "c.safetensors", tensors, facts)
    return folder / "c.safetensors"


def _read_checkpoint(path: Path) -> str:
    from naq.training.checkpoint import load_state

    tensors, facts = load_state(path)
    return digest(*((name, tensors[name].numpy()) for name in sorted(tensors)), facts)


@cache
def _run_folder() -> dict[str, bytes]:
    """The files of a finished run, and where it stands."""
    import tempfile

    from naq import run

    with tempfile.TemporaryDirectory() as place:
        run(_labelled(), "smooth", way=2, out=Path(place) / "r", baseline=False)
        return {file.name: file.read_bytes() for file in (Path(place) / "r").iterdir() if file.is_file()}


@cache
def _labelled() -> Graph:
    """Large enough for classes to test on."""
    draw = np.random.default_rng(1)
    n = 6 * 14
    return Graph(draw.integers(0, n, (2, 200)), draw.random((n, 5)), np.arange(n) % 6, nodes=n, name="labelled")


def _make_run(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        for file, content in _run_folder().items():
            (folder / file).write_bytes(content)
        return folder / name

    return make


def second_run(path: Path, whole: dict[str, bytes], told: list[str] | None = None) -> Any:
    """What a second run into the folder of ``path`` reads; None where it would compute again."""
    from naq.run.config import RunConfig
    from naq.run.folder import RunFolder

    kept = json.loads(whole["config.json"])
    told = [] if told is None else told

    class Same(RunConfig):
        def to_json(self) -> dict[str, Any]:
            return kept["config"]

    config = object.__new__(Same)
    with RunFolder(path.parent, config, kept["data"], lambda phase, facts: told.append(str(facts["text"]))) as folder:
        result = folder.finished()
    if any(len(text) > 2 * LONGEST for text in told):
        raise AssertionError(f"a warning of {max(map(len, told))} characters")
    return result


def _read_run(path: Path) -> str | None:
    told: list[str] = []
    result = second_run(path, _run_folder(), told)
    if path.name == "config.json":
        return None if told else digest(json.loads(path.read_bytes())["config"])
    return None if result is None else digest(result.to_json(), result.embedding)


@cache
def _fitted() -> Any:
    from naq.classifier import FewShotNodeClassifier

    model = FewShotNodeClassifier().fit(small_graph().without_labels())
    model.set_labels(support=[0, 1, 2, 3], labels=list("abcd"))
    return model


def _make_classifier(folder: Path) -> Path:
    return _fitted().save(folder / "m.safetensors")


def _read_classifier(path: Path) -> str:
    from naq.classifier import FewShotNodeClassifier

    model = FewShotNodeClassifier.load(path, small_graph().without_labels())
    parts = (model.vectors_, model.labels_.nodes, model.labels_.class_index, model.labels_.classes, model.get_params())
    return digest(*parts, model.predict(), model.explain_choice_)


def _record(number: int) -> Any:
    from naq_paper.cells.cell import Cell, Identity
    from naq_paper.cells.records import Record

    cell = Cell("empty", {"number": number, "dataset": "toy", "seed": 0})
    result = {"number": number, "accuracy": 0.625, "per_task": [0.5, 0.75]}
    return Record(cell, Identity("d"), result, None, 1.5, {"device": "cpu"}, "2026-01-31T12:00:00Z")


def _make_cell(folder: Path) -> Path:
    from naq_paper.cells.store import Store

    store = Store(folder)
    store.prepare()
    store.put(_record(1))
    return next((folder / "cells").iterdir())


def _read_cell(path: Path) -> str | None:
    from naq_paper.cells.store import Store

    record = Store(path.parent.parent).get(path.stem)
    return None if record is None else digest(record.to_json())


def _make_requests(folder: Path) -> Path:
    from naq_paper.experiments.folder import Requests
    from report_folders import make_request

    requests = Requests()
    requests.add([make_request(), make_request("feature-noise")], {"toy": "somewhere/toy.npz"})
    requests.save(folder)
    return folder / "requests.json"


def _read_requests(path: Path) -> str:
    from naq_paper.experiments.folder import Requests

    found = Requests.load(path.parent)
    return digest([request.to_json() for request in found.requests], found.paths)


def _make_pack(folder: Path) -> Path:
    from naq_paper.cells.store import Store
    from naq_paper.experiments.folder import pack_folder

    _make_requests(folder / "results")
    store = Store(folder / "results")
    store.prepare()
    for number in range(3):
        store.put(_record(number))
    pack_folder(folder / "results", folder / "p.zip")
    return folder / "p.zip"


def _read_pack(path: Path) -> str:
    from naq_paper.cells.store import Store
    from naq_paper.experiments.folder import unpack_folder

    place = path.parent / "unpacked"
    shutil.rmtree(place, ignore_errors=True)
    unpack_folder(path, place)
    return digest([record.to_json() for record in Store(place).records()], _read_requests(place / "requests.json"))


def _make_records(folder: Path) -> Path:
    from naq_paper.cells.records import write_records

    write_records(folder / "r.json.xz", map(_record, range(3)))
    return folder / "r.json.xz"


def _read_records(path: Path) -> str:
    from naq_paper.cells.records import read_records

    return digest([record.to_json() for record in read_records(path)])


def _make_mat(compressed: bool) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from scipy.io import savemat

        for part, nodes in (("train", (0, 1, 2, 3)), ("test", (4, 5))):
            content = {
                "Index": np.array([nodes], dtype=np.int32).T,
                "Label": np.array([[node // 2 for node in nodes]], dtype=float).T,
                "Attributes": sp.csc_matrix(np.eye(6)[list(nodes)]),
            }
            savemat(folder / f"Toy_{part}.mat", content, do_compression=compressed)
        (folder / "Toy_network").write_text("".join(f"{i}\t{(i + 1) % 6}\n{(i + 1) % 6}\t{i}\n" for i in range(6)))
        return folder / "Toy_train.mat"

    return make


def _make_network(folder: Path) -> Path:
    _make_mat(False)(folder)
    return folder / "Toy_network"


def _make_ogb(folder: Path) -> Path:
    texts = {
        "edge": "0,1\n1,2\n2,3\n",
        "node-feat": "0.5,1\n1.25,2\n-0.5,3\n7,8.5\n",
        "node-label": "0\n1\n1\n0\n",
        "num-node-list": "4\n",
        "num-edge-list": "3\n",
    }
    with zipfile.ZipFile(folder / "o.zip", "w") as archive:
        for name, text in texts.items():
            archive.writestr(f"o/raw/{name}.csv.gz", gzip.compress(text.encode(), mtime=0))
    return folder / "o.zip"


EDGES = "source,target\n" + "".join(f"n{i},n{(i + step) % 12}\n" for i in range(12) for step in (2, 4))
NODES = "id,bio,age,kind\n" + "".join(
    f"n{i},{('red round', 'blue square')[i % 2]} w{i // 2}x,{i},{'ab'[i % 2]}\n" for i in range(12)
)


def _tables(folder: Path) -> tuple[Path, Path]:
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    edges.write_text(EDGES)
    nodes.write_text(NODES)
    return edges, nodes


def _import(path: Path) -> str:
    from naq.io import import_tables

    folder = path.parent
    kinds = ("edges.csv", "edges.csv.gz", "edges.tsv", "edges.parquet")
    edges = next(p for p in (folder / kind for kind in kinds) if p.exists())
    nodes = next(p for p in (folder / "nodes.parquet", folder / "nodes.csv") if p.exists())
    vector = [str(path)] if path.suffix == ".npy" else []
    from naq.io import Choice

    return graph_digest(import_tables(edges, nodes, Choice(vector=vector) if vector else Choice())[0])


def _make_csv(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        edges, nodes = _tables(folder)
        if name == "edges.csv.gz":
            edges.unlink()
            (folder / name).write_bytes(gzip.compress(EDGES.encode(), mtime=0))
        if name == "edges.tsv":
            edges.unlink()
            (folder / name).write_text(EDGES.replace(",", "\t"))
        if name.endswith(".parquet"):
            import pyarrow as pa
            import pyarrow.csv
            import pyarrow.parquet as pq

            whole = nodes if name.startswith("nodes") else edges
            pq.write_table(pa.csv.read_csv(io.BytesIO(whole.read_bytes())), folder / name)
            whole.unlink()
        if name == "v.npy":
            np.save(folder / name, np.random.default_rng(0).random((12, 3), dtype=np.float32))
        return folder / name

    return make


def _make_graphml(folder: Path) -> Path:
    import networkx as nx

    graph = nx.karate_club_graph()
    nx.write_graphml(graph, folder / "k.graphml")
    return folder / "k.graphml"


def _make_cora_full(folder: Path) -> Path:
    """As it is published: without our checksums, with a member that holds objects."""
    words = sp.csr_array(small_graph().features)
    edges = small_graph().adjacency
    arrays = {"labels": np.arange(40) % 4}
    for prefix, matrix in (("adj", edges), ("attr", words)):
        arrays |= {f"{prefix}_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr")}
        arrays[f"{prefix}_shape"] = np.array(matrix.shape)
    np.savez_compressed(folder / "c.npz", idx_to_node=np.array({0: "a title"}, dtype=object), **arrays)
    return folder / "c.npz"


def _read_cora_full(path: Path) -> str:
    from naq_paper.datasets.cora_full import read_cora_full

    return graph_digest(read_cora_full(path))


def _make_labels(folder: Path) -> Path:
    path = folder / "few.csv"
    path.write_text("node,class\n" + "".join(f"node {i},{'abcd'[i % 4]}\n" for i in range(8)))
    return path


def _read_labels(path: Path) -> str:
    from naq.classifier import read_labels

    labels = read_labels(path, small_graph())
    return digest(labels.nodes, labels.class_index, labels.classes)


def _make_side(folder: Path) -> Path:
    from naq.io.download import verify

    path = folder / "d.bin"
    path.write_bytes(b"content" * 100)
    verify(path)
    return path


def _read_side(path: Path) -> str:
    from naq.io.download import verify

    return digest(verify(path).read_bytes())


_ZIP, _JSON, _TENSORS, _TEXT = (
    mutations.rebuilt_zip,
    mutations.rebuilt_json,
    mutations.rebuilt_tensors,
    mutations.rebuilt_text,
)
TARGETS = {
    target.name: target
    for target in (
        Target("graph", _make_graph, _load, _ZIP, True),
        Target("tasks", _make_tasks, _read_tasks, _ZIP, True),
        Target("neighbour table", _make_table, _read_table, _ZIP, True),
        Target("cached table", _make_cached, _read_cached, _ZIP, True),
        Target("episodes", _make_episodes, _read_episodes, _ZIP, True),
        Target("checkpoint", _make_checkpoint, _read_checkpoint, _TENSORS, True),
        Target("classifier", _make_classifier, _read_classifier, _TENSORS, True),
        Target("run: config", _make_run("config.json"), _read_run, _JSON, True),
        Target("run: metrics", _make_run("metrics.json"), _read_run, _JSON, True),
        Target("run: embedding", _make_run("embedding.safetensors"), _read_run, _TENSORS, True),
        Target("cell", _make_cell, _read_cell, _JSON, True),
        Target("requests", _make_requests, _read_requests, _JSON, True),
        Target("pack", _make_pack, _read_pack, _ZIP, True),
        Target("records", _make_records, _read_records, mutations.rebuilt_xz, True),
        Target("download", _make_side, _read_side, mutations.damaged, True),
        Target("mat", _make_mat(False), _load, mutations.damaged, False),
        Target("mat, compressed", _make_mat(True), _load, mutations.rebuilt_mat, False),
        Target("mat: edges", _make_network, _load, _TEXT, False),
        Target("ogb", _make_ogb, _load, _ZIP, False),
        Target("csv: edges", _make_csv("edges.csv"), _import, _TEXT, False),
        Target("csv: nodes", _make_csv("nodes.csv"), _import, _TEXT, False),
        Target("csv.gz", _make_csv("edges.csv.gz"), _import, mutations.rebuilt_gz, False),
        Target("tsv: edges", _make_csv("edges.tsv"), _import, _TEXT, False),
        Target("parquet", _make_csv("nodes.parquet"), _import, mutations.rebuilt_parquet, False),
        Target("parquet: edges", _make_csv("edges.parquet"), _import, mutations.rebuilt_parquet, False),
        Target("cora-full", _make_cora_full, _read_cora_full, _ZIP, False),
        Target("npy", _make_csv("v.npy"), _import, mutations.rebuilt_npy, False),
        Target("graphml", _make_graphml, _load, _TEXT, False),
        Target("labels", _make_labels, _read_labels, _TEXT, False),
        *FOLDERS,
        *STUDIO,
    )
}

RESEALED = {
    mutations.rebuilt_zip: mutations.resealed_zip,
    mutations.rebuilt_json: mutations.resealed_json,
    mutations.rebuilt_tensors: mutations.resealed_tensors,
    mutations.rebuilt_xz: mutations.resealed_xz,
}
"""For files of ours: the same damage with checksums that fit, so that it reaches what is behind them."""
TARGETS |= {
    f"{name}, resealed": replace(
        target, name=f"{name}, resealed", rebuild=RESEALED[target.rebuild], ours=False, resealed=True
    )
    for name, target in list(TARGETS.items())
    if target.ours and target.rebuild in RESEALED
}
