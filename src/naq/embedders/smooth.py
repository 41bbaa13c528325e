r"""The training-free baseline: TF-IDF, truncated SVD, smoothing over the graph, centring.

.. math::
    Z_0 = \mathrm{SVD}_{256}(\mathrm{tfidf}(X)), \quad Z = \hat A^{2} Z_0 \ \text{ or }\ Z \leftarrow 0.85\, \hat A Z + 0.15\, Z_0,
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
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from naq.embedders.base import Embedder, register_embedder
from naq.graph.weighting import is_counted, tfidf
from naq.options import Value
from naq.randomness import stream
from naq.threads import one_blas_thread
from naq.unit_rows import unit_rows

SHORTEST = 1e-12
"""Vectors no longer than this become zero."""


@register_embedder
class Smooth(Embedder):
    """TF-IDF, SVD and smoothing.

    Options:
        dim: vectors' width at most (256); features of that width or less are used as they are.
        smoothing: ``ppr`` (``steps`` of 0.85 A_hat Z + 0.15 Z_0) or ``hops`` (A_hat applied ``steps`` times).
        steps: 10; two suit ``hops``.
        tfidf: weight words by rarity; done only where features are non-negative and sparse.
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
        "center": True,
    }

    def check_options(self) -> None:
        self.require_at_least("dim", 1)
        self.require_at_least("steps", 0)
        self.require_choice("smoothing", ("hops", "ppr"))

    def embed(self) -> np.ndarray:
        vectors = self._reduced(self._weighted())
        vectors = unit_rows(self._smoothed(vectors), SHORTEST)
        if self.options["center"]:
            mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
            vectors = unit_rows(vectors - mean, SHORTEST)
        return vectors

    def _weighted(self) -> sp.csr_array | np.ndarray:
        features = self.graph.require_features("smooth")
        return tfidf(features) if self.options["tfidf"] and is_counted(self.graph) else features

    def _reduced(self, features: sp.csr_array | np.ndarray) -> np.ndarray:
        dim = int(self.options["dim"])
        if features.shape[1] <= dim:
            return np.asarray(features if isinstance(features, np.ndarray) else features.toarray(), dtype=np.float32)
        with one_blas_thread():
            return truncated_svd(features, min(dim, features.shape[0]), self.seed)

    def _smoothed(self, start: np.ndarray) -> np.ndarray:
        adjacency = self.graph.normalized_adjacency()
        vectors = start
        for _ in range(int(self.options["steps"])):
            vectors = adjacency @ vectors
            if self.options["smoothing"] == "ppr":
                vectors = 0.85 * vectors + 0.15 * start
        return np.asarray(vectors, dtype=np.float32)


def truncated_svd(matrix: Any, dim: int, seed: int, *, oversample: int = 16, iterations: int = 3) -> np.ndarray:
    """U S of a randomised SVD (Halko, Martinsson, Tropp 2011); the random vectors belong to columns, not to rows.

    So renumbering the nodes renumbers the result. Signs are fixed by the largest entry of each right vector.
    """
    width = min(dim + oversample, *matrix.shape)
    basis = stream(seed, "smooth/svd").standard_normal((matrix.shape[1], width)).astype(np.float32)
    turned = matrix.T.tocsr() if sp.issparse(matrix) else matrix.T
    for _ in range(iterations):
        basis = scipy.linalg.qr(turned @ (matrix @ basis), mode="economic", check_finite=False)[0]
    image = matrix @ basis
    # The small eigenproblem of (matrix basis)^T (matrix basis) is symmetric in the rows of the matrix.
    _, rotation = np.linalg.eigh(image.T.astype(np.float64) @ image.astype(np.float64))
    rotation = rotation[:, ::-1][:, :dim]
    right = basis @ rotation
    signs = np.sign(right[np.abs(right).argmax(axis=0), np.arange(right.shape[1])])
    return np.ascontiguousarray(image @ (rotation * np.where(signs == 0, 1, signs)), dtype=np.float32)
