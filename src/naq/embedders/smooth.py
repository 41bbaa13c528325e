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

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from naq.embedders.base import Embedder
from naq.embedders.smoothing import centred, narrowed, smoothed, unit, word_weights
from naq.options import Value


class Smooth(Embedder):
    """TF-IDF, SVD and smoothing.

    Options:
        dim: vectors' width at most (256); features of that width or less are used as they are.
        smoothing: ``ppr`` (``steps`` of 0.85 A_hat Z + 0.15 Z_0) or ``hops`` (A_hat applied ``steps`` times).
        steps: 10; two suit ``hops``.
        tfidf: weight words by rarity; done only where features are non-negative and sparse.
        unit_first: rows of length one before smoothing, so that much text of a node does not outweigh its neighbours.
        center: subtract the mean of all nodes and normalise again.
    """

    name = "smooth"
    weighs_features = True
    summary = "training-free: TF-IDF, SVD, smoothing over the graph, centring"
    defaults: ClassVar[Mapping[str, Value]] = {
        "dim": 256,
        "smoothing": "ppr",
        "steps": 10,
        "tfidf": True,
        "unit_first": True,
        "center": True,
    }

    def check_options(self) -> None:
        self.require_at_least("dim", 1)
        self.require_at_least("steps", 0)
        self.require_choice("smoothing", ("hops", "ppr"))

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
