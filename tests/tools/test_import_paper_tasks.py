"""The importer of the paper's task pickles: honest files give their ids, hostile ones nothing at all."""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import pickletools
import struct
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from naq.errors import DataError, TaskError
from naq.files import read_npz
from naq.graph import Graph
from naq.io import save_graph
from naq.random import stream
from naq.tasks import Tasks, split_of_file
from shared_data import shared

TOOL = Path(__file__).resolve().parents[2] / "tools" / "import_paper_tasks.py"
CLASSES, PER_CLASS = 8, 12
COUNTS = (3, 4)


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("import_paper_tasks", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


tool = load_tool()


def node(label: int, index: int) -> int:
    return label * PER_CLASS + index % PER_CLASS


def task(classes: list[int], shot: int, queries: int, start: int) -> tuple:
    """One task as the paper's code makes it: class-major ids as arrays, labels as tensors."""
    way = len(classes)
    support = np.array([node(c, start + i) for c in classes for i in range(shot)])
    query = np.array([node(c, start + shot + i) for c in classes for i in range(queries)])
    labels = [torch.LongTensor([slot for slot in range(way) for _ in range(each)]) for each in (shot, queries)]
    return support, labels[0], query, labels[1]


def content(shot: int = 1, queries: int = 4) -> tuple[list, list]:
    """Two-way tasks: validation of classes 0..2, test of classes 3..6; class 7 is left for training."""
    valid = [task([i, (i + 1) % 3], shot, queries, start=i) for i in range(COUNTS[0])]
    test = [task([3 + i, 3 + (i + 1) % 4], shot, queries, start=i) for i in range(COUNTS[1])]
    return valid, test


def write(path: Path, value: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


def old_names(data: bytes) -> bytes:
    """A pickle as NumPy 1 wrote it."""
    for new in (b"numpy._core.multiarray", b"numpy._core.numeric"):
        data = data.replace(b"c" + new, b"c" + new.replace(b"_core", b"core"))
        short = new.replace(b"_core", b"core")
        data = data.replace(bytes([0x8C, len(new)]) + new, bytes([0x8C, len(short)]) + short)
    return data


def without_frames(data: bytes) -> bytes:
    """The same pickle without FRAME opcodes, whose lengths would no longer fit after an edit."""
    positions = [(position, opcode.name) for opcode, _, position in pickletools.genops(data)]
    for position, name in reversed(positions):
        if name == "FRAME":
            data = data[:position] + data[position + 9 :]
    return data


def run(folder: Path, out: Path, *options: str) -> Any:
    return CliRunner().invoke(
        tool.app, [str(folder), "--out", str(out), "--valid", str(COUNTS[0]), "--test", str(COUNTS[1]), *options]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "tasks"
    place.mkdir()
    write(place / "2way_1shot.pkl", content(1))
    write(place / "2way_3shot.pkl", content(3))
    return place


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    nodes = CLASSES * PER_CLASS
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    return save_graph(tmp_path / "rings.npz", Graph(ring, np.ones((nodes, 4), dtype=np.float32), labels, nodes=nodes))


@pytest.mark.parametrize("numpy_1", [False, True])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_the_paper_wrote_is_read(tmp_path: Path, protocol: int, numpy_1: bool) -> None:
    data = pickle.dumps(content(2), protocol=protocol)
    if numpy_1:
        data = old_names(without_frames(data))
        assert b"numpy._core" not in data and b"numpy.core" in data
    path = tmp_path / "2way_2shot.pkl"
    path.write_bytes(data)
    (valid, test), unread = tool.read_tasks(path, 2, 2, COUNTS)
    assert unread == 0
    for found, made in ((valid, content(2)[0]), (test, content(2)[1])):
        np.testing.assert_array_equal(found.support, [t[0] for t in made])
        np.testing.assert_array_equal(found.query, [t[2] for t in made])
    assert (valid.part, test.part, test.way, test.shot, test.queries) == ("valid", "test", 2, 2, 4)


@pytest.mark.parametrize("kind", ["<i4", ">i8", "<u2", "i1"])
def test_every_type_of_whole_numbers_is_read(tmp_path: Path, kind: str) -> None:
    for protocol in (2, 4, 5):
        path = write(tmp_path / "a.pkl", np.arange(5).astype(kind), protocol)
        np.testing.assert_array_equal(tool.read_pickle(path).values, np.arange(5))


def test_labels_of_a_view_are_its_own(tmp_path: Path) -> None:
    labels = torch.arange(40)[3:30:2]
    found = tool.read_pickle(write(tmp_path / "a.pkl", labels))
    np.testing.assert_array_equal(found.values(), labels.numpy())


def test_the_npz_has_every_setting_and_no_split_without_a_graph(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tasks.npz"
    result = run(folder, out)
    assert result.exit_code == 0, result.output
    assert sorted(read_npz(out)) == sorted(
        f"2way_{k}shot_{part}_{side}" for k in (1, 3) for part in ("valid", "test") for side in ("support", "query")
    )
    np.testing.assert_array_equal(Tasks.load(out, way=2, shot=3).support[0], content(3)[1][0][0])
    assert "classes: 3 in validation, 4 in test" in result.output and "no class split" in result.output
    assert "2-way 3-shot" in result.output


def test_a_graph_gives_the_class_split(folder: Path, tmp_path: Path, graph_file: Path) -> None:
    out = tmp_path / "out.tasks.npz"
    result = run(folder, out, "--graph", str(graph_file))
    assert result.exit_code == 0, result.output
    split = split_of_file(out)
    assert (split.base, split.valid, split.test) == ((7,), (0, 1, 2), (3, 4, 5, 6))


def test_a_one_way_file_is_left_out_and_said(folder: Path, tmp_path: Path) -> None:
    write(folder / "1way_1shot.pkl", content())
    result = run(folder, tmp_path / "out.npz")
    assert result.exit_code == 0 and "1way_1shot.pkl is left out" in result.output


def _changed(part: int, index: int, **values: Any) -> tuple[list, list]:
    made = content()
    fields = list(made[part][index])
    for name, value in values.items():
        fields[["support", "support_labels", "query", "query_labels"].index(name)] = value
    made[part][index] = tuple(fields)
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (_changed(1, 0, support=np.array([node(3, 1), node(4, 0)])), "test tasks: task 0 uses a node twice"),
        (
            _changed(0, 1, support=np.array([20, 21, 34, 35]), support_labels=torch.tensor([0, 0, 1, 1])),
            "valid tasks: task 1 has 4 ids where 2",
        ),
        (_changed(0, 1, support=np.array([-3, 5])), "node id -3"),
        (_changed(0, 1, support_labels=torch.tensor([1, 0])), "valid task 1: labels are not 0 to 1 in order"),
        (_changed(0, 1, query_labels=torch.zeros(8, dtype=torch.int64)), "labels are not 0 to 1"),
        (_changed(0, 1, query_labels="abc"), "labels are neither"),
        (_changed(0, 1, query=[1, 2]), "expected .support ids"),
        ((content()[0][:2], content()[1]), "2 valid tasks; expected 3"),
        ((content()[0], content()[1], []), "not a tuple of two lists"),
        ([1, 2], "not a tuple of two lists"),
        ((content()[0], content()[0] + content()[1][:1]), "3 classes are in validation and in test"),
    ],
)
def test_tasks_that_cannot_be_are_refused(tmp_path: Path, made: Any, message: str) -> None:
    write(tmp_path / "2way_1shot.pkl", made)
    with pytest.raises(TaskError, match=message):
        tool.check_classes(tool.read_folder(tmp_path, COUNTS)[0])


def test_files_of_unequal_queries_are_refused(folder: Path) -> None:
    write(folder / "2way_2shot.pkl", content(2, queries=3))
    with pytest.raises(TaskError, match=r"\[3, 4\] queries per class"):
        tool.read_folder(folder, COUNTS)


def test_two_slots_of_one_class_are_found_without_labels() -> None:
    queries = [node(3, i) for i in (1, 2, 3, 4, 7, 8, 9, 10)]
    twice = Tasks(np.array([[node(3, 0), node(3, 6)]]), np.array([queries]), 2, 1)
    every_node = [node(c, i) for c in (3, 4) for i in range(1, PER_CLASS)]
    telling = Tasks(np.array([[node(3, 0), node(4, 0)]]), np.array([every_node]), 2, 1)
    assert tool.check_classes([twice])["test"] == 2
    with pytest.raises(TaskError, match="two slots of a task"):
        tool.check_classes([twice, telling])


def test_another_graph_is_refused(folder: Path, tmp_path: Path, graph_file: Path) -> None:
    write(folder / "2way_1shot.pkl", _changed(0, 0, support=np.array([node(0, 11), node(2, 11)])))
    result = run(folder, tmp_path / "out.npz", "--graph", str(graph_file))
    assert isinstance(result.exception, TaskError) and "does not fit the labels" in str(result.exception)
    assert not (tmp_path / "out.npz").exists()


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file named like 5way_1shot"):
        tool.read_folder(tmp_path, COUNTS)


class Calls:
    """A pickle of this calls ``function(*arguments)`` when it is read by a trusting reader."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


class Plain:
    """An instance, which needs its class."""


def _exploits(target: Path) -> dict[str, tuple[bytes, str]]:
    command = f"touch {target}"
    code = f"__import__('pathlib').Path({str(target)!r}).touch()"
    array = pickle.dumps(np.arange(3), protocol=4)
    side = b"\x8a\x06" + (2**40).to_bytes(6, "little") + b"\x85"
    huge = b"\x80\x03cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + side + b"C\x01b\x87R."
    return {
        "os.system": (pickle.dumps(Calls(os.system, command)), "posix.system"),
        "eval": (pickle.dumps(Calls(eval, code)), "builtins.eval"),
        "eval, protocol 0": (b"c__builtin__\neval\n(S'1'\ntR.", "S?TRING"),
        "eval, protocol 2": (pickle.dumps(Calls(eval, code), protocol=2), "__builtin__.eval"),
        "in a task": (
            pickle.dumps(([(np.arange(2), Calls(os.system, command), np.arange(8), None)], [])),
            "posix.system",
        ),
        "subprocess": (pickle.dumps(Calls(subprocess.check_output, ["touch", str(target)])), "subprocess.check_output"),
        "a class of naq": (pickle.dumps(Calls(Tasks, None, None, 2, 1)), "naq.tasks.tasks.Tasks"),
        "a function of naq": (b"\x80\x02cnaq.files\nwrite_json\n.", "naq.files.write_json"),
        "a module not imported yet": (b"\x80\x02cthis\ns\n.", "this.s"),
        "getattr": (pickle.dumps(Calls(getattr, "text", "format")), "builtins.getattr"),
        "dotted name": (b"\x80\x04\x8c\x05numpy\x8c\x0bndarray.dot\x93.", "numpy.ndarray.dot"),
        "torch.load": (b"\x80\x02ctorch\nload\nX\x01\x00\x00\x00a\x85R.", "torch.load"),
        "an instance": (pickle.dumps(Plain()), "NEWOBJ"),
        "INST": (b"(S'" + command.encode() + b"'\nios\nsystem\n.", "opcode"),
        "a persistent id": (b"\x80\x02Pabc\n.", "PERSID"),
        "an extension": (b"\x80\x02\x82\x01.", "EXT1"),
        "an object array": (pickle.dumps(np.array([Plain(), None])), "type 'O8'|NEWOBJ"),
        "an object array of nothing": (pickle.dumps(np.array([None])), "type 'O8'"),
        "floats": (pickle.dumps(np.ones(3)), "type 'f8'"),
        "a structured array": (pickle.dumps(np.zeros(2, dtype=[("a", "i8")])), "EMPTY_DICT"),
        "huge shape": (huge, "begins with no entries"),
        "two dimensions": (pickle.dumps(np.ones((2, 2), dtype=int)), "shape does not fit"),
        "shape beyond its bytes": (array.replace(b"K\x03\x85", b"K\xff\x85"), "shape does not fit"),
        "huge memo": (b"\x80\x02Nr\xff\xff\xff\x7f.", "memo of 2,147,483,648 entries"),
        "huge bytes": (b"\x80\x04B\xff\xff\xff\x7fabc.", "not a readable"),
        "huge bytearray": (b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b".", "not a readable"),
        "deep": (b"\x80\x02)" + b"\x85" * 5000 + b".", "nested deeper"),
        "state of a stand-in": (b"\x80\x02cnumpy\nndarray\nN}sb.", "opcode"),
        "state of a name": (b"\x80\x02cnumpy\nndarray\n)b.", "change what a name stands for"),
        "a codec": (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", "rot13"),
        "two pickles": (array + array, "bytes after its end"),
        "cut short": (array[:-20], "not a readable"),
        "empty": (b"", "not a readable"),
        "no pickle": (b"PK\x03\x04 and so on", "not a readable|opcode"),
        "a reduce of data": (b"\x80\x02)N\x86)R.", "not a readable"),
        "a filled dict": (pickle.dumps(OrderedDict(a=1)), "opcode"),
        "a tensor of a tuple": (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NK\x00K\x01K\x01tR.",
            "one row of labels",
        ),
        "a square tensor": (pickle.dumps(torch.zeros(2, 2, dtype=torch.int64)), "one row of labels"),
    }


@pytest.mark.parametrize("name", list(_exploits(Path("x"))))
def test_hostile_pickles_are_refused_and_do_nothing(tmp_path: Path, name: str) -> None:
    data, message = _exploits(tmp_path / "touched")[name]
    (tmp_path / "2way_1shot.pkl").write_bytes(data)
    before = set(sys.modules)
    with pytest.raises(DataError, match=message):
        tool.read_folder(tmp_path, COUNTS)
    assert not (tmp_path / "touched").exists()
    assert set(sys.modules) == before


def test_the_hostile_pickles_would_have_worked(tmp_path: Path) -> None:
    """So that the refusals above mean something."""
    target = tmp_path / "touched"
    for name in ("os.system", "eval"):
        pickle.load(io.BytesIO(_exploits(target)[name][0]))  # noqa: S301 the very danger, made here and shown to be one
        assert target.exists()
        target.unlink()


def test_what_hides_in_the_bytes_of_a_tensor_is_never_run(tmp_path: Path) -> None:
    target = tmp_path / "touched"
    inner = pickle.dumps(Calls(os.system, f"touch {target}"))
    labels = struct.pack("<3q", 2, 0, 1)

    class Hiding:
        def __reduce__(self) -> Any:
            bytes_of = Calls(torch.storage._load_from_bytes, inner + labels)
            return torch._utils._rebuild_tensor_v2, (bytes_of, 0, (2,), (1,), False, OrderedDict())

    made = _changed(0, 0, support_labels=Hiding())
    write(tmp_path / "2way_1shot.pkl", made)
    sets, _ = tool.read_folder(tmp_path, COUNTS)
    assert len(sets) == 2 and not target.exists()


def test_labels_in_an_unknown_form_follow_from_the_order(tmp_path: Path) -> None:
    class Unknown:
        def __reduce__(self) -> Any:
            bytes_of = Calls(torch.storage._load_from_bytes, b"something else")
            return torch._utils._rebuild_tensor_v2, (bytes_of, 0, (2,), (1,), False, OrderedDict())

    write(tmp_path / "2way_1shot.pkl", _changed(0, 0, support_labels=Unknown()))
    _, remarks = tool.read_folder(tmp_path, COUNTS)
    assert remarks == ["2way_1shot.pkl: 1 rows of labels could not be read; they follow from the order."]


def test_damage_anywhere_is_an_error_of_ours_or_no_error(tmp_path: Path) -> None:
    """Bytes changed at random never reach the caller as anything but a refusal."""
    refused = 0
    for trial in range(200):
        random = stream(0, "damage", trial)
        data = bytearray(pickle.dumps(content(), protocol=2 + trial % 4))
        for position in random.integers(len(data), size=3):
            data[position] = random.integers(256)
        (tmp_path / "2way_1shot.pkl").write_bytes(bytes(data))
        try:
            tool.read_folder(tmp_path, COUNTS)
        except (DataError, TaskError) as error:
            refused += 1
            assert "\n" not in str(error)
    assert 50 < refused < 200


def test_large_and_long_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "2way_1shot.pkl", content())
    monkeypatch.setattr(tool, "MAX_OPCODES", 20)
    with pytest.raises(DataError, match="more than 20 opcodes"):
        tool.read_pickle(path)
    monkeypatch.setattr(tool, "MAX_BYTES", 100)
    with pytest.raises(DataError, match="task files have fewer than 100"):
        tool.read_pickle(path)


def test_the_program_says_errors_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "5way_1shot.pkl").write_bytes(pickle.dumps(Calls(os.system, f"touch {tmp_path / 'touched'}")))
    done = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path), "--out", str(tmp_path / "o.npz")], capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "asks for 'posix.system'" in done.stderr and not (tmp_path / "touched").exists()


def test_the_tasks_of_cora_full_survive_the_paper_layout(tmp_path: Path) -> None:
    arrays = read_npz(shared("cora_full.tasks.npz"))
    settings = [(way, shot) for way in (5, 10, 20) for shot in (1, 5)]
    for way, shot in settings:
        parts = []
        for part in ("valid", "test"):
            support, query = (arrays[f"{way}way_{shot}shot_{part}_{side}"] for side in ("support", "query"))
            labels = [torch.arange(way).repeat_interleave(ids.shape[1] // way) for ids in (support, query)]
            parts.append(
                [(s.astype(np.int64), labels[0], q.astype(np.int64), labels[1]) for s, q in zip(support, query)]
            )
        write(tmp_path / f"{way}way_{shot}shot.pkl", tuple(parts))
    out = tmp_path / "out.tasks.npz"
    result = CliRunner().invoke(tool.app, [str(tmp_path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "classes: 20 in validation, 25 in test, none in both" in result.output
    found = read_npz(out)
    assert sorted(found) == sorted(name for name in arrays if "way_" in name)
    for name, ids in found.items():
        assert ids.dtype == arrays[name].dtype
        np.testing.assert_array_equal(ids, arrays[name])
