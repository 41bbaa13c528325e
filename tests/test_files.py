from __future__ import annotations

import io
import os
import socket
import stat
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from naq.cli.arguments import check_outputs
from naq.errors import DataError, OptionError
from naq.files import disk, read_json, read_npz, set_aside, write_atomically, write_json, write_npz
from naq.text import _keep
from naq_paper.cells.store import Store
from naq_paper.report.export import write_tables
from naq_scale.array_folder import new_folder
from naq_scale.tiles import mapped_rows
from naq_studio.journal import Journal
from studio_under_test import word_graph


def member(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(f"{name}.npy", content)
    return path


def header(shape: str, descr: str = "'<f8'", data: bytes = b"") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(("error", "expected", "named"), [
    (RuntimeError("no more"), RuntimeError, "no more"),
    (OSError(28, "No space left on device"), DataError, r"kept\.txt: No space left"),
], ids=["bug", "disk"])  # fmt: skip
def test_a_failing_writer_leaves_the_old_file_and_nothing_else(error, expected, named, tmp_path: Path) -> None:
    path = write_atomically(tmp_path / "a" / "kept.txt", lambda temporary: temporary.write_text("old"))

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise error

    with pytest.raises(expected, match=named):
        write_atomically(path, fail)
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]
    with pytest.raises(DataError, match="choose a folder"):
        write_npz(path / "x.npz", {"a": np.ones(2)})


def test_json_round_trip_and_its_errors(tmp_path: Path) -> None:
    value = {"b": [1, 2.5, None], "a": "ü"}
    path = write_json(tmp_path / "x.json", value)
    assert read_json(path) == value
    with pytest.raises(ValueError):
        write_json(tmp_path / "nan.json", float("nan"))
    assert not (tmp_path / "nan.json").exists()
    for content in (b"{", b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"x\.json"):
            read_json(path)


ARRAYS = {
    "ints": np.arange(6).reshape(2, 3), "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(10)[::2], "text": np.array(["a", "ü"]), "none": np.empty((0, 4), dtype=np.float32),
    "scalar": np.array("{}"), "number": np.array(3), "flags": np.array([True, False]),
    "big_endian": np.arange(3, dtype=">i4"),
}  # fmt: skip


def test_npz_keeps_shape_type_and_values_and_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    one, two = (write_npz(tmp_path / f"{name}.npz", ARRAYS) for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    found = read_npz(one)
    assert list(found) == list(ARRAYS)
    with np.load(one) as loaded:
        for name, array in ARRAYS.items():
            assert found[name].shape == array.shape and found[name].dtype == array.dtype, name
            assert np.array_equal(found[name], array) and np.array_equal(loaded[name], array), name
            assert found[name].flags.writeable and found[name].flags.c_contiguous, name


def test_npz_reads_only_what_is_asked_for(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", good=member(np.ones(2)), bad=b"junk")
    assert list(read_npz(path, only={"good", "absent"})) == ["good"]


def test_objects_are_neither_written_nor_read(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}], dtype=object)
    with pytest.raises(DataError, match="'x' holds Python objects"):
        write_npz(tmp_path / "x.npz", {"x": objects})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="Object arrays"):
        read_npz(archive(tmp_path / "y.npz", x=member(objects)))


def test_absent_folder_and_other_files(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_text("hello")
    archive(tmp_path / "y.npz", readme=b"hello")
    for name in ("absent.npz", "", "x.npz", "y.npz"):
        with pytest.raises(DataError, match=name or "folder"):
            read_npz(tmp_path / name, kind="task file")


@pytest.mark.parametrize("content", [
    header("(1000000000000,)"), header("(4,)", data=b"\0" * 8), header("(-4, -4)", data=b"\0" * 128),
    header("(99999999999999999999, 99999999999999999999)"), header("(1000000000,)", "'<U0'"),
    header("(1000000000,)", "'|V0'"), header("(2,)", "'|O'", b"\0" * 16), header("(2,)", "[('a', '|O')]", b"\0" * 16),
    header("('a',)"), header("(2,)", "'nonsense'"), header("__import__('os').getcwd()"), b"\x93NUMPY\x09\x00", b"",
    b"\x93NUM",
])  # fmt: skip
def test_lying_headers_are_refused_before_memory_is_taken(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError):
        read_npz(archive(tmp_path / "x.npz", a=content))


def test_an_array_takes_three_times_its_size_while_it_is_read(tmp_path: Path) -> None:
    array = np.arange(1_000_000).reshape(400, -1)
    path = write_npz(tmp_path / "a.npz", {"c": array})
    tracemalloc.start()
    try:
        found = read_npz(path)["c"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * array.nbytes and np.array_equal(found, array)


def test_what_a_folder_ships_leads_nowhere_else(tmp_path):
    """Links in the place of a journal, a lock, a cache, a folder of results: what they lead to is never written."""
    graph, mine = word_graph(12), tmp_path / "mine"
    mine.mkdir()
    (mine / "login").write_text("step,rows,action,node,name,class,value,time\n")

    def lead(name):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(mine / "login")
        return tmp_path / name

    for number, name in enumerate(("0.csv", ".1.csv.lock")):
        lead(name)
        with pytest.raises(DataError, match="link"):
            Journal(tmp_path / f"{number}.csv", graph)
    for name in ("kept-4.bin", "other-4.bin.lock"):
        lead(name)
        with pytest.raises(OSError, match="link"):
            _keep(tmp_path / name.partition("-")[0], [b"k" * 16], np.eye(1, 4, dtype=np.float32))
    for name in ("cells", "failed", "claims", "running"):
        store = Store(tmp_path / f"of-{name}")
        store.folder.mkdir()
        (store.folder / name).symlink_to(mine)
        with pytest.raises(DataError, match="link"):
            store.prepare()
    (store.folder / "running").unlink()
    store.prepare()
    (store.folder / "running" / "key").symlink_to(mine)
    assert not store.scratch("key").exists()
    (tmp_path / "damaged").symlink_to(mine)
    (tmp_path / "x.json").write_text("{")
    assert set_aside(tmp_path / "x.json") is None and (tmp_path / "x.json").exists()
    (store.folder / "tables").symlink_to(mine)
    with pytest.raises(DataError, match="link"):
        write_tables([], store.folder)
    assert sorted(one.name for one in mine.iterdir()) == ["login"]
    assert (mine / "login").read_text() == "step,rows,action,node,name,class,value,time\n"


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_modes_are_those_of_the_user(tmp_path: Path, umask) -> None:
    def folder(path: Path) -> Path:
        with new_folder(path, "k", 1) as writer:
            writer.put("a", np.arange(3))
        return path

    for mask, file_mode, folder_mode in ((0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o002, 0o664, 0o775)):
        umask(mask)
        assert mode_of(write_json(tmp_path / f"{mask}.json", 1)) == file_mode
        made = folder(tmp_path / f"{mask}")
        assert mode_of(made) == folder_mode and {mode_of(one) for one in made.iterdir()} == {file_mode}
        for kept in (0o600, 0o640, 0o444, 0o666):  # what is there keeps its mode, whatever the mask says
            (tmp_path / f"{mask}.json").chmod(kept)
            assert mode_of(write_json(tmp_path / f"{mask}.json", 2)) == kept
        made.chmod(0o710)
        (made / "manifest.json").chmod(0o640)
        assert mode_of(folder(made)) == 0o710 and {mode_of(one) for one in made.iterdir()} == {0o640}


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(tmp_path / "socket"))
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "socket", "folder", "/dev/null"):
        before = (tmp_path / name).stat().st_mode
        with pytest.raises(DataError, match="give the name of a file"):
            write_json(tmp_path / name, 1)
        with pytest.raises(OptionError, match="out="):
            check_outputs({"--out": tmp_path / name}, {})
        assert (tmp_path / name).stat().st_mode == before
    assert not list(tmp_path.glob(".*"))


def in_child(work) -> int:
    """The exit code of what a forked process does."""
    if (pid := os.fork()) == 0:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path, monkeypatch) -> None:
    def killed(temporary: Path, scratch: Path | None = None) -> None:
        (scratch or tmp_path / "sub").mkdir(exist_ok=True)
        ((scratch or tmp_path / "sub") / "part").write_bytes(b"x")
        os._exit(9)

    assert in_child(lambda: write_atomically(tmp_path / "a.json", killed)) == 9
    assert in_child(lambda: mapped_rows(tmp_path / "v.npy", killed)) == 9
    left = {one.name for one in tmp_path.glob(".*")}
    assert len(left) == 2  # the second found what the first left
    others = [tmp_path / ".x.abcdefgh.tmp", tmp_path / ".naq.tmp"]  # names of other programs
    for other in others:
        other.write_text("x")
    monkeypatch.setattr(disk, "_cleared", set())
    with disk.temporary_path(tmp_path / "b.json") as living, disk.temporary_path(tmp_path / "c", folder=True) as folder:
        assert not left & {one.name for one in tmp_path.iterdir()}

        def another() -> None:
            disk._cleared.clear()
            write_json(tmp_path / "d.json", 1)
            os._exit(0)

        assert in_child(another) == 0
        assert living.exists() and folder.is_dir()
    assert sorted(one.name for one in tmp_path.iterdir()) == [".naq.tmp", ".x.abcdefgh.tmp", "d.json", "sub"]
