"""Tables where they already are: folders of Parquet parts, DuckDB files."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import naq
from naq.classifier import with_rows
from naq.errors import DataError, MissingDependency
from naq.io import Choice, import_tables

NODES = {"id": ["a", "b", "c", "d"], "size": [1, 2, None, 9], "born": [date(2020, 1, day) for day in (1, 2, 3, 4)]}
EDGES = {"buyer": ["a", "b", "c"], "seller": ["b", "c", "d"]}


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Both tables in parts, as Spark writes them; nodes by year and town."""
    for part in (0, 1):
        rows = slice(2 * part, 2 * part + 2)
        town = "K%C3%B6ln" if part else "__HIVE_DEFAULT_PARTITION__"
        place = tmp_path / "nodes" / f"year={2020 + part}" / f"town={town}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({name: cells[rows] for name, cells in NODES.items()}), place / "part-0.parquet")
        (tmp_path / "edges").mkdir(exist_ok=True)
        cells = pa.table({name: cells[rows] for name, cells in EDGES.items()})
        pq.write_table(cells, tmp_path / "edges" / f"part-{part}.snappy.parquet")
    (tmp_path / "edges" / "_SUCCESS").touch()
    (tmp_path / "edges" / "_metadata.parquet").write_text("of all parts")
    return tmp_path


def test_folders_of_parts_are_one_table(parts: Path) -> None:
    graph, _ = import_tables(parts / "edges", parts / "nodes", Choice(numeric=["size", "year"], id="id"))
    one = naq.from_tables(EDGES, NODES | {"year": [2020, 2020, 2021, 2021]}, numeric=["size", "year"], id="id")
    assert graph.hash == one.hash and graph.names is not None and graph.names.tolist() == NODES["id"]
    assert graph.table is not None and graph.table.row(2)["town"] == "Köln" and graph.table.row(0)["town"] == ""
    assert naq.load(parts / "edges").num_edges == 3
    assert naq.load(str(parts / "edges"), nodes=parts / "nodes").num_nodes == 4


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"buyer": ["a"], "seller": [1]}, "'seller' has type int64"),
        ({"buyer": ["a"], "other": ["b"]}, "'seller'|'other'"),
        ({"buyer": ["a"], "seller": ["b"], "more": [1]}, "'more'"),
        (None, "not a readable Parquet file"),
    ],
)
def test_parts_that_differ(parts: Path, table: Any, named: str) -> None:
    wrong = parts / "edges" / "part-1.snappy.parquet"
    wrong.write_text("x") if table is None else pq.write_table(pa.table(table), wrong)
    with pytest.raises(DataError, match=named) as error:
        import_tables(parts / "edges")
    assert wrong.name in str(error.value)


def test_a_part_without_a_value_in_a_column(parts: Path) -> None:
    empty = pa.table({"buyer": ["d"], "seller": pa.nulls(1)})
    pq.write_table(empty, parts / "edges" / "part-2.snappy.parquet")
    graph, report = import_tables(parts / "edges")
    assert graph.num_edges == 3 and "part-2.snappy.parquet, row 1" in report.dropped[0].places


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        nodes, edges = pa.table(NODES), pa.table(EDGES)  # noqa: F841  # which DuckDB finds by their names
        connection.sql("CREATE TABLE nodes AS SELECT id, size::DECIMAL(8, 2) AS size, born FROM nodes")
        connection.sql("CREATE TABLE edges AS FROM edges")
        connection.sql("CREATE VIEW sales AS SELECT buyer AS one, seller AS two, 2 AS weight FROM edges")
    return tmp_path / "shop.duckdb"


def test_duckdb_files(shop: Path) -> None:
    one = naq.from_tables(EDGES, NODES)
    assert naq.load(shop).hash == import_tables(shop, shop).graph.hash == one.hash
    with pytest.raises(DataError, match="'a' is in the graph"):  # its tables nodes and edges are found here too
        with_rows(one, shop, shop)
    chosen = Choice(edges_query="FROM sales", nodes_query="SELECT id FROM nodes", source="one", target="two")
    made = import_tables(str(shop), None, chosen).graph
    assert made.num_features == 0 and made.num_edges == 3 and made.arcs is not None and set(made.arcs.data) == {2}
    import duckdb

    with duckdb.connect(str(shop), read_only=True, config={"enable_external_access": "false"}) as connection:
        assert naq.from_tables(connection.sql("FROM edges"), connection.sql("FROM nodes")).hash == one.hash


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("DROP TABLE edges", "DROP"),
        ("SELECT buyer, FROM", "syntax|Parser"),
        ("FROM nobody", "nobody"),
        ("FROM read_csv('/etc/passwd')", "passwd"),
        ("SELECT 1 AS one", "one column"),
        ("-- nothing", "SELECT"),
    ],
)
def test_queries_that_cannot_be_used(shop: Path, query: str, named: str) -> None:
    with pytest.raises(DataError, match=named):
        import_tables(shop, None, Choice(edges_query=query))


def test_a_duckdb_file_that_another_program_has_open(shop: Path) -> None:
    code = "import sys, duckdb; held = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, shop], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        for given in ((shop,), (EDGES, shop)):
            with pytest.raises(DataError, match=r"shop.duckdb is in use by another program"):
                import_tables(*given)
        other.communicate()
    assert import_tables(shop).graph.num_edges == 3


def test_duckdb_files_that_cannot_be_read(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    with duckdb.connect(str(shop)) as connection:
        with pytest.raises(DataError, match="in use"):
            import_tables(shop)
        connection.sql("DROP VIEW sales")
        connection.sql("ALTER TABLE edges RENAME TO sold")
    with pytest.raises(DataError, match="edges_query"):
        import_tables(shop)
    (tmp_path / "x.duckdb").write_text("source,target\n")
    with pytest.raises(DataError, match="not a valid DuckDB"):
        import_tables(tmp_path / "x.duckdb")
    with pytest.raises(DataError, match="nodes_query"):
        import_tables(EDGES, NODES, Choice(nodes_query="FROM nodes"))
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingDependency, match=r"naq\[duckdb\]"):
        import_tables(shop)
