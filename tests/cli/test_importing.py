"""``naq import``, and edge lists wherever a graph is expected."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import naq
from naq.cli.main import main

EDGES = "source,target\na,b\nb,c\nc,c\nc,a\n"
NODES = "id,text,label\na,red apple,x\nb,green pear,y\nc,red pear,x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "nodes.csv").write_text(NODES)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["naq", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def test_a_graph_file_and_a_summary(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(monkeypatch, capsys, "import", "edges.csv", "--nodes", "nodes.csv", "--out", "g.npz")
    assert code == 0, err
    assert "3 nodes, 3 edges, 0 nodes without an edge" in out and "labels: 2 classes, 0 nodes without: x 2, y 1" in out
    assert "self-loops (a node joined to itself): 1; first: edges.csv, line 4" in out and "Written: g.npz" in out
    graph = naq.load("g.npz")
    assert graph.names is not None and graph.names.tolist() == ["a", "b", "c"] and graph.name == "g"
    assert graph.hash == naq.from_tables("edges.csv", "nodes.csv").hash


def test_json(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(monkeypatch, capsys, "import", "edges.csv", "--nodes", "nodes.csv", "--json")
    found = json.loads(out)
    assert code == 0 and found["nodes"] == 3 and found["classes"] == {"x": 2, "y": 1} and found["written"] is None
    assert found["dropped"] == [
        {"why": "self-loops (a node joined to itself)", "count": 1, "places": ["edges.csv, line 4"]}
    ]
    assert found["features"][0]["column"] == "text" and found["degrees"] == {"0": 0, "1": 0, "2": 3}
    assert sorted(path.name for path in folder.iterdir()) == ["edges.csv", "nodes.csv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["edges.csv", "--source", "sorce"], "naq: edges.csv has no column 'sorce' (--source); did you mean source?"),
        (["missing.csv"], "naq: missing.csv does not exist."),
        (["edges.csv", "--nodes", "nodes.csv", "--numeric", "text"], "naq: nodes.csv, line 2: 'red apple' in column 'text' is no number"),
        (["edges.csv", "--out", "g.csv"], "expected a name that ends in .npz"),
        (["edges.csv", "--out", "nodes.csv/g.npz"], "naq: --out is nodes.csv/g.npz, but"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    out_words = [] if "--out" in words else ["--out", "g.npz"]
    code, out, err = run(monkeypatch, capsys, "import", *words, *out_words)
    assert code == 2 and message in err and err.count("\n") == 1 and out == ""
    assert sorted(path.name for path in folder.iterdir()) == ["edges.csv", "nodes.csv"]


def test_an_edge_list_where_a_graph_is_expected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "edges.csv").write_text(EDGES + ",a\n")
    code, out, err = run(monkeypatch, capsys, "neighbors", "edges.csv", "--by", "diffusion", "-k", "2", "--node", "a")
    assert code == 0 and "a: b" in out
    assert "edges.csv: rows without a source or a target: 1 (first: edges.csv, line 6); they are left out." in err
    code, out, err = run(
        monkeypatch, capsys, "neighbors", "edges.csv", "--nodes", "nodes.csv", "-k", "2", "--node", "a"
    )
    assert code == 0 and "a: c" in out
    code, out, err = run(monkeypatch, capsys, "neighbors", "edges.csv", "-k", "2")
    assert code == 2 and "has no features" in err


def test_a_folder_of_mapped_arrays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("import", "edges.csv", "--nodes", "nodes.csv", "--out")
    assert run(monkeypatch, capsys, *words, "g.npz")[0] == 0
    code, out, err = run(monkeypatch, capsys, *words, "mapped", "--mmap")
    assert code == 0 and "Written: mapped" in out, err
    code, out, err = run(monkeypatch, capsys, "import", "g.npz", "--mmap", "--out", "again")
    assert code == 0 and "nodes=3" in out, err
    assert naq.load("mapped").hash == naq.load("again").hash == naq.load("g.npz").hash and naq.load("again").mapped
    code, out, err = run(monkeypatch, capsys, "import", "again", "--verify")
    assert code == 0 and "every checksum is right" in out, err
    for wrong, sentence in (
        ((*words, "m.npz", "--mmap"), "--mmap writes a folder"),
        (("import", "g.npz", "--mmap"), "needs --out"),
        (("import", "g.npz", "--verify"), "no graph folder"),
    ):
        code, _, err = run(monkeypatch, capsys, *wrong)
        assert code == 2 and sentence in err


def test_a_generated_graph_is_estimated_and_embedded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from generate import generate

    generate("large", 300, 900, classes=3, features=40, sparse=True)
    code, out, err = run(monkeypatch, capsys, "estimate", "large", "--method", "naq-diff/protonet", "--episodes", "10")
    assert code == 0 and "diffusion table" in out and "training" in out and "together" in out, err
    code, out, err = run(monkeypatch, capsys, "estimate", "large", "--json")
    assert code == 0 and json.loads(out)["sizes"]["nodes"] == 300, err
    code, out, err = run(monkeypatch, capsys, "embed", "large", "--out", "z.npy", "--set", "dim=8")
    assert code == 0 and "(300, 8)" in out, err
    assert np.load(folder / "z.npy").shape == (300, 8)
    code, _, err = run(monkeypatch, capsys, "embed", "large", "--out", "z.csv")
    assert code == 2 and ".npy" in err
