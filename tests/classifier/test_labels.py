"""Labels in every form, and every mistake in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from naq import Graph
from naq.classifier.labels import Labels, check_enough, find_node, read_labels, to_labels
from naq.errors import DataError, OptionError

NAMES = ["ant", "bee", "Cat", "dog", "007"]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph([[0, 1, 2, 3], [1, 2, 3, 4]], features=np.eye(5) + 1, names=NAMES, nodes=5)


def test_all_forms_are_the_same_labels(graph: Graph) -> None:
    forms = [
        to_labels(graph, {"bee": "x", "ant": "y", 3: "x"}),
        to_labels(graph, ["y", "x", None, "x", ""]),
        to_labels(graph, support=["dog", 0, 1], labels=["x", "y", "x"]),
        to_labels(graph, np.array(["y", "x", "", "x", ""])),
        to_labels(graph, {"bee": "x", "ant": "y", "3": "x", "Cat": None}),
    ]
    for labels in forms:
        assert labels.nodes.tolist() == [0, 1, 3]
        assert labels.values.tolist() == ["y", "x", "x"]
        assert labels.classes.tolist() == ["x", "y"]


@pytest.mark.parametrize("y", ([7, 5, -1, 5, -1], np.array([7, 5, np.nan, 5, np.nan]), [7, 5, None, 5, float("nan")]))
def test_numbers_are_classes_too(graph: Graph, y: object) -> None:
    labels = to_labels(graph, y)
    assert labels.classes.tolist() == [5, 7]
    assert labels.class_index.tolist() == [1, 0, 0]


def test_a_name_wins_over_a_number_and_digits_are_a_number_otherwise(graph: Graph) -> None:
    assert find_node(graph, "007") == 4 and find_node(graph, "2") == 2
    graph = Graph([[0, 1], [1, 2]], names=["10", "11", "12"], nodes=3)
    assert find_node(graph, "11") == 1 == find_node(graph, 1)
    with pytest.raises(OptionError, match=r"there is no node '1'; did you mean '12' or '11' or '10'\?"):
        find_node(graph, "1")


def test_new_labels_replace_old_ones_of_the_same_node(graph: Graph) -> None:
    both = to_labels(graph, {0: "a", 1: "b"}).merged(to_labels(graph, {1: "c", 4: "a"}))
    assert both.nodes.tolist() == [0, 1, 4]
    assert both.values.tolist() == ["a", "c", "a"]
    assert both.classes.tolist() == ["a", "c"]


@pytest.mark.parametrize(
    ("given", "says"),
    (
        ({"cat ": "x", 0: "y"}, "did you mean 'Cat'"),
        ({"beee": "x"}, "did you mean 'bee'"),
        ({9: "x"}, "no node 9"),
        ({-1: "x"}, "no node -1"),
        ({1.5: "x"}, "node is 1.5"),
        ({"ant": "x", 0: "y"}, "keep one of them"),
        ({"ant": "x", "bee": 3}, "two types"),
        (["a", "b"], "2 entries but the graph has 5"),
        ("ant", "expected a mapping"),
        (3, "expected a mapping"),
        (({0: "a"}, [1], ["b"]), "came twice"),
        ((None, [0, 1], ["a"]), "support has 2 and labels 1"),
        ((None, [0, 1]), "labels none"),
        (Labels.of([5, 0], ["b", "a"]), "no node 5"),
        ({}, "at least two classes"),
        ({0: "x", 1: "x"}, "at least two classes"),
        ({0: None}, "at least two classes"),
    ),
)
def test_mistakes(graph: Graph, given: object, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        check_enough(to_labels(graph, *given) if isinstance(given, tuple) else to_labels(graph, given))


def test_a_name_of_two_nodes_is_not_guessed() -> None:
    twins = Graph([[0], [1]], names=["a", "a"], nodes=2)
    with pytest.raises(OptionError, match="several nodes are named 'a'"):
        to_labels(twins, {"a": "x"})


@pytest.mark.filterwarnings("ignore:.*above the table")
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
        b"Labels of today,\nnode,class\nant,x\nbee,y\n",
    ),
)
def test_files_that_people_write(graph: Graph, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "few.csv"
    path.write_bytes(content)
    labels = read_labels(path, graph)
    assert labels.nodes.tolist() == [0, 1]
    assert labels.values.tolist() == ["x", "y"]


@pytest.mark.parametrize("content", ("Animal,Kind\nant,2\nbee,y\n", "Kind;node\n2;ant\ny;bee\n"))
def test_two_columns_of_any_names(graph: Graph, tmp_path: Path, content: str) -> None:
    path = tmp_path / "few.csv"
    path.write_text(content)
    with pytest.warns(UserWarning, match=r"^few.csv: nodes are the column '(Animal|node)', classes the column 'Kind'$"):
        labels = read_labels(path, graph)
    assert (labels.nodes.tolist(), labels.values.tolist()) == ([0, 1], ["2", "y"])


def test_labels_of_a_file_are_given_to_the_classifier(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("node,class\nant,x\nbee,y\n")
    read = read_labels(path, graph)
    given = to_labels(graph, read)
    assert given is read
    assert (given.nodes.tolist(), given.values.tolist()) == ([0, 1], ["x", "y"])
    for wrong in (path, str(path)):
        with pytest.raises(
            OptionError, match=r"For those of a file, give naq\.classifier\.read_labels\('.*few\.csv', graph\)"
        ):
            to_labels(graph, wrong)


@pytest.mark.parametrize(
    ("content", "says"),
    (
        (b"", "is empty"),
        (b"\n\n", "holds no rows"),
        (b"node,class\n", "holds no label"),
        (b"node,class\nant,\n", "holds no label"),
        (b"nodes,class\nAnt,x\n", "line 1: no column named node or id or name among 'nodes', 'class'"),
        (b"nodes,x,class\nant,1,x\n", "line 1: no column named node or id or name among 'nodes', 'x', 'class'"),
        (b"ant,x\nbee,y\n", "line 1: no column named node or id or name among 'ant', 'x'"),
        (b"left,right\nant,bee\nbee,ant\n", "line 1: no column named node or id or name among 'left', 'right'"),
        (b"node,kind,x\nant,x,1\n", "line 1: no column named class or label or category among 'node', 'kind', 'x'"),
        (b"node,class\nant,x\nbee\n", "line 3: expected 2 cells as in the first row"),
        (b"node,class\nant,x\nbee,y,z\n", "line 3: expected 2 cells as in the first row"),
        (b"node,class\n" + b"ant,x\n" * 30 + b"bee,y,z\n", "line 32: another number of cells than the first line"),
        (b"node,class\n,x\n", "line 2: the class 'x' has no node"),
        (b"node,class\nwolf,y\nfox,y\n", r"there is no node 'wolf'; .*e\.g\. 'ant',.* 2 of 2 labels are of no node"),
        (None, "few.csv does not exist"),
        (b"node,class\nant,x\nbeee,y\n", "line 3: there is no node 'beee'; did you mean 'bee'"),
        (b"node,class\nant,x\nbee,y\nant,y\n", r"line 4: node 'ant' has the class 'y', but 'x' before \(.*line 2\)"),
        (b'node,class\nant,"x\nbee,y\n', "line 2: a quotation mark is opened and never closed"),
        (b"node,class\nant,\0\n", "line 2 holds a zero byte"),
        (b"PK\x03\x04\x00\x00", "is a zip archive"),
        (b"node,class\nant," + b"x" * 200_000 + b"\n", "line 2: the class has 200,000 characters"),
    ),
)
def test_bad_files_name_file_and_line(graph: Graph, tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "few.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((DataError, OptionError), match=says) as error:
        read_labels(path, graph)
    assert "few.csv" in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(DataError, match="is a folder"):
        read_labels(tmp_path, graph)


def test_what_may_be_a_mistake_is_said(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_bytes("node,class\nant,Café\nbee,café\n".encode("latin-1"))
    with pytest.warns(UserWarning) as said:
        labels = read_labels(path, graph)
    assert labels.classes.tolist() == ["Café", "café"]
    assert ["is not UTF-8 (first in line 2)" in str(one.message) for one in said] == [True, False]
    assert "classes 'Café' and 'café' differ only in upper and lower case" in str(said[1].message)


def test_an_exported_formula_is_read_as_it_was(tmp_path: Path) -> None:
    graph = Graph([[0], [1]], names=["=a", "b"], nodes=2)
    path = tmp_path / "few.csv"
    path.write_text("node,class\n'=a,'@x\nb,y\n")
    labels = read_labels(path, graph)
    assert labels.nodes.tolist() == [0, 1]
    assert labels.values.tolist() == ["@x", "y"]


@pytest.mark.parametrize(
    ("nodes", "class_index", "says"),
    (
        ([1, 0], [0, 1], "ascending"),
        ([0, 0], [0, 1], "ascending"),
        ([0, 1], [0, 2], "class_index"),
        ([-1, 1], [0, 1], "nodes"),
        ([0, 1], [0], "class_index"),
        ([0.0, 1.0], [0, 1], "nodes"),
    ),
)
def test_labels_made_by_hand_are_checked(nodes: list, class_index: list, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        Labels(np.array(nodes), np.array(["a", "b"]), np.array(class_index))
