"""What became of the files: a summary that a person can check, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from naq.graph import Graph
from naq.io.tables.columns import Feature
from naq.io.tables.roles import printable
from naq.io.tables.table import Dropped

_BAR = 40
_CLASSES = 12
_LISTED = 40
"""Columns that are printed; a program gets all."""


@dataclass
class ImportReport:
    """A summary of an import; ``print(report)`` shows it.

    Attributes:
        nodes, edges, isolated: of the graph.
        directions: whether edges have any.
        types: number of edges by type, where they have types.
        features: what each column became.
        classes: number of nodes by class, largest first.
        unlabelled: nodes without a class.
        degrees: number of nodes by range of degrees.
        dropped: rows that are not in the graph, and why.
        unused: columns that are not in the graph, and why.
        notes: what else a person should know.
    """

    nodes: int
    edges: int
    isolated: int
    directions: str
    types: dict[str, int]
    features: list[Feature]
    classes: dict[str, int]
    unlabelled: int
    degrees: dict[str, int]
    dropped: list[Dropped]
    unused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, graph: Graph, directions: str, features: list[Feature], dropped: list[Dropped], unused: dict[str, str],
        notes: list[str],
    ) -> ImportReport:  # fmt: skip
        degrees = np.diff(graph.adjacency.indptr)
        classes: dict[str, int] = {}
        unlabelled = graph.num_nodes
        if graph.labels is not None and graph.class_names is not None:
            counts = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.class_names))
            order = np.argsort(-counts, kind="stable")
            classes = {str(graph.class_names[i]): int(counts[i]) for i in order}
            unlabelled = int((graph.labels < 0).sum())
        sizes = graph.num_nodes, graph.num_edges, int((degrees == 0).sum())
        types = {name: (matrix.nnz if graph.directed else matrix.nnz // 2) for name, matrix in graph.relations.items()}
        return cls(*sizes, directions, types, features, classes, unlabelled, histogram(degrees), dropped, unused, notes)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        kept = ("column", "kind", "width", "examples", "note")
        features = [{key: getattr(feature, key) for key in kept} for feature in self.features]
        return vars(self) | {"features": features, "dropped": [asdict(item) for item in self.dropped]}

    def __str__(self) -> str:
        sizes = f"{_count(self.nodes, 'node')}, {_count(self.edges, 'edge')}, {_count(self.isolated, 'node')}"
        lines = [f"{sizes} without an edge", f"edges: {printable(self.directions)}"]
        if self.types:
            lines.append("types of edges: " + ", ".join(f"{_short(name)} {n:,}" for name, n in self.types.items()))
        lines.append("features:" if self.features else "features: none")
        for feature in self.features[:_LISTED]:
            note = f" ({feature.note})" if feature.note else ""
            size, examples = _count(feature.width, "column"), ", ".join(map(_short, feature.examples))
            lines.append(f"  {_short(feature.column)}: {feature.kind}, {size}{note}; e.g. {examples}")
        lines += _rest(len(self.features), "  and {:,} columns more")
        largest = ", ".join(f"{_short(name)} {count:,}" for name, count in list(self.classes.items())[:_CLASSES])
        more = f", and {len(self.classes) - _CLASSES:,} more" if len(self.classes) > _CLASSES else ""
        sizes = f"{_count(len(self.classes), 'class', 'classes')}, {_count(self.unlabelled, 'node')} without"
        lines.append(f"labels: {sizes}: {largest}{more}" if self.classes else "labels: none")
        most, width = max(self.degrees.values()), max(map(len, self.degrees))
        bars = {name: "#" * -(-_BAR * count // max(1, most)) for name, count in self.degrees.items()}
        lines += ["degrees:", *(f"  {name:>{width}}  {bars[name]:<{_BAR}} {n:,}" for name, n in self.degrees.items())]
        lines.append("dropped:" if self.dropped else "dropped: nothing")
        for item in self.dropped:
            places = ("; first: " + "; ".join(item.places)) if item.places else ""
            lines.append(f"  {item.why}: {item.count:,}{places}")
        lines += [f"not used: {_short(name)}: {why}" for name, why in list(self.unused.items())[:_LISTED]]
        lines += _rest(len(self.unused), "not used: {:,} columns more; --json names them")
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def histogram(degrees: np.ndarray) -> dict[str, int]:
    """Nodes by degree: 0, 1, 2, 3-4, 5-8, 9-16 and so on up to the largest."""
    found = {"0": int((degrees == 0).sum()), "1": int((degrees == 1).sum())}
    low, high = 2, 2
    while low <= degrees.max(initial=0):
        name = str(low) if low == high else f"{low}-{high}"
        found[name] = int(((degrees >= low) & (degrees <= high)).sum())
        low, high = high + 1, 2 * high
    return found


def _rest(number: int, line: str) -> list[str]:
    return [line.format(number - _LISTED)] if number > _LISTED else []


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _short(text: str) -> str:
    text = printable(text)
    return text if len(text) <= 40 else text[:37] + "..."
