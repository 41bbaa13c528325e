"""The start of all nodes in tiles (some columns of all nodes), smoothed tile by tile, and the agreement of edges with it.

A step of smoothing fetches the rows of neighbours, and on a large graph most come from memory, not from a cache of the
processor. So nodes with like vectors are put next to each other (:class:`Places`), since most edges join such nodes: more
neighbours were fetched a short while before. The order of places changes no bit: a node's neighbours are added in the order
of their numbers wherever they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit, prange

from naq.device import require
from naq.embedders.smoothing import ROUNDING, SHORTEST, STAY, unit
from naq.graph import Graph
from naq.neighbors.clusters import assign, centres
from naq.neighbors.prefetch import LANES, line_aligned, prefetch_far
from naq.random import stream
from naq_scale.blocks.shards import Arrays, Block, Pieces, RowPasses, Shards, below
from naq_scale.blocks.words import narrow_rows, narrowing, read_words
from naq_scale.lanes import AHEAD, add_rows, load_lanes, store_lanes
from naq_scale.tiles import inverse_root_degrees, multiply_rows, scale_rows, tile_width

PARTS = 64
"""Ranges of nodes, each with memory of its own."""
NARROWEST = 16
"""Columns of a tile at least, where memory allows: fewer fill no line of the processor's cache, and cost as much."""
LARGE = 64 << 20
"""Bytes of rows above which places are sought: fewer stay in the caches."""
CLUSTERS, ROUNDS = 32, 4
"""Of k-means."""
SAMPLE = 1 << 16
"""Edges that are looked at before nodes are placed."""
GAIN = 0.1
"""Nodes are placed where the share of edges that lead to a near place grows by more than this."""


def narrow_start(
    graph: Graph, dim: int, seed: int, shards: Shards, *, block: int, tile: int | None, weighting: str = "words",
    unit_first: bool = True,
) -> Pieces:  # fmt: skip
    """Narrowed features of all nodes, in tiles.

    Args:
        tile: columns of a tile; None decides by the memory that is free.
        weighting: see :func:`~naq_scale.blocks.words.read_words`.
        unit_first: rows of length one.
    """
    n = graph.num_nodes
    what = f"one column of {n:,} nodes and blocks of {min(block, n):,} rows of {dim} numbers"
    require(bytes_of_blocks(n, dim, block), what, "use fewer columns (dim) or fewer workers")
    words = read_words(graph, weighting, block, shards)
    found, width = narrowing(words, dim, seed, block, shards)
    if tile is None:
        share = NARROWEST * -(-width // (NARROWEST * shards.shards))
        tile = min(width, share, tile_width(n * shards.processes, width))
    facts = {"change": words.change, "block": block, "tile": tile, "unit": unit_first}
    made = shards.by_rows(_start, n, facts, {**words.arrays, **found})
    return Pieces([[part[f"tile{number}"] for number in range(len(part))] for part in made])


def bytes_of_blocks(nodes: int, dim: int, block: int) -> float:
    """The least memory of one process: a tile of one column, what is held of every node beside it, six blocks of rows."""
    return 40.0 * nodes + 24.0 * min(block, nodes) * dim


def _start(block: Block) -> Arrays:
    rows, tile = narrow_rows(block), block.facts["tile"]
    if block.facts["unit"]:
        rows = unit(rows)
    return {f"tile{first // tile}": rows[:, first : first + tile] for first in range(0, rows.shape[1], tile)}


def smoothed_tiles(
    start: Pieces, graph: Graph, shards: Shards, *, steps: int, smoothing: str = "ppr", agreement: bool, block: int
) -> tuple[Pieces, float]:
    """The smoothed tiles and, where it is asked for, the agreement of edges with the start
    (:func:`~naq.embedders.node_words.edge_agreement`)."""
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
    return Pieces([[part["tile"] for part in made]]), float(cosines.sum()) / joined if joined else 0.0


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
    where = places(graph, held)
    if "scale" in block.inputs:
        mean, scale = np.array(block.array("mean")[first : first + width]), np.array(block.array("scale"))
        made["dots"], made["squares"] = _agreed(graph, held, mean, scale, where, one)
    facts = block.facts
    return {"tile": smooth_tile(graph, where, (held, one, two), facts["steps"], facts["smoothing"]), **made}


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


def _agreed(
    graph: Graph, held: np.ndarray, mean: np.ndarray, scale: np.ndarray, where: Places, spare: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A tile's share of each node's z_i . s_i and s_i . s_i: the cosine of a node and its neighbours needs sums over
    columns alone. ``spare`` is overwritten."""
    dots, squares, total = np.zeros(len(held)), np.zeros(len(held)), graph.degrees.sum()
    if total:
        middle = _sum_by_degree(graph.adjacency.indptr, held, mean, scale) / total
        _set_apart(where.by_place(held, spare), mean, where.by_place(scale), spare)
        _agree(where.indptr, where.indices, spare, middle, dots, squares)
    return where.by_node(dots), where.by_node(squares)


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


@dataclass(frozen=True, eq=False)
class Places:
    """A graph whose nodes have places.

    Attributes:
        indptr, indices: the adjacency from place to place; the entries of a row are in the order of their nodes.
        node: (n,) the node at each place, or None: every node is at the place of its number.
        place: (n,) the place of each node, or None.
    """

    indptr: np.ndarray
    indices: np.ndarray
    node: np.ndarray | None = None
    place: np.ndarray | None = None

    def by_place(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Rows of all nodes, (n, d) or (n,), by place; ``rows`` itself or ``out``, which has rows of the same shape."""
        return rows if self.node is None else _taken(rows, self.node, out)

    def by_node(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The reverse of :meth:`by_place`."""
        return rows if self.place is None else _taken(rows, self.place, out)


def plain_places(graph: Graph) -> Places:
    """Every node at the place of its number."""
    return Places(graph.adjacency.indptr, graph.adjacency.indices)


def places(graph: Graph, rows: np.ndarray) -> Places:
    """Places by clusters of ``rows`` (n, d), where these are large, the edges no larger, and edges stay within clusters more than within as many ranges of numbers.

    Memory: 4 bytes per entry of the adjacency and 8 per node.
    """
    plain, wide = plain_places(graph), torch.from_numpy(rows)
    if rows.nbytes < LARGE or graph.adjacency.nnz > rows.size:
        return plain
    middle = centres(wide, 0, CLUSTERS, ROUNDS)
    if _gain(graph, wide, middle) <= GAIN:
        return plain
    home = assign(wide, middle, 1)[:, 0].to(torch.uint8).numpy()
    node = np.argsort(home, kind="stable").astype(graph.adjacency.indices.dtype)
    place, indices = np.empty_like(node), np.empty_like(graph.adjacency.indices, subok=False)
    place[node] = np.arange(len(node), dtype=node.dtype)
    indptr = np.r_[0, np.cumsum(np.diff(plain.indptr)[node])].astype(plain.indptr.dtype)
    _translate(plain.indptr, plain.indices, place, indptr, indices)
    for array in (indptr, indices):
        array.flags.writeable = False  # as those of a graph: compiled code is compiled once
    return Places(indptr, indices, node, place)


def _gain(graph: Graph, rows: torch.Tensor, middle: torch.Tensor) -> float:
    """By how much the share of edges within a cluster is larger than that within as many ranges of numbers, on a sample."""
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    chosen = np.sort(stream(0, "places/edges").integers(0, len(indices), SAMPLE)) if len(indices) else np.empty(0, int)
    one, two = np.searchsorted(indptr, chosen, side="right") - 1, np.asarray(indices[chosen], dtype=np.int64)
    if not len(chosen):
        return 0.0
    near = (one * CLUSTERS // len(rows) == two * CLUSTERS // len(rows)).mean()
    homes = [assign(rows[torch.from_numpy(ends)], middle, 1)[:, 0] for ends in (one, two)]
    return float((homes[0] == homes[1]).float().mean()) - float(near)


@njit(cache=True, parallel=True)
def _translate(indptr: Any, indices: Any, place: Any, starts: Any, out: Any) -> None:
    for i in prange(len(place)):
        begin = starts[place[i]] - indptr[i]
        for e in range(indptr[i], indptr[i + 1]):
            out[begin + e] = place[indices[e]]


def _taken(rows: np.ndarray, which: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    if rows.ndim == 1:
        return rows[which]
    out = line_aligned(rows.shape) if out is None else out
    _take(rows.reshape(-1), which, out)
    return out


@njit(cache=True, parallel=True)
def _take(rows: Any, which: Any, out: Any) -> None:
    """Rows ``which`` of ``rows`` (all behind one another), asked for ahead of time."""
    width, last, flat = out.shape[1], len(which) - 1, out.reshape(-1)
    whole = width // LANES * LANES
    for i in prange(len(which)):
        coming, row = np.int64(which[min(i + AHEAD, last)]) * width, np.int64(which[i]) * width
        for k in range(0, width, LANES):
            prefetch_far(rows, coming + k)
        prefetch_far(rows, coming + width - 1)
        for k in range(0, whole, LANES):
            store_lanes(flat, i * width + k, load_lanes(rows, row + k))
        for k in range(whole, width):
            flat[i * width + k] = rows[row + k]
