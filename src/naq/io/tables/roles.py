"""Which column is what: as the user says, by the names that people and programs give columns, or by the cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import DataError
from naq.io.tables.table import Table
from naq.options import did_you_mean


@dataclass(frozen=True)
class Choice:
    """Columns by what they are for; what is not named is detected. Where several may be named, one name will do.

    Args:
        source, target: the two ends of an edge.
        weight: weights of edges; a row with weight 0 is not an edge, a negative one is an error.
        id: names of nodes.
        label: classes; an empty cell is an unknown class.
        text, numeric, categorical: features of nodes. Where any feature is named, only those named are used.
        vector: columns of lists, prefixes of numbered columns (``v`` for v0, v1, ...), ``.npy`` files or arrays.
        display: names of nodes to show in place of ids.
        ignore: columns that are not read, of nodes or of edges: what says the class in other words.
        keep: whether the graph keeps the cells of the table, to look at and to encode.
        text_encoder: a model whose sentence vectors of the text are features too (:func:`naq.text.encode`).
        header: whether the first row of a text file holds names; seen from its cells if None.
        edge_type: what kind of edge a row is; an empty cell is none.
        directed: whether edges lead from source to target; if None, a table's go both ways, and others as they are.
        edges_query, nodes_query: SQL for what is read of a DuckDB file; without it, its tables edges and nodes.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    id: str | None = None
    label: str | None = None
    text: str | Sequence[str] = ()
    numeric: str | Sequence[str] = ()
    categorical: str | Sequence[str] = ()
    vector: Any = ()
    header: bool | None = None
    display: str | None = None
    keep: bool = True
    text_encoder: str | Path | None = None
    ignore: str | Sequence[str] = ()
    directed: bool | None = None
    edge_type: str | None = None
    edges_query: str | None = None
    nodes_query: str | None = None

    def __post_init__(self) -> None:
        for name in ("text", "numeric", "categorical", "vector", "ignore"):
            given = getattr(self, name)
            one = isinstance(given, str | Path | np.ndarray)
            object.__setattr__(self, name, (given,) if one else tuple(given))

    @property
    def names_features(self) -> bool:
        return bool(self.text or self.numeric or self.categorical or self.vector)


ENDS = (
    ("source", "target"), ("src", "dst"), ("source", "dest"), ("source", "destination"), ("from", "to"), ("start",
    "end"), ("head", "tail"), ("u", "v"), ("node1", "node2"), ("node_1", "node_2"), ("id1", "id2"), ("id_1", "id_2"),
    ("citing", "cited"), ("follower", "followee"), ("origin", "destination"), ("origin", "dest"), ("sender",
    "receiver"), ("sender", "recipient"), ("payer", "payee"), ("buyer", "seller"), ("caller", "callee"), ("parent",
    "child"), ("departure", "arrival"),
)  # fmt: skip
"""Names of the two columns of an edge list; also followed by ``_id``, ``id``, ``_node`` or ``node``, and Neo4j's."""
IDS = ("id", "node_id", "nodeid", "node", "key", "name", "title")
LABELS = ("label", "class", "y")
WEIGHTS = ("weight", "w", "count")
EDGE_TYPES = ("type", "edge_type", "relation", "rel", "label")
NAMES = ("name", "title", "label", "display_name", "word", "term")
_NEO4J = re.compile(r"(?P<name>[^:]*):(?P<kind>[A-Za-z_]+)(?P<array>\[\])?(\(.*\))?(\{.*\})?")


def normalize_name(column: str) -> str:
    """A column's name for comparison: lower case; Neo4j's ``paper:ID(Paper)`` is ``id``, ``year:int`` is ``year``."""
    found = _NEO4J.fullmatch(column.strip())
    if found is not None:
        kind = found["kind"].lower()
        if kind in ("id", "start_id", "end_id", "label", "type"):
            return {"start_id": "start", "end_id": "end"}.get(kind, kind)
        column = found["name"]
    return re.sub(r"[\s.-]+", "_", column.strip().lower()).strip("_")


def display_name(column: str) -> str:
    """A column's name in the report and in ``vocab``: without Neo4j's type."""
    found = _NEO4J.fullmatch(column.strip())
    return found["name"] if found is not None and found["name"] else column.strip()


def printable(text: str) -> str:
    """Without what could steer a terminal: cells and names come from files of others."""
    return "".join(c if c.isprintable() else "?" for c in text)


def array_kind(column: str) -> str:
    """Neo4j's type of a column of arrays: ``string`` for ``towns:string[]``; "" for other columns."""
    found = _NEO4J.fullmatch(column.strip())
    return found["kind"].lower() if found is not None and found["array"] else ""


def known_name(cell: str) -> bool:
    """Whether a cell of the first row is a name that columns have."""
    names = {name for pair in ENDS for name in pair} | set(IDS) | set(LABELS)
    return bool(cell.strip()) and _end(normalize_name(cell)) in names


def find_column(column: str, columns: Sequence[str], flag: str, title: str) -> str:
    """The column that was asked for, in any case; the nearest names if missing."""
    for match in (lambda c: c == column, lambda c: c.lower() == column.lower(), lambda c: display_name(c) == column):
        found = [c for c in columns if match(c)]
        if found:
            return found[0]
    raise DataError(f"{title} has no column {column!r} ({flag}); {did_you_mean(column, columns)}")


def ends(columns: Sequence[str], source: str | None, target: str | None, title: str, header: bool) -> tuple[str, str]:
    """The two columns of an edge list: those named, else those with known names, else the first two."""
    if len(columns) < 2:
        raise DataError(f"{title} has one column ({columns[0]!r}); expected an edge list with two or more.")
    a = None if source is None else find_column(source, columns, "--source", title)
    b = None if target is None else find_column(target, columns, "--target", title)
    if a is not None and a == b:
        raise DataError(f"{title}: --source and --target are both {a!r}; give two columns.")
    by_name = {_end(normalize_name(c)): c for c in reversed(columns)}
    for first, second in ENDS:
        pair = a or by_name.get(first), b or by_name.get(second)
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
    """``a.name`` and ``b.name``, as Neo4j's browser calls the columns of ``RETURN a.name, b.name``."""
    by_ending: dict[str, list[str]] = {}
    for column in columns:
        variable, dot, ending = column.partition(".")
        if variable and dot and ending:
            by_ending.setdefault(ending, []).append(column)
    pairs = [those for those in by_ending.values() if len(those) > 1]
    return (pairs[0][0], pairs[0][1]) if len(pairs) == 1 and len(pairs[0]) == 2 else None


def id_columns(columns: Sequence[str]) -> list[str]:
    """The columns that may hold node ids, likeliest first: by name (also Cypher's ``n.id``), then in their order."""
    by_name = {normalize_name(c).rpartition("n_")[2]: c for c in reversed(columns)}
    known = [by_name[name] for name in IDS if name in by_name]
    return list(dict.fromkeys([*known, *columns]))


def known_column(columns: Sequence[str], asked: str | None, flag: str, known: Sequence[str], title: str) -> str | None:
    """The column that was asked for by a flag, else the first that has one of the ``known`` names."""
    if asked is not None:
        return find_column(asked, columns, flag, title)
    by_name = {normalize_name(c): c for c in reversed(columns)}
    return next((by_name[name] for name in known if name in by_name), None)


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
    samples = {name: [cell for cell in edges.codes(name)[1] if cell] for name in edges.columns}
    samples = {name: cells[:: max(1, len(cells) // SAMPLED)] for name, cells in samples.items()}
    for column in nodes.columns:
        held = set(nodes.codes(column)[1]) - {""}
        if 2 * len(held) < nodes.rows:  # ids are different from row to row
            continue
        found = [name for name, cells in samples.items() if sum(cell in held for cell in cells) > MOST * len(cells)]
        if len(found) == 2:
            return found[0], found[1]
    return None


def are_ids(cells: Sequence[str], nodes: Table) -> bool:
    """Whether all cells are in one column of nodes: then a row of them is an edge and no header."""
    wanted = {cell.strip() for cell in cells}
    return any(wanted <= set(nodes.codes(column)[1]) for column in nodes.columns)
