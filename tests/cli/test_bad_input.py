"""What people's files hold by mistake, through ``naq import`` and ``naq predict``: one sentence with file and line and exit code 2, or a
count or a note and nothing lost. ``tests/data/tables/test_bad_input.py`` has the readers' own mistakes."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from naq.cli.main import main

EDGES = "source,target\n" + "".join(f"n{i},n{(i + step) % 12}\n" for i in range(12) for step in (2, 4))
NODES = "id,bio\n" + "".join(f"n{i},{('red round', 'blue square')[i % 2]} w{i // 2}x\n" for i in range(12))
LABELS = "node,class\nn0,odd one\nn2,odd one\nn1,even\nn3,even\n"
Run = Callable[..., tuple[int, str, str]]

REFUSED = {
    "a label for an unknown node": ("labels", LABELS + "n99,even\n", r"few.csv, line 6: there is no node 'n99'; did you mean 'n9'?"),
    "a label for a node that has another case": ("labels", LABELS + "N4,even\n", r"few.csv, line 6: there is no node 'N4'; did you mean 'n4'?"),
    "one class only": ("labels", "node,class\nn0,a\nn1,a\n", r"few.csv: there are labels only of 'a'; give labels of at least two classes"),
    "a class without labels": ("labels", LABELS + ",third\n", r"few.csv, line 6: the class 'third' has no node"),
    "contradictory labels": ("labels", LABELS + "n0,even\n", r"few.csv, line 6: node 'n0' has the class 'even', but 'odd one' before (few.csv, line 2)"),
    "no labels": ("labels", "node,class\nn1,\n", r"few.csv holds no label"),
    "an empty file of labels": ("labels", "", r"few.csv is empty"),
    "a wrong column of labels": ("labels", "who,what\nx1,a\n", r"few.csv, line 1: no column named node or id or name among 'who', 'what'"),
    "ragged labels": ("labels", "node,class\nn1,a\nn2,b,c\n", r"few.csv, line 3: expected 2 cells"),
    "labels that are a spreadsheet": ("labels", b"PK\x03\x04....", r"few.csv is a zip archive"),
    "a quotation mark that stays open": ("labels", 'node,class\nn1,"a\nn2,b\n', r"few.csv, line 2: a quotation mark is opened and never closed"),
    "an empty file of edges": ("edges", "", r"edges.csv is empty"),
    "an empty file of nodes": ("nodes", "", r"nodes.csv is empty"),
    "a header alone": ("nodes", "id,bio\n", r"nodes.csv has a header but no rows"),
    "ragged rows": ("edges", "source,target\nn0,n1\n" + "n1,n2,n3\n" * 5, r"edges.csv, line 3: expected 2 cells as in the first row, but this and 4 of 6 rows"),
    "no columns of ends": ("edges", "one,two,three\n1,2,3\n4,5,6\n", r"edges.csv has no columns with names like source and target (it has one, two, three)"),
    "edges between other nodes": ("edges", "source,target\na,b\n", r"edges.csv, line 2: no edge joins two nodes of nodes.csv: it has no node 'a', its first is 'n0'"),
    "a node that is described twice": ("nodes", NODES + "n3,another bio\n", r"nodes.csv, line 14: node 'n3' is described twice (first in line 5), with different values in column 'bio'"),
    "a hundred megabytes in one cell": ("nodes", lambda: NODES.encode() + b"n12," + b"word " * (20 << 20), r"nodes.csv, line 14: a row has over 16,777,216 characters"),
    "a packed file without .gz": ("edges", gzip.compress(EDGES.encode()), r"edges.csv is a gzip file; add .gz to its name"),
    "Parquet called CSV": ("nodes", b"PAR1....", r"nodes.csv is a Parquet file; rename it"),
    "a page instead of the file": ("edges", "<!DOCTYPE html><html>", r"edges.csv is an HTML page"),
    "something else in bytes": ("nodes", b"id,bio\nn0,\x00\x01\x02", r"nodes.csv, line 2 holds a zero byte: it is not a text file"),
    "neither features nor edges": ("both", None, r"has no edges, and its 12 nodes have no features that differ"),
}  # fmt: skip
IMPORTED = {
    "a wrong column": (["--text", "boi"], None, r"nodes.csv has no column 'boi' (--text); did you mean bio?"),
    "text as numbers": (["--numeric", "bio"], None, r"nodes.csv, line 2: 'red round w0x' in column 'bio' is no number"),
    "a negative weight": (["--weight", "w"], "source,target,w\nn0,n1,1\nn1,n2,-1\n", r"edges.csv, line 3: the weight in column 'w' is -1; expected 0 or more"),
    "a weight in words": (["--weight", "w"], "source,target,w\nn0,n1,1\nn1,n2,heavy\n", r"edges.csv, line 3: the weight in column 'w' is 'heavy'"),
}  # fmt: skip
ACCEPTED = {
    "labels that repeat": ("labels", LABELS + "n0,odd one\n", None),
    "a byte order mark": ("labels", b"\xef\xbb\xbf" + LABELS.encode(), None),
    "Latin-1": ("labels", LABELS.replace("odd one", "café").encode("latin-1"), "few.csv is not UTF-8 (first in line 2); it was read as Windows-1252"),
    "spaces around ids": ("labels", LABELS.replace("n0,", " n0 ,"), None),
    "classes that differ by case": ("labels", LABELS.replace("n2,odd one", "n2,Odd one"), "classes 'odd one' and 'Odd one' differ only in upper and lower case"),
    "formulas": ("labels", LABELS.replace("even", "=cmd|x"), None),
    "a quoted newline": ("nodes", NODES.replace("red round w0x", '"red\nround w0x"'), None),
    "self-loops": ("edges", EDGES + "n1,n1\n", None),
    "an edge to a node that is not there": ("edges", EDGES + "n1,zz\n", "edges to nodes that are not in nodes.csv: 1 (first: edges.csv, line 26)"),
    "a few ragged rows": ("edges", EDGES + "n1\n", "rows with another number of cells than 2: 1 (first: edges.csv, line 26)"),
    "mixed types": ("nodes", NODES.replace("\n", ",1\n").replace("bio,1", "bio,age").replace("w0x,1", "w0x,one"), None),
    "no features": ("nodes", "id\n" + "".join(f"n{i}\n" for i in range(12)), "no features"),
    "no edges": ("edges", "source,target\n", "no edges"),
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text(EDGES)
    Path("nodes.csv").write_text(NODES)
    Path("few.csv").write_text(LABELS)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["naq", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return command


def put(where: str, content: object) -> None:
    if where == "both":
        Path("edges.csv").write_text("source,target\n")
        Path("nodes.csv").write_text("id\n" + "".join(f"n{i}\n" for i in range(12)))
        return
    content = content() if callable(content) else content
    path = Path({"labels": "few.csv"}.get(where, f"{where}.csv"))
    path.write_bytes(content if isinstance(content, bytes) else str(content).encode())


def predicted(run: Run) -> tuple[int, str, str]:
    return run("predict", "edges.csv", "--nodes", "nodes.csv", "--labels", "few.csv", "--out", "p.csv")


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_one_sentence(run: Run, mistake: str) -> None:
    where, content, message = REFUSED[mistake]
    put(where, content)
    before = sorted(path.name for path in Path().iterdir())
    code, out, err = predicted(run)
    sentences = [line for line in err.splitlines() if not line.startswith("edges.csv: ")]  # without notes of the import
    assert code == 2 and out == "" and len(sentences) == 1 and sentences[0].startswith("naq: ") and message in err
    assert sorted(path.name for path in Path().iterdir()) == before


@pytest.mark.parametrize("mistake", IMPORTED)
def test_a_mistake_of_import_is_one_sentence(run: Run, mistake: str) -> None:
    words, edges, message = IMPORTED[mistake]
    if edges is not None:
        put("edges", edges)
    code, out, err = run("import", "edges.csv", "--nodes", "nodes.csv", "--out", "g.npz", *words)
    assert code == 2 and out == "" and err.startswith("naq: ") and message in err and err.count("\n") == 1
    assert not Path("g.npz").exists()


@pytest.mark.parametrize("mistake", ACCEPTED)
def test_what_is_no_mistake_loses_no_node(run: Run, mistake: str) -> None:
    where, content, said = ACCEPTED[mistake]
    put(where, content)
    code, _, err = predicted(run)
    assert code == 0 and (said in err if said is not None else err == "")
    lines = Path("p.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 13 and [line.partition(",")[0] for line in lines[1:]] == [f"n{i}" for i in range(12)]
    assert not any(cell.startswith("=") for line in lines for cell in line.split(","))


def test_nothing_half_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there stays whole when writing fails midway."""
    import naq.classifier.table as table

    Path("p.csv").write_text("yesterday's")
    monkeypatch.setattr(table, "cell", lambda value: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        predicted(run)
    assert Path("p.csv").read_text() == "yesterday's"
    assert sorted(path.name for path in Path().iterdir()) == ["edges.csv", "few.csv", "nodes.csv", "p.csv"]
