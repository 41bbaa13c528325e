r"""VNT: a graph transformer, pre-trained without labels and frozen; each task tunes a few virtual nodes next to its
sequences.

Tan, Guo, Ding, Liu, Virtual Node Tuning for Few-shot Node Classification, https://arxiv.org/abs/2306.06063, on
Zhang, Zhang, Xia, Sun, Graph-Bert: Only Attention is Needed for Learning Graph Representations,
https://arxiv.org/abs/2001.05140

A node is read as a sequence (:mod:`naq_paper.rivals.vnt.node_sequences`) through two layers of BERT
(:mod:`naq_paper.rivals.vnt.bert`). Its vector e is the mean of the output tokens. Pre-training is

.. math::
    \frac{1}{n d} \left|E W + b - X\right|^2 \quad\text{and}\quad
    \frac{1}{n^2} \sum_{i, j} \left(\cos(e_i, e_j) - \hat A_{ij}\right)^2

one after the other. Neither is ever dense in the graph: with :math:`F = [E, 1]`, :math:`D = [W^\top, b]`, and for rows
of E of length one,

.. math::
    |F D^\top - X|^2 = \langle F^\top F, D^\top D \rangle - 2 \langle F, X D \rangle + |X|^2, \qquad
    |E E^\top - \hat A|^2 = |E^\top E|^2 - 2 \langle E, \hat A E \rangle + |\hat A|^2

Then the network is frozen; a task trains P virtual nodes that join all of its sequences, and a linear classifier, on
its supports. Tasks are tuned together, and a task gets the same answers alone and among others.

VNT has no public code: what its paper leaves open is an option. Prompt transfer from base classes (it needs their
labels) and Graph-Bert's residual are left out. Tokens that a small component cannot fill are absent, from attention and
from the mean. With batches, pairs of the structure loss are those within a batch.

Cost: an update takes n * (k + 1) tokens through the layers, the non-zeros of X and the edges times the width. Memory:
about n (k + 1) * 40 * latent numbers.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="vnt")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from naq.errors import OptionError
from naq.files import cache_folder
from naq.options import Value, option
from naq.tasks import Tasks
from naq_paper.rivals.fixed_order import total
from naq_paper.rivals.pieces import Piece, Spread
from naq_paper.rivals.trained import TrainedEmbedder
from naq_paper.rivals.vnt.bert import SPREAD, Drops, Frozen, GraphBert, Tuning, class_indices, normal, tune
from naq_paper.rivals.vnt.node_sequences import CODES, check_context, sequences

BLOCK = 4096
"""Nodes embedded at once."""
CACHE_FROM = 5_000
"""Fewer nodes are not worth a file of their context."""
TUNING_BYTES = 1 << 29
"""What tasks that are tuned together may take."""
TUNED_TOGETHER = 256
"""Tasks tuned together at most: fewer spend their time on calls, more gain nothing."""
OBJECTIVES = ("attributes", "structure", "both", "joint")


class VNT(TrainedEmbedder):
    """Graph-Bert with virtual node tuning.

    Shapes:
        - ``loss``: a piece -> scalar
        - ``encode_all``: (n, latent)
        - ``solve``: tasks of any way and shot -> (count, way * queries)
    """

    name = "vnt"
    summary = "a graph transformer with virtual nodes tuned per task"
    hops = 0
    inductive = False  # roles are ranked over the graph at hand
    solves_tasks = True
    also_heads = True
    deterministic_options: ClassVar[Mapping[str, Value]] = {"dropout": 0.0, "attention_dropout": 0.0}

    @dataclass(frozen=True)
    class Options(TrainedEmbedder.Options):
        latent: int = option(64, more_than=0)  # width of tokens and vectors; Graph-Bert: 32
        layers: int = option(2, more_than=0)
        heads: int = option(2, more_than=0)  # of attention
        context: int = option(7, more_than=0)  # k, nodes of a sequence, the node itself not counted
        wl: str = option("two", choices=("one", "two"))  # iterations that colour roles; one as in the released code
        roles: int = option(CODES, more_than=0)  # rows of their table
        dropout: float = option(0.5, at_least=0, below=1)  # between the parts
        attention_dropout: float = option(0.3, at_least=0, below=1)
        # both: the first half of the epochs attributes, then structure; joint: attributes + structure_weight times
        # structure
        objective: str = option("both", choices=OBJECTIVES)
        structure_weight: float = option(1.0, more_than=0)
        lr: float = option(1e-3, more_than=0)  # Adam's learning rate
        weight_decay: float = option(5e-4, at_least=0)  # Adam's
        prompts: int = option(10, at_least=0)  # virtual nodes; 0 for none
        deep: bool = option(False)  # whether every layer has its own virtual nodes
        # the classifier reads the real tokens, or the target token
        read: str = option("mean", choices=("mean", "target"))
        steps: int = option(100, at_least=0)  # of Adam per task
        tune_lr: float = option(1e-2, more_than=0)  # of Adam per task
        # With batches an epoch moves the weights many times: a tenth of the epochs, with weight_decay 1e-4, does then.
        epochs: int = option(400, at_least=0)

    options: Options

    def check_options(self) -> None:
        super().check_options()
        width, heads, context = self.options.latent, self.options.heads, self.options.context
        if width % heads:
            raise OptionError(
                f"option latent of vnt is {width}, which {heads} heads cannot share equally; give a multiple of heads."
            )
        if context >= CODES:
            raise OptionError(
                f"option context of vnt is {context}; expected at most {CODES - 1}, the number of positions that "
                "have a code."
            )
        check_context(self.graph, context)

    def build(self) -> None:
        o, d, hidden = self.options, self.graph.num_features, self.options.latent
        self.sequences = sequences(
            self.graph, o.context, iterations=1 if o.wl == "one" else 2, roles=o.roles,
            cache=cache_folder() if self.graph.num_nodes >= CACHE_FROM else None, progress=self.progress,
        )  # fmt: skip
        network = GraphBert(d, hidden, o.layers, o.heads, roles=o.roles, generator=self.generator("network"))
        self.network = network.to(self.device)
        weight = normal(d, hidden, generator=self.generator("decoder")).detach()
        self.decoder = nn.Parameter(F.pad(weight, (0, 1)).to(self.device))  # the last column is the bias
        self._scale = self._tensor((1.0 / np.sqrt(self.graph.degrees + 1.0)).astype(np.float32))

    def step_bytes(self, nodes: float, edges: float, entries: float) -> float:
        hidden, layers, heads = self.options.latent, self.options.layers, self.options.heads
        t = self.sequences.length
        masks = t * (hidden + layers * (2 * hidden + heads * t))
        return 4 * nodes * (t * 8 * hidden + masks + self._layer_bytes(t) / 4) + 40 * edges + 16 * entries

    def _layer_bytes(self, length: int) -> float:
        """Bytes that all layers keep of one sequence for the gradient."""
        hidden, layers, heads = self.options.latent, self.options.layers, self.options.heads
        return 4 * length * layers * (22 * hidden + 4 * heads * length)

    # Pre-training.

    def loss(self, piece: Piece, update: int) -> torch.Tensor:
        drops = Drops(self.generator("dropout", update), self.options.dropout, self.options.attention_dropout)
        rows = None
        if piece.whole:  # X and its transpose are at hand
            rows = self.network.rows(piece.inputs(self.network.weight), self._tensor(self.sequences.roles))
        vectors = self.vectors(piece.nodes, rows, drops)
        objective = self.objective(update)
        if objective == "attributes":
            return self.attribute_loss(vectors, piece)
        if objective == "structure":
            return self.structure_loss(vectors, piece)
        weight = self.options.structure_weight
        return self.attribute_loss(vectors, piece) + weight * self.structure_loss(vectors, piece)

    def objective(self, update: int) -> str:
        """What an update is about: ``attributes``, ``structure`` or ``joint``."""
        chosen = self.options.objective
        if chosen != "both":
            return chosen
        return "attributes" if 2 * update < self.updates else "structure"

    def attribute_loss(self, vectors: torch.Tensor, piece: Piece) -> torch.Tensor:
        """Mean square between the features and what the decoder makes of the vectors."""
        x, decoder = piece.features, self.decoder
        squares = float(np.square(x if isinstance(x, np.ndarray) else x.data, dtype=np.float64).sum())
        rows = F.pad(vectors, (0, 1), value=1.0)
        both = total((rows * piece.inputs(decoder)).sum(dim=1))
        return (((rows.T @ rows) * (decoder.T @ decoder)).sum() - 2 * both + squares) / (len(rows) * len(decoder))

    def structure_loss(self, vectors: torch.Tensor, piece: Piece) -> torch.Tensor:
        """Mean square between A_hat, with degrees of the whole graph, and the cosines, over all pairs of the piece."""
        scale = self._scale[self._tensor(piece.nodes)]
        spread = Spread(piece, scale[piece.rows] * scale[piece.columns])
        units = F.normalize(vectors)
        both = total((units * (spread @ units)).sum(dim=1))
        return ((units.T @ units).square().sum() - 2 * both + total(spread.values.square())) / len(units) ** 2

    # Vectors.

    def vectors(self, nodes: np.ndarray, rows: torch.Tensor | None = None, drops: Drops | None = None) -> torch.Tensor:
        """(m, latent); ``rows`` are those of all nodes, where they are known."""
        tokens, present = self._tokens(nodes, rows, drops)
        return self.network(tokens, present, drops)

    def _tokens(
        self, nodes: np.ndarray, rows: torch.Tensor | None = None, drops: Drops | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(m, t, latent) tokens of the nodes' sequences, and which of them are present."""
        members = self.sequences.nodes[nodes]
        there = members >= 0
        place = np.maximum(members, 0)
        if rows is None:
            union, local = np.unique(members[there], return_inverse=True)
            place[there] = local.ravel()
            place[~there] = 0
            rows = self._rows(union)
        hops, present = self._tensor(self.sequences.hops[nodes].astype(np.int64)), self._tensor(there)
        return self.network.tokens(rows, self._tensor(place), hops, drops), present

    def _rows(self, nodes: np.ndarray) -> torch.Tensor:
        inputs = self.operator.inputs(nodes, self.network.weight)
        return self.network.rows(inputs, self._tensor(self.sequences.roles[nodes]))

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        n = self.graph.num_nodes
        rows = self._rows(np.arange(n))
        blocks = [np.arange(start, min(n, start + BLOCK)) for start in range(0, n, BLOCK)]
        return torch.cat([self.vectors(block, rows) for block in blocks])

    # Tasks.

    @torch.no_grad()
    def solve(self, tasks: Tasks) -> np.ndarray:
        o = self.options
        support, query = self.graph.known_nodes(tasks.support), self.graph.known_nodes(tasks.query)
        tuning = Tuning(o.steps, o.tune_lr, o.deep, o.read)
        size = o.layers if o.deep else 1, o.prompts, o.latent
        start = SPREAD * torch.randn(size, generator=self.generator("virtual nodes")).to(self.device)
        slots = self._tensor(tasks.support_slots)
        out = np.empty(query.shape, dtype=np.int64)
        for part in self._chunks(len(tasks), support.shape[1]):
            weights = tune(self.network, self._frozen(support[part]), slots, tasks.way, start, tuning)
            asked, found = query[part], out[part]
            for few in self._chunks(len(asked), query.shape[1]):
                frozen = self._frozen(asked[few])
                found[few] = (
                    class_indices(self.network, frozen, [weight[few] for weight in weights], tuning).cpu().numpy()
                )
        return out

    def _chunks(self, count: int, sequences: int) -> list[slice]:
        """Tasks of ``sequences`` each that go through the network together."""
        each = sequences * self._layer_bytes(self.sequences.length + self.options.prompts)
        size = int(min(TUNED_TOGETHER, max(1, TUNING_BYTES // each)))
        return [slice(first, first + size) for first in range(0, count, size)]

    def _frozen(self, nodes: np.ndarray) -> Frozen:
        flat = np.array(nodes).ravel()  # a copy: tasks are read-only, which torch warns of
        tokens, present = self._tokens(flat)
        return Frozen(tokens.view(*nodes.shape, *tokens.shape[1:]), present.view(*nodes.shape, -1))
