"""Files as other programs export them: the same small graph of people, again and again.

Each function writes the files of one export into a folder and returns an :class:`Export`. 48 people in three trades, each with a bio, an age and a
town; every one knows three others of the trade, and some know one of another. ``python tests/exported_files.py FOLDER`` writes all of them.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TRADES = {
    "baker": "bread dough oven flour pastry yeast cake rye crust butter",
    "sailor": "sea boat harbour wind rope sail tide anchor storm deck",
    "smith": "iron anvil hammer forge steel coal blade nail horseshoe fire",
}
TOWNS = ("Århus", "Genève", "Łódź", "Köln")
SIZE = 48


@dataclass(frozen=True)
class Export:
    """What a user would type: ``naq import EDGES [--nodes NODES] OPTIONS``.

    Attributes:
        options: what had to be named.
        names: ids of the nodes as the files have them, in the order of :func:`people`.
        features: whether the files hold any.
    """

    edges: Path
    nodes: Path | None = None
    options: tuple[str, ...] = ()
    edge_count: int = 0
    names: tuple[str, ...] = ()
    features: bool = True


@dataclass(frozen=True)
class Person:
    name: str
    trade: str
    bio: str
    age: int
    height: float
    town: str


def people() -> tuple[list[Person], list[tuple[int, int]]]:
    """Everybody, and who knows whom, each pair once."""
    rng = np.random.default_rng(7)
    trades = list(TRADES)
    everybody = []
    for i in range(SIZE):
        words = TRADES[trades[i % 3]].split()
        bio = " ".join(rng.choice(words, 4, replace=False))
        everybody.append(
            Person(f"P{i:02d}", trades[i % 3], bio, int(rng.integers(20, 70)), 1.5 + i / 100, TOWNS[i % len(TOWNS)])
        )
    known = {tuple(sorted((i, (i + step) % SIZE))) for i in range(SIZE) for step in (3, 9)}
    known |= {tuple(sorted((i, (i + 1) % SIZE))) for i in range(0, SIZE, 8)}
    return everybody, sorted(known)  # type: ignore[arg-type]


def few_labels(export: Export) -> dict[str, str]:
    """Two labels per trade."""
    everybody, _ = people()
    return {export.names[i]: everybody[i].trade for i in range(6)}


def write_csv(path: Path, rows: list[list[object]], encoding: str = "utf-8", **options: str) -> Path:
    with path.open("w", newline="", encoding=encoding, errors="replace") as stream:
        csv.writer(stream, **options).writerows(rows)  # type: ignore[arg-type]
    return path


def neo4j_admin(folder: Path) -> Export:
    """For ``neo4j-admin database import``: typed headers, an id space, arrays divided by semicolons."""
    everybody, known = people()
    nodes: list[list[object]] = [["personId:ID(Person)", "name", "bio", "age:int", "towns:string[]", ":LABEL"]]
    nodes += [[f"n{i}", p.name, p.bio, p.age, f"{p.town};Paris", "Person;Member"] for i, p in enumerate(everybody)]
    edges: list[list[object]] = [[":START_ID(Person)", "since:int", ":END_ID(Person)", ":TYPE"]]
    edges += [[f"n{a}", 1990 + a, f"n{b}", "KNOWS"] for a, b in known]
    return Export(
        write_csv(folder / "knows.csv", edges),
        write_csv(folder / "people.csv", nodes),
        edge_count=len(known),
        names=tuple(f"n{i}" for i in range(SIZE)),
    )


def neo4j_plain(folder: Path) -> Export:
    """The short form: ``id:ID,name,:LABEL``; the trade is the node's label."""
    everybody, known = people()
    nodes: list[list[object]] = [["id:ID", "name", ":LABEL", "bio"]]
    nodes += [[i + 100, p.name, p.trade.title(), p.bio] for i, p in enumerate(everybody)]
    edges: list[list[object]] = [[":START_ID", ":END_ID", ":TYPE"]]
    edges += [[a + 100, b + 100, "KNOWS"] for a, b in known]
    return Export(
        write_csv(folder / "rels.csv", edges),
        write_csv(folder / "nodes.csv", nodes, quoting=csv.QUOTE_ALL),
        edge_count=len(known),
        names=tuple(str(i + 100) for i in range(SIZE)),
    )


def neo4j_apoc(folder: Path) -> Export:
    """``apoc.export.csv.all``: nodes and relationships in one file."""
    everybody, known = people()
    rows: list[list[object]] = [["_id", "_labels", "bio", "name", "_start", "_end", "_type"]]
    rows += [[i, ":Person", p.bio, p.name, "", "", ""] for i, p in enumerate(everybody)]
    rows += [["", "", "", "", a, b, "KNOWS"] for a, b in known]
    path = write_csv(folder / "all.csv", rows, quoting=csv.QUOTE_ALL)
    return Export(path, path, edge_count=len(known), names=tuple(str(i) for i in range(SIZE)))


def neo4j_cypher(folder: Path) -> Export:
    """``RETURN a.name, b.name`` saved from Neo4j's browser."""
    everybody, known = people()
    rows: list[list[object]] = [["a.name", "b.name"]]
    rows += [[everybody[a].name, everybody[b].name] for a, b in known]
    nodes: list[list[object]] = [["n.name", "n.bio"], *([p.name, p.bio] for p in everybody)]
    return Export(
        write_csv(folder / "export.csv", rows),
        write_csv(folder / "export-nodes.csv", nodes),
        edge_count=len(known),
        names=tuple(p.name for p in everybody),
    )


def neo4j_cypher_nodes(folder: Path) -> Export:
    """``MATCH (n)-[r]->(m) RETURN n, r, m``: whole nodes as the browser prints them, which name no ends."""
    everybody, known = people()

    def shown(i: int) -> str:
        return f"(:Person {{name: {everybody[i].name},bio: {everybody[i].bio}}})"

    rows: list[list[object]] = [["n", "r", "m"], *([shown(a), "[:KNOWS]", shown(b)] for a, b in known)]
    return Export(
        write_csv(folder / "export.csv", rows),
        options=("--source", "n", "--target", "m"),
        edge_count=len(known),
        names=tuple(shown(i) for i in range(SIZE)),
        features=False,
    )


def _networkx(named: bool = True, weights: bool = False):
    import networkx as nx

    everybody, known = people()
    graph = nx.Graph()
    for i, p in enumerate(everybody):
        graph.add_node(p.name if named else i, bio=p.bio, age=p.age, height=p.height, town=p.town)
    for a, b in known:
        ends = (everybody[a].name, everybody[b].name) if named else (a, b)
        graph.add_edge(*ends, **({"weight": 1 + a / 10} if weights else {}))
    return graph


def networkx_edgelist(folder: Path) -> Export:
    """``write_edgelist`` with its default: a dictionary at the end of every line, empty here."""
    import networkx as nx

    path = folder / "graph.edgelist"
    nx.write_edgelist(_networkx(), path)
    return Export(path, edge_count=len(people()[1]), names=tuple(p.name for p in people()[0]), features=False)


def networkx_weights(folder: Path) -> Export:
    """The same with weights: ``P00 P01 {'weight': 1.0}``."""
    import networkx as nx

    path = folder / "graph.edgelist.gz"
    nx.write_edgelist(_networkx(named=False, weights=True), path)
    return Export(path, edge_count=len(people()[1]), names=tuple(map(str, range(SIZE))), features=False)


def networkx_two_attributes(folder: Path) -> Export:
    """``{'weight': 1.0, 'kind': 'friend of'}``: spaces within the dictionary."""
    import networkx as nx

    graph = _networkx(weights=True)
    for number, (_, _, data) in enumerate(graph.edges(data=True)):
        data |= {"kind": "friend of", "since": 1990} if number % 2 else {"kind": "kin"}
    path = folder / "edges.txt"
    nx.write_edgelist(graph, path)
    return Export(path, edge_count=len(people()[1]), names=tuple(p.name for p in people()[0]), features=False)


def networkx_weighted(folder: Path) -> Export:
    """``write_weighted_edgelist``: three columns and no header."""
    import networkx as nx

    path = folder / "weighted.edgelist"
    nx.write_weighted_edgelist(_networkx(weights=True), path)
    return Export(path, edge_count=len(people()[1]), names=tuple(p.name for p in people()[0]), features=False)


def networkx_adjlist(folder: Path) -> Export:
    """``write_adjlist``: every line a node and those joined to it."""
    import networkx as nx

    path = folder / "graph.adjlist"
    nx.write_adjlist(_networkx(), path)
    return Export(path, edge_count=len(people()[1]), names=tuple(p.name for p in people()[0]), features=False)


def networkx_graphml(folder: Path) -> Export:
    """``write_graphml`` with attributes."""
    import networkx as nx

    path = folder / "people.graphml"
    nx.write_graphml(_networkx(weights=True), path)
    return Export(path, edge_count=len(people()[1]), names=tuple(p.name for p in people()[0]))


def networkx_pandas(folder: Path) -> Export:
    """``to_pandas_edgelist(g).to_csv()``: the index of the frame is a column without a name."""
    everybody, known = people()
    edges: list[list[object]] = [["", "source", "target", "weight"]]
    edges += [[i, everybody[a].name, everybody[b].name, 1.0] for i, (a, b) in enumerate(known)]
    nodes: list[list[object]] = [["", "bio", "height"]]
    nodes += [[p.name, p.bio, p.height] for p in everybody]
    return Export(
        write_csv(folder / "edges.csv", edges),
        write_csv(folder / "nodes.csv", nodes),
        edge_count=len(known),
        names=tuple(p.name for p in everybody),
    )


def excel(folder: Path) -> Export:
    """German Excel, "CSV UTF-8": a byte order mark, semicolons, decimal commas, empty columns and rows at the end."""
    everybody, known = people()
    nodes: list[list[object]] = [["Name", "Beschreibung", "Größe", "Ort", "", ""]]
    nodes += [[p.name, p.bio, f"{p.height:.2f}".replace(".", ","), p.town, "", ""] for p in everybody]
    nodes += [["", "", "", "", "", ""]] * 3
    edges: list[list[object]] = [["Von", "Nach", ""]]
    edges += [[everybody[a].name, everybody[b].name, ""] for a, b in known] + [["", "", ""]] * 2
    return Export(
        write_csv(folder / "Kanten.csv", edges, "utf-8-sig", delimiter=";"),
        write_csv(folder / "Personen.csv", nodes, "utf-8-sig", delimiter=";"),
        edge_count=len(known),
        names=tuple(p.name for p in everybody),
    )


def excel_latin(folder: Path) -> Export:
    """An older Excel: Windows-1252, and a title line above the header."""
    everybody, known = people()
    nodes: list[list[object]] = [["Mitglieder 2026", "", "", ""], ["ID", "Beschreibung", "Größe", "Ort"]]
    nodes += [[p.name, p.bio, f"{p.height:.2f}".replace(".", ","), p.town] for p in everybody]
    edges: list[list[object]] = [["Wer kennt wen", ""], ["source", "target"]]
    edges += [[everybody[a].name, everybody[b].name] for a, b in known]
    return Export(
        write_csv(folder / "kanten.csv", edges, "cp1252", delimiter=";"),
        write_csv(folder / "personen.csv", nodes, "cp1252", delimiter=";"),
        edge_count=len(known),
        names=tuple(p.name for p in everybody),
    )


def excel_unicode_text(folder: Path) -> Export:
    """Excel's "Unicode Text": UTF-16 with tabs."""
    everybody, known = people()
    nodes: list[list[object]] = [["id", "bio", "town"], *([p.name, p.bio, p.town] for p in everybody)]
    edges: list[list[object]] = [["From", "To"], *([everybody[a].name, everybody[b].name] for a, b in known)]
    return Export(
        write_csv(folder / "edges.txt", edges, "utf-16", delimiter="\t"),
        write_csv(folder / "nodes.txt", nodes, "utf-16", delimiter="\t"),
        edge_count=len(known),
        names=tuple(p.name for p in everybody),
    )


def google_sheets(folder: Path) -> Export:
    """Commas, quoted cells with newlines, a column of formulas shown as text, thousands separators."""
    everybody, known = people()
    nodes: list[list[object]] = [["Person", "About", "Salary", "Link"]]
    nodes += [[p.name, p.bio.replace(" ", "\n", 1), f"{1000 * p.age:,}", f'=HYPERLINK("{p.name}")'] for p in everybody]
    edges: list[list[object]] = [["Person A", "Person B", "How close"]]
    edges += [[everybody[a].name, everybody[b].name, "close" if a % 2 else "not so close"] for a, b in known]
    return Export(
        write_csv(folder / "People - edges.csv", edges),
        write_csv(folder / "People - nodes.csv", nodes),
        edge_count=len(known),
        names=tuple(p.name for p in everybody),
    )


def quoted_after_spaces(folder: Path) -> Export:
    """Written by hand or by a small program: a space behind every comma, quoted cells, shares in percent, prices."""
    everybody, known = people()
    edges = "".join(f'"{everybody[a].name}", "{everybody[b].name}"\n' for a, b in known)
    rows = "".join(f'"{p.name}", "{p.bio}", {p.age} %, "${100 * p.age:,}.50"\n' for p in everybody)
    (folder / "edges.csv").write_text(f'"source", "target"\n{edges}')
    (folder / "nodes.csv").write_text(f'"id", "about", "share", "price"\n{rows}')
    return Export(
        folder / "edges.csv", folder / "nodes.csv", edge_count=len(known), names=tuple(p.name for p in everybody)
    )


def gephi(folder: Path) -> Export:
    """Gephi's data laboratory."""
    everybody, known = people()
    nodes: list[list[object]] = [["Id", "Label", "timeset", "bio", "modularity_class"]]
    nodes += [[i, p.name, "", p.bio, i % 3] for i, p in enumerate(everybody)]
    edges: list[list[object]] = [["Source", "Target", "Type", "Id", "Label", "timeset", "Weight"]]
    edges += [[a, b, "Undirected", i, "", "", "1.0"] for i, (a, b) in enumerate(known)]
    return Export(
        write_csv(folder / "edges.csv", edges),
        write_csv(folder / "nodes.csv", nodes),
        edge_count=len(known),
        names=tuple(str(i) for i in range(SIZE)),
    )


def matrix_market(folder: Path) -> Export:
    """``scipy.io.mmwrite`` of the adjacency."""
    import scipy.io
    import scipy.sparse as sp

    _, known = people()
    one, two = np.array(known).T
    matrix = sp.coo_array((np.ones(len(one)), (one, two)), shape=(SIZE, SIZE))
    scipy.io.mmwrite(folder / "graph.mtx", matrix)
    return Export(
        folder / "graph.mtx", edge_count=len(known), names=tuple(str(i + 1) for i in range(SIZE)), features=False
    )


def parquet(folder: Path) -> Export:
    """A data frame's ``to_parquet``: whole numbers as ids, vectors as lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    everybody, known = people()
    rng = np.random.default_rng(3)
    trades = list(TRADES)
    centres = rng.standard_normal((3, 8))
    vectors = [(centres[trades.index(p.trade)] + 0.1 * rng.standard_normal(8)).tolist() for p in everybody]
    pq.write_table(
        pa.table({"id": range(SIZE), "name": [p.name for p in everybody], "embedding": vectors}),
        folder / "nodes.parquet",
    )
    pq.write_table(pa.table({"src": [a for a, _ in known], "dst": [b for _, b in known]}), folder / "edges.parquet")
    return Export(
        folder / "edges.parquet",
        folder / "nodes.parquet",
        edge_count=len(known),
        names=tuple(str(i) for i in range(SIZE)),
    )


def snap(folder: Path) -> Export:
    """A SNAP edge list, compressed, with comments above."""
    _, known = people()
    text = "# Undirected graph\n# Nodes: 48\n# FromNodeId\tToNodeId\n" + "".join(f"{a}\t{b}\r\n" for a, b in known)
    (folder / "web.txt.gz").write_bytes(gzip.compress(text.encode()))
    return Export(
        folder / "web.txt.gz", edge_count=len(known), names=tuple(str(i) for i in range(SIZE)), features=False
    )


EXPORTS: dict[str, Callable[[Path], Export]] = {
    one.__name__: one
    for one in (
        neo4j_admin,
        neo4j_plain,
        neo4j_apoc,
        neo4j_cypher,
        neo4j_cypher_nodes,
        networkx_edgelist,
        networkx_weights,
        networkx_two_attributes,
        networkx_weighted,
        networkx_graphml,
        networkx_pandas,
        excel,
        excel_latin,
        excel_unicode_text,
        google_sheets,
        quoted_after_spaces,
        gephi,
        parquet,
        snap,
    )
}

REFUSED: dict[str, Callable[[Path], Export]] = {one.__name__: one for one in (networkx_adjlist, matrix_market)}
"""Formats that are not read, with advice."""


def main(folder: Path) -> None:
    for name, write in EXPORTS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        export = write(folder / name)
        write_csv(
            folder / name / "few.csv", [["node", "class"], *([name, one] for name, one in few_labels(export).items())]
        )
        nodes = f" --nodes {export.nodes.name!r}" if export.nodes else ""
        print(f"{name}: naq import {export.edges.name!r}{nodes} {' '.join(map(repr, export.options))}".rstrip())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
