"""The start of all nodes in tiles (some columns of all nodes), smoothed tile by tile, and the agreement of edges with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from naq.embedders.in_blocks.parts import Arrays, Parts, Work, stage
from naq.embedders.in_blocks.pieces import Pieces
from naq.embedders.in_blocks.row_passes import RowPasses
from naq.embedders.in_blocks.words import narrow_rows, narrowing, read_words
from naq.embedders.smoothing import ROUNDING, SHORTEST, STAY, unit
from naq.encoders.tiles import inverse_root_degrees, multiply_rows, scaled_rows, tile_width
from naq.graph import Graph
from naq.lanes import add_rows, line_aligned

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
        weighting: see :func:`~naq.embedders.in_blocks.words.read_words`.
        unit_first: rows of length one.
    """
    words = read_words(graph, weighting, block, parts)
    found, width = narrowing(words, dim, seed, block, parts)
    if tile is None:
        share = NARROWEST * -(-width // (NARROWEST * parts.shards))
        tile = min(width, share, tile_width(graph.num_nodes * parts.processes, width))
    facts = {"change": words.change, "block": block, "tile": tile, "unit": unit_first}
    bounds = parts.row_bounds(graph.num_nodes, block)
    made = parts.run("start", bounds, facts, {**words.arrays, **found})
    return Pieces([[part[f"tile{number}"] for number in range(len(part))] for part in made])


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
    held = start.columns(number)
    made = {"tile": smooth_tile(graph, held, work.facts["steps"], work.facts["smoothing"])}
    if "scale" in work.inputs:
        mean, scale = np.array(work.array("mean")[start.places(number)]), np.array(work.array("scale"))
        made["dots"], made["squares"] = _agreed(graph, held, mean, scale)
    return made


def smooth_tile(graph: Graph, start: np.ndarray, steps: int, smoothing: str = "ppr") -> np.ndarray:
    """:func:`~naq.embedders.smoothing.smoothed` of some columns; A_hat is never formed."""
    if not steps:
        return start
    scale, adjacency = inverse_root_degrees(graph), graph.adjacency
    move, stay = (np.float32(1 - STAY), np.float32(STAY)) if smoothing == "ppr" else (np.float32(1), np.float32(0))
    now, out = scaled_rows(start, scale), line_aligned(start.shape)
    for step in range(1, steps + 1):
        multiply_rows(adjacency.indptr, adjacency.indices, scale, now, start, move, stay, step < steps, out)
        now, out = out, now
    return now


@stage("scale")
def _scale(work: Work, start: int, stop: int) -> Arrays:
    """1 / length of what is left of the rows without the mean."""
    rows = unit(work.inputs["start"].rows(start, stop)) - work.array("mean")
    length = np.linalg.norm(rows.astype(np.float64), axis=1)
    inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > ROUNDING)
    return {"scale": inverse.astype(np.float32)}


def _agreed(graph: Graph, held: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tile's share of each node's z_i . s_i and s_i . s_i: the cosine of a node and its neighbours needs sums over columns alone."""
    dots, squares, adjacency, total = np.zeros(len(held)), np.zeros(len(held)), graph.adjacency, graph.degrees.sum()
    if total:
        away = line_aligned(held.shape)
        middle = _away(adjacency.indptr, held, mean, scale, away) / total
        _agree(adjacency.indptr, adjacency.indices, away, middle, dots, squares)
    return dots, squares


def _agreement(graph: Graph, dots: np.ndarray, squares: np.ndarray) -> float:
    joined = int((graph.degrees > 0).sum())
    if not joined:
        return 0.0
    length = np.sqrt(squares)
    return float(np.divide(dots, length, out=np.zeros_like(length), where=length > SHORTEST).sum()) / joined


@njit(cache=True)
def _away(indptr: Any, held: Any, mean: Any, scale: Any, away: Any) -> Any:
    """Rows z_i = (held - mean) scale, written to ``away``, and their sum by degrees in float64, in the order of the rows."""
    total = np.zeros(held.shape[1])
    for i in range(len(held)):
        degree = indptr[i + 1] - indptr[i]
        for k in range(held.shape[1]):
            away[i, k] = (held[i, k] - mean[k]) * scale[i]
            total[k] += degree * away[i, k]
    return total


@njit(cache=True, parallel=True)
def _agree(indptr: Any, indices: Any, away: Any, middle: Any, dots: Any, squares: Any) -> None:
    """Adds this tile's share of z_i . s_i and s_i . s_i, with s_i the sum over neighbours of z_j - m."""
    n, width, flat = len(dots), away.shape[1], away.reshape(-1)
    for number in prange(PARTS):
        part = np.int64(number)
        together = np.empty(width, dtype=np.float32)
        for i in range(part * n // PARTS, (part + 1) * n // PARTS):
            together[:] = 0
            add_rows(flat, width, indices, indptr[i], indptr[i + 1], together, 0)
            degree, dot, square = indptr[i + 1] - indptr[i], 0.0, 0.0
            for k in range(width):
                left = together[k] - degree * middle[k]
                dot += left * away[i, k]
                square += left * left
            dots[i] += dot
            squares[i] += square
