"""The start of all nodes in tiles (some columns of all nodes), smoothed tile by tile, and the agreement of edges with
it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from naq.device import require
from naq.embedders.smoothing import ROUNDING, SHORTEST, STAY, unit
from naq.graph import Graph
from naq_scale.blocks.shards import Arrays, Block, BlockArray, RowPasses, Shards, below
from naq_scale.blocks.words import read_block, read_words
from naq_scale.lanes import add_rows, line_aligned
from naq_scale.tiles import columns_that_fit, inverse_root_degrees, multiply_rows, scale_rows

PARTS = 64
"""Ranges of nodes, each with its own memory."""
NARROWEST = 16
"""Columns of a tile at least, where memory allows: fewer fill no line of the processor's cache, and cost as much."""


def start_tiles(
    graph: Graph, dim: int, seed: int, shards: Shards, *, block: int, tile: int | None, weighting: str = "words",
    unit_first: bool = True,
) -> BlockArray:  # fmt: skip
    """Narrowed features of all nodes, in tiles.

    Args:
        tile: columns of a tile; None decides by the memory that is free.
        weighting: see :func:`~naq_scale.blocks.words.read_words`.
        unit_first: rows of length one.
    """
    n = graph.num_nodes
    what = f"one column of {n:,} nodes and blocks of {min(block, n):,} rows of {dim} numbers"
    require(bytes_of_blocks(n, dim, block), what, "use fewer columns (dim) or fewer workers")
    reading, near = read_words(graph, weighting, dim, seed)
    width, inputs = reading.width, dict(reading.arrays)
    if near is not None:
        inputs |= {"indptr": near.indptr, "indices": near.indices, "data": near.data}
    if tile is None:
        share = NARROWEST * -(-width // (NARROWEST * shards.shards))
        tile = min(width, share, columns_that_fit(n * shards.processes, width))
    facts = {"reading": reading.facts, "width": width, "block": block, "tile": tile, "unit": unit_first}
    made = shards.by_rows(_start, n, facts, inputs)
    return BlockArray([[part[f"tile{number}"] for number in range(len(part))] for part in made])


def bytes_of_blocks(nodes: int, dim: int, block: int) -> float:
    """The least memory of one process: a tile of one column, 40 bytes per node, six blocks of rows."""
    return 40.0 * nodes + 24.0 * min(block, nodes) * dim


def _start(block: Block) -> Arrays:
    rows, tile = read_block(block), block.facts["tile"]
    if block.facts["unit"]:
        rows = unit(rows)
    return {f"tile{first // tile}": rows[:, first : first + tile] for first in range(0, rows.shape[1], tile)}


def smooth_tiles(
    start: BlockArray, graph: Graph, shards: Shards, *, steps: int, smoothing: str = "ppr", agreement: bool, block: int
) -> tuple[BlockArray, float]:
    """The smoothed tiles and, if requested, the agreement of edges with the start
    (:func:`~naq.embedders.smoothing.edge_agreement`)."""
    n, inputs = graph.num_nodes, dict[str, Any](start=start)
    if agreement:
        inputs["mean"] = RowPasses(shards, start, block).mean()
        inputs["scale"] = below(shards.by_rows(_scale, n, {"block": block}, inputs), "scale").whole()
    tiles = [(number, number + 1) for number in range(len(start.grid[0]))]
    made = shards.run(_smoothing, tiles, {"steps": steps, "smoothing": smoothing}, inputs)
    dots, squares, joined = np.zeros(n), np.zeros(n), int((graph.degrees > 0).sum())
    for part in made if agreement else []:
        dots += part["dots"][:]
        squares += part["squares"][:]
    length = np.sqrt(squares)
    cosines = np.divide(dots, length, out=np.zeros_like(length), where=length > SHORTEST)
    return BlockArray([[part["tile"] for part in made]]), float(cosines.sum()) / joined if joined else 0.0


def _scale(block: Block) -> Arrays:
    """1 / length of what is left of the rows without the mean."""
    rows = unit(block.rows("start")) - block.array("mean")
    length = np.linalg.norm(rows.astype(np.float64), axis=1)
    inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > ROUNDING)
    return {"scale": inverse.astype(np.float32)}


def _smoothing(block: Block) -> Arrays:
    """The tile number ``block.start``."""
    start, graph, made = block.inputs["start"], block.graph, {}
    first = sum(array.shape[1] for array in start.grid[0][: block.start])
    width = start.grid[0][block.start].shape[1]
    # Memory that is new to this process costs as much as a step of smoothing, so these three are used again and again.
    held, one, two = (line_aligned((graph.num_nodes, width)) for _ in range(3))
    begin = 0
    for line in start.grid:
        end = begin + len(line[0])
        held[begin:end], begin = line[block.start][:], end
    if "scale" in block.inputs:
        mean, scale = np.array(block.array("mean")[first : first + width]), np.array(block.array("scale"))
        made["dots"], made["squares"] = _measure_agreement(graph, held, mean, scale, one)
    facts = block.facts
    return {"tile": smooth_tile(graph, (held, one, two), facts["steps"], facts["smoothing"]), **made}


def smooth_tile(
    graph: Graph, rows: tuple[np.ndarray, np.ndarray, np.ndarray], steps: int, smoothing: str = "ppr"
) -> np.ndarray:
    """:func:`~naq.embedders.smoothing.smooth` of some columns; A_hat is never formed.

    Args:
        rows: the columns (n, d), and two arrays of their shape, which are overwritten.
    """
    start, now, out = rows
    if not steps:
        return start
    adjacency, scale = graph.adjacency, inverse_root_degrees(graph)
    move, stay = (np.float32(1 - STAY), np.float32(STAY)) if smoothing == "ppr" else (np.float32(1), np.float32(0))
    scale_rows(start, scale, now)
    for step in range(1, steps + 1):
        multiply_rows(adjacency.indptr, adjacency.indices, scale, now, start, move, stay, step < steps, out)
        now, out = out, now
    return now


def _measure_agreement(
    graph: Graph, held: np.ndarray, mean: np.ndarray, scale: np.ndarray, spare: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A tile's share of each node's z_i . s_i and s_i . s_i: the cosine of a node and its neighbours needs sums over
    columns alone. ``spare`` is overwritten."""
    dots, squares, total = np.zeros(len(held)), np.zeros(len(held)), graph.degrees.sum()
    if total:
        indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
        middle = _sum_by_degree(indptr, held, mean, scale) / total
        _set_apart(held, mean, scale, spare)
        _agree(indptr, indices, spare, middle, dots, squares)
    return dots, squares


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
    """apart = (held - mean) scale."""
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
