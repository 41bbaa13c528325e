"""Graphs and folders that are not as one would like them."""

from __future__ import annotations

import ast
import csv
import io
import json
import socket
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from naq import Graph
from naq.cli.main import app
from naq.errors import DataError, NaqError, OptionError
from naq.io.npz import save_graph
from naq_studio.board import NONE, Row
from naq_studio.cache import cache_root, read_layout, write_layout
from naq_studio.card import card
from naq_studio.layouts import first_layout, pacmap_layout
from naq_studio.search import nodes_with_word, search
from naq_studio.server import bound_socket, journal_path, serve
from naq_studio.session import Session
from studio_under_test import settled, studio, word_graph


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "cache"))


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
    edges = np.empty((2, 0), dtype=int) if kind in ("no edges", "one node") else random.integers(0, n, (2, 4 * n))
    features = (
        None
        if kind in ("no features", "one node")
        else random.standard_normal((n, 6))
        if kind == "dense"
        else sp.csr_array((random.random((n, 40)) < 0.09).astype(float))
    )
    graph = Graph(edges, features, nodes=n, name=kind)
    session = Session(graph, tmp_path / "j.csv")
    session.start()
    try:
        session.write([Row("label", 0, "a")])
        if n > 1:
            session.write([Row("label", 1, "b")])
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
    first.write([Row("label", 0, "a"), Row("label", 1, "b")])
    first.write([Row("label", 3, "a")])
    settled(first)
    end = time.monotonic() + 900
    while not first.queue and time.monotonic() < end:
        time.sleep(0.05)
    places, answer, queue = first.model.layouts, first.answer, first.queue
    assert answer is not None and not {0, 1, 3} & set(queue) and len(queue) == len(set(queue)) > 5
    first.stop()
    again = Session(graph, tmp_path / "j.csv")
    again.start()
    settled(again)
    for name in ("pca", "pacmap"):
        np.testing.assert_array_equal(places[name], again.model.layouts[name])
    assert again.answer is not None
    np.testing.assert_allclose(answer.chances, again.answer.chances, atol=1e-5)
    while len(again.curve) < 2 and time.monotonic() < end + 900:
        time.sleep(0.05)
    assert [point[:2] for point in again.curve] == [(1, 2), (2, 3)]  # computed again from the journal
    again.stop()


def test_predictions_are_those_of_the_classifier(tmp_path, in_process):
    from naq import FewShotNodeClassifier

    graph = word_graph()
    session = Session(graph, tmp_path / "j.csv")
    session.start()
    said = {0: "fruit", 3: "fruit", 1: "rock", 4: "rock", 2: "water"}
    session.write([Row("label", node, name) for node, name in said.items()])
    session.write([Row("none", 5)])
    settled(session)
    classifier = FewShotNodeClassifier().fit(graph, said)
    chances = classifier.predict_proba()
    found = session.answer
    assert found is not None
    order = [["fruit", "rock", "water"].index(session.journal.board.name(int(one))) for one in found.ids]
    np.testing.assert_allclose(found.chances, chances[:, order], atol=1e-4)
    assert found.expected is not None and abs(found.expected.value - classifier.expected_accuracy().value) < 1e-3
    facts = card(session, 6)
    near = classifier.vectors_ - classifier.vectors_.mean(axis=0)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    assert facts["prediction"]["speaker"] == max((0, 3), key=lambda node: near[6] @ near[node])
    assert facts["similar"][0][0] == max((n for n in range(120) if n != 6), key=lambda node: near[6] @ near[node])
    assert facts["given"] is None and session.journal.board.labels[5] == NONE
    # nodes may belong to none of the classes
    session.write([Row("unknown", value="on")])
    settled(session)
    wanted = FewShotNodeClassifier(unknown=True).fit(graph).predict(said)
    assert session.answer is not None
    assert ((session.answer.chosen == -2) == np.array([one is None for one in wanted])).mean() > 0.97
    session.stop()


def test_a_failure_to_learn_is_told(tmp_path, monkeypatch, in_process):
    from naq_studio import model

    monkeypatch.setattr(model, "METHOD", "no-such-method")
    session = Session(word_graph(), tmp_path / "j.csv")
    session.start()
    settled(session)
    state = session.state()
    assert state["phase"] == "failed" and "no-such-method" in state["failure"]
    session.write([Row("label", 0, "a")])
    assert session.state()["labels"] == 1
    session.stop()


def test_words_find_their_nodes():
    graph = word_graph()
    dense = graph.features.toarray()
    for word in range(0, 30, 7):
        assert nodes_with_word(graph, word) == np.flatnonzero(dense[:, word]).tolist()


def test_layouts_are_the_same_twice_and_within_the_square():
    graph = word_graph(200)
    for make in (
        lambda: first_layout(graph),
        lambda: pacmap_layout(np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)),
    ):
        one, two = make(), make()
        np.testing.assert_array_equal(one, two)
        assert one.dtype == np.float32 and np.abs(one).max() <= 1.1 and np.ptp(one, axis=0).min() > 1
    assert np.isfinite(pacmap_layout(np.ones((40, 3), np.float32))).all()


def test_damaged_caches_are_made_anew(tmp_path):
    write_layout(tmp_path, "pca", np.zeros((3, 2), np.float32))
    assert read_layout(tmp_path, "pca", 3) is not None
    assert read_layout(tmp_path, "pca", 4) is None
    (tmp_path / "pca.npz").write_bytes(b"damaged")
    assert read_layout(tmp_path, "pca", 3) is None


def test_the_cache_is_where_neighbours_are_kept(monkeypatch):
    from naq.files import cache_folder

    for settings in (
        {"NAQ_CACHE": "/x"},
        {"NAQ_CACHE": "", "XDG_CACHE_HOME": "/y"},
        {"NAQ_CACHE": "", "XDG_CACHE_HOME": ""},
    ):
        for key, value in settings.items():
            monkeypatch.setenv(key, value)
        assert cache_root() == cache_folder()


def test_labels_lie_beside_the_graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = word_graph()
    assert journal_path(graph) == tmp_path / "groups.studio.csv"
    assert (
        journal_path(graph.with_source(str(tmp_path / "data" / "my.graph.npz"))) == tmp_path / "data" / "my.studio.csv"
    )
    assert journal_path(graph.with_source("debian"), tmp_path / "x.csv") == tmp_path / "x.csv"


def test_a_port_in_use_gives_the_next(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said: list[str] = []
        serve(word_graph(12), port=port, check=True, say=said.append)
        assert said[0].startswith(f"Port {port} is in use; using ") and said[-1].endswith(": ok")
    for bad in (-1, 70_000):
        with pytest.raises(OptionError, match="port"):
            bound_socket(bad)


def test_check_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save_graph(tmp_path / "g.npz", word_graph(12))
    done = CliRunner().invoke(app, ["studio", str(path), "--check", "--port", "0"])
    assert done.exit_code == 0 and done.output.strip().endswith("ok")
    assert not list(tmp_path.glob("*.csv"))
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["studio", str(path), "--check", "--labels", str(tmp_path / "file" / "x.csv")])
    assert isinstance(done.exception, DataError) and "--labels" in str(done.exception)


def test_the_code_repeats_the_predictions(tmp_path, monkeypatch, in_process):
    monkeypatch.chdir(tmp_path)
    graph = word_graph().with_source(str(save_graph(tmp_path / "g.npz", word_graph())))
    session = Session(graph, tmp_path / "j.csv")
    session.start()
    session.write([Row("label", node, ("fruit", 'it\'s "rock"', "\\water")[node % 3]) for node in range(6)])
    settled(session)
    from naq_studio.exports import code, labels_csv, predictions_csv

    table = predictions_csv(session)
    exec(compile(code(session), "repeat.py", "exec"), {})
    again = (tmp_path / "predictions.csv").read_text(encoding="utf-8")
    ours, theirs = ([line.split(",")[:2] for line in text.splitlines()] for text in (table, again))
    assert ours == theirs
    from naq.classifier import read_labels

    (tmp_path / "few.csv").write_text(labels_csv(session), encoding="utf-8")
    assert read_labels(tmp_path / "few.csv", graph).nodes.tolist() == list(range(6))
    session.stop()
    with pytest.raises(NaqError, match="two classes"):
        empty = Session(graph, tmp_path / "k.csv")
        empty.model.classifier = session.model.classifier
        try:
            predictions_csv(empty)
        finally:
            empty.journal.close()


HOSTILE = (
    '""";import os;os.abort();"""',
    "''';boom('",
    "a\\",
    "\\'+boom()+'",
    "\n\rboom()\n",
    "{boom()}",
    "%s#\udc80\u2028\x00",
    "</script><b>",
    "=1+1",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_code_in_what_is_exported(tmp_path, name):
    from naq_studio.exports import code, labels_csv

    plain, names = word_graph(30), [f"{one}{number}" for number, one in enumerate((HOSTILE * 4)[:30])]
    graph = Graph(plain.adjacency, plain.features, names=names, vocab=plain.vocab, name=name)
    session = Session(graph.with_source(f"/g/{name}"), tmp_path / "j.csv", columns={"nodes": "/n/" + name})
    session.write([Row("label", node, "one") for node in range(9)] + [Row("label", 9, "=<b>2")])
    tree = ast.parse(code(session).encode("utf-8", "replace"))
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert words == {"naq", "graph", "labels", "classifier", "write_predictions", "print"}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert {f"/g/{name}", f"/n/{name}", "one", "=<b>2"} <= texts
    assert not any(cell.startswith("=") for row in csv.reader(io.StringIO(labels_csv(session))) for cell in row)
    session.stop()


def test_nothing_to_undo_is_no_mistake(tmp_path):
    """A tab may ask before it has heard of the last step, so it always asks."""
    with studio(word_graph(), tmp_path / "j.csv") as running:

        def changed(action):
            status, answer = running.act(action=action)
            return status, json.loads(answer.split(b"\r\n\r\n", 1)[1])["changed"]

        assert changed("undo") == changed("redo") == (200, 0)
        assert running.act(action="label", nodes=[1], new="a")[0] == 200
        assert (changed("redo"), changed("undo"), changed("undo"), changed("redo")) == (
            (200, 0),
            (200, 1),
            (200, 0),
            (200, 1),
        )
        assert running.session.journal.board.labels == {1: 0}


def test_a_prediction_that_fails_is_told_and_the_next_one_is_made(tmp_path, monkeypatch):
    from naq_studio import answers

    made, predicted = answers.answer, threading.Event()

    def short_of_memory(*given):
        predicted.set()
        raise MemoryError("no room")

    monkeypatch.setattr(answers, "answer", short_of_memory)
    with studio(word_graph(), tmp_path / "j.csv", learn=True) as running:

        def settled():
            state = running.get("/api/state")
            return state if state["learned"] and not state["pending"] and state["phase"] == "ready" else None

        def state_when(ready):
            end = time.monotonic() + 300
            while not ((state := settled()) and ready(state)):
                assert time.monotonic() < end, state
                time.sleep(0.02)
            return state

        running.act(action="label", nodes=[0], new="a")
        running.act(action="label", nodes=[1], new="b")
        state = state_when(lambda one: predicted.is_set() and one["failure"])
        assert state["failure"] == "The last prediction failed (MemoryError: no room)." and state["answer"] is None
        monkeypatch.setattr(answers, "answer", made)
        running.act(action="label", nodes=[3], **{"class": 0})
        state = state_when(lambda one: one["answer"] == one["version"])
        assert state["failure"] == "" and state["labels"] == 3
