"""Every mistake that files of people hold: one sentence with file and line, or a count in the report."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from naq.errors import DataError
from naq.io import Choice, import_tables

Write = Callable[..., Path]
EDGES = "source,target\na,b\nb,c\n"
NODES = "id,text,label\na,red apple,x\nb,green pear,y\nc,red pear,x\n"


@pytest.mark.parametrize(
    ("content", "choice", "named"),
    [
        ("", {}, "e.csv is empty"),
        ("\n\n", {}, "e.csv holds no rows"),
        ("source,target\n", {}, "e.csv holds no edges"),
        ("one\ntwo\n", {}, "one column"),
        ("begin,finish\nx,y\n", {}, "begin, finish.*source="),
        (EDGES, {"source": "sorce"}, "'sorce'.*did you mean source"),
        (EDGES, {"source": "source", "target": "source"}, "source= and target="),
        (EDGES, {"weight": "wieght"}, "'wieght'.*weight="),
        ("source,target,w\na,b,1\nb,c,-2\n", {"weight": "w"}, "e.csv, line 3: the weight"),
        ("source,target,w\na,b,1\nb,c,heavy\n", {"weight": "w"}, "e.csv, line 3: the weight.*'heavy'"),
        ("source,target,w\na,b,1\nb,c,\n", {"weight": "w"}, "e.csv, line 3: the weight.*missing"),
        ("source,target\na,b\n" + "a,b,c\n" * 9, {}, "e.csv, line 3: expected 2 cells.*8 of 10 rows"),
        ('source,target\na,b\n"c,d\ne,f\n', {}, "e.csv, line 3: a quotation mark"),
        ("source,target,source\na,b,c\n", {}, "e.csv, line 1: two columns"),
        (b"source,target\na,b\n\0\0,c\n", {}, "e.csv, line 3 holds a zero byte"),
        (b"PAR1xxxxPAR1", {}, "Parquet"),
        (b"PK\x03\x04xxxx", {}, "zip"),
        (gzip.compress(b"source,target\na,b\n", mtime=0), {}, "gzip"),
        (b"<?xml version='1.0'?><graphml/>", {}, "XML"),
        (b"\n <!doctype html><html>", {}, "HTML"),
        ("source,target\na," + "x" * 2000 + "\n", {}, "e.csv, line 2: an id"),
        (EDGES, {"label": "x"}, "label=.*nodes="),
    ],
)
def test_edges(write: Write, content: str | bytes, choice: dict[str, str], named: str) -> None:
    with pytest.raises(DataError, match=named) as error:
        import_tables(write("e.csv", content), None, Choice(**choice))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "choice", "named"),
    [
        ("", {}, "n.csv is empty"),
        ("id,text\n", {}, "n.csv has a header but no rows"),
        (NODES, {"id": "nmae"}, "'nmae'.*id="),
        (NODES, {"text": "txt"}, "'txt'.*did you mean text"),
        (NODES, {"numeric": "text"}, "n.csv, line 2: 'red apple'"),
        (NODES, {"text": "text", "categorical": "text"}, "'text' is named twice"),
        (NODES, {"id": "label", "label": "label"}, "both id= and label=|described twice"),
        (NODES, {"vector": "text"}, "n.csv, line 2: 'red apple'"),
        (NODES, {"vector": "there/is/none.npy"}, "none.npy"),
        ("id,size\na,1\nb,2\nc,3\na,4\n", {}, "n.csv, line 5: node 'a'.*line 2.*'size'"),
        ("id,text\n,x\n,y\n", {}, "'id' is empty"),
        ("id,x\np,1\nq,2\n", {}, "e.csv, line 2: .*'a'.*'p'"),
        ("id,label\na,\nb,NA\nc,\n", {"label": "label"}, "'label' holds no class"),
        ("id,text\na,?\nb,!!\nc,..\n", {"text": "text"}, "'text' holds no words"),
        ("id,v\na,1;2\nb,1;2;3\nc,1;2\n", {"vector": "v"}, "n.csv, line 3: '1;2;3'.*2 numbers"),
        ("id,x\na,1e308\nb,-1e308\nc,1e308\n", {}, "'x' are too large"),
    ],
)
def test_nodes(write: Write, content: str, choice: dict[str, str], named: str) -> None:
    with pytest.raises(DataError, match=named) as error:
        import_tables(write("e.csv", EDGES), write("n.csv", content), Choice(**choice))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_what_is_dropped_is_counted_and_shown(write: Write) -> None:
    rows = ["a,b,1", "b,c,1", "c,c,1", "b,a,1", "a,zz,1", "A,b,1", ",b,1", "b,c,0", "a,b", "a,b,1", "a,b,1", "a,b,1"]
    rows += [f"x{i},x{i + 1},1" for i in range(30)]
    nodes = NODES + "".join(f"x{i},red pear,x\n" for i in range(31)) + "c,red pear,x\n,red,\n"
    graph, report = import_tables(
        write("e.csv", "source,target,w\n" + "\n".join(rows) + "\n"), write("n.csv", nodes), Choice(weight="w")
    )
    assert {item.why: (item.count, item.places) for item in report.dropped} == {
        "rows with another number of cells than 3": (1, ["e.csv, line 10"]),
        "rows without a source or a target": (1, ["e.csv, line 8"]),
        "rows of weight 0": (1, ["e.csv, line 9"]),
        "edges to nodes that are not in n.csv": (2, ["e.csv, line 6", "e.csv, line 7"]),
        "self-loops (a node joined to itself)": (1, ["e.csv, line 4"]),
        "rows of nodes without an id": (1, ["n.csv, line 37"]),
        "rows of nodes that repeat an earlier row": (1, ["n.csv, line 36"]),
    }
    assert graph.num_edges == 32 and graph.num_nodes == 34
    assert sum(item.count for item in report.dropped[:5]) + graph.num_edges + 4 == len(rows)
    assert any("added up: 4" in note for note in report.notes) and graph.arcs.max() == 5
    assert "not in n.csv: 2; first: e.csv, line 6; e.csv, line 7" in str(report) and "'A' from 'a'" in str(report)


def test_spaces_around_ids_do_not_matter_and_case_does(write: Write) -> None:
    graph, report = import_tables(write("e.csv", "source, target\na , b\nb,a\nB,a\n"))
    assert graph.names is not None and graph.names.tolist() == ["a", "b", "B"] and graph.num_edges == 2
    assert any("1 ids differ from another only in upper and lower case" in note for note in report.notes)


@pytest.mark.slow
def test_a_cell_of_a_hundred_megabytes(write: Write) -> None:
    path = write("n.csv", b"id,text\na,x\nb," + b"word " * (20 << 20) + b"\nc,y\n")
    with pytest.raises(DataError, match=r"n.csv, line 3: a row has over 16,777,216 characters"):
        import_tables(write("e.csv", EDGES), path)


def test_mixed_types_are_said_and_not_used(write: Write) -> None:
    nodes = "id,age,note\n" + "".join(f"n{i},{'forty' if i == 5 else i},a b\n" for i in range(12))
    _, report = import_tables(write("e.csv", "source,target\nn0,n1\n"), write("n.csv", nodes))
    assert "'forty' in n.csv, line 7" in report.unused["age"] and report.unused["note"] == "always 'a b'"


def test_no_features_and_no_edges(write: Write) -> None:
    graph, report = import_tables(write("e.csv", EDGES), write("n.csv", "id\na\nb\nc\n"))
    assert graph.features is None and any("has no features" in note for note in report.notes)
    graph, report = import_tables(write("e.csv", "source,target\n"), write("n.csv", NODES))
    assert graph.num_edges == 0 and report.isolated == 3 and any("has no edges" in note for note in report.notes)


def test_a_cell_cannot_steer_the_terminal(write: Write) -> None:
    nodes = "id,label\na,\x1b[31mred\nb,=cmd()\nc,x\n"
    _, report = import_tables(write("e.csv", EDGES), write("n.csv", nodes), Choice(label="label"))
    assert "\x1b" not in str(report) and "=cmd()" in str(report)


def test_files_that_are_not_there_or_are_something_else(tmp_path: Path, write: Write) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "e.tsv").touch()
    for path, why in (
        (tmp_path / "none.csv", "does not exist"), (tmp_path / "none.parquet", "does not exist"),
        (tmp_path / "folder.csv", "is a folder"), (write("e.dat", EDGES), "has no ending that is known"),
        (write("e.parquet", EDGES), "is not a readable Parquet file"), (tmp_path / "tables", r"is a folder; .*e\.tsv"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=rf"{path.name} {why}"):
            import_tables(path)
    np.save(tmp_path / "w.npy", np.ones((5, 2)))
    for path, why in (
        (write("v.npy", EDGES), "v.npy is not a readable .npy array"),
        (tmp_path / "w.npy", "w has 5 rows"),
    ):
        with pytest.raises(DataError, match=why):
            import_tables(write("e.csv", EDGES), write("n.csv", NODES), Choice(vector=[str(path)]))


def test_a_parquet_file_that_repeats_a_long_text_is_measured_before_it_is_unpacked(tmp_path, monkeypatch):
    n = 40_000
    coded = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), ["x" * 60_000])
    path = tmp_path / "nodes.parquet"
    pq.write_table(pa.table({"id": [str(i) for i in range(n)], "text": coded}), path, store_schema=False)
    assert path.stat().st_size < 1_000_000
    monkeypatch.setattr("naq.device.room", lambda: 1e9)
    with pytest.raises(DataError, match=r"column 'text' of 40,000 texts needs 4\.8 GB of memory, but 1\.0 GB are free"):
        import_tables({"source": ["0"], "target": ["1"]}, nodes=path)
