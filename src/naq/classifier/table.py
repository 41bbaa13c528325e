"""The predictions of every node as a table: a CSV file for people, rows for programs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naq.classifier.estimator import FewShotNodeClassifier
from naq.classifier.evidence import nearest_labels, telling_words
from naq.classifier.labels import node_name
from naq.files import FORMULA, write_atomically

COLUMNS = (
    "node",
    "class",
    "probability",
    "runner_up",
    "runner_up_probability",
    "prediction_set",
    "given",
    "nearest_label",
    "words",
)


def rows(classifier: FewShotNodeClassifier, level: float = 0.9) -> Iterator[dict[str, Any]]:
    """One dictionary per node, in the order of the graph, with the keys :data:`COLUMNS`.

    ``class`` is None where ``unknown`` nodes belong to no class, and the given one where the node has a label, whose probability is that of
    its class as if it had none.
    """
    graph, labels = classifier.graph_, classifier.labels_
    chances = classifier.predict_proba()
    sets = classifier.prediction_sets(level=level)
    order = np.argsort(-chances, axis=1, kind="stable")[:, :2]
    chosen = order[:, 0].copy()
    chosen[labels.nodes] = labels.slots
    second = np.where(order[:, 0] == chosen, order[:, 1], order[:, 0])
    nearest = nearest_labels(classifier._unit_vectors(), chosen, labels.nodes, labels.slots)
    words = telling_words(graph, chosen, len(labels.classes))
    final = classifier.transduction_
    given = np.zeros(len(chosen), dtype=bool)
    given[labels.nodes] = True
    classes = labels.classes.tolist()
    for node in range(len(chosen)):
        one, two = int(chosen[node]), int(second[node])
        likely = np.flatnonzero(sets[node])
        likely = likely[np.argsort(-chances[node, likely], kind="stable")]
        named = final[node]
        yield {
            "node": node_name(graph, node),
            "class": named.item() if isinstance(named, np.generic) else named,
            "probability": float(chances[node, one]),
            "runner_up": classes[two],
            "runner_up_probability": float(chances[node, two]),
            "prediction_set": [classes[slot] for slot in likely],
            "given": bool(given[node]),
            "nearest_label": node_name(graph, int(nearest[node])),
            "words": words[node],
        }


def write_predictions(classifier: FewShotNodeClassifier, path: str | Path, level: float = 0.9) -> Path:
    """A CSV in UTF-8 with :data:`COLUMNS`, lists separated by ``|``, whole or not at all; safe to open in a spreadsheet."""

    table = ([row[column] for column in COLUMNS] for row in rows(classifier, level))
    return write_rows(path, COLUMNS, table)


def write_rows(path: str | Path, columns: Sequence[str], table: Iterable[Sequence[Any]]) -> Path:
    """A CSV of cells that no spreadsheet computes."""

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([cell(value) for value in row] for row in table)

    return write_atomically(path, write)


def cell(value: Any) -> str:
    """A value as a cell that no spreadsheet computes.

    >>> [cell(one) for one in ("=1+1", 0.5, True, None, ["a", "b"], -3)]
    ["'=1+1", '0.5000', 'yes', '', 'a|b', '-3']
    """
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, int) or value is None:
        return "" if value is None else str(value)
    text = "|".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
