"""What became of the files: a summary that a person can check, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from naq.graph import Graph
from naq.io.tables.columns import Dropped
from naq.io.tables.features import Feature
from naq.io.tables.roles import printable

_BAR = 40
_CLASSES = 12


@dataclass
class ImportReport:
    """A summary of an import; ``print(report)`` shows it.

    Attributes:
        nodes, edges, isolated: of the graph.
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
    features: list[Feature]
    classes: dict[str, int]
    unlabelled: int
    degrees: dict[str, int]
    dropped: list[Dropped]
    unused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, graph: Graph, features: list[Feature], dropped: list[Dropped], unused: dict[str, str], notes: list[str]
    ) -> ImportReport:
        degrees = np.diff(graph.adjacency.indptr)
        classes: dict[str, int] = {}
        unlabelled = graph.num_nodes
        if graph.labels is not None and graph.class_names is not None:
            counts = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.class_names))
            order = np.argsort(-counts, kind="stable")
            classes = {str(graph.class_names[i]): int(counts[i]) for i in order}
            unlabelled = int((graph.labels < 0).sum())
        sizes = graph.num_nodes, graph.num_edges, int((degrees == 0).sum())
        return cls(*sizes, features, classes, unlabelled, histogram(degrees), dropped, unused, notes)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        plain = {key: value for key, value in vars(self).items() if key not in ("features", "dropped")}
        kept = ("column", "kind", "width", "examples", "note")
        features = [{key: getattr(feature, key) for key in kept} for feature in self.features]
        return plain | {"features": features, "dropped": [asdict(item) for item in self.dropped]}

    def __str__(self) -> str:
        sizes = f"{_count(self.nodes, 'node')}, {_count(self.edges, 'edge')}, {_count(self.isolated, 'node')}"
        lines = [f"{sizes} without an edge", "features:" if self.features else "features: none"]
        for feature in self.features:
            note = f" ({feature.note})" if feature.note else ""
            shown = ", ".join(map(_short, feature.examples))
            size = _count(feature.width, "column")
            lines.append(f"  {_short(feature.column)}: {feature.kind}, {size}{note}; e.g. {shown}")
        lines += self._class_lines()
        lines.append("degrees:")
        most = max(self.degrees.values(), default=0)
        width = max((len(name) for name in self.degrees), default=0)
        for name, count in self.degrees.items():
            bar = "#" * (-(-_BAR * count // most) if most else 0)
            lines.append(f"  {name:>{width}}  {bar:<{_BAR}} {count:,}")
        lines.append("dropped:" if self.dropped else "dropped: nothing")
        for item in self.dropped:
            places = ("; first: " + "; ".join(item.places)) if item.places else ""
            lines.append(f"  {item.why}: {item.count:,}{places}")
        lines += [f"not used: {_short(name)}: {why}" for name, why in self.unused.items()]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _class_lines(self) -> list[str]:
        if not self.classes:
            return ["labels: none"]
        shown = ", ".join(f"{_short(name)} {count:,}" for name, count in list(self.classes.items())[:_CLASSES])
        more = f", and {len(self.classes) - _CLASSES:,} more" if len(self.classes) > _CLASSES else ""
        sizes = f"{_count(len(self.classes), 'class', 'classes')}, {_count(self.unlabelled, 'node')} without"
        return [f"labels: {sizes}: {shown}{more}"]


def histogram(degrees: np.ndarray) -> dict[str, int]:
    """Nodes by degree: 0, 1, 2, 3-4, 5-8, 9-16 and so on up to the largest."""
    found = {"0": int((degrees == 0).sum()), "1": int((degrees == 1).sum())}
    low, high = 2, 2
    while low <= degrees.max(initial=0):
        name = str(low) if low == high else f"{low}-{high}"
        found[name] = int(((degrees >= low) & (degrees <= high)).sum())
        low, high = high + 1, 2 * high
    return found


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _short(text: str) -> str:
    text = printable(text)
    return text if len(text) <= 40 else text[:37] + "..."
