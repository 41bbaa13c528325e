"""Tables to a graph: the one place where edges, nodes and the report come together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from naq.errors import DataError, GraphError, warn
from naq.graph import Graph
from naq.io.readers import Reader
from naq.io.tables import roles
from naq.io.tables.columns import Column, Numbers, Table, frame_table, networkx_tables
from naq.io.tables.features import NOTES_FROM, Feature, class_columns, feature_notes, joined, listed
from naq.io.tables.nodes import Edges, Nodes, checked_vectors, read_nodes, vector_file
from naq.io.tables.reading import ID, Choose, is_graphml, is_table, read_graphml, read_table, stem
from naq.io.tables.report import ImportReport
from naq.io.tables.roles import Choice, are_ids, ends_by_cells
from naq.progress import Listener

EXPECTED = ("rows with another", "rows without", "rows of nodes without", "edges to nodes")
"""Beginnings of reasons to drop rows that may mean a mistake in a file; self-loops and repetitions are no mistake."""


class Imported(NamedTuple):
    """A graph and what became of the files it was made from."""

    graph: Graph
    report: ImportReport


def import_tables(edges: Any, nodes: Any = None, choice: Choice = Choice(), *, name: str | None = None,  # noqa: B008
                  listener: Listener | None = None) -> Imported:  # fmt: skip
    """The graph of an edge table and, if given, a node table, with a report.

    Args:
        edges: a path (CSV, TSV, Parquet, GraphML; ``.gz`` of text), a data frame, a dictionary of columns, or a SciPy matrix,
            whose node i is row i of ``nodes``.
        nodes: a path, a data frame or a dictionary of columns. Without it, the nodes are those that edges name.
        choice: which columns to use.
        name: of the graph; by default after the file of edges.
        listener: told how far ``choice.text_encoder`` is.
    """
    made = _imported(edges, nodes, choice, name)
    if choice.text_encoder is None:
        return made
    if made.graph.table is None:
        raise DataError("--text-encoder needs a table of nodes with a column of text, which is kept; give --nodes.")
    graph = made.graph.with_text_encoder(choice.text_encoder, listener)
    assert graph.text is not None
    missing = int((~graph.text.known).sum())
    note = f"{missing:,} nodes without text" if missing else ""
    one = Feature(graph.blocks[-1].title, "vector", graph.text.vectors.shape[1], [graph.text_of(0)], note)
    made.report.features.append(one)
    return Imported(graph, made.report)


def _imported(edges: Any, nodes: Any, choice: Choice, name: str | None) -> Imported:
    if isinstance(edges, str | Path) and is_graphml(Path(edges)):
        if nodes is not None:
            raise DataError(f"{edges} holds its nodes itself; leave --nodes out.")
        choice = replace(choice, id=choice.id or ID)
        return _assembled(*read_graphml(Path(edges)), ("source", "target"), choice, name or stem(Path(edges)))
    title = name or (stem(Path(edges)) if isinstance(edges, str | Path) else "graph")
    node_table = None if nodes is None else _table(nodes, "nodes", choice, lambda columns, header: columns)
    if sp.issparse(edges):
        coo = sp.coo_array(edges)
        if coo.shape[0] != coo.shape[1] or (node_table is not None and node_table.rows != coo.shape[0]):
            rows = "" if node_table is None else f" and {node_table.rows:,} nodes"
            raise DataError(f"the matrix has shape {coo.shape}{rows}; expected (nodes, nodes).")
        present = coo.data != 0
        ends: dict[str, Column] = {"source": Numbers(coo.row[present]), "target": Numbers(coo.col[present])}
        if node_table is None:
            node_table = _counted(coo.shape[0])
        table = Table("the matrix", ends, int(present.sum()), _entries)
        return _assembled(table, node_table, ("source", "target"), choice, title, by_row=True)
    edge_table, found = _edge_table(edges, node_table, choice)
    return _assembled(edge_table, node_table, found, choice, title)


def _edge_table(edges: Any, node_table: Table | None, choice: Choice) -> tuple[Table, tuple[str, str]]:
    """The table of edges and its two columns of ends: by their names, else by what they hold."""
    chosen: list[str] = []
    unread: list[str] = []
    unnamed: list[DataError] = []

    def choose(columns: list[str], header: bool) -> list[str]:
        title = str(edges) if isinstance(edges, str | Path) else "edges"
        weight = [] if choice.weight is None else [roles.named(choice.weight, columns, "--weight", title)]
        try:
            chosen[:] = roles.ends(columns, choice.source, choice.target, title, header)
        except DataError as error:
            if node_table is None or len(columns) < 2 or choice.source is not None or choice.target is not None:
                raise
            unnamed.append(error)
            return columns
        wanted = list(dict.fromkeys([*chosen, *weight]))
        unread[:] = [column for column in columns if column not in wanted]
        return wanted

    table = _table(edges, "edges", choice, choose)
    if not unnamed:
        if unread:
            weighted = any("weight" in column.lower() for column in unread)
            hint = "; with --weight, rows of weight 0 are left out" if weighted else ""
            table.notes.append(f"columns of edges that are not read: {listed(unread)}{hint}")
        return table, (chosen[0], chosen[1])
    assert node_table is not None
    ends = ends_by_cells(table, node_table)
    if ends is None:
        raise unnamed[0]
    if choice.header is None and are_ids(ends, node_table):
        return _edge_table(edges, node_table, replace(choice, header=False))
    table.notes.append(f"ends of edges are columns {ends[0]!r} and {ends[1]!r}; name others with --source and --target")
    return table, ends


def from_tables(
    edges: Any,
    nodes: Any = None,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,
    label: str | None = None,
    text: str | Sequence[str] = (),
    numeric: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    vector: Any = (),
    header: bool | None = None,
    name: str | None = None,
    display: str | None = None,
    text_encoder: str | Path | None = None,
    ignore: str | Sequence[str] = (),
) -> Graph:
    """A graph from an edge table and a node table: files, data frames, dictionaries of columns; or from a SciPy matrix.

    Columns are detected by their names and cells, or named here; see :class:`naq.io.tables.Choice`. Words are counted, numbers
    standardised, categories one-hot, vectors taken as they are; with ``text_encoder``, text also becomes sentence vectors. Rows that cannot be used are left out with a warning;
    :func:`naq.io.import_tables` gives the full report.

    Example:
        >>> g = from_tables({"source": ["a", "b"], "target": ["b", "c"]}, {"id": ["a", "b", "c"], "size": [1, 2, 6]})
        >>> g, g.names.tolist(), g.vocab.tolist()
        (Graph('graph', nodes=3, edges=2, features=1, classes=0), ['a', 'b', 'c'], ['size'])
    """
    vectors = (vector,) if isinstance(vector, str | Path | np.ndarray) else tuple(vector)
    choice = Choice(source, target, weight, id, label, _many(text), _many(numeric), _many(categorical), vectors, header,
                    display, text_encoder=text_encoder, ignore=_many(ignore))  # fmt: skip
    return warned(import_tables(edges, nodes, choice, name=name))


def from_networkx(graph: Any, *, label: str | None = None, text: str | Sequence[str] = (), numeric: str | Sequence[str] = (),
                  categorical: str | Sequence[str] = (), vector: Any = (), name: str | None = None) -> Graph:  # fmt: skip
    """A graph from a NetworkX graph: ``str`` of a node is its name, attributes of nodes are columns as in :func:`from_tables`."""
    edges, nodes = networkx_tables(graph)
    vectors = (vector,) if isinstance(vector, str | Path | np.ndarray) else tuple(vector)
    key = next(iter(nodes.columns))
    choice = Choice(None, None, None, key, label, _many(text), _many(numeric), _many(categorical), vectors)
    return warned(_assembled(edges, nodes, ("source", "target"), choice, name or str(graph.name or "graph")))


def warned(imported: Imported) -> Graph:
    """The graph, with a warning where rows of the files were lost that may mean a mistake."""
    lost = [item for item in imported.report.dropped if item.why.startswith(EXPECTED)]
    if lost:
        told = "; ".join(f"{item.why}: {item.count:,} (first: {item.places[0]})" for item in lost)
        warn(f"{told}; they are left out.", stacklevel=3)
    return imported.graph


def _table(given: Any, title: str, choice: Choice, choose: Choose) -> Table:
    if not isinstance(given, str | Path):
        table = frame_table(given, title)
        names = list(table.columns)
        if not names:
            raise DataError(f"{title} have no columns; give a data frame or a dictionary of columns.")
        table.columns = {column: table.columns[column] for column in choose(names, True)}
        return table
    return read_table(Path(given).expanduser(), choose, header=choice.header)


def _counted(count: int) -> Table:
    """A node table of ids 0, 1, 2, ..."""
    return Table("the nodes", {"id": Numbers(np.arange(count))}, count, _entries)


def _entries(rows: Sequence[int]) -> list[str]:
    return [f"entry {row}" for row in rows]


def _assembled(
    edge_table: Table, node_table: Table | None, ends: tuple[str, str], choice: Choice, name: str, *,
    by_row: bool = False,
) -> Imported:  # fmt: skip
    vectors = _outside(choice)
    if node_table is None and vectors:
        node_table = _counted(len(vectors[0][1]))
    if node_table is None:
        for flag in ("id", "label", "text", "numeric", "categorical", "vector", "ignore"):
            if getattr(choice, flag):
                raise DataError(f"--{flag} names a column of nodes, but there is no table of nodes; give --nodes.")
    edges = Edges(edge_table, *ends)
    if choice.weight is not None:
        edges.apply_weight(roles.named(choice.weight, list(edge_table.columns), "--weight", edge_table.title))
    edge_table.columns = {}  # memory: from here on, node numbers are enough
    if node_table is None:
        ids = edges.by_appearance()
        if not ids:
            raise DataError(f"{edge_table.title} holds no edges, so there are no nodes; give --nodes.")
        nodes = Nodes(ids, edge_table.title, None, None, [], {}, [], [])
    else:
        nodes = read_nodes(node_table, choice, vectors, [] if by_row else edges.ids)
        if by_row:
            lost = node_table.dropped + nodes.dropped
            if lost:
                raise DataError(f"{lost[0].places[0]}: {lost[0].why}, a matrix needs one row per node; correct it.")
            place = np.array([int(name) for name in edges.ids], dtype=np.int64)
            edges.ends = place[edges.ends] if len(place) else edges.ends
        else:
            edges.locate(nodes)
    pairs = edges.unique(len(nodes.ids))
    matrix, vocab, blocks = joined(nodes.features)
    try:
        graph = Graph(
            pairs, matrix, nodes.labels, names=nodes.ids, class_names=nodes.class_names, vocab=vocab, nodes=len(nodes.ids), name=name,
            blocks=blocks,
        ).with_table(nodes.cells)  # fmt: skip
    except GraphError as error:
        raise DataError(f"{edge_table.title}: {error}") from error
    notes = edges.notes + nodes.notes + _notes(graph, nodes)
    if graph.labels is not None and graph.class_names is not None:
        known = np.flatnonzero(graph.labels >= 0)
        notes += class_columns(graph, known, graph.class_names[graph.labels[known]])
    if not choice.names_features and graph.num_nodes >= NOTES_FROM:
        notes += feature_notes(nodes.features, graph.labels is not None)
    if (
        choice.text_encoder is None
        and any(one.kind == "text" for one in nodes.features)
        and graph.num_nodes >= NOTES_FROM
    ):
        notes.append(
            f"text is read as words alone; as sentences too, names of classes can do without labels: {_encoder_hint()}"
        )
    return Imported(graph, ImportReport.of(graph, nodes.features, edges.dropped + nodes.dropped, nodes.unused, notes))


def _outside(choice: Choice) -> list[tuple[str, np.ndarray]]:
    found = []
    for one in choice.vector:
        if isinstance(one, np.ndarray):
            found.append(("vector", checked_vectors(one, "vector")))
        elif str(one).endswith(".npy"):
            found.append((Path(one).stem, vector_file(Path(one).expanduser())))
    return found


def _notes(graph: Graph, nodes: Nodes) -> list[str]:
    notes = []
    if graph.num_edges == 0:
        notes.append("the graph has no edges: classes can be told by features alone")
    if graph.features is None:
        notes.append("the graph has no features: classes can be told by edges alone")
    folded = len({name.casefold() for name in nodes.ids})
    if folded < len(nodes.ids):
        notes.append(
            f"{len(nodes.ids) - folded:,} ids differ from another only in upper and lower case: they are different nodes"
        )
    return notes


def _encoder_hint() -> str:
    install = "" if find_spec("sentence_transformers") else 'pip install "naq[text]" and '
    return f"{install}--text-encoder MODEL"


def _many(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


class EdgeListReader(Reader):
    """A table of edges without a table of nodes."""

    name = "edge-list"
    expects = "an edge list (.csv, .tsv, .txt, also .gz, .parquet)"

    def fits(self, path: Path) -> bool:
        return path.is_file() and is_table(path)

    def read(self, path: Path, name: str | None = None) -> Graph:
        return warned(import_tables(path, name=name))


class GraphMLReader(EdgeListReader):
    """A GraphML file with its nodes' attributes."""

    name = "graphml"
    expects = "a GraphML file"

    def fits(self, path: Path) -> bool:
        return path.is_file() and is_graphml(path)
