"""Several tables as one: a table for every type of nodes, or of edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from naq.errors import DataError
from naq.io.tables.reading import stem
from naq.io.tables.roles import Choice, find_column, id_columns
from naq.io.tables.table import Table, as_text, vector_column

TYPE, ID = "type", "id"
"""Columns of joined tables: what the table of a row is called, and ids of nodes."""


def tables_by_type(given: Any) -> dict[str, Any] | None:
    """The tables in a list of paths, by their names, or in a dictionary of tables; None of what is one table."""
    if isinstance(given, Mapping) and given and all(_is_table(one) for one in given.values()):
        return {str(name): one for name, one in given.items()}
    if not isinstance(given, list | tuple) or not all(isinstance(one, str | Path) for one in given):
        return None
    named = {stem(Path(one)): one for one in given}
    if len(named) < len(given):
        twice = next(one for one in given if named[stem(Path(one))] != one)
        raise DataError(f"{twice} and {named[stem(Path(twice))]} have one name, which is their type; rename one.")
    return named


def _is_table(given: Any) -> bool:
    frame = hasattr(given, "columns") or hasattr(given, "column_names")
    return frame or isinstance(given, str | Path | Mapping)


def join_nodes(tables: Mapping[str, Table], choice: Choice) -> tuple[Table, Choice]:
    """All nodes, with their type as a category, and the choice of columns for that."""
    kind = TYPE if not any(TYPE in table.columns for table in tables.values()) else "type of node"
    parts, owner = [], dict[str, str]()
    for name, table in tables.items():
        key = id_columns(list(table.columns))[0]
        key = key if choice.id is None else find_column(choice.id, list(table.columns), "--id", table.title)
        others = {one: cells for one, cells in table.columns.items() if one not in (key, ID)}
        columns = {ID: table.columns[key], **others, kind: constant(name, table.rows)}
        parts.append(replace(table, columns=columns))
        for one in parts[-1].codes(ID)[1]:
            if one and owner.setdefault(one, table.name) != table.name:
                why = "ids differ between types of nodes, e.g. author/1 and paper/1"
                raise DataError(f"node {one!r} is in {owner[one]} and in {table.name}; {why}: change one of them.")
    named = replace(choice, id=ID)
    return join_tables(parts, "the nodes"), (
        replace(named, categorical=(*choice.categorical, kind)) if choice.names_features else named
    )


def constant(text: str, rows: int) -> Any:
    """A column of equal cells."""
    return pa.chunked_array([pa.repeat(pa.scalar(text), rows)])


def join_tables(tables: Sequence[Table], title: str) -> Table:
    """The rows of one table after those of another; where a table has no such column, its cells are missing."""
    columns, starts = {}, np.cumsum([0, *(table.rows for table in tables)])
    for name in dict.fromkeys(name for table in tables for name in table.columns):
        given = [table.columns.get(name) for table in tables]
        kinds = {one.type for one in given if one is not None}
        if len(kinds) > 1 or (None in given and kinds == {pa.int64()}):
            numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
            given = [one and (one.cast(pa.float64()) if numbers else as_text(one)) for one in given]
        kind = next(one.type for one in given if one is not None)
        filled = [_missing(kind, table.rows) if one is None else one for one, table in zip(given, tables)]
        columns[name] = pa.chunked_array([chunk for one in filled for chunk in one.chunks], kind)

    def places(rows: Sequence[int]) -> list[str]:
        of = np.searchsorted(starts, rows, side="right") - 1
        return [tables[place].place(row - int(starts[place])) for place, row in zip(of.tolist(), rows)]

    comma, typed = any(table.decimal_comma for table in tables), all(table.typed for table in tables)
    dropped, notes = ([one for table in tables for one in getattr(table, part)] for part in ("dropped", "notes"))
    return Table(title, columns, int(starts[-1]), places, comma, dropped, notes, typed)


def _missing(kind: Any, rows: int) -> Any:
    """A column of missing cells."""
    if pa.types.is_fixed_size_list(kind):
        return vector_column(np.full((rows, kind.list_size), np.nan, dtype=np.float32))
    return constant("", rows) if pa.types.is_string(kind) else pa.chunked_array([pa.nulls(rows, kind)])
