"""What a delimited text file is, before it is read: encoding, delimiter, header, and whether it is text at all."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from naq.device import room
from naq.errors import DataError
from naq.files import file_of
from naq.io.tables.roles import known_name
from naq.io.tables.table import parse_number

LONGEST_ROW = 1 << 24
"""Characters of one row. A longer one is nearly always a quotation mark that is never closed."""
_SAMPLE = 1 << 18
_DICTIONARY = re.compile(r"[\s,;|]\{(?:['\"].*)?\}\s*$")
_OTHER_FORMATS = {
    "\x1f\x8b": "a gzip file; add .gz to its name",
    "PK\x03\x04": "a zip archive (.npz, .xlsx and .ods are such); save it as CSV",
    "PAR1": "a Parquet file; rename it to .parquet",
    "\x89HDF": "an HDF5 file; save it as CSV or Parquet",
    "\xd0\xcf\x11\xe0": "an old Excel file; save it as CSV",
    "SQLite format 3": "an SQLite database; export its tables as CSV",
    "\x93NUMPY": "a NumPy array; give it with --vector",
    "<?xml": "an XML file; if it is GraphML, rename it to .graphml",
    "<graphml": "a GraphML file; rename it to .graphml",
    "<!DOCTYPE": "an HTML page; download the file itself",
    "<html": "an HTML page; download the file itself",
}


@dataclass(frozen=True)
class TextFile:
    """A delimited text file and how to read it; made by :func:`examine`.

    Attributes:
        encoding: ``utf-8-sig`` unless its bytes say otherwise.
        first_bad: the line that is not UTF-8, where it is read in another encoding.
        skip: lines before the first row of data: comments, blank lines, the header.
        header: the names of the columns, or None where the file has no header.
        width: cells of the first row.
        dictionaries: whether every line ends in a dictionary, as NetworkX writes edges; these are not read.
        spaced: whether there is a space between a delimiter and a quoted cell: ``"a", "b"``.
    """

    path: Path
    encoding: str
    first_bad: int
    delimiter: str = ","
    header: tuple[str, ...] | None = None
    skip: int = 0
    width: int = 0
    dictionaries: bool = False
    spaced: bool = False

    def columns(self) -> list[str]:
        """The names of the columns, or their numbers ``1``, ``2``, ... without a header."""
        return list(self.header) if self.header is not None else [str(i + 1) for i in range(self.width)]

    def too_long(self, line: int) -> DataError:
        return DataError(
            f"{self.path}, line {line}: a row has over {LONGEST_ROW:,} characters; a quotation mark before it is "
            "probably not closed, or the text is longer than can be used: shorten it."
        )


@contextmanager
def open_unpacked(path: Path) -> Iterator[Any]:
    """The bytes of a file, unpacked where its name ends in ``.gz``; every failure is a ``DataError``."""
    packed = path.suffix == ".gz"
    try:
        with file_of(path).open("rb") as stream:
            yield io.BufferedReader(pa.CompressedInputStream(stream, "gzip")) if packed else stream
    except (UnicodeError, OSError) as error:
        if isinstance(error, DataError):
            raise
        hint = ": is it a whole gzip file? Make or download it again" if packed else ""
        raise DataError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}){hint}.") from error


@contextmanager
def lines_of(file: TextFile) -> Iterator[Iterator[str]]:
    """The lines of a file with their ends, as the csv module wants them; one that is too long is cut."""
    errors = "replace" if file.encoding == "cp1252" else "strict"
    with (
        open_unpacked(file.path) as stream,
        io.TextIOWrapper(stream, encoding=file.encoding, errors=errors, newline="") as text,
    ):
        lines = iter(partial(text.readline, LONGEST_ROW + 1), "")
        if file.dictionaries:
            lines = (_DICTIONARY.sub("\n", line) for line in lines)
        yield _without_spaces(lines, file.delimiter) if file.spaced else lines


def _without_spaces(lines: Iterator[str], delimiter: str) -> Iterator[str]:
    """The same rows, without spaces before their cells."""
    for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True):
        made = io.StringIO(newline="")
        csv.writer(made, delimiter=delimiter).writerow(row)
        yield made.getvalue()


def scan(path: Path) -> TextFile:
    """The encoding, from one pass over the bytes."""
    with open_unpacked(path) as stream:
        head = stream.read(16)
        start = head.removeprefix(codecs.BOM_UTF8).lstrip()
        for magic, meaning in _OTHER_FORMATS.items():
            if start.lower().startswith(magic.encode("latin-1").lower()):
                raise DataError(f"{path} is {meaning}.")
        encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        decoder = codecs.getincrementaldecoder("utf-8")()
        lines = first_bad = total = 0
        most = room()
        for block in chain([head], iter(partial(stream.read, 1 << 22), b""), [b""]):
            total += len(block)
            if total > most:
                raise DataError(f"{path} holds more text than free memory ({most:,.0f} bytes); use a larger machine.")
            if encoding != "utf-16" and b"\0" in block:
                line = lines + block[: block.index(b"\0")].count(b"\n") + 1
                raise DataError(f"{path}, line {line} holds a zero byte: it is not a text file; expected CSV or TSV.")
            if encoding == "utf-8-sig":
                try:
                    decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    bad = max(0, error.start - (len(error.object) - len(block)))
                    first_bad = lines + block[:bad].count(b"\n") + 1
                    encoding = "cp1252"
            lines += block.count(b"\n")
    if total == 0:
        raise DataError(f"{path} is empty; expected a header and rows of cells.")
    return TextFile(path, encoding, first_bad)


def examine(path: Path, *, header: bool | None = None) -> TextFile:
    """Look through a file once.

    Args:
        header: whether the first row holds names; decided by its cells if None.
    """
    file = scan(path)
    lines, before = _sample(file)
    dictionaries = bool(lines) and all(_DICTIONARY.search(line) for line in lines if line.strip())
    if dictionaries:
        lines = [_DICTIONARY.sub("\n", line) for line in lines]
        header = header or False  # NetworkX writes none
    delimiter = _delimiter(file, lines, dictionaries)
    spaced = _is_spaced(file, lines, delimiter)
    rows = _rows_of(file, lines, delimiter, 200, spaced)
    if not rows:
        raise DataError(f"{path} holds no rows; expected a header and rows of cells.")
    (end, first), others = rows[0], [row for _, row in rows[1:]]
    filled = [sum(bool(cell.strip()) for cell in row) for _, row in rows[:3]]
    if header is not False and len(filled) == 3 and filled[0] == 1 and first[0].strip() and min(filled[1:]) > 1:
        title = first[0].strip()[:60]
        raise DataError(f"{path}, line {before + end} is a title, {title!r}, and not a header; delete the line.")
    file = replace(file, delimiter=delimiter, dictionaries=dictionaries, spaced=spaced, width=len(first), skip=before)
    if not (_is_header(first, others) if header is None else header):
        return file
    names = tuple(" ".join(cell.split()) for cell in first)
    twice = next((name for i, name in enumerate(names) if name and name in names[:i]), None)
    if twice is not None:
        raise DataError(f"{path}, line {before + end}: two columns are called {twice!r}; rename one.")
    names = tuple(name or f"column {i + 1}" for i, name in enumerate(names))
    return replace(file, header=names, skip=before + end)


def _sample(file: TextFile) -> tuple[list[str], int]:
    """The lines to look at, and how many blank ones and comments (``#``) are above them."""
    before, taken = 0, 0
    sample: list[str] = []
    with lines_of(file) as lines:
        for line in lines:
            if not sample and (not line.strip() or line.startswith("#")):
                before += 1
                continue
            sample.append(line)
            taken += len(line)
            if taken > _SAMPLE and len(sample) > 2:
                break
    return sample, before


def _rows_of(
    file: TextFile, lines: list[str], delimiter: str, count: int, spaced: bool = False
) -> list[tuple[int, list[str]]]:
    """The first rows, each with the number of the line that it ends in."""
    csv.field_size_limit(LONGEST_ROW)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=spaced)
    try:
        return list(islice(((reader.line_num, row) for row in reader if row), count))
    except csv.Error as error:
        raise file.too_long(reader.line_num) from error


def _delimiter(file: TextFile, lines: list[str], dictionaries: bool) -> str:
    """The delimiter under which the first rows have equally many cells: more than one, two with dictionaries."""
    best, score = ",", (0.0, 0)
    for delimiter in "\t;,| ":
        widths = Counter(len(row) for _, row in _rows_of(file, lines, delimiter, 50))
        width, same = max(widths.items(), key=lambda one: one[1], default=(0, 0))
        if width < 2 or (dictionaries and (width > 2 or len(widths) > 1)):
            continue
        # Text has spaces everywhere: a space counts only where nothing else divides the rows.
        found = (round(same / widths.total(), 2) - (0.5 if delimiter == " " else 0.0), width)
        if found > score:
            best, score = delimiter, found
    if dictionaries and not score[1]:
        raise DataError(
            f"{file.path}: lines end in dictionaries, as NetworkX writes them, but do not divide into two names; where "
            "names hold spaces, write them with write_edgelist(..., delimiter='\\t'), or give the graph to "
            "naq.from_networkx."
        )
    return best


def _is_spaced(file: TextFile, lines: list[str], delimiter: str) -> bool:
    """Whether most rows have a quoted cell behind a delimiter and a space, which then is not part of it."""
    rows = _rows_of(file, lines, delimiter, 50)
    spaced = sum(any(re.fullmatch(r' +".*"', cell, re.S) for cell in row) for _, row in rows)
    return delimiter != " " and spaced > len(rows) / 2


def _is_header(first: list[str], others: list[list[str]]) -> bool:
    """Whether the first row holds names: known ones, or no number and, if it has two cells, none that occurs below."""
    if not first[0].strip() or any(known_name(cell) for cell in first):
        return True
    numbers = (parse_number(cell.replace(",", ".")) for cell in first if cell.strip())
    if any(number is not None and number == number for number in numbers):
        return False
    below = {cell.strip() for row in others for cell in row[:2]}
    return len(first) > 2 or not ({cell.strip() for cell in first} & below)
