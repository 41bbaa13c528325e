"""A few labels in any form, as nodes and classes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import DataError, OptionError, warn
from naq.graph import Graph

NODE_COLUMNS, CLASS_COLUMNS = ("node", "id", "name", "node_id", "nodeid"), ("class", "label", "category")
"""Names of the two columns, in any case; where there are several, the first of these counts."""
LONGEST_CLASS = 1_000


@dataclass(frozen=True, eq=False)
class Labels:
    """Labelled nodes, ascending, and their classes.

    Attributes:
        nodes: (labels,) int64.
        classes: (classes,) sorted: strings, or the numbers that were given.
        class_index: (labels,) int64, the place of each label in ``classes``.
    """

    nodes: np.ndarray
    classes: np.ndarray
    class_index: np.ndarray

    def __post_init__(self) -> None:
        for name, array, most in (
            ("nodes", self.nodes, math.inf),
            ("class_index", self.class_index, len(self.classes)),
        ):
            if array.ndim != 1 or array.dtype != np.int64 or len(array) != len(self.nodes):
                form = f"shape {array.shape} and type {array.dtype}"
                raise OptionError(f"{name} of labels have {form}; expected whole numbers.")
            if len(array) and (array.min() < 0 or array.max() >= most):
                raise OptionError(f"{name} of labels are {array.min()} to {array.max()}; expected 0 to {most - 1}.")
        if (np.diff(self.nodes) <= 0).any():
            raise OptionError("nodes of labels are not in ascending order; give every node once.")

    @classmethod
    def of(cls, nodes: Any, values: Sequence[Any]) -> Labels:
        """From different nodes in any order, and the class of each."""
        texts, numbers = ([value for value in values if isinstance(value, str) is text] for text in (True, False))
        if texts and numbers:
            two = f"{texts[0]!r} and {numbers[0]!r}"
            raise OptionError(f"classes are of two types, {two}; give all as strings or all as numbers.")
        array = np.array(values) if len(values) else np.array([], "U1")
        classes, class_index = np.unique(array, return_inverse=True)
        if classes.dtype.kind not in "Uiufb":
            raise OptionError(f"classes have type {classes.dtype}; expected strings or numbers.")
        order = np.argsort(nodes, kind="stable")
        return cls(np.asarray(nodes, dtype=np.int64)[order], classes, class_index.astype(np.int64)[order])

    @property
    def values(self) -> np.ndarray:
        """(labels,) the class of each node."""
        return self.classes[self.class_index]

    @property
    def per_class(self) -> float:
        """How many labels a class has on average."""
        return len(self.nodes) / len(self.classes)

    def with_classes(self, names: np.ndarray) -> Labels:
        """The same labels of more classes, which may have none."""
        if len(self.classes) and self.classes.dtype.kind != "U":
            raise OptionError(
                f"labels have classes like {self.classes[0]!r}, but names of classes were given; use names."
            )
        classes = np.union1d(self.classes.astype(names.dtype if not len(self.classes) else self.classes.dtype), names)
        return Labels(self.nodes, classes, np.searchsorted(classes, self.classes)[self.class_index])

    def merged(self, other: Labels) -> Labels:
        """Both; if they differ about a node, the other's."""
        mine = ~np.isin(self.nodes, other.nodes)
        nodes = np.concatenate([self.nodes[mine], other.nodes])
        return Labels.of(nodes, [*self.values[mine].tolist(), *other.values.tolist()])


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
    """From ``{node: class}``, from ``support`` and ``labels``, or from one entry per node; ``Labels`` are returned as they are."""
    if given is not None and (support is not None or labels is not None):
        raise OptionError("labels came twice; give a mapping or one entry per node, or support= and labels=, not both.")
    if support is not None or labels is not None:
        if support is None or labels is None or len(support) != len(labels):
            one, two = ("none" if one is None else str(len(one)) for one in (support, labels))
            raise OptionError(f"support has {one} and labels {two} entries; give one class per node of support.")
        pairs = list(zip(_items(support), _items(labels)))
    elif isinstance(given, Labels):
        if len(given.nodes):
            find_node(graph, int(given.nodes[-1]))
        return given
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
    return from_pairs(graph, [(node, value) for node, value in pairs if not is_unknown(value)])


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
            first = f"{found[number][0]!r} before" + (f" ({found[number][1]})" if where is not None else "")
            raise OptionError(f"{place}node {node!r} has the class {value!r}, but {first}; keep one of them.")
        found.setdefault(number, (value, place.removesuffix(": ")))
    nodes = sorted(found)
    return Labels.of(nodes, [found[node][0] for node in nodes])


def check_enough(labels: Labels, place: str = "") -> Labels:
    """The labels, once there are two classes; ``place`` begins the message."""
    if len(labels.classes) < 2:
        what = f"only of {str(labels.classes[0])!r}" if len(labels.classes) else "of no class"
        raise OptionError(f"{place}there are labels {what}; give labels of at least two classes.")
    return labels


def find_node(graph: Graph, node: Any, place: str = "") -> int:
    """The number of a node: a name of the graph, or a number."""
    expected = f"expected a name or a number from 0 to {graph.num_nodes - 1}."
    if isinstance(node, str):
        names = _names(graph)
        if names.get(node, 0) < 0:
            raise OptionError(f"{place}several nodes are named {node!r}; give the number of the one that is meant.")
        if not is_node(graph, node):
            raise OptionError(f"{place}there is no node {node!r}; {_nearest(node, graph)}")
        return names[node] if node in names else int(node)
    if isinstance(node, bool | np.bool_) or not isinstance(node, int | np.integer):
        raise OptionError(f"{place}node is {node!r}; {expected}")
    if not is_node(graph, node):
        raise OptionError(f"{place}there is no node {node}; {expected}")
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
    from naq.files import as_written

    names = _names(graph)

    def held(cell: str) -> bool:
        name = as_written(cell.strip())
        return name in names if names else is_node(graph, name)

    if len(columns) != 2 or len(titles) != 2 or any(map(held, titles)):
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


def read_labels(path: str | Path, graph: Graph) -> Labels:
    """The labels of a table with the columns ``node`` and ``class``; a row without a class is one that nobody labelled yet.

    Text or Parquet, read as tables of nodes are; other columns are not read. Spaces around cells do not count. Of a table of two columns
    with other names, nodes are the column that holds names of nodes, and a note says so.
    """
    from naq.files import as_written
    from naq.io.tables.reading import read_table

    path = Path(path)
    unnamed: list[DataError] = []

    def choose(columns: list[str], header: bool) -> list[str]:
        try:
            return [_column(path, columns, NODE_COLUMNS), _column(path, columns, CLASS_COLUMNS)]
        except DataError as error:
            if len(columns) != 2:
                raise
            unnamed.append(error)
            return columns

    table = read_table(path, choose, header=True)
    if table.dropped:
        place, other = table.dropped[0].places[0], "another number of cells than the first line has"
        raise DataError(f"{place}: {other}; quote cells that hold the separator.")
    titles = list(table.columns)
    if unnamed:
        first = node_column(graph, titles, [column.strings() for column in table.columns.values()])
        if first is None:
            raise unnamed[0]
        titles = [titles[first], titles[1 - first]]
        table.notes.append(f"{table.name}: nodes are the column {titles[0]!r}, classes the column {titles[1]!r}")
    nodes, values = (table.columns[title].strings() for title in titles)
    rows = [row for row in range(table.rows) if values[row].strip()]
    if not rows:
        raise DataError(f"{path} holds no label: no line has a class in the column {titles[1]!r}; fill in some.")
    places = table.places(rows)
    pairs = [(as_written(nodes[row].strip()), as_written(values[row].strip())) for row in rows]
    for (node, value), place in zip(pairs, places):
        if not node:
            raise DataError(f"{place}: the class {value[:60]!r} has no node; name the node.")
        if len(value) > LONGEST_CLASS:
            most = f"expected at most {LONGEST_CLASS:,}: is it the right column?"
            raise DataError(f"{place}: the class has {len(value):,} characters; {most}")
    notes = list(table.notes)
    by_fold: dict[str, str] = {}
    for _, value in pairs:
        if (other := by_fold.setdefault(value.casefold(), value)) != value:
            alike = f"{table.name}: classes {other!r} and {value!r} differ only in upper and lower case"
            notes.append(f"{alike}: they are different classes")
            break
    for note in notes:
        warn(note, stacklevel=2)
    return from_pairs(graph, pairs, places)


def _column(path: Path, columns: list[str], wanted: tuple[str, ...]) -> str:
    from naq.io.tables.roles import plain

    by_name = {plain(column): column for column in reversed(columns)}
    found = next((by_name[name] for name in wanted if name in by_name), None)
    if found is None:
        names = f"named {' or '.join(wanted[:3])} among {', '.join(map(repr, columns[:8]))}"
        raise DataError(f"{path}, line 1: no column {names}; start the file with 'node,class'.")
    return found
