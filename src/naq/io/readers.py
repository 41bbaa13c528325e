"""Readers: one per file format, found by the layout of a path or by the name that a dataset of the catalog gives."""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from naq.device import room
from naq.errors import DataError
from naq.graph import Graph
from naq.plugins import Registry
from naq.tasks import ClassSplit


class Unpacked(io.RawIOBase):
    """The content of a gzip stream. Python's own reader takes a call for every zero behind a member and does not tire of members of nothing."""

    def __init__(self, packed: IO[bytes]) -> None:
        self.packed, self.rest, self.members, self.made = packed, b"", 0, 0
        self.member: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        found = b""
        while not found:
            self.rest = self.rest or self.packed.read(1 << 16)
            if not self.rest:
                if self.member is not None:
                    raise EOFError("it ends within a member")
                return 0
            if self.member is None:
                self.rest = self.rest.lstrip(b"\0") if self.members else self.rest
                if not self.rest:
                    continue
                self.members += 1
                if self.members == 1 and not self.rest.startswith(b"\x1f\x8b"):
                    raise gzip.BadGzipFile("it does not begin as gzip does")
                if self.members > 1_000 + self.made // 100:
                    raise zlib.error(f"over {self.members - 1:,} members that hold next to nothing")
                self.member = zlib.decompressobj(31)
            found = self.member.decompress(self.rest, len(out))
            self.rest = self.member.unused_data if self.member.eof else self.member.unconsumed_tail
            self.member = None if self.member.eof else self.member
        out[: len(found)] = found
        self.made += len(found)
        return len(found)


class Reader(ABC):
    """One file format; a subclass is listed in :data:`READERS`.

    Attributes:
        name: what the catalog calls it.
        expects: what it reads in a few words, for messages; "" for a format of one published dataset.
        slow: whether reading takes so long that the graph is kept as npz beside the download.
    """

    name: ClassVar[str]
    expects: ClassVar[str] = ""
    slow: ClassVar[bool] = False

    def fits(self, path: Path) -> bool:
        """Whether an existing file or folder looks like this format; by name and layout, not by content."""
        return False

    @abstractmethod
    def read(self, path: Path, name: str | None = None) -> Graph:
        """The graph; one clear sentence (``DataError``) where the file is not what it should be."""

    def split(self, path: Path, graph: Graph) -> ClassSplit | None:
        """The class split that goes with the file at ``path``, if the format has one."""
        return None

    def read_verified(self, path: Path) -> Graph:
        """The same, every byte compared with its checksum."""
        raise DataError(f"{path} has no checksums of its arrays; leave verify out.")


READERS: Registry[type[Reader]] = Registry(
    "a reader",
    {
        "npz": "naq.io.npz:NpzReader",
        "mapped": "naq_scale.mapped:FolderReader",
        "cora-full": "naq_paper.datasets.cora_full:CoraFullReader",
        "edge-list": "naq.io.tables.importing:EdgeListReader",
        "graphml": "naq.io.tables.importing:GraphMLReader",
        "gpn": "naq_paper.datasets.gpn:GpnReader",
        "ogb": "naq.io.ogb:OgbReader",
    },
)


LONGEST_LINE = 1 << 23


class _Lines:
    """The lines of a text stream and the last one that was read; a line or a table beyond bounds is an error."""

    def __init__(self, stream: IO[str], title: str, itemsize: int) -> None:
        self.stream, self.title, self.itemsize = stream, title, itemsize
        self.number, self.last = 0, ""

    def __iter__(self) -> Iterator[str]:
        most = 2 * room() // self.itemsize  # a number and what ends it take two characters or more
        read = 0
        while line := self.stream.readline(LONGEST_LINE):
            self.number, self.last = self.number + 1, line
            read += len(line)
            if len(line) == LONGEST_LINE:
                raise DataError(f"{self.title} has a line over {LONGEST_LINE:,} characters; expected rows of numbers.")
            if read > most:
                raise DataError(f"{self.title} needs more than this machine's memory; use a larger machine.")
            yield line


def read_table(
    stream: IO[str], title: str, *, delimiter: str | None = None, columns: int | None = None, rows: int | None = None,
    dtype: Any = np.float32,
) -> np.ndarray:  # fmt: skip
    """A (rows, columns) array from lines of numbers; blank lines are skipped.

    Args:
        delimiter: between two numbers; any white space if None.
        columns: expected numbers per line; those of the first line if None.
        rows: expected lines.
        dtype: a whole-number type allows no fractions and nothing out of its range.
    """
    lines = _Lines(stream, title, np.dtype(dtype).itemsize)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # a fraction where a whole number is expected
            warnings.simplefilter("ignore", UserWarning)  # blank lines, an empty file
            most = None if rows is None else rows + 1
            table = np.loadtxt(lines, dtype, comments=None, delimiter=delimiter, ndmin=2, max_rows=most)
    except (ValueError, DeprecationWarning) as error:
        if isinstance(error, DataError):
            raise
        kind = "whole numbers" if np.dtype(dtype).kind in "iu" else "numbers"
        wanted = f"{columns} {kind}" if columns else f"{kind}, as many as in the first line"
        raise DataError(
            f"{title}, line {lines.number}: {lines.last.strip()[:60]!r} cannot be read; expected {wanted}."
        ) from error
    if not len(table):
        table = table.reshape(0, columns or 0)
    if columns is not None and table.shape[1] != columns:
        raise DataError(f"{title} has {table.shape[1]} numbers per line; expected {columns}.")
    if rows is not None and len(table) != rows:
        found = f"more than {rows:,}" if len(table) > rows else f"{len(table):,}"
        raise DataError(f"{title} has {found} rows; expected {rows:,}: it may be damaged, download it again.")
    return table
