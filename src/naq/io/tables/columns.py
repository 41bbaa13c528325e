"""Columns of a table, whatever it was read from, the table itself, and tables that are in memory already."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from naq.errors import DataError, MissingDependency

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
"""Cells that stand for nothing, in any case, in columns of numbers, categories, vectors and labels."""
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
"""1,234 and 1,234,567.8, as spreadsheets show them; where 3,5 is a number, 1.234,5 is read instead."""
_GROUPED_BY_DOTS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+", re.ASCII)
_UNITS = "%€$£¥ \u00a0"
"""Around a number they do not count: all numbers of a column have the same."""
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
    """A cell that cannot be read as what its column is to be."""

    def __init__(self, row: int, cell: str) -> None:
        super().__init__(cell)
        self.row, self.cell = row, cell


class Column(ABC):
    """One column: as text, as numbers, or as codes into its distinct cells."""

    @abstractmethod
    def encoded(self) -> tuple[np.ndarray, list[str]]:
        """Codes (rows,) and the distinct cells in order of appearance."""

    def strings(self) -> list[str]:
        codes, values = self.encoded()
        return [values[code] for code in codes.tolist()]

    def numbers(self, decimal_comma: bool = False) -> np.ndarray:
        """float64 (rows,), NaN where a cell is missing; ``BadCell`` where one is no number."""
        codes, values = self.encoded()
        parsed = [parse_number(value, decimal_comma) for value in values]
        for code, number in enumerate(parsed):
            if number is None:
                raise BadCell(int(np.flatnonzero(codes == code)[0]), values[code])
        return np.array(parsed, dtype=np.float64)[codes] if values else np.empty(0)

    def vectors(self) -> np.ndarray | None:
        """(rows, d) where cells are vectors already, else None."""
        return None

    @abstractmethod
    def take(self, rows: np.ndarray) -> Column:
        """The same column with these rows only."""


class Cells(Column):
    """Text, given as codes and the distinct cells."""

    def __init__(self, codes: np.ndarray, values: list[str]) -> None:
        self.codes, self.values = codes, values

    @classmethod
    def of(cls, cells: Iterable[str]) -> Cells:
        known: dict[str, int] = {}
        codes = np.fromiter((known.setdefault(cell, len(known)) for cell in cells), dtype=np.int64)
        return cls(codes, list(known))

    def encoded(self) -> tuple[np.ndarray, list[str]]:
        return self.codes, self.values

    def take(self, rows: np.ndarray) -> Column:
        return Cells.of(self.values[code] for code in self.codes[rows].tolist())


class _Rows(Column):
    """One entry of an array in every row."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def take(self, rows: np.ndarray) -> Column:
        return type(self)(self.values[rows])


class Numbers(_Rows):
    """Numbers of a data frame or a Parquet file; NaN where missing."""

    def encoded(self) -> tuple[np.ndarray, list[str]]:
        values, first, codes = np.unique(self.values, return_index=True, return_inverse=True, equal_nan=True)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return place[codes], [number_text(value) for value in values[order].tolist()]

    def numbers(self, decimal_comma: bool = False) -> np.ndarray:
        values = self.values.astype(np.float64)
        wrong = np.flatnonzero(np.isinf(values))
        if len(wrong):
            raise BadCell(int(wrong[0]), str(values[wrong[0]]))
        return values


class Vectors(_Rows):
    """One vector of numbers in every row."""

    def encoded(self) -> tuple[np.ndarray, list[str]]:
        return Cells.of(str(row) for row in self.values.tolist()).encoded()

    def vectors(self) -> np.ndarray | None:
        return self.values


def number_text(value: Any) -> str:
    """``3`` for 3.0 and "" for NaN: pandas turns whole numbers with gaps into floats."""
    if isinstance(value, float):
        return "" if value != value else str(int(value)) if value.is_integer() else repr(value)
    return str(value)


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
        title: the file's name in messages.
        places: where rows are, by row number: ``edges.csv, line 12``.
        decimal_comma: whether 3,5 is a number here.
        dropped: rows that could not be read.
        notes: what a person should know of how it was read.
    """

    title: str
    columns: dict[str, Column]
    rows: int
    places: Callable[[Sequence[int]], list[str]]
    decimal_comma: bool = False
    dropped: list[Dropped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The title without folders."""
        return self.title.rpartition("/")[2]

    def place(self, row: int) -> str:
        return self.places([row])[0]

    def take(self, rows: np.ndarray) -> Table:
        """The same table with these rows only."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        places = self.places
        return replace(self, columns=columns, rows=len(rows), places=lambda some: places([int(rows[i]) for i in some]))


def drop(table: Table, why: str, rows: np.ndarray) -> list[Dropped]:
    """A list of one entry for these rows, or of none where there are none."""
    return [Dropped(why, len(rows), table.places(rows[:3].tolist()))] if len(rows) else []


def stripped(column: Column) -> tuple[np.ndarray, list[str]]:
    """Codes and distinct cells without spaces around them."""
    codes, values = column.encoded()
    known: dict[str, int] = {}
    place = np.array([known.setdefault(value.strip(), len(known)) for value in values], dtype=np.int64)
    return (codes, list(known)) if len(known) == len(values) else (place[codes], list(known))


def frame_table(frame: Any, title: str) -> Table:
    """A data frame of pandas, Polars, pyarrow, ..., or a dictionary ``{"column": values}``, as a table."""
    if isinstance(frame, Mapping):
        given: dict[str, Any] = {str(name): values for name, values in frame.items()}
    else:
        given = _series(frame, title)
    columns = {name: column_of(values, f"{title}, column {name!r}") for name, values in given.items()}
    lengths = {name: len(values) for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{title} has columns of different lengths ({lengths}); give one value per row in each.")

    def places(rows: Sequence[int]) -> list[str]:
        return [f"{title}, row {row}" for row in rows]

    return Table(title, columns, next(iter(lengths.values()), 0), places)


def _series(frame: Any, title: str) -> dict[str, Any]:
    try:
        import narwhals as nw
    except ImportError as error:
        raise MissingDependency(f'{title}: data frames need narwhals: pip install "naq[io]"') from error
    try:
        native = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise DataError(
            f"{title} is a {type(frame).__name__}; expected a path, a data frame or a dictionary of columns."
        ) from error
    return {str(name): native[name].to_list() if native[name].is_null().any() else native[name].to_numpy() for name in native.columns}  # fmt: skip


def column_of(values: Any, title: str) -> Column:
    """A column from any sequence; None and NaN are missing."""
    array = values if isinstance(values, np.ndarray) else None
    if array is None and len(values) and all(type(v) in (int, float) for v in values):
        array = np.asarray(values)
    if array is not None and array.dtype.kind in "iuf":
        if array.ndim == 2:
            return Vectors(array)
        return Numbers(array)
    cells = list(values)
    if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        return _vectors(cells, title)
    return Cells.of(_text(cell) for cell in cells)


def _text(cell: Any) -> str:
    if cell is None or cell != cell:
        return ""
    return number_text(float(cell)) if isinstance(cell, float | np.floating) else str(cell)


def _vectors(cells: list[Any], title: str) -> Column:
    lists = [[] if cell is None or (isinstance(cell, float) and cell != cell) else list(cell) for cell in cells]
    if any(isinstance(item, str) for cell in lists for item in cell[:1]):  # lists of words
        return Cells.of(" ".join(map(str, cell)) for cell in lists)
    width = max(map(len, lists))
    for row, cell in enumerate(lists):
        if len(cell) not in (0, width):
            raise DataError(f"{title}, row {row}: a vector has {len(cell)} numbers, others {width}; give one length.")
    try:
        return Vectors(np.array([cell or [np.nan] * width for cell in lists], dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise DataError(f"{title}: its lists hold more than numbers ({error}).") from error


def networkx_tables(graph: Any) -> tuple[Table, Table]:
    """Edges and nodes of a NetworkX graph; a node's id is its ``str``, its attributes are columns."""
    edges = list(graph.edges())
    nodes = list(graph.nodes(data=True))
    names = list(dict.fromkeys(name for _, data in nodes for name in data))
    key = "id"
    while key in map(str, names):
        key = f"_{key}"
    node_columns: dict[Any, Any] = {key: [str(node) for node, _ in nodes]}
    node_columns |= {str(name): [data.get(name) for _, data in nodes] for name in names}
    edge_columns = {"source": [str(u) for u, v in edges], "target": [str(v) for u, v in edges]}
    return frame_table(edge_columns, "the graph's edges"), frame_table(node_columns, "the graph's nodes")
