"""Which column is what: as a person says it, by the names that people and programs give columns, or by what the cells hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naq.errors import DataError
from naq.io.tables.columns import Table, stripped
from naq.options import nearest


@dataclass(frozen=True)
class Choice:
    """Columns by what they are for; what is not named is detected.

    Args:
        source, target: the two ends of an edge.
        weight: a row with weight 0 is no edge; a negative one is an error. Graphs have no weights beyond that.
        id: names of nodes.
        label: classes; an empty cell is an unknown class.
        text, numeric, categorical: features of nodes. Where any feature is named, only those named are used.
        vector: columns of lists, prefixes of numbered columns (``v`` for v0, v1, ...), ``.npy`` files or arrays.
        display: names of nodes to show in place of ids.
        ignore: columns of nodes that are not read: what says the class in other words.
        keep: whether the graph keeps the cells of the table, to look at and to encode.
        text_encoder: a model whose sentence vectors of the text are features too (:func:`naq.text.encode`).
        header: whether the first row of a text file holds names; seen from its cells if None.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    id: str | None = None
    label: str | None = None
    text: Sequence[str] = ()
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    vector: Sequence[Any] = ()
    header: bool | None = None
    display: str | None = None
    keep: bool = True
    text_encoder: str | Path | None = None
    ignore: Sequence[str] = ()

    @property
    def names_features(self) -> bool:
        return bool(self.text or self.numeric or self.categorical or self.vector)


ENDS = (
    ("source", "target"), ("src", "dst"), ("source", "dest"), ("source", "destination"), ("from", "to"), ("start",
    "end"), ("head", "tail"), ("u", "v"), ("node1", "node2"), ("node_1", "node_2"), ("id1", "id2"), ("id_1", "id_2"),
    ("citing", "cited"), ("follower", "followee"),
)  # fmt: skip
"""Names of the two columns of an edge list; also with ``_id``, ``id``, ``_node``, ``node`` behind, and Neo4j's ``:START_ID``."""
IDS = ("id", "node_id", "nodeid", "node", "key", "name", "title")
LABELS = ("label", "class", "y")
NAMES = ("name", "title", "label", "display_name", "word", "term")
_NEO4J = re.compile(r"(?P<name>[^:]*):(?P<kind>[A-Za-z_]+)(?P<array>\[\])?(\(.*\))?(\{.*\})?")


def plain(column: str) -> str:
    """A column's name as it is compared: lower case; Neo4j's ``paper:ID(Paper)`` is ``id``, ``year:int`` is ``year``."""
    found = _NEO4J.fullmatch(column.strip())
    if found is not None:
        kind = found["kind"].lower()
        if kind in ("id", "start_id", "end_id", "label", "type"):
            return {"start_id": "start", "end_id": "end"}.get(kind, kind)
        column = found["name"]
    return re.sub(r"[\s.-]+", "_", column.strip().lower()).strip("_")


def shown(column: str) -> str:
    """A column's name in the report and in ``vocab``: without Neo4j's type."""
    found = _NEO4J.fullmatch(column.strip())
    return found["name"] if found is not None and found["name"] else column.strip()


def printable(text: str) -> str:
    """Without what could steer a terminal: cells and names come from files of others."""
    return "".join(c if c.isprintable() else "?" for c in text)


def array_kind(column: str) -> str:
    """Neo4j's type of a column of arrays, divided by semicolons: ``string`` for ``towns:string[]``; "" for other columns."""
    found = _NEO4J.fullmatch(column.strip())
    return found["kind"].lower() if found is not None and found["array"] else ""


def known_name(cell: str) -> bool:
    """Whether a cell of the first row is a name that columns have."""
    names = {name for pair in ENDS for name in pair} | set(IDS) | set(LABELS)
    return bool(cell.strip()) and _end(plain(cell)) in names


def named(column: str, columns: Sequence[str], flag: str, title: str) -> str:
    """The column that was asked for, in any case; the nearest names where there is none."""
    for match in (lambda c: c == column, lambda c: c.lower() == column.lower(), lambda c: shown(c) == column):
        found = [c for c in columns if match(c)]
        if found:
            return found[0]
    raise DataError(f"{title} has no column {column!r} ({flag}); {nearest(column, columns)}")


def ends(columns: Sequence[str], source: str | None, target: str | None, title: str, header: bool) -> tuple[str, str]:
    """The two columns of an edge list: those named, else those whose names are known, else the first two of a file without header."""
    if len(columns) < 2:
        raise DataError(f"{title} has one column ({columns[0]!r}); expected an edge list with two or more.")
    if source is not None or target is not None:
        a = named(source, columns, "--source", title) if source is not None else None
        b = named(target, columns, "--target", title) if target is not None else None
        if a is not None and a == b:
            raise DataError(f"{title}: --source and --target are both {a!r}; give two columns.")
        if a is not None and b is not None:
            return a, b
    by_name = {_end(plain(c)): c for c in reversed(columns)}
    for first, second in ENDS:
        pair = (by_name.get(first), by_name.get(second))
        if source is not None:
            pair = (a, pair[1])
        if target is not None:
            pair = (pair[0], b)
        if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
            return pair[0], pair[1]
    if source is None and target is None:
        if not header:
            return columns[0], columns[1]
        if (found := _of_cypher(columns)) is not None:
            return found
    some = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
    flag = "--target" if source is not None else "--source" if target is not None else "--source and --target"
    raise DataError(
        f"{title} has no columns with names like source and target (it has {some}); "
        f"name them with {flag}, or give --no-header if the first row is an edge."
    )


def _of_cypher(columns: Sequence[str]) -> tuple[str, str] | None:
    """``a.name`` and ``b.name``, as Neo4j's browser calls what ``RETURN a.name, b.name`` gives: the one pair of equal endings."""
    by_ending: dict[str, list[str]] = {}
    for column in columns:
        variable, dot, ending = column.partition(".")
        if variable and dot and ending:
            by_ending.setdefault(ending, []).append(column)
    pairs = [those for those in by_ending.values() if len(those) > 1]
    return (pairs[0][0], pairs[0][1]) if len(pairs) == 1 and len(pairs[0]) == 2 else None


def id_columns(columns: Sequence[str]) -> list[str]:
    """The columns that may hold node ids, likeliest first: by name (also Cypher's ``n.id``), then in their order."""
    by_name = {plain(c).rpartition("n_")[2]: c for c in reversed(columns)}
    known = [by_name[name] for name in IDS if name in by_name]
    return list(dict.fromkeys([*known, *columns]))


def label_column(columns: Sequence[str], asked: str | None, title: str) -> str | None:
    """The column of classes: the one named, else one called label, class or y."""
    if asked is not None:
        return named(asked, columns, "--label", title)
    by_name = {plain(c): c for c in reversed(columns)}
    return next((by_name[name] for name in LABELS if name in by_name), None)


def name_column(columns: Sequence[str], asked: str | None, title: str) -> str | None:
    """The column of names to show: the one named, else one called name, title or the like."""
    if asked is not None:
        return named(asked, columns, "--display", title)
    by_name = {plain(c): c for c in reversed(columns)}
    return next((by_name[name] for name in NAMES if name in by_name), None)


def _end(name: str) -> str:
    for tail in ("_node_id", "_nodeid", "node_id", "nodeid", "_node", "_id", "node", "id"):
        shorter = name.removesuffix(tail)
        if shorter != name and any(shorter in pair for pair in ENDS):
            return shorter
    return name


SAMPLED = 1_000
MOST = 0.9
"""The share of a column's cells that must be ids of nodes."""


def ends_by_cells(edges: Table, nodes: Table) -> tuple[str, str] | None:
    """The two columns of edges that hold cells of one column of nodes; None where there are not exactly two."""
    samples = {name: [cell for cell in stripped(column)[1] if cell] for name, column in edges.columns.items()}
    samples = {name: cells[:: max(1, len(cells) // SAMPLED)] for name, cells in samples.items()}
    for column in nodes.columns.values():
        held = set(stripped(column)[1]) - {""}
        if 2 * len(held) < nodes.rows:  # ids are different from row to row
            continue
        found = [name for name, cells in samples.items() if sum(cell in held for cell in cells) > MOST * len(cells)]
        if len(found) == 2:
            return found[0], found[1]
    return None


def are_ids(cells: Sequence[str], nodes: Table) -> bool:
    """Whether all cells are in one column of nodes: then a row of them is an edge and no header."""
    wanted = {cell.strip() for cell in cells}
    return any(wanted <= set(stripped(column)[1]) for column in nodes.columns.values())
