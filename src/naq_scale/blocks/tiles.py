"""The start of all nodes in tiles (some columns of all nodes), smoothed tile by tile, and the agreement of edges with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from naq.embedders.smoothing import ROUNDING, SHORTEST, STAY, unit
from naq.graph import Graph
from naq.memory import require
from naq.neighbors.prefetch import line_aligned
from naq_scale.blocks.parts import Arrays, Parts, Work, stage
from naq_scale.blocks.pieces import Pieces
from naq_scale.blocks.places import Places, places
from naq_scale.blocks.row_passes import RowPasses
from naq_scale.blocks.words import narrow_rows, narrowing, read_words
from naq_scale.lanes import add_rows
from naq_scale.tiles import inverse_root_degrees, multiply_rows, scale_rows, tile_width

PARTS = 64
"""Ranges of nodes, each with memory of its own."""
NARROWEST = 16
"""Columns of a tile at least, where memory allows: fewer fill no line of the processor's cache, and cost as much."""


def narrow_start(
    graph: Graph, dim: int, seed: int, parts: Parts, *, block: int, tile: int | None, weighting: str = "words",
    unit_first: bool = True,
) -> Pieces:  # fmt: skip
    """Narrowed features of all nodes, in tiles.

    Args:
        graph: with features, or with edges.
        dim: columns at most.
        seed: of the SVD.
        block: rows at once.
        tile: columns of a tile; None decides by the memory that is free.
        weighting: see :func:`~naq_scale.blocks.words.read_words`.
        unit_first: rows of length one.
    """
    require(
        bytes_of_blocks(graph.num_nodes, dim, block),
        f"one column of {graph.num_nodes:,} nodes and blocks of {min(block, graph.num_nodes):,} rows of {dim} numbers",
        "use fewer columns (dim) or fewer workers",
    )
    words = read_words(graph, weighting, block, parts)
    found, width = narrowing(words, dim, seed, block, parts)
    if tile is None:
        share = NARROWEST * -(-width // (NARROWEST * parts.shards))
        tile = min(width, share, tile_width(graph.num_nodes * parts.processes, width))
    facts = {"change": words.change, "block": block, "tile": tile, "unit": unit_first}
    bounds = parts.row_bounds(graph.num_nodes, block)
    made = parts.run("start", bounds, facts, {**words.arrays, **found})
    return Pieces([[part[f"tile{number}"] for number in range(len(part))] for part in made])


def bytes_of_blocks(nodes: int, dim: int, block: int) -> float:
    """The least memory of one process: a tile of one column, what is held of every node beside it, six blocks of rows."""
    return 40.0 * nodes + 24.0 * min(block, nodes) * dim


@stage("start")
def _start(work: Work, start: int, stop: int) -> Arrays:
    rows, tile = narrow_rows(work, start, stop), work.facts["tile"]
    if work.facts["unit"]:
        rows = unit(rows)
    return {f"tile{first // tile}": rows[:, first : first + tile] for first in range(0, rows.shape[1], tile)}


def smoothed_tiles(
    start: Pieces, graph: Graph, parts: Parts, *, steps: int, smoothing: str = "ppr", agreement: bool, block: int
) -> tuple[Pieces, float]:
    """The smoothed tiles and, where it is asked for, the agreement of edges with the start (:func:`~naq.embedders.node_words.edge_agreement`)."""
    n, tiles = graph.num_nodes, len(start.grid[0])
    inputs: dict[str, Any] = {"start": start}
    if agreement:
        mean = RowPasses(parts, start, block).mean()
        scale = parts.by_rows("scale", n, {"block": block}, {**inputs, "mean": mean}, "scale").whole()
        inputs |= {"mean": mean, "scale": scale}
    facts = {"steps": steps, "smoothing": smoothing}
    made = parts.run("smoothing", [(number, number + 1) for number in range(tiles)], facts, inputs)
    dots, squares = np.zeros(n), np.zeros(n)
    for part in made if agreement else []:
        dots += part["dots"][:]
        squares += part["squares"][:]
    return Pieces([[part["tile"] for part in made]]), _agreement(graph, dots, squares)


@stage("smoothing")
def _smooth(work: Work, number: int, _: int) -> Arrays:
    start, graph = work.inputs["start"], work.graph
    columns, made = start.places(number), {}
    # Memory that the system has not given to this process yet costs as much as a step of smoothing, so these three are used again and again.
    held, one, two = (line_aligned((graph.num_nodes, columns.stop - columns.start)) for _ in range(3))
    where = places(graph, start.columns(number, held))
    if "scale" in work.inputs:
        mean, scale = np.array(work.array("mean")[columns]), np.array(work.array("scale"))
        made["dots"], made["squares"] = _agreed(graph, held, mean, scale, where, one)
    return {"tile": smooth_tile(graph, where, (held, one, two), work.facts["steps"], work.facts["smoothing"]), **made}


def smooth_tile(
    graph: Graph, where: Places, rows: tuple[np.ndarray, np.ndarray, np.ndarray], steps: int, smoothing: str = "ppr"
) -> np.ndarray:
    """:func:`~naq.embedders.smoothing.smoothed` of some columns; A_hat is never formed.

    Args:
        where: the places of nodes.
        rows: the columns (n, d), and two arrays of their shape; all are overwritten, and one of them is the result.
    """
    held, one, two = rows
    if not steps:
        return held
    start, scale = where.by_place(held, two), where.by_place(inverse_root_degrees(graph))
    now, out = one, held if start is two else two
    move, stay = (np.float32(1 - STAY), np.float32(STAY)) if smoothing == "ppr" else (np.float32(1), np.float32(0))
    scale_rows(start, scale, now)
    for step in range(1, steps + 1):
        multiply_rows(where.indptr, where.indices, scale, now, start, move, stay, step < steps, out)
        now, out = out, now
    return where.by_node(now, out)


@stage("scale")
def _scale(work: Work, start: int, stop: int) -> Arrays:
    """1 / length of what is left of the rows without the mean."""
    rows = unit(work.inputs["start"].rows(start, stop)) - work.array("mean")
    length = np.linalg.norm(rows.astype(np.float64), axis=1)
    inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > ROUNDING)
    return {"scale": inverse.astype(np.float32)}


def _agreed(
    graph: Graph, held: np.ndarray, mean: np.ndarray, scale: np.ndarray, where: Places, spare: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A tile's share of each node's z_i . s_i and s_i . s_i: the cosine of a node and its neighbours needs sums over columns alone. ``spare`` is overwritten."""
    dots, squares, total = np.zeros(len(held)), np.zeros(len(held)), graph.degrees.sum()
    if total:
        middle = _sum_by_degree(graph.adjacency.indptr, held, mean, scale) / total
        _set_apart(where.by_place(held, spare), mean, where.by_place(scale), spare)
        _agree(where.indptr, where.indices, spare, middle, dots, squares)
    return where.by_node(dots), where.by_node(squares)


def _agreement(graph: Graph, dots: np.ndarray, squares: np.ndarray) -> float:
    joined = int((graph.degrees > 0).sum())
    if not joined:
        return 0.0
    length = np.sqrt(squares)
    return float(np.divide(dots, length, out=np.zeros_like(length), where=length > SHORTEST).sum()) / joined


@njit(cache=True)
def _sum_by_degree(indptr: Any, held: Any, mean: Any, scale: Any) -> Any:
    """The sum of degree x z_i in float64, in the order of nodes, with z_i = (held - mean) scale."""
    total = np.zeros(held.shape[1])
    for i in range(len(held)):
        degree, row = np.float64(indptr[i + 1] - indptr[i]), held[i]
        for k in range(len(total)):
            total[k] += degree * ((row[k] - mean[k]) * scale[i])
    return total


@njit(cache=True, parallel=True)
def _set_apart(held: Any, mean: Any, scale: Any, apart: Any) -> None:
    """apart = (held - mean) scale; both may be the same."""
    for i in prange(len(held)):
        for k in range(len(mean)):
            apart[i, k] = (held[i, k] - mean[k]) * scale[i]


@njit(cache=True, parallel=True)
def _agree(indptr: Any, indices: Any, apart: Any, middle: Any, dots: Any, squares: Any) -> None:
    """Adds this tile's share of z_i . s_i and s_i . s_i, with s_i the sum over neighbours of z_j - m."""
    n, width, flat = len(dots), apart.shape[1], apart.reshape(-1)
    for number in prange(PARTS):
        part = np.int64(number)
        together = np.empty(width, dtype=np.float32)
        for i in range(part * n // PARTS, (part + 1) * n // PARTS):
            together[:] = 0
            add_rows(flat, width, indices, indptr[i], indptr[i + 1], together, 0)
            degree, dot, square = indptr[i + 1] - indptr[i], 0.0, 0.0
            for k in range(width):
                left = together[k] - degree * middle[k]
                dot += left * apart[i, k]
                square += left * left
            dots[i] += dot
            squares[i] += square
