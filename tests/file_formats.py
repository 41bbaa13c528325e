"""Every file that is read, with its writer and its reader, and :func:`check_file_format`, which damages it.

A reader may refuse (a ``NaqError`` of one printable line), set the file aside, or read the truth. It may not raise
anything else, and a file with our checksum is never read as something else.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import random
import shutil
import signal
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import safetensors.numpy
import scipy.sparse as sp
import torch
from scipy.io import savemat

import naq
import naq.classifier
from fake_records import make_request
from naq import Graph
from naq.episodes import load_episodes
from naq.errors import LONGEST, NaqError
from naq.files import checksum_of_arrays, read_bytes, sealed
from naq.files.arrays import MARK
from naq.files.disk import checksum_of_bytes
from naq.io import Choice, import_tables, save_graph, save_icebug, save_mapped
from naq.io.download import verify
from naq.neighbors.table import _of_cache
from naq.run.config import RunConfig
from naq.run.folder import RunFolder
from naq.tasks import split_of_file
from naq.training import checkpoint
from naq_paper.cells import records
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.store import Store
from naq_paper.datasets.cora_full import read_cora_full
from naq_paper.experiments.folder import Requests, pack_folder
from naq_paper.experiments.folder import read_pack as read_packed
from naq_studio.board import Entry
from naq_studio.cache import read_layout, write_layout
from naq_studio.journal import Journal


@dataclass(frozen=True)
class FileFormat:
    """One kind of file.

    Attributes:
        write: writes it, and what goes with it, into a folder; returns the file that is damaged.
        read: its content as a text, or None where the file was set aside.
        ours: whether it has a checksum, so that no other content is accepted.
        share: of the damaged files that other formats get, where reading takes long.
        resealed: whether checksums are computed anew after the damage, as somebody could on purpose.
    """

    name: str
    write: Callable[[Path], Path]
    read: Callable[[Path], str | None]
    ours: bool = True
    share: float = 1.0
    resealed: bool = False


class DamagedFile:
    """A file of one format in a folder; ``trial(seed)`` damages it and reads it."""

    def __init__(self, format: FileFormat, folder: Path) -> None:
        self.format, self.folder = format, folder
        made = folder / "made"
        made.mkdir(parents=True)
        self.path = format.write(made).relative_to(made)
        self.files = {p.relative_to(made): p.read_bytes() for p in made.rglob("*") if p.is_file()}
        self.content = self.files[self.path]
        self.truth = self.read(made / self.path)
        assert self.truth is not None, f"{format.name}: the whole file is not accepted"

    def read(self, path: Path) -> str | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.format.read(path)

    def restore(self, content: bytes | None = None) -> Path:
        """The folder as it was written, with another ``content`` of the file."""
        place = self.folder / "trial"
        shutil.rmtree(place, ignore_errors=True)
        for file, whole in self.files.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(whole if content is None or file != self.path else content)
        return place / self.path

    def damage(self, seed: int) -> bytes:
        draw = random.Random(f"{self.format.name}/{seed}")
        if not self.format.resealed and draw.random() < 0.5:
            return change_bytes(self.content, draw)
        return change_inside(self.content, draw, self.format.resealed)

    def trial(self, content: bytes | int) -> str:
        """``refused``, ``same``, ``other``, or what was wrong, beginning with ``FAULT``."""
        content = self.damage(content) if isinstance(content, int) else content
        path = self.restore(content)
        try:
            found = self.read(path)
        except NaqError as error:
            text = str(error)
            return (
                "refused"
                if len(text) <= LONGEST and text.isprintable()
                else f"FAULT: {len(text)} characters {text[:200]!r}"
            )
        except Exception as error:
            return "FAULT: " + "".join(traceback.format_exception(error))[-1500:]
        if left := [one.name for one in path.parent.rglob("*.naq.tmp*")]:
            return f"FAULT: half-written files are left: {left}"
        if found is None:
            return "refused"
        if found == self.truth:
            return "same"
        return "FAULT: another content was accepted" if self.format.ours and content != self.content else "other"


def check_file_format(format: FileFormat, folder: Path, seeds: range) -> None:
    """Cut, flipped, rebuilt and missing content of one format: refused, or read as what was written."""
    file, draw = DamagedFile(format, folder), random.Random(format.name)
    outcomes = set()
    seeds = seeds[: max(3, int(len(seeds) * format.share))]
    for seed in seeds:
        outcomes.add(outcome := file.trial(seed))
        assert not outcome.startswith("FAULT"), f"{format.name}, seed {seed}: {outcome}"
    assert "refused" in outcomes, "nothing was refused: the damage does not reach the reader"
    for _ in range(len(seeds) // 4 if format.ours else 0):  # what an accident does most often
        content = bytearray(file.content)
        for _ in range(draw.choice((1, 2))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        outcome = file.trial(bytes(content))
        assert outcome in ("refused", "same"), f"{format.name}, flipped bits: {outcome}"
    for what, make in (("folder", Path.mkdir), ("pipe", os.mkfifo)):  # a pipe would be waited for
        path = file.restore()
        path.unlink()
        make(path)
        signal.alarm(60)
        with suppress(NaqError):
            assert file.read(path) is None, f"{format.name}: a {what} was read"
        signal.alarm(0)


# ---- damage

NUMBERS = (0, 1, -1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63))
WORDS = (
    "", "\x1b[31mred\x1b[0m", "a\nb", "\u202e", "x" * 3000, "NaN", "../../etc/passwd", "$", "\ud800", "²", "0", "-1",
    "1e400",
)  # fmt: skip
HEADERS = (
    "'<i4'", "'<i8'", "'<f8'", "'|O'", "'<U9'", "'|V0'", "'<U0'", "(3,)", "(2, 3)", "(-1,)", "(2147483647, 9)", "True",
)  # fmt: skip


def change_bytes(content: bytes, draw: random.Random) -> bytes:
    """Bytes flipped, set, lost, doubled, cut off or inserted; one to three times."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        place, size = draw.randrange(len(content) + 1), draw.choice((1, 2, 4, 8, 16, 512))
        number = (draw.choice(NUMBERS) & (256**8 - 1)).to_bytes(8, draw.choice(("little", "big")))[: min(size, 8)]
        flipped = bytes(byte ^ 1 << draw.randrange(8) for byte in content[place : place + 1])
        content = content[:place] + draw.choice((
            b"", content[place + size :], content[max(0, place - size) :], flipped + content[place + 1 :],
            number + content[place + len(number) :], b"\0" * size + content[place + size :],
            draw.randbytes(min(size, 64)) + content[place:],
        ))  # fmt: skip
    return content


def change_inside(content: bytes, draw: random.Random, seal: bool = False) -> bytes:
    """Another value, member or cell in a file that is well formed around it; ``seal`` computes our checksums anew."""
    again = partial(change_inside, draw=draw, seal=seal)
    if content[:2] == b"\x1f\x8b":
        return gzip.compress(again(gzip.decompress(content)), 1, mtime=0)
    if content[:6] == b"\xfd7zXZ\0":
        return lzma.compress(again(lzma.decompress(content)), preset=0)
    if content[:4] == b"PK\3\4":
        return _change_zip(content, draw, seal)
    if content[:6] == b"\x93NUMPY":
        size = 10 + int.from_bytes(content[8:10], "little")
        header, data = content[10:size].decode("latin-1"), content[size:]
        old = draw.choice([part for part in (*HEADERS, "()", "False", "shape", "descr") if part in header] or ["{"])
        header, data = (
            (header.replace(old, draw.choice(HEADERS), 1), data)
            if draw.random() < 0.5
            else (header, change_bytes(data, draw))
        )
        return content[:8] + len(header).to_bytes(2, "little") + header.encode("latin-1") + data
    if content[8:9] == b"{" and (size := int.from_bytes(content[:8], "little")) < len(content):
        if seal:
            return _change_tensors(content, size, draw)
        header, data = content[8 : 8 + size], content[8 + size :]
        header, data = (again(header), data) if draw.random() < 0.6 else (header, change_bytes(data, draw))
        return len(header).to_bytes(8, "little") + header + data
    try:
        value = change_json(json.loads(content), draw)
    except ValueError:
        return _change_text(content, draw)
    return json_text(_seal(value) if seal else value).encode("utf-8", "surrogatepass")


def _change_zip(content: bytes, draw: random.Random, seal: bool) -> bytes:
    """Members left out, twice, renamed, exchanged or changed; the comment stays."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
        comment = archive.comment
    place, other, kind = draw.randrange(len(members)), draw.randrange(len(members)), draw.random()
    name, inside = members[place]
    if kind < 0.1:
        del members[place]
    elif kind < 0.2:
        members.append((name, members[other][1]))
    elif kind < 0.3:
        members[place] = (draw.choice((*WORDS, "labels.npy", "info.npy")), inside)
    elif kind < 0.4:
        members[place], members[other] = (name, members[other][1]), (members[other][0], inside)
    else:
        members[place] = (name, change_inside(inside, draw, seal))
    if seal and comment.startswith(MARK):
        sums = {name.removesuffix(".npy"): checksum_of_bytes(inside) for name, inside in members}
        comment = (MARK + json.dumps(sums).encode())[:65535]
    out = io.BytesIO()
    packing = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", packing) as archive:
        warnings.simplefilter("ignore")  # a name twice
        for name, inside in members:
            archive.writestr(zipfile.ZipInfo(name.encode("utf-8", "replace").decode()), inside)
        archive.comment = comment
    return out.getvalue()


def _change_tensors(content: bytes, size: int, draw: random.Random) -> bytes:
    """Other facts or other arrays in a safetensors file, with a checksum that fits."""
    arrays = safetensors.numpy.load(content)
    facts = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["facts"])
    name, kind = draw.choice(sorted(arrays)), draw.randrange(8)
    if kind < 4:
        facts = change_json(facts, draw)
    elif kind == 4:
        del arrays[name]
    elif kind == 5:
        arrays[draw.choice(("x", "model/x", "optimizer/0/exp_avg", "best/x"))] = arrays.pop(name)
    elif kind == 6:
        arrays[name] = arrays[name].astype(draw.choice((np.int8, np.float64, np.int64)))
    else:
        arrays[name] = np.resize(arrays[name], draw.choice(((), (0,), (1,), (3, 3), (7, 5), (200,))))
    text = json_text(facts)
    return safetensors.numpy.save(arrays, metadata={"facts": text, "checksum": checksum_of_arrays(text, arrays)})


def change_json(value: Any, draw: random.Random) -> Any:
    """The same values but for one, somewhere."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name, kind = draw.choice(list(value)), draw.random()
        if kind < 0.1:
            return {key: each for key, each in value.items() if key != name}
        if kind < 0.15:
            return {(draw.choice(WORDS) if key == name else key): each for key, each in value.items()}
        return value | {name: change_json(value[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        place = draw.randrange(len(value))
        return [*value[:place], change_json(value[place], draw), *value[place + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.5:
        return draw.choice((value + 1, -value, value / 2, 10**30, 1e308, 0))
    return draw.choice((None, True, [], {}, [[]], {"a": 1}, *NUMBERS, *WORDS, 0.5, "deep:50", "deep:100000"))


def json_text(value: Any) -> str:
    """As JSON, with brackets deeper and numbers longer than ``json.dumps`` writes."""
    text = json.dumps(value)
    for depth in (50, 100_000):
        text = text.replace(f'"deep:{depth}"', "[" * depth + "]" * depth)
    return text.replace("1" + "0" * 30, "9" * 5000)


def _seal(value: Any) -> Any:
    if isinstance(value, list):
        return [_seal(each) for each in value]
    if isinstance(value, dict) and "checksum" in value and "base64" not in value:
        return sealed({name: _seal(each) if name == "records" else each for name, each in value.items()})
    return value


def _change_text(content: bytes, draw: random.Random) -> bytes:
    """Lines and cells exchanged, quoted, doubled, or replaced."""
    lines = content.decode("utf-8", "replace").split("\n")
    place, kind = draw.randrange(len(lines)), draw.randrange(5)
    if kind == 0:
        lines.insert(place, draw.choice(lines))
    elif kind == 1:
        cells = lines[place].split(",")
        cells[draw.randrange(len(cells))] = draw.choice((*WORDS, *map(str, NUMBERS), '"', "9" * 5000, "a,b", "\t", ";"))
        lines[place] = ",".join(cells)
    elif kind == 2:
        lines[place] = draw.choice(("", ",", ",,,,", '"', "# x", "\ufeff", "\x00", "a" * 100_000))
    elif kind == 3:
        draw.shuffle(lines)
    else:
        lines = [line.replace(",", draw.choice(";\t| ")) for line in lines]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


# ---- what is written and read


def digest(*parts: Any) -> str:
    """One text for equal contents."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.kind}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
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


@cache
def labelled_graph() -> Graph:
    """Large enough for classes to test on."""
    draw = np.random.default_rng(1)
    n = 6 * 14
    return Graph(draw.integers(0, n, (2, 200)), draw.random((n, 5)), np.arange(n) % 6, nodes=n, name="labelled")


def graph_digest(graph: Graph) -> str:
    return digest(graph.hash, *(x for x in (graph.names, graph.class_names, graph.vocab) if x is not None))


def read_graph(path: Path) -> str:
    return graph_digest(naq.load(path))


def read_mapped(path: Path) -> str:
    """Opened as every command does, and with every checksum, which must agree where both accept it."""
    graph = naq.load(path.parent)
    assert naq.load(path.parent, verify=True).hash == graph.hash
    return digest(graph_digest(graph), graph.name)


def write_tasks(folder: Path) -> Path:
    tasks = naq.sample_tasks(small_graph(), way=2, shot=1, queries=3, count=20, seed=0)
    return tasks.save(folder / "t.npz", naq.ClassSplit((0, 1), (2,), (3,)))


def read_tasks(path: Path) -> str:
    tasks = naq.Tasks.load(path, way=2, shot=1).check(small_graph())
    return digest(tasks.support, tasks.query, split_of_file(path, small_graph()))


def write_neighbors(folder: Path) -> Path:
    return naq.feature_neighbors(small_graph(), 4).save(folder / "n.npz")


def write_cached(folder: Path) -> Path:
    naq.feature_neighbors(small_graph(), 4, cache=folder)
    return next((folder / "tables").iterdir())


def table_digest(table: naq.NeighborTable) -> str:
    return digest(table.ids, table.scores, dict(table.info))


def read_neighbors(path: Path) -> str:
    return table_digest(naq.NeighborTable.load(path))


def write_episodes(folder: Path) -> Path:
    table = naq.feature_neighbors(small_graph(), 4)
    return naq.naq_episodes(table, way=3, queries=4, count=6).save(folder / "e.npz")


def read_episodes(path: Path) -> str:
    found = load_episodes(path)
    return digest(found.support, found.query, found.mask, dict(found.info))


def write_checkpoint(folder: Path) -> Path:
    tensors = {"model/weight": torch.arange(12.0).reshape(3, 4), "optimizer/0/step": torch.tensor(3.0)}
    history = {"steps": [1, 2], "loss": [0.5, 0.25]}
    facts = {"key": "k", "update": 3, "history": history, "losses": [1.5], "seconds": 2.0}
    checkpoint.save_state(folder / "c.safetensors", tensors, facts)
    return folder / "c.safetensors"


def read_checkpoint(path: Path) -> str:
    tensors, facts = checkpoint.load_state(path)
    return digest(*((name, tensors[name].numpy()) for name in sorted(tensors)), facts)


def train(folder: Path, **more: Any) -> Any:
    """A short training with checkpoints."""
    given = {"episodes": 16, "evaluate_every": 4, "options": {"latent": 8}, "episode": {"queries": 3}, "cache": None}
    return naq.run(labelled_graph(), "naq-feat/protonet", way=2, out=folder, baseline=False, **given | more)


@cache
def run_folder() -> dict[str, bytes]:
    """The files of a finished training."""
    with tempfile.TemporaryDirectory() as place:
        train(Path(place) / "r")
        return {file.name: file.read_bytes() for file in (Path(place) / "r").iterdir() if file.is_file()}


def write_run(name: str, folder: Path) -> Path:
    for file, content in run_folder().items():
        (folder / file).write_bytes(content)
    return folder / name


def read_run(path: Path) -> str | None:
    """What a second run into the folder reads; None where it would compute again."""
    kept, warned = json.loads(run_folder()["config.json"]), []
    config = RunConfig.from_json(kept["config"])
    with RunFolder(path.parent, config, kept["data"], lambda phase, facts: warned.append(str(facts["text"]))) as folder:
        result = folder.finished()
    assert all(len(text) <= 2 * LONGEST for text in warned), "a long warning"
    if path.name == "config.json":
        return None if warned else digest(json.loads(path.read_bytes())["config"])
    if result is None:
        return None
    weights = safetensors.numpy.load_file(path.parent / "weights.safetensors")
    return digest(result.to_json(), result.embedding, *sorted(weights), *map(weights.get, sorted(weights)))


def write_classifier(folder: Path) -> Path:
    model = naq.FewShotNodeClassifier().fit(small_graph().without_labels())
    model.set_labels(support=[0, 1, 2, 3], labels=list("abcd"))
    return model.save(folder / "m.safetensors")


def read_classifier(path: Path) -> str:
    model = naq.FewShotNodeClassifier.load(path, small_graph().without_labels())
    parts = (model.vectors_, model.labels_.nodes, model.labels_.class_index, model.labels_.classes, model.get_params())
    return digest(*parts, model.predict(), model.explain_choice_)


def make_record(number: int, result: dict[str, Any] | None = None) -> records.Record:
    cell = Cell("empty", {"number": number, "dataset": "toy", "seed": 0})
    result = result or {"number": number, "accuracy": 0.625, "per_task": [0.5, 0.75]}
    return records.Record(cell, Identity("d"), result, None, 1.5, {"device": "cpu"}, "2026-01-31T12:00:00Z")


def write_cell(kind: str, folder: Path) -> Path:
    store = Store(folder)
    store.prepare()
    store.put(make_record(1) if kind == "cells" else replace(make_record(1), result=None, error="it failed"))
    return next((folder / kind).iterdir())


def read_cell(path: Path) -> str | None:
    store = Store(path.parent.parent)
    record = store.get(path.stem) if path.parent.name == "cells" else store.failure(path.stem)
    return None if record is None else digest(record.to_json())


def write_requests(folder: Path) -> Path:
    requests = Requests()
    requests.add([make_request(), make_request("feature-noise")], {"toy": "somewhere/toy.npz"})
    requests.save(folder)
    return folder / "requests.json"


def read_requests(path: Path) -> str:
    found = Requests.load(path.parent)
    return digest([request.to_json() for request in found.requests], found.paths)


def write_pack(folder: Path) -> Path:
    write_cell("cells", folder / "results")
    write_requests(folder / "results")
    pack_folder(folder / "results", folder / "p.zip")
    return folder / "p.zip"


def read_pack(path: Path) -> str:
    requests, packed = read_packed(path)
    return digest([record.to_json() for record in packed], [request.to_json() for request in requests])


def write_records(folder: Path) -> Path:
    (folder / "r.json.xz").write_bytes(records.pack_records(map(make_record, range(3))))
    return folder / "r.json.xz"


def read_records(path: Path) -> str:
    return digest([record.to_json() for record in records.unpack_records(read_bytes(path, "pack"), path)])


def write_mat(name: str, folder: Path) -> Path:
    for part, nodes in (("train", (0, 1, 2, 3)), ("test", (4, 5))):
        labels, words = np.array([[node // 2.0] for node in nodes]), sp.csc_matrix(np.eye(6)[list(nodes)])
        content = {"Index": np.array([nodes], dtype=np.int32).T, "Label": labels, "Attributes": words}
        savemat(folder / f"Toy_{part}.mat", content)
    (folder / "Toy_network").write_text("".join(f"{i}\t{(i + 1) % 6}\n{(i + 1) % 6}\t{i}\n" for i in range(6)))
    return folder / name


def write_ogb(folder: Path) -> Path:
    texts = {"edge": "0,1\n1,2\n2,3\n", "node-feat": "0.5,1\n1.25,2\n-0.5,3\n7,8.5\n", "node-label": "0\n1\n1\n0\n",
             "num-node-list": "4\n", "num-edge-list": "3\n"}  # fmt: skip
    with zipfile.ZipFile(folder / "o.zip", "w") as archive:
        for name, text in texts.items():
            archive.writestr(f"o/raw/{name}.csv.gz", gzip.compress(text.encode(), mtime=0))
    return folder / "o.zip"


EDGES = "source,target\n" + "".join(f"n{i},n{(i + step) % 12}\n" for i in range(12) for step in (2, 4))
NODES = "id,bio,age,kind\n" + "".join(
    f"n{i},{('red round', 'blue square')[i % 2]} w{i // 2}x,{i},{'ab'[i % 2]}\n" for i in range(12)
)


def write_tables(name: str, folder: Path) -> Path:
    (folder / "edges.csv").write_text(EDGES)
    (folder / "nodes.csv").write_text(NODES)
    if name.endswith(".parquet"):
        table = pyarrow.csv.read_csv(folder / f"{name.removesuffix('.parquet')}.csv")
        pyarrow.parquet.write_table(table, folder / name)
    elif name == "edges.csv.gz":
        (folder / name).write_bytes(gzip.compress(EDGES.encode(), mtime=0))
    elif name == "edges.tsv":
        (folder / name).write_text(EDGES.replace(",", "\t"))
    elif name == "v.npy":
        np.save(folder / name, np.random.default_rng(0).random((12, 3), dtype=np.float32))
    return folder / name


def read_tables(path: Path) -> str:
    edges = path if path.name.startswith("edges") else path.with_name("edges.csv")
    nodes = path if path.name.startswith("nodes") else path.with_name("nodes.csv")
    return graph_digest(import_tables(edges, nodes, Choice(vector=[str(path)] if path.suffix == ".npy" else []))[0])


def write_graphml(folder: Path) -> Path:
    nx.write_graphml(nx.karate_club_graph(), folder / "k.graphml")
    return folder / "k.graphml"


def write_cora_full(folder: Path) -> Path:
    """As it is published: without our checksums, with a member that holds objects."""
    arrays = {"labels": np.arange(40) % 4}
    for prefix, matrix in (("adj", small_graph().adjacency), ("attr", sp.csr_array(small_graph().features))):
        arrays |= {f"{prefix}_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr")}
        arrays[f"{prefix}_shape"] = np.array(matrix.shape)
    np.savez_compressed(folder / "c.npz", idx_to_node=np.array({0: "a title"}, dtype=object), **arrays)
    return folder / "c.npz"


def write_labels(folder: Path) -> Path:
    (folder / "few.csv").write_text("node,class\n" + "".join(f"node {i},{'abcd'[i % 4]}\n" for i in range(8)))
    return folder / "few.csv"


def read_labels(path: Path) -> str:
    labels = naq.classifier.read_labels(path, small_graph())
    return digest(labels.nodes, labels.class_index, labels.classes)


def write_download(folder: Path) -> Path:
    (folder / "d.bin").write_bytes(b"content" * 100)
    return verify(folder / "d.bin")


def write_journal(folder: Path) -> Path:
    journal = Journal(folder / "g.studio.csv", small_graph())
    for step in (
        [Entry("make", label="red")], [Entry("label", node, "red") for node in (1, 2, 3)],
        [Entry("skip", 7)], [Entry("undo")],
        [Entry("make", label="=blue, or not"), Entry("label", 4, "=blue, or not")], [Entry("none", 9)],
        [Entry("rename", label="red", value="dark red")], [Entry("label", 5, "dark red")],
    ):  # fmt: skip
        journal.write(step)
    journal.close()
    (folder / ".g.studio.csv.lock").unlink(missing_ok=True)
    return folder / "g.studio.csv"


def board_digest(board: Any) -> str:
    return digest(sorted(board.labels.items()), sorted(board.classes.items()), sorted(board.skipped), board.unknown)


def read_journal(path: Path) -> str:
    """Opened, continued and opened again: what was repaired stays repaired, and a new step is kept."""
    journal = Journal(path, small_graph())
    found, problems = board_digest(journal.board), journal.problems
    journal.write([Entry("unknown", value="on" if journal.board.unknown == "off" else "off")])
    expected = board_digest(journal.board)
    journal.close()
    assert all(len(one) <= LONGEST and one.isprintable() for one in problems), "a long sentence about a line"
    again = Journal(path, small_graph())
    kept = board_digest(again.board)
    again.close()
    assert kept == expected, "another journal after it was opened again"
    return found


def write_map(folder: Path) -> Path:
    write_layout(folder, "pca", np.random.default_rng(0).random((40, 2), dtype=np.float32))
    return folder / "pca.npz"


def read_map(path: Path) -> str | None:
    places = read_layout(path.parent, path.stem, 40)
    return None if places is None else digest(places)


_OURS = [
    FileFormat("graph", lambda folder: save_graph(folder / "g.npz", small_graph()), read_graph),
    FileFormat("tasks", write_tasks, read_tasks),
    FileFormat("neighbour table", write_neighbors, read_neighbors),
    FileFormat("cached table", write_cached, lambda path: table_digest(_of_cache(path, path.stem))),
    FileFormat("episodes", write_episodes, read_episodes),
    FileFormat("checkpoint", write_checkpoint, read_checkpoint),
    FileFormat("classifier", write_classifier, read_classifier, share=0.5),
    *(FileFormat(f"run: {name}", partial(write_run, f"{name}.{ending}"), read_run)
      for name, ending in zip(("config", "metrics", "embedding", "weights"), ("json",) * 2 + ("safetensors",) * 2)),
    FileFormat("cell", partial(write_cell, "cells"), read_cell),
    FileFormat("failed cell", partial(write_cell, "failed"), read_cell),
    FileFormat("requests", write_requests, read_requests),
    FileFormat("pack", write_pack, read_pack),
    FileFormat("records", write_records, read_records),
    *(FileFormat(f"graph folder: {name}", lambda folder, name=name: save_mapped(folder / "g", small_graph()) / name,
                 read_mapped)
      for name in ("manifest.json", "adj_indices.npy", "adj_indptr.npy", "attr_data.npy", "labels.npy", "names.npy")),
    FileFormat("studio: map", write_map, read_map),
]  # fmt: skip
_OTHERS = [
    FileFormat("mat", partial(write_mat, "Toy_train.mat"), read_graph, False, 0.1),
    FileFormat("mat: edges", partial(write_mat, "Toy_network"), read_graph, False, 0.1),
    FileFormat("ogb", write_ogb, read_graph, False),
    *(FileFormat(f"table: {name}", partial(write_tables, name), read_tables, False)
      for name in ("edges.csv", "nodes.csv", "edges.csv.gz", "edges.tsv", "nodes.parquet", "edges.parquet", "v.npy")),
    *(FileFormat(f"icebug: {name}", lambda folder, name=name: save_icebug(folder / "g.icebug", small_graph()) / name,
                 lambda path: graph_digest(naq.load(path.parent)), False)
      for name in ("schema.cypher", "nodes_node.parquet", "indptr_edge.parquet", "indices_edge.parquet")),
    FileFormat("cora-full", write_cora_full, lambda path: graph_digest(read_cora_full(path)), False),
    FileFormat("graphml", write_graphml, read_graph, False),
    FileFormat("labels", write_labels, read_labels, False),
    FileFormat("studio: journal", write_journal, read_journal, False),
]  # fmt: skip
_RESEALED = [
    replace(one, name=f"{one.name}, resealed", ours=False, resealed=True)
    for one in _OURS
    if not one.name.endswith(".npy")
]
_DOWNLOAD = FileFormat("download", write_download, lambda path: digest(verify(path).read_bytes()))
FORMATS = {one.name: one for one in (*_OURS, _DOWNLOAD, *_OTHERS, *_RESEALED)}
