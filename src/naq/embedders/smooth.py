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

from naq.embedders.base import Embedder
from naq.embedders.smoothing import center, reduce, smooth, unit, word_weights
from naq.options import option


class Smooth(Embedder):
    """TF-IDF, SVD and smoothing."""

    name = "smooth"
    weighs_features = True
    summary = "training-free: TF-IDF, SVD, smoothing over the graph, centring"

    @dataclass(frozen=True)
    class Options(Embedder.Options):
        # vectors' width at most; features of that width or less are used as they are
        dim: int = option(256, at_least=1)
        # ppr is steps of 0.85 A_hat Z + 0.15 Z_0, hops is A_hat applied that often
        smoothing: str = option("ppr", choices=("hops", "ppr"))
        steps: int = option(10, at_least=0)  # two suit hops
        tfidf: bool = option(True)  # weight words by rarity, if features are non-negative and sparse
        unit_first: bool = option(True)  # rows of length one first, so that much text does not outweigh neighbours
        center: bool = option(True)  # subtract the mean of all nodes and normalise again

    options: Options

    def embed(self) -> np.ndarray:
        if self.graph.mapped:
            return self.embed_to(None)
        asked = self.options
        words = word_weights(self.graph, self.name) if asked.tfidf else self.graph.require_features(self.name)
        start = reduce(words, asked.dim, self.seed)
        if asked.unit_first:
            start = unit(start)
        vectors = smooth(self.graph.normalized_adjacency(), start, asked.steps, asked.smoothing)
        return center(vectors) if asked.center else unit(vectors)
