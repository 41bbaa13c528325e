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
from naq.encoders.tiles import AHEAD, ask_for_row, inverse_root_degrees, multiply_rows, tile_width
from naq.graph import Graph
from naq.memory import require

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
    held = start.columns(number)
    made = {"tile": smooth_tile(graph, held, work.facts["steps"], work.facts["smoothing"])}
    if "scale" in work.inputs:
        mean, scale = np.array(work.array("mean")[start.places(number)]), np.array(work.array("scale"))
        made["dots"], made["squares"] = _agreed(graph, held, mean, scale)
    return made


def smooth_tile(graph: Graph, start: np.ndarray, steps: int, smoothing: str = "ppr") -> np.ndarray:
    """:func:`~naq.embedders.smoothing.smoothed` of some columns; A_hat is never formed."""
    scale, stay = inverse_root_degrees(graph), np.float32(STAY if smoothing == "ppr" else 0.0)
    move = np.float32(1 - STAY if smoothing == "ppr" else 1.0)
    now, out = start, np.empty_like(start)
    for step in range(steps):
        multiply_rows(graph.adjacency.indptr, graph.adjacency.indices, scale, now, start, move, stay, out)
        now, out = out, (np.empty_like(start) if step == 0 else now)
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
    dots, squares, degrees = np.zeros(len(held)), np.zeros(len(held)), graph.degrees
    if degrees.any():
        weights = degrees / degrees.sum()
        middle = (weights * scale) @ held - (weights * scale).sum() * mean.astype(np.float64)
        adjacency = graph.adjacency
        _agree(adjacency.indptr, adjacency.indices, held, mean, scale, middle, dots, squares)
    return dots, squares


def _agreement(graph: Graph, dots: np.ndarray, squares: np.ndarray) -> float:
    joined = int((graph.degrees > 0).sum())
    if not joined:
        return 0.0
    length = np.sqrt(squares)
    return float(np.divide(dots, length, out=np.zeros_like(length), where=length > SHORTEST).sum()) / joined


@njit(cache=True, parallel=True)
def _agree(indptr: Any, indices: Any, held: Any, mean: Any, scale: Any, middle: Any, dots: Any, squares: Any) -> None:
    """Adds this tile's share of z_i . s_i and s_i . s_i, with s_i the sum over neighbours of z_j - m."""
    width = held.shape[1]
    for i in prange(len(dots)):
        together = -middle * (indptr[i + 1] - indptr[i])
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if e + AHEAD < len(indices):
                ask_for_row(held, scale, indices[e + AHEAD])
            for k in range(width):
                together[k] += (held[j, k] - mean[k]) * scale[j]
        dot, square = 0.0, 0.0
        for k in range(width):
            dot += together[k] * ((held[i, k] - mean[k]) * scale[i])
            square += together[k] * together[k]
        dots[i] += dot
        squares[i] += square
