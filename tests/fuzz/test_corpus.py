"""Single files that once took all memory, changed a result or ended the process."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import struct
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from damaged_files import TARGETS, Bench, _make_cell, _make_classifier, _read_cell, small_graph
from naq import device
from naq.errors import DataError, NaqError
from naq.files import disk, read_npz, write_json, write_npz, write_sealed, write_tensors
from naq.io import load, save_graph
from naq.io.catalog import BUNDLED
from naq.io.readers import Unpacked
from naq_paper.measurements.practice import with_peak


def test_columns_that_no_machine_holds(tmp_path: Path) -> None:
    """240 rows and 2^31 - 1 columns in some kilobytes: counting the words would take 17 GB."""
    arrays = read_npz(save_graph(tmp_path / "g.npz", small_graph()))
    arrays["attr_shape"] = np.array([40, 2**31 - 1])
    arrays.pop("vocab", None)
    with pytest.raises(DataError, match=r"attr_shape .* needs .* GB of memory"):
        load(write_npz(tmp_path / "h.npz", arrays))


def test_arrays_are_added_up_before_memory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {f"a{i}": np.zeros(3_000_000) for i in range(6)}
    path = write_npz(tmp_path / "x.npz", arrays)
    assert path.stat().st_size < 200_000
    monkeypatch.setattr(device, "room", lambda: 1e8)
    with pytest.raises(DataError, match="reading the arrays of"):
        read_npz(path)


def test_a_member_that_claims_to_be_shorter_is_refused(tmp_path: Path) -> None:
    """Two changed fields once changed 33,344 labels of debian: the header of an array said int8, and nobody read on to the CRC."""
    source = BUNDLED / "debian.npz"
    with zipfile.ZipFile(source) as archive:
        members = {
            entry.filename: archive.read(entry) for entry in archive.infolist() if entry.filename == "labels.npy"
        }
    labels = members["labels.npy"]
    shorter = labels.replace(b"'<i2'", b"'|i1'", 1)
    assert shorter != labels
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("labels.npy", labels)
    content = out.getvalue().replace(labels, shorter)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"Bad CRC|does not have the size and the CRC"):
        read_npz(tmp_path / "x.npz")


def test_a_name_twice_in_a_zip_is_refused(tmp_path: Path) -> None:
    whole = save_graph(tmp_path / "g.npz", small_graph())
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(tmp_path / "h.npz", "w") as twice:
        for entry in archive.infolist():
            twice.writestr(entry.filename, archive.read(entry))
        with pytest.warns(UserWarning, match="Duplicate name"):
            twice.writestr("labels.npy", archive.read("names.npy"))
    with pytest.raises(DataError, match=r"'labels\.npy' twice"):
        load(tmp_path / "h.npz")


@pytest.mark.parametrize(
    "change", [{"result": {}}, {"result": {"number": 2}}, {"seconds": 0.1}, {"error": "none"}, {"machine": []}]
)
def test_an_edited_cell_is_set_aside(change: dict[str, object], tmp_path: Path) -> None:
    path = _make_cell(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert _read_cell(path) is None
    assert not path.exists() and len(list((tmp_path / "damaged").iterdir())) == 1


def test_records_of_earlier_formats_name_what_files_them_anew(tmp_path: Path) -> None:
    path = _make_cell(tmp_path)
    now = json.loads(path.read_text())
    for number in (1, 2):
        path.write_text(json.dumps(now | {"format": number}))
        with pytest.raises(DataError, match="rekey"):
            _read_cell(path)
        assert path.exists(), "it is not set aside as damaged"


def test_packs_of_earlier_versions_are_read(tmp_path: Path) -> None:
    from naq_paper.experiments.folder import unpack_folder

    packs = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.zip"), key=lambda p: p.stat().st_size)
    assert unpack_folder(packs[0], tmp_path / "results") > 0


def test_a_pack_that_unfolds_to_more_than_it_may(tmp_path: Path) -> None:
    import lzma

    from naq_paper.cells.records import read_records

    (tmp_path / "x").write_bytes(lzma.compress(b" " * 300_000_000, preset=1))
    with pytest.raises(DataError, match="too large"):
        read_records(tmp_path / "x")


@pytest.mark.parametrize(
    "name",
    [
        "graph",
        "tasks",
        "labels",
        "csv: edges",
        "mat",
        "checkpoint",
        "cell",
        "pack",
        "requests",
        "npy",
        "parquet",
        "studio: journal",
        "graph folder: labels",
        "download",
    ],
)
def test_a_pipe_is_refused_and_never_waited_for(name: str, tmp_path: Path) -> None:
    bench = Bench(TARGETS[name], tmp_path / "x")
    path = tmp_path / "x" / "made" / bench.path
    path.unlink()
    os.mkfifo(path)
    if name == "cell":
        assert TARGETS[name].read(path) is None
        return
    with pytest.raises(NaqError, match=r"a pipe or a device|no edge list|does not exist|has no "):
        TARGETS[name].read(path)


@pytest.mark.parametrize("order", ["<", ">"])
def test_characters_that_do_not_exist(order: str, tmp_path: Path) -> None:
    """NumPy keeps any number as a character, and Python ends with a SystemError."""
    names = np.array(["good", "bad"], dtype=f"{order}U4")
    names.view(f"{order}u4")[5] = 0x110000
    np.savez(tmp_path / "x.npz", names=names)
    with pytest.raises(DataError, match="bytes that are no text"):
        read_npz(tmp_path / "x.npz")
    if order == "<":
        from naq_scale.mapped import save_mapped

        folder = save_mapped(tmp_path / "g", small_graph())
        with (folder / "names.npy").open("r+b") as stream:
            stream.seek(128)
            stream.write(b"\xff\xff\xff\xff")
        manifest = json.loads((folder / "manifest.json").read_text())
        content = (folder / "names.npy").read_bytes()[128:]
        manifest["arrays"]["names"]["sha256"] = hashlib.sha256(content).hexdigest()
        write_sealed(folder / "manifest.json", manifest)
        with pytest.raises(DataError, match="bytes that are no text"):
            load(folder)


@pytest.mark.parametrize("cut", [1, 7, 22, 52])
def test_a_journal_that_was_killed_at_its_first_line_is_begun_again(cut: int, tmp_path: Path) -> None:
    from naq_studio.board import Row
    from naq_studio.journal import TITLES, Journal

    path = tmp_path / "g.studio.csv"
    path.write_bytes(TITLES[:cut])
    journal = Journal(path, small_graph())
    journal.write([Row("label", 1, "red")])
    journal.close()
    assert path.read_bytes().startswith(TITLES) and len(path.read_text().splitlines()) == 2


def test_metrics_name_no_file_outside_the_folder(tmp_path: Path) -> None:
    """A damaged file is moved away; one that a stranger's metrics.json names is none of ours."""
    from damaged_files import _run_folder, second_run

    other = tmp_path / "mine.safetensors"
    other.write_bytes(b"mine")
    folder = tmp_path / "run"
    folder.mkdir()
    for name, content in _run_folder().items():
        (folder / name).write_bytes(content)
    data = json.loads((folder / "metrics.json").read_text())
    write_sealed(folder / "metrics.json", data | {"files": {"../mine.safetensors": "0"}})
    assert second_run(folder / "metrics.json", _run_folder()) is None
    assert other.read_bytes() == b"mine" and not (tmp_path / "damaged").exists()


def test_a_run_killed_after_its_last_tensor_leaves_no_checkpoint(tmp_path: Path) -> None:
    from damaged_files import _run_folder, second_run

    for name, content in (*_run_folder().items(), ("checkpoint.safetensors", b"of the training")):
        (tmp_path / name).write_bytes(content)
    assert second_run(tmp_path / "metrics.json", _run_folder()) is not None
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_record_that_is_written_now_is_not_swept_away_when_the_clock_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from naq_paper.cells.store import Store

    now, store, cells = time.time, Store(tmp_path), tmp_path / "cells"
    store.prepare()
    with disk.beside(cells / "a.json") as living:
        (cells / ".b.json.00000000.naq.tmp.json").write_text("half")
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
        monkeypatch.setattr(disk, "_cleared", set())  # as in another process
        store.sweep()
        write_json(cells / "c.json", 1)
        assert sorted(p.name for p in cells.iterdir()) == [living.name, "c.json"]


def test_a_classifier_has_the_checksum_of_every_file(tmp_path: Path) -> None:
    """Those of the format before are read too: tests/classifier/test_estimator.py."""
    path = _make_classifier(tmp_path)
    size = struct.unpack("<Q", path.read_bytes()[:8])[0]
    header = json.loads(path.read_bytes()[8 : 8 + size])
    assert (
        set(header["__metadata__"]) == {"facts", "checksum"} and "naq-classifier-3" in header["__metadata__"]["facts"]
    )


def test_facts_that_are_no_object(tmp_path: Path) -> None:
    from naq.training.checkpoint import load_state

    write_tensors(tmp_path / "c", {"a": np.ones(3)}, {})
    load_state(tmp_path / "c")
    (tmp_path / "c").write_bytes((2**40).to_bytes(8, "little") + b"{}")
    with pytest.raises(DataError):
        load_state(tmp_path / "c")


def test_a_cache_that_cannot_be_used_is_gone_without(tmp_path: Path) -> None:
    from naq.neighbors import feature_neighbors

    (tmp_path / "file").write_text("")
    for cache in (tmp_path / "file", Path("/proc/none"), tmp_path / ("x" * 300)):
        with pytest.warns(UserWarning, match="the neighbour table is not kept in the cache|not used"):
            assert feature_neighbors(small_graph(), 3, cache=cache).k == 3


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    from naq.files import cache_folder
    from naq.io import listing
    from naq.io.download import dataset_root

    for name in ("NAQ_CACHE", "XDG_CACHE_HOME", "NAQ_DATA", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(*_: object) -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.setattr(Path, "expanduser", lambda path: nobody() if str(path).startswith("~") else path)
    assert cache_folder() is None and len(listing()) > 3
    with pytest.raises(DataError, match="set NAQ_DATA"):
        dataset_root()


def test_threads_that_are_none() -> None:
    from naq.threads import prepare_process

    for wrong in ("0", "-1", "x", "", "²"):
        environment = {"NUMBA_NUM_THREADS": wrong}
        with pytest.warns(UserWarning, match="no number of threads"):
            prepare_process(environment)
        assert "NUMBA_NUM_THREADS" not in environment


@pytest.mark.parametrize("how", [">/dev/full", ">&-", "2>/dev/full >/dev/null", "PYTHONIOENCODING=ascii", "| head -1"])
def test_output_that_goes_nowhere(how: str, tmp_path: Path) -> None:
    import subprocess

    before, after = (how, "") if how.startswith("PYTHON") else ("", how)
    program = f"{before} {sys.executable} -m naq --help {after}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    assert done.returncode == (1 if how == ">/dev/full" else 0)


def _zip_of_ogb(path: Path, packing: int = zipfile.ZIP_DEFLATED, behind: bytes = b"") -> Path:
    parts = {"edge": "0,1\n1,2\n", "node-label": "0\n1\n1\n", "num-node-list": "3\n"}
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, text in parts.items():
            archive.writestr(f"o/raw/{name}.csv.gz", gzip.compress(text.encode()) + behind)
    return path


@pytest.mark.parametrize("behind", [b"\0" * 30_000_000, gzip.compress(b"") * 500_000], ids=["zeros", "members"])
def test_what_follows_a_packed_table_takes_no_minutes(behind: bytes, tmp_path: Path) -> None:
    """Python's own reader takes a call for every zero, and several for every member: here 15 and 20 seconds on a fast machine."""
    table = tmp_path / "e.csv.gz"
    table.write_bytes(gzip.compress(b"source,target\na,b\n") + behind)
    small, started = _zip_of_ogb(tmp_path / "o.zip", behind=behind), time.process_time()
    assert small.stat().st_size < 400_000
    if behind[:1] == b"\0":
        assert load(small).num_edges == 2 and load(table).num_edges == 1
    else:
        for path in (small, table):
            with pytest.raises(DataError, match="members that hold next to nothing"):
                load(path)
    assert time.process_time() - started < 5


def test_packed_tables_are_read_as_python_reads_them() -> None:
    draw = random.Random(0)
    for _ in range(40):
        texts = [
            draw.randbytes(draw.choice((0, 1, 300, 70_000))) + b"a" * draw.choice((0, 5, 400_000)) for _ in range(3)
        ]
        packed = b"".join(gzip.compress(text) + b"\0" * draw.choice((0, 3, 70_000)) for text in texts)
        assert Unpacked(io.BytesIO(packed)).readall() == b"".join(texts)
        with pytest.raises(EOFError):
            Unpacked(io.BytesIO(gzip.compress(texts[0] + b"x")[: -draw.randrange(1, 12)])).readall()


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_members_that_become_more_than_they_claim(packing: int, tmp_path: Path) -> None:
    """zipfile unpacks whole what it reads at once: in some kilobytes here are 300 MB, where 128 bytes are claimed."""
    path = tmp_path / "h.npz"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("labels.npy", b"\0" * 300_000_000)
    size = (300_000_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (128).to_bytes(4, "little")))

    def read() -> None:
        with pytest.raises(DataError, match=r"Bad CRC|unusual"):
            read_npz(path)

    _, peak = with_peak(read)
    assert peak is None or peak < 100_000_000
    if packing != zipfile.ZIP_DEFLATED:
        with pytest.raises(DataError, match="neither stored nor deflated"):
            load(_zip_of_ogb(tmp_path / "o.zip", packing))


@pytest.mark.parametrize("key", ["names", "vocab", "class_names"])
def test_half_a_character_is_no_name(key: str, tmp_path: Path) -> None:
    arrays = read_npz(save_graph(tmp_path / "g.npz", small_graph()))
    size = {"names": 40, "vocab": 12, "class_names": 4}[key]
    arrays[key] = np.array([f"n{i}" for i in range(size)])
    arrays[key].view(np.uint32)[1] = 0xD800
    with pytest.raises(DataError, match="half a character"):
        write_npz(tmp_path / "h.npz", arrays)
    np.savez(tmp_path / "h.npz", **arrays)
    with pytest.raises(DataError, match="bytes that are no text"):
        load(tmp_path / "h.npz")


def test_a_colour_of_5000_digits_costs_a_line_of_the_journal(tmp_path: Path) -> None:
    from naq_studio.journal import Journal

    path = tmp_path / "j.csv"
    path.write_text(
        "step,rows,action,node,name,class,value,time\n"
        f"1,1,make,,,red,{'0' * 5000},\n2,1,make,,,blue,{'1' * 12},\n3,1,make,,,green,{'9' * 9},\n4,1,make,,,grey,007,\n"
    )
    journal = Journal(path, small_graph())
    try:
        assert [name for name, _ in journal.board.classes.values()] == ["grey"] and len(journal.problems) == 3
    finally:
        journal.close()


@pytest.mark.parametrize("key", ["test_classes", "2way_1shot_test_query"])
def test_dates_are_no_nodes_and_no_classes(key: str, tmp_path: Path) -> None:
    from naq.errors import TaskError
    from naq.tasks import ClassSplit, Tasks, sample_tasks, split_of_file

    tasks = sample_tasks(small_graph(), way=2, shot=1, queries=3, count=20, seed=0)
    arrays = read_npz(tasks.save(tmp_path / "t.npz", ClassSplit((0, 1), (2,), (3,))))
    np.savez(tmp_path / "u.npz", **arrays | {key: arrays[key].astype("datetime64[D]")})
    with pytest.raises(TaskError, match=f"{key} has type datetime64"):
        split_of_file(tmp_path / "u.npz", small_graph())
    if key.startswith("2way"):
        with pytest.raises(TaskError, match="expected whole numbers"):
            Tasks.load(tmp_path / "u.npz", way=2, shot=1)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("before", [0, 200_000])
def test_a_document_type_is_refused_in_any_encoding_and_wherever_it_stands(
    encoding: str, before: int, tmp_path: Path
) -> None:
    entities = '<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi")
    )
    graph = '<graphml><graph edgedefault="undirected"><node id="x"/><node id="y"/><edge source="x" target="y"/></graph></graphml>'
    head = f'<?xml version="1.0" encoding="{encoding}"?><!--{"x" * before}-->'
    path = tmp_path / "g.graphml"
    path.write_bytes((head + graph).encode(encoding))
    assert load(path).num_edges == 1
    path.write_bytes((head + f"<!DOCTYPE graphml [{entities}]>" + graph.replace("x", "&i;")).encode(encoding))
    with pytest.raises(DataError, match="document type"):
        load(path)


def test_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    """Its bytes become halves of characters in the graph's name, which stands in pages and answers."""
    from naq.classifier import FewShotNodeClassifier, write_predictions
    from naq.classifier.page import write_report
    from naq_studio.routes import Json

    graph = load(save_graph(tmp_path / os.fsdecode(b"\xff.npz"), small_graph()))
    assert graph.name == "\udcff"
    classifier = FewShotNodeClassifier().fit(graph, {1: "a", 2: "b", 3: "a", 4: "b"})
    page = write_report(classifier, tmp_path / "r.html", 0.9, "naq predict \udcff.npz").read_text(encoding="utf-8")
    assert "naq predict ?.npz" in page and write_predictions(classifier, tmp_path / "p.csv").exists()
    assert json.loads(Json({"name": graph.name}).body) == {"name": "\udcff"}
