"""What a person takes along: predictions, labels, a report page and the Python code that repeats it."""

from __future__ import annotations

import ast
import base64
import copy
import csv
import io
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naq.errors import OptionError
from naq.files import guarded
from naq_studio import answers
from naq_studio.board import NONE
from naq_studio.colours import COLOURS, SHAPES
from naq_studio.lines import one_line
from naq_studio.session import Session

if TYPE_CHECKING:
    from naq.classifier import FewShotNodeClassifier

MARKERS = "os^DP"
"""Of matplotlib, in the order of :data:`~naq_studio.colours.SHAPE_NAMES`."""
EXAMPLES = 5


def labels_csv(session: Session) -> str:
    """``node,class`` as ``naq predict --labels`` reads it."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["node", "class"])
    for node, name in session.said().labels.items():
        writer.writerow([guarded(str(key_of(session, node))), guarded(name)])
    return text.getvalue()


def predictions_csv(session: Session) -> str:
    """The table of ``naq predict`` for the present labels."""
    from naq.classifier import write_predictions

    classifier = _fitted(session)
    with tempfile.TemporaryDirectory(prefix="naq-studio-") as folder:
        return write_predictions(classifier, Path(folder) / "predictions.csv").read_text(encoding="utf-8")


def code(session: Session) -> str:
    """A Python program that makes the same predictions; what a file said is in it as a literal, and in no other way."""
    said, graph = session.said(), session.graph
    table = "".join(f", {name}={value!r}" for name, value in session.columns.items() if value)
    title = (
        f"Classes for every node of {one_line(graph.name, 80)} from {len(said.labels):,} labels; written by naq studio."
    )
    lines = [f"    {key_of(session, node)!r}: {name!r}," for node, name in said.labels.items()]
    classes = f", classes={said.about!r}" if said.about else ""
    program = "\n".join(
        [
            repr(title),
            "",
            "import naq",
            "from naq.classifier import write_predictions",
            "",
            f"graph = naq.load({graph.source or graph.name!r}{table})",
            "labels = {",
            *lines,
            "}",
            f"classifier = naq.FewShotNodeClassifier(seed={session.model.seed}, unknown={said.unknown}).fit(graph, labels{classes})",
            'write_predictions(classifier, "predictions.csv")',
            'print("Expected accuracy:", classifier.expected_accuracy())',
            "",
        ]
    )
    assert len(ast.parse(program).body) == 8  # the eight statements above
    return program


def report(session: Session) -> str:
    """The page on the prediction for the present labels, with a picture of the map."""
    from naq.classifier.page import prediction_page

    classifier = _fitted(session)
    with session.lock:
        state, labels = session.state(), dict(session.journal.board.labels)
    examples = {}
    for one in state["classes"]:
        own = sorted(node for node, number in labels.items() if number == one["id"])[:EXAMPLES]
        examples[one["name"]] = {
            "colour": COLOURS[one["colour"]],
            "given": [one_line(str(key_of(session, node)), 60) for node in own],
            "likely": _likeliest(session, one["id"], labels),
        }
    more = {
        "picture": _picture(session, state),
        "examples": examples,
        "curve": [point[:2] for point in state["curve"]] if len(state["curve"]) > 1 else None,
        "code": code(session),
        "written": datetime.now(UTC).strftime("Written by naq studio, %d %B %Y, %H:%M UTC."),
    }
    return prediction_page(classifier, title=session.graph.name, more=more).html()


def key_of(session: Session, node: int) -> str | int:
    """What names a node in labels: its name where no other has it and no number could be meant, else its number."""
    names = session.graph.names
    if names is None:
        return node
    unique = session.graph.kept("studio/unique", lambda: _unique(names))
    return str(names[node]) if unique[node] else node


def _unique(names: np.ndarray) -> np.ndarray:
    """(n,) whether a name names its node in a file: no other has it, one line, no blanks around it, not too long."""
    _, place, count = np.unique(names, return_inverse=True, return_counts=True)
    plain = np.array([name == one_line(name) and not name.startswith("'") and name != "" for name in names.tolist()])
    return (count[place] == 1) & plain


def _fitted(session: Session) -> FewShotNodeClassifier:
    classifier, said = session.model.classifier, session.said()
    if classifier is None:
        raise OptionError("there are no predictions yet: the graph is still being learned; wait a moment.")
    other = copy.copy(classifier)
    named, _ = answers.name_classes(other, said)
    if len({*said.labels.values(), *named}) < 2:
        raise OptionError("there are no predictions yet; name at least two classes, or label nodes of two.")
    other.set_params(unknown=said.unknown)
    return other.set_labels(answers.to_labels(said))


def _likeliest(session: Session, number: int, labels: dict[int, int]) -> list[str]:
    found = session.answer
    if found is None:
        return []
    members = np.flatnonzero(found.chosen == number)
    members = members[~np.isin(members, list(labels))]
    best = members[np.argsort(-found.sure[members], kind="stable")[:EXAMPLES]]
    return [one_line(str(key_of(session, int(node))), 60) for node in best]


def _picture(session: Session, state: dict[str, Any]) -> str:
    """The map as a PNG in a data address."""
    from matplotlib.figure import Figure

    layouts = session.model.layouts
    if not layouts:
        return ""
    places = layouts.get("pacmap", layouts.get("pca"))
    assert places is not None
    _, content = session.arrays()
    n = session.graph.num_nodes
    given, chosen = np.frombuffer(content, "<i2", 2 * n).reshape(2, n)
    number = np.where(given >= 0, given, np.where(given == NONE, NONE, chosen))
    figure = Figure(figsize=(9, 6), dpi=110)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    size = float(np.clip(20_000 / n, 1.5, 20))
    axes.scatter(places[number < 0, 0], places[number < 0, 1], s=size, c="#9aa0a6", linewidths=0)
    for one in state["classes"]:
        inside = number == one["id"]
        marker = MARKERS[SHAPES[one["colour"]]]
        axes.scatter(
            places[inside, 0], places[inside, 1], s=size, c=COLOURS[one["colour"]], linewidths=0, marker=marker
        )
        own = given == one["id"]
        axes.scatter(
            places[own, 0],
            places[own, 1],
            s=30,
            c=COLOURS[one["colour"]],
            marker=marker,
            edgecolors="black",
            linewidths=0.8,
        )
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
