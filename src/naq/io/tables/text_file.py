"""What a delimited text file is, found before it is read: encoding, delimiter, header, and whether it is text at all."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from naq.errors import DataError
from naq.files import file_of
from naq.memory import room

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
    """A delimited text file and how to read it; made by :func:`naq.io.tables.layout.examine`.

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
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            yield stream  # type: ignore[misc]
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist.") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; expected a file.") from error
    except gzip.BadGzipFile as error:
        raise DataError(f"{path} is not a gzip file, though its name ends in .gz; rename it.") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged or truncated ({error}); make or download it again.") from error
    except DataError:
        raise
    except UnicodeError as error:
        raise DataError(
            f"{path} is not text in the encoding that it begins with ({error}); save it as UTF-8."
        ) from error
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
