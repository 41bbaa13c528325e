r"""The training-free baseline: TF-IDF, truncated SVD, smoothing over the graph, centring.

.. math::
    Z_0 = \mathrm{SVD}_{256}(\mathrm{tfidf}(X)), \quad z_{0i} \leftarrow \frac{z_{0i}}{|z_{0i}|}, \quad
    Z = \hat A^{2} Z_0 \ \text{ or }\ Z \leftarrow 0.85\, \hat A Z + 0.15\, Z_0,
    \quad z_i \leftarrow \frac{z_i}{|z_i|}, \quad z_i \leftarrow z_i - \bar z, \quad z_i \leftarrow \frac{z_i}{|z_i|}

No label, no gradient, seconds on a laptop: the `smooth` baseline that every trained method is compared with.

Cost: O(non-zeros of X * dim) for the SVD, O(edges * dim) per hop.

Example:
    >>> import naq
    >>> naq.embed(naq.load("debian"), "smooth").shape
    (34169, 256)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naq.embedders.smoothing import centred, narrowed, smoothed, unit, word_weights
from naq.options import option
from naq_scale.blocks import BlockEmbedder, Parts, Pieces, RowPasses, narrow_start, smoothed_tiles


class Smooth(BlockEmbedder):
    """TF-IDF, SVD and smoothing."""

    name = "smooth"
    weighs_features = True
    summary = "training-free: TF-IDF, SVD, smoothing over the graph, centring"

    @dataclass(frozen=True)
    class Options(BlockEmbedder.Options):
        dim: int = option(256, at_least=1)
        smoothing: str = option("ppr", choices=("hops", "ppr"))
        steps: int = option(10, at_least=0)
        tfidf: bool = option(True)
        unit_first: bool = option(True)
        center: bool = option(True)

    options: Options

    def embed_in_blocks(self, parts: Parts, block: int, tile: int | None) -> Pieces:
        options = self.options
        start = narrow_start(
            self.graph,
            int(options["dim"]),
            self.seed,
            parts,
            block=block,
            tile=tile,
            weighting="counts" if options["tfidf"] else "none",
            unit_first=bool(options["unit_first"]),
        )
        steps, smoothing = int(options["steps"]), str(options["smoothing"])
        tiles, _ = smoothed_tiles(
            start, self.graph, parts, steps=steps, smoothing=smoothing, agreement=False, block=block
        )
        rows = RowPasses(parts, tiles, block)
        return (rows.centred() if options["center"] else rows.then("unit")).kept()

    def embed(self) -> np.ndarray:
        if self.graph.mapped:
            return self.embed_to(None)
        options = self.options
        words = word_weights(self.graph, self.name) if options["tfidf"] else self.graph.require_features(self.name)
        start = narrowed(words, int(options["dim"]), self.seed)
        if options["unit_first"]:
            start = unit(start)
        vectors = smoothed(self.graph.normalized_adjacency(), start, int(options["steps"]), str(options["smoothing"]))
        return centred(vectors) if options["center"] else unit(vectors)
