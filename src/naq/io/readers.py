"""Readers: one per file format, found by the layout of a path or by the name that a dataset of the catalog gives."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

import numpy as np

from naq.device import room
from naq.errors import DataError
from naq.graph import Graph
from naq.options import Registry

if TYPE_CHECKING:
    from naq.tasks import ClassSplit


class Reader(ABC):
    """One file format; a subclass is listed in :data:`READERS`.

    Attributes:
        name: what the catalog calls it.
        expects: what it reads in a few words, for messages; "" for a format of one published dataset.
        slow: whether reading takes so long that the graph is kept as npz next to the download.
        predictor: ``module:name`` of what ``naq predict`` does with it in place of loading it.
    """

    name: ClassVar[str]
    expects: ClassVar[str] = ""
    slow: ClassVar[bool] = False
    predictor: ClassVar[str] = ""

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
        "icebug": "naq.io.tables.importing:IcebugReader",
        "parts": "naq_scale.parts:PartsReader",
        "cora-full": "naq_paper.datasets.cora_full:CoraFullReader",
        "edge-list": "naq.io.tables.importing:EdgeListReader",
        "graphml": "naq.io.tables.importing:GraphMLReader",
        "gpn": "naq_paper.datasets.gpn:GpnReader",
        "ogb": "naq.io.ogb:OgbReader",
    },
)


def find_reader(path: Path) -> Reader | None:
    """The reader of a file or folder, by its name and layout; None if it has no known format."""
    try:
        return next((reader() for reader in READERS.values() if reader().fits(path)), None)
    except (OSError, ValueError):  # a name that no file can have
        return None


LONGEST_LINE = 1 << 23


def read_numbers(
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
    number, last = 0, ""

    def lines() -> Iterator[str]:
        nonlocal number, last
        left = 2 * room() // np.dtype(dtype).itemsize  # a number and what ends it take two characters or more
        while last := stream.readline(LONGEST_LINE):
            number, left = number + 1, left - len(last)
            if len(last) == LONGEST_LINE:
                raise DataError(f"{title} has a line over {LONGEST_LINE:,} characters; expected rows of numbers.")
            if left < 0:
                raise DataError(f"{title} needs more than this machine's memory; use a larger machine.")
            yield last

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # a fraction where a whole number is expected
            warnings.simplefilter("ignore", UserWarning)  # blank lines, an empty file
            most = None if rows is None else rows + 1
            table = np.loadtxt(lines(), dtype, comments=None, delimiter=delimiter, ndmin=2, max_rows=most)
    except (ValueError, DeprecationWarning) as error:
        if isinstance(error, DataError):
            raise
        kind = "whole numbers" if np.dtype(dtype).kind in "iu" else "numbers"
        wanted = f"{columns} {kind}" if columns else f"{kind}, as many as in the first line"
        raise DataError(f"{title}, line {number}: {last.strip()[:60]!r} cannot be read; expected {wanted}.") from error
    if not len(table):
        table = table.reshape(0, columns or 0)
    if columns is not None and table.shape[1] != columns:
        raise DataError(f"{title} has {table.shape[1]} numbers per line; expected {columns}.")
    if rows is not None and len(table) != rows:
        found = f"more than {rows:,}" if len(table) > rows else f"{len(table):,}"
        raise DataError(f"{title} has {found} rows; expected {rows:,}: it may be damaged, download it again.")
    return table
