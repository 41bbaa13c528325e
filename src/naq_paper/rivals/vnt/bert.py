r"""Graph-Bert's transformer from plain operations, and virtual nodes that are tuned per task on it.

Zhang, Zhang, Xia, Sun, Graph-Bert, https://arxiv.org/abs/2001.05140; Tan, Guo, Ding, Liu, Virtual Node Tuning,
https://arxiv.org/abs/2306.06063

A token of node u in the sequence of node v, and a layer, as BERT's, with all widths H:

.. math::
    h_u = \mathrm{dropout}\left(\mathrm{LN}\left(x_u W + b + R_{role(u)} + P_{position} + D_{hops(v, u)}\right)\right)
.. math::
    a = \mathrm{LN}(h + \mathrm{dropout}(\mathrm{attention}(h) W_o + b_o)), \qquad
    h' = \mathrm{LN}(a + \mathrm{dropout}(\mathrm{GELU}(a W_1 + b_1) W_2 + b_2))

Attention is over the tokens that are present, and drops weights. The vector of v is the mean over the tokens that are
present. Weights start as N(0, 0.02), biases as 0.

P virtual nodes join the tokens of every sequence of a task after the embedding layer; the classifier reads the real
tokens of the output:

.. math::
    [h'_0 .. h'_k, \cdot] = \mathrm{layers}\left([h_0 .. h_k, p_1 .. p_P]\right), \qquad
    \mathcal L = \frac{1}{NK} \sum_{\text{supports}} \mathrm{CE}\left(C \, \mathrm{mean}(h'_0 .. h'_k) + c,\; y\right)

Only p, C and c are trained, by Adam, without dropout. With ``deep`` every layer has its own virtual nodes in place
of those that come out of the layer before. Virtual nodes start the same for all tasks, the classifier as zero, so that
neither the other tasks nor the order of the classes matters.

Shapes: m sequences of t tokens, r distinct nodes in them; c tasks of s sequences each: virtual nodes (c, 1 or layers,
P, H), classifier (c, H, N) and (c, 1, N).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from naq.nn.rows import mean_present
from naq_paper.rivals.fixed_order import drop_values, ordered_softmax
from naq_paper.rivals.vnt.node_sequences import CODES

SPREAD = 0.02
"""Standard deviation of the initial weights."""
TINY = 1e-12
"""What the norm adds to a variance."""


@dataclass(frozen=True)
class Drops:
    """Shares of the hidden values and of attention that are dropped, and the generator of the masks."""

    generator: torch.Generator
    hidden: float
    attention: float

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        return drop_values(values, self.hidden, self.generator)


class Norm(nn.Module):
    """Every token's numbers to mean 0 and variance 1, then scaled and shifted."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        # Scaled outside: PyTorch splits the sums over tokens in its own gradient of weight and bias among threads.
        return torch.addcmul(self.bias, F.layer_norm(rows, self.bias.shape, eps=TINY), self.weight)


class Layer(nn.Module):
    """One layer, in three steps, so that what is known already need not be computed again."""

    def __init__(self, hidden: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden, self.heads = hidden, heads
        self.into = dense(hidden, 3 * hidden, generator)  # queries, keys and values
        self.out = dense(hidden, hidden, generator)
        self.out_norm = Norm(hidden)
        self.up = dense(hidden, hidden, generator)
        self.down = dense(hidden, hidden, generator)
        self.down_norm = Norm(hidden)

    def project(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values of the tokens."""
        queries, keys, values = self.into(tokens).split(self.hidden, dim=-1)
        return queries, keys, values

    def finish(self, tokens: torch.Tensor, context: torch.Tensor, drops: Drops | None = None) -> torch.Tensor:
        """The layer's output for tokens whose attention gave ``context``."""
        mixed = self.out(context)
        tokens = self.out_norm(tokens + (mixed if drops is None else drops(mixed)))
        wide = self.down(F.gelu(self.up(tokens)))
        return self.down_norm(tokens + (wide if drops is None else drops(wide)))

    def forward(self, tokens: torch.Tensor, absent: torch.Tensor, drops: Drops | None = None) -> torch.Tensor:
        return self.finish(tokens, attend(*self.project(tokens), absent, self.heads, drops), drops)


def attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, absent: torch.Tensor, heads: int,
    drops: Drops | None = None,
) -> torch.Tensor:  # fmt: skip
    """For every query the values of the present keys, weighted per head; ``absent`` is 0 for these, else -inf.

    Shapes: queries (m, t, heads * w), keys and values (m, s, heads * w), absent (m, s) -> (m, t, heads * w).
    """
    m, t, width = queries.shape
    s = keys.shape[1]
    apart = (part.unflatten(2, (heads, -1)).transpose(1, 2).flatten(0, 1) for part in (queries, keys, values))
    q, k, v = apart  # (m * heads, t or s, w)
    missing = absent[:, None, None].expand(m, heads, 1, s).reshape(m * heads, 1, s)
    weights = ordered_softmax(torch.baddbmm(missing, q, k.transpose(1, 2), alpha=(width // heads) ** -0.5))
    if drops is not None:
        weights = drop_values(weights, drops.attention, drops.generator)
    return torch.bmm(weights, v).view(m, heads, t, -1).transpose(1, 2).reshape(m, t, width)


class GraphBert(nn.Module):
    """Tokens, layers, mean.

    Args:
        features, hidden, layers, heads: d, H, and how many layers and attention heads there are.
        roles: rows of the table of roles.
        generator: of the initial weights.

    Shapes:
        - ``rows``: X W (r, H) and roles (r,) -> (r, H)
        - ``tokens``: rows (r, H), the row of each token's node (m, t) and codes of hops (m, t) -> (m, t, H)
        - ``forward``: tokens (m, t, H) and present (m, t) -> (m, H)
    """

    def __init__(
        self, features: int, hidden: int, layers: int, heads: int, *, roles: int = CODES, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = normal(features, hidden, generator=generator)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.role = normal(roles, hidden, generator=generator)
        self.position = normal(CODES, hidden, generator=generator)
        self.hop = normal(CODES, hidden, generator=generator)
        self.norm = Norm(hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, generator) for _ in range(layers))

    def rows(self, inputs: torch.Tensor, roles: torch.Tensor) -> torch.Tensor:
        """What a node brings into every sequence: its features and its role."""
        return inputs + self.bias + F.embedding(roles, self.role)

    def tokens(
        self, rows: torch.Tensor, place: torch.Tensor, hops: torch.Tensor, drops: Drops | None = None
    ) -> torch.Tensor:
        summed = F.embedding(place, rows) + F.embedding(hops, self.hop)
        tokens = self.norm(summed + self.position[: place.shape[1]])
        return tokens if drops is None else drops(tokens)

    def forward(self, tokens: torch.Tensor, present: torch.Tensor, drops: Drops | None = None) -> torch.Tensor:
        absent = absence(present)
        for layer in self.layers:
            tokens = layer(tokens, absent, drops)
        return mean_present(tokens, present)


def dense(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """x W^T + b."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[arg-type]
    nn.init.normal_(layer.weight, std=SPREAD, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def normal(*shape: int, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter(nn.init.normal_(torch.empty(*shape), std=SPREAD, generator=generator))


def absence(present: torch.Tensor) -> torch.Tensor:
    """0 where a token is present, -inf where it is not: added to scores before the softmax."""
    return torch.zeros(present.shape, device=present.device).masked_fill_(~present, -torch.inf)


@dataclass(frozen=True)
class Tuning:
    """How tasks are tuned.

    Args:
        steps, lr: of Adam.
        deep: whether every layer has its own virtual nodes.
        read: ``mean`` over the real tokens, or the ``target`` token.
    """

    steps: int
    lr: float
    deep: bool = False
    read: str = "mean"


@dataclass(frozen=True)
class Frozen:
    """The sequences of a chunk of tasks as the frozen embedding layer gives them.

    Shapes:
        - ``tokens``: (c, s, t, H)
        - ``present``: (c, s, t)
    """

    tokens: torch.Tensor
    present: torch.Tensor


class PromptedBert:
    """A frozen network on fixed sequences with virtual nodes: virtual nodes in, vectors (c, s, H) out."""

    def __init__(self, network: GraphBert, frozen: Frozen, tuning: Tuning) -> None:
        self.network, self.tuning = network, tuning
        self.tasks, self.sequences, self.length, self.hidden = frozen.tokens.shape
        self.tokens, self.present = frozen.tokens.flatten(0, 1), frozen.present.flatten(0, 1)
        self.first = [part.contiguous() for part in self._layer(0).project(self.tokens)]

    def _layer(self, number: int) -> Layer:
        layer = self.network.layers[number]
        assert isinstance(layer, Layer)
        return layer

    def __call__(self, virtual: torch.Tensor) -> torch.Tensor:
        """Vectors given virtual nodes (c, 1 or layers, P, H)."""
        absent = F.pad(absence(self.present), (0, virtual.shape[2]))
        last, tokens = len(self.network.layers) - 1, self.tokens
        for number in range(last + 1):
            layer = self._layer(number)
            if number == 0 or self.tuning.deep:
                parts = self.first if number == 0 else layer.project(tokens)
                tokens, queries, keys, values = self._joined(layer, tokens, parts, virtual[:, number])
            else:
                queries, keys, values = layer.project(tokens)
            if self.tuning.deep or number == last:  # what comes out of the virtual nodes is read by none
                queries, tokens = queries[:, : self.length], tokens[:, : self.length]
            tokens = layer.finish(tokens, attend(queries, keys, values, absent, layer.heads))
        return self._read(tokens).view(self.tasks, self.sequences, self.hidden)

    def _joined(
        self, layer: Layer, tokens: torch.Tensor, parts: Iterable[torch.Tensor], virtual: torch.Tensor
    ) -> list[torch.Tensor]:
        """Tokens, queries, keys and values of the real tokens, then of the virtual nodes, projected once per task."""
        added = (virtual, *layer.project(virtual))
        return [torch.cat([one, self._everywhere(two)], dim=1) for one, two in zip((tokens, *parts), added)]

    def _everywhere(self, rows: torch.Tensor) -> torch.Tensor:
        """(c, P, w) -> (c * s, P, w): the same for every sequence of a task."""
        wide = rows[:, None].expand(-1, self.sequences, -1, -1)
        return wide.reshape(self.tasks * self.sequences, *rows.shape[1:])

    def _read(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, 0] if self.tuning.read == "target" else mean_present(tokens, self.present)


def tune(
    network: GraphBert, support: Frozen, slots: torch.Tensor, way: int, start: torch.Tensor, tuning: Tuning
) -> list[torch.Tensor]:
    """Virtual nodes (c, 1 or layers, P, H), classifier (c, H, N) and bias (c, 1, N) after ``tuning.steps`` steps.

    Args:
        slots: (s,) class of each support.
        start: (1 or layers, P, H) initial virtual nodes.
    """
    tasks = len(support.tokens)
    hidden, device = support.tokens.shape[-1], support.tokens.device
    weights = [start.expand(tasks, *start.shape).clone()]
    weights += [torch.zeros(tasks, hidden, way, device=device), torch.zeros(tasks, 1, way, device=device)]
    with _frozen(network):
        prompted = PromptedBert(network, support, tuning)
        fixed = prompted(weights[0]) if start.shape[1] == 0 else None  # nothing to tune but the classifier
        leaves = [weight.requires_grad_() for weight in weights]
        adam = torch.optim.Adam(leaves, lr=tuning.lr)  # moves every number on its own, so tasks do not meet
        target = slots.expand(tasks, -1)
        for _ in range(tuning.steps):
            with torch.enable_grad():
                vectors = prompted(leaves[0]) if fixed is None else fixed
                logits = classified(vectors, *leaves[1:])
                loss = F.cross_entropy(logits.transpose(1, 2), target, reduction="none").mean(dim=1).sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return [leaf.detach() for leaf in leaves]


def class_indices(network: GraphBert, query: Frozen, weights: list[torch.Tensor], tuning: Tuning) -> torch.Tensor:
    """(c, s) slots of the queries."""
    vectors = PromptedBert(network, query, tuning)(weights[0])
    return classified(vectors, *weights[1:]).argmax(dim=-1)


def classified(vectors: torch.Tensor, classifier: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """(c, s, N) logits of the vectors (c, s, H)."""
    return torch.baddbmm(bias, vectors, classifier)


@contextmanager
def _frozen(network: GraphBert) -> Iterator[None]:
    """No gradient for the network's weights, and none kept for them."""
    before = [(weight, weight.requires_grad) for weight in network.parameters()]
    try:
        for weight, _ in before:
            weight.requires_grad_(False)
        yield
    finally:
        for weight, flag in before:
            weight.requires_grad_(flag)
