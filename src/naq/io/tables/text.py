"""Delimited text to tables by pyarrow; Python's ``csv`` reads a file again to name the line of a row or a mistake."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from naq.errors import DataError
from naq.io.tables.layout import LONGEST_ROW, TextFile, examine, lines_of, open_unpacked
from naq.io.tables.table import Dropped, Source, Table

BLOCK = 1 << 25
END = "\x1e\x1eend\x1e\x1e"
"""Follows the last row while a file is read: if it is not read as a row, a quotation mark was not closed."""
_MOST_RAGGED = 0.1
"""If more than this share of the rows has another number of cells, the file is not what it seems."""


def open_delimited(path: Path, *, header: bool | None = None) -> Source:
    """The columns of a text file; ``header`` as :func:`naq.io.tables.layout.examine` takes it."""
    file = examine(path, header=header)
    return Source(str(path), file.columns(), file.header is not None, partial(_read_delimited, file))


def _read_delimited(file: TextFile, wanted: Sequence[str]) -> Table:
    path = file.path
    columns, rows, ragged = _read_cells(file, wanted)
    table = Table(str(path), columns, rows, _Places(file, ragged), file.delimiter != ",", typed=False)
    if ragged:
        lines = _Places(file, [])(ragged[:3])
        if len(ragged) > _MOST_RAGGED * (rows + len(ragged)):
            raise DataError(
                f"{lines[0]}: expected {file.width} cells as in the first row, but this and {len(ragged) - 1:,} of "
                f"{rows + len(ragged):,} rows have another number; put text that holds {file.delimiter!r} in quotation "
                "marks."
            )
        table.dropped.append(Dropped(f"rows with another number of cells than {file.width}", len(ragged), lines))
    if file.dictionaries:
        table.notes.append(f"{path.name}: the dictionaries at the ends of lines are not read")
    if file.first_bad:
        table.notes.append(
            f"{path.name} is not UTF-8 (first in line {file.first_bad}); it was read as Windows-1252: check accented "
            "letters."
        )
    return table


def _read_cells(file: TextFile, wanted: Sequence[str]) -> tuple[dict[str, Any], int, list[int]]:
    """The wanted columns, the number of rows and the numbers of ragged rows."""
    ragged: list[int] = []
    blank: list[int] = []

    def skip(row: Any) -> str:
        cells = next(csv.reader(io.StringIO(row.text, newline=""), delimiter=file.delimiter), [""])
        (ragged if len(cells) > 1 or cells[0].strip() else blank).append(row.number)
        return "skip"

    text = pa.string()
    try:
        with _content(file) as stream:
            reader = pyarrow.csv.open_csv(
                pa.PythonFile(stream, mode="r"),
                pyarrow.csv.ReadOptions(
                    column_names=file.columns(), skip_rows=file.skip, block_size=BLOCK, use_threads=False
                ),
                pyarrow.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True, invalid_row_handler=skip),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, text), include_columns=list(wanted), strings_can_be_null=False
                ),
            )
            table = pa.Table.from_batches(list(reader), pa.schema([(name, text) for name in wanted]))
    except (pa.ArrowException, csv.Error) as error:
        raise _mistake(file, str(error)) from error
    if not table.num_rows or table.column(0)[-1].as_py() != END:
        raise _mistake(file, "its last row is not complete")
    table = table.slice(0, table.num_rows - 1)
    if any((pc.max(pc.binary_length(column)).as_py() or 0) > LONGEST_ROW for column in table.columns):
        raise _mistake(file, "a row is too long")
    # pyarrow counts from the first line of the file, and rows of white space too.
    blanks = np.asarray(blank, dtype=np.int64)
    numbers = [int(row - file.skip - 1 - np.searchsorted(blanks, row)) for row in ragged]
    return {name: table.column(name) for name in wanted}, table.num_rows, numbers


class _WithEnd:
    """The bytes of a stream, followed by a row of :data:`END`."""

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


@contextmanager
def _content(file: TextFile) -> Iterator[_WithEnd]:
    """A file in UTF-8, without dictionaries and spaces before quotes."""
    if file.encoding == "utf-8-sig" and not file.dictionaries and not file.spaced:
        with open_unpacked(file.path) as stream:
            yield _WithEnd(stream, file)
    else:
        with lines_of(file) as lines:
            yield _WithEnd(io.BytesIO("".join(lines).encode()), file)


class _Places:
    """Lines of rows. They are counted only when a row is to be named: quoted cells may hold line breaks."""

    def __init__(self, file: TextFile, ragged: list[int]) -> None:
        self.file, self.ragged = file, ragged

    def __call__(self, rows: Sequence[int]) -> list[str]:
        # Rows are numbered without the ragged ones; in the file those count.
        shifted = np.asarray(self.ragged, dtype=np.int64) - np.arange(len(self.ragged))
        wanted = [int(row + np.searchsorted(shifted, row, side="right")) for row in rows]
        left, lines = set(wanted), {}
        for position, line in enumerate(_firstlines_of_rows(self.file)):
            if position in left:
                lines[position] = line
                left.remove(position)
                if not left:
                    break
        return [f"{self.file.path.name}, line {lines[row]}" for row in wanted]


def _mistake(file: TextFile, reason: str) -> DataError:
    """The mistake in a file that pyarrow does not read, with its line where Python's csv finds it."""
    for _ in _firstlines_of_rows(file):
        pass
    return DataError(f"{file.path} cannot be read as rows of {file.width} cells ({reason[:120]}); correct it.")


def _firstlines_of_rows(file: TextFile) -> Iterator[int]:
    """The line in which each row of data begins that is not blank."""
    csv.field_size_limit(LONGEST_ROW)
    with lines_of(file) as lines:
        for _ in range(file.skip):
            next(lines)
        reader = csv.reader(chain(lines, ["\n", END]), delimiter=file.delimiter)
        line = begun = file.skip
        try:
            for row in reader:
                if row and row[0] == END:
                    return
                begun = line + 1
                if row and (len(row) > 1 or row[0].strip()):
                    yield begun
                line = file.skip + reader.line_num
        except csv.Error as error:
            if "field larger" in str(error):
                raise file.too_long(line + 1) from error
            raise DataError(f"{file.path}, line {line + 1} cannot be read as a row of cells ({error}).") from error
    raise DataError(f"{file.path}, line {begun}: a quotation mark is opened and never closed; add it or remove it.")
