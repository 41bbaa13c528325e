"""Tables: named columns of equal length in pyarrow's memory, from files, data frames, dictionaries or NetworkX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naq.device import require
from naq.errors import DataError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
"""Cells of missing values, in any case, in columns of numbers, categories, vectors and labels."""
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
"""1,234 and 1,234,567.8, as spreadsheets show them; where 3,5 is a number, 1.234,5 is read instead."""
_GROUPED_BY_DOTS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+", re.ASCII)
_UNITS = "%€$£¥ \u00a0"
"""Ignored around a number: all numbers of a column have the same unit."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def is_missing(cell: str) -> bool:
    return len(cell) < 5 and cell.lower() in MISSING


def parse_number(cell: str, decimal_comma: bool = False) -> float | None:
    """The finite number that a cell holds, NaN where it is missing, None where it holds anything else."""
    cell = cell.strip()
    if is_missing(cell):
        return float("nan")
    cell = cell.strip(_UNITS)
    if decimal_comma:
        if cell.count(",") == 1 and ("." not in cell or _GROUPED_BY_DOTS.fullmatch(cell)):
            cell = cell.replace(".", "").replace(",", ".")
    elif _GROUPED.fullmatch(cell):
        cell = cell.replace(",", "")
    if not _NUMBER.fullmatch(cell):
        return None
    value = float(cell)
    return value if np.isfinite(value) else None


class BadCell(Exception):
    """A cell that is not of the kind its column should have."""

    def __init__(self, row: int, cell: str) -> None:
        super().__init__(cell)
        self.row, self.cell = row, cell


@dataclass
class Dropped:
    """Rows that were not used: why, how many, and where the first are."""

    why: str
    count: int
    places: list[str] = field(default_factory=list)


@dataclass
class Table:
    """Named columns of equal length.

    Attributes:
        title: the file's path, or what it is called in messages.
        columns: pyarrow's chunked arrays of text, of numbers, or of lists of equally many numbers.
        places: names rows by their numbers: ``edges.csv, line 12``.
        decimal_comma: whether 3,5 is a number here.
        dropped: rows that could not be read.
        notes: what a person should know of how it was read.
        typed: whether text is text: in a delimited file, all is.
    """

    title: str
    columns: dict[str, Any]
    rows: int
    places: Callable[[Sequence[int]], list[str]]
    decimal_comma: bool = False
    dropped: list[Dropped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    typed: bool = True

    @property
    def name(self) -> str:
        """The title without folders."""
        return self.title.rpartition("/")[2]

    def place(self, row: int) -> str:
        return self.places([row])[0]

    def texts(self, column: str) -> list[str]:
        """The cells as they are; a missing one is ""."""
        values = self.columns[column]
        if _is_text(values.type):
            return list(values.to_pylist())
        codes, distinct = self.codes(column)
        return [distinct[code] for code in codes.tolist()]

    def is_text(self, column: str) -> bool:
        return _is_text(self.columns[column].type)

    def codes(self, *columns: str) -> tuple[np.ndarray, list[str]]:
        """Codes of the cells, column after column, and the distinct cells, without spaces around them."""
        given = [self.columns[column] for column in columns]
        chunks = [chunk for values in given for chunk in as_text(values).chunks]
        coded = pc.dictionary_encode(pa.chunked_array(chunks, pa.string())).combine_chunks()
        if isinstance(coded, pa.ChunkedArray):  # no rows
            return np.empty(0, dtype=np.int32), []
        codes, distinct = coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
        known: dict[str, int] = {}
        place = np.array([known.setdefault(value.strip(), len(known)) for value in distinct], dtype=np.int32)
        return (codes, list(known)) if len(known) == len(distinct) else (place[codes], list(known))

    def numbers(self, column: str) -> np.ndarray:
        """float64 (rows,), NaN where a cell is missing; ``BadCell`` where one is not a finite number."""
        values = self.columns[column]
        if not _is_text(values.type) and not pa.types.is_fixed_size_list(values.type):
            found = np.asarray(values.to_numpy(), dtype=np.float64)
            wrong = np.flatnonzero(np.isinf(found))
            if len(wrong):
                raise BadCell(int(wrong[0]), str(found[wrong[0]]))
            return found
        try:  # pyarrow reads fewer ways to write a number, and also "inf": then the slow way decides
            found = pc.cast(pc.if_else(pc.equal(values, ""), None, values), pa.float64())
            if pc.all(pc.is_finite(found)).as_py() is not False:
                return np.asarray(found.to_numpy(), dtype=np.float64)
        except pa.ArrowException:
            pass
        codes, distinct = self.codes(column)
        parsed = [parse_number(value, self.decimal_comma) for value in distinct]
        if None in parsed:
            row = int(np.flatnonzero(codes == parsed.index(None))[0])
            raise BadCell(row, distinct[codes[row]])
        return np.array(parsed, dtype=np.float64)[codes] if distinct else np.empty(0)

    def vectors(self, column: str) -> np.ndarray | None:
        """(rows, d) float32, NaN where one is missing; None where cells are not lists of numbers."""
        values = self.columns[column]
        if not pa.types.is_fixed_size_list(values.type):
            return None
        width = values.type.list_size
        parts = [one.values[one.offset * width : (one.offset + len(one)) * width] for one in values.chunks]
        return np.concatenate([np.asarray(part) for part in parts] or [np.empty(0, np.float32)]).reshape(-1, width)

    def take(self, rows: np.ndarray) -> Table:
        """The same table with these rows only."""
        columns = {name: column.take(pa.array(rows)) for name, column in self.columns.items()}
        places = self.places
        return replace(self, columns=columns, rows=len(rows), places=lambda some: places([int(rows[i]) for i in some]))

    def drop(self, why: str, rows: np.ndarray) -> list[Dropped]:
        """A list of one entry for these rows, or of none."""
        return [Dropped(why, len(rows), self.places(rows[:3].tolist()))] if len(rows) else []


@dataclass(frozen=True)
class Source:
    """A table that is not read yet.

    Attributes:
        columns: the names of its columns.
        header: whether the file says them; otherwise they are numbers.
        read: gives the table with some of its columns.
    """

    title: str
    columns: list[str]
    header: bool
    read: Callable[[Sequence[str]], Table]

    @classmethod
    def of(cls, table: Table) -> Source:
        """A table that is in memory already."""
        columns = table.columns
        return cls(table.title, [*columns], True, lambda some: replace(table, columns={n: columns[n] for n in some}))


def _number_text(value: Any) -> str:
    """``3`` for 3.0 and "" for NaN: data frames turn whole numbers with gaps into floats."""
    if isinstance(value, float | np.floating):
        value = float(value)
        return "" if value != value else str(int(value)) if value.is_integer() else repr(value)
    return "" if value is None else str(value)


def as_text(values: Any) -> Any:
    """A column of text, of whatever there is; a missing cell is ""."""
    if _is_text(values.type):
        return values
    try:
        if values.type == pa.float64():
            values = pc.cast(pc.if_else(pc.is_nan(values), None, values), pa.int64())
        return pc.fill_null(pc.cast(values, pa.string()), "")
    except pa.ArrowException:  # fractions, lists
        return pa.chunked_array([pa.array([_number_text(value) for value in values.to_pylist()], pa.string())])


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def normalize_column(values: Any, name: str, title: str) -> Any:
    """A column of any type of Arrow as text, int64, float64 or lists of equally many float32."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        if _is_text(kind.value_type):
            # before codes are replaced by their texts: what all of these take
            sizes = (pc.sum(pc.take(pc.binary_length(one.dictionary), one.indices)).as_py() for one in values.chunks)
            what = f"{title}: column {name!r} of {len(values):,} texts"
            require(2 * sum(size or 0 for size in sizes), what, "shorten them", DataError)
        return normalize_column(values.cast(kind.value_type), name, title)
    try:
        if pa.types.is_integer(kind) and not values.null_count:
            return values.cast(pa.float64() if kind == pa.uint64() else pa.int64())
        if pa.types.is_floating(kind):
            return values.cast(pa.float64())
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            if _is_text(kind.value_type):
                return pc.fill_null(pc.binary_join(values.cast(pa.list_(pa.string())), " "), "")
            return _of_one_length(values, name, title)
        return pc.fill_null(values.cast(pa.string()), "")
    except pa.ArrowException as error:
        raise DataError(
            f"{title}: column {name!r} has type {kind}; expected text, numbers or lists of them: convert it."
        ) from error


def _of_one_length(values: Any, name: str, title: str) -> Any:
    """Lists of numbers as fixed-size lists; a missing list becomes NaN."""
    lengths = pc.list_value_length(values)
    width = pc.max(lengths).as_py() or 0
    wrong = np.flatnonzero(~np.isin(pc.fill_null(lengths, 0).to_numpy(), (0, width)))
    if len(wrong):
        raise DataError(
            f"{title}, row {wrong[0] + 1}: the vector in column {name!r} has {lengths[int(wrong[0])].as_py()} numbers, "
            f"others have {width}; give all nodes vectors of one length."
        )
    full = np.full((len(values), width), np.nan, dtype=np.float32)
    full[pc.fill_null(lengths, 0).to_numpy() > 0] = (
        pc.list_flatten(values).cast(pa.float32()).to_numpy().reshape(-1, width) if width else 0
    )
    return vector_column(full)


def vector_column(values: np.ndarray) -> Any:
    """A column of the rows of an array."""
    flat = pa.array(np.ascontiguousarray(values, dtype=np.float32).ravel())
    return pa.chunked_array([pa.FixedSizeListArray.from_arrays(flat, values.shape[1])])


def arrow_table(frame: Any, title: str) -> pa.Table:
    """A data frame of pandas, Polars, DuckDB, pyarrow, ... in Arrow's types, with different names of columns."""
    try:
        table = pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{title} is a {type(frame).__name__} that is not a table ({str(error)[:100]}); expected a path, a "
            "data frame with one type in each column, or a dictionary of columns."
        ) from error
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    if len(set(names)) < len(names):
        raise DataError(f"{title} has two columns of the same name among {names}; rename one.")
    return table.select(names)


def frame_table(frame: Any, title: str) -> Table:
    """A data frame, or a dictionary ``{"column": values}``, as a table."""
    if isinstance(frame, Mapping):
        given = {str(name): _column_of(values, f"{title}, column {name!r}") for name, values in frame.items()}
    else:
        table = arrow_table(frame, title)
        given = dict(zip(table.column_names, table.columns))
    columns = {name: normalize_column(values, name, title) for name, values in given.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{title} has columns of different lengths ({lengths}); give one value per row in each.")

    def places(rows: Sequence[int]) -> list[str]:
        return [f"{title}, row {row}" for row in rows]

    return Table(title, columns, next(iter(lengths.values()), 0), places)


def _column_of(values: Any, title: str) -> Any:
    """Any sequence as a chunked array; None and NaN are missing."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return vector_column(values)
    try:
        made = pa.array(values, from_pandas=True)
        return made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        cells = list(values)
        if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
            raise DataError(f"{title}: its lists hold more than numbers ({error}).") from error
    texts = ["" if cell is None or cell != cell else _number_text(cell) for cell in cells]
    return pa.chunked_array([pa.array(texts, pa.string())])


def networkx_tables(graph: Any, title: str = "the graph") -> tuple[Table, Table]:
    """Edges and nodes of a NetworkX graph; a node's id is its ``str``, and attributes are columns.

    An edge without ``weight`` weighs 1, as in NetworkX; attributes of edges that are not text or numbers are left out.
    """
    edges = list(graph.edges(data=True))
    keys = [key for *_, key in graph.edges(keys=True)] if graph.is_multigraph() else []
    nodes = list(graph.nodes(data=True))
    names = list(dict.fromkeys(name for _, data in nodes for name in data))
    key = "id"
    while key in map(str, names):
        key = f"_{key}"
    node_columns: dict[Any, Any] = {key: [str(node) for node, _ in nodes]}
    node_columns |= {str(name): [data.get(name) for _, data in nodes] for name in names}
    edge_columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for *_, data in edges for name in data):
        cells = [data.get(name, 1 if name == "weight" else None) for *_, data in edges]
        if all(isinstance(cell, str | int | float | np.number | None) for cell in cells):
            edge_columns[str(name)] = cells
    text = all(isinstance(key, str) for key in keys)
    if keys and text and 2 * len(set(keys)) <= len(keys):  # names of types, not of single edges
        edge_columns = {"type": keys} | edge_columns
    edge_columns |= {"source": [str(edge[0]) for edge in edges], "target": [str(edge[1]) for edge in edges]}
    return frame_table(edge_columns, f"{title}'s edges"), frame_table(node_columns, f"{title}'s nodes")
