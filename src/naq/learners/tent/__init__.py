r"""TENT: a class-specific graph network, modulated by the episode, matches queries to classes.

Wang, Ding, Zhang, Chen, Li, Task-Adaptive Few-shot Node Classification, https://arxiv.org/abs/2206.11972

With node vectors E, the class mean :math:`m_c` over its supports and :math:`A_r = \tilde D^{-1} (A + I)`:

.. math::
    (a, b) &= G\, \tfrac1N {\textstyle\sum_c m_c} + g, \qquad
    W_l' = W_l \odot (1 + a_l) + b_l \quad\text{(biases likewise)} \\
    u_c &= \mathrm{ReLU}(m_c W_1' + b_1') W_2' + b_2' \\
    v_q &= \tfrac{1}{|s|} 1^\top \left(A_s\, \mathrm{ReLU}(A_s E_s W_1' + b_1') W_2' + b_2'\right) \\
    \mathcal L &= \mathrm{CE}(E W_h + b_h, y) + \frac{1}{NQ} \sum_q -\log \mathrm{softmax}_c\left(2 \cos(v_q,
    u_c)\right)_{y_q}

s are the nodes within two hops of q and :math:`A_s` the entries of :math:`A_r` between them, so that
:math:`v_q = (1^\top A_s / |s|)\, \mathrm{ReLU}(\cdot) W_2' + b_2'` is one weighted sum per query graph. The first term
is over all nodes of base classes when supervised; NaQ has no labels, and takes the supports and queries of the episode
with their slots.

Departures: the temperature of a class divides a vector whose cosine is taken, so it is left out; the class node is that
of the released code, without edges, not the connected one of the paper's text; query graphs are capped.

Cost: nearly a full pass of the encoder, one sparse product over the query graphs, O(latent^3) for the modulation: two
to five ProtoNet episodes.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-feat/tent", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from naq.episodes import Episodes
from naq.errors import OptionError
from naq.learners.base import Learner, uniform
from naq.learners.node_draws import node_codes
from naq.learners.tent.query_graphs import QueryGraphs, balls_fit, query_graphs
from naq.nn import GCN, AugmentedOperator, GraphOperator, OneLayerGCN, Operator
from naq.nn.rows import sparse_product
from naq.options import option
from naq.random import torch_seed

Layers = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]

SHARPNESS = 2.0
"""Cosines are divided by 0.5."""
FULL_LATENT = 128
"""``auto`` modulates every weight up to this width (8.5 million parameters), channels beyond it."""
FULL_PARAMETERS = 100_000_000
"""Most parameters of a generator for every weight; it has 4 (latent + 1) latent^2."""


@dataclass(frozen=True)
class Queries:
    """Kept queries of one episode on one view of the graph: node ids, slots, and their graphs."""

    nodes: np.ndarray
    slots: np.ndarray
    graphs: QueryGraphs


class NodeVectors:
    """Vectors of some nodes on one view of the graph, each computed once, to be picked by node id."""

    def __init__(self, encode: Callable[..., torch.Tensor], nodes: Sequence[np.ndarray], view: Operator) -> None:
        self.nodes = np.unique(np.concatenate([part.ravel() for part in nodes]))
        self.vectors = encode(self.nodes, view)

    def pick(self, nodes: np.ndarray) -> torch.Tensor:
        """(nodes, h), repeats allowed."""
        place = torch.from_numpy(np.searchsorted(self.nodes, nodes.ravel()))
        return self.vectors.index_select(0, place.to(self.vectors.device))


class ModulatedLayers(nn.Module):
    """Two dense layers whose weights an episode scales and shifts.

    Args:
        width: of input, hidden layer and output.
        full: every weight has its own scale and shift; else every output channel, with one scale for its weights and
            bias (FiLM).

    Shapes:
        - ``forward``: task vector (width,) -> W1' (width, width), b1' (width,), W2', b2'
    """

    def __init__(self, width: int, full: bool, generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        self.width, self.full = width, full
        square, line = (width, width), (width,)
        self.weight1, self.bias1, self.weight2, self.bias2 = (
            uniform(shape, width, generator, device) for shape in (square, line, square, line)
        )
        outputs = 4 * width * (width + 1) if full else 4 * width
        self.generator_weight = uniform((width, outputs), width, generator, device)
        self.generator_bias = uniform((outputs,), width, generator, device)

    def forward(self, task: torch.Tensor) -> Layers:
        """The layers of the episode that ``task`` describes."""
        first, second = (task @ self.generator_weight + self.generator_bias).chunk(2)
        return *self._modulate(self.weight1, self.bias1, first), *self._modulate(self.weight2, self.bias2, second)

    def _modulate(
        self, weight: torch.Tensor, bias: torch.Tensor, made: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.width
        if not self.full:
            scale, shift = made.split(h)
            return weight * (1 + scale), bias * (1 + scale) + shift
        scale, shift, bias_scale, bias_shift = made.split([h * h, h * h, h, h])
        return weight * (1 + scale.view(h, h)) + shift.view(h, h), bias * (1 + bias_scale) + bias_shift


def class_vectors(means: torch.Tensor, layers: Layers) -> torch.Tensor:
    """(way, h) outputs of class nodes, which have no edges."""
    weight1, bias1, weight2, bias2 = layers
    return torch.relu(means @ weight1 + bias1) @ weight2 + bias2


def query_vectors(graphs: QueryGraphs, vectors: torch.Tensor, layers: Layers) -> torch.Tensor:
    """(queries, h) mean outputs over query graphs; ``vectors`` (u, h) belong to ``graphs.nodes``."""
    weight1, bias1, weight2, bias2 = layers
    hidden = torch.relu(sparse_product(graphs.rows, vectors @ weight1) + bias1)
    return sparse_product(graphs.pool, hidden) @ weight2 + bias2


class TENT(Learner):
    """Task-adaptive matching of query graphs to classes."""

    name = "tent"
    summary = "query graphs against classes, by layers the episode modulates"
    encoder: GCN | OneLayerGCN  # type: ignore[assignment]  # the base class names its own default

    @dataclass(frozen=True)
    class Options(Learner.Options):
        latent: int = option(64, more_than=0)  # width of the vectors
        # Adam's learning rate; the released code takes 0.05 for its single layer of width 16
        lr: float = option(1e-3, more_than=0)
        weight_decay: float = option(5e-4, at_least=0)  # Adam's, as the released code
        # the two-layer GCN, or the single convolution A_r X W + b of the released code
        encoder: str = option("gcn2", choices=("gcn2", "release"))
        # full scales and shifts every weight, film every channel; auto is full up to a width of 128
        modulation: str = option("auto", choices=("auto", "full", "film"))
        # nodes of the first loss term without labels; with labels it runs over all labelled nodes, unless it is none
        ce: str = option("support+query", choices=("support+query", "support", "none"))
        # of the classifier in the first loss term; 0: one per base class, or per slot without labels. The released code
        # has one per class of the dataset, hidden ones among them, whose outputs are never a target.
        outputs: int = option(0, at_least=0)
        # most nodes of a query graph, 0: no limit, as in the paper. Beyond it the query stays and the others are drawn
        # without replacement, the same for a node whenever it is a query.
        max_nodes: int = option(1000, at_least=0)

    options: Options

    def check_options(self) -> None:
        latent = self.options.latent
        size = 4 * (latent + 1) * latent**2
        if self.options.modulation == "full" and size > FULL_PARAMETERS:
            raise OptionError(
                f"option modulation of tent is 'full', which takes {size:,} parameters at latent={latent}; "
                "lower latent to 256, or choose modulation='film'."
            )

    def build(self) -> None:
        self.operator = GraphOperator(self.graph, self.device)
        latent = self.options.latent
        if given := self.given_encoder():
            self.encoder, latent = given, given.latent
        elif self.options.encoder == "release":
            drawn = torch.Generator().manual_seed(torch_seed(self.seed, "encoder/one convolution"))
            shapes = (self.operator.width, latent), (latent,)
            weight, bias = (uniform(shape, latent, drawn, self.device) for shape in shapes)
            self.encoder = OneLayerGCN(self.operator, weight, bias, mean=True)
        else:
            self.encoder = GCN(self.operator, latent, seed=self.seed)
        modulation = self.options.modulation
        full = modulation == "full" or (modulation == "auto" and latent <= FULL_LATENT)
        self.layers = ModulatedLayers(latent, full, self.generator("layers"), self.device)
        self._find_base_nodes()
        if self.options.ce != "none":
            needed, generator = len(self.base_classes) or self.way, self.generator("classifier")
            outputs = self.options.outputs or needed
            if outputs < needed:
                raise OptionError(
                    f"option outputs of tent is {outputs}, but {needed} classes are trained on; raise it."
                )
            self.head_weight = uniform((latent, outputs), latent, generator, self.device)
            self.head_bias = uniform((outputs,), latent, generator, self.device)
        limit, adjacency = self.options.max_nodes, self.graph.adjacency
        self._limit = 0 if balls_fit(adjacency.indptr, adjacency.indices, limit) else limit
        self._codes = node_codes(self.graph) if self._limit else None

    def _find_base_nodes(self) -> None:
        """Nodes of base classes and their classes; none under NaQ, which is given no labels."""
        labels = np.full(self.graph.num_nodes, -1) if self.base_labels is None else self.base_labels
        self.base_nodes = np.flatnonzero(labels >= 0)
        self.base_classes, targets = np.unique(labels[self.base_nodes], return_inverse=True)
        self._base_targets = torch.from_numpy(targets).to(self.device)

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        views, encode = self.query_operators(episodes, update), self.encode_in(update)
        queries = [[self._queries(episodes, t, views, v) for v in range(len(views))] for t in range(len(episodes))]
        # Supports and nodes of base classes are read on the graph itself, queries on their view of it.
        with_base = self.options.ce != "none" and len(self.base_nodes) > 0
        own = [episodes.support, *([self.base_nodes] if with_base else [])]
        asked = [[groups[v].graphs.nodes for groups in queries] for v in range(len(views))]
        if views[0] is self.operator:
            known = NodeVectors(encode, [*own, *asked[0]], self.operator)
            read = [known]
        else:
            known = NodeVectors(encode, own, self.operator)
            read = [NodeVectors(encode, nodes, view) for nodes, view in zip(asked, views)]
        losses = []
        for t, support in enumerate(episodes.support):
            groups = [(group, vectors) for group, vectors in zip(queries[t], read) if len(group.nodes)]
            losses.append(self._episode_loss(known.pick(support).view(*support.shape, -1), groups))
        total = torch.stack(losses).mean()
        if not with_base:
            return total
        return total + F.cross_entropy(self._classify(known.pick(self.base_nodes)), self._base_targets)

    def _queries(self, episodes: Episodes, t: int, views: Sequence[Operator], number: int) -> Queries:
        """Kept queries that episode ``t`` reads on one of the views: all, or under g-UMTRA those of one column."""
        slots, columns = np.nonzero(episodes.mask[t])
        nodes, view, adjacency = episodes.query[t][slots, columns], views[number], self.graph.adjacency
        neighbors = adjacency.indptr, adjacency.indices
        if isinstance(view, AugmentedOperator):
            mine = columns == number
            nodes, slots = nodes[mine], slots[mine]
            neighbors = view.adjacency_around(nodes)
        graphs = query_graphs(*neighbors, nodes, limit=self._limit, codes=self._codes, seed=self.seed)
        return Queries(nodes, slots, graphs)

    def _episode_loss(self, support: torch.Tensor, asked: Sequence[tuple[Queries, NodeVectors]]) -> torch.Tensor:
        """Loss of one episode: support vectors (way, shot, h), and its queries with the vectors of their view."""
        means = support.mean(dim=1)
        layers = self.layers(means.mean(dim=0))
        classes = class_vectors(means, layers)
        loss = classes.sum() * 0.0
        slots = torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *(q.slots for q, _ in asked)]))
        slots = slots.to(self.device)
        if asked:
            found = torch.cat([query_vectors(q.graphs, v.pick(q.graphs.nodes), layers) for q, v in asked])
            cosines = F.normalize(found, eps=1e-8) @ F.normalize(classes, eps=1e-8).T
            loss = F.cross_entropy(SHARPNESS * cosines, slots)
        if self.options.ce == "none" or len(self.base_nodes):
            return loss
        self.require_way(len(classes), "an episode")
        vectors = [support.flatten(0, 1)]
        targets = [torch.arange(len(classes), device=self.device).repeat_interleave(support.shape[1])]
        if self.options.ce == "support+query":
            vectors += [v.pick(q.nodes) for q, v in asked]
            targets.append(slots)
        return loss + F.cross_entropy(self._classify(torch.cat(vectors)), torch.cat(targets))

    def _classify(self, vectors: torch.Tensor) -> torch.Tensor:
        return vectors @ self.head_weight + self.head_bias
