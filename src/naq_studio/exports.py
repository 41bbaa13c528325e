"""What a person takes along: predictions, labels, a report page and the Python code that repeats it."""

from __future__ import annotations

import ast
import csv
import io
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from naq.errors import OptionError, plain
from naq.files import escape_cell
from naq_studio import answers
from naq_studio.board import one_line
from naq_studio.session import Session

if TYPE_CHECKING:
    from naq.classifier import FewShotNodeClassifier


def labels_csv(session: Session) -> str:
    """``node,class`` as ``naq predict --labels`` reads it."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["node", "class"])
    rows = session.given_labels().labels.items()
    writer.writerows((escape_cell(str(node_key(session, node))), escape_cell(name)) for node, name in rows)
    return text.getvalue()


def predictions_csv(session: Session) -> str:
    """The table of ``naq predict`` for the present labels."""
    from naq.classifier import write_predictions

    classifier = _fitted(session)
    with tempfile.TemporaryDirectory(prefix="naq-studio-") as folder:
        return write_predictions(classifier, Path(folder) / "predictions.csv").read_text(encoding="utf-8")


def code(session: Session) -> str:
    """A Python program that makes the same predictions; what a file said is in it as a literal, and in no other way."""
    given, graph = session.given_labels(), session.graph
    table = "".join(f", {name}={value!r}" for name, value in session.read_with.items() if value)
    name, count = plain(graph.name, 80), len(given.labels)
    title = f"Classes for every node of {name} from {count:,} labels; written by naq studio."
    rows = "".join(f"    {node_key(session, node)!r}: {name!r},\n" for node, name in given.labels.items())
    classes = f", classes={given.about!r}" if given.about else ""
    program = (
        f"{title!r}\n\nimport naq\nfrom naq.classifier import write_predictions\n\n"
        f"graph = naq.load({graph.source or graph.name!r}{table})\nlabels = {{\n{rows}}}\n"
        f"classifier = naq.FewShotNodeClassifier(seed={session.model.seed}, unknown={given.unknown})\n"
        f"classifier.fit(graph, labels{classes})\n"
        'write_predictions(classifier, "predictions.csv")\n'
        'print("Expected accuracy:", classifier.expected_accuracy())\n'
    )
    assert len(ast.parse(program).body) == 9  # the statements above
    return program


def report(session: Session) -> str:
    """The page on the prediction for the present labels, with a picture of the map."""
    from naq.classifier.page import PredictionPage

    classifier = _fitted(session)
    state = session.state()
    layouts = session.model.layouts
    more = {
        "places": layouts.get("pacmap", layouts.get("pca")),
        "colours": {one["name"]: one["colour"] for one in state["classes"]},
        "curve": [point[:2] for point in state["curve"]] if len(state["curve"]) > 1 else None,
        "code": code(session),
        "written": datetime.now(UTC).strftime("Written by naq studio, %d %B %Y, %H:%M UTC."),
    }
    return PredictionPage(classifier, title=session.graph.name, more=more).html()


def node_key(session: Session, node: int) -> str | int:
    """How a table of labels names a node: by its name if that is read as this node again, else by its number."""
    from naq.classifier.labels import node_number

    name = node if session.graph.names is None else str(session.graph.names[node])
    written = isinstance(name, str) and name == one_line(name) and name != "" and not name.startswith("'")
    return name if written and node_number(session.graph, name) == node else node


def _fitted(session: Session) -> FewShotNodeClassifier:
    classifier, given = session.model.classifier, session.given_labels()
    if classifier is None:
        raise OptionError("there are no predictions yet: the graph is still being learned; wait a moment.")
    other, _ = answers.with_labels(classifier, given, unknown=given.unknown)
    if other is None:
        raise OptionError("there are no predictions yet; name at least two classes, or label nodes of two.")
    return other
