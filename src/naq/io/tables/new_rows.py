"""Rows of nodes that come later: their features by the recipe of the graph, and edges between all nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from naq.errors import DataError, OptionError, warn
from naq.graph import Graph
from naq.io.tables.columns import Recipe, repeat_features
from naq.io.tables.edges import Edges
from naq.io.tables.features import join_features, quote_names
from naq.io.tables.importing import EDGE_ROLES
from naq.io.tables.nodes import Nodes, keep_one_row_per_id
from naq.io.tables.roles import EDGE_TYPES, WEIGHTS, Choice, display_name, known_column
from naq.io.tables.roles import ends as ends_of
from naq.io.tables.stored import open_source, tables_by_type
from naq.io.tables.table import Source, Table, is_missing


def read_rows(graph: Graph, rows: Any, edges: Any = None) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Rows with the columns that the nodes of a graph were imported from; a warning says what of them is not known.

    Args:
        rows: a path, a data frame or a dictionary of columns. A column may be missing if nodes had gaps in it.
        edges: in any of these forms, between rows and with nodes of the graph.

    Returns:
        The arguments of :func:`naq.classifier.with_nodes`, and the cells of every column of the table.
    """
    if graph.recipe is None or graph.names is None:
        advice = "import its tables again, or add nodes with naq.classifier.with_nodes"
        raise OptionError(f"graph {graph.name!r} does not say how its features were made from columns; {advice}.")
    try:
        table = _read_same_columns(open_source(rows, "new rows", Choice()), graph.recipe)
        _, dropped = keep_one_row_per_id(table, graph.recipe["id"])
        if lost := [*table.dropped, *dropped]:
            raise DataError(f"{lost[0].places[0]}: {lost[0].why}; correct it, every row is one new node.")
        features = repeat_features(table, graph.recipe["columns"])
        ids = [cell.strip() for cell in table.texts(graph.recipe["id"])]
        known = set(graph.names.tolist())
        if there := [row for row, name in enumerate(ids) if name in known]:
            more = f" ({len(there):,} rows are)" if len(there) > 1 else ""
            name = ids[there[0]][:60]
            raise DataError(f"{table.place(there[0])}: node {name!r} is in the graph already{more}; leave it out.")
        none: list[Any] = [np.empty((2, 0), dtype=np.int64), None, None]
        ends, weights, types = none if edges is None else _read_edges(graph, edges, ids)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"graph {graph.name!r} has a damaged recipe ({error!r}); import its tables again.") from error
    if unknown := [f"{one.column} ({one.unknown})" for one in features if one.unknown]:
        warn(f"what the graph does not know counts as absent: {', '.join(unknown)}.", stacklevel=3)
    cells = {display_name(name): table.texts(name) for name in table.columns if table.vectors(name) is None}
    found = {"features": join_features(features)[0], "edges": ends, "names": ids, "weights": weights, "types": types}
    return found | {"directed": graph.recipe.get("edges", {}).get("directed")}, cells


def _read_edges(graph: Graph, given: Any, ids: list[str], kind: str = "") -> list[Any]:
    """Ends, weights and types, from columns that are called as those of the graph's edges, or have known names."""
    assert graph.names is not None and graph.recipe is not None
    own: Recipe = graph.recipe.get("edges", {})
    if (several := tables_by_type(given)) is not None:
        parts = zip(*(_read_edges(graph, one, ids, name) for name, one in several.items()))
        return [None if part[0] is None else np.concatenate(part, axis=-1) for part in parts]
    source = open_source(given, "new edges", Choice(header=False if own.get("source") == "1" else None))
    by_name, columns = {name.lower(): name for name in source.columns}, source.columns
    first, second, weight, typed = (by_name.get((own.get(role) or "").lower()) for role in EDGE_ROLES)
    if first is None or second is None:
        try:
            first, second = ends_of(columns, None, None, source.title, source.header)
        except DataError:
            if not own or len(columns) < 2:
                raise
            lost = f"has no columns {own['source']!r} and {own['target']!r}, the ends of the graph's edges"
            raise DataError(f"{source.title} {lost} (it has {quote_names(columns)}); rename them.") from None
    others = [name for name in columns if name not in (first, second)]
    weight = weight or (own.get("weight") and known_column(others, None, "", WEIGHTS, source.title))
    typed = typed or (own.get("type") and known_column(others, None, "", EDGE_TYPES, source.title))
    table = source.read(list(dict.fromkeys(filter(None, (first, second, weight, typed)))))
    for role, there, meaning in (("weight", weight, "weigh 1"), ("type", typed or kind, "have no type")):
        if own.get(role) and not there:
            lacks = f"{source.title}: no column {own[role]!r}, the {role} of the graph's edges"
            warn(f"{lacks}; new ones {meaning}.", stacklevel=4)
    found = Edges(table, first, second)
    codes, names = table.codes(typed) if typed else (np.zeros(table.rows, dtype=np.int32), [kind])
    found.types = codes[found.rows]
    if weight:
        found.apply_weight(weight, named=True)
    found.locate(Nodes([*graph.names.tolist(), *ids], "the graph or the new rows", None, None, [], {}, [], []))
    for item in found.dropped:
        warn(f"{item.why}: {item.count:,} (first: {item.places[0]}); they are left out.", stacklevel=4)
    if unknown := [name for name in names if not is_missing(name) and name not in graph.relations and own.get("type")]:
        warn(f"{source.title}: the graph has no edges of type {quote_names(unknown)}; they have none.", stacklevel=4)
    types = np.array([name if name in graph.relations else "" for name in names], dtype=np.str_)[found.types]
    weights = np.ones(len(found.rows)) if found.weights is None else found.weights
    return [found.ends.astype(np.int64), weights if own.get("weight") else None, types if own.get("type") else None]


def _read_same_columns(source: Source, recipe: Recipe) -> Table:
    """The columns of the recipe, under the names that they have there; empty ones that may be missing."""
    gaps: dict[str, bool] = {recipe["id"]: False}
    for one in recipe["columns"]:
        gaps |= dict.fromkeys(one["columns"] if one["kind"] == "vector" else [one["column"]], one["gaps"])
    gaps = dict.fromkeys(recipe["others"], True) | gaps
    by_name = {display_name(name).lower(): name for name in source.columns} | {name: name for name in source.columns}
    held = {name: by_name.get(name) or by_name.get(display_name(name).lower()) for name in gaps}
    missing = [name for name in gaps if held[name] is None and name not in recipe["others"]]
    if needed := [name for name in missing if not gaps[name]]:
        have = f"which the nodes of the graph have (it has {quote_names(source.columns)})"
        raise DataError(f"{source.title} lacks columns {quote_names(needed)}, {have}; add them.")
    table = source.read([name for name in held.values() if name is not None])
    if not table.rows:
        raise DataError(f"{source.title} has a header but no rows; expected one row per new node.")
    unread = [name for name in source.columns if name not in held.values()]
    for what, names in (("are missing and count as empty", missing), ("are not of this graph and not read", unread)):
        if names:
            warn(f"{source.title}: some columns {what}: {quote_names(names)}.", stacklevel=4)
    empty = pa.chunked_array([pa.array([""] * table.rows)])
    return replace(table, columns={name: table.columns[own] if own else empty for name, own in held.items()})
