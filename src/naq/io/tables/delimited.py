"""CSV, TSV and their like: by pyarrow where it is installed, else by the standard library.

The standard library's reader is the definition. pyarrow reads the same cells several times faster and is used for files that
are UTF-8; whatever it refuses is read again by the standard library, which then says what is wrong.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from naq.errors import DataError
from naq.io.tables.columns import Cells, Column, Dropped, Table
from naq.io.tables.layout import examine
from naq.io.tables.text_file import END, LONGEST_ROW, TextFile, lines_of, too_long

MOST_RAGGED = 0.1
"""Where more rows than this share have another number of cells, the file is not what it seems."""

Choose = Callable[[list[str], bool], Sequence[str]]
"""Which columns are wanted, from all names and whether they stand in a header."""


def read_delimited(path: Path, choose: Choose, *, header: bool | None = None) -> Table:
    """The wanted columns of a text file."""
    file = examine(path, header=header)
    wanted = list(choose(file.columns(), file.header is not None))
    found = _by_pyarrow(file, wanted)
    columns, rows, ragged = found if found is not None else _by_csv(file, wanted)
    table = Table(str(path), columns, rows, _Places(file, ragged), decimal_comma=file.delimiter != ",")
    if len(ragged) > MOST_RAGGED * (rows + len(ragged)):
        raise DataError(
            f"{_Places(file, [])([ragged[0]])[0]}: expected {file.width} cells as in the first row, but this and "
            f"{len(ragged) - 1:,} of {rows + len(ragged):,} rows have another number; put text that holds "
            f"{file.delimiter!r} in quotation marks."
        )
    if ragged:
        lines = _Places(file, [])(ragged[:3])
        table.dropped.append(Dropped(f"rows with another number of cells than {file.width}", len(ragged), lines))
    if file.title_line:
        table.notes.append(f"{path.name}: the line {file.title_line[:60]!r} above the table was left out")
    if file.dictionaries:
        table.notes.append(
            f"{path.name}: the dictionaries at the ends of lines are not read: every edge counts the same"
        )
    if file.first_bad:
        table.notes.append(
            f"{path.name} is not UTF-8 (first in line {file.first_bad}); it was read as {_encoding_name(file)}: check that "
            "accented letters are right."
        )
    return table


def _encoding_name(file: TextFile) -> str:
    return "Windows-1252" if file.encoding == "cp1252" else "Latin-1"


class _Places:
    """Lines of rows. They are counted only when a row is to be named: quoted cells may hold line breaks."""

    def __init__(self, file: TextFile, ragged: list[int]) -> None:
        self.file, self.ragged = file, ragged

    def __call__(self, rows: Sequence[int]) -> list[str]:
        # Rows are numbered without the ragged ones; in the file those count.
        shifted = np.asarray(self.ragged, dtype=np.int64) - np.arange(len(self.ragged))
        wanted = [int(row + np.searchsorted(shifted, row, side="right")) for row in rows]
        left, lines = set(wanted), {}
        for position, (line, _) in enumerate(_rows(self.file)):
            if position in left:
                lines[position] = line
                left.remove(position)
                if not left:
                    break
        return [f"{self.file.title}, line {lines[row]}" for row in wanted]


def _rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Every row of data that is not blank, with the line it begins in."""
    csv.field_size_limit(LONGEST_ROW)
    with lines_of(file) as lines:
        for _ in range(file.skip):
            next(lines)
        reader = csv.reader(chain(lines, ["\n", END]), delimiter=file.delimiter, skipinitialspace=file.spaced)
        line = begun = file.skip
        try:
            for row in reader:
                if row and row[0] == END:
                    return
                begun = line + 1
                if row and (len(row) > 1 or row[0].strip()):
                    yield line + 1, row
                line = file.skip + reader.line_num
        except csv.Error as error:
            if "field larger" in str(error):
                raise too_long(file, line + 1) from error
            raise DataError(f"{file.path}, line {line + 1} cannot be read as a row of cells ({error}).") from error
    raise DataError(f"{file.path}, line {begun}: a quotation mark is opened and never closed; add it or remove it.")


def _by_csv(file: TextFile, wanted: list[str]) -> tuple[dict[str, Column], int, list[int]]:
    """Every cell through a dictionary of distinct cells: equal ones take memory once."""
    where = [file.columns().index(name) for name in wanted]
    known: list[dict[str, int]] = [{} for _ in where]
    codes = [array("q") for _ in where]
    pieces = list(zip(where, known, codes))
    ragged: list[int] = []
    width, position = file.width, -1
    for position, (_, row) in enumerate(_rows(file)):
        if len(row) != width:
            ragged.append(position)
            continue
        for column, seen, taken in pieces:
            taken.append(seen.setdefault(row[column], len(seen)))
    columns: dict[str, Column] = {
        name: Cells(np.array(taken, dtype=np.int64), list(seen)) for name, seen, taken in zip(wanted, known, codes)
    }
    return columns, position + 1 - len(ragged), ragged


def _by_pyarrow(file: TextFile, wanted: list[str]) -> tuple[dict[str, Column], int, list[int]] | None:
    """The same by pyarrow; None where it is not installed or the file is not for it."""
    if file.encoding != "utf-8-sig" or file.width < 2 or file.dictionaries or file.spaced:
        return None
    try:
        from naq.io.tables.arrow import read_csv
    except ImportError:
        return None
    return read_csv(file, wanted)
