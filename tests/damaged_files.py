"""Every file that is read, with its reader: what a damaged one may do, and what one trial of it gave.

A reader may refuse (one sentence of at most 500 characters, as a ``NaqError``), set the file aside, or accept it. It may never raise anything else,
and a file of ours with another content may never be accepted.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import mutations
from naq.errors import LONGEST, NaqError
from naq.graph import Graph

Mutate = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Target:
    """One kind of file.

    Attributes:
        make: writes it, and what goes with it, into a folder; returns the file that is to be damaged.
        read: its content as a text, or None where the file was set aside; only a ``NaqError`` may come out.
        rebuild: changes what is inside and builds a well-formed file around it.
        ours: whether it has a checksum, so that no other content is accepted.
    """

    name: str
    make: Callable[[Path], Path]
    read: Callable[[Path], str | None]
    rebuild: Mutate
    ours: bool


def digest(*parts: Any) -> str:
    """One text for equal contents."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.kind}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(repr(part).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


@cache
def small_graph() -> Graph:
    draw = np.random.default_rng(0)
    n, d = 40, 12
    edges = draw.integers(0, n, (2, 120))
    words = sp.random(n, d, 0.3, random_state=0, format="csr")
    words.data[:] = draw.integers(1, 9, words.nnz)
    names = [f"node {i}" for i in range(n)]
    return Graph(edges, words, np.arange(n) % 4, names=names, class_names=list("abcd"), nodes=n, name="small")


def _graph(graph: Graph) -> str:
    return digest(graph.hash, *(x for x in (graph.names, graph.class_names, graph.vocab) if x is not None))


def _make_graph(folder: Path) -> Path:
    from naq.data import save_graph

    return save_graph(folder / "g.npz", small_graph())


def _load(path: Path) -> str:
    from naq.data import load

    return _graph(load(path))


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

    from naq.protocol import run

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


def _read_run(path: Path) -> str | None:
    """What a second run into the folder reads; None where it would compute again."""
    from naq.protocol.config import RunConfig
    from naq.protocol.folder import RunFolder

    kept = json.loads(_run_folder()["config.json"])
    told: list[str] = []

    class Same(RunConfig):
        def to_json(self) -> dict[str, Any]:
            return kept["config"]

    config = object.__new__(Same)
    with RunFolder(path.parent, config, kept["data"], lambda phase, facts: told.append(str(facts["text"]))) as folder:
        result = folder.finished()
    if any(len(text) > 2 * LONGEST for text in told):
        raise AssertionError(f"a warning of {max(map(len, told))} characters")
    if path.name == "config.json":
        return None if told else digest(json.loads(path.read_bytes())["config"])
    return None if result is None else digest(result.to_json(), result.embedding)


@cache
def _fitted() -> Any:
    from naq.classifier import FewShotNodeClassifier

    model = FewShotNodeClassifier().fit(small_graph().without_labels())
    model.predict(support=[0, 1, 2, 3], labels=list("abcd"))
    return model


def _make_classifier(folder: Path) -> Path:
    return _fitted().save(folder / "m.safetensors")


def _read_classifier(path: Path) -> str:
    from naq.classifier import FewShotNodeClassifier

    model = FewShotNodeClassifier.load(path, small_graph().without_labels())
    return digest(model.vectors_, model.labels_.nodes, model.labels_.slots, model.labels_.classes, model.get_params())


def _record(number: int) -> Any:
    from naq.grid.cells import Cell, Identity
    from naq.grid.records import Record

    cell = Cell("empty", {"number": number, "dataset": "toy", "seed": 0})
    result = {"number": number, "accuracy": 0.625, "per_task": [0.5, 0.75]}
    return Record(cell, Identity("d", "1", "c", "o"), result, None, 1.5, {"device": "cpu"}, "2026-01-31T12:00:00Z")


def _make_cell(folder: Path) -> Path:
    from naq.grid.store import Store

    store = Store(folder)
    store.prepare()
    store.put(_record(1))
    return next((folder / "cells").iterdir())


def _read_cell(path: Path) -> str | None:
    from naq.grid.store import Store

    record = Store(path.parent.parent).get(path.stem)
    return None if record is None else digest(record.to_json())


def _make_requests(folder: Path) -> Path:
    from naq.experiments.folder import Requests
    from report_folders import make_request

    requests = Requests()
    requests.add([make_request(), make_request("feature-noise")], {"toy": "somewhere/toy.npz"})
    requests.save(folder)
    return folder / "requests.json"


def _read_requests(path: Path) -> str:
    from naq.experiments.folder import Requests

    found = Requests.load(path.parent)
    return digest([request.to_json() for request in found.requests], found.paths)


def _make_pack(folder: Path) -> Path:
    from naq.experiments.folder import pack_folder
    from naq.grid.store import Store

    _make_requests(folder / "results")
    store = Store(folder / "results")
    store.prepare()
    for number in range(3):
        store.put(_record(number))
    pack_folder(folder / "results", folder / "p.zip")
    return folder / "p.zip"


def _read_pack(path: Path) -> str:
    from naq.experiments.folder import unpack_folder
    from naq.grid.store import Store

    place = path.parent / "unpacked"
    shutil.rmtree(place, ignore_errors=True)
    unpack_folder(path, place)
    return digest([record.to_json() for record in Store(place).records()], _read_requests(place / "requests.json"))


def _make_records(folder: Path) -> Path:
    from naq.grid.records import write_records

    write_records(folder / "r.json.xz", map(_record, range(3)))
    return folder / "r.json.xz"


def _read_records(path: Path) -> str:
    from naq.grid.records import read_records

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
    from naq.data import import_tables

    folder = path.parent
    edges = next(p for p in (folder / "edges.csv", folder / "edges.csv.gz", folder / "edges.parquet") if p.exists())
    nodes = next(p for p in (folder / "nodes.parquet", folder / "nodes.csv") if p.exists())
    vector = [str(path)] if path.suffix == ".npy" else []
    from naq.data import Choice

    return _graph(import_tables(edges, nodes, Choice(vector=vector) if vector else Choice())[0])


def _make_csv(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        edges, nodes = _tables(folder)
        if name == "edges.csv.gz":
            edges.unlink()
            (folder / name).write_bytes(gzip.compress(EDGES.encode(), mtime=0))
        if name == "nodes.parquet":
            import pyarrow as pa
            import pyarrow.csv
            import pyarrow.parquet as pq

            pq.write_table(pa.csv.read_csv(io.BytesIO(NODES.encode())), folder / name)
            nodes.unlink()
        if name == "v.npy":
            np.save(folder / name, np.random.default_rng(0).random((12, 3), dtype=np.float32))
        return folder / name

    return make


def _make_graphml(folder: Path) -> Path:
    import networkx as nx

    graph = nx.karate_club_graph()
    nx.write_graphml(graph, folder / "k.graphml")
    return folder / "k.graphml"


def _make_labels(folder: Path) -> Path:
    path = folder / "few.csv"
    path.write_text("node,class\n" + "".join(f"node {i},{'abcd'[i % 4]}\n" for i in range(8)))
    return path


def _read_labels(path: Path) -> str:
    from naq.classifier import read_labels

    labels = read_labels(path, small_graph())
    return digest(labels.nodes, labels.slots, labels.classes)


def _make_side(folder: Path) -> Path:
    from naq.data.download import verify

    path = folder / "d.bin"
    path.write_bytes(b"content" * 100)
    verify(path)
    return path


def _read_side(path: Path) -> str:
    from naq.data.download import verify

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
        Target("mat, compressed", _make_mat(True), _load, mutations.damaged, False),
        Target("mat: edges", _make_network, _load, _TEXT, False),
        Target("ogb", _make_ogb, _load, _ZIP, False),
        Target("csv: edges", _make_csv("edges.csv"), _import, _TEXT, False),
        Target("csv: nodes", _make_csv("nodes.csv"), _import, _TEXT, False),
        Target("csv.gz", _make_csv("edges.csv.gz"), _import, mutations.damaged, False),
        Target("parquet", _make_csv("nodes.parquet"), _import, mutations.damaged, False),
        Target("npy", _make_csv("v.npy"), _import, mutations.rebuilt_npy, False),
        Target("graphml", _make_graphml, _load, _TEXT, False),
        Target("labels", _make_labels, _read_labels, _TEXT, False),
    )
}


@dataclass(frozen=True)
class Trial:
    """What came of one damaged file: ``refused``, ``same`` (accepted with the same content), ``other`` (accepted, nobody can tell), or a
    fault: ``silent``, ``traceback``, ``long``."""

    outcome: str
    detail: str = ""

    @property
    def fault(self) -> bool:
        return self.outcome in ("silent", "traceback", "long")


class Bench:
    """Damages one kind of file again and again, each time by a number."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target, self.folder = target, folder
        made = folder / "made"
        made.mkdir(parents=True)
        self.path = target.make(made).relative_to(made)
        self.files = {p.relative_to(made): p.read_bytes() for p in made.rglob("*") if p.is_file()}
        self.content = self.files[self.path]
        self.expected = self._read(made / self.path)
        assert self.expected is not None, f"{target.name}: the whole file is not accepted"

    def _read(self, path: Path) -> str | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.target.read(path)

    def damage(self, seed: int) -> bytes:
        draw = random.Random(f"{self.target.name}/{seed}")
        return (mutations.damaged if draw.random() < 0.5 else self.target.rebuild)(self.content, draw)

    def trial(self, seed: int) -> Trial:
        return self.trial_of(self.damage(seed))

    def trial_of(self, content: bytes) -> Trial:
        if content == self.content:
            return Trial("same")
        place = self.folder / "trial"
        shutil.rmtree(place, ignore_errors=True)
        for file, whole in self.files.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(content if file == self.path else whole)
        try:
            found = self._read(place / self.path)
        except NaqError as error:
            text = str(error)
            ok = len(text) <= LONGEST and text.isprintable()
            return Trial("refused" if ok else "long", text[:200])
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            import traceback

            return Trial("traceback", "".join(traceback.format_exception(error))[-1500:])
        if found is None:
            return Trial("refused")
        if found == self.expected:
            return Trial("same")
        return Trial("silent" if self.target.ours else "other", "another content was accepted")
