r"""NaQ in closed form: no episode, no gradient, no label.

.. math:: Z = \mathrm{ClosedForm}(\mathrm{center}(0.85\, \hat A Z + 0.15\, Z_0, \ \text{ten times}))

``naq-plus`` starts from the words of the nodes (:mod:`naq.embedders.smoothing`) cut to 384 dimensions by SVD, smooths
them over the graph as ``smooth`` does, and applies :class:`ClosedForm`, which takes any vectors: the scatter of
neighbours removed, the rest sharpened. It takes near nodes as members of one class, as NaQ does, and estimates from all
such pairs P at once what an episode would teach:

.. math::
    S_w = \frac{1}{2|P|} \sum_{(i, j) \in P} (z_i - z_j)(z_i - z_j)^\top = U \operatorname{diag}(e)\, U^\top, \qquad
    M_1 = U (e + \gamma \bar e)^{-1/2} U^\top

    Z^\top Z = V \operatorname{diag}(f) V^\top, \qquad M_2 = V f^{(p - 1)/2}

with Z the rows after the first map. A vector s becomes, with the means :math:`\mu_0` and :math:`\mu_1` of the nodes
that were fitted,

.. math:: z = u(u(u(u(u(s) - \mu_0)\, M_1) - \mu_1)\, M_2), \qquad u(x) = x / |x|

P are nearest neighbours by cosine. Were :math:`S_w` the common covariance of Gaussian classes, its inverse square root
would be the best linear map for ProtoNet's loss; ``docs/closed-form.md`` says what holds exactly and what under which
assumption.

The choices are fixed: they were made on base and validation classes of five graphs (``docs/choices.md``).

Edges that do not agree with the features are doubted, and :meth:`NaqPlus.plan` says so. A graph with neither edges nor
features is a :class:`~naq.errors.GraphError`. Without edges nothing is smoothed. A node whose vector is the mean of all
has the zero vector; nodes with no words, of their own or of nodes they are joined to, all have the same one, opposite
to the mean. Vectors are no wider than there are features or, if these are more than ``dim``, nodes.

Cost: that of ``smooth``; O(n^2 d) for the neighbours (O(n^1.5 d) by clusters for many nodes), O(n d^2) for the rest;
384 floats per node and a few blocks of 64 MiB.

Example:
    >>> import naq
    >>> naq.embed(naq.load("debian"), "naq-plus").shape  # doctest: +SKIP
    (34169, 384)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch

from naq.device import checked_device
from naq.embedders.base import Embedder
from naq.embedders.smoothing import (
    ROUNDING,
    Matrix,
    center,
    edge_agreement,
    node_words,
    on_device,
    reduce,
    smooth,
    unit,
)
from naq.errors import OptionError
from naq.neighbors.table import NeighborTable
from naq.neighbors.vectors import mutual_pairs, vector_neighbors
from naq.options import option
from naq.random import stream
from naq.threads import one_blas_thread

Rows = np.ndarray | torch.Tensor

SMALLEST = 1e-9
"""Directions with less than this share of the largest variance count as having it: what is there is rounding."""
AGREES = 0.1  # edges that agree with the features by less are not trusted


def nearest_pairs(table: NeighborTable) -> np.ndarray:
    """(pairs, 2) int64: every node with each of its nearest, so that mutual ones are there twice."""
    one = np.repeat(np.arange(table.num_nodes, dtype=np.int64), table.k)
    two = table.ids.ravel().astype(np.int64)
    return np.stack([one, two], axis=1)[two >= 0]


PAIRS = {"mutual": mutual_pairs, "nearest": nearest_pairs}
"""Which neighbours count as members of one class."""


class ClosedForm:
    """Both steps, fitted on the vectors of all nodes and applied to these or to others.

    Vectors are centred first. One within rounding of the mean becomes zero and stays zero. A step is left out where it
    has nothing to go by: no pairs, or pairs that do not differ. Fewer than three nodes, and vectors of one dimension,
    are only centred.

    Args:
        neighbors: k of the nearest neighbours; all other nodes if there are fewer.
        pairs: ``nearest``, every node with each of its nearest, or ``mutual``, only those in each other's list.
        shrink: gamma > 0, how much of the mean scatter is added to every direction; infinity would change nothing.
        power: p, how much directions of large variance are favoured; 1 is not at all.
        seed: of the clusters that neighbours are sought in if there are many nodes, and of the sample.
        device: ``cpu`` or ``cuda``.
        sample: of more nodes than this, neighbours are sought among a sample of so many; None takes all.

    Attributes:
        center: (d,) float32, mu_0; ``None`` before ``fit``.
        maps: M_1 (d, d), mu_1 (d,) and M_2 (d, d), float32; ``None`` for a step that was left out.

    Example:
        >>> rows = np.random.default_rng(0).standard_normal((30, 4))
        >>> form = ClosedForm(neighbors=5)
        >>> z = form.fit_transform(rows)
        >>> bool((form.transform(rows) == z).all())
        True
    """

    center: np.ndarray | None = None
    maps: tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None] = (None, None, None)

    def __init__(
        self, neighbors: int = 10, pairs: str = "nearest", shrink: float = 0.5, power: float = 1.75, seed: int = 0, *,
        device: str | torch.device = "cpu", sample: int | None = None,
    ) -> None:  # fmt: skip
        for name, value in (("neighbors", neighbors), ("shrink", shrink), ("power", power)):
            if not value > 0:
                raise OptionError(f"{name} is {value!r}; expected a number above 0.")
        if pairs not in PAIRS:
            raise OptionError(f"pairs is {pairs!r}; expected {' or '.join(PAIRS)}.")
        self.neighbors, self.pairs, self.shrink, self.power, self.seed = neighbors, pairs, shrink, power, seed
        self.device, self.sample = checked_device(device), sample

    def fit(self, vectors: Rows) -> Self:
        """Find center and maps of the vectors (n, d) of all nodes, finite."""
        self.fit_transform(vectors)
        return self

    def fit_transform(self, vectors: Rows) -> np.ndarray:
        """(n, d) float32 of length one: the vectors after both steps."""
        rows = unit(self._checked(vectors))
        mean = rows.double().mean(dim=0).to(rows)
        rows = unit(rows - mean, ROUNDING)
        self.center, self.maps = mean.cpu().numpy(), (None, None, None)
        if len(rows) > 2 and rows.shape[1] > 1:
            middle, first = None, self._scatter_removal(rows)
            if first is not None:
                rows = unit(rows @ self._there(first))
                mean = rows.double().mean(dim=0).to(rows)
                rows, middle = unit(rows - mean, ROUNDING), mean.cpu().numpy()
            second = sharpening_of(gram(rows), self.power)
            if second is not None:
                rows = unit(rows @ self._there(second))
            self.maps = (first, middle, second)
        return np.asarray(rows.cpu().numpy())

    def transform(self, vectors: Rows) -> np.ndarray:
        """(n, d) float32 of length one: other vectors mapped as those that were fitted, which get the same bits."""
        if self.center is None:
            raise OptionError("this ClosedForm was not fitted; call fit(rows) first.")
        rows = self._checked(vectors)
        if rows.shape[1] != len(self.center):
            raise OptionError(f"vectors have {rows.shape[1]} columns; expected {len(self.center)}, as those fitted.")
        rows = unit(unit(rows) - self._there(self.center), ROUNDING)
        first, mean, second = self.maps
        if first is not None and mean is not None:
            rows = unit(unit(rows @ self._there(first)) - self._there(mean), ROUNDING)
        rows = rows if second is None else unit(rows @ self._there(second))
        return np.asarray(rows.cpu().numpy())

    def _checked(self, vectors: Rows) -> torch.Tensor:
        rows = torch.as_tensor(vectors).to(device=self.device, dtype=torch.float32)
        if rows.ndim != 2 or not bool(torch.isfinite(rows).all()):
            shape = tuple(rows.shape)
            raise OptionError(f"vectors have shape {shape}; expected (nodes, d) numbers, finite in float32.")
        return rows

    def _there(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    def _scatter_removal(self, rows: torch.Tensor) -> np.ndarray | None:
        """M_1 of centred rows."""
        if self.sample is not None and len(rows) > self.sample:
            chosen = np.sort(stream(self.seed, "classifier/pairs").choice(len(rows), self.sample, replace=False))
            rows = rows[torch.from_numpy(chosen).to(rows.device)]
        table = vector_neighbors(rows, min(self.neighbors, len(rows) - 1), device=self.device, seed=self.seed)
        pairs = PAIRS[self.pairs](table)
        return removal_of(scatter(rows, pairs), self.shrink) if len(pairs) else None


def scatter(rows: torch.Tensor, pairs: np.ndarray, block: int = 1 << 16) -> np.ndarray:
    """(d, d) float64: the mean of (z_i - z_j)(z_i - z_j)^T / 2 over the pairs, ``block`` of them at once."""
    ends = torch.from_numpy(pairs).to(rows.device)
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for start in range(0, len(ends), block):
        part = ends[start : start + block]
        apart = (rows[part[:, 0]] - rows[part[:, 1]]).double()
        total += apart.T @ apart
    return (total / (2 * len(ends))).cpu().numpy()


def gram(rows: torch.Tensor, block: int = 1 << 16) -> np.ndarray:
    """(d, d) float64 Z^T Z, ``block`` rows at once."""
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), block):
        part = rows[start : start + block].double()
        total += part.T @ part
    return total.cpu().numpy()


def removal_of(scattered: np.ndarray, shrink: float) -> np.ndarray | None:
    """(d, d) float32 M_1 of a scatter matrix; None if it is zero."""
    values, directions = _eigen(scattered)
    if values.sum() <= ROUNDING**2:
        return None
    weights = (values + shrink * values.mean()) ** -0.5
    return ((directions * weights) @ directions.T).astype(np.float32)


def sharpening_of(products: np.ndarray, power: float) -> np.ndarray | None:
    """(d, d) float32 M_2 of the rows' Gram matrix; None if it is zero."""
    values, directions = _eigen(products)
    if values.max() <= 0:
        return None
    share = np.maximum(values / values.max(), SMALLEST)
    return (directions * share ** ((power - 1) / 2)).astype(np.float32)


def _eigen(matrix: np.ndarray) -> tuple[np.ndarray, Any]:
    """Eigenvalues, none below zero, and eigenvectors of a symmetric matrix."""
    with one_blas_thread():
        values, directions = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0), directions


class NaqPlus(Embedder):
    """Smoothing, then the closed form."""

    name = "naq-plus"
    weighs_features = True
    summary = "NaQ in closed form: smoothing, then the scatter of neighbours removed; trains nothing"

    @dataclass(frozen=True)
    class Options(Embedder.Options):
        dim: int = option(384, at_least=1)  # vectors' width at most
        steps: int = option(10, at_least=0)  # of smoothing, 0.85 A_hat Z + 0.15 Z_0
        # trusted takes the smoothed features, doubted their sum with the features themselves, auto decides by whether
        # nodes are like their neighbours (naq.embedders.smoothing.edge_agreement)
        edges: str = option("auto", choices=("auto", "trusted", "doubted"))
        # k of the nearest neighbours; all other nodes if there are fewer
        neighbors: int = option(10, at_least=1)
        # nearest takes every node and each of its nearest for members of one class, mutual those in each other's list
        pairs: str = option("nearest", choices=tuple(PAIRS))
        # gamma, how much of the mean scatter is added before it is divided by
        shrink: float = option(0.5, more_than=0)
        # p, how much directions of large variance are favoured; 1 is not at all
        power: float = option(1.75, more_than=0)

    options: Options

    agreement: float | None = None
    """Of the edges with the features; None before vectors are made."""

    def embed(self) -> np.ndarray:
        if self.graph.mapped:
            return self.embed_to(None)
        return self.closed_form().fit_transform(self.smoothed())

    def closed_form(self, sample: int | None = None) -> ClosedForm:
        """The closed form with these options, not fitted."""
        o = self.options
        return ClosedForm(o.neighbors, o.pairs, o.shrink, o.power, self.seed, device=self.device, sample=sample)

    def smoothed(self) -> Matrix:
        """(n, d) the vectors before the closed form, centred; on the device."""
        words = node_words(self.graph)
        there = on_device(words, self.device)
        turned = on_device(sp.csr_array(words.T), self.device) if sp.issparse(words) and there is not words else None
        start = unit(reduce(there, self.options.dim, self.seed, turned))
        self.agreement = edge_agreement(self.graph, start)
        adjacency = on_device(self.graph.normalized_adjacency(), self.device)
        rows = center(smooth(adjacency, start, self.options.steps))
        return rows if self.trusts_edges else center(rows + center(start))

    @property
    def trusts_edges(self) -> bool:
        """As asked or, with ``auto``, whether edges agree with the features; known once vectors are made."""
        edges = self.options.edges
        return edges == "trusted" or (edges == "auto" and self.agreement is not None and self.agreement >= AGREES)

    def plan(self) -> str:
        """One line: what was made of the edges and why; empty before vectors are made."""
        if self.agreement is None:
            return ""
        auto = self.options.edges == "auto"
        reason = f"neighbours agree by {self.agreement:.2f}, {AGREES:g} is enough" if auto else "as asked"
        edges = "trusted" if self.trusts_edges else "doubted: features are added to what was smoothed"
        return f"edges {edges} ({reason})"
