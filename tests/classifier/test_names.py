"""Names of classes as labels before the first, on planted texts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from naq import FewShotNodeClassifier, Graph
from naq.classifier import with_nodes
from naq.classifier.estimator import NotFitted
from naq.classifier.names import WORTH, ClassNames, class_texts, read_classes, trust
from naq.classifier.page import PredictionPage, verdicts
from naq.classifier.views import View
from naq.cli.main import app
from naq.errors import DataError, OptionError
from naq.files import read_tensors, write_tensors
from naq.io import save_graph
from naq.text import NodeTable, SentenceVectors

NAMES = ["apple", "brick", "cloud", "drum"]
NODES, WIDTH = 400, 16


def planted(names: list[str], seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Nodes of four classes whose texts are near the class's own vector; ``names`` says which vector each name has."""
    random = np.random.default_rng(seed)
    truth = np.arange(NODES) % 4
    centre = 2 * np.eye(4, WIDTH)
    vectors = centre[truth] + random.normal(size=(NODES, WIDTH)) * 0.8
    vectors[random.random(NODES) < 0.4] = 0  # no text
    ends = random.integers(NODES, size=(2, 5000))
    edges = ends[:, (truth[ends[0]] == truth[ends[1]]) | (random.random(5000) < 0.1)]
    rows = centre.astype(np.float32)
    text = SentenceVectors(vectors.astype(np.float16), "planted", class_names=np.array(names), class_rows=rows)
    return Graph(edges, nodes=NODES).with_text(text), truth


def accuracy(classifier: FewShotNodeClassifier, truth: np.ndarray, given: dict | None = None) -> float:
    return float((classifier.predict(given) == np.array(NAMES)[truth]).mean())


@pytest.fixture(scope="module")
def fitted() -> tuple[FewShotNodeClassifier, np.ndarray]:
    graph, truth = planted(NAMES)
    return FewShotNodeClassifier().fit(graph, classes=NAMES), truth


def test_names_alone_name_every_node(fitted: tuple[FewShotNodeClassifier, np.ndarray]) -> None:
    classifier, truth = fitted
    found = classifier.prediction()
    assert accuracy(classifier, truth) > 0.9 and found.trusted == 1
    assert found.probabilities.shape == (NODES, 4) and abs(found.probabilities.sum(axis=1) - 1).max() < 1e-5
    assert found.expected.low <= accuracy(classifier, truth) <= found.expected.high
    assert found.sets(0.9).any(axis=1).all() and "names" in found.view_weights()
    assert set(classifier.suggest(4)) <= set(range(NODES))


def test_one_label_beside_names(fitted: tuple[FewShotNodeClassifier, np.ndarray]) -> None:
    classifier, truth = fitted
    assert accuracy(classifier, truth, {0: NAMES[0], 5: NAMES[1]}) > 0.9  # two classes have none
    labels = {int(node): NAMES[truth[node]] for node in range(40)}
    assert classifier.prediction(labels).trusted > 0.99
    found = classifier.prediction(labels | {41: "elsewhere", 45: "elsewhere"})
    assert found.labels.classes.tolist() == [*NAMES, "elsewhere"]
    every = classifier.prediction({node: NAMES[one] for node, one in enumerate(truth)})  # and nothing stands in for any
    assert every.trusted > 0.99 and np.isfinite(every.probabilities).all()


def test_names_that_mean_nothing_are_found_out() -> None:
    graph, truth = planted(NAMES[::-1])  # every name has another class's vector
    named, bare = FewShotNodeClassifier().fit(graph, classes=NAMES), FewShotNodeClassifier().fit(graph)
    labels = {int(node): NAMES[truth[node]] for node in range(40)}
    found = named.prediction(labels)
    assert found.trusted < 0.01 and any("names" in one for one in verdicts(found))
    assert accuracy(named, truth, labels) > accuracy(bare, truth, labels) - 0.02


def test_trust_is_the_share_of_likelihoods() -> None:
    logs = np.log([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
    likelihood = 0.5 * 0.1
    assert trust(logs, np.array([0, 2])) == pytest.approx(likelihood / (likelihood + 1 / 9))


def test_stand_ins_and_anchors() -> None:
    """Stand-ins are the nearest free nodes of a name. They add their mean to every view, names to that of the
    texts; both count as WORTH labels."""
    rows = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8], [0, 0]], np.float32)
    cosines = np.where(rows.any(axis=1)[:, None], rows, np.nan)  # with the names (1, 0) and (0, 1)
    nodes, own = ClassNames(np.array(["a", "b"]), np.eye(2), cosines).stand_ins(
        np.array(["a", "b", "c"]), np.array([2])
    )
    assert nodes.tolist() == [0, 1, 3] and own.tolist() == [0, 0, 1]
    names = ClassNames(np.array(["a", "c"]), np.array([[0.6, 0.8], [0, 1]], np.float32), cosines)
    for view, added in (("smooth", 0), ("texts", 1)):
        found = names.anchors(View(view, rows, True, True), nodes, np.array([0, 0, 2]), np.array(["a", "b", "c"]))
        wanted = [[0.9 + 0.6 * added, 0.3 + 0.8 * added], [0, 0], [0.6, 0.8 + added]]
        np.testing.assert_allclose(found, WORTH * np.array(wanted), atol=1e-6)


def test_files_of_names(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_text("apple, a fruit, of a tree\n\nbrick\ncloud\twater, far up\n", encoding="utf-8")
    found = read_classes(path)
    assert found == {"apple": "a fruit, of a tree", "brick": "", "cloud": "water, far up"}
    assert class_texts(found)[1][0] == "apple: a fruit, of a tree"
    path.write_text("class,description\nbrick,of clay\ndrum\n", encoding="utf-8")
    assert list(read_classes(path)) == ["brick", "drum"]


@pytest.mark.parametrize(
    ("content", "what"),
    (
        (b"apple\nbrick\nApple\n", "line 3"),
        (b"", "class"),
        (b"apple\n\n", "two"),
        (b"apple\n" + b"x" * 5000, "line 2"),
        (b"M\xfcller\nbrick", "UTF-8"),
        (bytes(range(256)), "UTF-8"),
        (None, "read"),
    ),
)
def test_bad_files_of_names(tmp_path: Path, content: bytes | None, what: str) -> None:
    path = tmp_path if content is None else tmp_path / "classes.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=what):
        read_classes(path)


@pytest.mark.parametrize(
    "classes", [[], ["a"], ["a", "a"], ["oak", "Oak"], ["a", ""], ["1", "2"], "ab", [1, 2], {"a": 3, "b": ""}]
)
def test_names_that_are_refused(classes: object) -> None:
    with pytest.raises(OptionError, match="class"):
        class_texts(classes)


@pytest.mark.parametrize("classes, what", [(NAMES, "text_encoder="), (["1", "2"], "words")])
def test_names_are_refused_before_anything_takes_long(
    classes: list[str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewShotNodeClassifier, "_model", lambda *given: pytest.fail("the graph is learned first"))
    with pytest.raises(OptionError, match=what):
        FewShotNodeClassifier().fit(Graph([[0, 1], [1, 2]], nodes=3), classes=classes)


def test_many_names_and_names_of_nodes() -> None:
    """Five hundred names on four hundred nodes, some of them names of nodes too, and a class without a near node."""
    graph, _ = planted([f"n{i}" for i in range(4)])
    assert graph.text is not None
    names = np.array([f"n{i}" for i in range(500)])
    rows = np.random.default_rng(1).normal(size=(500, WIDTH)).astype(np.float32)
    text = SentenceVectors(graph.text.vectors, "planted", class_names=names, class_rows=rows)
    named = Graph(graph.adjacency, names=names[:NODES].tolist(), nodes=NODES).with_text(text)
    found = FewShotNodeClassifier().fit(named, {"n7": "n9"}, classes=names.tolist()).prediction()
    assert found.probabilities.shape == (NODES, 500) and np.isfinite(found.probabilities).all()
    assert found.transduction[7] == "n9" and 0 <= found.expected.low <= found.expected.high <= 1


def test_names_are_saved_and_serve_later_nodes(
    fitted: tuple[FewShotNodeClassifier, np.ndarray], tmp_path: Path
) -> None:
    graph = fitted[0].graph_
    classifier = FewShotNodeClassifier().fit(graph, classes=NAMES)
    assert classifier.predict().shape == (NODES,)
    path = classifier.save(tmp_path / "c.safetensors")
    again = FewShotNodeClassifier.load(path, graph)
    assert (again.predict() == classifier.predict()).all() and not len(again.labels_.nodes)
    assert (FewShotNodeClassifier.load(again.save(path), graph).predict() == again.predict()).all()
    larger = with_nodes(graph, None, [[NODES, NODES], [0, 4]])
    assert again.predict(graph=larger)[:NODES].tolist() == again.predict().tolist()
    tensors, facts = read_tensors(path, "classifier")
    for wrong in (["b", "a"], ["a", 1], NAMES[:3]):
        write_tensors(path, tensors, {**facts, "names": wrong})
        with pytest.raises(DataError, match="name"):
            FewShotNodeClassifier.load(path, graph)
    with pytest.raises(NotFitted):
        again.set_classes(None).predict()


def run(*words: object) -> str:
    shown = CliRunner().invoke(app, [str(word) for word in words])
    assert shown.exit_code == 0, shown.output or shown.exception
    return shown.stdout


def test_commands_show_names_and_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "cache"))
    graph, truth = planted(NAMES)
    texts = [f"what {NAMES[one]} {i} is" for i, one in enumerate(truth)]
    texts[3] = "drum " * 200_000
    columns = {"word": [f"word {i}" for i in range(NODES)], "about": texts}
    path = save_graph(tmp_path / "g.npz", graph.with_table(NodeTable.of(columns, "word", ["about"])))
    (tmp_path / "classes.txt").write_text("\n".join(NAMES))
    words = (path, "--classes", tmp_path / "classes.txt")
    said = run("predict", *words, "--out", tmp_path / "p.csv", "--report", tmp_path / "p.html")
    assert f"naq suggest {path} --classes" in said
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert np.mean([row["class"] == NAMES[one] for row, one in zip(rows, truth)]) > 0.9
    assert (rows[7]["node"], rows[7]["name"], rows[7]["text"]) == ("7", "word 7", texts[7])
    assert len(rows) == NODES and 100 < len(rows[3]["text"]) < 1000
    suggested = json.loads(run("suggest", *words, "-k", 3, "--json"))
    for one in suggested:
        assert (
            one["likely"] in NAMES
            and one["name"] == f"word {one['node']}"
            and one["text"][:20] == texts[int(one["node"])][:20]
        )
    page = PredictionPage(FewShotNodeClassifier().fit(graph.with_table(NodeTable.of(columns, "word")), classes=NAMES))
    assert all(one.startswith("word ") for _, likely in page.examples().values() for one in likely)
    assert page.remarks[0].startswith("There is no label")
