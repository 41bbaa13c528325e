r"""``smooth`` and ``naq-plus`` in blocks, for graphs larger than memory: vectors go to a memory-mapped file.

Three things are never held whole: features and what is made of them are read in blocks of rows, an embedding is written in blocks of rows, and smoothing,

.. math:: Z \leftarrow 0.85\, \hat A Z + 0.15\, Z_0,

goes by columns: no column of Z needs another, so some columns of all nodes (a tile) are held in memory for all steps, while the adjacency is read from its file once per step.
Row blocks of Z would have to read rows of all other blocks in random order. Memory: 3 tiles (12 bytes per node and column of a tile, one column at least) and some blocks of rows; disk: twice the embedding while it is made.

The numbers are those of the methods in memory but for the order of additions. Up to 65,536 nodes the closed form takes every node's neighbours, above that those of a sample of
65,536, which estimates the same mean over pairs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from naq.embedders.in_blocks.refinement import closed_form
from naq.embedders.in_blocks.row_file import RowFile, centre
from naq.embedders.in_blocks.tiles import Agreement, smooth_tile
from naq.embedders.in_blocks.words import Words
from naq.embedders.smoothing import unit
from naq.encoders.tiles import Tiles, mapped_rows, tile_width
from naq.graph import Graph

__all__ = ["RowFile", "Start", "centre", "closed_form", "mapped_rows", "smoothed_rows"]


class Start:
    """Narrowed features of all nodes, in tiles on disk, and what smoothing made of them.

    Args:
        graph: with features, or with edges.
        dim: columns at most.
        seed: of the SVD.
        folder: where tiles are kept.
        weighting: ``words`` as naq-plus reads features, ``counts`` as ``smooth`` does, ``none``.
        unit_first: rows of length one before they are smoothed.
        block: rows at once.
        tile: columns of a tile; None decides by the memory that is free.
    """

    def __init__(
        self,
        graph: Graph,
        dim: int,
        seed: int,
        folder: Path,
        *,
        weighting: str = "words",
        unit_first: bool = True,
        block: int,
        tile: int | None = None,
    ) -> None:
        self.graph, self.block = graph, block
        words = Words(graph, weighting, block)
        narrow, width = words.narrowing(dim, seed)
        self.width = width
        self.tiles = Tiles(folder, "start", graph.num_nodes, width, tile or tile_width(graph.num_nodes, width))
        for start in range(0, graph.num_nodes, block):
            rows = narrow(words.block(start, start + block))
            self.tiles.write(start, unit(rows) if unit_first else rows)


def smoothed_rows(start: Start, folder: Path, steps: int, smoothing: str, *, agreement: bool) -> tuple[Tiles, float]:
    """The smoothed tiles and, where it is asked for, the agreement of edges with the start (:func:`~naq.embedders.node_words.edge_agreement`)."""
    found = Agreement(start.graph, start.tiles, start.block) if agreement else None
    out = start.tiles.like(folder, "smoothed")
    for number in range(len(start.tiles)):
        held = np.array(start.tiles.array(number))
        if found is not None:
            found.add(number, held)
        out.array(number)[:] = smooth_tile(start.graph, held, steps, smoothing)
    return out, found.value() if found is not None else 0.0
