"""The journal against a plain model of what was said: random actions, restarts, files that were cut off or edited by hand."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from naq import Graph
from naq.errors import DataError, OptionError
from naq.files import as_written, guarded
from naq_studio.board import NONE, Row
from naq_studio.journal import Journal
from naq_studio.lines import COLUMNS, import_rows, one_line

NAMES = ["plain", "=1+1", "a,b", '"quoted"', "line\nbreak", "<b>bold</b>", "'tis", "ünï 🦊", "  blanks  ", "x" * 500]


def graph(n: int = 12) -> Graph:
    names = [NAMES[i] if i < len(NAMES) else f"node {i}" for i in range(n)]
    return Graph(np.array([[0, 1, 2], [1, 2, 3]]), nodes=n, names=names, name="small")


@dataclass
class Plain:
    """The obvious model: whole copies of the state, and two stacks of them."""

    state: dict = field(
        default_factory=lambda: {"classes": {}, "labels": {}, "skipped": set(), "about": {}, "unknown": False}
    )
    done: list = field(default_factory=list)
    undone: list = field(default_factory=list)

    def step(self, rows: list[Row]) -> bool:
        """Whether it was possible."""
        if rows[0].action in ("undo", "redo"):
            source, target = (self.done, self.undone) if rows[0].action == "undo" else (self.undone, self.done)
            if not source:
                return False
            target.append(self.state)
            self.state = source.pop()
            return True
        new = copy.deepcopy(self.state)
        if not all(self._one(new, row) for row in rows):
            return False
        self.done.append(self.state)
        self.undone, self.state = [], new
        return True

    def _one(self, new: dict, row: Row) -> bool:
        classes, labels = new["classes"], new["labels"]
        if row.action == "label":
            classes.setdefault(row.label, None)
            labels[row.node] = row.label
            new["skipped"].discard(row.node)
        elif row.action in ("none", "unlabel"):
            labels.pop(row.node, None)
            if row.action == "none":
                labels[row.node] = None
            new["skipped"].discard(row.node)
        elif row.action == "skip":
            new["skipped"].add(row.node)
        elif row.action == "make":
            if row.label in classes:
                return False
            classes[row.label] = int(row.value) if row.value else None
        elif row.action == "unknown":
            new["unknown"] = row.value == "on"
        elif row.label not in classes:
            return False
        elif row.action == "recolour":
            classes[row.label] = int(row.value)
        elif row.action == "describe":
            new["about"][row.label] = " ".join(row.value.split())
        elif row.action == "rename":
            if row.value in classes and row.value != row.label:
                return False
            new["classes"] = {row.value if name == row.label else name: colour for name, colour in classes.items()}
            new["labels"] = {node: row.value if name == row.label else name for node, name in labels.items()}
            new["about"] = {row.value if name == row.label else name: text for name, text in new["about"].items()}
        elif row.action == "delete":
            del classes[row.label]
            new["about"].pop(row.label, None)
            new["labels"] = {node: name for node, name in labels.items() if name != row.label}
        else:
            if row.value not in classes or row.value == row.label:
                return False
            del classes[row.label]
            new["about"].pop(row.label, None)
            new["labels"] = {node: row.value if name == row.label else name for node, name in labels.items()}
        return True


def check_same(journal: Journal, plain: Plain) -> None:
    board, state = journal.board, plain.state
    assert {name for name, _ in board.classes.values()} == set(state["classes"])
    for name, colour in board.classes.values():
        assert state["classes"][name] in (None, colour)
    said = {node: None if number == NONE else board.name(number) for node, number in board.labels.items()}
    assert said == state["labels"]
    assert set(board.skipped) == state["skipped"]
    assert board.said().about == state["about"]
    assert board.unknown == state["unknown"]
    assert (len(board.done), len(board.undone)) == (len(plain.done), len(plain.undone))


def random_step(draw: random.Random, nodes: int) -> list[Row]:
    name = lambda: draw.choice(["a", "b", "=c", "d,e", "'f", "🦊"])  # noqa: E731
    action = draw.choices(
        [
            "label",
            "bulk",
            "none",
            "unlabel",
            "skip",
            "make",
            "rename",
            "merge",
            "recolour",
            "describe",
            "delete",
            "unknown",
            "undo",
            "redo",
        ],
        [20, 6, 4, 5, 4, 4, 4, 2, 3, 4, 2, 2, 14, 10],
    )[0]
    if action == "bulk":
        one = name()
        return [Row("label", node, one) for node in draw.sample(range(nodes), draw.randint(2, nodes))]
    if action in ("label", "none", "unlabel", "skip"):
        return [Row(action, draw.randrange(nodes), name() if action == "label" else "")]
    if action in ("undo", "redo"):
        return [Row(action)]
    if action == "unknown":
        return [Row(action, value=draw.choice(["on", "off"]))]
    value = (
        str(draw.randrange(50))
        if action in ("recolour", "make")
        else name()
        if action in ("rename", "merge")
        else draw.choice(["", "=1+1", 'said, "so": 🦊 '])
        if action == "describe"
        else ""
    )
    return [Row(action, label=name(), value=value)]


@pytest.mark.parametrize("seed", range(4))
def test_random_actions_restarts_and_cuts(tmp_path, seed):
    draw, small, plain = random.Random(seed), graph(), Plain()
    path = tmp_path / "small.studio.csv"
    journal = Journal(path, small)
    for _ in range(250):
        step = random_step(draw, small.num_nodes)
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
            if draw.random() < 0.5:  # a crash in the middle of a write: part of a step that nobody was told of
                whole = path.read_bytes()
                ghost = Journal(path, small)
                ghost.write([Row("label", node, "ghost") for node in range(draw.randint(1, 4))])
                ghost.close()
                path.write_bytes(path.read_bytes()[: draw.randrange(len(whole), path.stat().st_size - 1)])
            journal = Journal(path, small)
            check_same(journal, plain)
    journal.close()
    assert not Journal(path, small).problems


def test_cells_survive(tmp_path):
    for cell in [*NAMES, "'", "''", "=", "'=", "-1", "+", "@x"]:
        assert as_written(guarded(cell)) == cell
    small = graph()
    journal = Journal(tmp_path / "j.csv", small)
    for node in range(small.num_nodes):
        journal.write([Row("label", node, "=HYPERLINK(1)")])
    journal.close()
    lines = (tmp_path / "j.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + small.num_nodes
    assert all(",'=HYPERLINK(1)," in line for line in lines[1:])
    again = Journal(tmp_path / "j.csv", small)
    assert sorted(again.board.labels) == list(range(small.num_nodes)) and not again.problems


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
    journal.write([Row("label", 7, "a")])
    journal.close()
    again = Journal(path, small)
    assert len(again.board.labels) == 4 and len(again.problems) == 7


def test_semicolons_stay(tmp_path):
    small, path = graph(), tmp_path / "j.csv"
    path.write_text(";".join(COLUMNS) + "\n;;label;2;;a;;\n", encoding="utf-8")
    journal = Journal(path, small)
    journal.write([Row("label", 3, "x;y")])
    journal.close()
    assert set(Journal(path, small).board.labels) == {2, 3}


def test_a_step_with_a_damaged_line_keeps_the_others(tmp_path):
    small, path = graph(), tmp_path / "j.csv"
    journal = Journal(path, small)
    journal.write([Row("label", node, "a") for node in range(4)])
    journal.close()
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = "damaged"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    again = Journal(path, small)
    assert set(again.board.labels) == {0, 2, 3} and len(again.problems) == 1
    again.write([Row("undo")])
    assert not again.board.labels


def test_names_rescue_numbers(tmp_path):
    """The graph was imported again in another order: the name counts."""
    path = tmp_path / "j.csv"
    journal = Journal(path, graph())
    journal.write([Row("label", 11, "a")])
    journal.close()
    names = [f"node {i}" for i in range(12)][::-1]
    other = Graph(np.array([[0], [1]]), nodes=12, names=names, name="other")
    assert list(Journal(path, other).board.labels) == [0]


def test_one_at_a_time(tmp_path):
    journal = Journal(tmp_path / "j.csv", graph())
    with pytest.raises(DataError, match="another 'naq studio'"):
        Journal(tmp_path / "j.csv", graph())
    journal.close()
    Journal(tmp_path / "j.csv", graph()).close()


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="--labels"):
        Journal(tmp_path / "file" / "j.csv", graph())
    with pytest.raises(DataError, match="--labels"):
        Journal(tmp_path, graph())
    (tmp_path / "few.csv").write_text("node,class\nplain,a\n")
    with pytest.raises(DataError, match="imported in the page"):
        Journal(tmp_path / "few.csv", graph())
    assert (tmp_path / "few.csv").read_text() == "node,class\nplain,a\n"


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    import os

    journal = Journal(tmp_path / "j.csv", graph())
    journal.write([Row("label", 1, "a")])
    journal.write([Row("label", 2, "b")])
    journal.write([Row("undo")])
    before, said = (tmp_path / "j.csv").read_bytes(), dict(journal.board.labels)

    def full(*_):
        raise OSError(28, "No space left on device")

    for step in ([Row("label", 3, "c")], [Row("undo")], [Row("redo")]):
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(DataError, match="nothing was changed"):
                journal.write(step)
        assert (tmp_path / "j.csv").read_bytes() == before
        assert journal.board.labels == said
        assert (len(journal.board.done), len(journal.board.undone)) == (1, 1)
    journal.write([Row("redo")])
    journal.close()
    assert set(Journal(tmp_path / "j.csv", graph()).board.labels) == {1, 2}


def test_import_keeps_good_lines():
    rows, problems = import_rows(
        graph(), "\ufeffnode;class\r\nplain;a\r\n3;b\r\n77;b\r\n;x\r\n4;\r\nplain;a;z\r\n'=1+1;c\r\n"
    )
    assert [(row.node, row.label) for row in rows] == [(0, "a"), (3, "b"), (1, "c")]
    assert [problem.split(":")[0] for problem in problems] == ["line 4", "line 5", "line 7"]
    with pytest.raises(OptionError, match="node,class"):
        import_rows(graph(), "a,b\n1,2\n")


def test_names_in_one_line():
    assert one_line("a\nb\tc\x00") == "a b c"
    assert len(one_line("x" * 1_000_000)) == 201
    assert one_line("\ud800x") == "?x"


@pytest.mark.parametrize("text", ("Place,Kind\n{},x\n{},y\n", "\ufeffKind;Place\r\nx;{}\r\ny;{}\r\n"))
def test_imported_columns_may_have_other_names(text):
    rows, problems = import_rows(graph(), text.format("node 10", "node 11"))
    assert [(row.node, row.label) for row in rows] == [(10, "x"), (11, "y")] and problems == []
    with pytest.raises(OptionError, match="names no columns"):
        import_rows(graph(), "node 10,x\nnode 11,y\n")
