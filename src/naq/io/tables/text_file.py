"""What a delimited text file is, found before it is read: encoding, delimiter, title line, header, and whether it is text at all."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from naq.device import room
from naq.errors import DataError
from naq.files import file_of
from naq.io.readers import Unpacked
from naq.io.tables.roles import known_name

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist", ".psv")
LONGEST_ROW = 1 << 24
"""Characters of one row. A longer one is nearly always a quotation mark that is never closed."""
END = "\x1e\x1eend\x1e\x1e"
"""Put behind the last row while reading: where it does not come back as a row, a quotation mark was not closed."""
DICTIONARY = re.compile(r"[\s,;|]\{(?:['\"].*)?\}\s*$")
_BLOCK = 1 << 22
_OTHER_FORMATS = {
    b"\x1f\x8b": "a gzip file; add .gz to its name",
    b"PK\x03\x04": "a zip archive (.npz, .xlsx and .ods are such); save it as CSV",
    b"PAR1": "a Parquet file; rename it to .parquet",
    b"%PDF": "a PDF; save it as CSV",
    b"\x89HDF": "an HDF5 file; save it as CSV or Parquet",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save it as CSV",
    b"SQLite format 3": "an SQLite database; export its tables as CSV",
    b"ARROW1": "an Arrow file; save it as Parquet",
    b"\x93NUMPY": "a NumPy array; give it with --vector",
    b"<?xml": "an XML file; if it is GraphML, rename it to .graphml",
    b"<graphml": "a GraphML file; rename it to .graphml",
    b"<!DOCTYPE": "an HTML page; download the file itself",
    b"<html": "an HTML page; download the file itself",
}


@dataclass(frozen=True)
class TextFile:
    """A delimited text file and how to read it; made by :func:`naq.io.tables.text_file.examine`.

    Attributes:
        encoding: ``utf-8-sig`` unless its bytes say otherwise.
        first_bad: the line that is not UTF-8, where it is read in another encoding.
        skip: lines before the first row of data: comments, blank lines, the header.
        header: the names of the columns, or None where the file has no header.
        width: cells of the first row.
        quotes: how many quotation marks it holds.
        title_line: a line above the header, as spreadsheets have it, or "".
        dictionaries: whether every line ends in a dictionary, as NetworkX writes edges; these are not read.
        spaced: whether a space stands between a delimiter and a quoted cell: ``"a", "b"``.
    """

    path: Path
    encoding: str
    first_bad: int
    quotes: int
    delimiter: str = ","
    header: tuple[str, ...] | None = None
    skip: int = 0
    width: int = 0
    title_line: str = ""
    dictionaries: bool = False
    spaced: bool = False

    @property
    def title(self) -> str:
        return self.path.name

    def columns(self) -> list[str]:
        """The names of the columns, or their numbers ``1``, ``2``, ... where there is no header."""
        return list(self.header) if self.header is not None else [str(i + 1) for i in range(self.width)]


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where its name ends in ``.gz``; every way to fail is one sentence."""
    try:
        file_of(path)
        with path.open("rb") as stream:
            yield io.BufferedReader(Unpacked(stream)) if path.suffix == ".gz" else stream  # type: ignore[misc]
    except gzip.BadGzipFile as error:
        raise DataError(f"{path} is not a gzip file, though its name ends in .gz; rename it.") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged or truncated ({error}); make or download it again.") from error
    except DataError:
        raise
    except UnicodeError as error:
        raise DataError(f"{path} is not text in the encoding it begins with ({error}); save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def lines_of(file: TextFile) -> Iterator[Iterator[str]]:
    """The lines of a file with their ends, as the csv module wants them; one that is too long is cut."""
    with opened(file.path) as stream, io.TextIOWrapper(stream, encoding=file.encoding, newline="") as text:
        lines = iter(partial(text.readline, LONGEST_ROW + 1), "")
        yield (DICTIONARY.sub("\n", line) for line in lines) if file.dictionaries else lines


def scan(path: Path) -> TextFile:
    """Encoding and quotation marks, from one pass over the bytes."""
    with opened(path) as stream:
        head = stream.read(16)
        start = head.removeprefix(codecs.BOM_UTF8).lstrip()
        for magic, meaning in _OTHER_FORMATS.items():
            if start.lower().startswith(magic.lower()):
                raise DataError(f"{path} is {meaning}.")
        encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        quotes = lines = first_bad = total = 0
        most = room()
        block, windows = head, True
        while block:
            total += len(block)
            if total > most:
                raise DataError(f"{path} holds more text than free memory ({most:,.0f} bytes); use a larger machine.")
            if encoding != "utf-16" and b"\0" in block:
                line = lines + block[: block.index(b"\0")].count(b"\n") + 1
                raise DataError(f"{path}, line {line} holds a zero byte: it is not a text file; expected CSV or TSV.")
            if encoding == "utf-8-sig":
                try:
                    decoder.decode(block)
                except UnicodeDecodeError as error:
                    bad = max(0, error.start - (len(error.object) - len(block)))
                    first_bad = lines + block[:bad].count(b"\n") + 1
                    encoding = "cp1252"
            if encoding == "cp1252":
                windows = windows and not any(byte in block for byte in b"\x81\x8d\x8f\x90\x9d")
            quotes += block.count(b'"')
            lines += block.count(b"\n")
            block = stream.read(_BLOCK)
    if encoding == "utf-8-sig":
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:  # it ends within a character
            first_bad, encoding = lines + 1, "cp1252"
    if total == 0:
        raise DataError(f"{path} is empty; expected a header and rows of cells.")
    if encoding == "cp1252" and not windows:
        encoding = "latin-1"
    return TextFile(path, encoding, first_bad, quotes)


def too_long(file: TextFile, line: int) -> DataError:
    return DataError(
        f"{file.path}, line {line}: a row has over {LONGEST_ROW:,} characters; a quotation mark before it is probably "
        "not closed, or the text is longer than can be used: shorten it."
    )


DELIMITERS = "\t;,| "
_SAMPLE = 1 << 18
_SPACED = re.compile(r' +".*"', re.S)


def examine(path: Path, *, header: bool | None = None) -> TextFile:
    """Look through a file once.

    Args:
        header: whether the first row holds names; decided by its cells if None.
    """
    file = scan(path)
    lines = [line for line in _first_lines(file)[0] if line.strip()]
    file = replace(file, dictionaries=bool(lines) and all(DICTIONARY.search(line) for line in lines))
    file = replace(file, delimiter=_delimiter_of_pairs(file) if file.dictionaries else _delimiter(file))
    file = replace(file, spaced=_is_spaced(file))
    rows, skip = _first_rows(file, 200)
    if rows and header is not False and _is_title(rows):
        skip, first = rows.pop(0)
        file = replace(file, title_line=next(cell.strip() for cell in first if cell.strip()))
    if not rows:
        raise DataError(f"{path} holds no rows; expected a header and rows of cells.")
    line, first = rows[0]
    if file.dictionaries:  # NetworkX writes no header
        header = header or False
    named = header if header is not None else _is_header(first, [row for _, row in rows[1:]])
    if not named:
        return replace(file, skip=skip, width=len(first))
    names = tuple(" ".join(cell.split()) for cell in first)
    twice = next((name for i, name in enumerate(names) if name and name in names[:i]), None)
    if twice is not None:
        raise DataError(f"{path}, line {line}: two columns are called {twice!r}; rename one.")
    names = tuple(name or f"column {i + 1}" for i, name in enumerate(names))
    return replace(file, header=names, skip=line, width=len(first))


def _first_rows(file: TextFile, count: int) -> tuple[list[tuple[int, list[str]]], int]:
    """The first rows, each with the line it ends in, and the lines before them: blank ones and comments (``#``)."""
    sample, before = _first_lines(file)
    rows: list[tuple[int, list[str]]] = []
    reader = csv.reader(iter(sample), delimiter=file.delimiter, skipinitialspace=file.spaced)
    csv.field_size_limit(LONGEST_ROW)
    try:
        for row in reader:
            if row:
                rows.append((before + reader.line_num, row))
            if len(rows) == count:
                break
    except csv.Error as error:
        raise too_long(file, before + reader.line_num) from error
    return rows, before


def _first_lines(file: TextFile) -> tuple[list[str], int]:
    """The lines to look at, and how many blank ones and comments are above them."""
    with lines_of(file) as lines:
        before, taken = 0, 0
        sample: list[str] = []
        for line in lines:
            if not sample and (not line.strip() or line.startswith("#")):
                before += 1
                continue
            sample.append(line)
            taken += len(line)
            if taken > _SAMPLE and len(sample) > 2:
                break
    return sample, before


def _is_title(rows: list[tuple[int, list[str]]]) -> bool:
    """Whether the first row is a single cell above a table: the two rows below have more cells."""

    def filled(row: list[str]) -> int:
        return sum(bool(cell.strip()) for cell in row)

    below = [filled(row) for _, row in rows[1:3]]
    return filled(rows[0][1]) == 1 and bool(rows[0][1][0].strip()) and len(below) == 2 and min(below) > 1


def _delimiter(file: TextFile) -> str:
    """The delimiter under which the first rows have equally many cells, and more than one."""
    best, score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        rows = [row for _, row in _first_rows(replace(file, delimiter=delimiter), 50)[0]]
        # Cells of most rows, of the earliest where several are as frequent: the first row may be a title.
        counts = Counter(map(len, rows))
        width = max(counts, key=counts.__getitem__) if counts else 0
        if width < 2:
            continue
        same = sum(len(row) == width for row in rows) / len(rows)
        # A space stands in text everywhere: it counts only where nothing else divides the rows.
        found = (round(same, 2) - (0.5 if delimiter == " " else 0.0), width)
        if found > score:
            best, score = delimiter, found
    return best


def _delimiter_of_pairs(file: TextFile) -> str:
    """The delimiter that divides every line, without its dictionary, into two names, as NetworkX writes them."""
    for delimiter in DELIMITERS:
        rows, _ = _first_rows(replace(file, delimiter=delimiter), 50)
        if rows and all(len(row) == 2 for _, row in rows):
            return delimiter
    raise DataError(
        f"{file.path}: lines end in dictionaries, as NetworkX writes them, but do not divide into two names; where names hold "
        "spaces, write them with write_edgelist(..., delimiter='\\t'), or give the graph to naq.from_networkx."
    )


def _is_spaced(file: TextFile) -> bool:
    """Whether most rows have a quoted cell behind a delimiter and a space, which then is no part of it."""
    if file.delimiter == " " or not re.search(rf'{re.escape(file.delimiter)} +"', "".join(_first_lines(file)[0])):
        return False
    rows = [row for _, row in _first_rows(file, 50)[0]]
    return sum(any(_SPACED.fullmatch(cell) for cell in row) for row in rows) > len(rows) / 2


def _is_header(first: list[str], others: list[list[str]]) -> bool:
    """Whether the first row holds names: one that columns have, or no number and, of two cells, none that occurs below."""
    if not first[0].strip() or any(known_name(cell) for cell in first):
        return True
    if any(_is_number(cell.strip()) for cell in first):
        return False
    below = {cell.strip() for row in others for cell in row[:2]}
    return len(first) > 2 or not ({cell.strip() for cell in first} & below)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
