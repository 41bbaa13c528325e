"""``smooth`` and ``naq-plus`` in blocks: their options are those of the embedders, their vectors go to files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from naq.embedders.base import Embedder
from naq.embedders.naq_plus import NaqPlus
from naq.embedders.smooth import Smooth
from naq.errors import OptionError
from naq_scale.blocks.closed_form import closed_form
from naq_scale.blocks.parts import InThisProcess, Parts
from naq_scale.blocks.pieces import Pieces
from naq_scale.blocks.row_passes import RowPasses, write_rows
from naq_scale.blocks.tiles import narrow_start, smoothed_tiles
from naq_scale.tiles import mapped_rows

BLOCK_ROWS = 1 << 16
"""Rows of an embedding that are held at once."""


def embed_to(
    model: Embedder,
    path: str | Path | None,
    *,
    block: int = BLOCK_ROWS,
    tile: int | None = None,
    parts: Parts | None = None,
) -> np.ndarray:
    """(n, d) float32 as a memory-mapped .npy file; a file without a name if ``path`` is None.

    Args:
        model: of a method in :data:`IN_BLOCKS`; others are an ``OptionError``.
        block: rows held at once.
        tile: columns smoothed at once; None decides by the memory that is free. Neither changes more than last bits.
        parts: who computes, by default this process.
    """
    if model.name not in IN_BLOCKS:
        raise OptionError(
            f"{model.name} does not work in blocks; use {' or '.join(IN_BLOCKS)}, or load the graph from an npz file "
            "into memory."
        )

    def make(file: Path, folder: Path) -> None:
        model.graph.check_files()
        who = InThisProcess(model.graph, folder) if parts is None else parts
        write_rows(IN_BLOCKS[model.name](model, who, block, tile), file, block)
        model.graph.check_files()

    return mapped_rows(path, make)


def naq_plus(model: NaqPlus, parts: Parts, block: int, tile: int | None) -> Pieces:
    """:meth:`naq.embedders.naq_plus.NaqPlus.embed`; sets the agreement of its edges."""
    return closed_form(_smoothed(model, parts, block, tile), parts, model.closed_form(), block=block)


def _smoothed(model: NaqPlus, parts: Parts, block: int, tile: int | None) -> Pieces:
    """What the closed form starts from; the files of start and smoothing are not held any longer."""
    start = narrow_start(model.graph, model.options.dim, model.seed, parts, block=block, tile=tile)
    tiles, model.agreement = smoothed_tiles(
        start, model.graph, parts, steps=model.options.steps, agreement=True, block=block
    )
    rows = RowPasses(parts, tiles, block).centred()
    if not model.trusts_edges:
        rows = rows.then("add", RowPasses(parts, start, block).mean(), start=start).centred()
    return rows.centred().kept()


def smooth(model: Smooth, parts: Parts, block: int, tile: int | None) -> Pieces:
    """:meth:`naq.embedders.smooth.Smooth.embed`."""
    asked, graph = model.options, model.graph
    start = narrow_start(
        graph,
        asked.dim,
        model.seed,
        parts,
        block=block,
        tile=tile,
        weighting="counts" if asked.tfidf else "none",
        unit_first=asked.unit_first,
    )
    tiles, _ = smoothed_tiles(
        start, graph, parts, steps=asked.steps, smoothing=asked.smoothing, agreement=False, block=block
    )
    rows = RowPasses(parts, tiles, block)
    return (rows.centred() if asked.center else rows.then("unit")).kept()


IN_BLOCKS: dict[str, Callable[[Any, Parts, int, int | None], Pieces]] = {"naq-plus": naq_plus, "smooth": smooth}
"""By the name of the embedder."""
