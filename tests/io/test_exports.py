"""Files as Neo4j, NetworkX, spreadsheets and others export them: from import to predictions, always the same people.

48 people in three trades, each with a bio, an age and a town, know others of their trade, and some know one of another.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import naq
from naq.cli.main import app
from naq.errors import DataError
from naq.io import Choice, import_tables

TRADES = {
    "baker": "bread dough oven flour pastry yeast cake rye crust butter",
    "sailor": "sea boat harbour wind rope sail tide anchor storm deck",
    "smith": "iron anvil hammer forge steel coal blade nail horseshoe fire",
}
SIZE = 48


class Person(NamedTuple):
    name: str
    trade: str
    bio: str
    age: int
    height: float
    town: str


def _people() -> tuple[list[Person], list[tuple[int, int]]]:
    rng = np.random.default_rng(7)
    everybody = []
    for i in range(SIZE):
        trade = list(TRADES)[i % 3]
        bio = " ".join(rng.choice(TRADES[trade].split(), 4, replace=False))
        town = ("Århus", "Genève", "Łódź", "Köln")[i % 4]
        everybody.append(Person(f"P{i:02d}", trade, bio, int(rng.integers(20, 70)), 1.5 + i / 100, town))
    known = {tuple(sorted((i, (i + step) % SIZE))) for i in range(SIZE) for step in (3, 9)}
    return everybody, sorted(known | {(i, i + 1) for i in range(0, SIZE, 8)})  # type: ignore[arg-type]


PEOPLE, KNOWN = _people()
NAMES = [p.name for p in PEOPLE]
NUMBERS = [str(i) for i in range(SIZE)]
BY_NAME = [(NAMES[a], NAMES[b]) for a, b in KNOWN]


def table(rows: Iterable[Iterable[object]], encoding: str = "utf-8", **options: Any) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, **options).writerows(rows)
    return stream.getvalue().encode(encoding, "replace")


def graph(weights: bool = False, attributes: bool = False) -> nx.Graph:
    made = nx.Graph()
    for p in PEOPLE:
        made.add_node(p.name, bio=p.bio, age=p.age, height=p.height, town=p.town)
    for i, (a, b) in enumerate(BY_NAME):
        more = {"kind": "friend of", "since": 1990} if attributes and i % 2 else {}
        made.add_edge(a, b, **({"weight": 1 + i / 10} if weights else {}), **more)
    return made


def written(write: Callable[..., Any], given: nx.Graph) -> bytes:
    stream = io.BytesIO()
    write(given, stream)
    return stream.getvalue()


def parquet(columns: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def comma(number: float) -> str:
    return f"{number:.2f}".replace(".", ",")


SEMICOLON = {"delimiter": ";"}
APOC = table(
    [["_id", "_labels", "bio", "name", "_start", "_end", "_type"]]
    + [[i, ":Person", p.bio, p.name, "", "", ""] for i, p in enumerate(PEOPLE)]
    + [["", "", "", "", a, b, "KNOWS"] for a, b in KNOWN],
    quoting=csv.QUOTE_ALL,
)
ARRAYS = [":START_ID(Person)", "since:int", ":END_ID(Person)", ":TYPE"]
EXPORTS: dict[str, tuple[list[str], dict[str, bytes]]] = {
    # ids of the nodes; files: of edges, of nodes where there is one
    "neo4j admin, typed headers": (NUMBERS, {
        "knows.csv": table([ARRAYS, *([a, 1990 + a, b, "KNOWS"] for a, b in KNOWN)]),
        "people.csv": table([
            ["personId:ID(Person)", "name", "bio", "age:int", "towns:string[]", ":LABEL"],
            *([i, p.name, p.bio, p.age, f"{p.town};Paris", "Person;Member"] for i, p in enumerate(PEOPLE)),
        ]),
    }),
    "neo4j, short form": (NUMBERS, {
        "rels.csv": table([[":START_ID", ":END_ID", ":TYPE"], *([a, b, "KNOWS"] for a, b in KNOWN)]),
        "nodes.csv": table([["id:ID", "name", ":LABEL", "bio"],
                            *([i, p.name, p.trade.title(), p.bio] for i, p in enumerate(PEOPLE))],
                           quoting=csv.QUOTE_ALL),
    }),
    "neo4j apoc.export.csv.all": (NUMBERS, {"all.csv": APOC, "all too.csv": APOC}),
    "neo4j RETURN a.name, b.name": (NAMES, {
        "export.csv": table([["a.name", "b.name"], *BY_NAME]),
        "nodes.csv": table([["n.name", "n.bio"], *([p.name, p.bio] for p in PEOPLE)]),
    }),
    "networkx edge list": (NAMES, {"graph.edgelist": written(nx.write_edgelist, graph())}),
    "networkx weights": (NAMES, {"g.edgelist.gz": gzip.compress(written(nx.write_edgelist, graph(weights=True)))}),
    "networkx attributes": (NAMES, {"edges.txt": written(nx.write_edgelist, graph(attributes=True))}),
    "networkx three columns": (NAMES, {"w.edgelist": written(nx.write_weighted_edgelist, graph(weights=True))}),
    "networkx graphml": (NAMES, {"people.graphml": written(nx.write_graphml, graph(weights=True))}),
    "networkx graphml.gz": (NAMES, {"people.graphml.gz": gzip.compress(written(nx.write_graphml, graph()))}),
    "pandas with an index": (NAMES, {
        "edges.csv": table([["", "source", "target"], *([i, a, b] for i, (a, b) in enumerate(BY_NAME))]),
        "nodes.csv": table([["", "bio", "height"], *([p.name, p.bio, p.height] for p in PEOPLE)]),
    }),
    "Excel, German": (NAMES, {
        "Kanten.csv": table(
            [["Von", "Nach", ""], *([a, b, ""] for a, b in BY_NAME), [""] * 3], "utf-8-sig", **SEMICOLON),
        "Personen.csv": table([
            ["Name", "Beschreibung", "Größe", "Ort", ""],
            *([p.name, p.bio, comma(p.height), p.town, ""] for p in PEOPLE), [""] * 5,
        ], "utf-8-sig", **SEMICOLON),
    }),
    "Excel, Windows-1252": (NAMES, {
        "kanten.csv": table([["source", "target"], *BY_NAME], "cp1252", **SEMICOLON),
        "personen.csv": table([
            ["ID", "Beschreibung", "Größe", "Ort"], *([p.name, p.bio, comma(p.height), p.town] for p in PEOPLE),
        ], "cp1252", **SEMICOLON),
    }),
    "Excel, Unicode Text": (NAMES, {
        "edges.txt": table([["From", "To"], *BY_NAME], "utf-16", delimiter="\t"),
        "nodes.txt": table(
            [["id", "bio", "town"], *([p.name, p.bio, p.town] for p in PEOPLE)], "utf-16", delimiter="\t"),
    }),
    "Google Sheets": (NAMES, {
        "edges.csv": table([["Person A", "Person B", "How close"],
                            *([*pair, "close" if i % 2 else "not so close"] for i, pair in enumerate(BY_NAME))]),
        "nodes.csv": table([["Person", "About", "Salary", "Link"], *(
            [p.name, p.bio.replace(" ", "\n", 1), f"{1000 * p.age:,}", f'=HYPERLINK("{p.name}")'] for p in PEOPLE)]),
    }),
    "quoted after spaces": (NAMES, {
        "edges.csv": ('"source", "target"\n' + "".join(f'"{a}", "{b}"\n' for a, b in BY_NAME)).encode(),
        "nodes.csv": ('"id", "about", "share", "price"\n' + "".join(
            f'"{p.name}", "{p.bio}", {p.age} %, "${100 * p.age:,}.50"\n' for p in PEOPLE)).encode(),
    }),
    "Gephi": (NUMBERS, {
        "edges.csv": table([["Source", "Target", "Type", "Id", "Label", "timeset", "Weight"],
                            *([a, b, "Undirected", i, "", "", "1.0"] for i, (a, b) in enumerate(KNOWN))]),
        "nodes.csv": table(
            [["Id", "Label", "timeset", "bio"], *([i, p.name, "", p.bio] for i, p in enumerate(PEOPLE))]),
    }),
    "Parquet": (NUMBERS, {
        "edges.parquet": parquet({"src": [a for a, _ in KNOWN], "dst": [b for _, b in KNOWN]}),
        "nodes.parquet": parquet({"id": range(SIZE), "bio": [p.bio for p in PEOPLE],
                                  "embedding": [np.eye(3)[i % 3].tolist() for i in range(SIZE)]}),
    }),
    "SNAP": (NUMBERS, {"web.txt.gz": gzip.compress(
        ("# Nodes: 48\n# FromNodeId\tToNodeId\n" + "".join(f"{a}\t{b}\r\n" for a, b in KNOWN)).encode())}),
}  # fmt: skip


def files_of(folder: Path, name: str) -> list[Path]:
    for file, content in EXPORTS[name][1].items():
        (folder / file).write_bytes(content)
    return [folder / file for file in EXPORTS[name][1]]


def dense(made: naq.Graph) -> np.ndarray:
    assert made.features is not None
    return made.features if isinstance(made.features, np.ndarray) else made.features.toarray()


@pytest.mark.parametrize("name", EXPORTS)
def test_from_import_to_predictions(name: str, tmp_path: Path) -> None:
    made, report = import_tables(*files_of(tmp_path, name))
    assert made.names is not None and (made.num_nodes, made.num_edges) == (SIZE, len(KNOWN))
    ids = EXPORTS[name][0]
    where = {name: i for i, name in enumerate(made.names.tolist())}
    assert set(where) == set(ids) and all(made.adjacency[where[ids[a]], where[ids[b]]] == 1 for a, b in KNOWN)
    assert bool(report.features) == (len(EXPORTS[name][1]) == 2 or "graphml" in name)
    clf = naq.FewShotNodeClassifier().fit(made, {ids[i]: PEOPLE[i].trade for i in range(6)})
    found = np.asarray(clf.predict())[[where[one] for one in ids]]
    assert np.mean(found == [p.trade for p in PEOPLE]) >= 0.95


@pytest.mark.parametrize(
    ("name", "column", "values"),
    [
        ("Excel, German", "Größe", [p.height for p in PEOPLE]),
        ("Excel, Windows-1252", "Größe", [p.height for p in PEOPLE]),
        ("Google Sheets", "Salary", [1000.0 * p.age for p in PEOPLE]),
        ("quoted after spaces", "share", [float(p.age) for p in PEOPLE]),
        ("quoted after spaces", "price", [100.0 * p.age for p in PEOPLE]),
        ("neo4j admin, typed headers", "age", [float(p.age) for p in PEOPLE]),
        ("networkx graphml", "height", [p.height for p in PEOPLE]),
    ],
)
def test_numbers_of_programs(name: str, column: str, values: list[float], tmp_path: Path) -> None:
    made, _ = import_tables(*files_of(tmp_path, name))
    assert made.vocab is not None
    found = dense(made)[:, made.vocab.tolist().index(column)]
    assert found == pytest.approx((np.array(values) - np.mean(values)) / np.std(values), abs=1e-3)


def test_graphml_is_the_graph_in_memory(tmp_path: Path) -> None:
    direct = naq.from_networkx(graph(weights=True), text="bio", numeric=["age", "height"])
    (path,) = files_of(tmp_path, "networkx graphml")
    assert import_tables(path, None, Choice(text=["bio"], numeric=["age", "height"])).graph.hash == direct.hash


def test_an_edge_list_is_a_graph(tmp_path: Path) -> None:
    """``naq predict`` gives the same for the files themselves as for the graph that was imported from them."""
    edges, nodes = files_of(tmp_path, "Excel, German")
    (tmp_path / "few.csv").write_bytes(table([["node", "class"], *([p.name, p.trade] for p in PEOPLE[:6])]))
    given = {"one": [str(edges), "--nodes", str(nodes)], "two": [str(tmp_path / "g.npz")]}
    assert CliRunner().invoke(app, ["import", *given["one"], "--out", str(tmp_path / "g.npz")]).exit_code == 0
    for name, words in given.items():
        out = str(tmp_path / f"{name}.csv")
        shown = CliRunner().invoke(app, ["predict", *words, "--labels", str(tmp_path / "few.csv"), "--out", out])
        assert shown.exit_code == 0, shown.output
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


@pytest.mark.parametrize("name", ["graph.adjlist", "graph.mtx", "book.xlsx"])
def test_formats_that_are_not_read_come_with_advice(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("a b c\n")
    for read in (naq.load, import_tables):
        with pytest.raises(DataError, match="files are not read"):
            read(tmp_path / name)


@pytest.mark.parametrize("lines", ["(0, 0) (1, 0) {}\n(0, 0) (0, 1) {}\n", "Mr Hi Mr Ho {'weight': 1}\n"])
def test_names_with_spaces_in_an_edge_list_of_networkx_are_not_guessed(lines: str, tmp_path: Path) -> None:
    (tmp_path / "grid.edgelist").write_text(lines)
    with pytest.raises(DataError, match="two names"):
        import_tables(tmp_path / "grid.edgelist")


def test_networkx_ids_of_any_kind() -> None:
    made = nx.Graph([(1, (2, 3)), ((2, 3), "x")])
    assert naq.from_networkx(made).names.tolist() == ["1", "(2, 3)", "x"]  # type: ignore[union-attr]
    made.add_node("1", id="other")
    with pytest.raises(DataError, match="'1'"):
        naq.from_networkx(made)
    with pytest.raises(DataError, match=r"no nodes|no rows"):
        naq.from_networkx(nx.Graph())


GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">%s</graphml>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GRAPHML % "<graph edgedefault='directed'><node id='a'/><edge source='a'/></graph>", "has no target"),
        (GRAPHML % "<graph edgedefault='directed'><node/></graph>", "has no id"),
        ("<graphml>\n<graph><node id='a'>", "line 2"),
        ("<svg/>", "<graph>"),
        (GRAPHML % "", "<graph>"),
        (GRAPHML % "<graph edgedefault='directed'/>", "no rows|no nodes"),
        (GRAPHML % ("<graph edgedefault='directed'/>" * 2), "more than one graph"),
        (GRAPHML % "<graph edgedefault='directed'><hyperedge/></graph>", "hyperedge"),
        ("source,target\na,b\n", "XML"),
        ("", "XML"),
    ],
)
def test_graphml_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "g.graphml").write_text(content)
    with pytest.raises(DataError, match=message) as error:
        naq.load(tmp_path / "g.graphml")
    assert "\n" not in str(error.value)


def test_graphml_defaults_and_unknown_keys(tmp_path: Path) -> None:
    nodes = """<key id="d0" for="node" attr.name="size" attr.type="double"><default>2.5</default></key>
        <key id="d1" for="node" yfiles.type="nodegraphics"/>
        <key id="d2" for="edge" attr.name="size" attr.type="double"/>
        <graph edgedefault="undirected"><node id="a"><data key="d0">1.5</data><data key="d1">x</data></node>
        <node id="b"/>
        <node id="c"/><edge source="a" target="b"><data key="d2">7</data></edge></graph>"""
    (tmp_path / "g.graphml").write_text(GRAPHML % nodes)
    made = naq.load(tmp_path / "g.graphml")
    size = np.array([1.5, 2.5, 2.5])
    assert np.allclose(dense(made)[:, 0], (size - size.mean()) / size.std()) and made.num_edges == 1
