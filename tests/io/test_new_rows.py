"""The recipe of the columns: kept with the graph, the same features for the same rows, and what new rows may lack."""

from __future__ import annotations

from collections.abc import Mapping
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
