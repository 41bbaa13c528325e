"""Edge lists and GraphML by ``naq.load``: every column is detected; ``naq import`` and ``naq.from_tables`` take more."""

from __future__ import annotations

from pathlib import Path

from naq.graph import Graph
from naq.io.readers import Reader
from naq.io.tables.importing import import_tables, warned
from naq.io.tables.reading import is_graphml, is_table


class EdgeListReader(Reader):
    """A table of edges without a table of nodes."""

    name = "edge-list"
    expects = "an edge list (.csv, .tsv, .txt, also .gz, .parquet)"

    def fits(self, path: Path) -> bool:
        return path.is_file() and is_table(path)

    def read(self, path: Path, name: str | None = None) -> Graph:
        return warned(import_tables(path, name=name))


class GraphMLReader(Reader):
    """A GraphML file with its nodes' attributes."""

    name = "graphml"
    expects = "a GraphML file"

    def fits(self, path: Path) -> bool:
        return path.is_file() and is_graphml(path)

    def read(self, path: Path, name: str | None = None) -> Graph:
        return warned(import_tables(path, name=name))
