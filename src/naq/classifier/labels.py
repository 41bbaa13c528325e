"""A few labels in any form, as nodes and classes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import OptionError
from naq.files import as_written
from naq.graph import Graph


@dataclass(frozen=True, eq=False)
class Labels:
    """Labelled nodes, ascending, and their classes.

    Attributes:
        nodes: (labels,) int64.
        classes: (classes,) sorted: strings, or the numbers that were given.
        slots: (labels,) int64, the place of each label in ``classes``.
    """

    nodes: np.ndarray
    classes: np.ndarray
    slots: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """(labels,) the class of each node."""
        return self.classes[self.slots]

    def merged(self, other: Labels) -> Labels:
        """Both; where they differ about a node, the other's."""
        mine = ~np.isin(self.nodes, other.nodes)
        nodes = np.concatenate([self.nodes[mine], other.nodes])
        return _collected(nodes, [*self.values[mine].tolist(), *other.values.tolist()])


def is_unknown(value: Any) -> bool:
    """Whether an entry of ``y`` says that the class is not known: None, NaN, -1 or an empty string.

    >>> [is_unknown(one) for one in (None, float("nan"), -1, "", "a", 0)]
    [True, True, True, True, False, False]
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, float | np.floating) and math.isnan(value):
        return True
    return not isinstance(value, str) and not isinstance(value, bool) and bool(value == -1)


def to_labels(graph: Graph, given: Any = None, support: Any = None, labels: Any = None) -> Labels:
    """From ``{node: class}``, from ``support`` and ``labels``, from one entry per node, unknown where there is no label, or those of a file."""
    if given is not None and (support is not None or labels is not None):
        raise OptionError("labels came twice; give a mapping or one entry per node, or support= and labels=, not both.")
    if support is not None or labels is not None:
        if support is None or labels is None or len(support) != len(labels):
            sizes = ["none" if one is None else str(len(one)) for one in (support, labels)]
            raise OptionError(
                f"support has {sizes[0]} and labels {sizes[1]} entries; give one class per node of support."
            )
        pairs = list(zip(_items(support), _items(labels)))
    elif isinstance(given, Labels):
        pairs = list(zip(given.nodes.tolist(), given.values.tolist()))
    elif isinstance(given, str | Path):
        raise OptionError(
            f"labels are {str(given)!r}; expected a mapping {{node: class}}, or one entry per node. For those of a file, give "
            f"naq.classifier.read_labels({str(given)!r}, graph)."
        )
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        values = _items(given)
        if len(values) != graph.num_nodes:
            raise OptionError(
                f"y has {len(values):,} entries but the graph has {graph.num_nodes:,} nodes; give one per node, None where unknown, "
                "or a mapping {node: class}."
            )
        pairs = list(enumerate(values))
    pairs = [(node, value) for node, value in pairs if not is_unknown(value)]
    return from_pairs(graph, pairs)


def from_pairs(graph: Graph, pairs: Sequence[tuple[Any, Any]], where: Sequence[str] | None = None) -> Labels:
    """Checked labels; ``where`` says for each pair where it was read, for the message."""
    found: dict[int, tuple[Any, str]] = {}
    for index, (node, value) in enumerate(pairs):
        place = "" if where is None else f"{where[index]}: "
        try:
            number = find_node(graph, node, place)
        except OptionError as error:
            lost = sum(not is_node(graph, other) for other, _ in pairs)
            more = f" {lost:,} of {len(pairs):,} labels are of no node of this graph." if lost > 1 else ""
            raise OptionError(f"{error}{more}") from error
        if number in found and found[number][0] != value:
            first = f" ({found[number][1]})" if where is not None else ""
            raise OptionError(
                f"{place}node {node!r} has the class {value!r}, but {found[number][0]!r} before{first}; keep one of them."
            )
        found.setdefault(number, (value, place.removesuffix(": ")))
    nodes = sorted(found)
    return _collected(np.array(nodes, dtype=np.int64), [found[node][0] for node in nodes])


def check_enough(labels: Labels, place: str = "") -> Labels:
    """The labels, once there are two classes; ``place`` begins the message."""
    if len(labels.classes) < 2:
        what = f"only of {str(labels.classes[0])!r}" if len(labels.classes) else "of no class"
        raise OptionError(f"{place}there are labels {what}; give labels of at least two classes.")
    return labels


def find_node(graph: Graph, node: Any, place: str = "") -> int:
    """The number of a node: a name of the graph, or a number."""
    if isinstance(node, str):
        names = _names(graph)
        if names.get(node, 0) < 0:
            raise OptionError(f"{place}several nodes are named {node!r}; give the number of the one that is meant.")
        if not is_node(graph, node):
            raise OptionError(f"{place}there is no node {node!r}; {_nearest(node, graph)}")
        return names[node] if node in names else int(node)
    if isinstance(node, bool | np.bool_) or not isinstance(node, int | np.integer):
        raise OptionError(f"{place}node is {node!r}; expected a name or a number from 0 to {graph.num_nodes - 1}.")
    if not is_node(graph, node):
        raise OptionError(
            f"{place}there is no node {node}; expected a name or a number from 0 to {graph.num_nodes - 1}."
        )
    return int(node)


def is_node(graph: Graph, node: Any) -> bool:
    """Whether there is such a node: a name of the graph, or a number."""
    if isinstance(node, str):
        if node in _names(graph):
            return True
        number = node.isascii() and node.isdigit() and len(node) < 20
        return number and int(node) < graph.num_nodes and not _numbered(graph)
    whole = isinstance(node, int | np.integer) and not isinstance(node, bool | np.bool_)
    return whole and 0 <= int(node) < graph.num_nodes


def node_column(graph: Graph, titles: Sequence[str], columns: Sequence[Sequence[str]]) -> int | None:
    """Which of two columns holds nodes, where their titles do not say so; None where neither does, both do, or the titles are nodes.

    Titles that are nodes are those of a table without a header: its first label would be lost. Numbers are nodes only where there are no names:
    they may be classes.
    """
    names = _names(graph)

    def held(cell: str) -> bool:
        name = as_written(cell.strip())
        return name in names if names else is_node(graph, name)

    if len(columns) != 2 or any(map(held, titles)):
        return None
    one, two = (sum(map(held, cells)) for cells in columns)
    return None if one == two or 2 * max(one, two) <= len(columns[0]) else int(two > one)


def node_name(graph: Graph, node: int) -> str:
    """The name of a node, its number where the graph has no names."""
    return str(graph.names[node]) if graph.names is not None else str(node)


def _names(graph: Graph) -> dict[str, int]:
    """Every name with its node, -1 where several have it."""

    def make() -> dict[str, int]:
        found: dict[str, int] = {}
        for number, name in enumerate([] if graph.names is None else graph.names.tolist()):
            found[name] = -1 if name in found else number
        return found

    return graph.kept("classifier/names", make)


def _numbered(graph: Graph) -> bool:
    """Whether most names are numbers: then a number that is no name is a mistake, and not the place of a node."""

    def make() -> bool:
        names = _names(graph)
        return 2 * sum(name.isascii() and name.isdigit() for name in names) > len(names)

    return graph.kept("classifier/numbered", make)


def _nearest(node: str, graph: Graph) -> str:
    known = _names(graph)
    plain = node.strip().casefold()
    close = [name for name in known if name.strip().casefold() == plain][:3]
    close = close or difflib.get_close_matches(node, known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if _numbered(graph):
        return f"expected a name of the graph, e.g. {next(iter(known))!r}."
    example = f", e.g. {next(iter(known))!r}," if known else ""
    return f"expected a name of the graph{example} or a number from 0 to {graph.num_nodes - 1}."


def _items(values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise OptionError(f"labels are {values!r}; expected a mapping {{node: class}}, or one entry per node.")
    array = values.to_numpy() if hasattr(values, "to_numpy") else values
    return list(array.tolist() if isinstance(array, np.ndarray) else array)


def _collected(nodes: np.ndarray, values: list[Any]) -> Labels:
    kinds = {isinstance(value, str) for value in values}
    if len(kinds) == 2:
        text = next(value for value in values if isinstance(value, str))
        number = next(value for value in values if not isinstance(value, str))
        raise OptionError(f"classes are of two types, {text!r} and {number!r}; give all as strings or all as numbers.")
    classes, slots = (
        np.unique(np.array(values), return_inverse=True) if values else (np.empty(0, "U1"), np.empty(0, int))
    )
    if classes.dtype.kind not in "Uiufb":
        raise OptionError(f"classes have type {classes.dtype}; expected strings or numbers.")
    order = np.argsort(nodes, kind="stable")
    return Labels(nodes[order], classes, slots.astype(np.int64)[order])
