"""Tables read by pyarrow (the extra ``io``): delimited text several times faster than the standard library, and Parquet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from naq.device import require
from naq.errors import DataError
from naq.files import file_of
from naq.io.tables.columns import Column, Numbers, Table, Vectors
from naq.io.tables.reading import Choose
from naq.io.tables.text_file import END, LONGEST_ROW, TextFile, opened

BLOCK = 1 << 25


class ArrowCells(Column):
    """Text in pyarrow's memory: about a tenth of what Python's strings take."""

    def __init__(self, chunks: pa.ChunkedArray) -> None:
        self.chunks = chunks

    def encoded(self) -> tuple[np.ndarray, list[str]]:
        coded = pc.dictionary_encode(self.chunks).combine_chunks()
        if isinstance(coded, pa.ChunkedArray):  # pyarrow gives no array where there are no chunks
            return np.empty(0, dtype=np.int64), []
        return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()

    def strings(self) -> list[str]:
        return self.chunks.to_pylist()

    def numbers(self, decimal_comma: bool = False) -> np.ndarray:
        # pyarrow knows fewer ways to write a number, and "inf", which is none here: then the slow way decides.
        try:
            filled = pc.if_else(pc.equal(self.chunks, ""), None, self.chunks)
            values = pc.cast(filled, pa.float64())
            if pc.all(pc.is_finite(values)).as_py() is not False:
                return np.asarray(values.to_numpy(), dtype=np.float64)
        except pa.ArrowInvalid:
            pass
        return super().numbers(decimal_comma)

    def take(self, rows: np.ndarray) -> Column:
        return ArrowCells(self.chunks.take(pa.array(rows)))


class _WithEnd:
    """The bytes of a file and, behind them, a row of :data:`END`."""

    closed = False

    def __init__(self, stream: IO[bytes], file: TextFile) -> None:
        self.stream = stream
        self.rest = f"\n{file.delimiter.join([END] * file.width)}\n".encode()

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(size)
        if not block:
            block, self.rest = self.rest, b""
        return block

    def close(self) -> None:
        self.closed = True


def read_csv(file: TextFile, wanted: list[str]) -> tuple[dict[str, Column], int, list[int]] | None:
    """The wanted columns, the number of rows and the numbers of ragged rows; None where pyarrow refuses the file."""
    ragged: list[int] = []
    blank: list[int] = []

    def skip(row: Any) -> str:
        cells = next(csv.reader(io.StringIO(row.text, newline=""), delimiter=file.delimiter), [""])
        (ragged if len(cells) > 1 or cells[0].strip() else blank).append(row.number)
        return "skip"

    text = pa.string()
    try:
        with opened(file.path) as stream:
            names, types = file.columns(), dict.fromkeys(wanted, text)
            reader = pyarrow.csv.open_csv(
                pa.PythonFile(_WithEnd(stream, file), mode="r"),
                pyarrow.csv.ReadOptions(column_names=names, skip_rows=file.skip, block_size=BLOCK, use_threads=False),
                pyarrow.csv.ParseOptions(
                    delimiter=file.delimiter, newlines_in_values=file.quotes > 0, invalid_row_handler=skip
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=types, include_columns=wanted, null_values=[], strings_can_be_null=False
                ),
            )
            schema = pa.schema([(name, text) for name in wanted])
            table = pa.Table.from_batches(list(reader), schema)
    except pa.ArrowException:
        return None
    if not table.num_rows or table.column(0)[-1].as_py() != END:
        return None
    table = table.slice(0, table.num_rows - 1)
    if any((pc.max(pc.binary_length(column)).as_py() or 0) > LONGEST_ROW for column in table.columns):
        return None
    # pyarrow counts from the first line of the file, and rows of white space too.
    blanks = np.asarray(blank, dtype=np.int64)
    numbers = [int(row - file.skip - 1 - np.searchsorted(blanks, row)) for row in ragged]
    columns: dict[str, Column] = {name: ArrowCells(table.column(name)) for name in wanted}
    return columns, table.num_rows, numbers


def read_parquet(path: Path, choose: Choose) -> Table:
    """The wanted columns of a Parquet file: text, numbers, or lists of equally many numbers."""
    try:
        facts = pq.read_metadata(file_of(path))
        texts = [one.name for one in facts.schema.to_arrow_schema() if _is_text(one.type)]
        # as codes and the texts they stand for: a file may repeat a long text in few bytes
        with pq.ParquetFile(path, metadata=facts, read_dictionary=texts) as file:
            names = file.schema_arrow.names
            wanted = list(choose(list(names), True))
            if twice := [name for name in wanted if names.count(name) > 1]:
                raise DataError(f"{path} has two columns named {twice[0]!r}; rename one of them.")
            _check_size(facts, len(wanted), path)
            table = file.read(columns=wanted)
            table.validate(full=True)  # text that is no UTF-8, offsets that lead nowhere
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise DataError(f"{path} is not a readable Parquet file ({_short(error)}); write it again.") from error
    columns = {name: arrow_column(table.column(name), name, str(path)) for name in wanted}

    def places(rows: Any) -> list[str]:
        return [f"{path.name}, row {row + 1}" for row in rows]

    return Table(str(path), columns, table.num_rows, places)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _check_size(facts: Any, columns: int, path: Path) -> None:
    """From the file's own facts, before anything is unpacked: bytes of all pages, and rows that may take none."""
    size = sum(max(0, facts.row_group(i).total_byte_size) for i in range(facts.num_row_groups))
    if facts.num_rows < 0:
        raise DataError(f"{path} has {facts.num_rows} rows; it is damaged, write it again.")
    require(max(3 * size, 16 * facts.num_rows * columns), f"reading {path}", "use a larger machine", DataError)


def arrow_column(chunks: pa.ChunkedArray, name: str, title: str) -> Column:
    """A column of any type of Arrow."""
    kind = chunks.type
    if pa.types.is_dictionary(kind):
        if _is_text(kind.value_type):
            # before codes are replaced by their texts: what all of these take
            sizes = (pc.sum(pc.take(pc.binary_length(one.dictionary), one.indices)).as_py() for one in chunks.chunks)
            what = f"{title}: column {name!r} of {len(chunks):,} texts"
            require(2 * sum(size or 0 for size in sizes), what, "shorten them", DataError)
        return arrow_column(chunks.cast(kind.value_type), name, title)
    if pa.types.is_integer(kind) and not chunks.null_count:
        return Numbers(chunks.to_numpy())
    if pa.types.is_floating(kind):
        return Numbers(np.asarray(chunks.cast(pa.float64()).to_numpy(), dtype=np.float64))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _vectors(chunks, name, title)
    try:
        return ArrowCells(pc.fill_null(chunks.cast(pa.string()), ""))
    except pa.ArrowException as error:
        raise DataError(f"{title}: column {name!r} has type {kind}, neither text nor numbers; convert it.") from error


def _vectors(chunks: pa.ChunkedArray, name: str, title: str) -> Column:
    inner = chunks.type.value_type
    if pa.types.is_string(inner) or pa.types.is_large_string(inner):  # lists of words
        return ArrowCells(pc.fill_null(pc.binary_join(chunks.cast(pa.list_(pa.string())), " "), ""))
    lengths = pc.list_value_length(chunks)
    width = pc.max(lengths).as_py() or 0
    wrong = np.flatnonzero(pc.fill_null(lengths, width).to_numpy() != width)
    if len(wrong):
        raise DataError(
            f"{title}, row {wrong[0] + 1}: the vector in column {name!r} has {lengths[int(wrong[0])].as_py()} numbers, "
            f"others have {width}; give all nodes vectors of one length."
        )
    try:
        parts = [pc.list_flatten(one).cast(pa.float32()).to_numpy(zero_copy_only=False) for one in chunks.chunks]
        flat = np.concatenate(parts or [np.empty(0, np.float32)])
    except pa.ArrowException as error:
        raise DataError(f"{title}: column {name!r} has type {chunks.type}; expected lists of numbers.") from error
    full = np.full((len(chunks), width), np.nan, dtype=np.float32)
    full[pc.is_valid(chunks).to_numpy()] = flat.reshape(-1, width)
    return Vectors(full)


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:120]
