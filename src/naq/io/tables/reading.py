"""Files to tables: delimited text, Parquet, GraphML, and what to do with others.

Text is read by pyarrow; Python's ``csv`` reads a file again to name the line of a row or a mistake.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from naq.device import require, room
from naq.errors import DataError
from naq.files import file_of
from naq.io.tables.layout import LONGEST_ROW, TextFile, examine, lines_of, open_unpacked
from naq.io.tables.table import Dropped, Source, Table, networkx_tables, normalize_column

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist", ".psv")
PARQUET_SUFFIXES = (".parquet", ".pq")
DUCKDB_SUFFIXES = (".duckdb", ".ddb")
OTHER_FORMATS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save each sheet as CSV"),
    ".mtx": "read it with scipy.io.mmread and give the matrix to naq.from_tables",
    ".adjlist": "read it with networkx.read_adjlist and give the graph to naq.from_networkx",
    ".gml": "read it with networkx.read_gml and give the graph to naq.from_networkx",
    ".gexf": "read it with networkx.read_gexf and give the graph to naq.from_networkx",
    ".pkl": "pickles are never read; write an edge list where it was made",
}
"""What to do with files that people have and that are not read here."""
XML_COPIES = 40
"""Memory that GraphML takes while it is read, as a multiple of the file: a tree of elements, then NetworkX's graph."""
BLOCK = 1 << 25
END = "\x1e\x1eend\x1e\x1e"
"""Follows the last row while a file is read: if it is not read as a row, a quotation mark was not closed."""
_MOST_RAGGED = 0.1
"""If more than this share of the rows has another number of cells, the file is not what it seems."""


def open_table(path: Path, *, header: bool | None = None) -> Source:
    """The columns of a file of delimited text, also packed, or of Parquet.

    Args:
        header: whether the first row of a text file holds names; seen from its cells if None.
    """
    if path.is_dir():
        names = sorted(one.name for one in path.iterdir() if is_table(one) and one.is_file())
        hint = f", e.g. {' or '.join(str(path / name) for name in names[:3])}" if names else ""
        raise DataError(f"{path} is a folder; expected a file{hint}.")
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return open_parquet(path)
    if not is_table(path) and path.exists():
        check_known_format(path)
        known = f"{', '.join(TEXT_SUFFIXES)} (also with .gz), .parquet or .graphml"
        raise DataError(f"{path} has no ending that is known; expected {known}.")
    return open_delimited(path, header=header)


def stem(path: Path) -> str:
    """``edges`` for ``edges.csv.gz``."""
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def is_table(path: Path) -> bool:
    """Whether a name is that of a table: delimited text, also packed, Parquet or a folder of its parts, or DuckDB."""
    binary = path.suffix.lower() in (*PARQUET_SUFFIXES, *DUCKDB_SUFFIXES)
    return path.name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES) or binary or bool(parquet_parts(path))


def parquet_parts(folder: Path) -> list[Path]:
    """The Parquet files under a folder, but those whose names begin with ``_`` or ``.``; none if it is no folder."""
    if not folder.is_dir():
        return []
    found = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in PARQUET_SUFFIXES and path.is_file())
    return [path for path in found if not any(part[0] in "_." for part in path.relative_to(folder).parts)]


def is_graphml(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".graphml")


def check_known_format(path: Path) -> None:
    """An error that says what to do, where a file's name is that of a known format which is not read here."""
    advice = OTHER_FORMATS.get(path.suffix.lower())
    if advice is not None:
        raise DataError(f"{path}: {path.suffix} files are not read; {advice}.")


def open_parquet(path: Path) -> Source:
    with readable_parquet(path):
        facts = pq.read_metadata(file_of(path))
        schema = facts.schema.to_arrow_schema()
    return Source(str(path), list(schema.names), True, partial(_read_parquet, path, facts, schema))


def _read_parquet(path: Path, facts: Any, schema: Any, wanted: Sequence[str]) -> Table:
    """Text, numbers, or lists of equally many numbers; their size is known before anything is unpacked."""
    if twice := [name for name in wanted if schema.names.count(name) > 1]:
        raise DataError(f"{path} has two columns named {twice[0]!r}; rename one of them.")
    if facts.num_rows < 0:
        raise DataError(f"{path} has {facts.num_rows} rows; it is damaged, write it again.")
    with readable_parquet(path):
        size = sum(max(0, facts.row_group(i).total_byte_size) for i in range(facts.num_row_groups))
        needed = max(3 * size, 16 * facts.num_rows * len(wanted))  # rows may take no bytes in the file
        require(needed, f"reading {path}", "use a larger machine", DataError)
        texts = [one.name for one in schema if one.type in (pa.string(), pa.large_string())]
        # as codes and distinct texts: a file may repeat a long text in few bytes
        with pq.ParquetFile(path, metadata=facts, read_dictionary=texts) as file:
            table = file.read(columns=list(wanted))
        table.validate(full=True)  # text that is not UTF-8, offsets that lead nowhere
    columns = {name: normalize_column(table.column(name), name, str(path)) for name in wanted}

    def places(rows: Any) -> list[str]:
        return [f"{path.name}, row {row + 1}" for row in rows]

    return Table(str(path), columns, table.num_rows, places)


@contextmanager
def readable_parquet(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        reason = str(error).splitlines()[0][:120]
        raise DataError(f"{path} is not a readable Parquet file ({reason}); write it again.") from error


def read_graphml(path: Path) -> tuple[Table, Table, bool]:
    """Edges and nodes of the one graph of a file, by NetworkX, and whether it is directed; attributes are columns."""
    from networkx import NetworkXError
    from networkx.readwrite.graphml import GraphMLReader

    most = int(room() / XML_COPIES)
    with open_unpacked(path) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise DataError(f"{path} holds more than {most:,} bytes, which do not fit into free memory; write CSV instead.")
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler = _refuse_doctype, _check_element
    try:
        parser.Parse(content, True)
        graphs = list(GraphMLReader(node_type=str)(string=content))
    except expat.ExpatError as error:
        raise DataError(f"{path}, line {error.lineno}: not readable XML ({error}).") from error
    except KeyError as error:
        raise DataError(f"{path} is not readable GraphML: {error} is missing or not declared.") from error
    except (NetworkXError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is not readable GraphML ({error}).") from error
    if len(graphs) != 1:
        what = "more than one graph" if graphs else "no <graph> in <graphml xmlns=...>"
        raise DataError(f"{path} holds {what}; expected one graph of nodes and edges.")
    for _, data in graphs[0].nodes(data=True):
        data.update(graphs[0].graph.get("node_default", {}) | data)
    return *networkx_tables(graphs[0], path.name), graphs[0].is_directed()


def _refuse_doctype(*_: object) -> None:
    raise ValueError("it declares a document type, which is never read: remove the <!DOCTYPE ...> line")


def _check_element(tag: str, attributes: dict[str, str]) -> None:
    """NetworkX would take a missing name for the name ``None``."""
    needed = {"node": ("id",), "edge": ("source", "target")}.get(tag.rpartition(":")[2], ())
    missing = [name for name in needed if name not in attributes]
    if missing:
        raise ValueError(f"a <{tag}> has no {missing[0]}")


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
            kinds: Any = {"column_types": dict.fromkeys(wanted, text), "include_columns": list(wanted)}
            rows: Any = {"column_names": file.columns(), "skip_rows": file.skip, "block_size": BLOCK}
            cells: Any = {"delimiter": file.delimiter, "newlines_in_values": True, "invalid_row_handler": skip}
            how = pyarrow.csv.ReadOptions(**rows, use_threads=False), pyarrow.csv.ParseOptions(**cells)
            convert = pyarrow.csv.ConvertOptions(**kinds, strings_can_be_null=False)
            reader = pyarrow.csv.open_csv(pa.PythonFile(stream, mode="r"), *how, convert)
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
