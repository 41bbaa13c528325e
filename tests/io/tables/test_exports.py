"""Files as other programs export them: Neo4j, NetworkX, Gephi, a spreadsheet, SNAP, pandas. All are the same small graph."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import naq
from naq.errors import DataError
from naq.io import Choice, import_tables

Write = Callable[..., Path]
PAPERS = [
    ("p1", "Graphs; and networks, explained", 1999, 3.5, "cs"),
    ("p2", 'The "small" world of networks', 2001, 2.25, "math"),
    ("p3", "Learning from\nfew labels", 2010, 10.0, "cs"),
    ("p4", "Café life of mathematicians", 2020, 0.5, ""),
]
CITES = [("p1", "p2"), ("p3", "p1"), ("p4", "p2")]


def check(graph: naq.Graph) -> None:
    assert graph.names is not None and graph.class_names is not None and graph.labels is not None
    names = graph.names.tolist()
    assert sorted(names) == ["p1", "p2", "p3", "p4"]
    label = {name: graph.class_names[y] if y >= 0 else "" for name, y in zip(names, graph.labels)}
    assert label == {paper[0]: paper[4] for paper in PAPERS}
    where = {name: i for i, name in enumerate(names)}
    assert all(graph.adjacency[where[a], where[b]] == 1 for a, b in CITES) and graph.num_edges == 3
    words = set(graph.vocab.tolist())  # type: ignore[union-attr]
    assert {"networks", "café", "few", "small"} <= words
    columns = graph.vocab.tolist()  # type: ignore[union-attr]
    features = graph.features.toarray() if not isinstance(graph.features, np.ndarray) else graph.features  # type: ignore[union-attr]
    score = np.array([paper[3] for paper in PAPERS])
    found = features[[where[paper[0]] for paper in PAPERS], columns.index("score")]
    assert np.allclose(found, (score - score.mean()) / score.std(), atol=1e-6)


CHOICE = Choice(text=["title"], numeric=["score"], label="field")


def test_neo4j_admin_import_files(engine: str, tmp_path: Path) -> None:
    with (tmp_path / "papers.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["paperId:ID(Paper)", "title", "year:int", "score:float", "field", ":LABEL"])
        writer.writerows([*paper, "Paper"] for paper in PAPERS)
    with (tmp_path / "cites.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([":START_ID(Paper)", ":END_ID(Paper)", ":TYPE"])
        writer.writerows((a, b, "CITES") for a, b in CITES)
    check(import_tables(tmp_path / "cites.csv", tmp_path / "papers.csv", CHOICE).graph)
    detected = import_tables(tmp_path / "cites.csv", tmp_path / "papers.csv").report
    kinds = {f.column: f.kind for f in detected.features}
    assert kinds == {"title": "text", "score": "number", "year": "number", "field": "category"}
    assert not detected.classes and detected.unused == {":LABEL": "always 'Paper'"}


def test_neo4j_apoc_export_of_everything_in_one_file(engine: str, tmp_path: Path) -> None:
    with (tmp_path / "all.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerow(["_id", "_labels", "title", "score", "field", "_start", "_end", "_type"])
        writer.writerows([p[0], ":Paper", p[1], p[3], p[4], "", "", ""] for p in PAPERS)
        writer.writerows(["", "", "", "", "", a, b, "CITES"] for a, b in CITES)
    graph, report = import_tables(tmp_path / "all.csv", tmp_path / "all.csv", CHOICE)
    check(graph)
    assert {item.why: item.count for item in report.dropped} == {
        "rows without a source or a target": 4,
        "rows of nodes without an id": 3,
    }


def test_a_spreadsheet_with_semicolons_and_decimal_commas(engine: str, write: Write) -> None:
    rows = ["Paper;Title;Year;Score;Field"]
    rows += [
        ";".join([p[0], '"' + p[1].replace('"', '""') + '"', str(p[2]), str(p[3]).replace(".", ","), p[4]])
        for p in PAPERS
    ]
    nodes = write("papers.csv", b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    edges = write("cites.csv", "From;To\r\n" + "\r\n".join(f"{a} ; {b}" for a, b in CITES) + "\r\n")
    graph, report = import_tables(edges, nodes, Choice(id="Paper", text=["Title"], numeric=["Score"], label="Field"))
    assert graph.vocab is not None
    vocab = [word.lower() if word == "Score" else word for word in graph.vocab]
    check(
        naq.Graph(
            graph.adjacency, graph.features, graph.labels, names=graph.names, class_names=graph.class_names, vocab=vocab
        )
    )
    assert not report.dropped
    old = write("papers.csv", "\r\n".join(rows).encode("cp1252"))
    again, report = import_tables(edges, old, Choice(id="Paper", text=["Title"], numeric=["Score"], label="Field"))
    assert again.hash == graph.hash and any("Windows-1252" in note for note in report.notes)


def test_networkx_and_its_graphml(tmp_path: Path) -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph()
    for name, title, year, score, field in PAPERS:
        graph.add_node(name, title=title, year=year, score=score, **({"field": field} if field else {}))
    graph.add_edges_from(CITES, weight=2.0)
    direct = naq.from_networkx(graph, text="title", numeric="score", label="field")
    check(direct)
    nx.write_graphml_xml(graph, tmp_path / "papers.graphml")
    check(import_tables(tmp_path / "papers.graphml", None, CHOICE).graph)
    (tmp_path / "packed.graphml.gz").write_bytes(gzip.compress((tmp_path / "papers.graphml").read_bytes()))
    packed = naq.load(tmp_path / "packed.graphml.gz")
    assert packed.names is not None and packed.names.tolist() == direct.names.tolist()  # type: ignore[union-attr]
    again, _ = import_tables(tmp_path / "papers.graphml", None, CHOICE)
    assert again.hash == direct.hash
    nx.write_edgelist(graph, tmp_path / "papers.edgelist", data=False)
    assert naq.load(tmp_path / "papers.edgelist").num_edges == 3
    nx.write_weighted_edgelist(graph, tmp_path / "weighted.edgelist")
    assert naq.load(tmp_path / "weighted.edgelist").num_edges == 3


def test_networkx_ids_of_any_kind() -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.Graph([(1, (2, 3)), ((2, 3), "x")])
    assert naq.from_networkx(graph).names.tolist() == ["1", "(2, 3)", "x"]  # type: ignore[union-attr]
    graph.add_node("1", id="other")
    with pytest.raises(DataError, match="node '1' is described twice"):
        naq.from_networkx(graph)
    with pytest.raises(DataError, match=r"no nodes|no rows"):
        naq.from_networkx(nx.Graph())


def test_snap(engine: str, write: Write) -> None:
    path = write(
        "web.txt", "# Directed graph\n# Nodes: 4 Edges: 3\n# FromNodeId\tToNodeId\n30\t1412\n30\t3352\n1412\t5\n"
    )
    graph = naq.load(path)
    assert graph.names is not None and graph.names.tolist() == ["30", "1412", "3352", "5"] and graph.num_edges == 3


def test_pandas_index_and_gephi(engine: str, write: Write) -> None:
    assert naq.load(write("e.csv", ",source,target\n0,a,b\n1,b,c\n")).num_edges == 2
    gephi = write("g.csv", "Source,Target,Type,Id,Label,timeset,Weight\na,b,Undirected,0,,,1\nb,c,Undirected,1,,,1\n")
    assert naq.load(gephi).num_edges == 2
    nodes = write("n.csv", "Id,Label,timeset,group\na,Jean Valjean,,1\nb,Javert,,2\nc,Cosette,,1\n")
    _, report = import_tables(gephi, nodes)
    assert not report.classes and report.unused["timeset"] == "empty"
    assert import_tables(gephi, nodes, Choice(label="group")).report.classes == {"1": 2, "2": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<graphml><graph><node id='a'/><edge source='a'/></graph></graphml>", "edge 1 has no target"),
        ("<graphml><graph><node/></graph></graphml>", "node 1 has no id"),
        ("<graphml><graph><node id='a'>", r"g.graphml, line 1: not readable XML"),
        ("<svg/>", "begins with <svg>; expected <graphml>"),
        ("<graphml></graphml>", "holds no <graph>"),
        ("<graphml><graph/></graphml>", "no rows|no nodes"),
        ("<graphml><graph/><graph/></graphml>", "more than one graph"),
        ("<graphml><graph><hyperedge/></graph></graphml>", "a <hyperedge>"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>", "declares a document type"),
        ("source,target\na,b\n", "not readable XML"),
        ("", "not readable XML|is empty"),
    ],
)
def test_graphml_that_is_none(write: Write, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        naq.load(write("g.graphml", content))
    assert "\n" not in str(error.value)


def test_graphml_defaults_and_unknown_keys(write: Write) -> None:
    path = write(
        "g.graphml",
        """<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
        <key id="d0" for="node" attr.name="size" attr.type="double"><default>2.5</default></key>
        <key id="d1" for="node" yfiles.type="nodegraphics"/><key id="d2" for="edge" attr.name="size" attr.type="double"/>
        <graph edgedefault="undirected"><node id="a"><data key="d0">1.5</data><data key="d1">x</data></node><node id="b"/>
        <node id="c"/><edge source="a" target="b"><data key="d2">7</data></edge></graph></graphml>""",
    )
    graph = naq.load(path)
    size = np.array([1.5, 2.5, 2.5])
    assert np.allclose(np.asarray(graph.features)[:, 0], (size - size.mean()) / size.std()) and graph.num_edges == 1


def test_a_text_of_graphml_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from naq.io.tables import reading

    monkeypatch.setattr(reading, "LONGEST_ROW", 100)
    text = '<graphml><key id="d" for="node" attr.name="about"/><graph><node id="a"/><node id="b"><data key="d">%s</data></node></graph></graphml>'
    (tmp_path / "g.graphml").write_text(text % ("x" * 101))
    with pytest.raises(DataError, match=r"g.graphml, node 2: 'about' has 101 characters; expected at most 100"):
        import_tables(tmp_path / "g.graphml")
