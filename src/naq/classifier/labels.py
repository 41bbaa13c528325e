"""A few labels in any form, as nodes and classes; nodes by name or number; label files."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from naq.classifier.frames import has_nodes, label_table
from naq.errors import DataError, OptionError, warn
from naq.graph import Graph

NODE_COLUMNS, CLASS_COLUMNS = ("node", "id", "name", "node_id", "nodeid"), ("class", "label", "category")
"""Names of the two columns of a label file, in any case; of several, the first of these counts."""
LONGEST_CLASS = 1_000
NodeFinder = Callable[[Sequence[str]], Sequence[int]]
"""Numbers of nodes by their names as a file writes them, below 0 where there is no such node."""


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
        bounds = ("nodes", self.nodes, math.inf), ("class_index", self.class_index, len(self.classes))
        for name, array, most in bounds:
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

    def with_classes(self, names: np.ndarray) -> Labels:
        """The same labels of more classes, which may have none."""
        if len(self.classes) and self.classes.dtype.kind != "U":
            mixed = f"labels have classes like {self.classes[0]!r}, but names of classes were given"
            raise OptionError(f"{mixed}; use names.")
        classes = np.union1d(self.classes.astype(names.dtype if not len(self.classes) else self.classes.dtype), names)
        return Labels(self.nodes, classes, np.searchsorted(classes, self.classes)[self.class_index])

    def merged(self, other: Labels) -> Labels:
        """Both; if they differ about a node, the other's."""
        mine = ~np.isin(self.nodes, other.nodes)
        nodes = np.concatenate([self.nodes[mine], other.nodes])
        return Labels.of(nodes, [*self.values[mine].tolist(), *other.values.tolist()])


def is_unknown(value: Any) -> bool:
    """Whether an entry of ``y`` says that the class is not known: None, NaN, NA, -1 or an empty string.

    >>> [is_unknown(one) for one in (None, float("nan"), -1, "", "a", 0)]
    [True, True, True, True, False, False]
    """
    if value is None or type(value).__name__ == "NAType" or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, float | np.floating) and math.isnan(value):
        return True
    return not isinstance(value, str | bool | np.ndarray) and bool(value == -1)


def to_labels(graph: Graph, given: Any = None, support: Any = None, labels: Any = None) -> Labels:
    """From ``{node: class}``, from ``support`` and ``labels``, from a frame or a Series of pandas by its index, or from
    one entry per node; ``Labels`` are returned."""
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
        advice = f"for those of a file, give naq.classifier.read_labels({str(given)!r}, graph)"
        raise OptionError(f"labels are {str(given)!r}; expected a mapping {{node: class}}; {advice}.")
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    elif has_nodes(given, graph.num_nodes):
        return read_labels(given, graph)
    else:
        values = _items(given)
        if len(values) != graph.num_nodes:
            counts = f"y has {len(values):,} entries but the graph has {graph.num_nodes:,} nodes"
            raise OptionError(f"{counts}; give one per node, None if unknown, or a mapping {{node: class}}.")
        pairs = list(enumerate(values))
    return from_pairs(graph, [(node, value) for node, value in pairs if not is_unknown(value)])


def from_pairs(
    graph: Graph | NodeFinder, pairs: Sequence[tuple[Any, Any]], where: Sequence[str] | None = None
) -> Labels:
    """Checked labels; ``where`` says for messages where each pair was read."""
    check_one_class([value for _, value in pairs])
    numbers = _numbers(graph, [node for node, _ in pairs])
    places = [""] * len(pairs) if where is None else [f"{place}: " for place in where]
    found: dict[int, int] = {}
    for index, ((node, value), number, place) in enumerate(zip(pairs, numbers, places)):
        if number is None or number < 0:
            lost = numbers.count(None)
            more = f" {lost:,} of {len(pairs):,} labels are of no node of this graph." if lost > 1 else ""
            try:
                find_node(graph, node, place)
            except OptionError as error:
                raise OptionError(f"{error}{more}") from error
        before = found.setdefault(int(number or 0), index)
        if pairs[before][1] != value:
            first = f"{pairs[before][1]!r} before" + (f" ({where[before]})" if where is not None else "")
            raise OptionError(f"{place}node {node!r} has the class {value!r}, but {first}; keep one of them.")
    nodes = sorted(found)
    return Labels.of(nodes, [pairs[found[node]][1] for node in nodes])


def check_one_class(values: Sequence[Any]) -> None:
    """An ``OptionError`` if classes are lists, or lists in a cell, ``a|b`` or ``a;b``: of parts that are all classes
    elsewhere, or most of parts that recur."""
    several = next((value for value in values if isinstance(value, Collection) and not isinstance(value, str)), None)
    texts = Counter(value for value in values if isinstance(value, str))
    for mark in "|;":
        split = {text: {part.strip() for part in text.split(mark)} for text in texts}
        cells, parts = [text for text in texts if mark in text], Counter(part for one in split.values() for part in one)
        recurring = [text for text in cells if any(parts[part] > 1 for part in split[text])]
        most = 2 * sum(texts[text] for text in cells) > len(values) and 2 * len(recurring) > len(cells)
        joined = [text for text in cells if len(split[text]) > 1 and split[text] <= texts.keys()]
        several = next(iter(joined), recurring[0] if most else several)
    if several is not None:
        advice = "keep one, or fit once for each class against the rest; a name of one class needs no | or ;"
        raise OptionError(f"labels hold {several!r}, which is several classes, but a node gets one: {advice}.")


def check_enough(labels: Labels, place: str = "") -> Labels:
    """The labels, once there are two classes; ``place`` begins the message."""
    if len(labels.classes) < 2:
        what = f"only of {str(labels.classes[0])!r}" if len(labels.classes) else "of no class"
        raise OptionError(f"{place}there are labels {what}; give labels of at least two classes.")
    return labels


def _numbers(graph: Graph | NodeFinder, nodes: Sequence[Any]) -> list[int | None]:
    """:func:`node_number` of each."""
    if isinstance(graph, Graph):
        return [node_number(graph, node) for node in nodes]
    return [None if number < 0 else int(number) for number in graph(nodes)]


def find_node(graph: Graph | NodeFinder, node: Any, place: str = "") -> int:
    """The number of a node: a name of the graph, or a number; ``place`` begins the message of the error."""
    if not isinstance(graph, Graph):
        raise OptionError(f"{place}there is no node {node!r}; expected an id of the table of nodes.")
    number = node_number(graph, node)
    if number is not None and number >= 0:
        return number
    if number is not None:
        raise OptionError(f"{place}several nodes are named {node!r}; give the number of the one that is meant.")
    numbers = f"a number from 0 to {graph.num_nodes - 1}"
    if not isinstance(node, str):
        raise OptionError(f"{place}there is no node {node!r}; expected a name or {numbers}.")
    known, folded = list(_names(graph)), node.strip().casefold()
    close = [name for name in known if name.strip().casefold() == folded][:3]
    if close := close or difflib.get_close_matches(node, known, n=3, cutoff=0.6):
        raise OptionError(f"{place}there is no node {node!r}; did you mean {' or '.join(map(repr, close))}?")
    example = f", e.g. {known[0]!r}" if known else ""
    other = "" if _mostly_numbers(graph) else f" or {numbers}"
    raise OptionError(f"{place}there is no node {node!r}; expected a name of the graph{example}{other}.")


def node_number(graph: Graph, node: Any) -> int | None:
    """The number of a node by its name or number; None if there is no such node, -1 if several have the name.

    If most names are numbers, a number in a string that is not a name is a mistake and not the number of a node.
    """
    if isinstance(node, str):
        names = _names(graph)
        digits = node.isascii() and node.isdigit() and len(node) < 20
        if node in names or not digits or _mostly_numbers(graph):
            return names.get(node)
        node = int(node)
    whole = isinstance(node, int | np.integer) and not isinstance(node, bool | np.bool_)
    return int(node) if whole and 0 <= node < graph.num_nodes else None


def node_name(graph: Graph, node: int) -> str:
    """The name of a node; its number if the graph has no names."""
    return str(graph.names[node]) if graph.names is not None else str(node)


def _names(graph: Graph) -> dict[str, int]:
    """Every name with its node, -1 if several have it."""

    def make() -> dict[str, int]:
        found: dict[str, int] = {}
        for number, name in enumerate([] if graph.names is None else graph.names.tolist()):
            found[name] = -1 if name in found else number
        return found

    return graph.kept("classifier/names", make)


def _mostly_numbers(graph: Graph) -> bool:
    def make() -> bool:
        names = _names(graph)
        return 2 * sum(name.isascii() and name.isdigit() for name in names) > len(names)

    return graph.kept("classifier/numbered", make)


def _items(values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise OptionError(f"labels are {values!r}; expected a mapping {{node: class}}, or one entry per node.")
    return list(values.tolist() if hasattr(values, "tolist") else values)


def read_labels(source: Any, graph: Graph | NodeFinder) -> Labels:
    """The labels of a table with the columns ``node`` and ``class``; rows without a class are not labels yet.

    Args:
        graph: or where it is not in memory, a function that finds its nodes by name.

    Text, Parquet, or a frame (:func:`~naq.classifier.frames.label_table`), read as tables of nodes are; other columns
    are not read. Spaces around cells do not count. Of a table of two columns with other names, nodes are the column
    that holds names of nodes, and a warning says so.
    """
    pairs, places, notes = read_label_rows(source, graph)
    by_fold: dict[str, str] = {}
    for value in (value for _, value in pairs if isinstance(value, str)):
        if (other := by_fold.setdefault(value.casefold(), value)) != value:
            differ = f"classes {other!r} and {value!r} differ only in upper and lower case"
            notes.append(f"{places[0].rpartition(', ')[0]}: {differ}: they are different classes")
            break
    names = _names(graph) if isinstance(graph, Graph) and not _mostly_numbers(graph) else {}
    if names and not any(node in names for node, _ in pairs):
        numbers = f"nodes are numbers, e.g. {pairs[0][0]}, though those of the graph have names"
        notes.append(f"{places[0].rpartition(', ')[0]}: {numbers}: they are taken as places in the graph, from 0")
    labels = from_pairs(graph, pairs, places)
    for note in notes:
        warn(note, stacklevel=2)
    return labels


def read_label_rows(source: Any, graph: Graph | NodeFinder) -> tuple[list[tuple[str, Any]], list[str], list[str]]:
    """Node and class of every row that has a class, as written; where each row is; notes on how the file was read.

    Arguments as of :func:`read_labels`; nodes are only looked up where titles do not say which column holds them."""
    from naq.files import unescape_cell
    from naq.io.tables.reading import open_table
    from naq.io.tables.table import frame_table

    frame, path = None if isinstance(source, str | Path) else label_table(source), Path("labels")
    if frame is None:
        path = Path(source)
        file = open_table(path, header=True)
        titles = file.columns if len(file.columns) == 2 else label_columns(path, file.columns)
        table = file.read(titles)
    else:
        names = frame.column_names
        titles = names if len(names) == 2 else label_columns(path, names)
        for column in frame.select(titles).columns:  # lists, which tables of features take for vectors
            check_one_class([value for value in column.to_pylist() if not isinstance(value, str)])
        table = frame_table(frame.select(titles), path.name)
    if table.dropped:
        place, other = table.dropped[0].places[0], "another number of cells than the first line has"
        raise DataError(f"{place}: {other}; quote cells that hold the separator.")
    notes = list(table.notes)
    try:
        titles = label_columns(path, titles)
    except DataError:
        first = _node_column(graph, titles, [table.texts(name) for name in titles])
        if first is None:
            raise
        titles = [titles[first], titles[1 - first]]
        notes.append(f"{table.name}: nodes are the column {titles[0]!r}, classes the column {titles[1]!r}")
    nodes = table.texts(titles[0])
    values = table.texts(titles[1]) if frame is None else frame.column(titles[1]).to_pylist()  # numbers stay numbers
    classes = [unescape_cell(value.strip()) if isinstance(value, str) else value for value in values]
    rows = [row for row, value in enumerate(classes) if (value if frame is None else not is_unknown(value))]
    if not rows:
        raise DataError(f"{path} holds no label: no line has a class in the column {titles[1]!r}; fill in some.")
    places = table.places(rows)
    pairs = [(unescape_cell(nodes[row].strip()), classes[row]) for row in rows]
    for (node, value), place in zip(pairs, places):
        if not node:
            raise DataError(f"{place}: the class {str(value)[:60]!r} has no node; name the node.")
        if isinstance(value, str) and len(value) > LONGEST_CLASS:
            most = f"expected at most {LONGEST_CLASS:,}: is it the right column?"
            raise DataError(f"{place}: the class has {len(value):,} characters; {most}")
    return pairs, places, notes


def _node_column(graph: Graph | NodeFinder, titles: Sequence[str], columns: Sequence[Sequence[str]]) -> int | None:
    """Which of two columns holds nodes if the titles do not say so; None if neither does, both do, or titles are nodes.

    Titles that are nodes are those of a table without a header: its first label would be lost. Numbers are nodes only
    if the graph has no names: they may be classes.
    """
    from naq.files import unescape_cell

    names = _names(graph) if isinstance(graph, Graph) else {}

    def count(cells: Sequence[str]) -> int:
        written = [unescape_cell(cell.strip()) for cell in cells]
        return sum(name in names for name in written) if names else len(cells) - _numbers(graph, written).count(None)

    if count(titles):
        return None
    one, two = map(count, columns)
    return None if one == two or 2 * max(one, two) <= len(columns[0]) else int(two > one)


def label_columns(path: Path, columns: list[str]) -> list[str]:
    """The titles of nodes and of classes among those of a table; a ``DataError`` if one is missing."""
    from naq.io.tables.roles import normalize_name

    by_name, found = {normalize_name(column): column for column in reversed(columns)}, list[str]()
    for wanted in (NODE_COLUMNS, CLASS_COLUMNS):
        title = next((by_name[name] for name in wanted if name in by_name), None)
        if title is None:
            names = f"named {' or '.join(wanted[:3])} among {', '.join(map(repr, columns[:8]))}"
            raise DataError(f"{path}, line 1: no column {names}; start the file with 'node,class'.")
        found.append(title)
    return found
