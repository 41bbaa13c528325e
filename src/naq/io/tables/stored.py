"""Tables where they already are: folders of Parquet parts, and DuckDB files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from naq.device import require
from naq.errors import DataError, MissingDependency
from naq.files import file_of
from naq.io.tables.reading import open_parquet, parquet_parts, readable_parquet
from naq.io.tables.roles import printable
from naq.io.tables.table import Source, Table, frame_table
from naq.io.tables.types import constant, join_tables

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


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


def has_table(path: Path, table: str) -> bool:
    with _connected(path) as connection:
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
