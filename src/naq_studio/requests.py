"""What the page asks for, checked, as rows of the journal."""

from __future__ import annotations

from typing import Any

import numpy as np

from naq.errors import OptionError
from naq_studio.board import NONE, Row
from naq_studio.session import Session


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
    if action == "accept":
        return _accept(session, asked)
    if action == "make":
        return [Row("make", label=_text(asked, "name"), value=_number(asked, "colour"))]
    if action == "unknown":
        return [Row("unknown", value=_text(asked, "value"))]
    name = session.journal.board.name(_class(asked, "class"))
    if action == "rename":
        return [Row("rename", label=name, value=_text(asked, "name"))]
    if action == "merge":
        return [Row("merge", label=name, value=session.journal.board.name(_class(asked, "into")))]
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


def _accept(session: Session, asked: dict[str, Any]) -> list[Row]:
    """Predictions of at least a probability become labels: of all nodes, of one class, or of some nodes."""
    above = asked.get("above")
    if isinstance(above, bool) or not isinstance(above, int | float) or not 0 < above <= 1:
        raise OptionError("above is no probability; expected a number above 0 and at most 1.")
    found, board = session.answer, session.journal.board
    if found is None or found.version != session.version:
        raise OptionError("there is no prediction for the present labels yet; wait a moment and try again.")
    wanted = (found.sure >= above) & (found.chosen >= 0)
    wanted[list(board.labels)] = False
    if asked.get("class") is not None:
        wanted &= found.chosen == _class(asked, "class")
    if asked.get("nodes") is not None:
        inside = np.zeros(len(wanted), dtype=bool)
        inside[_nodes(session, asked)] = True
        wanted &= inside
    return [Row("label", int(node), board.name(int(found.chosen[node]))) for node in np.flatnonzero(wanted)]


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
