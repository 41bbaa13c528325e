"""Tables to a graph: the one place where edges, nodes and the report come together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from naq.errors import DataError, GraphError, Listener, warn
from naq.graph import Graph
from naq.io.readers import Reader
from naq.io.tables import roles, stored
from naq.io.tables.columns import RARE_WORDS_FROM, Feature
from naq.io.tables.edges import UNWEIGHTED, Edges
from naq.io.tables.features import NOTES_FROM, class_columns, join_features, quote_names
from naq.io.tables.icebug import is_icebug, read_icebug
from naq.io.tables.nodes import Nodes, check_vectors, read_nodes, vector_file
from naq.io.tables.reading import is_graphml, is_table, read_graphml, stem
from naq.io.tables.report import ImportReport
from naq.io.tables.roles import Choice, are_ids, ends_by_cells
from naq.io.tables.table import Table, frame_table, networkx_tables

EXPECTED = ("rows with another", "rows without", "rows of nodes without", "edges to nodes")
"""Beginnings of reasons to drop rows that may mean a mistake in a file; self-loops and repetitions are not."""
OWN_ENDS = ("source", "target")
"""Ends of edges in tables that are made here."""
EDGE_ROLES = (*OWN_ENDS, "weight", "type")


class Imported(NamedTuple):
    """A graph and what became of the files it was made from."""

    graph: Graph
    report: ImportReport


def import_tables(edges: Any, nodes: Any = None, choice: Choice = Choice(), *, name: str | None = None,  # noqa: B008
                  listener: Listener | None = None) -> Imported:  # fmt: skip
    """The graph of an edge table and, if given, a node table, with a report.

    Args:
        edges: a path (CSV, TSV, Parquet, GraphML; ``.gz`` of text), a data frame, a dictionary of columns, or a SciPy
            matrix, whose node i is row i of ``nodes``; or a list of paths or a dictionary of tables, one for every type
            of edges.
        nodes: a path, a data frame or a dictionary of columns, or several, one for every type of nodes. Without it, the
            nodes are those that edges name.
        choice: which columns to use.
        name: of the graph; by default after the file of edges.
        listener: is called with the progress of ``choice.text_encoder``.
    """
    made = _import_graph(edges, nodes, choice, name)
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


def _import_graph(edges: Any, nodes: Any, choice: Choice, name: str | None) -> Imported:
    if isinstance(edges, str | Path) and is_graphml(Path(edges)):
        if nodes is not None:
            raise DataError(f"{edges} holds its nodes itself; leave --nodes out.")
        edge_table, of_nodes, directed = read_graphml(Path(edges))
        choice = _as_given(choice, directed, id=choice.id or next(iter(of_nodes.columns)))
        return _assemble(edge_table, of_nodes, OWN_ENDS, choice, name or stem(Path(edges)))
    title = name or (stem(Path(edges)) if isinstance(edges, str | Path) else "graph")
    node_table: Table | None = None
    by_row = isinstance(edges, str | Path) and is_icebug(Path(edges).expanduser())
    if by_row:
        if nodes is not None:
            raise DataError(f"{edges} holds its nodes itself; leave --nodes out.")
        (edges, nodes), choice = read_icebug(Path(edges).expanduser()), _as_given(choice, directed=True)
        edges, nodes = (next(iter(one.values())) if len(one) == 1 else one for one in (edges, nodes))
    if nodes is None and stored.in_duckdb(edges) and (choice.nodes_query or stored.has_table(edges, "nodes")):
        nodes = edges
    for flag, given in (("edges", edges), ("nodes", nodes)):
        if getattr(choice, f"{flag}_query") and not stored.in_duckdb(given):
            raise DataError(f"--{flag}-query is for a DuckDB file (.duckdb), and {flag} are in none; leave it out.")
    if (of_types := stored.tables_by_type(nodes)) is not None:
        tables = {kind: _whole_table(one, f"nodes {kind!r}", choice) for kind, one in of_types.items()}
        node_table, choice = stored.join_nodes(tables, choice)
    elif nodes is not None:
        node_table = _whole_table(nodes, "nodes", choice)
    if sp.issparse(edges):
        coo = sp.coo_array(edges)
        if coo.shape[0] != coo.shape[1] or (node_table is not None and node_table.rows != coo.shape[0]):
            rows = "" if node_table is None else f" and {node_table.rows:,} nodes"
            raise DataError(f"the matrix has shape {coo.shape}{rows}; expected (nodes, nodes).")
        coo.eliminate_zeros()
        table = frame_table({"source": coo.row, "target": coo.col, "weight": coo.data}, "the matrix")
        table.places = lambda rows: [f"the matrix, row {coo.row[e]}, column {coo.col[e]}" for e in rows]
        if node_table is None:
            node_table = frame_table({"id": np.arange(coo.shape[0])}, "the nodes")
        directed = bool((coo != coo.T).nnz)
        return _assemble(table, node_table, OWN_ENDS, _as_given(choice, directed, weight="weight"), title, by_row=True)
    if (several := stored.tables_by_type(edges)) is not None:
        edge_table, joined = _join_edges(several, node_table, choice)
        made = _assemble(edge_table, node_table, OWN_ENDS, joined, title, by_row=by_row)
        if made.graph.recipe is not None:  # as they are called in the files
            named = zip(EDGE_ROLES, (choice.source, choice.target, choice.weight, choice.edge_type))
            made.graph.recipe["edges"] |= {role: name for role, name in named if name}
        return made
    edge_table, found, choice = _edge_table(edges, node_table, choice)
    return _assemble(edge_table, node_table, found, choice, title, by_row=by_row)


def _join_edges(tables: Mapping[str, Any], node_table: Table | None, choice: Choice) -> tuple[Table, Choice]:
    """All edges in columns source, target, weight and type: what a table is called, unless a column says more."""
    parts, ignore = [], choice.ignore
    for kind, one in tables.items():
        table, ends, left = _edge_table(one, node_table, choice, f"edges {kind!r}")
        ignore = tuple(name for name in ignore if name in left.ignore)
        weight, own = _weight_and_type(list(table.columns), ends, choice, table.title)
        columns = dict(zip(OWN_ENDS, (table.columns[end] for end in ends)))
        columns[stored.TYPE] = stored.constant(kind, table.rows) if own is None else table.columns[own]
        if weight is not None:
            columns["weight"] = table.columns[weight]
        parts.append(replace(table, columns=columns))
        if not table.rows:
            table.notes.append(f"{table.name} has no rows, so there are no edges of type {kind!r}")
    weighted = [part for part in parts if "weight" in part.columns]
    for part in parts if weighted else ():
        part.columns.setdefault("weight", stored.constant("1", part.rows))
    choice = replace(choice, weight=choice.weight and "weight", edge_type=stored.TYPE, ignore=ignore)
    return stored.join_tables(parts, "the edges"), choice


def _weight_and_type(
    columns: Sequence[str], ends: tuple[str, str], choice: Choice, title: str
) -> tuple[str | None, str | None]:
    """The columns of weights and of types of edges."""
    others = [column for column in columns if column not in (*ends, *choice.ignore)]
    weight = roles.known_column(columns if choice.weight else others, choice.weight, "--weight", roles.WEIGHTS, title)
    others = list(columns) if choice.edge_type else [column for column in others if column != weight]
    return weight, roles.known_column(others, choice.edge_type, "--edge-type", roles.EDGE_TYPES, title)


def _edge_table(
    edges: Any, node_table: Table | None, choice: Choice, title: str = "edges"
) -> tuple[Table, tuple[str, str], Choice]:
    """The table of edges, its two columns of ends, by their names or else by what they hold, and the choice of nodes'
    columns."""
    source = stored.open_source(edges, title, choice)
    columns, title = source.columns, source.title
    try:
        ends = roles.ends(columns, choice.source, choice.target, title, source.header)
    except DataError:
        if node_table is None or len(columns) < 2 or choice.source is not None or choice.target is not None:
            raise
        table = source.read([column for column in columns if column not in choice.ignore])
        found = ends_by_cells(table, node_table)
        if found is None:
            raise
        if choice.header is None and are_ids(found, node_table):
            return _edge_table(edges, node_table, replace(choice, header=False), title)
        hint = "name others with --source and --target"
        table.notes.append(f"ends of edges are columns {found[0]!r} and {found[1]!r}; {hint}")
        return table, found, _without_edges(choice, columns, node_table)
    wanted = list(dict.fromkeys([*ends, *filter(None, _weight_and_type(columns, ends, choice, title))]))
    table = source.read(wanted)
    if unread := [column for column in columns if column not in wanted]:
        table.notes.append(f"columns of edges that are not read: {quote_names(unread)}")
    return table, ends, _without_edges(choice, columns, node_table)


def _whole_table(given: Any, title: str, choice: Choice) -> Table:
    source = stored.open_source(given, title, choice)
    return source.read(source.columns)


def from_tables(edges: Any, nodes: Any = None, *, name: str | None = None, **columns: Any) -> Graph:
    """A graph from an edge table and a node table: files, data frames, dictionaries of columns; or from a SciPy matrix.

    Words are counted, numbers standardised, categories one-hot, vectors taken as they are; with ``text_encoder``, text
    also becomes sentence vectors. Rows that cannot be used are left out with a warning; :func:`naq.io.import_tables`
    gives the full report.

    Args:
        name: of the graph; by default after the file of edges.
        columns: which columns to use: the arguments of :class:`naq.io.Choice`. What is not named is detected.

    Example:
        >>> g = from_tables({"source": ["a", "b"], "target": ["b", "c"]}, {"id": ["a", "b", "c"], "size": [1, 2, 6]})
        >>> g, g.names.tolist(), g.vocab.tolist()
        (Graph('graph', nodes=3, edges=2, features=1, classes=0), ['a', 'b', 'c'], ['size'])
    """
    return warn_of_losses(import_tables(edges, nodes, Choice(**columns), name=name))


def from_networkx(graph: Any, *, name: str | None = None, **columns: Any) -> Graph:
    """A graph from a NetworkX graph: ``str`` of a node is its name, attributes of nodes are columns.

    Args:
        columns: which attributes to use, as in :func:`from_tables`.
    """
    edges, nodes = networkx_tables(graph)
    choice = _as_given(Choice(**columns), graph.is_directed(), id=next(iter(nodes.columns)))
    return warn_of_losses(_assemble(edges, nodes, OWN_ENDS, choice, name or str(graph.name or "graph")))


def warn_of_losses(imported: Imported) -> Graph:
    """The graph, with a warning where rows of the files were lost that may mean a mistake."""
    lost = [item for item in imported.report.dropped if item.why.startswith(EXPECTED)]
    if lost:
        told = "; ".join(f"{item.why}: {item.count:,} (first: {item.places[0]})" for item in lost)
        warn(f"{told}; they are left out.", stacklevel=3)
    for note in imported.report.notes:
        if note.startswith(UNWEIGHTED):
            warn(f"{note}; correct it, or name another column by weight.", stacklevel=3)
    return imported.graph


def _without_edges(choice: Choice, columns: Collection[str], node_table: Table | None) -> Choice:
    """The choice without ignored columns that only the table of edges has."""
    of_nodes = () if node_table is None else node_table.columns
    return replace(choice, ignore=tuple(one for one in choice.ignore if one not in columns or one in of_nodes))


def _as_given(choice: Choice, directed: bool, **more: Any) -> Choice:
    """The choice for edges of which it is known whether they have a direction."""
    return replace(choice, directed=directed if choice.directed is None else choice.directed, **more)


def _assemble(
    edge_table: Table, node_table: Table | None, ends: tuple[str, str], choice: Choice, name: str, *,
    by_row: bool = False,
) -> Imported:  # fmt: skip
    vectors = _outside(choice)
    if node_table is None and vectors:
        node_table = frame_table({"id": np.arange(len(vectors[0][1]))}, "the nodes")
    weight, kind = _weight_and_type(list(edge_table.columns), ends, choice, edge_table.title)
    choice = _without_edges(choice, edge_table.columns, node_table)
    if node_table is None:
        for flag in ("id", "label", "text", "numeric", "categorical", "vector", "ignore"):
            if getattr(choice, flag):
                raise DataError(f"--{flag} names a column of nodes, but there is no table of nodes; give --nodes.")
    edges = Edges(edge_table, *ends)
    if kind is not None:
        edges.apply_types(kind, choice.edge_type is not None)
    if weight is not None:
        edges.apply_weight(weight, choice.weight is not None)
    edge_table.columns = {}  # memory: from here on, node numbers are enough
    if node_table is None:
        ids = edges.number_by_appearance()
        if not ids:
            why = ", ".join(f"{item.why}: {item.count:,}" for item in edges.dropped)
            holds = f"{edge_table.title} holds no edges{why and f' ({why})'}"
            raise DataError(f"{holds}, so there are no nodes; give --nodes.")
        nodes = Nodes(ids, edge_table.title, None, None, [], {}, [], [])
    else:
        nodes = read_nodes(node_table, choice, vectors, [] if by_row else edges.ids)
        if by_row:
            lost = node_table.dropped + nodes.dropped
            if lost:
                raise DataError(f"{lost[0].places[0]}: {lost[0].why}, edges by row need one row per node; correct it.")
            place = np.array([int(name) for name in edges.ids], dtype=np.int64)
            edges.ends = place[edges.ends] if len(place) else edges.ends
        else:
            edges.locate(nodes)
    if nodes.recipe is not None:
        used = (*ends, edges.weights is not None and weight, edges.types is not None and kind)
        names = dict(zip(EDGE_ROLES, (name or None for name in used)))
        nodes.recipe["edges"] = {**names, "directed": bool(choice.directed)}
    pairs, arcs, relations = edges.join(len(nodes.ids), bool(choice.directed))
    matrix, vocab, blocks = join_features(nodes.features)
    named: dict[str, Any] = {"names": nodes.ids, "class_names": nodes.class_names, "vocab": vocab}
    try:
        graph = Graph(pairs, matrix, nodes.labels, **named, nodes=len(nodes.ids), name=name, blocks=blocks, arcs=arcs)
        graph = graph.with_relations(relations).with_table(nodes.cells).with_recipe(nodes.recipe)
    except GraphError as error:
        raise DataError(f"{edge_table.title}: {error}") from error
    notes = edges.notes + nodes.notes + _notes(graph, nodes, choice)
    lead = "have directions" if graph.directed else "go both ways"
    if choice.directed is None:
        lead += f"; --directed makes them lead from {ends[0]!r} to {ends[1]!r}"
    dropped = edges.dropped + nodes.dropped
    return Imported(graph, ImportReport.of(graph, lead, nodes.features, dropped, nodes.unused, notes))


def _outside(choice: Choice) -> list[tuple[str, np.ndarray]]:
    found = []
    for one in choice.vector:
        if isinstance(one, np.ndarray):
            found.append(("vector", check_vectors(one, "vector")))
        elif str(one).endswith(".npy"):
            found.append((Path(one).stem, vector_file(Path(one).expanduser())))
    return found


def _notes(graph: Graph, nodes: Nodes, choice: Choice) -> list[str]:
    """What a person should check."""
    notes = []
    if graph.num_edges == 0:
        notes.append("the graph has no edges: classes can be told by features alone")
    if graph.features is None:
        notes.append("the graph has no features: classes can be told by edges alone")
    same = len(nodes.ids) - len({name.casefold() for name in nodes.ids})
    if same:
        notes.append(f"{same:,} ids differ from another only in upper and lower case: they are different nodes")
    if graph.labels is not None and graph.class_names is not None:
        known = np.flatnonzero(graph.labels >= 0)
        notes += class_columns(graph, known, graph.class_names[graph.labels[known]])
    if graph.num_nodes < NOTES_FROM:
        return notes
    categories = [feature.column for feature in nodes.features if feature.kind == "category"]
    if categories and graph.labels is None and not choice.names_features:
        hint = "if one of these holds the classes, name it with --label"
        notes.append(f"values of {quote_names(categories)} are features; {hint}")
    texts = [one for one in nodes.features if one.kind == "text"]
    for one in texts if graph.num_nodes < RARE_WORDS_FROM else ():
        rare = int((np.bincount(one.matrix.indices, minlength=one.width) == 1).sum())
        if 2 * rare > one.width:
            leave = "if they say nothing of the classes, --ignore leaves it out"
            notes.append(f"of the {one.width:,} words of column {one.column!r}, {rare:,} are of one node only; {leave}")
    if choice.text_encoder is None and texts:
        install = "" if find_spec("sentence_transformers") else 'pip install "naq[text]" and '
        also = f"as sentences too, names of classes can do without labels: {install}--text-encoder MODEL"
        notes.append(f"text is read as words alone; {also}")
    return notes


class EdgeListReader(Reader):
    """A table of edges without a table of nodes."""

    name = "edge-list"
    expects = "an edge list (.csv, .tsv, .txt, also .gz, .parquet, .duckdb)"

    def fits(self, path: Path) -> bool:
        return path.exists() and is_table(path)

    def read(self, path: Path, name: str | None = None) -> Graph:
        return warn_of_losses(import_tables(path, name=name))


class IcebugReader(EdgeListReader):
    """A folder of icebug-disk."""

    name = "icebug"
    expects = "an icebug-disk folder"

    def fits(self, path: Path) -> bool:
        return is_icebug(path)


class GraphMLReader(EdgeListReader):
    """A GraphML file with its nodes' attributes."""

    name = "graphml"
    expects = "a GraphML file"

    def fits(self, path: Path) -> bool:
        return path.is_file() and is_graphml(path)
