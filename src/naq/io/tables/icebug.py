"""icebug-disk, version 1: a graph as CSR in Parquet, which LadybugDB mounts and other programs read.

A folder holds ``nodes_TYPE.parquet``, the first column the key, rows counted from 0; for every type of edges
``indptr_TYPE.parquet``, a column ``ptr`` of a row more than there are nodes that edges lead from, and
``indices_TYPE.parquet``, a column ``target`` of rows of nodes and properties; and ``schema.cypher``, which says what
types there are and which nodes they join. What it says of storage is not read, and no path is taken from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from naq.device import require
from naq.errors import DataError
from naq.files import NO_SPACE, read_bytes, recover, replace_folder, temporary_path
from naq.graph import Graph
from naq.graph.checks import as_dense
from naq.io.pyg import edges_by_type
from naq.io.tables.reading import open_parquet, readable_parquet
from naq.io.tables.stored import ID
from naq.io.tables.table import BadCell, Table, vector_column

SCHEMA, LARGEST_SCHEMA = "schema.cypher", 1 << 20
DRAFT = "metadata.json"
VERSION = (b"icebug_disk_version", b"v1")
_NAME = r"(`[^`]+`|\w+)"
_TABLE = rf"CREATE\s+%s\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\s*\("
_NODES = re.compile(_TABLE % "NODE", re.I)
_EDGES = re.compile(_TABLE % "REL" + rf"\s*FROM\s+{_NAME}\s+TO\s+{_NAME}\s*(,\s*FROM\b)?", re.I)
_ASIDE = re.compile(r"(`[^`]*`)|'(?:[^'\\]|\\.)*(?:'|\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
"""Where no names of tables are: texts, among them paths of storage, and comments."""
_TYPES = {"float": "FLOAT", "double": "DOUBLE", "bool": "BOOL", "date32[day]": "DATE", "timestamp[us]": "TIMESTAMP"}
_TYPES |= {f"{kind}{bits}": f"{kind}{bits}".upper() for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
"""Arrow's types by their names in the schema; others are called STRING."""


def is_icebug(path: Path) -> bool:
    """Whether a path is a folder in this format, or in a later draft of it, which :func:`read_icebug` refuses."""
    draft = (path / DRAFT).is_file() and any(path.glob("nodes_*"))
    return path.is_dir() and (draft or (path / SCHEMA).is_file())


def read_icebug(folder: Path) -> tuple[dict[str, Table], dict[str, Table]]:
    """Tables of edges and of nodes by type; ends of edges are rows of all nodes, type after type."""
    if (folder / DRAFT).is_file():
        raise DataError(f"{folder} is icebug-disk of a later draft, as its {DRAFT} shows; write it as version 1.")
    schema = folder / SCHEMA
    text = read_bytes(schema, "schema", most=LARGEST_SCHEMA).decode("utf-8", "replace")
    text = _ASIDE.sub(lambda found: found[1] or " ", text)
    files = {one.name.lower(): one for one in folder.iterdir()}
    nodes, edges, first, count = dict[str, Table](), dict[str, Table](), dict[str, int](), 0
    for found in _NODES.finditer(text):
        name = found[1].strip("`").lower()
        table = _read_part(folder, files, "nodes", name)
        key, *others = table.columns
        named = {f"_{one}" if one == ID else one: table.columns[one] for one in others}
        nodes[name], first[name] = replace(table, columns={ID: table.columns[key]} | named), count
        count += table.rows
    ids = {name: set(table.texts(ID)) for name, table in nodes.items()}
    if len(set().union(*ids.values())) < sum(map(len, ids.values())):  # an id of one type may be one of another too
        for name, table in nodes.items():
            table.columns[ID] = pa.chunked_array([[f"{name}/{one}" for one in table.texts(ID)]], pa.string())
    for found in _EDGES.finditer(text):
        name, source, target = (one.strip("`") for one in found.group(1, 2, 3))
        lost = [one for one in (source, target) if one.lower() not in nodes]
        if lost or found[4]:
            why = f"nodes {lost[0][:60]!r}, which have no CREATE NODE TABLE" if lost else "more than one pair of types"
            raise DataError(f"{schema}: edges {name[:60]!r} join {why}; give each pair of types of nodes a table.")
        rows = nodes[source.lower()].rows
        starts, ends = (_read_part(folder, files, part, name.lower()) for part in ("indptr", "indices"))
        ptr = _whole(starts, "ptr", ends.rows)
        if len(ptr) != rows + 1 or ptr[0] != 0 or ptr[-1] != ends.rows:
            wanted = f"{rows + 1:,} rows, from 0 to {ends.rows:,}, the rows of {ends.name}"
            raise DataError(f"{starts.title} has {len(ptr):,} rows, from {ptr[:1]} to {ptr[-1:]}; expected {wanted}.")
        if (falls := np.flatnonzero(np.diff(ptr) < 0)).size:
            raise DataError(f"{starts.place(int(falls[0]) + 1)}: ptr falls; expected numbers that ascend.")
        lead = np.repeat(np.arange(rows) + first[source.lower()], np.diff(ptr))
        to = _whole(ends, "target", nodes[target.lower()].rows - 1) + first[target.lower()]
        pair = {"source": pa.chunked_array([lead]), "target": pa.chunked_array([to])}
        edges[name] = replace(ends, columns=ends.columns | pair)
    if not edges:
        raise DataError(f"{schema} has no CREATE REL TABLE name(FROM type TO type); expected one or more.")
    return edges, nodes


def _read_part(folder: Path, files: Mapping[str, Path], part: str, name: str) -> Table:
    if (path := files.get(f"{part}_{name}.parquet")) is None:
        raise DataError(f"{folder} has no file {part}_{name[:60]}.parquet, of which {SCHEMA} speaks.")
    source = open_parquet(path)
    with readable_parquet(path):
        version = (pq.read_metadata(path).metadata or {}).get(*VERSION)
    if version != VERSION[1]:
        raise DataError(f"{path} is of version {version.decode('utf-8', 'replace')[:20]!r}; expected v1.")
    return source.read(source.columns)


def _whole(table: Table, column: str, most: int) -> np.ndarray:
    """int64 (rows,) of a column of numbers of rows."""
    if column not in table.columns:
        raise DataError(f"{table.title} has no column {column!r}; it is not of icebug-disk, version 1.")
    try:
        values = table.numbers(column)
        if (wrong := np.flatnonzero(~((values >= 0) & (values <= most) & (values % 1 == 0)))).size:
            raise BadCell(int(wrong[0]), f"{values[wrong[0]]:g}")
    except BadCell as bad:
        where, cell = table.place(bad.row), bad.cell[:40]
        raise DataError(f"{where}: {column} is {cell}; expected whole numbers, 0 to {most:,}.") from bad
    return values.astype(np.int64)


def save_icebug(path: str | Path, graph: Graph) -> Path:
    """Write a graph: one table of nodes, and one for every type of edges; both ways where they have no direction.

    Nodes have names, classes, the cells that are kept and vectors (without cells, all features as lists); edges have
    their weights, if there are any.
    """
    path = Path(path)
    recover(path)
    if path.exists() and not is_icebug(path) and not (path.is_dir() and not any(path.iterdir())):
        raise DataError(f"{path} exists and is not an icebug-disk folder; it is not replaced: choose another name.")
    tables = {"nodes_node": _nodes_of(graph)}
    columns = ", ".join(f"`{one.name}` {_TYPES.get(str(one.type), 'STRING')}" for one in tables["nodes_node"].schema)
    lines = [f"NODE TABLE node({columns}, PRIMARY KEY({ID}))"]
    for name, matrix in edges_by_type(graph).items():
        name = re.sub(r"\W+", "_", name)[:100] or "edge"
        while f"indptr_{name.lower()}" in tables:
            name += "_"
        weight = {"weight": matrix.data} if graph.arcs is not None and (graph.arcs.data != 1).any() else {}
        tables[f"indptr_{name.lower()}"] = pa.table({"ptr": matrix.indptr.astype(np.uint64)})
        tables[f"indices_{name.lower()}"] = pa.table({"target": matrix.indices.astype(np.uint64), **weight})
        lines.append(f"REL TABLE `{name}`(FROM node TO node{', weight FLOAT' if weight else ''})")
    storage = "./" + path.name.replace("'", "")
    schema = "".join(f"CREATE {one} WITH (storage = '{storage}', format = 'icebug-disk');\n" for one in lines)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_path(path, folder=True) as folder:
            (folder / SCHEMA).write_text(schema, encoding="utf-8")
            for name, table in tables.items():
                marked = table.replace_schema_metadata(dict([VERSION]))
                pq.write_table(marked, folder / f"{name}.parquet", compression="zstd")
            for file in folder.iterdir():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
            replace_folder(folder, path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; {NO_SPACE}.") from error
    return path


def _nodes_of(graph: Graph) -> pa.Table:
    everyone = range(graph.num_nodes)
    columns: dict[str, Any] = {ID: [*everyone] if graph.names is None else graph.names.tolist()}
    if graph.labels is not None:
        names = [*range(graph.labels.max() + 1)] if graph.class_names is None else graph.class_names.tolist()
        columns["label"] = [names[i] if i >= 0 else None for i in graph.labels.tolist()]
    more = []
    if (own := graph.table) is not None:
        names = own.columns.tolist()
        more = [(name, _typed([own.cell(node, i) for node in everyone])) for i, name in enumerate(names)]
    for block, part in graph.block_features():
        if graph.table is None or block.kind == "vectors":
            require(12 * part.shape[0] * part.shape[1], "features as lists", "use save_graph", DataError)
            more.append((block.title or "features", vector_column(as_dense(part))))
    for name, cells in more:
        name = name.replace("`", "")
        while name.lower() in map(str.lower, columns):
            name += "_"
        columns[name] = cells
    return pa.table(columns)


def _typed(cells: list[str]) -> Any:
    """Cells as numbers, if all are numbers and none begins with a 0 that a number would lose; empty ones are null."""
    texts = pa.array([cell or None for cell in cells], pa.string())
    if texts.null_count < len(texts) and not pc.any(pc.match_substring_regex(texts, r"^[+-]?0[0-9]")).as_py():
        for kind in (pa.int64(), pa.float64()):
            with suppress(pa.ArrowException):
                return texts.cast(kind)
    return texts
