"""Files as Neo4j, NetworkX, spreadsheets and others export them, from import to predictions, as a new user would type it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exported_files import EXPORTS, REFUSED, SIZE, few_labels, people, write_csv
from naq.cli.main import app
from naq.errors import DataError


def run(*words: object) -> str:
    shown = CliRunner().invoke(app, [str(word) for word in words])
    if shown.exception is not None and not isinstance(shown.exception, SystemExit):
        raise shown.exception
    assert shown.exit_code == 0, shown.output
    return shown.stdout


@pytest.mark.parametrize("name", EXPORTS)
def test_from_import_to_predictions(name: str, tmp_path: Path) -> None:
    pytest.importorskip("networkx" if "networkx" in name else "pyarrow")
    export = EXPORTS[name](tmp_path)
    nodes = () if export.nodes is None else ("--nodes", export.nodes)
    graph = tmp_path / "graph.npz"
    report = json.loads(run("import", export.edges, *nodes, *export.options, "--out", graph, "--json"))
    assert (report["nodes"], report["edges"]) == (SIZE, export.edge_count)
    assert bool(report["features"]) == export.features
    few = write_csv(tmp_path / "few.csv", [["node", "class"], *map(list, few_labels(export).items())])
    run("predict", graph, "--labels", few, "--out", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["node"]: row for row in csv.DictReader(stream)}
    right = [rows[node]["class"] == person.trade for node, person in zip(export.names, people()[0])]
    assert len(rows) == SIZE and sum(right) >= 0.95 * SIZE
    assert any(row["words"] for row in rows.values()) == (export.features and name != "parquet")


@pytest.mark.parametrize("name", ["excel", "neo4j_admin", "networkx_graphml"])
def test_an_edge_list_is_a_graph(name: str, tmp_path: Path) -> None:
    """``predict`` and ``suggest`` give the same for the files themselves as for the graph that was imported from them."""
    pytest.importorskip("networkx")
    export = EXPORTS[name](tmp_path)
    nodes = () if export.nodes is None else ("--nodes", export.nodes)
    run("import", export.edges, *nodes, "--out", tmp_path / "graph.npz")
    few = write_csv(tmp_path / "few.csv", [["node", "class"], *map(list, few_labels(export).items())])
    shown = run("predict", export.edges, *nodes, "--labels", few, "--out", tmp_path / "one.csv")
    assert ("--nodes" in shown) == (export.nodes is not None)  # the command it names next works too
    run("predict", tmp_path / "graph.npz", "--labels", few, "--out", tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    found = [run("suggest", *graph, "-k", 3, "--json") for graph in ((export.edges, *nodes), (tmp_path / "graph.npz",))]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", REFUSED)
def test_other_formats_say_what_to_do(name: str, tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    export = REFUSED[name](tmp_path)
    for words in (("import", export.edges), ("suggest", export.edges)):
        with pytest.raises(
            DataError, match=r"files are not read; read it with .* and give the (graph|matrix) to naq\."
        ):
            run(*words)


@pytest.mark.parametrize(
    "lines", ["(0, 0) (1, 0) {}\n(0, 0) (0, 1) {}\n", "Mr Hi Mr Ho {'weight': 1}\nMr Ho Ed {'weight': 2}\n"]
)
def test_names_with_spaces_in_an_edge_list_of_networkx_are_not_guessed(lines: str, tmp_path: Path) -> None:
    (tmp_path / "grid.edgelist").write_text(lines)
    with pytest.raises(DataError, match=r"grid.edgelist: lines end in dictionaries.* do not divide into two names"):
        run("import", tmp_path / "grid.edgelist")


def test_what_a_spreadsheet_becomes(tmp_path: Path) -> None:
    """Decimal commas, grouped digits, title lines and old encodings, checked against the people themselves."""
    import naq

    everybody, _ = people()
    for name, column, value in (
        ("excel", "Größe", [person.height for person in everybody]),
        ("excel_latin", "Größe", [person.height for person in everybody]),
        ("google_sheets", "Salary", [1000.0 * person.age for person in everybody]),
        ("quoted_after_spaces", "share", [float(person.age) for person in everybody]),
        ("quoted_after_spaces", "price", [100.0 * person.age for person in everybody]),
    ):
        (tmp_path / name).mkdir(exist_ok=True)
        export = EXPORTS[name](tmp_path / name)
        with pytest.warns(UserWarning, match="left out") if name == "excel" else _quiet():
            graph = naq.from_tables(export.edges, export.nodes)
        assert graph.features is not None and graph.vocab is not None
        dense = graph.features if not hasattr(graph.features, "toarray") else graph.features.toarray()
        found = dense[:, graph.vocab.tolist().index(column)]
        mean = sum(value) / SIZE
        spread = (sum((one - mean) ** 2 for one in value) / SIZE) ** 0.5
        assert found == pytest.approx([(one - mean) / spread for one in value], abs=1e-3)


def _quiet():
    import contextlib

    return contextlib.nullcontext()
