"""``naq import``, edge lists wherever a graph is expected, and what people's files hold by mistake."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import naq
from generate import generate

EDGES = "source,target\n" + "".join(f"n{i},n{(i + step) % 12}\n" for i in range(12) for step in (2, 4))
NODES = "id,bio\n" + "".join(f"n{i},{('red round', 'blue square')[i % 2]} w{i // 2}x\n" for i in range(12))
LABELS = "node,class\nn0,odd one\nn2,odd one\nn1,even\nn3,even\n"
REFUSED = [  # which file, what it holds, what the sentence names; more in tests/classifier/test_labels.py and tests/io
    ("few", LABELS + "n99,even\n", ("few.csv, line 6", "'n99'")),
    ("few", "node,class\nn0,a\nn1,a\n", ("few.csv", "'a'")),
    ("few", LABELS + "n0,even\n", ("few.csv, line 6", "few.csv, line 2")),
    ("few", "", ("few.csv", "empty")),
    ("edges", "", ("edges.csv", "empty")),
    ("edges", "source,target\nn0,n1\n" + "n1,n2,n3\n" * 5, ("edges.csv, line 3",)),
    ("edges", "one,two,three\n1,2,3\n4,5,6\n", ("edges.csv", "source", "one, two, three")),
    ("edges", gzip.compress(EDGES.encode()), ("edges.csv", ".gz")),
    ("edges", "<!DOCTYPE html><html>", ("edges.csv", "HTML")),
    ("nodes", "id,bio\n", ("nodes.csv", "rows")),
    ("nodes", NODES + "n3,another bio\n", ("nodes.csv, line 14", "'n3'", "'bio'")),
    ("nodes", lambda: NODES.encode() + b"n12," + b"word " * (20 << 20), ("nodes.csv, line 14",)),
    ("nodes", b"PAR1....", ("nodes.csv", "Parquet")),
]
ACCEPTED = [  # which file, what it holds, what a note names
    ("few", LABELS.replace("odd one", "café").encode("latin-1"), "Windows-1252"),
    ("few", LABELS.replace("n2,odd one", "n2,Odd one"), "'Odd one'"),
    ("few", LABELS.replace("even", "=cmd|x"), None),
    ("nodes", NODES.replace("\n", ",1\n").replace("bio,1", "bio,age").replace("w0x,1", "w0x,one"), None),
    ("nodes", "id\n" + "".join(f"n{i}\n" for i in range(12)), "no features"),
    ("edges", EDGES + "n1,zz\n", "edges.csv, line 26"),
    ("edges", "source,target\n", "no edges"),
]
IMPORTED = [  # options, the table of edges, what the sentence names
    (["--text", "boi"], EDGES, ("'boi'", "--text", "bio")),
    (["--weight", "w"], "source,target,w\nn0,n1,1\nn1,n2,-1\n", ("edges.csv, line 3", "'w'")),
]


@pytest.fixture
def run(call):
    """The program where three sound tables are."""
    for name, text in (("edges", EDGES), ("nodes", NODES), ("few", LABELS)):
        Path(f"{name}.csv").write_text(text)
    return call


def put(name, content):
    content = content() if callable(content) else content
    Path(f"{name}.csv").write_bytes(content if isinstance(content, bytes) else content.encode())


def predicted(run):
    return run("predict", "edges.csv", "--nodes", "nodes.csv", "--labels", "few.csv", "--out", "p.csv")


@pytest.mark.parametrize(("name", "content", "words"), REFUSED)
def test_a_mistake_is_one_sentence(run, name, content, words):
    put(name, content)
    code, out, err = predicted(run)
    sentences = [line for line in err.splitlines() if not line.startswith("edges.csv: ")]  # without notes of the import
    assert code == 2 and not out and len(sentences) == 1 and sentences[0].startswith("naq: ")
    assert all(word in sentences[0] for word in words), err
    assert len(list(Path().iterdir())) == 3


@pytest.mark.parametrize(("name", "content", "note"), ACCEPTED)
def test_what_is_no_mistake_loses_no_node(run, name, content, note):
    put(name, content)
    code, _, err = predicted(run)
    assert code == 0 and (note in err if note is not None else err == ""), err
    lines = Path("p.csv").read_text(encoding="utf-8").splitlines()
    assert [line.partition(",")[0] for line in lines[1:]] == [f"n{i}" for i in range(12)]
    assert not any(cell.startswith("=") for line in lines for cell in line.split(","))


@pytest.mark.parametrize(("options", "edges", "words"), IMPORTED)
def test_a_mistake_of_an_import_is_one_sentence(run, options, edges, words):
    put("edges", edges)
    code, out, err = run("import", "edges.csv", "--nodes", "nodes.csv", "--out", "g.npz", *options)
    assert code == 2 and not out and err.count("\n") == 1 and all(word in err for word in words), err
    assert not Path("g.npz").exists()


def test_neither_features_nor_edges(run):
    put("edges", "source,target\n")
    put("nodes", "id\n" + "".join(f"n{i}\n" for i in range(12)))
    code, _, err = predicted(run)
    assert code == 2 and "no edges" in err and not Path("p.csv").exists()


def test_a_graph_file_and_a_summary(call):
    put("edges", "source,target\na,b\nb,c\nc,c\nc,a\n")
    put("nodes", "id,text,label\na,red apple,x\nb,green pear,y\nc,red pear,x\n")
    words = ("import", "edges.csv", "--nodes", "nodes.csv")
    found = json.loads(call(*words, "--json")[1])
    assert (found["nodes"], found["classes"], found["written"]) == (3, {"x": 2, "y": 1}, None)
    (dropped,) = found["dropped"]
    assert dropped["count"] == 1 and dropped["places"] == ["edges.csv, line 4"]
    assert found["features"][0]["column"] == "text" and found["degrees"] == {"0": 0, "1": 0, "2": 3}
    assert len(list(Path().iterdir())) == 2
    code, out, err = call(*words, "--out", "g.npz")
    assert code == 0 and "Written: g.npz" in out and "edges.csv, line 4" in out, err
    graph = naq.load("g.npz")
    assert graph.names.tolist() == ["a", "b", "c"] and graph.hash == naq.from_tables("edges.csv", "nodes.csv").hash
    assert call(*words, "--out", "mapped", "--mmap")[0] == call("import", "g.npz", "--mmap", "--out", "again")[0] == 0
    assert naq.load("mapped").hash == naq.load("again").hash == graph.hash and naq.load("again").mapped
    assert "checksum" in call("import", "again", "--verify")[1]
    for wrong in (("import", "g.npz", "--mmap"), ("import", "g.npz", "--verify")):
        assert call(*wrong)[0] == 2


def test_a_folder_of_icebug_disk(call):
    put("edges", "source,target,weight\na,b,2\nb,c,1\n")
    put("nodes", "id,text,label\na,red apple,x\nb,green pear,y\nc,red pear,x\n")
    graph = naq.from_tables("edges.csv", "nodes.csv")
    for words, out in (
        (("edges.csv", "--nodes", "nodes.csv"), "g.icebug"), (("g.icebug",), "g.npz"), (("g.npz",), "h.icebug"),
    ):  # fmt: skip
        code, said, err = call("import", *words, "--out", out)
        assert code == 0 and f"Written: {out}" in said and naq.load(out).hash == graph.hash, err
    code, _, err = call("import", "g.icebug", "--nodes", "nodes.csv")
    assert code == 2 and "--nodes" in err
    assert call("neighbors", "g.icebug", "-k", 1, "--node", "a")[0] == 0


def test_an_edge_list_is_a_graph(run):
    put("edges", EDGES + ",n1\n")
    code, out, err = run("neighbors", "edges.csv", "--by", "diffusion", "-k", 2, "--node", "n0")
    assert code == 0 and "n0: " in out and "edges.csv, line 26" in err
    assert run("neighbors", "edges.csv", "--nodes", "nodes.csv", "-k", 2, "--node", "n0")[0] == 0
    code, _, err = run("neighbors", "edges.csv", "-k", 2)
    assert code == 2 and "features" in err


def test_a_large_graph_is_estimated_and_embedded(call):
    generate("large", 300, 900, classes=3, features=40, sparse=True)
    code, out, err = call("estimate", "large", "--method", "naq-diff/protonet", "--episodes", 10)
    assert code == 0 and "diffusion table" in out and "training" in out, err
    assert json.loads(call("estimate", "large", "--json")[1])["sizes"]["nodes"] == 300
    assert call("embed", "large", "--out", "z.npy", "--set", "dim=8")[0] == 0 and np.load("z.npy").shape == (300, 8)
