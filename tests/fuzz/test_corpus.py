"""Single files that once took all memory, changed a result or ended the process."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from file_formats import read_cell, read_run, small_graph, write_cell, write_run
from naq import ClassSplit, FewShotNodeClassifier, Tasks, device, feature_neighbors, load, sample_tasks
from naq.classifier import write_predictions
from naq.classifier.page import write_report
from naq.errors import DataError, TaskError
from naq.files import cache_folder, disk, read_npz, write_json, write_npz, write_sealed
from naq.io import listing, save_graph, save_mapped
from naq.io.download import dataset_root
from naq.tasks import split_of_file
from naq.threads import prepare_process
from naq_paper.cells.records import unpack_records
from naq_paper.cells.store import Store
from naq_paper.experiments.folder import read_pack
from naq_paper.measurements.practice import with_peak
from naq_studio.board import Entry
from naq_studio.journal import TITLES, Journal
from naq_studio.routes import Json


def test_columns_that_no_machine_holds(tmp_path: Path) -> None:
    """240 rows and 2^31 - 1 columns in some kilobytes: counting the words would take 17 GB."""
    arrays = read_npz(save_graph(tmp_path / "g.npz", small_graph()))
    arrays["attr_shape"] = np.array([40, 2**31 - 1])
    arrays.pop("vocab", None)
    with pytest.raises(DataError, match=r"attr_shape .* needs .* GB of memory"):
        load(write_npz(tmp_path / "h.npz", arrays))


def test_arrays_are_added_up_before_memory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_npz(tmp_path / "x.npz", {f"a{i}": np.zeros(2_000_000) for i in range(6)})
    assert path.stat().st_size < 200_000
    monkeypatch.setattr(device, "room", lambda: 1e8)
    with pytest.raises(DataError, match="reading the arrays of"):
        read_npz(path)


def test_a_member_that_claims_to_be_shorter_is_refused(tmp_path: Path) -> None:
    """The header of an array said int8, so nobody read on to the CRC, and 33,344 labels were others."""
    labels = np.arange(30_000, dtype=np.int16)
    np.savez(tmp_path / "x.npz", labels=labels)
    content = (tmp_path / "x.npz").read_bytes()
    assert content.count(b"'<i2'") == 1
    (tmp_path / "x.npz").write_bytes(content.replace(b"'<i2'", b"'|i1'"))
    with pytest.raises(DataError, match=r"Bad CRC|does not have the size and the CRC"):
        read_npz(tmp_path / "x.npz")


def test_records_of_earlier_formats_are_refused(tmp_path: Path) -> None:
    path = write_cell("cells", tmp_path)
    now = json.loads(path.read_text())
    for number in (1, 2):
        path.write_text(json.dumps(now | {"format": number}))
        with pytest.raises(DataError, match="earlier version"):
            read_cell(path)
        assert path.exists(), "it is not set aside as damaged"


def test_published_packs_are_read() -> None:
    packs = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.zip"), key=lambda p: p.stat().st_size)
    assert all(read_pack(packs[0]))


def test_a_pack_that_unfolds_to_more_than_it_may() -> None:
    with pytest.raises(DataError, match="too large"):
        unpack_records(lzma.compress(b" " * 300_000_000, preset=1), "x")


@pytest.mark.parametrize("code", [0x110000, 0xD800, 0xFFFFFFFF])
@pytest.mark.parametrize("order", ["<", ">"])
def test_characters_that_do_not_exist(order: str, code: int, tmp_path: Path) -> None:
    """NumPy keeps any number as a character, and Python ends with a SystemError; half a character is not text."""
    names = np.array([f"n{i}" for i in range(40)], dtype=f"{order}U4")
    names.view(f"{order}u4")[5] = code
    with pytest.raises(DataError, match="'names'"):
        write_npz(tmp_path / "x.npz", {"names": names})
    np.savez(tmp_path / "x.npz", **read_npz(save_graph(tmp_path / "g.npz", small_graph())) | {"names": names})
    with pytest.raises(DataError, match=r"names .*not text"):
        load(tmp_path / "x.npz")
    folder = save_mapped(tmp_path / "g", small_graph())
    content = (folder / "names.npy").read_bytes()
    content = content[:128] + code.to_bytes(4, "little") + content[132:]
    (folder / "names.npy").write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["arrays"]["names"]["sha256"] = hashlib.sha256(content[128:]).hexdigest()
    write_sealed(folder / "manifest.json", manifest)
    with pytest.raises(DataError, match="not text"):
        load(folder)


@pytest.mark.parametrize("cut", [1, 7, 22, 52])
def test_a_journal_that_was_killed_at_its_first_line_is_begun_again(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "g.studio.csv"
    path.write_bytes(TITLES[:cut])
    journal = Journal(path, small_graph())
    journal.write([Entry("label", 1, "red")])
    journal.close()
    assert path.read_bytes().startswith(TITLES) and len(path.read_text().splitlines()) == 2


def test_metrics_name_no_file_outside_the_folder(tmp_path: Path) -> None:
    """A damaged file is moved away; one that a stranger's metrics.json names is none of ours."""
    other = tmp_path / "mine.safetensors"
    other.write_bytes(b"mine")
    (tmp_path / "run").mkdir()
    metrics = write_run("metrics.json", tmp_path / "run")
    write_sealed(metrics, json.loads(metrics.read_text()) | {"files": {"../mine.safetensors": "0"}})
    assert read_run(metrics) is None
    assert other.read_bytes() == b"mine" and not (tmp_path / "damaged").exists()


def test_a_run_killed_after_its_last_tensor_leaves_no_checkpoint(tmp_path: Path) -> None:
    metrics = write_run("metrics.json", tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"of the training")
    assert read_run(metrics) is not None
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_record_that_is_written_now_is_not_swept_away_when_the_clock_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, store, cells = time.time, Store(tmp_path), tmp_path / "cells"
    store.prepare()
    with disk.temporary_path(cells / "a.json") as living:
        (cells / ".b.json.00000000.naq.tmp.json").write_text("half")
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
        monkeypatch.setattr(disk, "_cleared", set())  # as in another process
        store.sweep()
        write_json(cells / "c.json", 1)
        assert sorted(p.name for p in cells.iterdir()) == [living.name, "c.json"]


def test_a_cache_that_cannot_be_used_is_gone_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for cache in (tmp_path / "file", Path("/proc/none"), tmp_path / ("x" * 300)):
        with pytest.warns(UserWarning, match="the neighbour table is not kept in the cache|not used"):
            assert feature_neighbors(small_graph(), 3, cache=cache).k == 3


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
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
    for wrong in ("0", "-1", "x", "", "²"):
        environment = {"NUMBA_NUM_THREADS": wrong}
        with pytest.warns(UserWarning, match="no number of threads"):
            prepare_process(environment)
        assert "NUMBA_NUM_THREADS" not in environment


@pytest.mark.parametrize("how", [">/dev/full", ">&-", "2>/dev/full >/dev/null", "PYTHONIOENCODING=ascii", "| head -1"])
def test_output_that_goes_nowhere(how: str, tmp_path: Path) -> None:
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
    """Python's own reader takes a call for every zero, and several for every member."""
    table = tmp_path / "e.csv.gz"
    table.write_bytes(gzip.compress(b"source,target\na,b\n") + behind)
    small, started = _zip_of_ogb(tmp_path / "o.zip", behind=behind), time.process_time()
    assert small.stat().st_size < 400_000
    for path in (small, table):
        try:
            assert load(path).num_edges == (2 if path == small else 1)
        except DataError as error:
            assert behind[:1] == b"\0" and "gz" in str(error)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_members_that_become_more_than_they_claim(packing: int, tmp_path: Path) -> None:
    """zipfile unpacks whole what it reads at once: in some kilobytes here are 120 MB, where 128 bytes are claimed."""
    path = tmp_path / "h.npz"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("labels.npy", b"\0" * 120_000_000)
    size = (120_000_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (128).to_bytes(4, "little")))

    def read() -> None:
        with pytest.raises(DataError, match=r"Bad CRC|unusual"):
            read_npz(path)

    _, peak = with_peak(read)
    assert peak is None or peak < 100_000_000
    if packing != zipfile.ZIP_DEFLATED:
        with pytest.raises(DataError, match="neither stored nor deflated"):
            load(_zip_of_ogb(tmp_path / "o.zip", packing))


def test_a_colour_of_5000_digits_costs_a_line_of_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.csv"
    path.write_text(
        "step,rows,action,node,name,class,value,time\n"
        f"1,1,make,,,red,{'0' * 5000},\n2,1,make,,,blue,{'1' * 12},\n3,1,make,,,green,{'9' * 9},\n"
        "4,1,make,,,grey,007,\n"
    )
    journal = Journal(path, small_graph())
    try:
        assert [name for name, _ in journal.board.classes.values()] == ["grey"] and len(journal.problems) == 3
    finally:
        journal.close()


@pytest.mark.parametrize("key", ["test_classes", "2way_1shot_test_query"])
def test_dates_are_no_nodes_and_no_classes(key: str, tmp_path: Path) -> None:
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
    ends = '<node id="x"/><node id="y"/><edge source="x" target="y"/>'
    graph = f'<graph edgedefault="undirected">{ends}</graph>'
    graph = f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{graph}</graphml>'
    head = f'<?xml version="1.0" encoding="{encoding}"?><!--{"x" * before}-->'
    path = tmp_path / "g.graphml"
    path.write_bytes((head + graph).encode(encoding))
    assert load(path).num_edges == 1
    path.write_bytes((head + f"<!DOCTYPE graphml [{entities}]>" + graph.replace("x", "&i;")).encode(encoding))
    with pytest.raises(DataError, match="document type"):
        load(path)


def test_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    """Its bytes become halves of characters in the graph's name, which is in pages and answers."""
    graph = load(save_graph(tmp_path / os.fsdecode(b"\xff.npz"), small_graph()))
    assert graph.name == "\udcff"
    classifier = FewShotNodeClassifier().fit(graph, {1: "a", 2: "b", 3: "a", 4: "b"})
    page = write_report(classifier, tmp_path / "r.html", 0.9, "naq predict \udcff.npz").read_text(encoding="utf-8")
    assert "naq predict ?.npz" in page and write_predictions(classifier, tmp_path / "p.csv").exists()
    assert json.loads(Json({"name": graph.name}).body) == {"name": "\udcff"}
