"""Frames, Series, PyG and NetworkX in, frames with names out; classes that are lists are refused."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone

import naq
from naq.classifier import FewShotNodeClassifier, write_predictions
from naq.classifier.frames import to_frame
from naq.classifier.labels import to_labels
from naq.errors import DataError, MissingDependency, OptionError
from planted_classes import few, planted

NAMES = ["ant", "bee", "Cat", "dog", "007"]
NODES, CLASSES = ["ant", "bee", "dog"], ["y", "x", "x"]
PAIRS = {"node": NODES, "class": CLASSES}


@pytest.fixture(scope="module")
def graph() -> naq.Graph:
    return naq.Graph([[0, 1, 2, 3], [1, 2, 3, 4]], features=np.eye(5) + 1, names=NAMES, nodes=5)


@pytest.fixture(scope="module")
def fitted() -> FewShotNodeClassifier:
    graph = planted(each=30)
    return FewShotNodeClassifier().fit(graph, few(graph))


QUERY = "from (values ('ant', 'y'), ('bee', 'x'), ('dog', 'x')) as rows(node, class)"
FRAMES = {
    "series": lambda: pd.Series(CLASSES, NODES),
    "series with gaps": lambda: pd.Series([*CLASSES, None], [*NODES, "Cat"], dtype="string"),
    "one entry per node": lambda: pd.Series(["y", "x", None, "x", None], dtype="string"),
    "categories": lambda: pd.Series(pd.Categorical(CLASSES), NODES),
    "frame": lambda: pd.DataFrame({"remark": [1, 2, 3], **PAIRS}),
    "frame by index": lambda: pd.DataFrame({"label": CLASSES}, NODES),
    "frame by named index": lambda: pd.DataFrame({"animal": NODES, "label": CLASSES}).set_index("animal"),
    "arrow": lambda: pa.table(PAIRS),
    "polars": lambda: pytest.importorskip("polars").DataFrame({**PAIRS, "weight": [1.0, 2.0, 3.0]}),
    "polars series": lambda: pytest.importorskip("polars").Series(["y", "x", None, "x", None]),
    "duckdb": lambda: pytest.importorskip("duckdb").sql(QUERY),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_labels(graph: naq.Graph, name: str) -> None:
    labels = to_labels(graph, FRAMES[name]())
    assert labels.nodes.tolist() == [0, 1, 3] and labels.values.tolist() == ["y", "x", "x"]


def test_numbers_of_nodes_and_classes(graph: naq.Graph) -> None:
    with pytest.warns(UserWarning, match="nodes are numbers, e.g. 3"):
        labels = to_labels(graph, pd.DataFrame({"node": [3, 1, 0], "class": [7, -1, 5]}))
    assert labels.nodes.tolist() == [0, 3] and labels.values.tolist() == [5, 7]
    named = naq.Graph([[0, 1], [1, 2]], names=["10", "11", "12"], nodes=3)
    found = to_labels(named, pd.Series([2.0, 1.0, np.nan], [12, 10, 11]))
    assert found.nodes.tolist() == [0, 2] and found.values.tolist() == [1, 2]
    bare = naq.Graph([[0, 1], [1, 2]], nodes=3)
    for given in (pd.Series({0: "a", 2: "b"}), pd.Series(["a", None, "b"], dtype="string"), {0: "a", 1: pd.NA, 2: "b"}):
        assert to_labels(bare, given).nodes.tolist() == [0, 2]
    torch = pytest.importorskip("torch")
    assert to_labels(bare, torch.tensor([4, -1, 2])).values.tolist() == [4, 2]


@pytest.mark.parametrize(
    ("given", "what"),
    (
        (pd.DataFrame({"animal": NODES, "remark": [1, 2, 3], "class": CLASSES}), "'animal'"),
        (pd.DataFrame({"node": ["ant", "wolf"], "class": ["x", "y"]}), "labels, row 1: .*'wolf'"),
        (pd.DataFrame({"node": ["ant", "ant"], "class": ["x", "y"]}), "labels, row 1: .*'ant'.*labels, row 0"),
        (pd.DataFrame({"node": NODES, "class": [None] * 3}), "'class'"),
        (pd.DataFrame({"node": [], "class": []}), "'class'"),
        (pd.DataFrame([["ant", "x", "y"]], columns=["node", "class", "class"]), "class"),
        (pd.DataFrame({"node": NODES, "class": ["x", 1, 2.5]}), "DataFrame"),
        (pd.Series(["x", "y"], pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])), "index"),
    ),
)
def test_mistakes_in_frames(graph: naq.Graph, given: object, what: str) -> None:
    with pytest.raises((DataError, OptionError), match=what):
        to_labels(graph, given)


SEVERAL = ["Europe|EU", "Asia|ASEAN", "Europe|EFTA", "Asia", "Asia|ASEAN"]


@pytest.mark.parametrize(
    "classes",
    (
        [["x", "y"], ["x"], [], ["y"], ["y"]],
        [("x",), None, None, None, ("y",)],
        np.eye(5, 2),
        SEVERAL,
        [cell.replace("|", " ; ") for cell in SEVERAL],
        pd.Series(SEVERAL, NAMES),
        pd.DataFrame({"node": NAMES, "class": [[1, 2], [1], [2], [1], [2]]}),
        pa.table({"node": NAMES, "class": [["x", "y"], ["x"], None, ["y"], ["y"]]}),
        {"ant": np.array([1, 2]), "bee": 1},
        {"ant": {"x", "y"}, "bee": {"x"}},
        ["Europe|EU", "Asia", "Europe", "EU", None],
        ["Asia", "Asia", "Asia", "Europe", "Asia; Europe"],
    ),
)
def test_several_classes_of_a_node_are_refused(graph: naq.Graph, classes: object) -> None:
    with pytest.raises(OptionError, match="several classes"):
        to_labels(graph, classes)


@pytest.mark.parametrize(
    "classes", (["a;b", "a;b", "c", "c", "a;b"], ["x|y", "x", "z", "z", "z"], ["p;q", "r;s", None])
)
def test_names_with_a_separator_may_be_one_class(graph: naq.Graph, classes: list) -> None:
    classes = [*classes, None, None][:5]
    labels = to_labels(graph, classes)
    assert labels.values.tolist() == [one for one in classes if one]


def test_graphs_of_pyg_and_networkx(fitted: FewShotNodeClassifier) -> None:
    graph = fitted.graph_
    labels = fitted.labels_
    bare = graph.to_pyg()
    by_number = FewShotNodeClassifier().fit(bare, {int(i): c for i, c in zip(labels.nodes, labels.values)})
    np.testing.assert_array_equal(by_number.predict(), fitted.predict())
    assert np.mean(by_number.predict(graph=bare) == fitted.predict()) > 0.95
    other = nx.Graph([(graph.names[i], graph.names[j]) for i, j in zip(*graph.adjacency.nonzero())])
    other.add_nodes_from(graph.names.tolist())
    by_name = FewShotNodeClassifier().fit(other, dict(zip(graph.names[labels.nodes].tolist(), labels.values.tolist())))
    assert set(by_name.graph_.names) == set(graph.names) and by_name.graph_.num_edges == graph.num_edges
    truth = pd.Series(graph.class_names[graph.labels], graph.names)
    assert by_name.score(truth) > 0.6 and fitted.score(truth) == fitted.score(graph.class_names[graph.labels])
    for wrong in ("debian", pd.DataFrame({"source": [0], "target": [1]}), 3):
        with pytest.raises(OptionError, match=r"naq\.Graph"):
            FewShotNodeClassifier().fit(wrong)


def test_frames_of_predictions_are_the_file(fitted: FewShotNodeClassifier, tmp_path, monkeypatch) -> None:
    frame = fitted.to_frame()
    file = pd.read_csv(write_predictions(fitted, tmp_path / "p.csv"), keep_default_na=False)
    assert frame.columns.tolist() == file.columns.tolist() and frame["node"].tolist() == fitted.graph_.names.tolist()
    for name in ("node", "class", "runner_up", "because", "nearest_label"):
        assert frame[name].tolist() == file[name].tolist()
    assert ["|".join(one) for one in frame["words"]] == file["words"].tolist()
    np.testing.assert_allclose(frame["probability"], file["probability"], atol=1e-4)
    assert frame["given"].sum() == len(fitted.labels_.nodes)
    found = fitted.prediction()
    numbers = found.to_frame(0.8)
    assert numbers["node"].tolist() == list(range(90)) and numbers["class"].tolist() == found.transduction.tolist()
    for held, row in zip(found.sets(0.8), numbers["prediction_set"]):
        assert set(row) == set(found.labels.classes[held]) and (not row or row[0] in found.labels.classes)
    free = found.free
    assert (numbers["runner_up"][free] == found.labels.classes[np.argsort(-found.probabilities[free])[:, 1]]).all()
    monkeypatch.setattr("naq.classifier.frames.find_spec", lambda name: name != "pandas")
    table = fitted.to_frame()
    assert isinstance(table, pa.Table) and table.column_names == frame.columns.tolist()
    monkeypatch.setattr("naq.classifier.frames.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install"):
        to_frame({})


def test_set_output(fitted: FewShotNodeClassifier) -> None:
    with pytest.raises(OptionError, match="transform"):
        fitted.set_output(transform="numpy")
    with config_context(transform_output="pandas"):
        sure, vectors = fitted.predict_proba(), fitted.transform()
    assert sure.columns.tolist() == fitted.classes_.tolist() and sure.index.tolist() == fitted.graph_.names.tolist()
    np.testing.assert_array_equal(sure, fitted.predict_proba())
    assert vectors.columns.tolist() == fitted.get_feature_names_out().tolist() and isinstance(
        fitted.transform(), np.ndarray
    )
    other = clone(fitted).set_output(transform="pandas").set_output()
    assert clone(other)._sklearn_output_config == {"transform": "pandas"}
    polars = pytest.importorskip("polars")
    with config_context(transform_output="polars"):
        assert isinstance(fitted.predict_proba(), polars.DataFrame)
