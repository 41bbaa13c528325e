"""Every mistake that files of people hold: one sentence with file and line, or a count in the report."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from naq.errors import DataError, NaqError
from naq.io import Choice, ImportReport, import_tables

Write = Callable[..., Path]
EDGES = "source,target\na,b\nb,c\n"
NODES = "id,text,label\na,red apple,x\nb,green pear,y\nc,red pear,x\n"


def dropped(report: ImportReport) -> dict[str, tuple[int, list[str]]]:
    return {item.why: (item.count, item.places) for item in report.dropped}


@pytest.mark.parametrize(
    ("content", "choice", "message"),
    [
        ("", {}, r"e.csv is empty"),
        ("\n\n", {}, r"e.csv holds no rows"),
        ("source,target\n", {}, r"e.csv holds no edges, so there are no nodes"),
        ("one\ntwo\n", {}, r"e.csv has one column \('one'\); expected an edge list with two or more"),
        ("begin,finish\nx,y\n", {}, r"no columns with names like source and target \(it has begin, finish\); name them with --source"),
        (EDGES, {"source": "sorce"}, r"e.csv has no column 'sorce' \(--source\); did you mean source\?"),
        (EDGES, {"source": "source", "target": "source"}, r"--source and --target are both 'source'"),
        (EDGES, {"weight": "wieght"}, r"e.csv has no column 'wieght' \(--weight\)"),
        ("source,target,w\na,b,1\nb,c,-2\n", {"weight": "w"}, r"e.csv, line 3: the weight in column 'w' is -2; expected 0 or more"),
        ("source,target,w\na,b,1\nb,c,heavy\n", {"weight": "w"}, r"e.csv, line 3: the weight in column 'w' is 'heavy'"),
        ("source,target,w\na,b,1\nb,c,\n", {"weight": "w"}, r"e.csv, line 3: the weight in column 'w' is missing"),
        ("source,target\na,b\n" + "a,b,c\n" * 9, {}, r"e.csv, line 3: expected 2 cells as in the first row, but this and 8 of 10 rows"),
        ('source,target\na,b\n"c,d\ne,f\n', {}, r"e.csv, line 3: a quotation mark is opened and never closed"),
        ("source,target,source\na,b,c\n", {}, r"e.csv, line 1: two columns are called 'source'"),
        (b"source,target\na,b\n\0\0,c\n", {}, r"e.csv, line 3 holds a zero byte: it is not a text file"),
        (b"PAR1xxxxPAR1", {}, r"e.csv is a Parquet file; rename it"),
        (b"PK\x03\x04xxxx", {}, r"e.csv is a zip archive .*save it as CSV"),
        (gzip.compress(b"source,target\na,b\n", mtime=0), {}, r"e.csv is a gzip file; add .gz to its name"),
        (b"<?xml version='1.0'?><graphml/>", {}, r"e.csv is an XML file; if it is GraphML, rename it"),
        (b"\n <!doctype html><html>", {}, r"e.csv is an HTML page"),
        ("source,target\na," + "x" * 2000 + "\n", {}, r"e.csv, line 2: an id has 2,000 characters; expected at most 1,000"),
        (EDGES, {"label": "x"}, r"--label names a column of nodes, but there is no table of nodes; give --nodes"),
    ],
)  # fmt: skip
def test_edges(engine: str, write: Write, content: str | bytes, choice: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        import_tables(write("e.csv", content), None, Choice(**choice))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "choice", "message"),
    [
        ("", {}, r"n.csv is empty"),
        ("id,text\n", {}, r"n.csv has a header but no rows"),
        (NODES, {"id": "nmae"}, r"n.csv has no column 'nmae' \(--id\)"),
        (NODES, {"text": ["txt"]}, r"n.csv has no column 'txt' \(--text\); did you mean text\?"),
        (NODES, {"numeric": ["text"]}, r"n.csv, line 2: 'red apple' in column 'text' is no number"),
        (NODES, {"text": ["text"], "categorical": ["text"]}, r"column 'text' is named twice"),
        (NODES, {"id": "label", "label": "label"}, r"both --id and --label|described twice"),
        (NODES, {"vector": ["text"]}, r"n.csv, line 2: 'red apple' in column 'text' is no vector"),
        (NODES, {"vector": ["there/is/none.npy"]}, r"none.npy does not exist"),
        ("id,size\na,1\nb,2\nc,3\na,4\n", {}, r"n.csv, line 5: node 'a' is described twice \(first in line 2\), with different values in column 'size'"),
        ("id,text\n,x\n,y\n", {}, r"column 'id' is empty"),
        ("id,x\np,1\nq,2\n", {}, r"e.csv, line 2: no edge joins two nodes of n.csv: it has no node 'a', its first is 'p'"),
        ("id,label\na,\nb,NA\nc,\n", {"label": "label"}, r"column 'label' holds no class"),
        ("id,text\na,?\nb,!!\nc,..\n", {"text": ["text"]}, r"column 'text' holds no words"),
        ("id,v\na,1;2\nb,1;2;3\nc,1;2\n", {"vector": ["v"]}, r"n.csv, line 3: '1;2;3' in column 'v' is no vector; expected 2 numbers"),
        ("id,x\na,1e308\nb,-1e308\nc,1e308\n", {}, r"numbers of column 'x' are too large"),
    ],
)  # fmt: skip
def test_nodes(engine: str, write: Write, content: str, choice: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        import_tables(write("e.csv", EDGES), write("n.csv", content), Choice(**choice))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_what_is_dropped_is_counted_and_shown(engine: str, write: Write) -> None:
    rows = ["a,b,1", "b,c,1", "c,c,1", "b,a,1", "a,zz,1", "A,b,1", ",b,1", "b,c,0", "a,b", "a,b,1", "a,b,1", "a,b,1"]
    rows += [f"x{i},x{i + 1},1" for i in range(30)]
    nodes = NODES + "".join(f"x{i},red pear,x\n" for i in range(31)) + "c,red pear,x\n,red,\n"
    graph, report = import_tables(
        write("e.csv", "source,target,w\n" + "\n".join(rows) + "\n"), write("n.csv", nodes), Choice(weight="w")
    )
    assert dropped(report) == {
        "rows with another number of cells than 3": (1, ["e.csv, line 10"]),
        "rows without a source or a target": (1, ["e.csv, line 8"]),
        "rows of weight 0": (1, ["e.csv, line 9"]),
        "edges to nodes that are not in n.csv": (2, ["e.csv, line 6", "e.csv, line 7"]),
        "self-loops (a node joined to itself)": (1, ["e.csv, line 4"]),
        "edges that repeat an earlier one, in either direction": (
            4,
            ["e.csv, line 5", "e.csv, line 11", "e.csv, line 12"],
        ),
        "rows of nodes without an id": (1, ["n.csv, line 37"]),
        "rows of nodes that repeat an earlier row": (1, ["n.csv, line 36"]),
    }
    assert graph.num_edges == 32 and graph.num_nodes == 34
    assert sum(item.count for item in report.dropped[:6]) + graph.num_edges == len(rows)
    shown = str(report)
    assert "edges to nodes that are not in n.csv: 2; first: e.csv, line 6; e.csv, line 7" in shown
    assert "of these, 1 differ from a node of the table only in upper and lower case, e.g. 'A' from 'a'" in shown


def test_spaces_around_ids_do_not_matter_and_case_does(engine: str, write: Write) -> None:
    graph, report = import_tables(write("e.csv", "source, target\na , b\nb,a\nB,a\n"))
    assert graph.names is not None and graph.names.tolist() == ["a", "b", "B"] and graph.num_edges == 2
    assert any("1 ids differ from another only in upper and lower case" in note for note in report.notes)


def test_a_byte_order_mark_is_no_part_of_a_name(engine: str, write: Write) -> None:
    graph, _ = import_tables(
        write("e.csv", b"\xef\xbb\xbf" + EDGES.encode()), write("n.csv", b"\xef\xbb\xbf" + NODES.encode())
    )
    assert graph.names is not None and graph.names.tolist() == ["a", "b", "c"]


def test_latin_1(engine: str, write: Write) -> None:
    graph, report = import_tables(write("e.csv", "source,target\nMüller,Groß\n".encode("latin-1")))
    assert graph.names is not None and graph.names.tolist() == ["Müller", "Groß"]
    assert any("read as Windows-1252" in note for note in report.notes)


@pytest.mark.slow
def test_a_cell_of_a_hundred_megabytes(engine: str, write: Write) -> None:
    path = write("n.csv", b"id,text\na,x\nb," + b"word " * (20 << 20) + b"\nc,y\n")
    with pytest.raises(DataError, match=r"n.csv, line 3: a row has over 16,777,216 characters"):
        import_tables(write("e.csv", EDGES), path)


def test_mixed_types_are_said_and_not_used(engine: str, write: Write) -> None:
    nodes = "id,age,note\n" + "".join(f"n{i},{'forty' if i == 5 else i},a b\n" for i in range(12))
    edges = "source,target\n" + "".join(f"n{i},n{i + 1}\n" for i in range(11))
    _, report = import_tables(write("e.csv", edges), write("n.csv", nodes))
    assert "mostly numbers, but 'forty' in n.csv, line 7" in report.unused["age"]
    assert report.unused["note"] == "always 'a b'"


def test_no_features_and_no_edges(engine: str, write: Write) -> None:
    graph, report = import_tables(write("e.csv", EDGES), write("n.csv", "id\na\nb\nc\n"))
    assert graph.features is None and any("has no features" in note for note in report.notes)
    graph, report = import_tables(write("e.csv", "source,target\n"), write("n.csv", NODES))
    assert graph.num_edges == 0 and report.isolated == 3 and any("has no edges" in note for note in report.notes)


def test_a_cell_cannot_steer_the_terminal(engine: str, write: Write) -> None:
    nodes = "id,label\na,\x1b[31mred\nb,=cmd()\nc,x\n"
    _, report = import_tables(write("e.csv", EDGES), write("n.csv", nodes), Choice(label="label"))
    assert "\x1b" not in str(report) and "=cmd()" in str(report)


def test_files_that_are_not_there_or_are_something_else(tmp_path: Path, write: Write) -> None:
    with pytest.raises(DataError, match=r"e.csv does not exist"):
        import_tables(tmp_path / "e.csv")
    with pytest.raises(DataError, match=r"is a folder; expected a file"):
        (tmp_path / "folder.csv").mkdir()
        import_tables(tmp_path / "folder.csv")
    with pytest.raises(DataError, match=r"e.dat has no ending that is known"):
        import_tables(write("e.dat", EDGES))
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match=r"e.parquet is not a readable Parquet file"):
        import_tables(write("e.parquet", EDGES))
    with pytest.raises(DataError, match=r"none.parquet does not exist"):
        import_tables(tmp_path / "none.parquet")
    with pytest.raises(DataError, match=r"v.npy is not a readable .npy array"):
        import_tables(write("e.csv", EDGES), write("n.csv", NODES), Choice(vector=[str(write("v.npy", EDGES))]))
    np.save(tmp_path / "w.npy", np.ones((5, 2)))
    with pytest.raises(DataError, match=r"w has 5 rows but .*n.csv has 3"):
        import_tables(write("e.csv", EDGES), write("n.csv", NODES), Choice(vector=[str(tmp_path / "w.npy")]))


def test_noise_never_shows_a_traceback(engine: str, write: Write) -> None:
    """Random damage to good files: a graph or a ``NaqError`` of one line, nothing else."""
    rng = np.random.default_rng(0)
    good = (EDGES + "c,a\n" * 3).encode()
    for _ in range(150):
        bad = bytearray(good)
        for place in rng.integers(0, len(bad), rng.integers(1, 5)):
            bad[place] = rng.choice(np.frombuffer(b'",;\n\r\0\xff\xef a1#\t', dtype=np.uint8))
        try:
            graph, report = import_tables(write("e.csv", bytes(bad)), write("n.csv", NODES))
        except NaqError as error:
            assert not re.search(r"[\r\n]", str(error))
        else:
            assert graph.num_nodes == 3 and str(report)


def test_a_parquet_file_that_repeats_a_long_text_is_measured_before_it_is_unpacked(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 40_000
    coded = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), ["x" * 60_000])
    path = tmp_path / "nodes.parquet"
    pq.write_table(pa.table({"id": [str(i) for i in range(n)], "text": coded}), path, store_schema=False)
    assert path.stat().st_size < 1_000_000
    monkeypatch.setattr("naq.device.room", lambda: 1e9)
    with pytest.raises(DataError, match=r"column 'text' of 40,000 texts needs 4\.8 GB of memory, but 1\.0 GB are free"):
        import_tables(write_edges(tmp_path, n), nodes=path)


def write_edges(folder, n):
    path = folder / "edges.csv"
    path.write_text("source,target\n" + "\n".join(f"{i},{(i + 1) % n}" for i in range(0, n, 100)))
    return path
