"""Files to tables: delimited text, Parquet, GraphML, and what to do with others.

The standard library's reader of delimited text is the definition. pyarrow reads the same cells several times faster and is used for
UTF-8; whatever it refuses is read again by the standard library, which then says what is wrong.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from naq.device import room
from naq.errors import DataError, MissingDependency
from naq.io.tables.columns import Cells, Column, Dropped, Table
from naq.io.tables.text_file import END, LONGEST_ROW, TEXT_SUFFIXES, TextFile, examine, lines_of, opened, too_long

OTHER_FORMATS = {
    ".xlsx": "save each sheet as CSV",
    ".xls": "save each sheet as CSV",
    ".ods": "save each sheet as CSV",
    ".mtx": "read it with scipy.io.mmread and give the matrix to naq.from_tables",
    ".adjlist": "read it with networkx.read_adjlist and give the graph to naq.from_networkx",
    ".gml": "read it with networkx.read_gml and give the graph to naq.from_networkx",
    ".gexf": "read it with networkx.read_gexf and give the graph to naq.from_networkx",
    ".pkl": "pickles are never read; write an edge list where it was made",
}
"""What to do with files that people have and that are not read here."""


def read_table(path: Path, choose: Choose, *, header: bool | None = None) -> Table:
    """The columns that ``choose`` names of a file: delimited text, also packed, or Parquet."""
    if path.is_dir():
        names = sorted(one.name for one in path.iterdir() if is_table(one) and one.is_file())
        hint = f", e.g. {' or '.join(str(path / name) for name in names[:3])}" if names else ""
        raise DataError(f"{path} is a folder; expected a file{hint}.")
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from naq.io.tables.arrow import read_parquet
        except ImportError as error:
            raise MissingDependency(f'{path}: Parquet needs pyarrow: pip install "naq[io]".') from error
        return read_parquet(path, choose)
    if not is_table(path) and path.exists():
        check_known_format(path)
        raise DataError(
            f"{path} has no ending that is known; expected {', '.join(TEXT_SUFFIXES)} (also with .gz), .parquet or .graphml."
        )
    return read_delimited(path, choose, header=header)


def stem(path: Path) -> str:
    """``edges`` for ``edges.csv.gz``."""
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def is_table(path: Path) -> bool:
    """Whether a file's name is that of a table: delimited text, also packed, or Parquet."""
    return path.name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES) or path.suffix.lower() in (".parquet", ".pq")


def check_known_format(path: Path) -> None:
    """An error that says what to do, where a file's name is that of a known format which is not read here."""
    advice = OTHER_FORMATS.get(path.suffix.lower())
    if advice is not None:
        raise DataError(f"{path}: {path.suffix} files are not read; {advice}.")


def is_graphml(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".graphml")


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
        table.notes.append(f"{path.name}: the dictionaries at the ends of lines are not read")
    if file.first_bad:
        read_as = "Windows-1252" if file.encoding == "cp1252" else "Latin-1"
        table.notes.append(
            f"{path.name} is not UTF-8 (first in line {file.first_bad}); it was read as {read_as}: check accented letters."
        )
    return table


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
    found = (Cells(np.array(taken, dtype=np.int64), list(seen)) for seen, taken in zip(known, codes))
    columns: dict[str, Column] = dict(zip(wanted, found))
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


PARSED = 24
"""Bytes that a byte of XML takes as a tree, at most."""
ID = "id"


class _Tree(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        raise ValueError("it declares a document type, which is never read: remove the <!DOCTYPE ...> line")


def read_graphml(path: Path) -> tuple[Table, Table]:
    """Edges and nodes of the one graph of a file; attributes of nodes are columns under their ``attr.name``."""
    most = int(room() / PARSED)
    with opened(path) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise DataError(f"{path} holds more than {most:,} bytes, which do not fit into free memory; write CSV instead.")
    try:
        root = ElementTree.fromstring(content, ElementTree.XMLParser(target=_Tree()))
    except ElementTree.ParseError as error:
        line, column = error.position
        raise DataError(f"{path}, line {line}: not readable XML ({error.msg}, column {column}).") from error
    except (LookupError, ValueError, RecursionError) as error:  # an encoding that there is not, brackets too deep
        raise DataError(f"{path} is not readable XML ({error}).") from error
    found: dict[str, list[ElementTree.Element]] = {}
    for element in root.iter():
        found.setdefault(element.tag.rpartition("}")[2], []).append(element)
    if root not in found.get("graphml", ()):
        raise DataError(f"{path} begins with <{root.tag.rpartition('}')[2]}>; expected <graphml>.")
    other = [tag for tag in ("hyperedge", "port") if tag in found]
    if len(found.get("graph", ())) != 1 or other:
        what = f"a <{other[0]}>" if other else "more than one graph" if "graph" in found else "no <graph>"
        raise DataError(f"{path} holds {what}; expected one graph of nodes and edges.")
    nodes, edges = found.get("node", []), found.get("edge", [])
    ids = [_needed(node, "id", path, f"node {i}") for i, node in enumerate(nodes, 1)]
    keys = {key.get("id", ""): key for key in found.get("key", ()) if key.get("for") in ("node", "all")}
    names = {name: key.get("attr.name", "") for name, key in keys.items()}
    cells: dict[str, dict[int, str]] = {}
    for i, node in enumerate(nodes):
        for child in node:
            name, text = names.get(child.get("key", "")), child.text or ""
            if name and len(text) > LONGEST_ROW:
                what = f"{path}, node {i + 1}: {name!r} has {len(text):,} characters"
                raise DataError(f"{what}; expected at most {LONGEST_ROW:,}: shorten it.")
            if name:
                cells.setdefault(name, {})[i] = text
    columns: dict[str, Column] = {ID: Cells.of(ids)}
    for key, name in names.items():
        if name in cells or (name and len(keys[key])):
            default, held = "".join(child.text or "" for child in keys[key]), cells.get(name, {})
            columns[name if name != ID else "id attribute"] = Cells.of(held.get(i, default) for i in range(len(ids)))
    ends: dict[str, Column] = {
        end: Cells.of(_needed(edge, end, path, f"edge {i}") for i, edge in enumerate(edges, 1))
        for end in ("source", "target")
    }
    places = [partial(_named_places, path, what) for what in ("edge", "node")]
    return Table(str(path), ends, len(edges), places[0]), Table(str(path), columns, len(ids), places[1])


def _needed(element: ElementTree.Element, name: str, path: Path, title: str) -> str:
    value = element.get(name)
    if value is None:
        raise DataError(f"{path}: {title} has no {name}; expected <{element.tag.rpartition('}')[2]} {name}=...>.")
    return value


def _named_places(path: Path, what: str, rows: Sequence[int]) -> list[str]:
    return [f"{path.name}, {what} {row + 1}" for row in rows]
