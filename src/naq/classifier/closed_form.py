r"""``naq-plus`` with its maps kept, so that nodes that come later are mapped without fitting again.

The vectors are those of :mod:`naq.embedders.naq_plus`. Kept are the two matrices of :mod:`naq.embedders.refinement` and the mean between them:
with :math:`\mu_0, \mu_1, \mu_2` the means that are subtracted,

.. math:: z = \mathrm{unit}\big(\mathrm{unit}(\mathrm{unit}(s - \mu_0)\, M_1 - \mu_1)\, M_2\big)

For a larger graph, :math:`s` is smoothed over its edges, from :math:`X V`: words projected by the V of the old SVD. V is
recovered from what the SVD gives, :math:`X V = U S`, by least squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch

from naq.embedders.naq_plus import NaqPlus
from naq.embedders.node_words import node_words
from naq.embedders.refinement import BLOCK, PAIRS, scatter_removal, sharpening
from naq.embedders.smoothing import ROUNDING, centred, narrowed, smoothed, unit
from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors import vector_neighbors
from naq.random import stream

SOLVER_ROUNDS = 8
"""Of conjugate gradients for V: the start is then off by a few thousandths of its length, a hundredth in its last columns."""
MOST_PAIRED = 200_000
"""Of more nodes, neighbours are sought among so many that are drawn: their scatter is a mean over pairs, and millions of pairs are enough."""


@dataclass(frozen=True, eq=False)
class Maps:
    """M_1 (d, d), mu_1 (d,) and M_2 (d, d), float32; and whether the edges were trusted."""

    first: np.ndarray
    mean: np.ndarray
    second: np.ndarray
    trusted: bool

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Centred rows (n, d) to vectors (n, d) of length one."""
        vectors = np.empty_like(rows)
        for start in range(0, len(rows), BLOCK):
            part = unit(rows[start : start + BLOCK] @ self.first)
            vectors[start : start + BLOCK] = unit(unit(part - self.mean, ROUNDING) @ self.second)
        return vectors


def fitted(model: NaqPlus) -> tuple[np.ndarray, Maps]:
    """The vectors of ``model.embed()`` but for rounding, and the maps behind them; with more than ``MOST_PAIRED`` nodes, maps of a sample."""
    rows = centred(torch.as_tensor(model.smoothed()).to(model.device))
    first, mean, second = None, torch.zeros(rows.shape[1]), None
    if len(rows) > 2 and rows.shape[1] > 1:
        paired = _drawn(rows, model.seed)
        neighbors = min(int(model.options["neighbors"]), len(paired) - 1)
        table = vector_neighbors(paired, neighbors, device=model.device, seed=model.seed)
        between = rows
        first = scatter_removal(paired, PAIRS[str(model.options["pairs"])](table), float(model.options["shrink"]))
        if first is not None:
            between = unit(rows @ first)
            mean = between.double().mean(dim=0).to(rows)
            between = unit(between - mean, ROUNDING)
        second = sharpening(between, float(model.options["power"]))
    maps = Maps(_kept(first, rows), mean.cpu().numpy(), _kept(second, rows), model.trusts_edges)
    return maps.apply(rows.cpu().numpy()), maps


def _drawn(rows: torch.Tensor, seed: int) -> torch.Tensor:
    """The rows, or ``MOST_PAIRED`` of them where there are more."""
    if len(rows) <= MOST_PAIRED:
        return rows
    chosen = np.sort(stream(seed, "classifier/pairs").choice(len(rows), MOST_PAIRED, replace=False))
    return rows[torch.from_numpy(chosen).to(rows.device)]


def _kept(matrix: torch.Tensor | None, rows: torch.Tensor) -> np.ndarray:
    """The matrix of a step, or the identity where the step was left out."""
    return np.eye(rows.shape[1], dtype=np.float32) if matrix is None else matrix.cpu().numpy()


@dataclass(frozen=True, eq=False)
class Extension:
    """Vectors for a graph with more nodes, from what was fitted on the smaller one.

    Attributes:
        projection: V (words, d), or None where words are no wider than vectors.
        start_mean, smooth_mean, sum_mean: (d,) what is subtracted from the start, from what was smoothed and, where edges are doubted, from their sum.
    """

    maps: Maps
    steps: int
    projection: np.ndarray | None
    start_mean: np.ndarray
    smooth_mean: np.ndarray
    sum_mean: np.ndarray

    @classmethod
    def of(cls, graph: Graph, model: NaqPlus, maps: Maps) -> Extension:
        """What the fitted graph gives: V and the means. Cost: one SVD and one smoothing."""
        words = node_words(graph)
        if words.shape[1] != graph.num_features:
            raise OptionError(
                f"graph {graph.name!r} has no features that differ, so nodes that come later cannot be mapped; fit the larger graph."
            )
        narrow = narrowed(words, int(model.options["dim"]), model.seed)
        projection = None if words.shape[1] == narrow.shape[1] else least_squares(words, narrow)
        steps = int(model.options["steps"])
        start = unit(narrow)
        rows = unit(smoothed(graph.normalized_adjacency(), start, steps))
        own, other = _less(start), _less(rows)
        both = unit(other[0] + own[0])
        return cls(maps, steps, projection, own[1], other[1], both.mean(axis=0, dtype=np.float64).astype(np.float32))

    def apply(self, larger: Graph) -> np.ndarray:
        """(n, d) float32 vectors of length one for every node of the larger graph."""
        words = node_words(larger)
        start = unit(
            np.asarray(
                words @ self.projection if self.projection is not None else narrowed(words, words.shape[1], 0),
                dtype=np.float32,
            )
        )
        rows = unit(smoothed(larger.normalized_adjacency(), start, self.steps))
        rows = unit(rows - self.smooth_mean, ROUNDING)
        if not self.maps.trusted:
            rows = unit(unit(rows + unit(start - self.start_mean, ROUNDING)) - self.sum_mean, ROUNDING)
        return self.maps.apply(rows)


def least_squares(words: sp.csr_array | np.ndarray, image: np.ndarray) -> np.ndarray:
    """(w, d) float32 V with words V = image as nearly as can be; the shortest one. Conjugate gradients on all columns at once."""
    turned = words.T if isinstance(words, np.ndarray) else words.T.tocsr()
    answer = np.zeros((words.shape[1], image.shape[1]), dtype=np.float32)
    residual = np.asarray(turned @ image, dtype=np.float32)
    step, size = residual.copy(), _squares(residual)
    first = size.copy()
    for _ in range(SOLVER_ROUNDS):
        curved = turned @ (words @ step)
        along = np.einsum("wd,wd->d", step, curved, dtype=np.float64)
        live = (along > 0) & (size > 1e-12 * first)
        rate = np.divide(size, along, out=np.zeros_like(size), where=live).astype(np.float32)
        answer += rate * step
        residual -= rate * curved
        new = _squares(residual)
        step = residual + np.divide(new, size, out=np.zeros_like(size), where=live).astype(np.float32) * step
        size = np.where(live, new, 0.0)
    return answer


def _squares(rows: np.ndarray) -> np.ndarray:
    """(d,) float64, the squared length of every column."""
    return np.einsum("wd,wd->d", rows, rows, dtype=np.float64)


def _less(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows without their mean, of length one, and the mean."""
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    return unit(rows - mean, ROUNDING), mean
