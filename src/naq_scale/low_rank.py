r"""Feature rows as a few dense numbers, so that near ones are found through clusters.

.. math:: s_{ij} \approx z_i \cdot z_j - h_j, \qquad z_i = B^\top \tilde x_i

which orders the rows j about as the metric does: :math:`\tilde x` is a row of length one (cosine; Jaccard, of the
non-zero positions) and h = 0, or the row minus the mean of all dense rows (Euclid) and :math:`h = |\tilde x|^2 / 2`. B
is the leading right vectors of a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.graph.operators import svd_basis, svd_start
from naq.neighbors.feature_exact import binary, squared_norms
from naq.random import stream
from naq.threads import one_blas_thread

WIDTH = 32
WIDEST_DENSE = 128
"""Dense columns up to which rows stay as they are."""
SAMPLE = 1 << 16
"""Rows that B is fitted on."""
ITERATIONS = 4
BLOCK = 1 << 15
"""Rows narrowed at once."""


class Compared:
    """The rows of any nodes as the metric compares them: of length one, or scaled and (dense ones) minus their mean."""

    def __init__(self, features: Any, metric: str) -> None:
        self.features, self.metric = features, metric
        self.scale, self.mean = np.float32(1), np.float32(0)
        if metric == "euclidean":
            data = features if isinstance(features, np.ndarray) else features.data
            largest = max(float(data.max(initial=0)), -float(data.min(initial=0)))
            if largest > 0:  # squares of very large numbers do not fit in float32
                self.scale = np.float32(1.0 / largest)
            if isinstance(features, np.ndarray):
                self.mean = (features.mean(axis=0, dtype=np.float64) * self.scale).astype(np.float32)

    def __call__(self, nodes: np.ndarray) -> Any:
        rows = self.features[nodes]
        if self.metric == "euclidean":
            return rows * self.scale - self.mean if isinstance(rows, np.ndarray) else rows * self.scale
        rows = binary(rows) if self.metric == "jaccard" else rows
        length = np.sqrt(squared_norms(rows))
        scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        if isinstance(rows, np.ndarray):
            return (rows * scale[:, None]).astype(np.float32)
        data = (rows.data * np.repeat(scale, np.diff(rows.indptr))).astype(np.float32)
        return sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)

    def blocks(self, nodes: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Places in ``nodes`` and the rows there, a block at a time."""
        for start in range(0, len(nodes), BLOCK):
            part = slice(start, min(len(nodes), start + BLOCK))
            yield part, self(nodes[part])


def low_rank_width(features: Any) -> int:
    """NumberRows of a narrow row."""
    columns = features.shape[1]
    return columns if columns <= (WIDEST_DENSE if isinstance(features, np.ndarray) else WIDTH) else WIDTH


def low_rank_rows(compared: Compared, nodes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """z (nodes, w) float32 and h (nodes,) float32."""
    width = low_rank_width(compared.features)
    rows, half = np.empty((len(nodes), width), dtype=np.float32), np.zeros(len(nodes), dtype=np.float32)
    with one_blas_thread():
        basis = None
        if width < compared.features.shape[1]:
            chosen = stream(seed, "narrow/sample").choice(len(nodes), min(SAMPLE, len(nodes)), replace=False)
            sample = compared(nodes[np.sort(chosen)])
            basis = svd_basis(sample, svd_start(sample.shape, WIDTH, seed, 0), ITERATIONS).astype(np.float32)
        for part, block in compared.blocks(nodes):
            if compared.metric == "euclidean":
                half[part] = 0.5 * squared_norms(block)
            if basis is not None:
                image = block @ basis
                rows[part, : image.shape[1]], rows[part, image.shape[1] :] = image, 0.0
            else:
                rows[part] = block if isinstance(block, np.ndarray) else block.toarray()
    return rows, half
