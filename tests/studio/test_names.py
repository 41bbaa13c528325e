"""Names of classes before the first label, the text and the raw values on the card, and the spot check."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import naq
from naq.errors import MissingDependency, OptionError
from naq_studio import exports, requests
from naq_studio.board import Entry
from naq_studio.card import card, search
from naq_studio.session import Session
from studio_under_test import settled, studio, text_graph, word_graph


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch, in_process):
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def session(tmp_path):
    one = Session(text_graph(), tmp_path / "j.csv")
    one.start()
    yield one
    one.stop()


def do(session: Session, **asked) -> None:
    requests.check_names(session, asked)
    session.write(requests.entries_of(session, asked))


def shares(session: Session, names: list[str]) -> list[float]:
    """Of the nodes of each group, the share that has the class of that name."""
    settled(session)
    assert session.answer is not None
    numbers = session.given_labels().numbers
    return [float((session.answer.chosen[place::3] == numbers[name]).mean()) for place, name in enumerate(names)]


def test_names_colour_the_map_and_come_back(session, tmp_path):
    do(session, action="expect", text="\n fruit \nrock: \n\nwater")
    assert min(shares(session, ["fruit", "rock", "water"])) > 0.8
    said, state = session.answer, session.state()
    assert said.expected is not None and state["expected"]["low"] < said.expected.value and state["labels"] == 0
    assert state["notes"] and state["curve"][0][0] == 0
    assert "classes={'fruit': ''" in exports.code(session) and exports.predictions_csv(session).count("rock") > 20
    # a label beside them, of a class that has no name: the others keep theirs
    do(session, action="label", nodes=[0], new="other")
    assert min(shares(session, ["fruit", "rock", "water"])[1:]) > 0.8 and len(session.answer.ids) == 4
    session.write([Entry("undo")])
    # renaming moves the expert: nodes go to where the new name says
    do(session, action="delete", **{"class": session.given_labels().numbers["water"]})
    before = shares(session, ["fruit", "rock", "rock"])
    do(session, action="rename", **{"class": session.given_labels().numbers["rock"]}, name="water")
    after = shares(session, ["fruit", "fruit", "water"])
    assert before[1] > 0.8 and after[2] > 0.8
    # kept in the journal: a restart has them, and undo takes them back
    again = Session(text_graph(), Path(shutil.copy(tmp_path / "j.csv", tmp_path / "k.csv")))
    assert again.given_labels().about == {"fruit": "", "water": ""} and not again.journal.problems
    for _ in range(3):
        again.write([Entry("undo")])
    assert again.given_labels().about == {} and again.given_labels().numbers == {}
    again.journal.close()


def test_other_names_need_the_extra_and_say_so(session, monkeypatch):
    read = []

    def encode(texts, model):
        read.extend(texts)
        if not able:
            raise MissingDependency('needs sentence-transformers: pip install "naq[text]".')
        return np.eye(3, 8, dtype=np.float32)[[0 if "apple" in text else 1 for text in texts]]

    monkeypatch.setattr("naq.text.encode", encode)
    able = False
    with pytest.raises(MissingDependency, match="pip install"):
        do(session, action="expect", text="apples: apple and pear\nrock")
    assert session.given_labels().numbers == {}
    do(session, action="expect", text="fruit\nrock\nwater", dry=True)
    assert session.given_labels().numbers == {} and not read[2:]
    monkeypatch.setattr("naq_studio.requests.find_spec", lambda name: True)
    do(session, action="expect", text="apples\nrock", dry=True)  # the model would be downloaded: not while typing
    assert not read[2:]
    monkeypatch.setattr("naq_studio.requests.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install"):
        do(session, action="expect", text="apples\nrock", dry=True)
    able = True
    do(session, action="expect", text="apples: apple and pear\nrock")
    assert min(shares(session, ["apples", "rock"])) > 0.8 and "apples: apple and pear" in read
    able = False  # as after a start without the extra: what the file brings still counts, and the reason is told
    do(session, action="rename", **{"class": session.given_labels().numbers["apples"]}, name="pears")
    settled(session)
    assert session.answer is None and "pip install" in session.state()["failure"]
    session.write([Entry("make", label="fruit"), Entry("describe", label="fruit")])
    settled(session)
    assert len(session.answer.ids) == 2 and any("pip install" in note for note in session.state()["notes"])


REFUSED = ("", "one", "1\n2", "a\na", ": x\nb", "a" * 81 + "\nb", "a: " + "b" * 301 + "\nc", 7, None,
           "\n".join(f"class {i}" for i in range(501)))  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_names_that_are_refused(tmp_path, text, monkeypatch):
    monkeypatch.setattr("naq.text.encode", lambda texts, model: np.ones((len(texts), 8), np.float32))
    session = Session(text_graph(30), tmp_path / "j.csv")
    with pytest.raises(OptionError, match=r"class|name|text"):
        do(session, action="expect", text=text)
    assert not session.journal.board.classes
    session.journal.close()


def test_without_text_names_are_refused_and_those_of_a_journal_do_not_count(tmp_path):
    session = Session(text_graph(30), tmp_path / "j.csv")
    do(session, action="expect", text="fruit\nrock")
    session.journal.close()
    with studio(word_graph(30), tmp_path / "j.csv") as running:
        assert running.get("/api/state")["graph"]["text"] is False
        assert running.session.given_labels().about == {"fruit": "", "rock": ""}
        status, answer = running.act(action="expect", text="fruit\nrock")
        assert status == 409 and b"text" in answer


def test_the_card_shows_what_the_table_holds(session):
    do(session, action="expect", text="fruit\nrock\nwater")
    settled(session)
    graph, vocab = session.graph, session.graph.vocab.tolist()
    assert search(session, "id7")["nodes"][0] == 7 and search(session, "stone 4")["nodes"][0] == 4
    assert session.names()[4] == "stone 4" and session.state()["graph"]["named"]
    told = 0
    for node in range(0, 120, 7):
        facts = card(session, node)
        row = graph.table.row(node)
        assert facts["name"] == row["title"] and facts["id"] == f"id{node}"
        assert "".join(piece for piece, _ in facts["text"]) == row["words"]
        assert dict(facts["columns"]) == {name: row[name] for name in ("size", "kind", "note")}
        kind = ("fruit", "rock", "water")[facts["prediction"]["class"]]
        marked = [piece.lower() for piece, speaks in facts["text"] if speaks]
        told += len(marked)
        speaking = [one["word"] for one in facts["words"] if one["for"] > 0.15]
        assert set(marked) <= set(speaking) and "the" not in speaking  # which every node has
        assert sum(one.startswith(kind) for one in marked) >= 0.7 * len(marked)
        assert all(vocab[one["id"]] == one["word"] for one in facts["words"])
        shown = {one["name"]: one["value"] for one in facts["features"]}
        assert shown == {"size": row["size"]}  # as it was, not standardised
        absent = "kind=small" if row["kind"] == "big" else "kind=big"
        assert absent not in {one["word"] for one in facts["words"]}
    assert told > 20


def test_numbers_without_their_table_are_not_shown_standardised(tmp_path):
    graph = text_graph()
    dense = graph.with_features(np.asarray(graph.features.todense())[:, 31:] + [[0, 0, 0]], None).with_table(None)
    session = Session(dense, tmp_path / "j.csv")
    found = [{one["name"]: one["value"] for one in card(session, node)["features"]} for node in range(40)]
    for node, values in enumerate(found):
        assert values["feature 0"] == "" and all(value == "" for value in values.values())
        assert ("feature 1" in values) == (graph.table.cell(node, 3) == "big")
    session.journal.close()


def test_a_later_date_is_above_the_mean(tmp_path):
    """Its feature is the age, so the newest date is the lowest number."""
    nodes = {"id": list("abcde"), "founded": [f"{year}-05-01" for year in (2020, 1990, 2001, 2010, 1995)]}
    graph = naq.from_tables({"source": list("abcd"), "target": list("bcde")}, nodes | {"size": [1, 2, 3, 4, 9]})
    session = Session(graph, tmp_path / "j.csv")
    shown = [{one["name"]: (one["value"], one["apart"]) for one in card(session, node)["features"]} for node in (0, 1)]
    session.journal.close()
    assert shown[0]["founded"][0] == "2020-05-01" and shown[0]["founded"][1] > 1 > -1 > shown[1]["founded"][1]
    assert shown[0]["size"][1] < 0


def test_sure_predictions_become_labels_after_a_spot_check(tmp_path):
    def ask(**asked):
        status, answer = running.request("POST", "/api/check", body=json.dumps(asked).encode())
        return status, json.loads(answer.split(b"\r\n\r\n", 1)[1])

    with studio(text_graph(), tmp_path / "j.csv", learn=True) as running:
        session = running.session
        assert ask(above=0.5)[0] == 409  # no prediction yet
        assert running.act(action="expect", text="fruit\nrock\nwater")[0] == 200
        settled(session)
        board, found = session.journal.board, session.answer
        sure = set(np.flatnonzero(found.sure >= 0.5).tolist())
        assert running.act(action="accept", above=0.5)[0] == 409 and not board.labels
        for asked in ({"right": [True] * 10}, {"check": "x", "right": [True] * 10}):
            assert ask(**asked)[0] == 409
        status, drawn = ask(above=0.5)
        nodes = [one["node"] for one in drawn["nodes"]]
        assert status == 200 and drawn["count"] == len(sure) and len(set(nodes)) == 10 and set(nodes) <= sure
        assert all(one["class"] == found.chosen[one["node"]] and one["text"] for one in drawn["nodes"])
        token = drawn["check"]
        for right in (None, True, [True] * 9, [True] * 11, [1] * 10, ["yes"] * 10):
            assert ask(check=token, right=right)[0] == 409
        assert ask(check="x" + token, right=[True] * 10)[0] == 409 and not board.labels
        # seven of ten: refused, and neither the token nor another draw helps before there is a new label
        status, answer = ask(check=token, right=[True] * 7 + [False] * 3)
        assert status == 409 and "7 of 10" in answer["error"] and not board.labels
        assert ask(check=token, right=[True] * 10)[0] == 409 and ask(above=0.5)[0] == 409 and not board.labels
        running.act(action="label", nodes=[nodes[9]], **{"class": nodes[9] % 3})
        settled(session)
        drawn = ask(above=0.5)[1]
        stale = drawn["check"]
        running.act(action="label", nodes=[nodes[8]], **{"class": nodes[8] % 3})
        assert ask(check=stale, right=[True] * 10)[0] == 409  # labels have changed since
        settled(session)
        drawn = ask(above=0.5)[1]
        wrong = drawn["nodes"][3]["node"]
        status, answer = ask(check=drawn["check"], right=[place != 3 for place in range(10)])
        assert status == 200 and "9 of 10" in answer["said"] and answer["changed"] == drawn["count"] - 1
        assert len(board.labels) == drawn["count"] + 1 and wrong not in board.labels
        running.act(action="undo")
        assert len(board.labels) == 2
        settled(session)
        assert ask(above=1.5)[0] == 409 and ask(above=True)[0] == 409
