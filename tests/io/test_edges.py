"""Weights and directions from every door: the same edges give the same ``Graph.arcs``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import naq
from naq.cli.main import app
from naq.errors import NaqError
from naq.io import Choice, import_tables

Write = Callable[..., Path]
RANDOM = np.random.default_rng(3)
ROWS = [(int(a), int(b), float(w)) for a, b, w in zip(*RANDOM.integers(0, 6, (2, 20)), RANDOM.integers(1, 9, 20))]
NODES = {"id": [str(i) for i in range(6)]}


def slow_arcs(directed: bool, weighted: bool) -> np.ndarray:
    """One row after the other."""
    table = np.zeros((6, 6))
    for a, b, weight in ROWS:
        for i, j in ((a, b),) if directed else ((a, b), (b, a)):
            if i != j:
                table[i, j] = table[i, j] + weight if weighted else 1
    return table


def text_of(directed: bool, weighted: bool) -> str:
    head = "source,target,weight\n" if weighted else "source,target\n"
    return head + "".join(f"{a},{b},{w:g}\n" if weighted else f"{a},{b}\n" for a, b, w in ROWS)


def from_file(folder: Path, directed: bool, weighted: bool) -> naq.Graph:
    (folder / "e.csv").write_text(text_of(directed, weighted))
    return naq.from_tables(folder / "e.csv", NODES, directed=directed)


def networkx_of(directed: bool, weighted: bool) -> nx.Graph:
    graph = (nx.MultiDiGraph if directed else nx.MultiGraph)()
    graph.add_nodes_from(NODES["id"])
    for a, b, weight in ROWS:
        graph.add_edge(str(a), str(b), **({"weight": weight} if weighted else {}))
    return graph


def from_graphml(folder: Path, directed: bool, weighted: bool) -> naq.Graph:
    nx.write_graphml(networkx_of(directed, weighted), folder / "g.graphml")
    return naq.load(folder / "g.graphml")


def matrix_of(directed: bool, weighted: bool) -> sp.csr_array:
    ends = np.array([row[:2] for row in ROWS]).T
    weights = np.array([row[2] for row in ROWS]) if weighted else np.ones(len(ROWS))
    matrix = sp.csr_array(sp.coo_array((weights, tuple(ends)), shape=(6, 6)))
    if not directed:
        matrix = sp.csr_array(matrix + matrix.T)
        matrix.setdiag(0)
        matrix.eliminate_zeros()
    if not weighted:
        matrix.data[:] = matrix.data > 0
    return matrix


def from_pyg(folder: Path, directed: bool, weighted: bool) -> naq.Graph:
    coo = sp.coo_array(matrix_of(directed, weighted))
    weight = {"edge_weight": torch.from_numpy(coo.data)} if weighted else {}
    return naq.Graph.from_pyg(Data(edge_index=torch.from_numpy(np.stack(coo.coords)), num_nodes=6, **weight))


DOORS: dict[str, Callable[[Path, bool, bool], naq.Graph]] = {
    "a file": from_file,
    "NetworkX": lambda _, *how: naq.from_networkx(networkx_of(*how)),
    "GraphML": from_graphml,
    "SciPy": lambda _, *how: naq.from_tables(matrix_of(*how)),
    "PyG": from_pyg,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_door_keeps_weights_and_directions(door: str, directed: bool, weighted: bool, tmp_path: Path) -> None:
    graph, wanted = DOORS[door](tmp_path, directed, weighted), slow_arcs(directed, weighted)
    assert (graph.adjacency.toarray() == ((wanted + wanted.T) > 0)).all() and graph.directed == directed
    found = graph.adjacency if graph.arcs is None else graph.arcs
    assert (found.toarray() == wanted).all() and (graph.arcs is None) == (not directed and not weighted)


def test_directions_can_be_chosen_and_are_noted(write: Write) -> None:
    directed, undirected = networkx_of(True, True), networkx_of(False, True)
    assert not naq.from_networkx(directed, directed=False).directed
    assert naq.from_networkx(undirected, directed=True).directed
    path = write("e.csv", "from,to\na,b\nb,a\nb,c\nb,c\n")
    graph, report = import_tables(path)
    assert not graph.directed and "--directed" in report.directions and "'from'" in report.directions
    graph, report = import_tables(path, None, Choice(directed=True))
    assert graph.arcs.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    assert report.directions == "have directions" and "edges: have directions" in str(report)
    assert [(one.count, one.places) for one in report.dropped] == [(1, ["e.csv, line 5"])]


@pytest.mark.parametrize("name", ["weight", "Weight", "w", "count"])
def test_weights_are_detected_and_can_be_left_out(write: Write, name: str) -> None:
    path = write("e.csv", f"source,target,{name}\na,b,2\nb,c,0\nb,a,3\nc,a,1\n")
    graph, report = import_tables(path)
    assert graph.arcs.toarray().tolist() == [[0, 5, 1], [5, 0, 0], [1, 0, 0]]
    told = "\n".join(report.notes)
    assert f"column {name!r}" in told and "added up: 1" in told and report.dropped[0].places == ["e.csv, line 3"]
    for more in ({}, {"id": ["a", "b", "c"], name: [1, 5, 2]}):
        without, report = import_tables(path, more or None, Choice(ignore=name))
        assert without.arcs is None and without.features is None and without.num_edges == 3
    assert any(name in note and "not read" in note for note in report.notes)


@pytest.mark.parametrize("cell", ["-2", "heavy", "", "nan", "1e40"])
def test_a_detected_column_that_holds_no_weights(write: Write, cell: str) -> None:
    path = write("e.csv", f"source,target,count\na,b,1\nb,c,{cell}\n")
    with pytest.warns(UserWarning, match="e.csv, line 3: the weight in column 'count'"):
        assert naq.load(path).arcs is None
    with pytest.raises(NaqError, match=r"e.csv, line 3: the weight in column 'count'"):
        naq.from_tables(path, weight="count")


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_entries_of_a_matrix_that_are_not_weights(value: Any) -> None:
    matrix = sp.csr_array(np.array([[0, 1.0, 0], [0, 0, value], [0, 0, 0]]))
    with pytest.raises(NaqError, match="the matrix, row 1, column 2: the weight"):
        naq.from_tables(matrix)


def test_attributes_of_edges_of_any_kind(recwarn: pytest.WarningsRecorder) -> None:
    graph = nx.Graph([("a", "b", {"weight": 2.0, "source": "x", "parts": [1, "b"]}), ("b", "c")])
    assert naq.from_networkx(graph).arcs.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert naq.from_networkx(graph, ignore="weight").arcs is None and not recwarn.list
    graph["a"]["b"]["weight"] = "heavy"
    with pytest.warns(UserWarning, match="weights are not used"):
        assert naq.from_networkx(graph).arcs is None


TYPED = "source,target,type,weight\na,b,cites,2\nb,c,likes,1\na,b,cites,1\nb,a,likes,1\nc,d,,5\nd,d,sees,1\n"


def by_type(graph: naq.Graph) -> dict[str, list[list[float]]]:
    return {name: matrix.toarray().tolist() for name, matrix in graph.relations.items()}


def as_file(folder: Path, cells: dict[str, Any]) -> Any:
    pyarrow.csv.write_csv(pa.table(cells), folder / "e.csv")
    return folder / "e.csv"


def as_parts(folder: Path, cells: dict[str, Any]) -> Any:
    (folder / "parts").mkdir(exist_ok=True)
    pq.write_table(pa.table(cells), folder / "parts" / "0.parquet")
    return folder / "parts"


def as_duckdb(folder: Path, cells: dict[str, Any]) -> Any:
    duckdb, edges = pytest.importorskip("duckdb"), pa.table(cells)  # noqa: F841  # which DuckDB finds by its name
    with duckdb.connect(str(folder / "e.duckdb")) as connection:
        connection.sql("CREATE OR REPLACE TABLE edges AS FROM edges")
    return folder / "e.duckdb"


TABLES = {
    "file": as_file, "parts": as_parts, "duckdb": as_duckdb, "dictionary": lambda _, cells: cells,
    "arrow": lambda _, cells: pa.table(cells),
    "pandas": lambda _, cells: pytest.importorskip("pandas").DataFrame(cells),
    "polars": lambda _, cells: pytest.importorskip("polars").DataFrame(cells),
}  # fmt: skip


@pytest.mark.parametrize("door", TABLES)
@pytest.mark.parametrize("ends", ["source target", "von nach"])
def test_columns_of_edges_that_are_ignored_have_no_effect(door: str, ends: str, tmp_path: Path) -> None:
    cells = dict(zip(ends.split(), (["a", "b", "a"], ["b", "c", "c"])))
    cells |= {"weight": [2, 5, 3], "type": ["x", "y", "x"]}  # type: ignore[dict-item]
    made, nodes = TABLES[door](tmp_path, cells), {"id": ["a", "b", "c"], "size": [1, 2, 4]}
    whole = naq.from_tables(made, nodes)
    assert whole.arcs.max() == 5 and set(whole.relations) == {"x", "y"}  # type: ignore[union-attr]
    for ignore, arcs, types in (("weight", False, True), ("type", True, False), (["type", "weight"], False, False)):
        graph = naq.from_tables(made, nodes, ignore=ignore)
        assert (graph.arcs is not None, bool(graph.relations)) == (arcs, types) and graph.num_features == 1
    other = {"from": ["a", "b"], "to": ["c", "c"], "note": ["", "u"]}
    several = naq.from_tables({"one": made, "two": other}, nodes, ignore=["note", "weight"])
    assert set(several.relations) == {"x", "y", "two"} and several.arcs is None


def test_types_of_edges(write: Write) -> None:
    graph, report = import_tables(write("e.csv", TYPED))
    cites, likes = [[0, 3, 0, 0], [3, 0, 0, 0], [0] * 4, [0] * 4], [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0] * 4]
    assert by_type(graph) == {"cites": cites, "likes": likes} and graph.num_edges == 3 and graph.arcs[0, 1] == 4
    assert report.types == {"cites": 1, "likes": 2} and "types of edges: cites 1, likes 2" in str(report)
    told = "\n".join(report.notes)
    assert "column 'type'" in told and "'sees'" in told and "added up: 1" in told
    graph, _ = import_tables(write("e.csv", TYPED), None, Choice(directed=True, edge_type="type"))
    assert by_type(graph)["likes"] == [[0] * 4, [1, 0, 1, 0], [0] * 4, [0] * 4]
    graph, report = import_tables(write("e.csv", TYPED), None, Choice(ignore=["type", "weight"]))
    assert graph.relations == {} and report.types == {} and graph.arcs is None


@pytest.mark.parametrize(("cells", "kept", "told"), [
    (["x"] * 40, 0, ""), (["Directed", "undirected"] * 20, 0, ""), (["x", "y"] * 20, 2, "'type'"),
    ([str(i) for i in range(40)], 0, "40 different"),
])  # fmt: skip
def test_what_a_column_of_types_may_hold(cells: list[str], kept: int, told: str) -> None:
    table = {"source": range(40), "target": range(1, 41), "type": cells}
    graph, report = import_tables(table)
    assert len(graph.relations) == kept and told in "\n".join(report.notes)
    graph, report = import_tables(table, None, Choice(edge_type="type"))
    assert len(graph.relations) == (0 if cells[1] == "x" else min(len(set(cells)), 32))
    assert ("8 edges of 8 more" in "\n".join(report.notes)) == (kept == 0 and "40" in told)


def test_networkx_types() -> None:
    graph = nx.MultiDiGraph()
    for a, b, key in (("a", "b", "cites"), ("a", "b", "likes"), ("b", "c", "cites"), ("c", "a", "likes")):
        graph.add_edge(a, b, key)
    assert list(naq.from_networkx(graph).relations) == ["cites", "likes"]
    assert naq.from_networkx(networkx_of(True, True)).relations == {}
    named = nx.Graph([("a", "b", {"rel": "x"}), ("b", "c", {"rel": "y"})])
    assert list(naq.from_networkx(named).relations) == ["x", "y"]


PAPERS = "paperId:ID,title,year,label\np1,on graphs and more,1999,x\np2,on words and more,2004,y\np3,on both,2005,x\n"
AUTHORS = "authorId:ID,name,year\na1,Ada B,1815\na2,Bob C,1900\n"


def test_a_file_for_every_type(write: Write) -> None:
    cites, writes = write("cites.csv", "from,to\np1,p2\np1,p3\n"), write("writes.csv", "who,what,w\na1,p1,2\na2,p2,4\n")
    papers, authors = write("papers.csv", PAPERS), write("authors.csv", AUTHORS)
    graph, report = import_tables([cites, writes], [papers, authors])
    assert graph.names.tolist() == ["p1", "p2", "p3", "a1", "a2"] and graph.labels.tolist() == [0, 1, 0, -1, -1]
    assert {name: matrix.nnz for name, matrix in graph.relations.items()} == {"cites": 4, "writes": 4}
    assert graph.arcs[3, 0] == 2 and graph.arcs[0, 1] == 1 and report.types == {"cites": 2, "writes": 2}
    assert {"type=papers", "type=authors", "year"} <= set(graph.vocab.tolist())
    assert graph.table.row(4) | {"type": "authors", "name": "Bob C", "title": ""} == graph.table.row(4)
    frames = {"cites": {"from": ["p1", "p1"], "to": ["p2", "p3"]}, "writes": writes}
    assert naq.from_tables(frames, {"papers": papers, "authors": authors}).hash == graph.hash
    only = naq.from_tables(frames, {"papers": papers, "authors": authors}, text="title")
    assert [block.kind for block in only.blocks] == ["words", "categories"]
    out = write("g.npz", "")
    out.unlink()
    words = ["import", cites, writes, "--nodes", papers, "--nodes", authors, "--out", out]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0 and "types of edges: cites 2, writes 2" in done.output
    assert naq.load(out).hash == graph.hash and naq.load(out).title_of(4) == "Bob C"


@pytest.mark.parametrize(
    ("edges", "nodes", "named"),
    [
        (["cites.csv", "sub/cites.csv"], ["papers.csv"], "cites.csv.*one name"),
        (["cites.csv"], ["papers.csv", "sub/papers.csv"], "papers.csv.*one name"),
        (["cites.csv"], ["papers.csv", "again.csv"], "'p1' is in papers.csv and in again.csv"),
        (["cites.csv", "none.csv"], ["papers.csv"], "none.csv"),
        (["cites.csv", "bad.csv"], ["papers.csv"], r"cites.csv has no column 'weight'.*from"),
    ],
)
def test_types_that_cannot_be(write: Write, edges: list[str], nodes: list[str], named: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("papers.csv", "sub/papers.csv", "again.csv"):
        write(name, PAPERS)
    write("cites.csv", "from,to\np1,p2\n"), write("sub/cites.csv", "from,to\np1,p2\n")
    write("bad.csv", "from,to,weight\np1,p2,3\np1,p3,-1\n")
    where = [[tmp_path / name for name in names] for names in (edges, nodes)]
    if "bad.csv" in edges:
        with pytest.warns(UserWarning, match=r"bad.csv, line 3: the weight"):
            naq.from_tables(*where)
    with pytest.raises(NaqError, match=named):
        import_tables(*where, Choice(weight="weight" if "bad.csv" in edges else None))


def test_no_edges_and_why(write: Write) -> None:
    zeros = write("e.csv", "source,target,weight\na,b,0\nb,c,0\n")
    with pytest.raises(NaqError, match=r"e.csv holds no edges \(rows of weight 0: 2\)"):
        import_tables(zeros)
    graph, report = import_tables(zeros, {"id": ["a", "b", "c"]})
    assert graph.num_edges == 0 and [(one.why, one.count) for one in report.dropped] == [("rows of weight 0", 2)]


@pytest.mark.parametrize("nodes", [None, {"id": ["a", "b"]}])
def test_a_file_of_edges_without_rows(nodes: Any, write: Write) -> None:
    some, none = write("some.csv", "source,target\na,b\n"), write("none.csv", "source,target,weight\n")
    for files in ([some, none], [none, some]):
        graph, report = import_tables(files, nodes)
        assert graph.num_edges == 1 and any("none.csv" in note and "'none'" in note for note in report.notes)


def test_names_of_columns_that_are_equal(write: Write) -> None:
    differ = write("c.csv", "source,target,Weight,weight\na,b,5,3\n")  # in case alone: the first counts
    assert import_tables(differ).graph.arcs[0, 1] == 5
    table = pa.table([["a"], ["b"], ["c"]], ["source", "target", "source"])
    path = write("e.parquet", "")
    pq.write_table(table, path)
    for given in (table, path, write("e.csv", "source,target,source\na,b,c\n")):
        with pytest.raises(NaqError, match="source"):
            import_tables(given)
