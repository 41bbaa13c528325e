"""The recipe of the columns: kept with the graph, the same features for the same rows, and what new rows may lack."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import naq
from naq.classifier import with_nodes, with_rows
from naq.errors import DataError, NaqError, OptionError
from naq.files import read_npz, write_npz
from naq.io import Choice, import_tables, save_graph, save_mapped
from naq.io.npz import read_graph

NODES: dict[str, list[Any]] = {
    "id": [f"n{i}" for i in range(6)],
    "name": [f"Node {i}" for i in range(6)],
    "about": ["red car", "blue car", "red pear", "green pear", "", "blue sky"],
    "size": [1.0, 2.0, None, 4.0, 5.0, 9.0],
    "kind": ["a", "b", "a", "b", "a", "b"],
    "born": ["2021-03-04", "2021-03-05", "2020-01-01", "2021-03-04", "2019-01-01", "2018-05-05"],
    "vec": [[1.0, 2.0], [0.0, 1.0], [2.0, 2.0], [3.0, 0.0], [1.0, 1.0], [0.5, 0.5]],
    "code": ["x1", "x2", "x3", "x4", "x5", "x6"],
    "label": ["u", "v", "u", "v", "u", "v"],
}
EDGES = {"source": ["n0", "n1", "n2", "n3"], "target": ["n1", "n2", "n3", "n4"]}
FEATURES = {"text": "about", "numeric": ["size", "born"], "categorical": "kind", "vector": "vec"}


@pytest.fixture
def graph() -> naq.Graph:
    return import_tables(EDGES, NODES, Choice(**FEATURES)).graph  # type: ignore[arg-type]


def new(rows: Mapping[str, Any] = NODES, **changed: Any) -> dict[str, Any]:
    """The rows of nodes under other ids, with some columns changed and those that are None left out."""
    rows = {**rows, "id": [f"m{i}" for i in range(len(rows["id"]))]} | changed
    return {name: cells for name, cells in rows.items() if cells is not None}


def dense(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def test_the_recipe_is_kept_with_the_graph(graph: naq.Graph, tmp_path: Path) -> None:
    assert graph.recipe is not None and graph.recipe["id"] == "id"
    assert graph.recipe["others"] == ["label", "name", "code"]
    kinds = {one.get("column", one.get("title")): one["kind"] for one in graph.recipe["columns"]}
    assert kinds == {"about": "text", "size": "number", "kind": "category", "born": "number", "vec": "vector"}
    npz, folder = save_graph(tmp_path / "g.npz", graph), save_mapped(tmp_path / "g", graph)
    for one in (naq.load(npz), naq.load(folder), graph.without_labels(), graph.with_labels(None)):
        assert one.recipe == graph.recipe
    assert graph.with_features(None).recipe is None
    assert graph.hash == naq.Graph(graph.adjacency, graph.features, graph.labels, blocks=[*graph.blocks]).hash


@pytest.mark.parametrize("kept", [True, False])
def test_the_same_rows_have_the_same_features(graph: naq.Graph, tmp_path: Path, kept: bool) -> None:
    read = naq.load(save_graph(tmp_path / "g.npz", graph)) if kept else graph
    larger = with_rows(read, new(), {"from": ["m0", "m1"], "to": ["m1", "n4"]})
    features = dense(larger.features)
    assert np.array_equal(features[6:], features[:6]) and np.array_equal(features[:6], dense(graph.features))
    assert larger.names is not None and larger.names[6:].tolist() == [f"m{i}" for i in range(6)]
    ends = set(zip(*map(list, larger.adjacency.nonzero())))
    assert {(6, 7), (7, 4)} < ends and larger.num_edges == graph.num_edges + 2
    for i in (0, 4, 5):
        assert (larger.title_of(6 + i), larger.text_of(6 + i)) == (graph.title_of(i), graph.text_of(i))
        assert larger.table is not None and larger.table.row(6 + i) == larger.table.row(i)
    again = with_rows(larger, new(id=[f"k{i}" for i in range(6)]))
    assert np.array_equal(dense(again.features)[12:], features[:6])


def test_what_is_not_known_counts_as_absent(graph: naq.Graph) -> None:
    rows = new(about=["red whale", "", "", "", "", "whale"], kind=["c", *"bababa"[:4], ""], size=None, extra=["e"] * 6)
    with pytest.warns(UserWarning) as said:
        larger = with_rows(graph, rows)
    texts = " ".join(str(one.message) for one in said)
    assert "about (2 words)" in texts and "kind (1 values, e.g. 'c')" in texts
    assert "empty: 'size'" in texts and "not read: 'extra'" in texts
    names = larger.vocab.tolist() if larger.vocab is not None else []
    row = dict(zip(names, dense(larger.features)[6]))
    assert row["red"] == 1 and row["size"] == 0 and row["kind=a"] == row["kind=b"] == 0
    assert sum(row[word] for word in ("blue", "car", "green", "pear", "sky")) == 0


def test_any_case_and_order_of_columns_and_an_empty_vector(graph: naq.Graph) -> None:
    rows = {name.upper(): cells for name, cells in reversed(new().items())}
    assert np.array_equal(dense(with_rows(graph, rows).features)[6:], dense(graph.features))
    gaps = import_tables(EDGES, NODES | {"vec": [None, *NODES["vec"][1:]]}, Choice(**FEATURES)).graph  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="'vec'"):
        assert (dense(with_rows(gaps, new(vec=None)).features)[6:, -2:] == 0).all()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"id": NODES["id"]}, "'n0'"),
        ({"id": None}, "'id'"),
        ({"born": None, "kind": None}, "'born', 'kind'"),
        ({"id": ["m0", "m0", "m2", "m3", "m4", "m5"]}, "'m0'"),
        ({"id": ["m0", "", "m2", "m3", "m4", "m5"]}, "without an id"),
        ({"size": [1, 2, 3, 4, 5, "lots"]}, "'lots'"),
        ({"born": ["soon"] * 6}, "'soon'"),
        ({"vec": [[1.0, 2.0, 3.0]] * 6}, "3 numbers"),
        ({name: [] for name in NODES}, "no rows"),
    ],
)
def test_rows_that_cannot_be_used(graph: naq.Graph, changed: dict[str, Any], named: str) -> None:
    with pytest.raises(DataError, match=named):
        with_rows(graph, new(**changed))


FORMS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d %b %Y", "%B %d, %Y")


@pytest.mark.parametrize("new_form", FORMS)
@pytest.mark.parametrize("form", FORMS)
def test_dates_of_later_rows_in_another_format(form: str, new_form: str) -> None:
    days = [
        date(2021, 3, 14),
        date(2021, 3, 25),
        date(2020, 1, 1),
        date(2019, 4, 5),
        date(2019, 1, 1),
        date(2018, 5, 6),
    ]
    graph = import_tables(EDGES, NODES | {"born": [day.strftime(form) for day in days]}, Choice(numeric="born")).graph
    rows = new(born=[day.strftime(new_form) for day in days])
    assert np.array_equal(dense(with_rows(graph, rows).features)[6:], dense(graph.features))
    if "/" in new_form and form != new_form:
        rows = new(born=["03/04/2021"] * 6)  # it may be the other one too
        if "/" not in form:
            with pytest.raises(DataError, match=r"'03/04/2021' in column 'born' is not a date as"):
                with_rows(graph, rows)


@pytest.mark.parametrize(("changed", "said"), [({"born": ["2021-03-04", "4.3.2021"] * 3}, "year-month-day"), (
    {"size": [1, 2, 3, 4, 5, "lots"]}, "'lots' in column 'size' is not a number")])  # fmt: skip
def test_advice_for_later_rows_names_no_option(graph: naq.Graph, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said) as error:
        with_rows(graph, new(**changed))
    assert "text" not in str(error.value)


def test_edges_to_nobody(graph: naq.Graph) -> None:
    with pytest.warns(UserWarning, match="1"):
        larger = with_rows(graph, new(), {"source": ["m0", "m1"], "target": ["n0", "zz"]})
    assert larger.num_edges == graph.num_edges + 1
    with pytest.raises(DataError, match="one column"):
        with_rows(graph, new(), {"one": ["m0"]})


@pytest.mark.parametrize(
    "text", [b"{", b"\xff", b"[NaN]", b"[]", b'{"id": 1}', b'{"id": "id", "columns": [{}], "others": []}']
)
def test_a_damaged_recipe(graph: naq.Graph, tmp_path: Path, text: bytes) -> None:
    arrays = read_npz(save_graph(tmp_path / "g.npz", graph))
    write_npz(tmp_path / "g.npz", arrays | {"recipe": np.frombuffer(text, np.uint8)})
    with pytest.raises(NaqError, match="recipe"):
        with_rows(read_graph(tmp_path / "g.npz"), new())


def test_a_graph_without_a_recipe(graph: naq.Graph) -> None:
    with pytest.raises(OptionError, match="with_nodes"):
        with_rows(graph.with_recipe(None), new())
    assert with_nodes(graph, graph.features, np.empty((2, 0)), names=new()["id"]).recipe == graph.recipe


CALLS = [("n0", "n1", 2, "calls"), ("n1", "n2", 3, "mails"), ("n3", "n0", 1, "calls"), ("n4", "n0", 0.5, "")]
LATER = [("m0", "n0", 4, "mails"), ("n2", "m1", 2, "calls"), ("m1", "m0", 1, ""), ("n0", "n1", 5, "calls"),
         ("m0", "n0", 3, "calls")]  # fmt: skip


def table_of(rows: Any, *names: str) -> dict[str, Any]:
    """The edges in columns of these names, as many as there are."""
    return dict(zip(names, map(list, zip(*rows))))


def assert_same_edges(one: naq.Graph, other: naq.Graph) -> None:
    assert (one.adjacency != other.adjacency).nnz == 0 and (one.arcs is None) == (other.arcs is None)
    assert one.arcs is None or (one.arcs != other.arcs).nnz == 0
    assert set(one.relations) == set(other.relations)
    assert all((matrix != other.relations[name]).nnz == 0 for name, matrix in one.relations.items())


@pytest.mark.parametrize("directed", [None, True])
@pytest.mark.parametrize("names", ["source target weight type", "von nach tonnen art", "payer payee", "1 2 3 4"])
def test_later_edges_are_those_of_one_import(directed: bool | None, names: str, tmp_path: Path) -> None:
    columns, more = names.split(), new(id=["m0", "m1", *(f"k{i}" for i in range(4))])
    named: Any = {"directed": directed, "numeric": "size"}
    if columns[0] in ("von", "1"):
        named |= {"source": columns[0], "target": columns[1], "weight": columns[2], "edge_type": columns[3]}

    def given(rows: Any) -> Any:
        if columns[0] != "1":
            return table_of(rows, *columns)
        (tmp_path / "e.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        return tmp_path / "e.csv"

    graph = import_tables(given(CALLS), NODES, Choice(**named)).graph
    graph = naq.load(save_graph(tmp_path / "g.npz", graph))
    larger = with_rows(graph, more, given(LATER))
    both = {name: [*NODES[name], *more[name]] for name in NODES}
    assert_same_edges(larger, import_tables(given([*CALLS, *LATER]), both, Choice(**named)).graph)
    assert bool(larger.relations) == (len(columns) > 2)
    assert (larger.arcs is not None) == (len(columns) > 2 or bool(directed))


@pytest.mark.parametrize("weight", ["weight", "tonnen"])
def test_later_edges_of_several_tables(weight: str) -> None:
    def given(rows: Any) -> dict[str, Any]:
        by = {kind: [row[:3] for row in rows if row[3] == kind] for kind in ("calls", "mails")}
        return {kind: table_of(some, "from", "to", weight) for kind, some in by.items()}

    named: Any = {"numeric": "size", "weight": weight}
    graph = import_tables(given(CALLS), NODES, Choice(**named)).graph
    more = new(id=["m0", "m1", *(f"k{i}" for i in range(4))])
    both = {name: [*NODES[name], *more[name]] for name in NODES}
    whole = import_tables(given([*CALLS, *LATER]), both, Choice(**named)).graph
    assert_same_edges(with_rows(graph, more, given(LATER)), whole)
    one = table_of([row for row in LATER if row[3]], "source", "target", weight, "type")
    assert_same_edges(with_rows(graph, more, one), whole)


@pytest.mark.parametrize(
    ("names", "said"), [("source target type", "'weight'"), ("source target weight", "'type'"), ("x y weight type", "")]
)
def test_columns_that_later_edges_lack(names: str, said: str) -> None:
    graph = import_tables(table_of(CALLS, "source", "target", "weight", "type"), NODES, Choice(numeric="size")).graph
    rows = [(*row[:2], *([row[3]] if "weight" not in names else row[2:])) for row in LATER]
    if not said:
        with pytest.raises(DataError, match=r"'source' and 'target'.*'x', 'y'"):
            with_rows(graph, new(), table_of(rows, *names.split()))
        return
    with pytest.warns(UserWarning, match=said):
        larger = with_rows(graph, new(), table_of(rows, *names.split()))
    arcs = larger.arcs.toarray() if larger.arcs is not None else np.empty(0)
    assert arcs[6, 0] == (2 if "type" in names else 7)  # listed twice
    assert len(larger.relations) == 2
    assert larger.relations["mails"].nnz == (4 if "type" in names else 2)


def test_what_later_edges_may_not_hold(graph: naq.Graph) -> None:
    weighted = import_tables(table_of(CALLS, "source", "target", "weight", "type"), NODES).graph
    with pytest.raises(DataError, match=r"'heavy'"):
        with_rows(weighted, new(), {"source": ["m0"], "target": ["n0"], "weight": ["heavy"], "type": [""]})
    edges = {"source": ["m0"], "target": ["n0"], "weight": [2], "type": ["sings"]}
    with pytest.warns(UserWarning, match="'sings'"):
        larger = with_rows(weighted, new(), edges)
    assert all(matrix[:, [6]].nnz == 0 for matrix in larger.relations.values()) and larger.num_edges == 5
    for wrong in ({"weights": [1.0]}, {"types": ["calls", "calls", ""]}):
        with pytest.raises(NaqError, match="2 edges"):
            with_nodes(graph, graph.features[:1], [[6, 6], [0, 1]], names=["m"], **wrong)  # type: ignore[index,arg-type]
    with pytest.raises(NaqError, match="weight -1"):
        with_nodes(graph, graph.features[:1], [[6], [0]], names=["m"], weights=[-1])  # type: ignore[index]
    damaged = graph.with_recipe({**(graph.recipe or {}), "edges": {"source": 5, "target": 6}})
    with pytest.raises(DataError, match="recipe"):
        with_rows(damaged, new(), {"source": ["m0"], "target": ["n0"]})
