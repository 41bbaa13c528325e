r"""``smooth`` and ``naq-plus`` in blocks, for graphs larger than memory: vectors go to a memory-mapped file.

Three things are never held whole: features and what is made of them are read in blocks of rows, an embedding is written
in blocks of rows, and smoothing,

.. math:: Z \leftarrow 0.85\, \hat A Z + 0.15\, Z_0,

goes by columns: no column of Z needs another, so some columns of all nodes (a tile) are held in memory for all steps,
while the adjacency is read from its file once per step. Memory: 3 tiles (12 bytes per node and column of a tile, one
column at least) and some blocks of rows; disk: twice the embedding while it is made.

The numbers are those of the methods in memory but for the order of additions. Up to 65,536 nodes the closed form takes
every node's neighbours, above that those of a sample of 65,536, which estimates the same mean over pairs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from naq.embedders.base import Embedder
from naq.embedders.closed_form import NaqPlus
from naq.embedders.smooth import Smooth
from naq.errors import OptionError
from naq_scale.blocks import closed_form
from naq_scale.blocks.shards import BlockArray, InThisProcess, RowPasses, Shards
from naq_scale.blocks.smoothing import smooth_tiles, start_tiles
from naq_scale.tiles import mapped_rows, new_mapped

BLOCK_ROWS = 1 << 16
"""Rows of an embedding that are held at once."""


def embed_to(
    model: Embedder, path: str | Path | None, *, block: int = BLOCK_ROWS, tile: int | None = None,
    shards: Shards | None = None,
) -> np.ndarray:  # fmt: skip
    """(n, d) float32 as a memory-mapped .npy file; a file without a name if ``path`` is None.

    Args:
        model: of a method in :data:`IN_BLOCKS`; others are an ``OptionError``.
        block: rows held at once.
        tile: columns smoothed at once; None decides by the memory that is free. Neither changes more than last bits.
        shards: who computes, by default this process.
    """
    if model.name not in IN_BLOCKS:
        methods = " or ".join(IN_BLOCKS)
        raise OptionError(f"{model.name} does not work in blocks; use {methods}, or load the graph from an npz file.")

    def make(file: Path, folder: Path) -> None:
        model.graph.check_files()
        who = InThisProcess(model.graph, folder) if shards is None else shards
        rows = IN_BLOCKS[model.name](model, who, block, tile)
        out = new_mapped(file, rows.shape)
        for start in range(0, len(out), block):
            out[start : start + block] = rows.rows(start, start + block)
        out.flush()
        model.graph.check_files()

    return mapped_rows(path, make)


def naq_plus(model: NaqPlus, shards: Shards, block: int, tile: int | None) -> BlockArray:
    """:meth:`naq.embedders.closed_form.NaqPlus.embed`; sets the agreement of its edges."""
    return closed_form.remove_and_sharpen(
        _smoothed(model, shards, block, tile), shards, model.closed_form(), block=block
    )


def _smoothed(model: NaqPlus, shards: Shards, block: int, tile: int | None) -> BlockArray:
    """What the closed form starts from; the files of start and smoothing are not held any longer."""
    asked, graph = model.options, model.graph
    start = start_tiles(graph, asked.dim, model.seed, shards, block=block, tile=tile)
    tiles, model.agreement = smooth_tiles(start, graph, shards, steps=asked.steps, agreement=True, block=block)
    rows = RowPasses(shards, tiles, block).center()
    if not model.trusts_edges:
        rows = rows.then("add", RowPasses(shards, start, block).mean(), start=start).center()
    return rows.center().compute()


def smooth_in_blocks(model: Smooth, shards: Shards, block: int, tile: int | None) -> BlockArray:
    """:meth:`naq.embedders.smooth.Smooth.embed`."""
    asked, graph, weighting = model.options, model.graph, "counts" if model.options.tfidf else "none"
    start = start_tiles(
        graph, asked.dim, model.seed, shards, block=block, tile=tile, weighting=weighting, unit_first=asked.unit_first
    )
    tiles, _ = smooth_tiles(
        start, graph, shards, steps=asked.steps, smoothing=asked.smoothing, agreement=False, block=block
    )
    rows = RowPasses(shards, tiles, block)
    return (rows.center() if asked.center else rows.then("unit")).compute()


IN_BLOCKS: dict[str, Callable[[Any, Shards, int, int | None], BlockArray]] = {
    "naq-plus": naq_plus,
    "smooth": smooth_in_blocks,
}
"""By the name of the embedder."""
