"""What embedders that work in blocks have in common."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

import numpy as np

from naq.embedders.base import BLOCK_ROWS, Embedder
from naq_scale.blocks.parts import InThisProcess, Parts
from naq_scale.blocks.pieces import Pieces
from naq_scale.blocks.row_passes import write_rows
from naq_scale.tiles import mapped_rows


class BlockEmbedder(Embedder):
    """An embedder whose vectors are made in blocks where that is asked for, or the graph is mapped."""

    @abstractmethod
    def embed_in_blocks(self, parts: Parts, block: int, tile: int | None) -> Pieces:
        """(n, d) float32, in files; ``parts`` computes the parts of its stages."""

    def embed_to(
        self,
        path: str | Path | None,
        *,
        block: int = BLOCK_ROWS,
        tile: int | None = None,
        parts: Parts | None = None,
    ) -> np.ndarray:
        """See :meth:`Embedder.embed_to`; ``parts`` is who computes, by default this process."""

        def make(file: Path, folder: Path) -> None:
            self.graph.check_files()
            who = InThisProcess(self.graph, folder) if parts is None else parts
            write_rows(self.embed_in_blocks(who, block, tile), file, block)
            self.graph.check_files()

        return mapped_rows(path, make)
