"""Tables where they already are (folders of Parquet parts, DuckDB files), and several tables as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from naq.device import require
from naq.errors import DataError, MissingDependency
from naq.files import file_of
from naq.io.tables.reading import DUCKDB_SUFFIXES, open_parquet, open_table, parquet_parts, readable_parquet, stem
from naq.io.tables.roles import Choice, find_column, id_columns, printable
from naq.io.tables.table import Source, Table, as_text, frame_table, vector_column

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
TYPE, ID = "type", "id"
"""Columns of joined tables: what the table of a row is called, and ids of nodes."""


def in_duckdb(given: Any) -> bool:
    return isinstance(given, str | Path) and Path(given).suffix.lower() in DUCKDB_SUFFIXES


def open_source(given: Any, title: str, choice: Choice) -> Source:
    """A file, a data frame or a dictionary of columns, called ``title`` in messages if it has no path."""
    if isinstance(given, Table):
        return Source.of(given)
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        if path.suffix.lower() in DUCKDB_SUFFIXES:
            what = "edges" if "edges" in title else "nodes"
            return open_duckdb(path, getattr(choice, f"{what}_query"), what)
        return open_parts(path) if parquet_parts(path) else open_table(path, header=choice.header)
    table = frame_table(given, title)
    if not table.columns:
        raise DataError(f"{title} have no columns; give a data frame or a dictionary of columns.")
    return Source.of(table)


def open_parts(folder: Path) -> Source:
    """The rows of all Parquet files under a folder; folders called ``year=2024`` are columns of what is in them."""
    paths = parquet_parts(folder)
    kinds: list[dict[str, Any]] = []
    for path in paths:
        with readable_parquet(path):
            schema = pq.read_schema(file_of(path))
        kinds.append({one.name: one.type for one in schema} | dict.fromkeys(_hive_values(folder, path), pa.string()))
        for name in kinds[0].keys() ^ kinds[-1].keys():
            one, other = (paths[0], path) if name in kinds[0] else (path, paths[0])
            raise DataError(f"{one} has a column {name!r} that {other} does not have; give all parts the same columns.")
        for name, kind in kinds[0].items():
            if kind != kinds[-1][name] and not {kind, kinds[-1][name]} & {pa.null()}:
                types = f"column {name!r} has type {kinds[-1][name]}, but {kind} in {paths[0]}"
                raise DataError(f"{path}: {types}; write all parts with one type.")
    return Source(str(folder), list(kinds[0]), True, partial(_read_parts, folder, paths))


def _hive_values(folder: Path, path: Path) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in path.relative_to(folder).parts[:-1] if "=" in part)
    return {unquote(name): "" if value == NO_VALUE else unquote(value) for name, value in pairs}


def _read_parts(folder: Path, paths: list[Path], wanted: Any) -> Table:
    parts = []
    for path in paths:
        values = _hive_values(folder, path)
        table = open_parquet(path).read([name for name in wanted if name not in values])
        fixed = {name: constant(value, table.rows) for name, value in values.items() if name in wanted}
        parts.append(replace(table, columns=table.columns | fixed))
    return join_tables(parts, str(folder))


def open_duckdb(path: Path, query: str | None, table: str) -> Source:
    """What a query of a DuckDB file gives, or a table or view of it. The file is only read, and reads no others."""
    with _connected(path) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        if query is None and table not in names:
            shown = printable(", ".join(names[:8])) or "none"
            raise DataError(f"{path} has no table {table!r} (it has {shown}); give --{table}-query 'SELECT ...'.")
        found = connection.sql(query or f'FROM "{table}"')
        if found is None:
            raise DataError(f"{path}: --{table}-query is {str(query)[:80]!r}, which gives no table; give a SELECT.")
        batches, size, stream = list[Any](), 0, pa.RecordBatchReader.from_stream(found)
        for batch in stream:
            batches.append(batch)
            size += batch.nbytes
            require(2 * size, f"reading {table} of {path}", "select less", DataError)
    return Source.of(frame_table(pa.Table.from_batches(batches, stream.schema), f"{path.name}, {table}"))


def has_table(path: str | Path, table: str) -> bool:
    with _connected(Path(path).expanduser()) as connection:
        return (table,) in connection.execute("SHOW TABLES").fetchall()


@contextmanager
def _connected(path: Path) -> Iterator[Any]:
    """A connection that only reads; whatever DuckDB has to say is a ``DataError``."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependency(f'{path} is read with DuckDB: pip install "naq[duckdb]".') from error
    try:
        name = str(file_of(path, "DuckDB file"))
        with duckdb.connect(name, read_only=True, config={"enable_external_access": "false"}) as connection:
            yield connection
    except duckdb.Error as error:
        said = printable(str(error).splitlines()[0][:200])
        if isinstance(error, duckdb.ConnectionException) or "lock" in said:
            raise DataError(f"{path} is in use by another program; close it there, or give a copy.") from error
        raise DataError(f"{path} cannot be read by DuckDB ({said}); correct the query, or the file.") from error


def tables_by_type(given: Any) -> dict[str, Any] | None:
    """The tables in a list of paths, by their names, or in a dictionary of tables; None of what is one table."""
    frames = given.values() if isinstance(given, Mapping) else ()
    if frames and all(isinstance(one, str | Path | Mapping) or hasattr(one, "columns") for one in frames):
        return {str(name): one for name, one in given.items()}
    if not isinstance(given, list | tuple) or not all(isinstance(one, str | Path) for one in given):
        return None
    named = {stem(Path(one)): one for one in given}
    if len(named) < len(given):
        twice = next(one for one in given if named[stem(Path(one))] != one)
        raise DataError(f"{twice} and {named[stem(Path(twice))]} have one name, which is their type; rename one.")
    return named


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
