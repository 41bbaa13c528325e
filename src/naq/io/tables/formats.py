"""Files of tables by their names: text, Parquet, GraphML, and what to do with others."""

from __future__ import annotations

from pathlib import Path

from naq.errors import DataError, MissingDependency
from naq.io.tables.columns import Table
from naq.io.tables.delimited import Choose, read_delimited
from naq.io.tables.text_file import TEXT_SUFFIXES

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
        raise DataError(f"{path} is a folder; expected a file{_tables_in(path)}.")
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from naq.io.tables.arrow import read_parquet
        except ImportError as error:
            raise MissingDependency(
                f'{path}: Parquet needs pyarrow, which is not installed: pip install "naq[io]".'
            ) from error
        return read_parquet(path, choose)
    if not is_table(path) and path.exists():
        check_known_format(path)
        raise DataError(
            f"{path} has no ending that is known; expected {', '.join(TEXT_SUFFIXES)} (also with .gz), .parquet or .graphml."
        )
    return read_delimited(path, choose, header=header)


def _tables_in(folder: Path) -> str:
    """The first tables of a folder, for a message."""
    names = sorted(one.name for one in folder.iterdir() if is_table(one) and one.is_file())
    return f", e.g. {' or '.join(str(folder / name) for name in names[:3])}" if names else ""


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
