from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import naq
from naq.errors import DataError
from naq.io import Choice, import_tables
from naq.io.tables.report import histogram

Write = Callable[..., Path]
EDGES = "source,target\na,b\nb,c\nd,a\n"
NODES = (
    "id,description,size,kind,label,score\n"
    'a,"Red apple, red\npeel",1,fruit,x,\nb,green pear,2,fruit,,5\nc,red car,6,thing,y,7\nd,blue car,7,thing,x,9\n'
)


def dense(graph: naq.Graph) -> np.ndarray:
    return np.asarray(graph.features.toarray() if sp.issparse(graph.features) else graph.features)


def test_every_kind_of_column(write: Write) -> None:
    graph, report = import_tables(write("e.csv", EDGES), write("n.csv", NODES))
    assert graph.names.tolist() == ["a", "b", "c", "d"] and graph.num_edges == 3
    assert graph.class_names.tolist() == ["x", "y"] and graph.labels.tolist() == [0, -1, 1, 0]
    words = ["apple", "blue", "car", "green", "pear", "peel", "red"]
    assert graph.vocab.tolist() == [*words, "size", "score", "kind=fruit", "kind=thing"]
    features = dense(graph)
    assert features[0, :7].tolist() == [1, 0, 0, 0, 0, 1, 2]
    size = np.array([1, 2, 6, 7.0])
    assert np.allclose(features[:, 7], (size - size.mean()) / size.std())
    assert features[:, 9:].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert features[0, 8] == 0 and np.allclose(features[1:, 8], (np.array([5, 7, 9]) - 7) / np.std([5, 7, 9]))
    blocks = [("words", 7, "description"), ("numbers", 9, "size, score"), ("categories", 11, "kind")]
    assert [(one.kind, one.stop, one.title) for one in graph.blocks] == blocks
    kinds = {feature.column: (feature.kind, feature.note) for feature in report.features}
    assert kinds["score"] == ("number", "mean 7, deviation 1.633, 1 missing, set to the mean")
    assert kinds["description"][0] == "text" and kinds["kind"][0] == "category"
    assert report.classes == {"x": 2, "y": 1} and report.unlabelled == 1


@pytest.mark.parametrize(("column", "kind"), [("text", "text"), ("Abstract", "text"), ("colour", "category")])
def test_a_column_called_text_is_text(write: Write, column: str, kind: str) -> None:
    rows = "".join(f"n{i},{('red apple', 'blue car')[i % 2]}\n" for i in range(8))
    graph, report = import_tables(write("e.csv", "source,target\nn0,n1\n"), write("n.csv", f"id,{column}\n{rows}"))
    assert report.features[0].kind == kind and graph.vocab is not None
    assert graph.num_features == {"text": 4, "category": 2}[kind]


def test_named_columns_only(write: Write) -> None:
    graph, report = import_tables(
        write("e.csv", EDGES), write("n.csv", NODES), Choice(categorical=["size"], label="kind")
    )
    assert graph.vocab is not None and graph.vocab.tolist() == ["size=1", "size=2", "size=6", "size=7"]
    assert graph.class_names is not None and graph.class_names.tolist() == ["fruit", "thing"]
    assert set(report.unused) == {"description", "label", "score"}


def test_columns_by_name_and_number(write: Write) -> None:
    path = write("e.csv", "x,y,z\na,1,b\nb,1,c\n")
    assert import_tables(path, None, Choice(source="x", target="Z")).graph.num_edges == 2
    path = write("e.txt", "# a comment\n1 2\n2 3\n")
    assert import_tables(path).graph.names.tolist() == ["1", "2", "3"]  # type: ignore[union-attr]
    path = write("e.csv", "alice,w,bob\nbob,w,carol\n")
    graph = import_tables(path, None, Choice(source="1", target="3", header=False)).graph
    assert graph.names is not None and graph.names.tolist() == ["alice", "bob", "carol"]


ENDS = "source,target src,dst FROM,To :START_ID,:END_ID source_id,target_id "
ENDS += "FromNodeId,ToNodeId _start,_end u,v startNode.id,endNode.id :START_ID(Paper),:END_ID(Paper)"


@pytest.mark.parametrize("pair", ENDS.split())
def test_names_of_ends(write: Write, pair: str) -> None:
    a, b = pair.split(",")
    graph = import_tables(write("e.csv", f"{b},weight,{a}\nx,1,y\nx,1,z\n")).graph
    assert graph.names is not None and graph.names.tolist() == ["y", "x", "z"]


@pytest.mark.parametrize("header", ["id,name", "name,id", "Nr,Name", "n.id,n.name", "title,code"])
def test_ids_are_in_the_column_that_holds_what_edges_name(write: Write, header: str) -> None:
    cells = [("p", "Paris"), ("q", "Quito"), ("r", "Rome")]
    rows = [f"{b},{a}" if header in ("name,id", "title,code") else f"{a},{b}" for a, b in cells]
    nodes = write("n.csv", "\n".join([header, *rows]) + "\n")
    graph = import_tables(write("e.csv", "source,target\np,q\nq,r\n"), nodes).graph
    assert graph.names is not None and graph.names.tolist() == ["p", "q", "r"]
    graph = import_tables(write("e.csv", "source,target\nParis,Quito\n"), nodes).graph
    assert graph.names is not None and graph.names.tolist() == ["Paris", "Quito", "Rome"]


def test_lists_of_words_are_not_vectors(write: Write) -> None:
    nodes = write("n.csv", 'id,tags\na,"[""red"", ""car""]"\nb,"[""blue""]"\nc,"[]"\nd,"[""red""]"\n')
    report = import_tables(write("e.csv", EDGES), nodes).report
    assert not any(f.kind == "vector" for f in report.features)
    words = import_tables(write("e.csv", EDGES), nodes, Choice(text=["tags"])).graph.vocab
    assert words is not None and words.tolist() == ["blue", "car", "red"]


def test_order_of_nodes_is_that_of_rows(write: Write) -> None:
    graph = import_tables(write("e.csv", "source,target\nz,y\nq,z\ny,a\n")).graph
    assert graph.names is not None and graph.names.tolist() == ["z", "y", "q", "a"]


def test_parquet(write: Write, tmp_path: Path) -> None:
    edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 1]})
    nodes = pa.table(
        {
            "id": [1.0, 2.0, 3.0, 4.0],
            "emb": [[0.5, 1.0], [1.5, 2.0], None, [0.0, 1.0]],
            "kind": pa.array(["k", "w", "k", "w"]).dictionary_encode(),
            "flag": [True, False, None, True],
            "n": pa.array([1, None, 3, 5], pa.int64()),
            "words": [["red", "car"], ["blue"], [], ["red"]],
        }
    )
    pq.write_table(edges, tmp_path / "e.parquet")
    pq.write_table(nodes, tmp_path / "n.parquet")
    graph, report = import_tables(tmp_path / "e.parquet", tmp_path / "n.parquet")
    assert graph.names is not None and graph.names.tolist() == ["1", "2", "3", "4"] and graph.num_edges == 3
    kinds = {"emb": "vector", "kind": "category", "flag": "category", "n": "number"}
    assert {f.column: f.kind for f in report.features} == kinds
    text, _ = import_tables(tmp_path / "e.parquet", tmp_path / "n.parquet", Choice(text=["words"], vector=["emb"]))
    assert text.vocab is not None and text.vocab.tolist() == ["blue", "car", "red", "emb[0]", "emb[1]"]
    assert dense(text)[:, 3:].tolist() == [[0.5, 1], [1.5, 2], [0, 0], [0, 1]]
    bad = pa.table({"id": ["a", "b"], "emb": [[1.0], [1.0, 2.0]]})
    pq.write_table(bad, tmp_path / "n.parquet")
    with pytest.raises(DataError, match=r"n.parquet, row 1: the vector in column 'emb' has 1 numbers, others have 2"):
        import_tables(tmp_path / "e.parquet", tmp_path / "n.parquet")


def test_vectors(write: Write, tmp_path: Path) -> None:
    values = np.arange(40, dtype=np.float32).reshape(4, 10) - 7
    edges = write("e.csv", EDGES)
    columns = "id," + ",".join(f"v{i}" for i in range(10)) + "\n"
    rows = "".join(f"{name}," + ",".join(map(str, row)) + "\n" for name, row in zip("abcd", values.tolist()))
    found = [import_tables(edges, write("n.csv", columns + rows)).graph]  # detected
    found.append(import_tables(edges, write("n.csv", columns + rows), Choice(vector=["v"])).graph)
    lists = "".join(f'{name},"{row}"\n' for name, row in zip("abcd", values.tolist()))
    found.append(import_tables(edges, write("m.csv", "id,emb\n" + lists)).graph)
    np.save(tmp_path / "x.npy", values)
    file = Choice(vector=[str(tmp_path / "x.npy")])
    found.append(import_tables(edges, write("k.csv", "id\na\nb\nc\nd\n"), file).graph)
    numbered = write("f.csv", "source,target\n0,1\n1,2\n3,0\n")
    found.append(import_tables(numbered, None, file).graph)
    found.append(naq.from_tables(numbered, vector=values))
    for graph in found:
        assert np.array_equal(dense(graph), values) and graph.structure_hash == found[0].structure_hash


def test_load_takes_an_edge_list(write: Write) -> None:
    path = write("mine.csv", EDGES)
    graph = naq.load(path)
    assert (graph.name, graph.num_nodes, graph.features, graph.source) == ("mine", 4, None, str(path))
    assert naq.load(path, nodes=write("n.csv", NODES)).num_features == 11
    packed = write("mine.tsv.gz", gzip.compress(EDGES.replace(",", "\t").encode()))
    assert naq.load(str(packed)).hash == graph.hash and naq.load(packed).name == "mine"
    with pytest.raises(DataError, match="nodes"):
        naq.load("debian", nodes=path)
    with pytest.warns(UserWarning, match=r"a source or a target: 1 \(first: mine.csv, line 5\)"):
        naq.load(write("mine.csv", EDGES + ",b\n"))


def test_scipy(write: Write) -> None:
    matrix = sp.csr_array(np.array([[0, 1, 0], [0, 0, 2], [0, 1, 0]]))
    graph = naq.from_tables(matrix, {"id": ["p", "q", "r"], "size": [1, 2, 6]}, name="mine")
    assert graph.names is not None and graph.names.tolist() == ["p", "q", "r"] and graph.name == "mine"
    assert graph.structure_hash == naq.Graph([[0, 1], [1, 2]], nodes=3).structure_hash
    assert naq.from_tables(matrix).structure_hash == graph.structure_hash
    with pytest.raises(DataError, match=r"the matrix has shape \(3, 3\) and 2 nodes"):
        naq.from_tables(matrix, {"id": ["p", "q"]})
    for size, why in (([1, 2, 3], "node 'p' is described twice"), ([1, 1, 3], "one row per node")):
        with pytest.raises(DataError, match=why):
            naq.from_tables(matrix, {"id": ["p", "p", "r"], "size": size})


def test_data_frames(write: Write) -> None:
    edges = pa.table({"source": ["a", "b", "d"], "target": ["b", "c", "a"]})
    nodes = pa.table(
        {"id": ["a", "b", "c", "d"], "size": [1.0, None, 6.0, 7.0], "text": ["red car", None, "blue car", "x y"]}
    )
    frames = naq.from_tables(edges, nodes)
    columns = naq.from_tables(edges.to_pydict(), nodes.to_pydict())
    file = write("n.csv", "id,size,text\na,1,red car\nb,,\nc,6,blue car\nd,7,x y\n")
    files = naq.from_tables(write("e.csv", EDGES), file, text="text", numeric="size")
    assert frames.hash == columns.hash and sorted(frames.vocab) == sorted(files.vocab)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="edges"):
        naq.from_tables(3)
    with pytest.raises(DataError, match="columns of different lengths"):
        naq.from_tables({"source": [1], "target": [1, 2]})


def test_what_to_check_of_columns_that_nobody_named() -> None:
    n = 120
    edges = {"source": [f"n{i}" for i in range(n)], "target": [f"n{(i + 1) % n}" for i in range(n)]}
    nodes: dict[str, list] = {
        "id": [f"n{i}" for i in range(n)],
        "the title": [f"word{i % 7} word{i % 11} and" for i in range(n)],
        "year": [1990 + i % 30 for i in range(n)],
        "area": ["ab"[i % 2] for i in range(n)],
    }
    notes = "\n".join(import_tables(edges, nodes).report.notes)
    assert "values of 'area' are features" in notes and "--label" in notes
    named = "\n".join(import_tables(edges, nodes, Choice(text=["the title"], numeric=["year"])).report.notes)
    labelled = "\n".join(import_tables(edges, nodes, Choice(label="area")).report.notes)
    assert "are features" not in named + labelled


def test_a_number_that_says_nothing_does_not_outweigh_words() -> None:
    """Common words and a random number: with the number scaled next to counts, a third of the nodes were right."""
    random = np.random.default_rng(0)
    n, group = 400, np.arange(400) % 4
    source = np.repeat(np.arange(n), 3)
    target = (source + 4 * random.integers(1, n // 4, len(source))) % n  # of the same group
    stray = random.random(len(target)) < 0.3
    target[stray] = random.integers(0, n, stray.sum())
    common = ["the", "of", "and", "in", "for", "on", "with", "we"]
    about = [
        " ".join(
            [*random.choice(common, 25), *(f"g{c}w{w}" for w in random.integers(0, 60, 8)), f"x{random.integers(200)}"]
        )
        for c in group
    ]
    nodes = {"id": np.arange(n), "about": about, "price": random.lognormal(3, 2, n)}
    graph = naq.from_tables({"source": source, "target": target}, nodes)
    found = naq.FewShotNodeClassifier().fit(graph).predict({int(i): f"class {group[i]}" for i in range(8)})
    assert np.mean([one == f"class {c}" for one, c in zip(found[8:], group[8:])]) > 0.9


def test_histogram() -> None:
    found = {"0": 1, "1": 2, "2": 1, "3-4": 2, "5-8": 1, "9-16": 1, "17-32": 1}
    assert histogram(np.array([0, 1, 1, 2, 3, 4, 5, 9, 17])) == found
    assert histogram(np.zeros(3, dtype=int)) == {"0": 3, "1": 0}
