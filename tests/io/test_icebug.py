"""icebug-disk: its own example, graphs there and back, and what is damaged or made to mislead."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import naq
from naq import Graph
from naq.errors import DataError
from naq.graph import arcs_of
from naq.io import Choice, import_tables, save_icebug
from naq.io.tables.icebug import read_icebug

USERS = {"id": [100, 250, 300, 500], "name": ["Adam", "Karissa", "Zhang", "Noura"], "age": [30, 40, 50, 25]}
CITIES = {"code": ["w", "k", "g"], "population": [3.5, 1.5, None], "id": ["x", "y", "z"]}
FOLLOWS = {0: [(1, 2020), (2, 2020)], 1: [(2, 2021)], 2: [(3, 2022)]}
LIVES = {0: [0], 1: [0], 2: [1], 3: [2]}
SCHEMA = """
CREATE NODE TABLE User(id INT32, name STRING, age INT64, PRIMARY KEY(id)) WITH (storage = './demo');
create node table if not exists `City`(code STRING, population DOUBLE, PRIMARY KEY(code));
// CREATE NODE TABLE nobody(id INT64);
CREATE REL TABLE Follows(FROM user TO USER, since INT32) WITH (storage = 'CREATE REL TABLE x(FROM a TO b)');
CREATE REL TABLE `livesin` ( FROM User TO city );
"""


def write(folder: Path, **changed: Any) -> Path:
    """The example as other programs write it, with other tables; None leaves a file out, text replaces one."""
    tables: dict[str, Any] = {
        "nodes_user": USERS,
        "nodes_city": CITIES,
        "indptr_follows": {"ptr": np.array([0, 2, 3, 4, 4], np.uint64)},
        "indices_follows": {"target": np.array([1, 2, 2, 3], np.uint64), "since": [2020, 2020, 2021, 2022]},
        "indptr_livesin": {"ptr": [0, 1, 2, 3, 4]},
        "indices_livesin": {"target": np.array([0, 0, 1, 2], np.uint64)},
        "schema": SCHEMA,
    } | changed
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        if isinstance(table, str):
            (folder / f"{name}{'' if '.' in name else '.cypher' if name == 'schema' else '.parquet'}").write_text(table)
        elif table is not None:
            version = {"icebug_disk_version": "v1"} if "version" not in table else {"icebug_disk_version": "v2"}
            cells = pa.table({key: cells for key, cells in table.items() if key != "version"})
            pq.write_table(cells.replace_schema_metadata(version), folder / f"{name}.parquet", compression="zstd")
    return folder


def test_two_types_of_nodes_and_of_edges(tmp_path: Path) -> None:
    graph, report = import_tables(write(tmp_path / "demo"))
    names = ["100", "250", "300", "500", "w", "k", "g"]
    assert graph.names is not None and graph.names.tolist() == names and graph.directed
    wanted = np.zeros((2, 7, 7))
    for source, edges in FOLLOWS.items():
        for target, _ in edges:
            wanted[0, source, target] = 1
    for source, targets in LIVES.items():
        wanted[1, source, [4 + target for target in targets]] = 1
    assert list(graph.relations) == ["Follows", "livesin"]
    assert (np.stack([one.toarray() for one in graph.relations.values()]) == wanted).all()
    assert graph.arcs is not None and (graph.arcs.toarray() == wanted.sum(axis=0)).all()
    assert graph.vocab is not None and {"type=user", "age", "population"} <= set(graph.vocab.tolist())
    assert any("'since'" in note for note in report.notes) and not report.dropped
    assert naq.load(tmp_path / "demo").hash == graph.hash
    both = import_tables(tmp_path / "demo", None, Choice(directed=False)).graph
    assert not both.directed and both.arcs is None
    one = SCHEMA.replace("CREATE REL TABLE `livesin`", "")
    dated = import_tables(write(tmp_path / "demo", schema=one), None, Choice(weight="since")).graph
    assert dated.arcs is not None and dated.arcs[0, 1] == 2020 and not dated.relations


def test_equal_ids_of_two_types(tmp_path: Path) -> None:
    graph = naq.load(write(tmp_path / "demo", nodes_city=CITIES | {"code": [100, 7, 8]}))
    assert graph.names is not None and graph.names[[0, 4, 5]].tolist() == ["user/100", "city/100", "city/7"]


def random_graph(kind: str) -> Graph:
    random, n = np.random.default_rng(2), 9
    ends, weights = random.integers(0, n, (2, 30)), random.integers(1, 5, 30) / 4
    features, labels = random.random((n, 40), np.float32), random.integers(-1, 3, n)
    labels[:3] = 0, 1, 2
    directed, weighted = "directed" in kind, "weighted" in kind
    arcs = arcs_of(ends, weights if weighted else None, n, directed=directed)
    relations = None
    if "types" in kind:
        of = ends[0] + n * ends[1] if directed else ends.min(axis=0) + n * ends.max(axis=0)
        some = [of % 3 == 0, of % 3 == 1, of % 3 == 2]
        parts = [arcs_of(ends[:, own], weights[own] if weighted else None, n, directed=directed) for own in some]
        whole = [sp.csr_array(Graph(ends[:, own], nodes=n).adjacency) for own in some]
        names = ("likes", "Käufe am/um: 5", "LIKES")
        relations = dict(zip(names, (one if part is None else part for part, one in zip(parts, whole))))
    names = [f"node {i}" for i in range(n)] if "named" in kind else None
    return Graph(ends, features, labels, nodes=n, arcs=arcs, relations=relations, names=names, class_names=list("abc"))


@pytest.mark.parametrize(
    "kind", ["", "named", "directed", "weighted", "directed weighted named", "types", "types directed weighted"]
)
def test_there_and_back(kind: str, tmp_path: Path) -> None:
    graph = random_graph(kind)
    folder = save_icebug(tmp_path / "g.icebug", graph)
    again = naq.load(folder)
    assert again.with_relations(None).hash == graph.with_relations(None).hash
    assert again.class_names is not None and again.class_names.tolist() == ["a", "b", "c"]
    files = {"likes": "likes", "Käufe am/um: 5": "Käufe_am_um_5", "LIKES": "LIKES_"}
    assert set(again.relations) == {files[name] for name in graph.relations}
    assert all((again.relations[files[name]] != matrix).nnz == 0 for name, matrix in graph.relations.items())
    assert graph.names is None or (again.names == graph.names).all()
    for file in folder.glob("*.parquet"):
        facts = pq.read_metadata(file)
        assert facts.metadata[b"icebug_disk_version"] == b"v1" and facts.row_group(0).column(0).compression == "ZSTD"
    assert read_icebug(folder)[1]["node"].rows == 9
    assert len(list(folder.glob("indptr_*"))) == max(1, len(graph.relations))


def test_another_program_reads_it(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    graph = random_graph("directed weighted named")
    folder = save_icebug(tmp_path / "g.icebug", graph)
    pointers = [one for (one,) in duckdb.sql(f"SELECT ptr FROM '{folder}/indptr_edge.parquet'").fetchall()]
    rows = duckdb.sql(f"SELECT target, weight FROM '{folder}/indices_edge.parquet'").fetchall()
    found = np.zeros((9, 9))
    for node in range(9):
        for target, weight in rows[pointers[node] : pointers[node + 1]]:
            found[node, target] = weight
    assert graph.arcs is not None and (found == graph.arcs.toarray()).all()
    schema = (folder / "schema.cypher").read_text()
    assert "`id` STRING, `label` STRING" in schema and "weight FLOAT)" in schema and "FROM node TO node" in schema


def test_cells_become_what_they_are(tmp_path: Path) -> None:
    nodes = {
        "key": ["a", "b", "c"], "size": [1.5, None, 3], "zip": ["01", "22", "3"], "n`o": [4, 5, 6], "label": [*"uvu"],
        "id": ["x", "y", "z"], "vec": [[1.0, 2], [0, 1], [2, 2]], "gone": [None, "", None],
    }  # fmt: skip
    graph = naq.from_tables({"source": ["a", "b"], "target": ["b", "c"]}, nodes, id="key")
    table = pq.read_table(save_icebug(tmp_path / "g.icebug", graph) / "nodes_node.parquet")
    kinds = {one.name: str(one.type) for one in table.schema}
    assert kinds.pop("vec").startswith("fixed_size_list<")
    texts = dict.fromkeys(("id", "label", "zip", "id_", "gone"), "string")
    assert kinds == texts | {"size": "double", "no": "int64"}
    assert table["size"].to_pylist() == [1.5, None, 3] and table["zip"].to_pylist() == ["01", "22", "3"]
    again = naq.load(tmp_path / "g.icebug")
    assert again.num_edges == 2 and again.labels is not None and again.num_classes == 2


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a pointer falls": ({"indptr_follows": {"ptr": [0, 3, 2, 4, 4]}}, r"indptr_follows.parquet, row 3"),
    "too few pointers": ({"indptr_follows": {"ptr": [0, 2, 4]}}, r"indptr_follows.parquet has 3 rows.*5 rows"),
    "another end": ({"indptr_follows": {"ptr": [0, 2, 3, 4, 3]}}, r"indptr_follows.parquet.*to 4"),
    "another start": ({"indptr_follows": {"ptr": [1, 2, 3, 4, 4]}}, r"indptr_follows.parquet.*from 0"),
    "too far": ({"indptr_follows": {"ptr": [0, 2, 3, 9, 4]}}, r"indptr_follows.parquet, row 4: ptr is 9"),
    "no rows": ({"indptr_follows": {"ptr": pa.array([], pa.int64())}}, r"0 rows"),
    "a target too far": ({"indices_livesin": {"target": [0, 0, 3, 1]}}, r"indices_livesin.parquet, row 3: target is 3"),
    "a target below 0": ({"indices_livesin": {"target": [0, 0, -1, 1]}}, r"row 3: target is -1"),
    "a huge target": (
        {"indices_livesin": {"target": np.array([0, 0, 0, 2**64 - 1], np.uint64)}},
        r"row 4: target is|target.*uint64",
    ),
    "a fraction": ({"indices_livesin": {"target": [0, 0, 0.5, 1]}}, r"row 3: target is 0.5"),
    "no target": ({"indices_livesin": {"target": [0, 0, None, 1]}}, r"row 3: target"),
    "text": ({"indices_livesin": {"target": ["0", "0", "x", "1"]}}, r"row 3: target is x"),
    "lists": ({"indices_livesin": {"target": [[0], [0], [1], [1]]}}, r"target"),
    "another column": ({"indices_livesin": {"to": [0, 0, 1, 1]}}, r"no column 'target'"),
    "a file missing": ({"indices_livesin": None}, r"indices_livesin.parquet"),
    "no Parquet": ({"indptr_livesin": "ptr\n0"}, r"not a readable Parquet"),
    "a later version": ({"indptr_livesin": {"ptr": [0, 1, 2, 3, 4], "version": 2}}, r"version 'v2'"),
    "a later draft": ({"metadata.json": '{"version": "1"}'}, r"metadata.json"),
    "an id twice": ({"nodes_user": USERS | {"id": [1, 2, 2, 3]}}, r"'2' is described twice"),
    "no id": (
        {"nodes_user": USERS | {"id": [1, 2, None, 3]}},
        r"nodes_user.parquet, row 3: rows of nodes without an id",
    ),
    "no schema of nodes": ({"schema": "CREATE REL TABLE follows(FROM user TO user);"}, r"'user'"),
    "no schema of edges": ({"schema": SCHEMA.partition("CREATE REL")[0]}, r"no CREATE REL TABLE"),
    "an empty schema": ({"schema": ""}, r"no CREATE REL TABLE"),
    "nodes of no table": ({"schema": SCHEMA.replace("TO city", "TO town")}, r"'livesin' join nodes 'town'"),
    "several pairs": ({"schema": SCHEMA.replace("TO city", "TO city, FROM city TO city")}, r"more than one pair"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_damaged(what: str, tmp_path: Path) -> None:
    changed, named = WRONG[what]
    with pytest.raises(DataError, match=named):
        naq.load(write(tmp_path / "demo", **changed))


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA.replace("City", "../../secret"),
        SCHEMA.replace("`City`", "`city.parquet\0`"),
        SCHEMA.replace("Follows", "`../indptr_follows`"),
        "CREATE NODE TABLE " + "a" * 100_000,
        "CREATE NODE TABLE user(" + "'" * 99_999,
        "`" * 100_000,
        "/* " * 300_000 + SCHEMA,
        "'" + "\\'" * 500_000,
        "x" * (1 << 21),
    ],
)
def test_a_schema_leads_nowhere(schema: str, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "nodes_secret.parquet")
    with pytest.raises(DataError) as error:
        naq.load(write(tmp_path / "demo", schema=schema))
    assert len(str(error.value)) < 2_000 and str(error.value).isprintable()


def test_storage_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "demo", schema=SCHEMA.replace("./demo", "/etc/passwd"))
    opened: list[str] = []
    real = pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda path, **more: opened.append(str(path)) or real(path, **more))
    assert naq.load(folder).num_nodes == 7
    assert opened and {Path(path).parent for path in opened} == {folder}


def test_what_is_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, path = random_graph("named"), tmp_path / "g.icebug"
    path.mkdir()
    (path / "mine.txt").write_text("x")
    with pytest.raises(DataError, match="not replaced"):
        save_icebug(path, graph)
    shutil.rmtree(path)
    path.write_text("x")
    with pytest.raises(DataError, match="not replaced"):
        save_icebug(path, graph)
    path.unlink()
    save_icebug(path, graph)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DataError, match="No space left"):
        save_icebug(path, random_graph("directed"))
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before and len(list(tmp_path.iterdir())) == 1
    monkeypatch.undo()
    save_icebug(path, random_graph("weighted"))
    assert naq.load(path).hash == random_graph("weighted").hash and len(list(tmp_path.iterdir())) == 1
