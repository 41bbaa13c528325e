"""Labels in every form and from files, and every mistake by what it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from naq import Graph
from naq.classifier.labels import Labels, check_enough, find_node, read_label_rows, read_labels, to_labels
from naq.errors import DataError, OptionError

NAMES = ["ant", "bee", "Cat", "dog", "007"]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph([[0, 1, 2, 3], [1, 2, 3, 4]], features=np.eye(5) + 1, names=NAMES, nodes=5)


@pytest.mark.parametrize(
    "given",
    (
        {"given": {"bee": "x", "ant": "y", 3: "x"}},
        {"given": ["y", "x", None, "x", ""]},
        {"given": np.array(["y", "x", "", "x", ""])},
        {"given": {"bee": "x", "ant": "y", "3": "x", "Cat": None}},
        {"support": ["dog", 0, 1], "labels": ["x", "y", "x"]},
    ),
)
def test_all_forms_are_the_same_labels(graph: Graph, given: dict) -> None:
    labels = to_labels(graph, **given)
    assert labels.nodes.tolist() == [0, 1, 3] and labels.values.tolist() == ["y", "x", "x"]
    assert labels.classes.tolist() == ["x", "y"] and to_labels(graph, labels) is labels


@pytest.mark.parametrize("y", ([7, 5, -1, 5, -1], np.array([7, 5, np.nan, 5, np.nan]), [7, 5, None, 5, float("nan")]))
def test_numbers_are_classes_too(graph: Graph, y: object) -> None:
    labels = to_labels(graph, y)
    assert (labels.classes.tolist(), labels.class_index.tolist()) == ([5, 7], [1, 0, 0])


def test_a_name_wins_over_a_number_and_digits_are_a_number_otherwise(graph: Graph) -> None:
    assert find_node(graph, "007") == 4 and find_node(graph, "2") == 2
    numbered = Graph([[0, 1], [1, 2]], names=["10", "11", "12"], nodes=3)
    assert find_node(numbered, "11") == 1 == find_node(numbered, 1)
    for other, name, what in ((numbered, "1", "'12'"), (Graph([[0], [1]], names=["a", "a"], nodes=2), "a", "several")):
        with pytest.raises(OptionError, match=what):
            find_node(other, name)


def test_new_labels_replace_old_ones_of_the_same_node(graph: Graph) -> None:
    both = to_labels(graph, {0: "a", 1: "b"}).merged(to_labels(graph, {1: "c", 4: "a"}))
    assert both.nodes.tolist() == [0, 1, 4] and both.values.tolist() == ["a", "c", "a"]
    assert both.classes.tolist() == ["a", "c"]


@pytest.mark.parametrize(
    ("given", "what"),
    (
        ({"cat ": "x", 0: "y"}, "'Cat'"),
        ({"beee": "x"}, "'bee'"),
        ({9: "x"}, "node 9"),
        ({-1: "x"}, "node -1"),
        ({1.5: "x"}, "node 1.5"),
        ({True: "x"}, "node True"),
        ({"ant": "x", 0: "y"}, "'x'"),
        ({"ant": "x", "bee": 3}, "types"),
        (["a", "b"], "2 entries"),
        ("few.csv", "read_labels"),
        (Path("few.csv"), "read_labels"),
        (3, "labels"),
        (({0: "a"}, [1], ["b"]), "twice"),
        ((None, [0, 1], ["a"]), "support"),
        ((None, [0, 1]), "labels"),
        (Labels.of([5, 0], ["b", "a"]), "node 5"),
        ({}, "classes"),
        ({0: "x", 1: "x"}, "classes"),
        ({0: None}, "classes"),
    ),
)
def test_mistakes(graph: Graph, given: object, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        check_enough(to_labels(graph, *given) if isinstance(given, tuple) else to_labels(graph, given))


@pytest.mark.parametrize(
    ("nodes", "class_index", "what"),
    (
        ([1, 0], [0, 1], "nodes"),
        ([0, 0], [0, 1], "nodes"),
        ([0, 1], [0, 2], "class_index"),
        ([-1, 1], [0, 1], "nodes"),
        ([0, 1], [0], "class_index"),
        ([0.0, 1.0], [0, 1], "nodes"),
    ),
)
def test_labels_made_by_hand_are_checked(nodes: list, class_index: list, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        Labels(np.array(nodes), np.array(["a", "b"]), np.array(class_index))


@pytest.mark.filterwarnings("ignore:.*nodes are the column", "ignore:.*nodes are numbers")
@pytest.mark.parametrize(
    "content",
    (
        b"node,class\nant,x\nbee,y\n",
        b"\xef\xbb\xbfnode,class\r\nant,x\r\nbee,y\r\n",
        b'class;remark;node\nx;"a;\nb";ant\ny;;bee\n',
        b"Name\tLabel\nant\tx\n\nant\tx\nbee\ty\ndog\t\n",
        b"id,class\n0,x\n1,y",
        b"node,class\n ant ,x \nbee, y\n,\n",
        "node\tclass\nant\tx\nbee\ty\n".encode("utf-16"),
        b"name:ID,:LABEL,node\nno,x,ant\nno,y,bee\n",
        b"Animal,Kind\nant,x\nbee,y\n",
        b"Kind;node\nx;ant\ny;bee\n",
    ),
)
def test_files_that_people_write(graph: Graph, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "few.csv"
    path.write_bytes(content)
    labels = read_labels(path, graph)
    assert (labels.nodes.tolist(), labels.values.tolist()) == ([0, 1], ["x", "y"])


@pytest.mark.parametrize(
    ("content", "what"),
    (
        (b"", "empty"),
        (b"\n\n", "rows"),
        (b"node,class\n", "label"),
        (b"node,class\nant,\n", "label"),
        (b"nodes,class\nAnt,x\n", "line 1: .*'nodes'"),
        (b"nodes,x,class\nant,1,x\n", "line 1: .*'nodes'"),
        (b"ant,x\nbee,y\n", "line 1: .*'ant'"),
        (b"left,right\nant,bee\nbee,ant\n", "line 1: .*'left'"),
        (b"node,kind,x\nant,x,1\n", "line 1: .*'kind'"),
        (b"node,class\nant,x\nbee\n", "line 3"),
        (b"node,class\nant,x\nbee,y,z\n", "line 3"),
        (b"node,class\n" + b"ant,x\n" * 30 + b"bee,y,z\n", "line 32"),
        (b"node,class\n,x\n", "line 2: .*'x'"),
        (b"node,class\nwolf,y\nfox,y\n", r"line 2: .*'wolf'.* 2 of 2 labels"),
        (None, "exist"),
        (b"node,class\nant,x\nbeee,y\n", "line 3: .*'beee'.*'bee'"),
        (b"node,class\nant,x\nbee,y\nant,y\n", r"line 4: .*'ant'.*line 2"),
        (b'node,class\nant,"x\nbee,y\n', "line 2"),
        (b"node,class\nant,\0\n", "line 2"),
        (b"PK\x03\x04\x00\x00", "zip"),
        (b"node,class\nant," + b"x" * 200_000 + b"\n", "line 2"),
    ),
)
def test_bad_files_name_file_and_line(graph: Graph, tmp_path: Path, content: bytes | None, what: str) -> None:
    path = tmp_path / "few.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((DataError, OptionError), match=what) as error:
        read_labels(path, graph)
    assert "few.csv" in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(DataError, match="folder"):
        read_labels(tmp_path, graph)


def test_what_may_be_a_mistake_is_said(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_bytes("node,class\nant,Café\nbee,café\n".encode("latin-1"))
    with pytest.warns(UserWarning) as said:
        labels = read_labels(path, graph)
    assert labels.classes.tolist() == ["Café", "café"] and len(said) == 2
    assert "UTF-8" in str(said[0].message) and "'Café' and 'café'" in str(said[1].message)


def test_an_exported_formula_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("node,class\n'=a,'@x\nb,y\n")
    labels = read_labels(path, Graph([[0], [1]], names=["=a", "b"], nodes=2))
    assert (labels.nodes.tolist(), labels.values.tolist()) == ([0, 1], ["@x", "y"])


@pytest.mark.parametrize(
    ("content", "what"),
    (
        ("node,class\nant,x\nCat,y\n", None),
        ("kind,insect\nx,ant\ny,Cat\nx,ant\n", None),
        ("node,class\nant,x\nwolf,y\nfox,y\n", r"line 3: .*'wolf'.* 2 of 3 labels"),
        ("node,class\nant,x\nCat,y\nant,y\n", r"line 4: .*'ant'.*line 2"),
        ("one,two\nx,ant\ny,x\nx,z\n", "line 1: .*'one'"),
    ),
)
def test_nodes_that_a_function_finds(graph: Graph, tmp_path: Path, content: str, what: str | None) -> None:
    def find(nodes: Sequence[str]) -> np.ndarray:
        return np.array([NAMES.index(node) if node in NAMES else -1 for node in nodes])

    path = tmp_path / "few.csv"
    path.write_text(content)
    if what:
        with pytest.raises((DataError, OptionError), match=what):
            read_labels(path, find)
        return
    found, known = (read_labels(path, nodes) for nodes in (find, graph))
    assert found.nodes.tolist() == known.nodes.tolist() == [0, 2]
    assert found.values.tolist() == known.values.tolist() == ["x", "y"]
    assert read_label_rows(path, find) == read_label_rows(path, graph)
