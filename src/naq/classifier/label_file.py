"""Labels in a file: a column of nodes and a column of classes."""

from __future__ import annotations

import warnings
from pathlib import Path

from naq.classifier.labels import Labels, from_pairs, node_column
from naq.errors import DataError
from naq.files import as_written
from naq.graph import Graph
from naq.io.tables.columns import Table
from naq.io.tables.formats import read_table
from naq.io.tables.roles import plain

NODE_COLUMNS, CLASS_COLUMNS = ("node", "id", "name", "node_id", "nodeid"), ("class", "label", "category")
"""Names of the two columns, in any case; where there are several, the first of these counts."""

LONGEST_CLASS = 1_000


def read_labels(path: str | Path, graph: Graph) -> Labels:
    """The labels of a table with the columns ``node`` and ``class``; a row without a class is one that nobody labelled yet.

    Text or Parquet, read as tables of nodes are; other columns are not read. Spaces around cells do not count. Of a table of two columns
    with other names, nodes are the column that holds names of nodes, and a note says so.
    """
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
        raise DataError(
            f"{table.dropped[0].places[0]}: another number of cells than the first line has; quote cells that hold the separator."
        )
    titles = list(table.columns)
    if unnamed:
        titles = _by_cells(table, graph, unnamed[0])
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
            raise DataError(
                f"{place}: the class has {len(value):,} characters; expected at most {LONGEST_CLASS:,}: is it the right column?"
            )
    _warn(table, pairs)
    return from_pairs(graph, pairs, places)


def _column(path: Path, columns: list[str], wanted: tuple[str, ...]) -> str:
    by_name = {plain(column): column for column in reversed(columns)}
    found = next((by_name[name] for name in wanted if name in by_name), None)
    if found is None:
        raise DataError(
            f"{path}, line 1: no column named {' or '.join(wanted[:3])} among {', '.join(map(repr, columns[:8]))}; start the file "
            "with 'node,class'."
        )
    return found


def _by_cells(table: Table, graph: Graph, unnamed: DataError) -> list[str]:
    """The column that holds names of nodes, and the other one."""
    titles = list(table.columns)
    first = node_column(graph, titles, [column.strings() for column in table.columns.values()])
    if first is None:
        raise unnamed
    titles = [titles[first], titles[1 - first]]
    table.notes.append(f"{table.name}: nodes are the column {titles[0]!r}, classes the column {titles[1]!r}")
    return titles


def _warn(table: Table, pairs: list[tuple[str, str]]) -> None:
    notes = list(table.notes)
    by_fold: dict[str, str] = {}
    for _, value in pairs:
        other = by_fold.setdefault(value.casefold(), value)
        if other != value:
            notes.append(
                f"{table.name}: classes {other!r} and {value!r} differ only in upper and lower case: they are different classes"
            )
            break
    for note in notes:
        warnings.warn(note, stacklevel=3)
