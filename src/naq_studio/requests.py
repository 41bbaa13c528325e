"""What the page asks for, checked, as rows of the journal."""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from typing import Any

import numpy as np

from naq.errors import OptionError
from naq.text import location
from naq_studio.answers import SpotCheck
from naq_studio.board import LONGEST_ABOUT, NONE, Row, clean_line, clean_name
from naq_studio.session import Session

DRAWN, RIGHT = 10, 8
"""Predictions that are looked at before all like them become labels, and how many of these must be right."""


def rows_of(session: Session, asked: Any) -> list[Row]:
    """The rows of one step; none where nothing would change. Call it with the session's lock held."""
    if not isinstance(asked, dict) or not isinstance(asked.get("action"), str):
        raise OptionError("expected an object with an action.")
    action = asked["action"]
    if action in ("undo", "redo"):
        board = session.journal.board
        return [Row(action)] if (board.done if action == "undo" else board.undone) else []
    if action in ("label", "unlabel", "none", "skip"):
        return _on_nodes(session, action, asked)
    if action == "expect":
        return _expect(session, asked)
    if action == "make":
        return [Row("make", label=_text(asked, "name"), value=_number(asked, "colour"))]
    if action == "unknown":
        return [Row("unknown", value=_text(asked, "value"))]
    name = session.journal.board.name(_class(asked, "class"))
    if action == "rename":
        return [Row("rename", label=name, value=_text(asked, "name"))]
    if action == "merge":
        return [Row("merge", label=name, value=session.journal.board.name(_class(asked, "into")))]
    if action == "describe":
        return [Row("describe", label=name, value=_text(asked, "value"))]
    if action == "recolour":
        return [Row("recolour", label=name, value=_number(asked, "colour"))]
    if action == "delete":
        return [Row("delete", label=name)]
    raise OptionError(f"action is {action[:40]!r}, which is unknown.")


def _on_nodes(session: Session, action: str, asked: dict[str, Any]) -> list[Row]:
    board, nodes = session.journal.board, _nodes(session, asked)
    if action == "label" and "new" in asked:
        name = _text(asked, "new")
        made = [] if name in {one for one, _ in board.classes.values()} else [Row("make", label=name)]
        return made + [Row("label", node, name) for node in nodes]
    if action == "label":
        number = _class(asked, "class")
        name = board.name(number)
        return [Row("label", node, name) for node in nodes if board.labels.get(node) != number]
    if action == "none":
        return [Row("none", node) for node in nodes if board.labels.get(node) != NONE]
    if action == "unlabel":
        return [Row("unlabel", node) for node in nodes if node in board.labels]
    return [Row("skip", node) for node in nodes if node not in board.labels and node not in board.skipped]


def check_names(session: Session, asked: dict[str, Any]) -> None:
    """Raise where names of classes cannot be read; it may load a model, so call it without the session's lock."""
    from naq.classifier.names import class_texts

    if asked.get("action") not in ("expect", "describe"):
        return
    if (text := session.graph.text) is None:
        raise OptionError("the graph has no text vectors, so names of classes say nothing about its nodes.")
    if asked["action"] == "expect":
        about = session.said().about | _expected(asked)
    else:
        about = session.said().about | {session.journal.board.name(_class(asked, "class")): _text(asked, "value")}
    names = class_texts(about)[1] if len(about) > 1 or asked["action"] == "expect" else []
    if asked.get("dry") and find_spec("sentence_transformers") and isinstance(location(text.model), str):
        return  # someone is still typing: nothing is downloaded for that
    if names:
        text.class_vectors(names)


def _expected(asked: dict[str, Any]) -> dict[str, str]:
    """Names of classes, one per line, and what they are about behind a colon."""
    text, found = asked.get("text"), dict[str, str]()
    if not isinstance(text, str):
        raise OptionError("text is no list of names.")
    for line in filter(str.strip, text.splitlines()):
        name, _, more = line.partition(":")
        if (name := clean_name(name)) in found:
            raise OptionError(f"the class {name!r} is named twice; name every class once.")
        found[name] = clean_line(more, LONGEST_ABOUT, "description")
    return found


def _expect(session: Session, asked: dict[str, Any]) -> list[Row]:
    said, rows = session.said(), list[Row]()
    if asked.get("dry"):  # someone is still typing
        return rows
    for name, about in _expected(asked).items():
        rows += [] if name in said.numbers else [Row("make", label=name)]
        rows += [] if said.about.get(name) == about else [Row("describe", label=name, value=about)]
    return rows


def draw_check(session: Session, asked: dict[str, Any]) -> dict[str, Any]:
    """Predictions of at least a probability, and a few of them at random to look at."""
    above = asked.get("above")
    if isinstance(above, bool) or not isinstance(above, int | float) or not 0 < above <= 1:
        raise OptionError("above is no probability; expected a number above 0 and at most 1.")
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
    shown = [
        {
            "node": node,
            "name": graph.title_of(node)[:200],
            "text": graph.text_of(node)[:600],
            "class": int(found.chosen[node]),
        }
        for node in drawn
    ]
    return {"check": spot.token, "count": len(nodes), "nodes": shown}


def accepted(session: Session, asked: dict[str, Any]) -> tuple[list[Row], str]:
    """The predictions of a spot check as labels, without those found wrong, and what share of it was right."""
    spot, right = session.spot, asked.get("right")
    if spot is None or session.answer is None or asked.get("check") != spot.token or spot.version != session.version:
        raise OptionError("labels have changed since these were drawn; look at others that are drawn now.")
    if not isinstance(right, list) or len(right) != len(spot.drawn) or not all(isinstance(one, bool) for one in right):
        raise OptionError(f"right is no list of {len(spot.drawn)} answers; say of every one whether it is right.")
    session.spot = None
    share = f"{sum(right)} of {len(right)} were right"
    if sum(right) * DRAWN < RIGHT * len(right):
        session.refused = session.version
        raise OptionError(
            f"{share}, too few to accept all: label the wrong ones by hand, which changes the others too, and try again."
        )
    wrong = {node for node, good in zip(spot.drawn, right) if not good}
    name, chosen = session.journal.board.name, session.answer.chosen
    rows = [Row("label", node, name(int(chosen[node]))) for node in spot.nodes.tolist() if node not in wrong]
    return rows, f"{share}; {len(rows):,} predictions became labels, and Undo takes them back."


def _nodes(session: Session, asked: dict[str, Any]) -> list[int]:
    nodes, n = asked.get("nodes"), session.graph.num_nodes
    if not isinstance(nodes, list) or not nodes or len(nodes) > n:
        raise OptionError("nodes is no list of nodes of this graph.")
    if any(isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < n for node in nodes):
        raise OptionError(f"nodes holds something else than numbers from 0 to {n - 1}.")
    return list(dict.fromkeys(nodes))


def _class(asked: dict[str, Any], key: str) -> int:
    value = asked.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{key} is no class.")
    return value


def _text(asked: dict[str, Any], key: str) -> str:
    value = asked.get(key)
    if not isinstance(value, str) or len(value) > 1_000:
        raise OptionError(f"{key} is no text.")
    return " ".join(value.split())


def _number(asked: dict[str, Any], key: str) -> str:
    value = asked.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{key} is no number.")
    return str(value)
