r"""SUGRL: a perceptron whose vectors are nearer to their neighbourhood's than to other nodes', by two margins.

Mo et al., Simple Unsupervised Graph Representation Learning, https://ojs.aaai.org/index.php/AAAI/article/view/20748; as
pre-training for few-shot tasks (TLP): Tan et al., Transductive Linear Probing, https://arxiv.org/abs/2205.12420

.. math::
    H = \mathrm{MLP}(\mathrm{dropout}(X)), \qquad S = \hat A\, \mathrm{dropout}(H), \qquad B_v = \frac15 \sum_{u \in
    N_5(v)} H_u
.. math::
    p = |H - S|, \quad b = |H - B|, \quad n_i = |H - H_{\pi_i}|, \qquad i = 1..k
.. math::
    \mathcal L_1 = \sum_i \overline{(p - n_i + m_1)_+}, \quad \mathcal L_2 = \sum_i \overline{(b - n_i + m_1)_+}, \quad
    \mathcal L_3 = \frac1k \sum_i \overline{(n_i - \mathrm{sg}(p) - m_1 - m_2)_+}
.. math::
    \mathcal L = w_1 \mathcal L_1 + w_2 \mathcal L_2 + w_3 \mathcal L_3, \qquad Z = \frac{\hat A\,
    \mathrm{MLP}(X)}{|\cdot|}

X has rows of unit L1 norm, the bar is the mean over nodes, sg stops the gradient, and :math:`\pi_i` are random
permutations of the nodes. The neighbours N_5 are taken by slots: slot j of node v is neighbour number
:math:`j \bmod \deg v` in the row of v in A + I, columns ascending, and epoch e reads the slots
:math:`((e + 2 i) \bmod 100) + 1` for i = 0..4.

Departures: the third loss is a mean as the other two are; the released code sums it over nodes on all but OGB graphs
(``l3_reduction="sum"``). Its neighbours on OGB graphs are the node itself, by mistake; not here. With batches a node's
negatives are the other nodes of its batch, and its neighbours those inside the piece.

Cost: one product with X, one with A_hat and k + 2 distances per update, nothing quadratic; memory about n (5 * hidden +
14 * latent) numbers, on an accelerator 3k * latent more.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="sugrl")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import nn

from naq.embedders.closed_form import ClosedForm, NaqPlus
from naq.embedders.smoothing import center
from naq.errors import OptionError
from naq.graph import Graph
from naq.graph.operators import unit_rows
from naq.nn.operator import PROPAGATED_ENTRIES
from naq.nn.rows import SparseRows, sparse_product
from naq.options import Value, option
from naq_paper.rivals.fixed_order import distances, drawn_distances, drop_values, total
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.trained import TrainedEmbedder

BLOCK = 8192
"""Nodes embedded at once."""
SMOOTH_DROPOUT = 0.2
"""Share of H that is dropped before it is averaged."""
NEIGHBORS, SLOTS = 5, 100
"""Neighbours that an epoch reads, and epochs after which their slots start again."""
SHORTEST = 1e-12
"""Rows of no larger norm become zero."""


class SUGRL(TrainedEmbedder):
    """Vectors by margins. Defaults are those released for Cora, but for the width and the learning rate.

    Shapes:
        - ``loss``: a piece -> scalar, at least 0
        - ``encode_all``: (n, latent)
    """

    name = "sugrl"
    summary = "a perceptron pulled to its neighbourhood, by margins"
    hops = 1
    # Negatives and slots belong to ids under all options.
    deterministic_options: ClassVar[Mapping[str, Value]] = {"lr": 1e-12}

    @dataclass(frozen=True)
    class Options(TrainedEmbedder.Options):
        hidden: int = option(512, more_than=0)  # width of the hidden layer
        latent: int = option(256, more_than=0)  # width of the vectors
        dropout: float = option(0.3, at_least=0, below=1)  # of the non-zeros of X
        w1: float = option(10.0, at_least=0)  # weights of the three losses; 100, 100, 2 for product graphs
        w2: float = option(10.0, at_least=0)
        w3: float = option(1.0, at_least=0)
        m1: float = option(0.8, at_least=0)  # margins; 0.4, 0.6 for product graphs
        m2: float = option(0.2, at_least=0)
        negatives: int = option(4, at_least=1)  # permutations per update
        # over nodes. Worth a try: on validation tasks sum with lr=1e-3 was 7 points better on coauthor_cs and 3 worse
        # on debian.
        l3_reduction: str = option("mean", choices=("mean", "sum"))
        # gcn averages over neighbours before the first layer too, so that S and Z are those of a two-layer graph
        # convolutional network, while H stays the perceptron with the same weights
        encoder: str = option("mlp", choices=("mlp", "gcn"))
        # as released for OGB graphs: A_hat is A + I with rows of sum 1 instead of the symmetric normalisation, and rows
        # of X get unit L2 norm and are averaged over neighbours once, before everything. Its other settings there:
        # negatives=1, margins 0.9, lr=1e-2.
        ogb: bool = option(False)
        normalize: bool = option(True)  # vectors of unit length
        lr: float = option(5e-3, more_than=0)  # Adam's learning rate
        weight_decay: float = option(5e-5, at_least=0)  # Adam's
        fanout: int = option(10, at_least=1)  # see TrainedEmbedder

    options: Options

    def build(self) -> None:
        self.graph = self.graph.with_features(perceptron_inputs(self.graph, ogb=self.options.ogb))
        if self.options.encoder == "gcn":
            self.hops = 2  # type: ignore[misc]
        generator = self.generator("encoder")
        sizes = (self.graph.num_features, self.options.hidden, self.options.latent)
        shapes = tuple(pairwise(sizes))
        drawn = [nn.init.xavier_uniform_(torch.empty(shape), generator=generator) for shape in shapes]
        self.weight1, self.weight2 = (nn.Parameter(w.to(self.device)) for w in drawn)
        self.bias1, self.bias2 = (nn.Parameter(torch.zeros(s[1], device=self.device)) for s in shapes)

    def step_bytes(self, nodes: float, edges: float, entries: float) -> float:
        hidden, latent, negatives = self.options.hidden, self.options.latent, self.options.negatives
        differences = 0 if self.device.type == "cpu" else 3 * negatives  # on the CPU they are formed and forgotten
        return 4 * nodes * (5 * hidden + (14 + differences) * latent) + 60 * edges + 40 * entries

    # Training.

    def loss(self, piece: Piece, update: int) -> torch.Tensor:
        anchors, smoothed = self.anchors_and_positives(piece, update)
        near = neighbor_means(piece, anchors, slots_of(update // self.updates_per_epoch))
        anchors, smoothed = anchors[: piece.seeds], smoothed[: piece.seeds]
        drawn = self.generator("negatives", update)
        orders = (torch.randperm(len(anchors), generator=drawn) for _ in range(self.options.negatives))
        others = [drawn_distances(anchors, order.to(self.device)) for order in orders]
        return self.margin_loss(distances(anchors, smoothed), distances(anchors, near), others)

    def anchors_and_positives(self, piece: Piece, update: int) -> tuple[torch.Tensor, torch.Tensor]:
        """H and S of all nodes of a piece."""
        averaged = self._averaging(piece)
        values = piece.inputs(self.weight1, self.options.dropout, self.generator("inputs", update))
        anchors = self._layers(values)
        seen = anchors if self.options.encoder == "mlp" else self._layers(averaged(values))
        return anchors, averaged(drop_values(seen, SMOOTH_DROPOUT, self.generator("dropout", update)))

    def margin_loss(self, p: torch.Tensor, b: torch.Tensor, n: list[torch.Tensor]) -> torch.Tensor:
        """The loss of distances to the averaged neighbourhood, to the mean of some neighbours, and to other nodes."""
        w1, w2, w3, m1, m2 = (getattr(self.options, name) for name in ("w1", "w2", "w3", "m1", "m2"))
        bound = p.detach() + (m1 + m2)
        loss = torch.zeros((), device=p.device)
        for other in n:
            drift = total(torch.relu(other - bound))
            over = drift if self.options.l3_reduction == "sum" else drift / len(p)
            smooth, near = (total(torch.relu(positive - other + m1)) / len(p) for positive in (p, b))
            loss = loss + (w1 * smooth + w2 * near) + w3 * (1.0 / len(n)) * over
        return loss

    def _layers(self, values: torch.Tensor) -> torch.Tensor:
        """What follows the first product of the perceptron."""
        return torch.relu(values + self.bias1) @ self.weight2 + self.bias2

    def _averaging(self, piece: Piece) -> Callable[[torch.Tensor], torch.Tensor]:
        spread = piece.spread()
        if not self.options.ogb:
            return lambda values: spread @ values
        root = torch.bincount(piece.rows, minlength=len(piece)).float().sqrt()[:, None]
        return lambda values: (spread @ (values * root)) / root  # D^-1 A = D^-1/2 (D^-1/2 A D^-1/2) D^1/2

    # Vectors.

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        inner = self._by_blocks(self._inner)
        vectors = self._by_blocks(lambda nodes: self._average(nodes, lambda around: inner[self._on_device(around)]))
        return F.normalize(vectors, dim=1) if self.options.normalize else vectors

    def _by_blocks(self, rows_of: Callable[[np.ndarray], torch.Tensor]) -> torch.Tensor:
        n = self.graph.num_nodes
        held = torch.empty(n, self.options.latent, device=self.device)
        for start in range(0, n, BLOCK):
            nodes = np.arange(start, min(n, start + BLOCK))
            held[start : start + len(nodes)] = rows_of(nodes)
        return held

    def _inner(self, nodes: np.ndarray) -> torch.Tensor:
        """Rows of the perceptron's output, before the last average."""
        inputs = partial(self.operator.inputs, weight=self.weight1)
        return self._layers(inputs(nodes) if self.options.encoder == "mlp" else self._average(nodes, inputs))

    def _average(self, nodes: np.ndarray, rows_of: Callable[[np.ndarray], torch.Tensor]) -> torch.Tensor:
        """Rows of A_hat V for some nodes, with the degrees of the whole graph."""
        rows, around = self.operator.field(nodes)
        values = rows_of(around)
        if not self.options.ogb:
            return sparse_product(rows, values)
        root = torch.from_numpy(np.sqrt(self.graph.degrees + 1.0).astype(np.float32)).to(self.device)[:, None]
        return sparse_product(rows, values * root[self._on_device(around)]) / root[self._on_device(nodes)]

    def _on_device(self, nodes: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(nodes).to(self.device)


def slots_of(epoch: int) -> list[int]:
    """The slots an epoch reads, counted from 1."""
    return [(epoch + 2 * i) % SLOTS + 1 for i in range(NEIGHBORS)]


def slot_neighbors(piece: Piece, slots: list[int]) -> torch.Tensor:
    """(seeds, slots) places in the piece of the neighbours in these slots of each of its first nodes."""
    degree = torch.bincount(piece.rows, minlength=len(piece))
    first = (degree.cumsum(0) - degree)[: piece.seeds, None]
    wanted = torch.tensor(slots, device=piece.device)[None, :] % degree[: piece.seeds, None]
    return piece.columns[first + wanted]


def neighbor_means(piece: Piece, values: torch.Tensor, slots: list[int]) -> torch.Tensor:
    """(seeds, width) means of ``values`` over the neighbours in these slots, with a gradient."""
    found = slot_neighbors(piece, slots).cpu().numpy()
    count, per_node = found.shape
    indptr = np.arange(0, found.size + 1, per_node, dtype=np.int64)
    share = np.full(found.size, 1.0 / per_node, dtype=np.float32)
    return sparse_product(SparseRows(indptr, found.ravel().astype(np.int32), share, (count, len(values))), values)


def perceptron_inputs(graph: Graph, *, ogb: bool) -> sp.csr_array | np.ndarray:
    """(n, d) rows of unit L1 norm; with ``ogb`` of unit L2 norm, averaged over the node and its neighbours."""
    features = graph.require_features("sugrl")
    if not ogb:
        return unit_norm(features, 1)
    if graph.propagated_size() > PROPAGATED_ENTRIES:
        raise OptionError(
            f"option ogb of sugrl would propagate the features of graph {graph.name!r} into "
            f"{graph.propagated_size():,} entries, more than {PROPAGATED_ENTRIES:,}; leave it out."
        )
    pattern = graph.normalized_adjacency()
    degree = np.diff(pattern.indptr)
    values = np.repeat(1.0 / degree, degree).astype(np.float32)  # rows of sum 1
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape) @ unit_norm(features, 2)


def unit_norm(rows: sp.csr_array | np.ndarray, order: int) -> sp.csr_array | np.ndarray:
    """Rows (n, d) divided by their L1 (``order`` 1) or L2 (2) norm, as float32; zero rows stay zero."""
    if isinstance(rows, np.ndarray):
        if order == 2:
            return unit_rows(rows, SHORTEST)
        norms = np.abs(rows).sum(axis=1, dtype=np.float64, keepdims=True)
        return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > SHORTEST)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    powers = np.bincount(row, weights=np.abs(rows.data.astype(np.float64)) ** order, minlength=rows.shape[0])
    norms = powers ** (1.0 / order)
    scale = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > SHORTEST).astype(np.float32)
    return sp.csr_array((rows.data * scale[row], rows.indices, rows.indptr), shape=rows.shape)


WEIGHT, DIM = 0.5, 256
"""Of the trained vectors next to the smoothed ones, and the width of these."""


class NaqPlusSugrl(SUGRL):
    r"""The closed form with SUGRL's vectors next to the smoothed features: slower than ``naq-plus``, and on the five
    graphs of ``docs/beyond.md`` not significantly different from it.

    .. math:: Z = \mathrm{ClosedForm}\left([\, Z_{\mathrm{smooth}} \,|\, \tfrac12 Z_{\mathrm{SUGRL}} \,]\right)

    Both parts are centred and have rows of length one. The weights of SUGRL are selected by its own vectors.

    Cost: that of SUGRL and that of ``naq-plus`` with twice the width.

    Example:
        >>> import naq
        >>> r = naq.run("debian", method="naq-plus/sugrl")  # doctest: +SKIP
    """

    name = "naq-plus/sugrl"
    summary = "the closed form of NaQ on smoothed features and SUGRL's vectors side by side"
    inductive = False  # the closed form is of the graph at hand, as naq-plus is

    @dataclass(frozen=True)
    class Options(SUGRL.Options):
        beside: float = option(WEIGHT, at_least=0)  # weight of the trained vectors

    options: Options

    def build(self) -> None:
        self.start = torch.as_tensor(NaqPlus(self.graph, seed=self.seed, device=self.device, dim=DIM).smoothed())
        super().build()

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """SUGRL's own vectors: what validation tasks choose by."""
        known = self.graph.known_nodes(nodes).ravel()
        return super().encode_all()[torch.from_numpy(known).to(self.device)]

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        trained = self.options.beside * center(super().encode_all())
        both = torch.cat([self.start.to(trained), trained], dim=1)
        form = ClosedForm(pairs="mutual", power=1.5, seed=self.seed, device=self.device)
        return torch.from_numpy(form.fit_transform(both)).to(self.device)
