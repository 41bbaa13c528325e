"""What is made of a prediction: the table, the words, suggestions and the page, against slow, obvious loops."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.image import imread

from naq import Graph
from naq.classifier import FewShotNodeClassifier, Labels, estimator, prediction
from naq.classifier.map import COLOURS, EDGE, principal_places
from naq.classifier.page import GROUP, LEAST_SURE, PredictionPage, write_report
from naq.classifier.suggest import choose_nodes, find_medoids
from naq.classifier.table import LEAST, LIFT, columns_of_classes, nearest_labels, supporting_words, write_predictions
from naq.classifier.views import centred_units
from naq.errors import OptionError
from naq.graph.operators import tfidf
from planted_classes import few, planted


@pytest.fixture(scope="module")
def fitted() -> FewShotNodeClassifier:
    return FewShotNodeClassifier().fit(planted(each=60))


def test_nearest_label_is_of_the_class_and_not_the_node_itself() -> None:
    units = centred_units(np.random.default_rng(0).standard_normal((80, 6)).astype(np.float32))
    labels, predicted = Labels.of([0, 1, 2, 3, 4], ["a", "a", "b", "b", "c"]), np.arange(80) % 4
    labels = labels.with_classes(np.array(["a", "b", "c", "d"]))  # d has no label
    found = nearest_labels(units, predicted, labels)
    for node in range(80):
        same = [i for i, c in zip(labels.nodes, labels.class_index) if c == predicted[node]]
        others = [i for i in same if i != node] or same
        assert found[node] == max(others, key=lambda i: units[node] @ units[i], default=-1)


def test_supporting_words_are_the_formula() -> None:
    random = np.random.default_rng(0)
    predicted = random.integers(0, 3, 30)
    often = 0.2 + 0.6 * (np.arange(8) % 4 == predicted[:, None])
    counts = sp.csr_array((random.random((30, 8)) < often) * random.integers(1, 4, (30, 8)))
    edges = random.integers(0, 30, (2, 60))
    graph = Graph(edges, counts, nodes=30, vocab=[f"w{j}" for j in range(8)])
    found = supporting_words(graph, predicted, 3, most=2)
    x, near = tfidf(graph.features).toarray().astype(float), graph.adjacency.toarray()
    near = near / np.maximum(near.sum(axis=1, keepdims=True), 1) @ x
    named = 0
    for node in range(30):
        mine = x[predicted == predicted[node]]
        profile = mine.mean(axis=0) - x.mean(axis=0)
        least = min(LIFT, (1 + 30 / len(mine)) / 2) * (x > 0).mean(axis=0)
        assert np.abs((mine > 0).mean(axis=0) - least).min() > 1e-6
        profile[(mine > 0).mean(axis=0) < least] = 0
        for rows, words in zip((x, near), found[node], strict=True):
            told = rows[node] * profile
            enough = LEAST * max(told.max(), 0)
            best = sorted((-t, j) for j, t in enumerate(told) if t > enough)[:2]
            assert words == [f"w{j}" for _, j in best]
            named += len(words)
    assert named > 30
    assert supporting_words(Graph(edges, counts, nodes=30), predicted, 3) == [([], [])] * 30
    twice = Graph(edges, sp.hstack([counts, counts]), nodes=30, vocab=[f"w{j}" for j in range(8)] * 2)
    for words in (one for both in supporting_words(twice, predicted, 3) for one in both):  # two columns of text
        assert len(set(words)) == len(words)
    beside = sp.hstack([counts[:, :3], random.standard_normal((30, 2)), counts[:, 3:]])
    names = ["w0", "w1", "w2", "size", "age", *(f"w{j}" for j in range(3, 8))]
    wider = Graph(edges, sp.csr_array(beside), nodes=30, vocab=names)
    assert supporting_words(wider, predicted, 3, most=2) == found


def test_suggestions_are_medoids_then_differ_from_the_labelled() -> None:
    middle = np.eye(4, dtype=np.float32)
    random = np.random.default_rng(0)
    rows = np.repeat(middle, [40, 30, 20, 10], axis=0) + 0.05 * random.standard_normal((100, 4)).astype(np.float32)
    units = centred_units(rows)
    nodes, home = find_medoids(units, 4, 0)
    for cluster, node in enumerate(nodes):
        members = np.flatnonzero(home == cluster)
        assert node in members
        centre = units[members].mean(axis=0)
        assert units[node] @ centre >= (units[members] @ centre).max() - 1e-3
    assert (np.diff(np.bincount(home)) <= 0).all()
    first = choose_nodes(units, 4, np.empty(0, int), None, 0)
    np.testing.assert_array_equal(first, nodes)
    even = np.ones(100)
    second = choose_nodes(units, 20, first, even, 0)
    assert len(set(second.tolist())) == 20 and not np.isin(second, first).any()
    everything = choose_nodes(units, 96, first, even, 0)
    assert sorted([*everything.tolist(), *first.tolist()]) == list(range(100))
    with pytest.raises(OptionError, match="only 96 nodes"):
        choose_nodes(units, 97, first, even, 0)
    alone = np.isin(np.arange(100), second[::3])
    last = choose_nodes(units, 20, first, even, 0, alone).tolist()
    assert last == [*(node for node in second if not alone[node]), *second[::3]], "without an edge last"


def test_a_prediction_is_computed_once_and_its_sets_too(
    fitted: FewShotNodeClassifier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fitted.set_labels(few(fitted.graph_))
    asked, predict, threshold = [], estimator.predict, prediction.Prediction._threshold
    monkeypatch.setattr(estimator, "predict", lambda *a, **k: asked.append("predict") or predict(*a, **k))
    counted = lambda self, level: asked.append(level) or threshold(self, level)  # noqa: E731
    monkeypatch.setattr(prediction.Prediction, "_threshold", counted)
    write_predictions(fitted, tmp_path / "p.csv", 0.8)
    write_report(fitted, tmp_path / "p.html", 0.8)
    assert fitted.prediction_sets(level=0.8) is fitted.prediction_sets(level=0.8) and fitted.expected_accuracy()
    assert fitted.suggest(3).tolist() and fitted.explain_choice_ and asked == ["predict", 0.8]


def test_numbers_are_those_of_the_classifier(fitted: FewShotNodeClassifier) -> None:
    fitted.set_labels(few(fitted.graph_, 3))
    page = PredictionPage(fitted)
    final = fitted.transduction_
    assert len(page.classes) == 3
    for row in page.classes:
        assert row.labels == 3 and row.nodes == (final == row.name).sum()
        assert row.share == pytest.approx((final == row.name).mean())
    free = np.delete(np.arange(180), fitted.labels_.nodes)
    sure = fitted.predict_proba()[free].max(axis=1)
    for low, (middle, share) in zip(range(10), page.histogram, strict=True):
        count = sum(low / 10 <= one < (low + 1) / 10 or (low == 9 and one >= 1) for one in sure.tolist())
        assert middle == str(10 * low + 5) and share == pytest.approx(count / len(free), abs=0.01)
    sizes = fitted.prediction_sets()[free].sum(axis=1)
    assert page.sets[0] == ("1", pytest.approx((sizes == 1).mean()))
    assert page.choice == fitted.explain_choice_
    page.set_sizes = np.array([1, 1, 3, 9])
    assert page.sets == [("1", 0.5), ("2", 0.0), ("3", 0.25), ("4", 0.0), ("5", 0.0), ("6", 0.25)]
    every = PredictionPage(fitted.set_labels(few(fitted.graph_, 60)))  # which leaves no accuracy to expect
    assert "Every node has a label" in every.html() and every.least_sure() == []
    assert sum(share for _, share in every.histogram) == pytest.approx(1)


def test_labels_are_left_out_for_the_reliability(fitted: FewShotNodeClassifier) -> None:
    fitted.set_labels(few(fitted.graph_, 1))
    assert np.isnan(fitted.leave_one_out()).all() and PredictionPage(fitted).reliability == []
    assert PredictionPage(fitted).html().count("<svg") > 2
    labels = few(fitted.graph_, 20)
    fitted.set_labels(labels)
    groups = PredictionPage(fitted).reliability
    assert len(groups) == min(5, 60 // GROUP)
    left, own = fitted.leave_one_out(), fitted.labels_.class_index
    hit = (left.argmax(axis=1) == own)[np.argsort(left.max(axis=1), kind="stable")]
    for (sure, right, low, high), part in zip(groups, np.array_split(hit, len(groups)), strict=True):
        assert right == pytest.approx(part.mean()) and low <= right <= high and 1 / 3 <= sure <= 1
    assert hit.mean() > 0.8
    for place in (0, 31):
        node = int(fitted.labels_.nodes[place])
        others = {i: c for i, c in labels.items() if i != node}
        np.testing.assert_allclose(fitted.predict_proba(others)[node], left[place], atol=0.1)


def test_the_page_is_one_file_and_escapes_names(fitted: FewShotNodeClassifier, tmp_path: Path) -> None:
    labels = {i: c.replace("class 0", "<script>alert(1)</script>") for i, c in few(fitted.graph_, 3).items()}
    fitted.set_labels(labels)
    html = write_report(fitted, tmp_path / "page.html", command="naq predict g --labels few.csv").read_text()
    assert "&lt;script&gt;alert" in html
    assert "<script" not in html and "prefers-color-scheme: dark" in html and "@media print" in html
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert f"About {100 * fitted.expected_accuracy().value:.0f} %" in html and "naq predict" in html
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


@pytest.mark.parametrize("count", (1, 9, 4000, 70_000))
def test_places_are_the_principal_components_spread_out(count: int) -> None:
    rows = np.random.default_rng(0).standard_normal((count, 5)).astype(np.float32) * [1, 9, 3, 0.1, 1] + 7
    places = principal_places(rows.astype(np.float32))
    assert places.shape == (count, 2) and places.dtype == np.float32 and np.abs(places).max() <= 1.1
    for axis, column in enumerate((1, 2) if count > 1000 else ()):
        assert abs(np.corrcoef(places[:, axis], rows[:, column])[0, 1]) > 0.9


def test_the_map_is_a_picture_in_the_colours_of_the_classes(fitted: FewShotNodeClassifier) -> None:
    labels = few(fitted.graph_, 5)
    labels[next(iter(labels))] = "class 2"  # a doubtful one
    page = PredictionPage(fitted.set_labels(labels))
    pictures = page.pictures()
    assert pictures["light"] in page.html() and pictures["dark"] in page.html() and "ring marks" in page.html()
    for theme, ground in (("light", (255, 255, 255)), ("dark", (0x14, 0x17, 0x1B))):
        data = base64.b64decode(pictures[theme].removeprefix("data:image/png;base64,"))
        pixels = np.rint(255 * imread(io.BytesIO(data), "png")[:, :, :3]).astype(int)
        assert (pixels == ground).all(axis=2).mean() > 0.5
        for colour in page.swatches.values():
            assert (pixels == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=2).sum() > 20
    for name, left, top in page.names():
        members = fitted.predict() == name
        spots = 50 * (1 + page.places[members] * [1, -1] / EDGE)
        assert np.abs(spots - [left, top]).sum(axis=1).min() < 12 and f"{left:.1f}%; top: {top:.1f}%" in page.html()
    assert [name for name, _, _ in page.names()] != []
    given = PredictionPage(fitted, more={"colours": {"class 0": 7}, "places": np.zeros((180, 2), np.float32)})
    assert given.swatches["class 0"] == COLOURS[7] and given.pictures()["light"] != pictures["light"]


def test_the_least_sure_nodes_and_what_speaks_for_classes(fitted: FewShotNodeClassifier) -> None:
    page = PredictionPage(fitted.set_labels(few(fitted.graph_, 3)))
    chances, graph = fitted.predict_proba(), fitted.graph_
    free = sorted(set(range(180)) - set(fitted.labels_.nodes.tolist()), key=lambda node: (chances[node].max(), node))
    for one, node in zip(page.least_sure(), free[:LEAST_SURE], strict=True):
        assert one["name"] == f"node {node}"
        assert [chance for _, chance in one["either"]] == sorted(chances[node].tolist())[:0:-1]
    for place, words in enumerate(page.speaks_for().values()):  # class c has the words 12 c to 12 c + 11
        assert len(words) == 6 and sum(int(word.removeprefix("word")) // 12 == place for word in words) >= 5
    predicted = np.arange(180) % 3
    numbers = np.random.default_rng(0).standard_normal((180, 3)) + (predicted[:, None] == [1, 2, 9]) * [[9, -3, 0]]
    plain = Graph(graph.adjacency, numbers, nodes=180, vocab=["size", "age", "noise"])
    assert columns_of_classes(plain, predicted, 3) == [
        ["low size", "high age"],
        ["high size", "high age"],
        ["low age", "low size"],
    ]
    dated = plain.with_recipe({"columns": [{"kind": "number", "column": "age", "dates": "year-month-day"}]})
    assert columns_of_classes(dated, predicted, 3)[::2] == [["low size", "early age"], ["late age", "low size"]]
    assert columns_of_classes(Graph(graph.adjacency, nodes=180), predicted, 3) == [[], [], []]


def test_there_is_no_plot_with_one_dot(fitted: FewShotNodeClassifier) -> None:
    page = PredictionPage(fitted.set_labels(few(fitted.graph_, GROUP // 2)))
    assert page.found.has_other_labels.sum() < 2 * GROUP and not page.reliability
    page.set_sizes = np.ones(10, dtype=int)
    assert "Every set has one class" in page.html() and "<circle" not in page.html()


def test_its_charts_are_drawn_inside_their_frames(fitted: FewShotNodeClassifier) -> None:
    """Every bar and every point lies where its number says: y = 200 - 180 share, x = 46 + 424 probability."""
    page = PredictionPage(fitted.set_labels(few(fitted.graph_, 20)))
    page.set_sizes = np.array([1, 1, 2, 3])
    svg = re.findall(r"<svg(?! class=.swatch).*?</svg>", page.html(), re.DOTALL)
    charts = [ElementTree.fromstring(one) for one in svg]
    *weights, histogram, reliability, sets = charts
    widths = [float(bar.get("width")) for chart in weights for bar in chart.iter("rect")]
    assert widths == pytest.approx([100 * share for _, share in page.weights], abs=0.06)
    for chart, rows in ((histogram, page.histogram), (sets, page.sets)):
        heights = [float(bar.get("height")) for bar in chart.iter("rect")]
        top = max(share for _, share in rows)
        assert len(heights) == len(rows) and max(heights) <= 180
        np.testing.assert_allclose(np.array(heights) / max(heights), [share / top for _, share in rows], atol=0.01)
        assert all(
            float(bar.get("y")) + float(bar.get("height")) == pytest.approx(200, abs=0.11) for bar in chart.iter("rect")
        )
    points = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in reliability.iter("circle")]
    wanted = [(46 + 424 * x, 200 - 180 * y) for x, y, _, _ in page.reliability]
    np.testing.assert_allclose(points, wanted, atol=0.06)
