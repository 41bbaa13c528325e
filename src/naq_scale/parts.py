"""A folder of Parquet parts: ``nodes`` and ``edges``, each a folder of files or files of that name, read in batches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from naq.errors import DataError
from naq.files import file_of
from naq.graph import Graph
from naq.io.readers import Reader
from naq.io.tables.reading import PARQUET_SUFFIXES, parquet_parts, readable_parquet

BATCH = 1 << 17
"""Rows that are read at once."""
SPLIT = 4
"""A row group is divided if it has more than so many times the rows of a piece, since reading begins at its start."""
MOST_SAMPLED = 256
"""Row groups that a sample is taken from at most."""
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_NUMBER = re.compile(r"(\D*)(\d+)")


class PartsReader(Reader):
    """Two tables as Parquet parts, which are predicted from without a graph in memory."""

    name = "parts"
    expects = "a folder with Parquet parts of nodes and edges (naq predict)"
    predictor: ClassVar[str] = "naq_scale.predicting:predict_parts"

    def fits(self, path: Path) -> bool:
        return path.is_dir() and bool(part_files(path, "nodes") and part_files(path, "edges"))

    def read(self, path: Path, name: str | None = None) -> Graph:
        raise DataError(
            f"{path} is a folder of Parquet parts, which 'naq predict' and 'naq estimate' read in blocks; for a graph "
            f"in memory run: naq import {path / 'edges'} --nodes {path / 'nodes'} --out graph.npz"
        )


def part_files(folder: Path, table: str) -> list[Path]:
    """The Parquet files of ``nodes`` or ``edges``, by name: in a folder of that name, or files that begin with it."""
    beside = (one for one in sorted(folder.glob(f"{table}*")) if one.suffix.lower() in PARQUET_SUFFIXES)
    return parquet_parts(folder / table) or [one for one in beside if one.is_file()]


class ParquetParts:
    """The files of one table as one table.

    Attributes:
        columns: their names and types; ``rows``: how many.
        stamp: says whether a file has changed since.
    """

    def __init__(self, folder: Path, table: str) -> None:
        self.folder, self.title, self.files = folder, table, part_files(folder, table)
        if not self.files:
            raise DataError(f"{folder} has no Parquet files of {table}; expected a folder {table} or {table}*.parquet.")
        self._check_numbers()
        self._facts: list[Any] = []
        for file in self.files:
            with readable_parquet(file):
                self._facts.append(pq.read_metadata(file_of(file)))
        schemas = [one.schema.to_arrow_schema() for one in self._facts]
        self.columns = self._columns_of_all(schemas)
        groups = [(file, group) for file, one in enumerate(self._facts) for group in range(one.num_row_groups)]
        self._groups = [(file, group, self._facts[file].row_group(group).num_rows) for file, group in groups]
        self._ends = np.cumsum([0, *(rows for *_, rows in self._groups)])
        self.rows = int(self._ends[-1])
        if not self.rows:
            raise DataError(f"{self.files[0]}: there are no rows of {table}; expected at least one.")
        facts = [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in self.files]
        self.stamp = hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()

    def _check_numbers(self) -> None:
        """Of files that are numbered from 0 or 1, none may be missing."""
        found = [_NUMBER.match(one.stem.removeprefix(self.title)) for one in self.files]
        there = {int(one[2]): one[2] for one in found if one}
        if len(there) < len(self.files) or min(there) > 1:
            return
        missing = sorted(set(range(min(there), max(there))) - set(there))
        if missing and len(missing) <= len(there):
            name = str(missing[0]).zfill(len(there[min(there)]))
            count = f"{len(missing)} parts are missing, the first is" if len(missing) > 1 else "a part is missing:"
            first, last = self.files[0].name, self.files[-1].name
            raise DataError(f"{self.title}: {count} number {name} of {first} to {last}; copy it there.")

    def _columns_of_all(self, schemas: Sequence[pa.Schema]) -> dict[str, pa.DataType]:
        """Names and types of the columns that all files have; one type for those that differ but mean the same."""
        first, found = self.files[0].name, dict[str, pa.DataType]()
        for file, schema in zip(self.files, schemas):
            if len(set(schema.names)) < len(schema.names):
                raise DataError(f"{file} has two columns of the same name; rename one of them.")
            if differ := sorted(set(schemas[0].names) ^ set(schema.names)):
                one, other = (file.name, first) if differ[0] in schema.names else (first, file.name)
                missing = f"{one} has a column {differ[0]!r} and {other} has none"
                raise DataError(f"{self.title}: {missing}; write all parts alike.")
            for name in schema.names:
                kind, own = found.get(name, pa.null()), schema.field(name).type
                if (joined := joined_type(kind, own)) is None:
                    both = f"{own} in {file.name} and {kind} before"
                    raise DataError(f"{self.title}: column {name!r} is {both}; write all parts alike.")
                found[name] = joined
        return found

    def bounds(self, most: int) -> list[tuple[int, int]]:
        """Pieces of about ``most`` rows; they end where row groups end, if these are not much larger."""
        ends = [0]
        for end in self._ends[1:].tolist():
            while end - ends[-1] > SPLIT * most:
                ends.append(ends[-1] + SPLIT * most)
            if end > ends[-1] and (end - ends[-1] >= most or end == self.rows):
                ends.append(end)
        return list(pairwise(ends))

    def read(self, start: int, stop: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows ``start`` to ``stop - 1`` of these columns, in batches."""
        for number in range(int(np.searchsorted(self._ends, start, "right")) - 1, len(self._groups)):
            file, group, _ = self._groups[number]
            first = int(self._ends[number])
            if first >= stop:
                return
            with (
                readable_parquet(self.files[file]),
                pq.ParquetFile(self.files[file], metadata=self._facts[file]) as one,
            ):
                for batch in one.iter_batches(BATCH, row_groups=[group], columns=list(columns)):
                    low, high = max(start, first), min(stop, first + len(batch))
                    if low < high:
                        rows = pa.Table.from_batches([batch.slice(low - first, high - low)]).select(list(columns))
                        yield rows.cast(pa.schema([(name, self.columns[name]) for name in columns]))
                    first += len(batch)
                    if first >= stop:
                        return

    def sample(self, most: int, draw: np.random.Generator) -> np.ndarray:
        """Row numbers, ascending: all, or ``most`` of some row groups."""
        if self.rows <= most:
            return np.arange(self.rows)
        some = np.unique(np.linspace(0, len(self._groups) - 1, MOST_SAMPLED).astype(int))
        sizes = np.diff(self._ends)[some]
        drawn = np.sort(draw.choice(int(sizes.sum()), min(most, int(sizes.sum())), replace=False))
        group = np.searchsorted(np.cumsum(sizes), drawn, "right")
        return drawn - (np.cumsum(sizes) - sizes)[group] + self._ends[some][group]

    def take(self, rows: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """These rows, ascending; only row groups that hold some are read."""
        found = [next(self.read(0, 1, columns)).slice(0, 0)]
        for first, last in pairwise(self._ends.tolist()):
            here = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)]
            start = first
            for batch in self.read(first, last, columns) if len(here) else ():
                some = here[(here >= start) & (here < start + len(batch))]
                found.append(batch.take(some - start))
                start += len(batch)
        return pa.concat_tables(found)

    def places(self, rows: Sequence[int]) -> list[str]:
        """``part-0.parquet, row 17`` of each row."""
        ends = np.cumsum([one.num_rows for one in self._facts])
        files = [int(np.searchsorted(ends, row, "right")) for row in rows]
        firsts = ends - [one.num_rows for one in self._facts]
        return [f"{self.files[f].name}, row {row - int(firsts[f]) + 1}" for row, f in zip(rows, files)]


@lru_cache(maxsize=4)
def graph_parts(folder: str, table: str, stamp: str) -> ParquetParts:
    """Once for all shards that a worker makes; files that have changed are an error."""
    found = ParquetParts(Path(folder), table)
    if found.stamp != stamp:
        raise DataError(f"files of {found.title} in {folder} have changed since the command began; start it again.")
    return found


def joined_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """What columns of two types are read as: parts differ in width, and where a cell is missing; None if in more."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other)]
    if all(kind in TEXTS for kind in kinds):
        return pa.large_string()
    if all(map(pa.types.is_integer, kinds)):
        return pa.uint64() if pa.uint64() in kinds and all(map(pa.types.is_unsigned_integer, kinds)) else pa.int64()
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    return None
