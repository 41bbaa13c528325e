"""What the page asks for, checked, as entries of the journal."""

from __future__ import annotations

import secrets
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import DataError, OptionError, plain
from naq.graph import Graph
from naq.text import location
from naq_studio.answers import SpotCheck
from naq_studio.board import LONGEST_ABOUT, NONE, ON_CLASSES, ON_NODES, Board, Entry, clean_line, clean_name, one_line
from naq_studio.columns import LONGEST_SHOWN
from naq_studio.journal import MOST_PROBLEMS
from naq_studio.session import Session

MOST_CELLS = 10_000
DRAWN, RIGHT = 10, 8
"""Predictions that are looked at before all like them become labels, and how many of these must be right."""


def entries_of(session: Session, asked: dict[str, Any]) -> list[Entry]:
    """The entries of one step; none if nothing would change. Call it with the session's lock held."""
    action = asked.get("action")
    if not isinstance(action, str):
        raise OptionError("expected an object with an action.")
    if action in ("undo", "redo"):
        board = session.journal.board
        return [Entry(action)] if (board.done if action == "undo" else board.undone) else []
    if action in ON_NODES:
        return _on_nodes(session, action, asked)
    if action == "expect":
        return _expect(session, asked)
    if action == "make":
        return [Entry("make", label=_text(asked, "name"), value=_colour(asked))]
    if action == "unknown":
        return [Entry("unknown", value=_text(asked, "value"))]
    if action not in ON_CLASSES:
        raise OptionError(f"action is {action[:40]!r}, which is unknown.")
    board, value = session.journal.board, ""
    name = board.name(_number(asked, "class"))
    if action == "merge":
        value = board.name(_number(asked, "into"))
    elif action == "recolour":
        value = _colour(asked)
    elif action != "delete":
        value = _text(asked, "name" if action == "rename" else "value")
    return [Entry(action, label=name, value=value)]


def _on_nodes(session: Session, action: str, asked: dict[str, Any]) -> list[Entry]:
    board, nodes = session.journal.board, _nodes(session, asked)
    if action == "label" and "new" in asked:
        name = _text(asked, "new")
        made = [] if name in {one for one, _ in board.classes.values()} else [Entry("make", label=name)]
        return made + [Entry("label", node, name) for node in nodes]
    if action == "label":
        number = _number(asked, "class")
        name = board.name(number)
        return [Entry("label", node, name) for node in nodes if board.labels.get(node) != number]
    if action == "none":
        return [Entry("none", node) for node in nodes if board.labels.get(node) != NONE]
    if action == "unlabel":
        return [Entry("unlabel", node) for node in nodes if node in board.labels]
    if action == "keep":
        return [Entry("keep", node) for node in nodes if node in board.labels and node not in board.kept]
    return [Entry("skip", node) for node in nodes if node not in board.labels and node not in board.skipped]


def check_names(session: Session, asked: dict[str, Any]) -> None:
    """Raise where names of classes cannot be read; it may load a model, so call it without the session's lock."""
    from naq.classifier.names import class_texts

    if asked.get("action") not in ("expect", "describe"):
        return
    if (text := session.graph.text) is None:
        raise OptionError("the graph has no text vectors, so names of classes say nothing about its nodes.")
    if asked["action"] == "expect":
        more = _expected(asked)
    else:
        more = {session.journal.board.name(_number(asked, "class")): _text(asked, "value")}
    about = session.given_labels().about | more
    names = class_texts(about)[1] if len(about) > 1 or asked["action"] == "expect" else []
    if asked.get("dry") and find_spec("sentence_transformers") and isinstance(location(text.model), str):
        return  # someone is still typing: nothing is downloaded for that
    if names:
        text.class_vectors(names)


def _expected(asked: dict[str, Any]) -> dict[str, str]:
    """Names of classes, one per line, and what they are about behind a colon."""
    text, found = asked.get("text"), dict[str, str]()
    if not isinstance(text, str):
        raise OptionError("text is not a list of names.")
    for line in filter(str.strip, text.splitlines()):
        name, _, more = line.partition(":")
        if (name := clean_name(name)) in found:
            raise OptionError(f"the class {name!r} is named twice; name every class once.")
        found[name] = clean_line(more, LONGEST_ABOUT, "description")
    return found


def _expect(session: Session, asked: dict[str, Any]) -> list[Entry]:
    given, rows = session.given_labels(), list[Entry]()
    if asked.get("dry"):  # someone is still typing
        return rows
    for name, about in _expected(asked).items():
        rows += [] if name in given.numbers else [Entry("make", label=name)]
        rows += [] if given.about.get(name) == about else [Entry("describe", label=name, value=about)]
    return rows


def import_entries(graph: Graph, text: str) -> tuple[list[Entry], list[str]]:
    """Labels from a table as ``naq predict --labels`` reads it, and a sentence for every line that cannot be used."""
    from naq.classifier.labels import find_node, node_number, read_label_rows

    with tempfile.TemporaryDirectory(prefix="naq-studio-") as folder:
        path = Path(folder) / "table.csv"
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
        try:
            pairs, places, problems = read_label_rows(path, graph)
        except DataError as error:
            raise DataError(str(error).replace(str(path), "the table")) from error
    rows, scratch = list[Entry](), Board()
    for (node, label), place in zip(pairs, places):
        if len(problems) >= MOST_PROBLEMS and node_number(graph, node) is None:
            continue  # the likeliest name takes long to find
        try:
            row = Entry("label", find_node(graph, node), label)
            scratch.step([row])
            rows.append(row)
        except OptionError as error:
            problems.append(f"{place.rpartition(', ')[2]}: {str(error).rstrip('.')}.")
    return rows, [plain(one) for one in problems[:MOST_PROBLEMS]]


def draw_check(session: Session, asked: dict[str, Any]) -> dict[str, Any]:
    """Predictions of at least a probability, and a few of them at random to look at."""
    above = asked.get("above")
    if isinstance(above, bool) or not isinstance(above, int | float) or not 0 < above <= 1:
        raise OptionError("above is not a probability; expected a number above 0 and at most 1.")
    found, board = session.answer, session.journal.board
    if found is None or found.version != session.version:
        raise OptionError("there is no prediction for the present labels yet; wait a moment and try again.")
    if session.refused == session.version:
        raise OptionError(
            "too many of the last ones were wrong; label some of them first, which changes the others too."
        )
    wanted = (found.sure >= above) & (found.chosen >= 0)
    wanted[list(board.labels)] = False
    if not len(nodes := np.flatnonzero(wanted)):
        raise OptionError("no prediction is that sure; lower the probability.")
    drawn = np.random.default_rng().choice(nodes, min(DRAWN, len(nodes)), replace=False).tolist()
    session.spot = spot = SpotCheck(secrets.token_hex(8), session.version, nodes, drawn)
    graph = session.graph
    shown = []
    for node in drawn:
        name, text = graph.title_of(node)[:200], graph.text_of(node)[:600]
        shown.append({"node": node, "name": name, "text": text, "class": int(found.chosen[node])})
    return {"check": spot.token, "count": len(nodes), "nodes": shown}


def accept_check(session: Session, asked: dict[str, Any]) -> tuple[list[Entry], str]:
    """The predictions of a spot check as labels, without those found wrong, and what share of it was right."""
    spot, right = session.spot, asked.get("right")
    if spot is None or session.answer is None or asked.get("check") != spot.token or spot.version != session.version:
        raise OptionError("labels have changed since these were drawn; look at others that are drawn now.")
    if not isinstance(right, list) or len(right) != len(spot.drawn) or not all(isinstance(one, bool) for one in right):
        raise OptionError(f"right is not a list of {len(spot.drawn)} answers; say of every one whether it is right.")
    session.spot = None
    share = f"{sum(right)} of {len(right)} were right"
    if sum(right) * DRAWN < RIGHT * len(right):
        session.refused = session.version
        raise OptionError(
            f"{share}, too few to accept all: label the wrong ones, which changes the others too, and try again."
        )
    wrong = {node for node, good in zip(spot.drawn, right) if not good}
    name, chosen = session.journal.board.name, session.answer.chosen
    rows = [Entry("label", node, name(int(chosen[node]))) for node in spot.nodes.tolist() if node not in wrong]
    return rows, f"{share}; {len(rows):,} predictions became labels, and Undo takes them back."


def shown_cells(session: Session, asked: dict[str, Any]) -> list[list[str]]:
    """The cells of some columns for some nodes, each cut to one line that fits a table."""
    nodes, columns, count = _nodes(session, asked), asked.get("columns"), len(session.columns.titles)
    if not isinstance(columns, list) or len(columns) * len(nodes) > MOST_CELLS:
        raise OptionError(f"columns is not a list of columns, or of more than {MOST_CELLS:,} cells.")
    if any(isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < count for one in columns):
        raise OptionError(f"columns holds something else than numbers from 0 to {count - 1}.")
    return [[one_line(session.columns.cell(column, node), LONGEST_SHOWN) for column in columns] for node in nodes]


def box_of(text: str) -> tuple[float, float, float, float]:
    """Four numbers, x0,y0,x1,y1."""
    try:
        x0, y0, x1, y1 = map(float, text.split(","))
    except ValueError as error:
        raise OptionError("box is not four numbers.") from error
    return x0, y0, x1, y1


def _nodes(session: Session, asked: dict[str, Any]) -> list[int]:
    nodes, n = asked.get("nodes"), session.graph.num_nodes
    if not isinstance(nodes, list) or not nodes or len(nodes) > n:
        raise OptionError("nodes is not a list of nodes of this graph.")
    if any(isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < n for node in nodes):
        raise OptionError(f"nodes holds something else than numbers from 0 to {n - 1}.")
    return list(dict.fromkeys(nodes))


def _number(asked: dict[str, Any], key: str) -> int:
    value = asked.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{key} is not a number.")
    return value


def _colour(asked: dict[str, Any]) -> str:
    return "" if asked.get("colour") is None else str(_number(asked, "colour"))


def _text(asked: dict[str, Any], key: str) -> str:
    value = asked.get(key)
    if not isinstance(value, str) or len(value) > 1_000:
        raise OptionError(f"{key} is not a text.")
    return " ".join(value.split())
