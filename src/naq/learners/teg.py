r"""TEG: supports and queries of a task move each other, by rules that a rotation or shift of the task does not change.

Kim, Lee, Lee, Kim, Kim, Park, Task-Equivariant Graph Few-shot Learning, https://arxiv.org/abs/2305.18758

.. math::
    Z = \hat A\, \mathrm{dropout}(X) W + b, \qquad h_{vi} = \frac{1}{1 + d(v, a_i)}, \qquad
    (S', Q') = \mathrm{layers}\left(\mathrm{LayerNorm}(Z_S), h_S;\; \mathrm{LayerNorm}(Z_Q), h_Q\right)

.. math::
    \mathcal L = \gamma\, \ell(S', Q') + (1 - \gamma)\, \ell(Z_S, Z_Q), \qquad
    \ell(S, Q) = \frac{1}{NQ} \sum_q -\log \mathrm{softmax}_j\left(-|q - c_j(S)|^2\right)_{y_q}

with class means :math:`c_j`. The layers are those of Satorras, Hoogeboom, Welling, E(n) Equivariant Graph Neural
Networks, https://arxiv.org/abs/2102.09844, in which every point of one set is a neighbour of every point of the other:

.. math::
    m_{ij} = \mathrm{MLP}_e(h_i, h_j, |x_i - x_j|^2), \qquad
    x_i \leftarrow x_i + \frac{1}{|N(i)|} \sum_{j \in N(i)} (x_i - x_j)\, \phi(m_{ij}), \qquad
    h_i \leftarrow h_i + \mathrm{MLP}_h\left(h_i, \sum_{j \in N(i)} m_{ij}\right)

Rotating, reflecting or moving all coordinates does the same to the result and leaves h as it is.

Anchor :math:`a_i`, i = 0, 1, ..., is a new node linked to :math:`n / 2^{i+1}` random ones (rounded down, at least 1); d
counts hops in the graph with *all* anchors, and a node that no path joins to an anchor has h = 0.

Two answers: a head on Z (:meth:`TEG.encode`), and TEG's own, class means after adaptation (:meth:`TEG.solve`), which
looks at all queries of a task together and takes any number of classes.

Where the authors' text leaves it open: Z has no activation; LayerNorm has a scale (a shift would change no distance);
the plain loss is on Z before LayerNorm; missing queries send nothing and do not count; the last layer keeps h. Dropout,
of non-zero features, and the anchors' links are drawn by the content of nodes (:mod:`naq.learners.node_draws`).

Cost: features of the one-hop neighbourhood of N(K + Q) nodes forward and backward, N^2 K Q messages of width 64 per
layer and direction. Anchors once: every level of one breadth-first search from all of them reads each edge once.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-feat/teg", episodes=320)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import nn

from naq.episodes import Episodes
from naq.graph import Graph
from naq.learners.base import Learner, kept_queries, uniform
from naq.learners.node_draws import NodeDropout, draw_keys, node_names
from naq.learners.protonet import prototype_loss
from naq.nn import GraphOperator, OneLayerGCN
from naq.nn.rows import SparseRows, sparse_product, take_rows
from naq.options import option
from naq.random import torch_seed, word
from naq.tasks import Tasks

ANCHORS = 16
"""The width of structural features. Anchor i is linked to n / 2^(i+1) nodes, at least 1."""
LAYERS = 2
"""Equivariant layers."""
HIDDEN = 64
"""Width of their messages."""
STILL = 1e-3
"""Gain of the initial weights that move coordinates: points start nearly where they are, as in the authors' EGNN."""


class TEG(Learner):
    """Task-equivariant adaptation of supports and queries.

    Shapes:
        - ``solve``: Tasks -> (count, way * queries) int64
    """

    name = "teg"
    summary = "class means after an adaptation equivariant to the task"
    transductive = True
    also_solves = True

    unfit: ClassVar[Mapping[str, str]] = {
        "g-umtra": "a support and its query are the same node there, so equal structural features give the answer away."
    }
    encoder: OneLayerGCN  # type: ignore[assignment]  # the base class names its own default
    SOLVE_BYTES = 1 << 26
    """What the messages of the tasks solved at once may take; one task at least."""

    @dataclass(frozen=True)
    class Options(Learner.Options):
        latent: int = option(64, more_than=0)  # width of the vectors
        lr: float = option(1e-3, more_than=0)  # Adam's learning rate
        weight_decay: float = option(5e-4, at_least=0)  # Adam's
        dropout: float = option(0.5, at_least=0, below=1)  # share of the features dropped in training
        # weight of the loss after adaptation; the rest is the plain one's
        gamma: float = option(0.5, at_least=0, at_most=1)

    options: Options

    def build(self) -> None:
        self.operator = GraphOperator(self.graph, self.device)
        latent = self.options.latent
        if given := self.given_encoder():
            self.encoder, latent = given, given.latent
        else:
            drawn = torch.Generator().manual_seed(torch_seed(self.seed, "encoder/one-layer gcn"))
            weight = nn.init.xavier_uniform_(torch.empty(self.operator.width, latent), generator=drawn)
            self.encoder = OneLayerGCN(self.operator, weight, torch.zeros(latent))
        self.norm = nn.LayerNorm(latent, bias=False, device=self.device)
        self.adaptation = TaskAdaptation(LAYERS, ANCHORS, HIDDEN, self.generator("layers"), self.device)
        self._names = node_names(self.graph)
        features = structural_features(self.graph, ANCHORS, self._names, self.seed)
        self._structure = torch.from_numpy(features).to(self.device)

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        episode, slot, column = kept_queries(episodes, self.device)
        size, way, shot = episodes.support.shape
        support = episodes.support.reshape(size, -1)
        # A missing query is replaced by a support and not counted, so that all episodes have one shape.
        query = np.where(episodes.mask, episodes.query, episodes.support[:, :, :1]).reshape(size, -1)
        nodes, place = np.unique(np.concatenate([support, query], axis=1), return_inverse=True)
        vectors = self.encode_in(update)(nodes)
        if not len(episode):
            return vectors.sum() * 0.0
        known, asked = np.split(place.reshape(size, -1), [support.shape[1]], axis=1)
        kept = torch.tensor(episodes.mask.reshape(size, -1), dtype=vectors.dtype, device=self.device)
        moved = self._adapt(nodes, self.norm(vectors), known, asked, kept)
        plain = [self._pick(vectors, where) for where in (known, asked)]
        position = slot * episodes.queries + torch.from_numpy(column).to(self.device)

        def loss(supports: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
            prototypes = supports.unflatten(1, (way, shot)).mean(dim=2)
            return prototype_loss(prototypes, queries[episode, position], episode, slot)

        gamma = self.options.gamma
        return gamma * loss(*moved) + (1 - gamma) * loss(*plain)

    def encode_in(self, update: int) -> Callable[..., torch.Tensor]:
        given = self.make_encoder is not None  # drops what it drops itself
        return super().encode_in(update) if given else partial(self.encoder.encode, inputs=self.dropout(update))

    def dropout(self, update: int) -> Callable[[np.ndarray], torch.Tensor] | None:
        """X W of some nodes with the features that this update drops at zero; None if none are."""
        if not self.options.dropout:
            return None
        drop = NodeDropout(self._names, self.options.dropout, word(self.seed, f"{self.name}/dropout", update))
        return lambda nodes: multiply_thinned(self.graph, nodes, self.encoder.weight, drop)

    def _pick(self, rows: torch.Tensor, where: np.ndarray) -> torch.Tensor:
        return rows[torch.from_numpy(where).to(self.device)]

    def _adapt(
        self, nodes: np.ndarray, x: torch.Tensor, known: np.ndarray, asked: np.ndarray, kept: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Coordinates of supports and queries after adaptation, given those of ``nodes`` and who is where."""
        h = self._pick(self._structure, nodes)
        supports = Points(self._pick(x, known), self._pick(h, known), kept.new_ones(known.shape))
        return self.adaptation(supports, Points(self._pick(x, asked), self._pick(h, asked), kept))

    @torch.no_grad()
    def solve(self, tasks: Tasks) -> np.ndarray:
        """(count, way * queries) slots of the nearest class means after adaptation."""
        nodes = self.graph.known_nodes(tasks.nodes())
        x = self.norm(self.encoder.encode_blocks(nodes))
        known, asked = (np.searchsorted(nodes, ids) for ids in (tasks.support, tasks.query))
        # Both directions, before and after each of the four maps between widths HIDDEN.
        each = 4 * 8 * known.shape[1] * asked.shape[1] * HIDDEN
        step = max(1, self.SOLVE_BYTES // each)
        found = np.empty(tasks.query.shape, dtype=np.int64)
        for start in range(0, len(tasks), step):
            part = slice(start, start + step)
            supports, queries = self._adapt(nodes, x, known[part], asked[part], x.new_ones(asked[part].shape))
            prototypes = supports.unflatten(1, (tasks.way, tasks.shot)).mean(dim=2)
            found[part] = pair_distances(queries, prototypes).argmin(dim=2).cpu().numpy()
        return found


def multiply_thinned(graph: Graph, nodes: np.ndarray, weight: torch.Tensor, drop: NodeDropout) -> torch.Tensor:
    """X[nodes] W with some entries of X at zero; a zero entry stays what it is, so only the others are drawn."""
    features = graph.require_features("an encoder")
    if isinstance(features, np.ndarray):
        thinned = features[nodes] * drop.dense(nodes, features.shape[1])
        return torch.from_numpy(thinned).to(weight.device) @ weight
    taken = take_rows(features, nodes)
    kept = taken.data * drop.sparse(nodes, taken)
    return sparse_product(SparseRows(taken.indptr, taken.indices, kept, taken.shape), weight)


def draw_links(names: np.ndarray, anchors: int, seed: int) -> list[np.ndarray]:
    """Nodes that each anchor is linked to."""
    links = []
    for number in range(anchors):
        count = max(1, len(names) >> (number + 1))
        keys = draw_keys(names, word(seed, "anchors", number))
        links.append(np.sort(np.argpartition(keys, count - 1)[:count]))
    return links


def add_anchors(adjacency: sp.csr_array, links: list[np.ndarray]) -> sp.csr_array:
    """The graph with one more node for each anchor, after the others."""
    n = adjacency.shape[0]
    indptr = np.concatenate([[0], np.cumsum([len(nodes) for nodes in links], dtype=np.int64)])
    indices = np.concatenate(links)
    shape = (len(links), n)
    across = sp.csr_array((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=shape)
    return sp.csr_array(sp.block_array([[adjacency, across.T], [across, None]], format="csr"))


def count_hops(adjacency: sp.csr_array, sources: np.ndarray) -> np.ndarray:
    """(nodes, sources) int32 hops from each source, -1 without a path."""
    found = np.full((adjacency.shape[0], len(sources)), -1, dtype=np.int32)
    front = np.zeros(found.shape, dtype=np.float32)
    front[sources, np.arange(len(sources))] = 1
    level = 0
    while front.any():
        found[front > 0] = level
        front = (adjacency @ front) * (found < 0)
        level += 1
    return found


def structural_features(graph: Graph, anchors: int, names: np.ndarray, seed: int) -> np.ndarray:
    """(n, anchors) float32."""
    n = graph.num_nodes
    joined = add_anchors(graph.adjacency, draw_links(names, anchors, seed))
    away = count_hops(joined, np.arange(n, n + anchors))[:n]
    return np.where(away >= 0, 1.0 / (1.0 + np.maximum(away, 0)), 0.0).astype(np.float32)


@dataclass(frozen=True)
class Points:
    """Points of many tasks.

    Shapes:
        - ``x`` (tasks, points, d), ``h`` (tasks, points, s)
        - ``kept`` (tasks, points): 1 for points that are there, 0 for padding
    """

    x: torch.Tensor
    h: torch.Tensor
    kept: torch.Tensor


class Perceptron(nn.Module):
    """Linear, SiLU, linear; weights and biases within 1 / sqrt(inputs of their layer)."""

    def __init__(self, widths: Sequence[int], generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        first, hidden, last = widths
        self.weight1 = uniform((first, hidden), first, generator, device)
        self.bias1 = uniform((hidden,), first, generator, device)
        self.weight2 = uniform((hidden, last), hidden, generator, device)
        self.bias2 = uniform((last,), hidden, generator, device)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.after_first(inputs @ self.weight1 + self.bias1)

    def after_first(self, first: torch.Tensor) -> torch.Tensor:
        """The rest, given the outputs of the first linear layer."""
        return F.silu(first) @ self.weight2 + self.bias2


class Mover(nn.Module):
    """phi: how far a message moves a point along the line to its sender; linear, SiLU, linear without bias."""

    def __init__(self, hidden: int, generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        self.weight1 = uniform((hidden, hidden), hidden, generator, device)
        self.bias1 = uniform((hidden,), hidden, generator, device)
        last = nn.init.xavier_uniform_(torch.empty(hidden, 1), gain=STILL, generator=generator)
        self.weight2 = nn.Parameter(last.to(device))

    def forward(self, messages: torch.Tensor) -> torch.Tensor:
        """(..., hidden) -> (...)"""
        return (F.silu(messages @ self.weight1 + self.bias1) @ self.weight2).squeeze(-1)


class EquivariantLayer(nn.Module):
    """One round of messages in both directions.

    Args:
        structure: width of h.
        hidden: width of messages.
        last: whether h is not needed any more and stays as it is; its weights would never be trained.
    """

    def __init__(
        self, structure: int, hidden: int, generator: torch.Generator, device: torch.device, *, last: bool = False
    ) -> None:
        super().__init__()
        self.structure = structure
        self.message = Perceptron((2 * structure + 1, hidden, hidden), generator, device)
        self.move = Mover(hidden, generator, device)
        self.update: Perceptron | None = None
        if not last:
            self.update = Perceptron((structure + hidden, hidden, structure), generator, device)

    def forward(self, one: Points, two: Points) -> tuple[Points, Points]:
        to_one, to_two = self._messages(one, two)
        return self._change(one, two, to_one), self._change(two, one, to_two.transpose(1, 2))

    def _messages(self, one: Points, two: Points) -> torch.Tensor:
        """(2, tasks, points of one, points of two, hidden): messages to ``one``, then those to ``two``."""
        own, other, distance = self.message.weight1.split([self.structure, self.structure, 1])
        apart = pair_distances(one.x, two.x)[..., None] * distance[0] + self.message.bias1
        to_one = apart + (one.h @ own)[:, :, None] + (two.h @ other)[:, None]
        to_two = apart + (one.h @ other)[:, :, None] + (two.h @ own)[:, None]
        return F.silu(self.message.after_first(torch.stack([to_one, to_two])))

    def _change(self, points: Points, senders: Points, messages: torch.Tensor) -> Points:
        """``points`` after messages (tasks, points, senders, hidden)."""
        there = senders.kept[:, None]
        steps = self.move(messages) * (there / there.sum(dim=2, keepdim=True).clamp(min=1))
        x = points.x + points.x * steps.sum(dim=2, keepdim=True) - steps @ senders.x
        if self.update is None:
            return Points(x, points.h, points.kept)
        total = (messages * there[..., None]).sum(dim=2)
        return Points(x, points.h + self.update(torch.cat([points.h, total], dim=2)), points.kept)


class TaskAdaptation(nn.Module):
    """Equivariant layers one after the other; the coordinates that supports and queries end with.

    Shapes:
        - ``forward``: supports and queries of t tasks -> (t, supports, d), (t, queries, d)
    """

    def __init__(
        self, layers: int, structure: int, hidden: int, generator: torch.Generator, device: torch.device
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EquivariantLayer(structure, hidden, generator, device, last=number == layers - 1)
            for number in range(layers)
        )

    def forward(self, support: Points, query: Points) -> tuple[torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            support, query = layer(support, query)
        return support.x, query.x


def pair_distances(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """(t, p, q) squared distances of all pairs of (t, p, d) and (t, q, d)."""
    sizes = one.pow(2).sum(dim=2)[:, :, None] + two.pow(2).sum(dim=2)[:, None]
    return sizes - 2 * (one @ two.transpose(1, 2))
