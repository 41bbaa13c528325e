"""The journal against a plain model: random actions, restarts, files that were cut off or edited by hand."""

from __future__ import annotations

import copy
import os
import random

import numpy as np
import pytest

from naq import Graph
from naq.errors import DataError, OptionError
from naq.files import escape_cell, unescape_cell
from naq_studio.board import NONE, Entry, one_line
from naq_studio.journal import COLUMNS, Journal
from naq_studio.requests import import_entries

NAMES = ["plain", "=1+1", "a,b", '"quoted"', "line\nbreak", "<b>bold</b>", "'tis", "ünï 🦊", "  blanks  ", "x" * 500]


def graph(names: list[str] | None = None) -> Graph:
    names = names or [*NAMES, "node 10", "node 11"]
    return Graph(np.array([[0, 1, 2], [1, 2, 3]]), nodes=12, names=names, name="small")


class Plain:
    """The obvious model: whole copies of the state, and two stacks of them."""

    def __init__(self) -> None:
        self.state: dict = {"classes": {}, "labels": {}, "skipped": set(), "kept": set(), "about": {}, "unknown": False}
        self.done: list = []
        self.undone: list = []

    def step(self, rows: list[Entry]) -> bool:
        """Whether it was possible."""
        if rows[0].action in ("undo", "redo"):
            source, target = (self.done, self.undone) if rows[0].action == "undo" else (self.undone, self.done)
            if source:
                target.append(self.state)
                self.state = source.pop()
                return True
            return False
        new = copy.deepcopy(self.state)
        if not all(self._one(new, row) for row in rows):
            return False
        self.done.append(self.state)
        self.undone, self.state = [], new
        return True

    def _one(self, new: dict, row: Entry) -> bool:
        classes, labels, about = new["classes"], new["labels"], new["about"]
        if row.action in ("label", "none", "unlabel"):
            labels.pop(row.node, None)
            new["skipped"].discard(row.node)
            new["kept"].discard(row.node)
            if row.action != "unlabel":
                labels[row.node] = row.label or None
            if row.label:
                classes.setdefault(row.label, None)
            return True
        if row.action == "skip":
            new["skipped"].add(row.node)
        elif row.action == "keep":
            new["kept"].add(row.node)
            return row.node in labels
        elif row.action == "unknown":
            new["unknown"] = row.value == "on"
        elif (row.label in classes) == (row.action == "make"):
            return False
        elif row.action in ("make", "recolour"):
            classes[row.label] = int(row.value) if row.value else None
        elif row.action == "describe":
            about[row.label] = " ".join(row.value.split())
        elif (row.action == "rename" and row.value in classes and row.value != row.label) or (
            row.action == "merge" and (row.value not in classes or row.value == row.label)
        ):
            return False
        else:
            colour, text, target = classes.pop(row.label), about.pop(row.label, None), row.value or None
            if row.action == "rename":
                classes[target] = colour
                about |= {} if text is None else {target: text}
            new["kept"] -= set() if row.action == "rename" else {n for n, one in labels.items() if one == row.label}
            moved = {node: target if name == row.label else name for node, name in labels.items()}
            new["labels"] = {n: c for n, c in moved.items() if target or labels[n] != row.label}
        return True


def check_same(journal: Journal, plain: Plain) -> None:
    board, state = journal.board, plain.state
    assert {name for name, _ in board.classes.values()} == set(state["classes"])
    assert all(state["classes"][name] in (None, colour) for name, colour in board.classes.values())
    said = {node: None if number == NONE else board.name(number) for node, number in board.labels.items()}
    assert (said, set(board.skipped), set(board.kept)) == (state["labels"], state["skipped"], state["kept"])
    assert (board.given_labels().about, board.unknown) == (state["about"], state["unknown"])
    assert (len(board.done), len(board.undone)) == (len(plain.done), len(plain.undone))


WEIGHTS = {"label": 20, "bulk": 6, "none": 4, "unlabel": 5, "skip": 4, "keep": 6, "make": 4, "rename": 4, "merge": 4,
           "recolour": 2,
           "describe": 3, "delete": 4, "unknown": 2, "undo": 14, "redo": 10}  # fmt: skip


def random_step(draw: random.Random) -> list[Entry]:
    def name() -> str:
        return draw.choice(["a", "b", "=c", "d,e", "'f", "🦊"])

    action = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if action == "bulk":
        one = name()
        return [Entry("label", node, one) for node in draw.sample(range(12), draw.randint(2, 12))]
    if action in ("label", "none", "unlabel", "skip", "keep"):
        return [Entry(action, draw.randrange(12), name() if action == "label" else "")]
    if action in ("undo", "redo"):
        return [Entry(action)]
    if action == "unknown":
        return [Entry(action, value=draw.choice(["on", "off"]))]
    value = {"describe": draw.choice(["", "=1+1", 'said, "so": 🦊 ']), "delete": ""}.get(action, name())
    return [Entry(action, label=name(), value=str(draw.randrange(50)) if action in ("recolour", "make") else value)]


@pytest.mark.parametrize("seed", range(4))
def test_random_actions_restarts_and_cuts(tmp_path, seed):
    draw, small, plain = random.Random(seed), graph(), Plain()
    path = tmp_path / "small.studio.csv"
    journal = Journal(path, small)
    for _ in range(250):
        step = random_step(draw)
        if plain.step(step):
            journal.write(step)
        else:
            before = path.read_bytes()
            with pytest.raises(OptionError):
                journal.write(step)
            assert path.read_bytes() == before
        check_same(journal, plain)
        if draw.random() < 0.1:
            journal.close()
            if draw.random() < 0.5:  # a crash in the middle of a write: part of a step that was not confirmed
                whole = path.read_bytes()
                ghost = Journal(path, small)
                ghost.write([Entry("label", node, "ghost") for node in range(draw.randint(1, 4))])
                ghost.close()
                path.write_bytes(path.read_bytes()[: draw.randrange(len(whole), path.stat().st_size - 1)])
            journal = Journal(path, small)
            check_same(journal, plain)
    journal.close()
    assert not Journal(path, small).problems


def test_cells_survive(tmp_path):
    assert all(unescape_cell(escape_cell(cell)) == cell for cell in [*NAMES, "'", "''", "=", "'=", "-1", "+", "@x"])
    journal = Journal(tmp_path / "j.csv", graph())
    for node in range(12):
        journal.write([Entry("label", node, "=HYPERLINK(1)")])
    journal.close()
    lines = (tmp_path / "j.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 13 and all(",'=HYPERLINK(1)," in line for line in lines[1:])
    again = Journal(tmp_path / "j.csv", graph())
    assert sorted(again.board.labels) == list(range(12)) and not again.problems
    assert [one_line(one) for one in ("a\nb\tc\x00", "\ud800x")] == ["a b c", "?x"]
    assert len(one_line("x" * 1_000_000)) == 201


def test_edited_by_hand(tmp_path):
    small, path = graph(), tmp_path / "j.csv"
    lines = [
        ",".join(COLUMNS),
        ",,label,,plain,a,,",  # by name, without step and time
        ",,label,3,,b,,",
        ",,label,99,,b,,",  # no such node
        "nonsense",
        ',,label,"4,,b,,',  # an open quote costs its own line only
        ",,dance,4,,b,,",
        ",,label,5,another name,b,,",
        ",,rename,,,c,d,",  # no such class
        "x,1,label,4,,b,,",
        ",,label,6,,b,,",
    ]
    path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    journal = Journal(path, small)
    names = {node: journal.board.name(number) for node, number in journal.board.labels.items()}
    assert names == {0: "a", 3: "b", 6: "b"}
    assert [int(one.split(":")[0].removeprefix("line ")) for one in journal.problems] == [4, 5, 6, 7, 8, 9, 10]
    journal.write([Entry("label", 7, "a")])
    journal.close()
    again = Journal(path, small)
    assert len(again.board.labels) == 4 and len(again.problems) == 7


def test_semicolons_stay(tmp_path):
    path = tmp_path / "j.csv"
    path.write_text(";".join(COLUMNS) + "\n;;label;2;;a;;\n", encoding="utf-8")
    journal = Journal(path, graph())
    journal.write([Entry("label", 3, "x;y")])
    journal.close()
    assert set(Journal(path, graph()).board.labels) == {2, 3}


def test_a_step_with_a_damaged_line_keeps_the_others(tmp_path):
    small, path = graph(), tmp_path / "j.csv"
    journal = Journal(path, small)
    journal.write([Entry("label", node, "a") for node in range(4)])
    journal.close()
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = "damaged"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    again = Journal(path, small)
    assert set(again.board.labels) == {0, 2, 3} and len(again.problems) == 1
    again.write([Entry("undo")])
    assert not again.board.labels


def test_names_count_where_the_graph_has_another_order(tmp_path):
    journal = Journal(tmp_path / "j.csv", graph())
    journal.write([Entry("label", 11, "a")])
    journal.close()
    assert list(Journal(tmp_path / "j.csv", graph([f"node {i}" for i in range(12)][::-1])).board.labels) == [0]


def test_one_at_a_time_and_only_where_it_can_be_written(tmp_path):
    journal = Journal(tmp_path / "j.csv", graph())
    (tmp_path / "few.csv").write_text("node,class\nplain,a\n")
    for path, what in (("j.csv", "another"), ("few.csv/j.csv", "labels"), (".", "labels"), ("few.csv", "columns")):
        with pytest.raises(DataError, match=what):
            Journal(tmp_path / path, graph())
    journal.close()
    Journal(tmp_path / "j.csv", graph()).close()
    assert (tmp_path / "few.csv").read_text() == "node,class\nplain,a\n"


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "j.csv", graph())
    for step in (Entry("label", 1, "a"), Entry("label", 2, "b"), Entry("undo")):
        journal.write([step])
    before, said = (tmp_path / "j.csv").read_bytes(), dict(journal.board.labels)

    def full(*_):
        raise OSError(28, "No space left on device")

    for step in (Entry("label", 3, "c"), Entry("undo"), Entry("redo")):
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(DataError, match="space"):
                journal.write([step])
        assert (tmp_path / "j.csv").read_bytes() == before and journal.board.labels == said
        assert (len(journal.board.done), len(journal.board.undone)) == (1, 1)
    journal.write([Entry("redo")])
    journal.close()
    assert set(Journal(tmp_path / "j.csv", graph()).board.labels) == {1, 2}


@pytest.mark.parametrize("titles", ("node;class", "Place;Kind"))
def test_imported_tables_keep_lines_of_known_nodes(titles):
    text = f"\ufeff{titles}\r\nnode 10;a\r\nnode 11;b\r\nnode 99;b\r\nplain;a\r\n4;\r\nplain;{'x' * 81}\r\n'=1+1;c\r\n"
    rows, problems = import_entries(graph(), text)
    assert [(row.node, row.label) for row in rows] == [(10, "a"), (11, "b"), (0, "a"), (1, "c")]
    assert [one.split(":")[0] for one in problems if one.startswith("line")] == ["line 4", "line 7"]


@pytest.mark.parametrize(
    "text", ("a,b\n1,2\n", "node 10,x\nnode 11,y\n", "", "node,class\nplain,a,z\n", "node,class\n,x\n")
)
def test_tables_that_cannot_be_imported(text):
    with pytest.raises(DataError, match="table"):
        import_entries(graph(), text)
