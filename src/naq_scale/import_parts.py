"""Parquet parts to a graph folder without features, and to what methods start from, in shards.

Ids become keys, keys a hash table; edges are numbered and divided by ranges of nodes, and each range is sorted for
itself; rows of nodes become features by what a sample taught (:mod:`naq_scale.blocks.words`), and these are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, prange

from naq.classifier.labels import Labels
from naq.classifier.views import thin_out
from naq.embedders.smoothing import unit
from naq.errors import DataError, warn
from naq.graph import Graph
from naq.graph.checks import FeatureBlock
from naq.io.tables import roles
from naq.io.tables.columns import repeat_features
from naq.io.tables.features import BLOCKS, MOST_COMPARED, class_columns, join_features, quote_names
from naq.io.tables.nodes import read_nodes
from naq.io.tables.roles import Choice
from naq.io.tables.table import Table, frame_table
from naq.random import stream
from naq_scale.array_folder import new_folder
from naq_scale.blocks.shards import Arrays, Block, BlockArray, Shards, below
from naq_scale.blocks.words import ENTRIES, FEWEST, SAMPLE, Reading, learn_reading
from naq_scale.mapped import FORMAT, VERSION, index_type
from naq_scale.node_ids import build_slots, compares_text, find_rows, keys_of
from naq_scale.parts import ParquetParts, graph_parts

ROWS, EDGES = 1 << 18, 1 << 22
"""Rows of nodes, and of edges, of a shard."""
ENTRIES_OF_RANGE = 1 << 24
"""Ends of edges that are sorted at once."""


@dataclass(frozen=True)
class IdColumns:
    """Which columns of the parts are what."""

    id: str
    source: str
    target: str
    text: bool  # whether ids are compared as text

    @classmethod
    def of(cls, nodes: ParquetParts, edges: ParquetParts) -> IdColumns:
        ends = roles.ends(list(edges.columns), None, None, edges.title, True)
        key = roles.id_columns(list(nodes.columns))[0]
        text = [compares_text(kind) for kind in (nodes.columns[key], *(edges.columns[name] for name in ends))]
        if unread := [name for name in edges.columns if name not in ends]:
            warn(f"columns of edges that are not read: {quote_names(unread)}; every edge counts the same, both ways.")
        return cls(key, *ends, any(text))


def number_nodes(
    nodes: ParquetParts, columns: IdColumns, shards: Shards, facts: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """``keys`` and ``slots`` of the hash table of ids."""
    keys = below(shards.run(_keys, nodes.bounds(ROWS), {**facts, "text": columns.text, "id": columns.id}, {}), "keys")
    found = keys.whole()
    slots, again = build_slots(found)
    if len(again):
        ids = nodes.take(np.unique(again[:3]), [columns.id])[columns.id].to_pylist()
        by_row = dict(zip(np.unique(again[:3]).tolist(), ids))
        some = [f"{by_row[b]!r} ({' and '.join(nodes.places([a, b]))})" for a, b in again[:3].tolist()]
        raise DataError(
            f"{nodes.title}: {len(again):,} rows have the id of an earlier row: {', '.join(some)}; keep one row per "
            f"node. Is {columns.id!r} the column of ids?"
        )
    return {"keys": found, "slots": slots}


def _keys(block: Block) -> Arrays:
    facts, found, row = block.facts, list[np.ndarray](), block.start
    nodes = graph_parts(facts["folder"], "nodes", facts["nodes"])
    for batch in nodes.read(block.start, block.stop, [facts["id"]]):
        keys, missing = keys_of(batch[facts["id"]], facts["text"])
        if missing.any():
            place = nodes.places([row + int(missing.argmax())])[0]
            raise DataError(f"{place}: the node has no id in the column {facts['id']!r}; give it one.")
        found.append(keys)
        row += len(batch)
    return {"keys": np.concatenate(found)}


def join_edges(
    edges: ParquetParts, nodes: int, columns: IdColumns, table: Mapping[str, np.ndarray], shards: Shards,
    facts: Mapping[str, Any], out: Path,
) -> None:  # fmt: skip
    """Write the graph folder of all edges that join two different nodes."""
    ranges = max(1, min(nodes, -(-2 * edges.rows // ENTRIES_OF_RANGE)))
    facts = {**facts, "text": columns.text, "ends": [columns.source, columns.target], "each": -(-nodes // ranges)}
    split = shards.run(_split_edges, edges.bounds(EDGES), facts, table)
    lost = np.concatenate([part["lost"][:] for part in split])
    if len(lost):
        _say_lost(edges, columns, lost, int(sum(part["counts"][0] for part in split)))
    inputs = {"bounds": below(split, "bounds"), "ends": below(split, "ends")}
    each = {"each": facts["each"], "count": nodes}
    joined = shards.run(_join_range, [(r, r + 1) for r in range(ranges)], each, inputs)
    degrees = below(joined, "degrees")
    entries = int(sum(len(part["indices"]) for part in joined))
    with new_folder(out, FORMAT, VERSION) as writer:
        writer.facts |= {"name": edges.folder.name, "nodes": nodes, "edges": entries // 2, "features": 0}
        writer.put("adj_indptr", np.concatenate([[0], np.cumsum(degrees.whole())]), index_type(entries))
        indices = writer.array("adj_indices", index_type(nodes))
        for part in joined:
            indices.append(part["indices"][:])
    shards.forget([*split, *joined])


def _say_lost(edges: ParquetParts, columns: IdColumns, lost: np.ndarray, kept: int) -> None:
    """Warn of edges without two nodes; an error if none is left."""
    first = edges.take(lost[:3, 0], [columns.source, columns.target])
    some = [f"{a!r} to {b!r}" for a, b in zip(*(first[name].to_pylist() for name in first.column_names))]
    where = f"{', '.join(some)} (first: {edges.places([int(lost[0, 0])])[0]})"
    count = int(lost[:, 1].sum())
    if not kept:
        raise DataError(f"{edges.title}: no edge joins two nodes, e.g. {where}; is {columns.id!r} the column of ids?")
    warn(f"edges to nodes that are not there: {count:,}, e.g. {where}; they are left out.")


def _split_edges(block: Block) -> Arrays:
    """Both directions of every edge as pairs of node numbers, by the range of the first."""
    facts, found, lost, row = block.facts, [np.empty((0, 2), np.int64)], list[tuple[int, int]](), block.start
    keys, slots = block.array("keys"), block.array("slots")
    for batch in graph_parts(facts["folder"], "edges", facts["edges"]).read(block.start, block.stop, facts["ends"]):
        ends = [keys_of(batch[name], facts["text"]) for name in facts["ends"]]
        rows = np.stack([np.where(missing, -1, find_rows(keys, slots, own)) for own, missing in ends], axis=1)
        wrong = (rows < 0).any(axis=1)
        lost += [(row + int(one), 1) for one in np.flatnonzero(wrong)[:3]]
        if wrong.sum() > 3:
            lost.append((row + int(np.flatnonzero(wrong)[3]), int(wrong.sum()) - 3))
        found.append(rows[~wrong & (rows[:, 0] != rows[:, 1])])
        row += len(batch)
    pairs = np.concatenate(found)
    ranges = -(-len(keys) // facts["each"])
    out: np.ndarray = np.empty((2 * len(pairs), 2), dtype=index_type(len(keys)))
    bounds = _by_range(pairs, facts["each"], ranges, out)
    kept = np.array([len(pairs)])
    return {"ends": out, "bounds": bounds[None], "lost": np.array(lost, np.int64).reshape(-1, 2), "counts": kept}


@njit(cache=True)
def _by_range(pairs: Any, each: Any, ranges: Any, out: Any) -> Any:
    """Both directions of pairs to ``out``, by the range of ``each`` nodes that the first is in; where ranges begin."""
    counts = np.zeros(ranges + 1, dtype=np.int64)
    for i in range(len(pairs)):
        for side in range(2):
            counts[pairs[i, side] // each + 1] += 1
    bounds = np.cumsum(counts)
    place = bounds.copy()
    for i in range(len(pairs)):
        for side in range(2):
            r = pairs[i, side] // each
            out[place[r], 0], out[place[r], 1] = pairs[i, side], pairs[i, 1 - side]
            place[r] += 1
    return bounds


def _join_range(block: Block) -> Arrays:
    """The neighbours of the nodes of a range, ascending, each once."""
    each, r, bounds = block.facts["each"], block.start, block.inputs["bounds"].whole()
    pieces = [line[0][low:high] for line, (low, high) in zip(block.inputs["ends"].grid, bounds[:, r : r + 2])]
    pairs = np.concatenate(pieces)
    first = r * each
    count = max(0, min(each, block.facts["count"] - first))
    starts = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0] - first, minlength=count))])
    columns = np.empty(len(pairs), dtype=pairs.dtype)
    degrees = _sort_rows(pairs, first, starts, columns)
    return {"indices": _pack(starts, degrees, columns), "degrees": degrees}


@njit(cache=True)
def _place(pairs: Any, first: Any, starts: Any, columns: Any) -> None:
    place = starts.copy()
    for i in range(len(pairs)):
        r = pairs[i, 0] - first
        columns[place[r]] = pairs[i, 1]
        place[r] += 1


@njit(cache=True, parallel=True)
def _sort_rows(pairs: Any, first: Any, starts: Any, columns: Any) -> Any:
    """Sort the columns of every row and put equal ones together; how many differ."""
    _place(pairs, first, starts, columns)
    degrees = np.zeros(len(starts) - 1, dtype=np.int64)
    for r in prange(len(degrees)):
        row = columns[starts[r] : starts[r + 1]]
        row.sort()
        kept = 0
        for k in range(len(row)):
            if kept == 0 or row[k] != row[kept - 1]:
                row[kept] = row[k]
                kept += 1
        degrees[r] = kept
    return degrees


@njit(cache=True)
def _pack(starts: Any, degrees: Any, columns: Any) -> Any:
    out, end = np.empty(degrees.sum(), dtype=columns.dtype), 0
    for r in range(len(degrees)):
        out[end : end + degrees[r]] = columns[starts[r] : starts[r] + degrees[r]]
        end += degrees[r]
    return out


@dataclass(frozen=True)
class Described:
    """What a sample of the nodes taught about all.

    Attributes:
        sample: numbers of the nodes.
        recipe: of the columns; ``features``: those of the sample, their names and blocks.
        notes: what a person should know.
    """

    sample: np.ndarray
    recipe: dict[str, Any]
    features: tuple[Any, list[str] | None, list[tuple[str, int, str]] | None]
    notes: list[str]

    def reading(self, width: int) -> Reading | None:
        """How rows of features become at most ``width`` columns; None if there are none."""
        matrix, _, blocks = self.features
        if matrix is None:
            return None
        stated = blocks or [(BLOCKS[self.recipe["columns"][0]["kind"]], matrix.shape[1], "")]
        ends = np.cumsum([0, *(wide for _, wide, _ in stated)]).tolist()
        made = [FeatureBlock(kind, start, stop) for (kind, _, _), start, stop in zip(stated, ends, ends[1:])]
        return learn_reading(made, [matrix[:, one.start : one.stop] for one in made], width=width, dim=width)


def describe_nodes(nodes: ParquetParts, columns: IdColumns, choice: Choice, labels: Labels, whole: bool) -> Described:
    """Read a sample of the nodes, or all, as a table of nodes is read, and compare its columns with some labels."""
    wide = sum(kind.list_size if pa.types.is_fixed_size_list(kind) else 1 for kind in nodes.columns.values())
    most = nodes.rows if whole else min(SAMPLE, max(FEWEST, ENTRIES // wide))
    sample = nodes.sample(most, stream(0, "parts/sample"))
    compared = thin_out(np.arange(len(labels.nodes)), MOST_COMPARED)
    rows = np.union1d(sample, labels.nodes[compared])
    taken = nodes.take(rows, list(nodes.columns))
    if columns.text:  # numbers that no table holds too
        place = taken.column_names.index(columns.id)
        taken = taken.set_column(place, columns.id, taken[columns.id].cast(pa.large_string()))

    def table_of(some: np.ndarray) -> Table:
        own = taken if len(some) == len(rows) else taken.take(pa.array(np.searchsorted(rows, some)))
        return replace(frame_table(own, nodes.title), places=lambda at: nodes.places(some[at].tolist()))

    found = read_nodes(table_of(sample), replace(choice, id=columns.id, keep=False))
    assert found.recipe is not None
    matrix, names, blocks = features = join_features(found.features)
    notes = []
    if choice.label is None and found.class_names is not None:
        notes.append(f"column {found.recipe['others'][0]!r} may hold classes: it is no feature; --label learns from it")
    if found.unused:
        reasons = ", ".join(f"{name!r} ({why})" for name, why in found.unused.items())
        notes.append(f"columns that are no features: {reasons}")
    if matrix is not None:
        own = join_features(repeat_features(table_of(labels.nodes[compared]), found.recipe["columns"]))[0]
        graph = Graph(np.empty((2, 0), np.int64), own, nodes=len(compared), blocks=blocks, vocab=names)
        notes += class_columns(
            graph, np.arange(len(compared)), labels.classes[labels.class_index[compared]].astype(np.str_)
        )
    return Described(sample, found.recipe, features, notes)


def start_of_nodes(
    nodes: ParquetParts, described: Described, reading: Reading, shards: Shards, facts: Mapping[str, Any], tile: int
) -> tuple[BlockArray, BlockArray]:
    """Rows of features of length one in tiles, and their lengths before."""
    recipe = np.frombuffer(json.dumps(described.recipe["columns"]).encode(), dtype=np.uint8)
    facts = {**facts, "reading": reading.facts, "width": reading.width, "tile": tile}
    made = shards.run(_start_of_nodes, nodes.bounds(ROWS), facts, {**reading.arrays, "recipe": recipe})
    tiles = range(-(-reading.width // tile))
    return BlockArray([[part[f"tile{number}"] for number in tiles] for part in made]), below(made, "length")


def _places(nodes: ParquetParts, first: int, rows: Sequence[int]) -> list[str]:
    return nodes.places([first + row for row in rows])


def _start_of_nodes(block: Block) -> Arrays:
    recipe, reading = json.loads(block.array("recipe").tobytes()), Reading.of(block)
    columns = list(dict.fromkeys(name for one in recipe for name in one.get("columns", [one.get("column")])))
    nodes = graph_parts(block.facts["folder"], "nodes", block.facts["nodes"])
    found, lengths, row = list[np.ndarray](), list[np.ndarray](), block.start
    for batch in nodes.read(block.start, block.stop, columns):
        table = frame_table(batch, nodes.title)
        table = replace(table, places=partial(_places, nodes, row))
        matrix = join_features(repeat_features(table, recipe))[0]
        ends = np.cumsum([0, *(one["columns"] for one in reading.facts)]).tolist()
        rows = reading.rows([matrix[:, a:b] for a, b in pairwise(ends)])
        lengths.append(np.linalg.norm(rows.astype(np.float64), axis=1).astype(np.float32))
        found.append(unit(rows))
        row += len(batch)
    rows, tile = np.concatenate(found), block.facts["tile"]
    tiles = {f"tile{first // tile}": rows[:, first : first + tile] for first in range(0, rows.shape[1], tile)}
    return tiles | {"length": np.concatenate(lengths)}
