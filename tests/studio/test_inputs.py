"""Odd graphs, names, caches and places; what is answered is what the classifier says."""

from __future__ import annotations

import json
import socket
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from naq import FewShotNodeClassifier, Graph
from naq.classifier import read_labels
from naq.classifier.map import COLOURS, SHAPES
from naq.cli.main import app
from naq.errors import DataError, NaqError, OptionError
from naq.files import cache_folder
from naq.io.npz import save_graph
from naq_studio import answers, model
from naq_studio.board import NONE, Entry
from naq_studio.cache import first_layout, graph_folder, pacmap_layout, read_layout, write_layout
from naq_studio.card import card, nodes_with_word, search
from naq_studio.exports import code, labels_csv, predictions_csv
from naq_studio.server import bind_socket, journal_path, serve
from naq_studio.session import Session
from studio_under_test import settled, studio, wait_until, word_graph


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def session(tmp_path, in_process):
    """Of 120 nodes whose first five are labelled."""
    graph = word_graph().with_source(str(save_graph(tmp_path / "g.npz", word_graph())))
    one = Session(graph, tmp_path / "j.csv")
    one.start()
    one.write([Entry("label", node, LABELS[node]) for node in LABELS])
    settled(one)
    yield one
    one.stop()


LABELS = {0: "fruit", 3: "fruit", 1: 'it\'s "rock"', 4: 'it\'s "rock"', 2: "\\water"}


def test_names_are_data(tmp_path, in_process):
    names = ["<script>alert(1)</script>", "🦊 fox", "a\nb", "=cmd()", "x" * 1_000_000, "", "same", "same", "7", "‮evil"]
    graph = Graph(np.array([[0, 1], [1, 2]]), nodes=10, names=names, name="<b>graph</b>")
    with studio(graph, tmp_path / "j.csv", learn=True) as running:
        shown = running.get("/api/names")
        assert shown[0] == names[0] and shown[2] == "a b" and len(shown[4]) == 121
        assert len(running.get("/api/node/4")["name"]) == 2_000
        assert running.get("/api/search?q=fox")["nodes"] == [1]
        assert running.get("/api/search?q=%3Cscript")["nodes"] == [0]
        for node in range(10):
            assert running.act(action="label", nodes=[node], new="=<img src=x> 🦊" if node % 2 else "b")[0] == 200
        settled(running.session)
        report = running.request("GET", "/api/export/report.html")[1].decode()
        assert "<img src=x>" not in report and "<script>alert" not in report and "&lt;img src=x&gt;" in report
        labels = running.request("GET", "/api/export/labels.csv")[1].decode()
        assert "'=cmd()" in labels and "\n6," in labels and "\n7," in labels  # names that two have are numbers
    assert (tmp_path / "j.csv").stat().st_size < 20_000
    again = Session(graph, tmp_path / "j.csv")
    assert len(again.journal.board.labels) == 10 and not again.journal.problems
    again.journal.close()


@pytest.mark.parametrize("kind", ["no names", "no features", "one node", "no edges", "dense", "two nodes"])
def test_odd_graphs(tmp_path, kind, in_process):
    random = np.random.default_rng(0)
    n = {"one node": 1, "two nodes": 2}.get(kind, 50)
    edges = random.integers(0, n, (2, 0 if kind in ("no edges", "one node") else 4 * n))
    features = sp.csr_array((random.random((n, 40)) < 0.09).astype(float))
    features = {"dense": random.standard_normal((n, 6)), "no features": None, "one node": None}.get(kind, features)
    graph = Graph(edges, features, nodes=n, name=kind)
    session = Session(graph, tmp_path / "j.csv")
    session.start()
    try:
        session.write([Entry("label", 0, "a")])
        if n > 1:
            session.write([Entry("label", 1, "b")])
        settled(session)
        json.dumps(session.state(), allow_nan=False)
        assert session.model.layouts["pca"].shape == (n, 2)
        assert len(session.arrays()[1]) == 5 * n
        facts = card(session, 0)
        json.dumps(facts, allow_nan=False)
        assert search(session, "0")["nodes"] == [0]
        if n > 2:
            assert session.answer is not None and facts["prediction"]["class"] in (0, 1)
            assert bool(facts["features"] or facts["words"]) == (features is not None)
    finally:
        session.stop()


def test_the_second_start_reads_the_cache(tmp_path):
    graph = word_graph()
    first = Session(graph, tmp_path / "j.csv")
    first.start()
    first.write([Entry("label", 0, "a"), Entry("label", 1, "b")])
    first.write([Entry("label", 3, "a")])
    settled(first)
    queue = wait_until(lambda: first.queue)
    places, answer = first.model.layouts, first.answer
    assert answer is not None and not {0, 1, 3} & set(queue) and len(queue) == len(set(queue)) > 5
    first.stop()
    again = Session(graph, tmp_path / "j.csv")
    again.start()
    settled(again)
    for name in ("pca", "pacmap"):
        np.testing.assert_array_equal(places[name], again.model.layouts[name])
    assert again.answer is not None
    np.testing.assert_allclose(answer.probabilities, again.answer.probabilities, atol=1e-5)
    assert [point[:2] for point in again.curve] == [(2, 3)]
    again.stop()


def test_predictions_are_those_of_the_classifier(session):
    classifier, found = FewShotNodeClassifier().fit(session.graph, LABELS), session.answer
    order = [sorted({*LABELS.values()}).index(session.journal.board.name(int(one))) for one in found.ids]
    np.testing.assert_allclose(found.probabilities, classifier.predict_proba()[:, order], atol=1e-4)
    assert abs(found.expected.value - classifier.expected_accuracy().value) < 1e-3
    session.write([Entry("none", 5)])
    settled(session)
    facts = card(session, 6)
    near = classifier.vectors_ - classifier.vectors_.mean(axis=0)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    assert facts["prediction"]["speaker"] == max((0, 3), key=lambda node: near[6] @ near[node])
    assert facts["similar"][0][0] == max((n for n in range(120) if n != 6), key=lambda node: near[6] @ near[node])
    assert facts["given"] is None and session.journal.board.labels[5] == NONE
    session.write([Entry("unknown", value="on")])  # nodes may belong to none of the classes
    settled(session)
    wanted = FewShotNodeClassifier(unknown=True).fit(session.graph).predict(LABELS)
    assert ((session.answer.chosen == -2) == np.array([one is None for one in wanted])).mean() > 0.97


def test_weights_and_expected_accuracy_by_class_are_those_of_the_classifier(session):
    found = FewShotNodeClassifier().fit(session.graph, LABELS).prediction()
    state = session.state()
    assert [weight for _, weight in state["weights"]] == pytest.approx([*found.view_weights().values()], abs=1e-2)
    by_name = dict(zip(found.labels.classes.tolist(), found.expected_by_class()))
    for one in state["classes"]:
        wanted = by_name[one["name"]]
        assert (one["expected"] is None) == (wanted is None)
        if wanted is not None:
            assert one["expected"]["value"] == pytest.approx(wanted.value, abs=1e-2)


def test_a_doubtful_label_is_listed_until_it_is_kept_or_changed(session, tmp_path):
    rows = [Entry("label", node, list(LABELS.values())[node % 3 * 2]) for node in range(6, 30)]
    session.write([*rows, Entry("label", 30, "\\water"), Entry("label", 31, "fruit")])  # both wrong
    settled(session)
    classifier = FewShotNodeClassifier().fit(session.graph, session.given_labels().labels)
    name = session.journal.board.name

    def listed():
        return [(one["node"], name(one["given"]), name(one["instead"])) for one in session.state()["doubtful"]]

    shown = listed()
    assert shown == [(one.node, one.given, one.instead) for one in classifier.doubtful_labels()][:20]
    assert {30, 31} <= {node for node, _, _ in shown}
    session.write([Entry("keep", 30)])
    session.write([Entry("label", 31, 'it\'s "rock"')])
    assert not {30, 31} & {node for node, _, _ in listed()}  # before there is another prediction
    settled(session)
    (tmp_path / "copy.csv").write_bytes((tmp_path / "j.csv").read_bytes())
    again = Session(session.graph, tmp_path / "copy.csv")
    assert again.journal.board.kept == {30: True}
    again.write([Entry("unlabel", 30)])
    assert not again.journal.board.kept
    again.journal.close()
    with pytest.raises(OptionError, match="no label"):
        again.journal.board.step([Entry("keep", 30)])


def test_nodes_without_an_edge_are_suggested_last_and_skipped_ones_never_again(tmp_path, in_process):
    plain = word_graph()
    joined = np.flatnonzero(np.arange(120) % 4)  # every fourth node loses its edges
    mask = np.isin(np.arange(120), joined).astype(float)
    graph = Graph(plain.adjacency * mask[:, None] * mask[None], plain.features, names=plain.names, name="some alone")
    skipped: list[int] = []
    for _ in range(3):  # each is a start of its own
        session = Session(graph, tmp_path / "j.csv")
        session.start()
        settled(session)
        queue = wait_until(lambda own=session: list(own.queue))
        alone = [graph.degrees[node] == 0 for node in queue]
        assert any(alone) and alone == sorted(alone) and not set(queue) & set(skipped)
        session.write([Entry("skip", node) for node in queue])
        skipped += queue
        settled(session)
        session.stop()


def test_the_code_repeats_the_predictions(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = predictions_csv(session)
    exec(compile(code(session), "repeat.py", "exec"), {})
    again = (tmp_path / "predictions.csv").read_text(encoding="utf-8")
    ours, theirs = ([line.split(",")[:2] for line in text.splitlines()] for text in (table, again))
    assert ours == theirs
    (tmp_path / "few.csv").write_text(labels_csv(session), encoding="utf-8")
    read = read_labels(tmp_path / "few.csv", session.graph)
    assert dict(zip(read.nodes.tolist(), read.values.tolist())) == LABELS
    session.write([Entry("undo")])
    with pytest.raises(NaqError, match="classes"):
        predictions_csv(session)


def test_a_failure_to_learn_is_told(tmp_path, monkeypatch, in_process):
    monkeypatch.setattr(model, "METHOD", "no-such-method")
    session = Session(word_graph(), tmp_path / "j.csv")
    session.start()
    settled(session)
    state = session.state()
    assert state["phase"] == "failed" and "no-such-method" in state["failure"]
    session.write([Entry("label", 0, "a")])
    assert session.state()["labels"] == 1
    session.stop()


def test_a_prediction_that_fails_is_told_and_the_next_one_is_made(tmp_path, monkeypatch, in_process):
    made, predicted = answers.answer, threading.Event()

    def short_of_memory(*given):
        predicted.set()
        raise MemoryError("no room")

    monkeypatch.setattr(answers, "answer", short_of_memory)
    with studio(word_graph(), tmp_path / "j.csv", learn=True) as running:

        def state_when(ready):
            def state():
                one = running.get("/api/state")
                known = one["learned"] and not one["pending"] and one["phase"] == "ready"
                return one if known and ready(one) else None

            return wait_until(state)

        running.act(action="label", nodes=[0], new="a")
        running.act(action="label", nodes=[1], new="b")
        state = state_when(lambda one: predicted.is_set() and one["failure"])
        assert "no room" in state["failure"] and state["answer"] is None
        monkeypatch.setattr(answers, "answer", made)
        running.act(action="label", nodes=[3], **{"class": 0})
        state = state_when(lambda one: one["answer"] == one["version"])
        assert state["failure"] == "" and state["labels"] == 3


def test_words_find_their_nodes_and_layouts_are_the_same_twice():
    graph = word_graph(200)
    dense = graph.features.toarray()
    for word in range(0, 30, 7):
        assert nodes_with_word(graph, word) == np.flatnonzero(dense[:, word]).tolist()
    vectors = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    for make in (lambda: first_layout(graph), lambda: pacmap_layout(vectors)):
        one, two = make(), make()
        np.testing.assert_array_equal(one, two)
        assert one.dtype == np.float32 and np.abs(one).max() <= 1.1 and np.ptp(one, axis=0).min() > 1
    assert np.isfinite(pacmap_layout(np.ones((40, 3), np.float32))).all()


def test_damaged_caches_are_made_anew(tmp_path):
    assert graph_folder(word_graph(40), "naq-plus", 0).parent.parent == cache_folder()
    write_layout(tmp_path, "pca", np.zeros((3, 2), np.float32))
    assert read_layout(tmp_path, "pca", 3) is not None and read_layout(tmp_path, "pca", 4) is None
    (tmp_path / "pca.npz").write_bytes(b"damaged")
    assert read_layout(tmp_path, "pca", 3) is None


def test_labels_are_kept_next_to_the_graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph, path = word_graph(), tmp_path / "data" / "my.graph.npz"
    assert journal_path(graph) == tmp_path / "groups.studio.csv"
    assert journal_path(graph.with_source(str(path))) == tmp_path / "data" / "my.studio.csv"
    assert journal_path(graph.with_source("debian"), tmp_path / "x.csv") == tmp_path / "x.csv"


def test_a_port_in_use_gives_the_next():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said: list[str] = []
        serve(word_graph(12), port=port, check=True, say=said.append)
        assert str(port) in said[0] and said[-1].endswith(": ok")
    for bad in (-1, 70_000):
        with pytest.raises(OptionError, match="port"):
            bind_socket(bad)


def test_check_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save_graph(tmp_path / "g.npz", word_graph(12))
    done = CliRunner().invoke(app, ["studio", str(path), "--check", "--port", "0"])
    assert done.exit_code == 0 and done.output.strip().endswith("ok")
    assert not list(tmp_path.glob("*.csv"))
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["studio", str(path), "--check", "--labels", str(tmp_path / "file" / "x.csv")])
    assert isinstance(done.exception, DataError) and "labels=" in str(done.exception)


def test_nothing_to_undo_is_not_a_mistake(tmp_path):
    """A tab may ask before it has heard of the last step, so it always asks."""
    with studio(word_graph(), tmp_path / "j.csv") as running:

        def changed(action):
            status, answer = running.act(action=action)
            return status, json.loads(answer.split(b"\r\n\r\n", 1)[1])["changed"]

        assert changed("undo") == changed("redo") == (200, 0)
        assert running.act(action="label", nodes=[1], new="a")[0] == 200
        assert [changed(one)[1] for one in ("redo", "undo", "undo", "redo")] == [0, 1, 0, 1]
        assert running.session.journal.board.labels == {1: 0}


# Machado, Oliveira, Fernandes 2009, severity 1, on linear light.
SIGHT = {
    "all cones": np.eye(3),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998]]),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881]]),
    "no blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
TO_LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
[0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
[0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_distinguished_and_close_ones_have_different_shapes(sight):
    values = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in COLOURS]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    lab = np.cbrt(np.clip(linear @ SIGHT[sight].T, 0, 1) @ TO_LMS.T) @ TO_LAB.T
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2) + np.eye(50)
    assert len(COLOURS) == len(SHAPES) == 50 and apart[:10, :10].min() > 0.06
    assert apart.min() > (0.05 if sight == "all cones" else 0.035)
    assert apart[np.equal.outer(SHAPES, SHAPES)].min() > 0.05
